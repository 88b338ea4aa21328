"""What a format admits: where a kernel in it may round, and what numbers it can hold.

``u`` rounds every operation and every addend of a sum. In 16 bits sums are taken to be accumulated in float32 and
scores, weights, their gradients and the results to be ``stored`` in 16 bits. "tf32" is float32 whose matrix products
round their factors to 11 bits (``product``). Below ``floor`` a number may be flushed to 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayesgrad.testing.tolerance import ROUNDOFF, SAFETY


@dataclass(frozen=True)
class Format:
    """One format that a kernel can claim. ``array``: the dtype of its NumPy arrays; ``digits``: its significand."""

    name: str
    array: str
    digits: int
    u: float
    floor: float
    least: float
    largest: float
    stored: float = 0.0
    product: float = 0.0
    reach: int = 40
    huge: float = 2.0**100

    @property
    def coarse(self) -> float:
        """The coarsest rounding that it admits."""
        return max(self.u, self.stored, self.product)

    @property
    def levels(self) -> tuple[float, ...]:
        """Sizes of scores at which one rounding of a score does not yet move a weight by a fourth."""
        return tuple(level for level in (10.0, 30.0, 100.0) if 2 * SAFETY * level * self.coarse < 0.5)

    @property
    def wide(self) -> type:
        """The dtype in which the truth is computed: wider than the format."""
        return np.longdouble if self.digits == 53 else np.float64

    def round(self, x: np.ndarray, digits: int = 0) -> np.ndarray:
        """Rounded to ``digits`` significant bits (0: as many as the format has), and to its smallest number."""
        x = np.asarray(x, dtype=np.float64)
        fraction, exponent = np.frexp(x)
        unit = 2.0 ** (min(digits, self.digits) or self.digits)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            rounded = np.ldexp(np.round(fraction * unit) / unit, exponent)
            near = np.abs(x) < 2.0 ** (self.digits + 2) * self.least
            return np.where(near, np.round(np.where(near, rounded, 0.0) / self.least) * self.least, rounded)

    def gradual(self) -> Format:
        """The same without flushing: numbers down to the smallest are kept."""
        return replace(self, floor=self.least)


def _format(name: str, digits: int, least: float, floor: float, largest: float, **more: float | int | str) -> Format:
    array = name if name in ("float64", "float32", "float16") else "float32"
    u = ROUNDOFF["float64" if name == "float64" else "float32"]
    return Format(name, array, digits, u, floor, least, largest, **more)  # type: ignore[arg-type]


FORMATS = {
    "float64": _format("float64", 53, 2.0**-1074, 2.0**-1022, 2.0**1023, huge=2.0**996),
    "float32": _format("float32", 24, 2.0**-149, 2.0**-126, 2.0**127),
    "tf32": _format("tf32", 24, 2.0**-149, 2.0**-126, 2.0**127, product=2.0**-11),
    "float16": _format("float16", 11, 2.0**-24, 2.0**-24, 2.0**15, stored=2.0**-11, reach=3, huge=2.0**8),
    "bfloat16": _format("bfloat16", 8, 2.0**-133, 2.0**-126, 2.0**127, stored=2.0**-8),
}
"""name -> format. bfloat16 arrives in float32 arrays where a library has no such dtype."""
