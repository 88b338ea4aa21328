"""Risk, divergence, total variation and entropy against enumeration in exact rationals.

Each is sum_y P(y) log(x(y)) with rational P and x: the rationals are exact, the logarithms have 50 digits, and every
outcome is listed one by one.
"""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from bayesgrad import bayes

SEEDS = range(25)
UNITS = {"nats": mpmath.mpf(1), "bits": 1 / mpmath.log(2)}


def distribution(rng: random.Random, size: int, zeros: bool = True) -> list[Fraction]:
    weights = [rng.randrange(0 if zeros else 1, 7) for _ in range(size)]
    weights[rng.randrange(size)] += 1
    return [Fraction(w, sum(weights)) for w in weights]


def log(x: Fraction) -> mpmath.mpf:
    return mpmath.log(mpmath.mpf(x.numerator)) - mpmath.log(mpmath.mpf(x.denominator))


def floats(table: object) -> np.ndarray:
    return np.asarray(table, dtype=object).astype(float)


def cross(p: list[Fraction], q: list[Fraction]) -> mpmath.mpf:
    """-sum_y p(y) log q(y), infinite where q misses part of p's support."""
    if any(x > 0 and y == 0 for x, y in zip(p, q, strict=True)):
        return mpmath.inf
    return -mpmath.fsum(mpmath.mpf(x.numerator) / x.denominator * log(y) for x, y in zip(p, q, strict=True) if x)


def close(got: object, want: mpmath.mpf) -> bool:
    number = float(np.asarray(got))
    return number == float(want) if mpmath.isinf(want) else abs(number - float(want)) <= 1e-13 * (1 + abs(float(want)))


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mpmath.workdps(50):
        yield


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("seed", SEEDS)
def test_entropy_and_divergence(seed: int, units: str) -> None:
    rng = random.Random(seed)
    size = rng.randrange(1, 6)
    p, q = distribution(rng, size), distribution(rng, size, zeros=seed % 3 == 0)
    unit = UNITS[units]
    assert close(bayes.entropy(floats(p), units=units), unit * cross(p, p))
    assert close(bayes.kl_divergence(floats(p), floats(q), units=units), unit * (cross(p, q) - cross(p, p)))


@pytest.mark.parametrize("seed", SEEDS)
def test_total_variation_over_every_event(seed: int) -> None:
    """The largest difference of probability over all events, listed one by one."""
    rng = random.Random(seed)
    size = rng.randrange(1, 6)
    p, q = distribution(rng, size), distribution(rng, size)
    events = product((0, 1), repeat=size)
    worst = max(
        sum((x - y for x, y, chosen in zip(p, q, event, strict=True) if chosen), Fraction(0)) for event in events
    )
    assert abs(float(bayes.total_variation(floats(p), floats(q))) - float(worst)) <= 1e-15


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("seed", SEEDS)
def test_risk_and_conditional_entropy(seed: int, units: str) -> None:
    """Every pair of context and outcome, weighted by its exact probability."""
    rng = random.Random(seed)
    contexts, size = distribution(rng, 3), 4
    p = [distribution(rng, size) for _ in contexts]
    q = [distribution(rng, size, zeros=False) for _ in contexts]
    unit = UNITS[units]

    def mean(of: list[list[Fraction]]) -> mpmath.mpf:
        return mpmath.fsum(
            mpmath.mpf(w.numerator) / w.denominator * cross(row, other)
            for w, row, other in zip(contexts, p, of, strict=True)
            if w
        )

    assert close(bayes.risk(floats(contexts), floats(p), floats(q), units=units), unit * mean(q))
    assert close(bayes.conditional_entropy(floats(contexts), floats(p), units=units), unit * mean(p))


@pytest.mark.parametrize("seed", SEEDS)
def test_posterior_predictive_over_every_parameter(seed: int) -> None:
    """p(y|x,c) from the joint distribution of parameter and outcome, summed in fractions."""
    rng = random.Random(seed)
    parameters, size = rng.randrange(1, 5), 3
    belief = distribution(rng, parameters)
    outcomes = [distribution(rng, size) for _ in range(parameters)]
    want = [sum((b * row[y] for b, row in zip(belief, outcomes, strict=True)), Fraction(0)) for y in range(size)]
    got = bayes.posterior_predictive(floats(belief), floats(outcomes))
    assert np.max(np.abs(np.asarray(got) - floats(want))) <= 1e-15
