r"""Chains that emit on their edges: Mess3 and RRXOR, whose beliefs have a known geometry.

.. math::

    T^{(o)}_{s s'} = p(o, s' \mid s), \qquad \beta_0 = \text{start}, \qquad
    \beta_t \propto \beta_{t-1} T^{(o_t)}, \qquad p(o_{t+1} \mid o_1 .. o_t) = \sum_{s'} (\beta_t T^{(o)})_{s'}

The symbol belongs to the step from s to s', not to a state, so that a hidden Markov model with emissions at states says
it only with more states. Position t = 1..n shows o_t and is supervised with o_{t+1}.

**Mess3**: three states, three symbols; every symbol is possible at every step, and the beliefs form a fractal.
**RRXOR**: two fair bits and then their exclusive or, again and again, at an unknown phase: five states, and beliefs
that take finitely many values before they are sure of the phase.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesgrad import _validate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """``T`` (O, S, S), T[o, s, s'] = p(o, s' | s), and ``start`` (S,), the law of the state before the first symbol."""

    T: Floats
    start: Floats


@dataclass(frozen=True)
class Sequences:
    """``symbols`` (B, n + 1), and ``states`` (B, n + 2) from before the first symbol to after the last."""

    symbols: Ints
    states: Ints

    @property
    def shown(self) -> Ints:
        """o_1 .. o_n (B, n): what the model sees."""
        return self.symbols[:, :-1]

    @property
    def targets(self) -> Ints:
        """o_2 .. o_{n+1} (B, n): what position t should say."""
        return self.symbols[:, 1:]


def check(chain: Chain) -> None:
    """ValueError, with the row named, for what is no chain."""
    T, start = chain.T, chain.start
    if T.ndim != 3 or T.shape[1] != T.shape[2] or start.shape != T.shape[1:2]:
        raise ValueError(f"T: got shape {T.shape} with start {start.shape}, expected (O, S, S) and (S,)")
    for name, rows in (("start", start[None]), ("T", T.transpose(1, 0, 2).reshape(T.shape[1], -1))):
        wrong = np.argwhere((rows < 0).any(-1) | ~(np.abs(rows.sum(-1) - 1) <= 1e-12))
        if len(wrong):
            raise ValueError(
                f"{name}: got row {wrong[0][0]} that is no distribution, expected p(o, s' | s) to sum to 1"
            )


def mess3(x: float = 0.05, a: float = 0.85) -> Chain:
    """T^o_ss' = (a if o = s' else (1 - a)/2) * (1 - 2x if s = s' else x), uniform start.

    ``x`` is the probability of each of the two ways out of a state, ``a`` that of seeing where one arrived.
    """
    if not 0 <= x <= 0.5:
        raise ValueError(f"x: got {x}, expected a number in [0, 1/2]")
    if not 0 <= a <= 1:
        raise ValueError(f"a: got {a}, expected a number in [0, 1]")
    same = np.eye(3)
    move = np.where(same > 0, 1 - 2 * x, x)
    shown = np.where(same > 0, a, (1 - a) / 2)  # [o, s']
    return Chain(move[None] * shown[:, None, :], np.full(3, 1 / 3))


def rrxor() -> Chain:
    """Two fair bits and their exclusive or. States: S (next is r1), 0 and 1 (r1 was that, next is r2), E and O (next is
    the exclusive or, which is 0 or 1). Start: the stationary law (2, 1, 1, 1, 1)/6, an unknown phase."""
    T = np.zeros((2, 5, 5))
    T[0, 0, 1] = T[1, 0, 2] = 0.5
    for bit in (0, 1):
        for second in (0, 1):
            T[second, 1 + bit, 3 + (bit ^ second)] = 0.5
    T[0, 3, 0] = T[1, 4, 0] = 1.0
    return Chain(T, np.asarray([2.0, 1, 1, 1, 1]) / 6)


def sample(rng: np.random.Generator, count: int, *, chain: Chain, steps: int) -> Sequences:
    """``count`` independent sequences of ``steps`` supervised positions."""
    check(chain)
    _validate.natural("count", count, least=1)
    _validate.natural("steps", steps, least=1)
    symbols, states = chain.T.shape[:2]
    edges = chain.T.transpose(1, 0, 2).reshape(states, symbols * states).cumsum(-1)
    path, out = np.empty((count, steps + 2), dtype=np.int64), np.empty((count, steps + 1), dtype=np.int64)
    path[:, 0] = (rng.random(count)[:, None] >= chain.start.cumsum()[:-1]).sum(-1)
    for t in range(steps + 1):
        # How many of the first edges the draw has passed; an edge of probability 0 is never chosen.
        drawn = rng.random(count)[:, None] * edges[path[:, t]][:, -1:]
        edge = (drawn >= edges[path[:, t]][:, :-1]).sum(-1)
        out[:, t], path[:, t + 1] = edge // states, edge % states
    return Sequences(out, path)


def _symbols(chain: Chain, observations: Ints) -> None:
    check(chain)
    most = chain.T.shape[0]
    if observations.ndim != 2:
        raise ValueError(f"observations: got shape {observations.shape}, expected (B, n)")
    if ((observations < 0) | (observations >= most)).any():
        raise ValueError(f"observations: got {observations.min()}..{observations.max()}, expected 0..{most - 1}")


def _filtered(chain: Chain, observations: Ints, belief: Floats) -> Floats:
    """Beliefs (B, n, S) after each symbol. Every step is normalised, so that nothing underflows however long."""
    out = np.empty((*observations.shape, chain.T.shape[1]))
    for t in range(observations.shape[1]):
        belief = np.einsum("bi,bij->bj", belief, chain.T[observations[:, t]])
        total = belief.sum(-1, keepdims=True)
        if (total == 0).any():
            raise ValueError(
                f"observations: got something of probability 0 at position {t}, expected a possible sequence"
            )
        belief = belief / total
        out[:, t] = belief
    return out


def belief(chain: Chain, observations: Ints) -> Floats:
    """p(s_t | o_1 .. o_t), shape (B, n, S) for observations (B, n): the state after the symbol."""
    _symbols(chain, observations)
    return _filtered(chain, observations, np.broadcast_to(chain.start, (len(observations), chain.T.shape[1])))


def predictive(chain: Chain, observations: Ints) -> Floats:
    """The exact p(o_{t+1} | o_1 .. o_t), shape (B, n, O) for observations (B, n)."""
    return belief(chain, observations) @ chain.T.sum(-1).T


def stationary(chain: Chain) -> Floats:
    """The law of the state that the chain keeps (S,); ValueError where there are several."""
    check(chain)
    step = chain.T.sum(0)
    system = np.vstack([step.T - np.eye(len(step)), np.ones(len(step))])
    found, _, rank, _ = np.linalg.lstsq(system, np.r_[np.zeros(len(step)), 1.0], rcond=None)
    if rank < len(step):
        raise ValueError("T: got a chain with several stationary distributions, expected one")
    return np.asarray(found)


def window_predictive(chain: Chain, observations: Ints, window: int) -> Floats:
    """The predictive (B, n, O) of a filter that knows the last ``window`` symbols alone; 0 is no context at all.

    It starts from the given start where the window reaches the first symbol (then it is exact), elsewhere from the
    stationary law.
    """
    _symbols(chain, observations)
    _validate.natural("window", window)
    law, out = stationary(chain), np.empty((*observations.shape, chain.T.shape[0]))
    emit = chain.T.sum(-1).T
    for t in range(observations.shape[1]):
        first = max(0, t + 1 - window)
        begin = chain.start if first == 0 else law
        start = np.broadcast_to(begin, (len(observations), len(law)))
        seen = observations[:, first : t + 1]
        out[:, t] = (
            _filtered(chain, seen, start)[:, -1] if seen.shape[1] else np.broadcast_to(law, start.shape)
        ) @ emit
    return out
