"""Means with intervals, paired differences: the whole statistics that verdicts rest on (no torch).

Intervals are 95% percentile bootstrap over seeds, from a fixed generator, so that a record is reproducible to the bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

RESAMPLES = 10_000


def interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean; (nan, nan) without values, the value twice when there is one."""
    data = np.asarray(values, dtype=float)
    if len(data) == 0:
        return math.nan, math.nan
    draws = np.random.default_rng(0).integers(len(data), size=(RESAMPLES, len(data)))
    low, high = np.quantile(data[draws].mean(-1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p of the exact sign-flip test that paired ``differences`` centre on 0 (all 2^k sign patterns)."""
    data = np.asarray(differences, dtype=float)
    if not 1 <= len(data) <= 16:
        raise ValueError(f"differences: got {len(data)} of them, expected 1 to 16")
    seen = abs(data.mean())
    means = [abs((np.asarray(signs) * data).mean()) for signs in itertools.product((1, -1), repeat=len(data))]
    return float(np.mean([mean >= seen - 1e-12 * max(seen, 1.0) for mean in means]))


def first_at_most(curve: Sequence[float], level: float) -> int | None:
    """The first index at which ``curve`` is at or below ``level``; None when it never is."""
    return next((index for index, value in enumerate(curve) if value <= level), None)


def summary(values: Sequence[float], unit: str) -> dict[str, object]:
    """Mean, interval and the value of each seed, with its unit."""
    return {"mean": float(np.mean(values)), "interval": list(interval(values)), "unit": unit, "per_seed": list(values)}
