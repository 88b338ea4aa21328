"""The two lemmas that are inequalities and identities of numbers, with no function behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesgrad.testing.engine import LawViolation
from bayesgrad.testing.examples import Rate
from bayesgrad.testing.models import Simplex, floats
from bayesgrad.testing.strategies import rates, simplices
from checks.oracles.chances import numbers
from checks.oracles.em import LOG_BOUND, VARIANCE, row
from checks.registry import checks


@checks("lemma.log-bound", oracle=LOG_BOUND, given=rates())
def check_log_bound(example: Rate) -> dict[str, Any]:
    """log t <= t - 1, equality only at t = 1."""
    gap = (example.eta - 1) - np.log(example.eta)
    if gap < 0 or (gap == 0) != (example.eta == 1):
        raise LawViolation(f"lemma.log-bound does not hold at t = {example.eta}: t - 1 - log t = {gap}")
    return {"gap": np.asarray(gap)}


def weights_and_numbers(example: Simplex) -> dict[str, Any]:
    """a and h."""
    return {"a": floats(example.q)[0], "h": numbers(row(example)[1])}


@checks(
    "lemma.variance-form",
    oracle=VARIANCE,
    given=simplices(),
    states={"variance": "variance"},
    letters=weights_and_numbers,
)
def check_variance_form(example: Simplex) -> dict[str, Any]:
    """sum a h^2 - (sum a h)^2, which equals half the mean squared difference of two independent draws."""
    a, h = floats(example.q)[0], numbers(row(example)[1])
    return {"variance": np.asarray((a * h * h).sum() - (a * h).sum() ** 2)}
