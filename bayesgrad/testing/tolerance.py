"""The one tolerance policy: |got - expected| <= SAFETY * u(dtype) * e, entry by entry, and nothing added.

u is half the machine epsilon of the dtype in which the value under test was computed, and e the running error bound of
that entry (:mod:`bayesgrad.testing.jets`): it grows with the lengths of the sums and with their cancellation, so
conditioning is in it and no absolute term is needed. SAFETY = 4 covers the two computations that are compared (each
may err by its own bound) and the factor by which another order of the same operations can exceed the tracked bound;
docs/checks.md derives it. An entry whose bound is 0 (a masked pair) must be exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SAFETY = 4.0


ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Half the distance from 1 to the next number, by dtype."""


def unit_roundoff(dtype: object = np.float64) -> float:
    """Half the distance from 1 to the next number of the dtype."""
    return ROUNDOFF[dtype if isinstance(dtype, str) else np.dtype(dtype).name]  # type: ignore[call-overload]


def tolerance(bound: np.ndarray, dtype: object = np.float64) -> np.ndarray:
    """The largest admitted difference, given a running error bound in roundings."""
    return SAFETY * unit_roundoff(dtype) * np.asarray(bound, dtype=np.float64)


@dataclass(frozen=True)
class Difference:
    """Where two arrays differ most: in units of the tolerance, and the two numbers themselves."""

    in_tolerance: float
    relative: float
    index: tuple[int, ...]
    got: float
    expected: float
    tolerance: float
    why: str = ""

    @property
    def agrees(self) -> bool:
        """Whether every entry is within its tolerance."""
        return self.in_tolerance <= 1.0


def compare(got: object, expected: np.ndarray, admitted: np.ndarray) -> Difference:
    """Compare entry by entry; another shape, or NaN where none is expected, is an infinite difference."""
    expected = np.asarray(expected, dtype=np.float64)
    admitted = np.broadcast_to(np.asarray(admitted, dtype=np.float64), expected.shape)
    actual = np.asarray(got)
    if actual.shape != expected.shape:
        return Difference(np.inf, np.inf, (), np.nan, np.nan, 0.0, f"shape {actual.shape}, expected {expected.shape}")
    if actual.dtype.kind not in "fiub":
        return Difference(np.inf, np.inf, (), np.nan, np.nan, 0.0, f"dtype {actual.dtype}, expected real numbers")
    actual = actual.astype(np.float64)
    if expected.size == 0:
        return Difference(0.0, 0.0, (), 0.0, 0.0, 0.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.abs(actual - expected)
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        ratio = np.where(same, 0.0, np.where(admitted > 0, gap / admitted, np.inf))
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        largest = np.max(np.abs(expected), initial=0.0)
        relative = np.max(np.where(same, 0.0, np.where(np.isfinite(gap), gap, np.inf))) / (largest or 1.0)
    at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    index = tuple(int(i) for i in at)
    return Difference(
        float(ratio[at]), float(relative), index, float(actual[at]), float(expected[at]), float(admitted[at])
    )
