r"""A hidden Markov model drawn anew for every sequence and shown to the model: filter, then predict.

.. math:: s_1 \sim \text{uniform}, \quad o_t \mid s_t \sim E_{s_t, \cdot}, \quad s_{t+1} \mid s_t \sim T_{s_t, \cdot};
          \qquad \alpha_1 = \tfrac1S E_{\cdot, o_1}, \quad \alpha_{t+1} = E_{\cdot, o_{t+1}} (\alpha_t T), \quad
          p(o_{t+1} \mid o_1 .. o_t) = \bar\alpha_t\, T E

No transition comes before the first observation, and :math:`\bar\alpha_t` is :math:`\alpha_t` normalised. Position
t = 1..K shows o_t and is supervised with o_{t+1} (or with the posterior as a soft label, which is another task:
distillation). Rows of T and E are Dirichlet(1), clipped at .05 and rounded to hundredths. That "published" generator
is nearly memoryless: two observations tell almost all that the past tells. "long-memory" mixes in the identity,
:math:`T = \rho I + (1 - \rho) T_\text{published}`; its entries are not rounded again, because that would shorten the
memory (off the diagonal they are so small that rounding changes them a lot).

:mod:`bayesgrad.tasks.hmm_encoding` writes the matrices and observations as tokens,
:mod:`bayesgrad.tasks.hmm_floors` says what predictors that do not filter can reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bayesgrad import _validate
from bayesgrad.bayes import hmm_filter

Generator = Literal["published", "long-memory"]
GENERATORS: tuple[Generator, ...] = ("published", "long-memory")
LEAST = 5  # the smallest entry of a published row, in hundredths

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Sequences:
    """``T`` (B, S, S), ``E`` (B, S, O), ``states`` and ``observations`` (B, K + 1), integers from 0."""

    T: Floats
    E: Floats
    states: Ints
    observations: Ints

    @property
    def shown(self) -> Ints:
        """o_1 .. o_K (B, K): what the model sees."""
        return self.observations[:, :-1]

    @property
    def targets(self) -> Ints:
        """o_2 .. o_{K+1} (B, K): what position t should say."""
        return self.observations[:, 1:]


def check(*, steps: int, states: int = 5, symbols: int = 5, generator: str = "published", rho: float = 0.85) -> None:
    """ValueError for a task that is none."""
    _validate.natural("steps", steps, least=1)
    for name, size in (("states", states), ("symbols", symbols)):
        most = 100 // LEAST
        if not 2 <= _validate.natural(name, size) <= most:
            raise ValueError(f"{name}: got {size}, expected 2..{most} (each entry of a row is at least .05)")
    if generator not in GENERATORS:
        raise ValueError(f"generator: got {generator!r}, expected one of {', '.join(GENERATORS)}")
    if not 0.0 <= rho < 1.0:
        raise ValueError(f"rho: got {rho}, expected a number in [0, 1)")


def _hundredths(rng: np.random.Generator, shape: tuple[int, ...]) -> Ints:
    """Rows of integers, each at least 5, that sum to 100: Dirichlet(1), clipped, renormalised, rounded, repaired."""
    row = rng.standard_exponential(shape)
    row /= row.sum(-1, keepdims=True)
    np.maximum(row, LEAST / 100, out=row)
    row *= 100 / row.sum(-1, keepdims=True)
    cents = np.maximum(np.rint(row), LEAST).astype(np.int64)
    # What is missing or too much goes to the largest entry; only long rows need the next largest one too.
    while (left := 100 - cents.sum(-1, keepdims=True)).any():
        at = cents.argmax(-1)[..., None]
        np.put_along_axis(cents, at, np.maximum(np.take_along_axis(cents, at, -1) + left, LEAST), -1)
    return cents


def sample_matrices(
    rng: np.random.Generator,
    count: int,
    *,
    states: int = 5,
    symbols: int = 5,
    generator: Generator = "published",
    rho: float = 0.85,
) -> tuple[Floats, Floats]:
    """T (count, S, S) and E (count, S, O). ``rho`` counts for the "long-memory" generator alone."""
    check(steps=1, states=states, symbols=symbols, generator=generator, rho=rho)
    _validate.natural("count", count, least=1)
    cents = _hundredths(rng, (count, states, states))
    emission = _hundredths(rng, (count, states, symbols)) / 100
    if generator == "published":
        return cents / 100, emission
    return rho * np.eye(states) + (1 - rho) * (cents / 100), emission


def _draw(cumulative: Floats, rng: np.random.Generator) -> Ints:
    """One index per row by inverting its distribution function: how many of the first n - 1 steps it has passed."""
    return (rng.random(cumulative.shape[:-1])[..., None] >= cumulative[..., :-1]).sum(-1)


def sample(
    rng: np.random.Generator,
    count: int,
    *,
    steps: int,
    states: int = 5,
    symbols: int = 5,
    generator: Generator = "published",
    rho: float = 0.85,
) -> Sequences:
    """``count`` independent sequences of K = ``steps`` supervised positions, each with its own T and E."""
    check(steps=steps, states=states, symbols=symbols, generator=generator, rho=rho)
    T, E = sample_matrices(rng, count, states=states, symbols=symbols, generator=generator, rho=rho)
    rows, moves = np.arange(count), T.cumsum(-1)
    path = np.empty((count, steps + 1), dtype=np.int64)
    path[:, 0] = rng.integers(states, size=count)
    for t in range(steps):
        path[:, t + 1] = _draw(moves[rows, path[:, t]], rng)
    return Sequences(T, E, path, _draw(E.cumsum(-1)[rows[:, None], path], rng))


def check_matrices(T: Floats, E: Floats) -> None:
    """ValueError, with the row named, unless T (B, S, S) and E (B, S, O) are the matrices of a chain in which every
    state has a way in and every symbol some state that emits it."""
    for name, x in (("T", T), ("E", E)):
        if x.ndim != 3 or x.shape[:2] != (T.shape[0], T.shape[-1]):
            raise ValueError(f"{name}: got shape {x.shape}, expected (B, S, {'S' if name == 'T' else 'O'})")
        wrong = np.argwhere((x.min(-1) < 0) | ~(np.abs(x.sum(-1) - 1) <= 1e-9))
        if len(wrong):
            b, s = wrong[0]
            raise ValueError(f"{name}: got row {s} of matrix {b} = {x[b, s].tolist()}, expected a distribution")
        empty = np.argwhere((x == 0).all(-2))
        if len(empty):
            b, j = empty[0]
            what = f"no way into state {j}" if name == "T" else f"no state that emits symbol {j}"
            raise ValueError(f"{name}: got matrix {b} with {what}, expected every column to have a positive entry")


def filter_posterior(T: Floats, E: Floats, observations: Ints) -> Floats:
    """p(s_t | o_1..o_t), shape (B, n, S) for observations (B, n), from the uniform start (bayes.hmm-filter)."""
    check_matrices(T, E)
    return np.asarray(hmm_filter(np.full(T.shape[:2], 1 / T.shape[1]), T, E, observations).posterior)


def predictive(T: Floats, E: Floats, observations: Ints) -> Floats:
    """The exact p(o_{t+1} | o_1..o_t), shape (B, n, O) for observations (B, n)."""
    return filter_posterior(T, E, observations) @ T @ E


def stationary(T: Floats) -> Floats:
    """The solution pi (B, S) of pi T = pi with sum 1; ValueError when a chain has more than one."""
    step = T > 0
    reach = step | np.eye(T.shape[-1], dtype=bool)
    for _ in range(T.shape[-1].bit_length()):
        reach = reach @ reach
    lost = np.flatnonzero(~reach.all(-2).any(-1))  # unique exactly when some state can be reached from every state
    if len(lost):
        raise ValueError(f"T: got matrix {lost[0]} with several stationary distributions, expected one")
    # pi (I - T) = 0 and pi 1 1^T = 1^T, added: regular exactly when the solution is unique
    system = np.eye(T.shape[-1]) - T.swapaxes(-1, -2) + 1.0
    return np.asarray(np.linalg.solve(system, np.ones((*T.shape[:-1], 1)))[..., 0])


def _evidence(E: Floats, observations: Ints) -> Floats:
    """E[s, o_t] as (B, n, S)."""
    B, symbols = E.shape[0], E.shape[-1]
    if observations.ndim != 2 or len(observations) != B:
        raise ValueError(f"observations: got shape {observations.shape}, expected ({B}, n)")
    if ((observations < 0) | (observations >= symbols)).any():
        raise ValueError(f"observations: got {observations.min()}..{observations.max()}, expected 0..{symbols - 1}")
    return E.swapaxes(-1, -2)[np.arange(B)[:, None], observations]


def possible(total: Floats) -> Floats:
    """The same totals; raises ValueError where one is 0, since what was observed then cannot happen."""
    if (total == 0).any():
        raise ValueError("observations: got something of probability 0, expected a possible sequence")
    return total


def window_posterior(T: Floats, E: Floats, observations: Ints, window: int) -> Floats:
    """The filter (B, n, S) that knows only the last ``window`` observations.

    It starts from the uniform law where the window reaches the first observation (then it is exact), and from the
    stationary distribution where it does not.
    """
    _validate.natural("window", window, least=1)
    check_matrices(T, E)
    evidence = _evidence(E, observations)
    n = observations.shape[1]
    belief = np.repeat(stationary(T)[:, None], n, axis=1)
    belief[:, :window] = 1 / T.shape[1]
    for lag in range(min(window, n) - 1, -1, -1):
        # belief[t] is about s_{t - lag}. Row t = lag starts here; those beyond it move on one step, which leaves the
        # stationary law of those that start here too where it is.
        belief[:, lag + 1 :] = belief[:, lag + 1 :] @ T
        belief[:, lag:] *= evidence[:, : n - lag]
        belief[:, lag:] /= possible(belief[:, lag:].sum(-1, keepdims=True))
    return belief


def window_predictive(T: Floats, E: Floats, observations: Ints, window: int) -> Floats:
    """What :func:`window_posterior` says of o_{t+1}, shape (B, n, O)."""
    return window_posterior(T, E, observations, window) @ T @ E
