"""Exact posteriors on long sequences and many classes: whole numbers, 50 digits, and counting.

Enumeration ends at a handful of outcomes. A filter in whole numbers does not round: with weights over a common
denominator every alpha is a whole number. Each function makes a :class:`Case`; its tolerances are the roundings that
the steps of an implementation may add up to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

from bayesgrad.testing.models import floats


@dataclass(frozen=True)
class Case:
    """What a function is called with, and name -> (result, roundings that it may be off by)."""

    about: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    expected: dict[str, tuple[np.ndarray, Any]]


def _chances(rng: np.random.Generator, *shape: int, positive: bool = False) -> np.ndarray:
    """Whole numbers from 1 to a million by magnitude, a third of them 0 unless ``positive``."""
    made = (10 ** rng.uniform(0, 6, shape)).astype(np.int64)
    if not positive:
        made *= rng.random(shape) < 0.67
        made[..., int(rng.integers(0, shape[-1]))] += 1
    return made


def _over(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """Whole numbers over one denominator whose quotients are the normalised rows."""
    totals = [int(total) for total in np.atleast_1d(rows.sum(-1))]
    common = math.lcm(*totals)
    factors = np.array([common // total for total in totals], dtype=object)
    wide = np.atleast_2d(rows).astype(object) * factors[:, None]
    return (wide if rows.ndim == 2 else wide[0]), common


def filtered(states: int, length: int, symbols: int = 7) -> Case:
    """A filter: alpha in whole numbers."""
    rng = np.random.Generator(np.random.PCG64(states * 1000 + length))
    initial, transition = _chances(rng, states), _chances(rng, states, states)
    emission = _chances(rng, states, symbols, positive=True)
    observations = rng.integers(0, symbols, length)
    (pi, of_pi), (T, of_T), (E, of_E) = map(_over, (initial, transition, emission))
    alpha, posteriors, predictives = pi * E[:, observations[0]], [], []
    for t in range(length):
        if t:
            alpha = (alpha @ T) * E[:, observations[t]]
        total = int(sum(alpha))
        ahead = (alpha @ T) @ E
        posteriors.append([int(x) / total for x in alpha])
        predictives.append([int(x) / (total * of_T * of_E) for x in ahead])
    surprise = math.log(total) - math.log(of_pi) - (length - 1) * math.log(of_T) - length * math.log(of_E)
    expected = np.array(posteriors)
    # A step adds the roundings of a few logarithms, none larger than that of the least chance, and of a sum.
    least = math.log(float(min(x[x > 0].min() for x in map(floats, (initial, transition, emission)))))
    depth = 4 * abs(least) + 2 * states + 8 + 2 * np.abs(np.log(np.where(expected > 0, expected, 1))).max()
    steps = np.arange(1, length + 1)[:, None] * depth
    predicted = np.array(predictives)
    return Case(
        f"{states} states and {length} observations",
        (floats(initial), floats(transition), floats(emission), observations),
        {},
        {
            "posterior": (expected, expected * steps),
            "predictive": (predicted, predicted * (steps + states)),
            "log_likelihood": (np.asarray(surprise), length * (depth + abs(surprise))),
        },
    )


def noisy(states: int, length: int, width: int = 3) -> Case:
    """A chain seen through noise: the recursion in 50 digits."""
    rng = np.random.Generator(np.random.PCG64(states * 7919 + length))
    initial, transition = _chances(rng, states), _chances(rng, states, states)
    means, x, noise = rng.normal(size=(states, width)), rng.normal(size=(length, width)), float(rng.uniform(0.5, 2))
    rows: list[list[float]] = []
    with mpmath.workdps(50):
        number = lambda weight, total: mpmath.mpf(int(weight)) / int(total)
        T = [[number(w, row.sum()) for w in row] for row in transition]
        ahead = [number(w, initial.sum()) for w in initial]
        for t in range(length):
            here = []
            for s in range(states):
                square = sum((mpmath.mpf(float(x[t, c])) - mpmath.mpf(float(means[s, c]))) ** 2 for c in range(width))
                here.append(ahead[s] * mpmath.exp(-square / (2 * mpmath.mpf(noise) ** 2)))
            total = sum(here)
            ahead = [sum(here[s] / total * T[s][to] for s in range(states)) for to in range(states)]
            rows.append([float(p) for p in ahead])
    expected = np.array(rows)
    depth = float(((x[:, None] - means) ** 2).sum(-1).max()) / noise**2 * (width + 4) + 4 * math.log(1e8) + 2 * states
    roundings = expected * np.arange(1, length + 1)[:, None] * (depth + 8)
    return Case(
        f"{states} states",
        (x, means, floats(transition)),
        {"initial": floats(initial), "noise": noise},
        {"p": (expected, roundings)},
    )


def permutations(size: int) -> Iterator[Case]:
    """Pairs of a permutation, by counting."""
    rng = np.random.Generator(np.random.PCG64(size))
    for count in sorted({0, 1, size // 2, size - 1, size, 2 * size}):
        permutation = rng.permutation(size)
        keys = rng.integers(0, size, count) if count > size else rng.permutation(size)[:count]
        for query in range(size):
            values = permutation[keys]
            seen = set(values.tolist())
            left = [value for value in range(size) if value not in seen]
            expected = np.zeros(size)
            if query in keys:
                expected[permutation[query]] = 1.0
            else:
                expected[left] = 1 / len(left)
            about = f"{size} values, keys {keys.tolist()}, query {query}"
            yield Case(about, (keys, values, np.asarray(query)), {"size": size}, {"p": (expected, expected)})


def classes(ignored: int) -> Iterator[Case]:
    """Cross-entropy with an index of its own to ignore: sums over the classes that count, in 50 digits."""
    rng = np.random.Generator(np.random.PCG64(ignored + 1000))
    for n, C, reduction, smoothing in (
        (5, 7, "mean", 0.0),
        (9, 19, "sum", 0.3),
        (4, 65, "mean", 1.0),
        (3, 9, "sum", 0),
    ):
        z, targets = rng.uniform(-9, 9, (n, C)), rng.integers(0, C, n)
        targets[0], targets[1] = ignored, (ignored + 1) % C if 0 <= ignored < C else 0
        omega = rng.uniform(0.1, 3, C) if n > 4 else np.ones(C)
        counted = [i for i in range(n) if targets[i] != ignored]
        share = sum(mpmath.mpf(omega[targets[i]]) for i in counted) if reduction == "mean" else mpmath.mpf(1)
        loss, gradient = mpmath.mpf(0), np.zeros((n, C))
        for i in counted:
            row = [mpmath.mpf(float(x)) for x in z[i]]
            total = sum(mpmath.exp(x) for x in row)
            t = [mpmath.mpf(omega[c]) * ((1 - mpmath.mpf(smoothing)) * (c == targets[i]) + mpmath.mpf(smoothing) / C)
                 for c in range(C)]  # fmt: skip
            loss -= sum(t[c] * (row[c] - mpmath.log(total)) for c in range(C))
            gradient[i] = [float((sum(t) * mpmath.exp(row[c]) / total - t[c]) / share) for c in range(C)]
        about = f"ignore_index {ignored}, {n} positions, {C} classes, {reduction}, smoothing {smoothing}"
        options = {
            "reduction": reduction,
            "ignore_index": ignored,
            "class_weights": omega,
            "label_smoothing": smoothing,
        }
        yield Case(
            about,
            (z, targets),
            options,
            {
                "loss": (np.asarray(float(loss / share)), 60.0 * n * C),
                "logit_gradient": (gradient, float(omega.max()) * (60 + C) + np.zeros((n, C))),
            },
        )
