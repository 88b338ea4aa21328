r"""A sequence from one of a few known dice, drawn anew for each sequence: the simplest mixture.

.. math::

    \theta \sim \pi, \quad o_t \mid \theta \sim E_{\theta, \cdot} \text{ independently}; \qquad
    p(\theta \mid o_1 .. o_t) \propto \pi_\theta \prod_{s \le t} E_{\theta, o_s}, \qquad
    p(o_{t+1} \mid o_1 .. o_t) = \sum_\theta p(\theta \mid o_1 .. o_t)\, E_{\theta, o_{t+1}}

Position t = 1..n shows o_t and is supervised with o_{t+1}. Counts are enough: the order of the past does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesgrad import _validate, bayes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Dice:
    """``priors`` pi (K,) and ``E`` (K, O), the law of a symbol under each die."""

    priors: Floats
    E: Floats


@dataclass(frozen=True)
class Sequences:
    """``symbols`` (B, n + 1) and the hidden ``die`` (B,)."""

    symbols: Ints
    die: Ints

    @property
    def shown(self) -> Ints:
        """o_1 .. o_n (B, n): what the model sees."""
        return self.symbols[:, :-1]

    @property
    def targets(self) -> Ints:
        """o_2 .. o_{n+1} (B, n): what position t should say."""
        return self.symbols[:, 1:]


def check(dice: Dice) -> None:
    """ValueError for what are no dice."""
    if dice.E.ndim != 2 or dice.priors.shape != dice.E.shape[:1]:
        raise ValueError(f"E: got shape {dice.E.shape} with priors {dice.priors.shape}, expected (K, O) and (K,)")
    for name, rows in (("priors", dice.priors[None]), ("E", dice.E)):
        wrong = np.argwhere((rows < 0).any(-1) | ~(np.abs(rows.sum(-1) - 1) <= 1e-9))
        if len(wrong):
            raise ValueError(f"{name}: got row {wrong[0][0]} = {rows[wrong[0][0]].tolist()}, expected a distribution")


def random_dice(rng: np.random.Generator, *, dice: int = 4, symbols: int = 5, concentration: float = 1.0) -> Dice:
    """Dice from a symmetric Dirichlet law, all equally likely."""
    _validate.natural("dice", dice, least=1)
    _validate.natural("symbols", symbols, least=2)
    if not concentration > 0:
        raise ValueError(f"concentration: got {concentration}, expected a positive number")
    return Dice(np.full(dice, 1 / dice), rng.dirichlet(np.full(symbols, concentration), size=dice))


def sample(rng: np.random.Generator, count: int, *, dice: Dice, steps: int) -> Sequences:
    """``count`` independent sequences of ``steps`` supervised positions."""
    check(dice)
    _validate.natural("count", count, least=1)
    _validate.natural("steps", steps, least=1)
    die = (rng.random(count)[:, None] >= dice.priors.cumsum()[:-1]).sum(-1)
    drawn = rng.random((count, steps + 1))[..., None]
    return Sequences((drawn >= dice.E.cumsum(-1)[die][:, None, :-1]).sum(-1), die)


def posterior(dice: Dice, observations: Ints) -> Floats:
    """p(die | o_1 .. o_t), shape (B, n, K) for observations (B, n)."""
    check(dice)
    if observations.ndim != 2 or ((observations < 0) | (observations >= dice.E.shape[1])).any():
        raise ValueError(f"observations: got shape {observations.shape}, expected (B, n) of 0..{dice.E.shape[1] - 1}")
    log_E = np.log(dice.E, where=dice.E > 0, out=np.full_like(dice.E, -np.inf))
    evidence = log_E.T[observations].cumsum(1)
    possible = (evidence > -np.inf) & (dice.priors > 0)
    if not possible.any(-1).all():
        raise ValueError("observations: got something of probability 0, expected a possible sequence")
    return np.asarray(bayes.posterior(np.broadcast_to(dice.priors, evidence.shape), evidence))


def predictive(dice: Dice, observations: Ints) -> Floats:
    """The exact p(o_{t+1} | o_1 .. o_t), shape (B, n, O) for observations (B, n)."""
    return posterior(dice, observations) @ dice.E


def window_predictive(dice: Dice, observations: Ints, window: int) -> Floats:
    """The predictive of somebody who knows the last ``window`` symbols alone; 0 is no context at all."""
    _validate.natural("window", window)
    rows = []
    for t in range(observations.shape[1]):
        seen = observations[:, max(0, t + 1 - window) : t + 1]
        known = predictive(dice, seen)[:, -1] if seen.shape[1] else np.tile(dice.priors @ dice.E, (len(seen), 1))
        rows.append(known)
    return np.stack(rows, axis=1)
