r"""Linear regression in context, with its exact (ridge) posterior.

.. math::

    w \sim N(0, I), \quad x_t \sim N(0, I), \quad y_t = w \cdot x_t + \sigma \varepsilon_t; \qquad
    A_t = \sigma^2 I + \sum_{s < t} x_s x_s^T, \quad \hat w_t = A_t^{-1} \sum_{s < t} x_s y_s, \qquad
    y_t \mid x_t, \text{past} \sim N\big(\hat w_t \cdot x_t,\; \sigma^2 (1 + x_t^T A_t^{-1} x_t)\big)

A fresh w for each sequence. Position t shows the pairs before it and x_t; it is supervised with y_t, which comes later.
The mean is ridge regression with penalty sigma^2, the least squared error that any predictor can have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesgrad import _validate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sequences:
    """``x`` (B, n, d), ``y`` (B, n), and the hidden ``weights`` (B, d)."""

    x: Floats
    y: Floats
    weights: Floats


@dataclass(frozen=True)
class Predictive:
    """The exact Gaussian predictive of y_t: ``mean`` and ``variance``, both (B, n)."""

    mean: Floats
    variance: Floats


def _noise(noise: float) -> float:
    if not (isinstance(noise, int | float) and 0 < noise < float("inf")):
        raise ValueError(f"noise: got {noise!r}, expected a positive number")
    return float(noise)


def sample(rng: np.random.Generator, count: int, *, steps: int, d_x: int, noise: float = 0.5) -> Sequences:
    """``count`` independent sequences of ``steps`` supervised positions, each with its own w."""
    for name, size in (("count", count), ("steps", steps), ("d_x", d_x)):
        _validate.natural(name, size, least=1)
    noise = _noise(noise)
    w, x = rng.standard_normal((count, d_x)), rng.standard_normal((count, steps, d_x))
    y = np.einsum("bnd,bd->bn", x, w) + noise * rng.standard_normal((count, steps))
    return Sequences(x, y, w)


def predictive(x: Floats, y: Floats, *, noise: float = 0.5, window: int | None = None) -> Predictive:
    """The exact predictive of every y_t from x_t and the pairs before it; with ``window`` from the last pairs alone."""
    if x.ndim != 3 or y.shape != x.shape[:2]:
        raise ValueError(f"y: got shape {y.shape} beside x of shape {x.shape}, expected (B, n) and (B, n, d)")
    variance_of_noise = _noise(noise) ** 2
    if window is not None:
        _validate.natural("window", window)
    count, n, d = x.shape
    mean, variance = np.empty((count, n)), np.empty((count, n))
    for t in range(n):
        first = 0 if window is None else max(0, t - window)
        past, seen = x[:, first:t], y[:, first:t]
        A = variance_of_noise * np.eye(d) + np.einsum("bsd,bse->bde", past, past)
        towards = np.stack([np.einsum("bsd,bs->bd", past, seen), x[:, t]], axis=-1)
        solved = np.linalg.solve(A, towards)
        mean[:, t] = (solved[..., 0] * x[:, t]).sum(-1)
        variance[:, t] = variance_of_noise * (1 + (solved[..., 1] * x[:, t]).sum(-1))
    return Predictive(mean, variance)


def least_error(x: Floats, *, noise: float = 0.5) -> Floats:
    """The expected squared error of the exact mean at every position (B, n), given the inputs: nothing does better."""
    return predictive(x, np.zeros(x.shape[:2]), noise=noise).variance
