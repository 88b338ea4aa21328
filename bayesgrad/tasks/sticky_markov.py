r"""A sticky Markov chain on a ring, seen through Gaussian noise.

.. math:: y_t \mid y_{t-1} \sim P_{y_{t-1}, \cdot}, \qquad x_t = \mu_{y_{t-1}} + \sigma\,\varepsilon_t, \qquad
          p(y_t \mid x_{1..t}) = \sum_c p(y_{t-1} = c \mid x_{1..t})\, P_{c, \cdot}

with t = 1..n supervised positions, C symbols on a ring, :math:`\mu` of shape (C, d_x) and
:math:`\varepsilon_t \sim N(0, I)`. Position t sees a noisy picture of the *previous* symbol, so the model must filter
and then take one step of the chain. Two transition rows are in use (:func:`transition`): the published code adds the
self-probability to a row that already contains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Row = Literal["published", "stated"]
ROWS: tuple[Row, ...] = ("published", "stated")


def transition(symbols: int = 8, self_probability: float = 0.3, row: Row = "published") -> NDArray[np.float64]:
    """Transition matrix P of shape (C, C), rows summing to 1.

    Off the diagonal the weight is 1 / (ring distance). ``row="stated"`` gives each symbol exactly ``self_probability``
    of staying. ``row="published"`` is what the authors' code does: weights w with ``self_probability`` at self are
    normalised to w / sum(w), and then ``self_probability * e_self + (1 - self_probability) * w / sum(w)``, so that the
    diagonal counts it twice (0.3498 at the defaults).
    """
    if symbols < 2:
        raise ValueError(f"symbols: got {symbols}, expected at least 2")
    if not 0.0 < self_probability < 1.0:
        raise ValueError(f"self_probability: got {self_probability}, expected a number strictly between 0 and 1")
    if row not in ROWS:
        raise ValueError(f"row: got {row!r}, expected one of {', '.join(ROWS)}")
    step = np.abs(np.arange(symbols)[:, None] - np.arange(symbols)[None, :])
    distance = np.minimum(step, symbols - step)
    away = np.where(distance > 0, 1.0 / np.maximum(distance, 1), 0.0)
    if row == "stated":
        return self_probability * np.eye(symbols) + (1 - self_probability) * away / away.sum(-1, keepdims=True)
    w = away + self_probability * np.eye(symbols)
    return self_probability * np.eye(symbols) + (1 - self_probability) * w / w.sum(-1, keepdims=True)


def entropy_rate(P: NDArray[np.float64]) -> float:
    """H(Y_t | Y_{t-1}) in nats under the uniform stationary law (P is doubly stochastic on the ring).

    It bounds the *expected* loss from below; the training loss on one sequence can fall under it (memorisation).
    """
    return float(-(P * np.log(P)).sum(-1).mean())


@dataclass(frozen=True)
class Problem:
    """What sequences share: transition ``P`` (C, C), means ``mu`` (C, d_x), noise level ``sigma``."""

    P: NDArray[np.float64]
    mu: NDArray[np.float64]
    sigma: float = 1.0


@dataclass(frozen=True)
class Sequence:
    """``x`` (n, d_x) and ``targets`` (n,) for positions t = 1..n, and ``path`` = y_0, y_1, .., y_n (n + 1,)."""

    x: NDArray[np.float64]
    targets: NDArray[np.int64]
    path: NDArray[np.int64]


def sample_problem(
    rng: np.random.Generator,
    *,
    symbols: int = 8,
    d_x: int = 20,
    self_probability: float = 0.3,
    row: Row = "published",
    sigma: float = 1.0,
) -> Problem:
    """Draw the means mu ~ N(0, I); the chain itself is fixed by its arguments."""
    if d_x < 1:
        raise ValueError(f"d_x: got {d_x}, expected at least 1")
    if not sigma > 0:
        raise ValueError(f"sigma: got {sigma}, expected a positive number")
    return Problem(transition(symbols, self_probability, row), rng.standard_normal((symbols, d_x)), sigma)


def sample_sequence(problem: Problem, length: int, rng: np.random.Generator) -> Sequence:
    """Draw ``length`` states from the stationary start, hence n = length - 1 (input, target) pairs."""
    if length < 2:
        raise ValueError(f"length: got {length}, expected at least 2 (one pair)")
    symbols, d_x = problem.mu.shape
    cumulative = np.cumsum(problem.P, axis=-1)
    uniform = rng.random(length)
    path = np.empty(length, dtype=np.int64)
    path[0] = min(int(uniform[0] * symbols), symbols - 1)
    for t in range(1, length):
        path[t] = min(int(np.searchsorted(cumulative[path[t - 1]], uniform[t], side="right")), symbols - 1)
    x = problem.mu[path[:-1]] + problem.sigma * rng.standard_normal((length - 1, d_x))
    return Sequence(x, path[1:].copy(), path)


def log_evidence(problem: Problem, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """log N(x_t; mu_c, sigma^2 I) up to a constant that all symbols share: shape (..., n, C)."""
    # |x|^2 is common to all symbols and would only cost digits
    return (x @ problem.mu.T - 0.5 * (problem.mu**2).sum(-1)) / problem.sigma**2


def filter_posterior(problem: Problem, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """p(y_{t-1} = c | x_1..x_t) for every t, shape (n, C): no transition before the first observation."""
    evidence = log_evidence(problem, x)
    evidence = np.exp(evidence - evidence.max(-1, keepdims=True))
    out = np.empty_like(evidence)
    prior = np.full(problem.P.shape[0], 1.0 / problem.P.shape[0])
    for t in range(evidence.shape[0]):
        joint = prior * evidence[t]
        out[t] = joint / joint.sum()
        prior = out[t] @ problem.P
    return out


def predictive(problem: Problem, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The exact p(y_t | x_1..x_t) for every t, shape (n, C)."""
    return filter_posterior(problem, x) @ problem.P


def window_predictive(problem: Problem, x: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The predictive of a filter that sees only the last ``window`` observations, started from the uniform law."""
    if window < 1:
        raise ValueError(f"window: got {window}, expected at least 1")
    evidence = log_evidence(problem, x)
    evidence = np.exp(evidence - evidence.max(-1, keepdims=True))
    n, symbols = evidence.shape
    belief = np.full((n, symbols), 1.0 / symbols)
    for lag in range(min(window, n) - 1, -1, -1):
        # belief[t] is about y_{t-1-lag}; rows t < lag start later and keep the uniform law, which P leaves in place
        belief = belief @ problem.P
        belief[lag:] *= evidence[: n - lag]
        belief /= belief.sum(-1, keepdims=True)
    return belief @ problem.P
