r"""What predictors that do not filter reach on :mod:`bayesgrad.tasks.hmm`, and a model's equivalent memory.

Two figures per predictor and position: the Kullback-Leibler divergence of its prediction of o_{t+1} from the exact
one, and how far the entropy of its posterior over states is from the exact entropy,

.. math:: \mathbb E\,\mathrm{KL}\bigl(p(o_{t+1} \mid o_{1..t}) \,\|\, q_t\bigr), \qquad
          \mathbb E\,\bigl| H(\bar\alpha_t) - H(\hat\alpha_t) \bigr| \qquad \text{(bits)}.

A model whose divergence is that of a filter over the last w observations remembers w of them: a transformer that does
not beat the two-observation window has not been shown to filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bayesgrad import bayes
from bayesgrad.tasks.hmm import Floats, Ints, filter_posterior, possible, stationary, window_posterior

WINDOWS = (1, 2, 3, 5, 8, 12)


@dataclass(frozen=True)
class Guess:
    """A predictor without (all of) the past: posterior over states (B, n, S), prediction of the next symbol
    (B, n, O)."""

    posterior: Floats
    predictive: Floats


@dataclass(frozen=True)
class Floor:
    """Means over the sequences, by position (n,), in bits."""

    kl_bits: Floats
    entropy_mae_bits: Floats


def guesses(T: Floats, E: Floats, observations: Ints, windows: Sequence[int] = WINDOWS) -> dict[str, Guess]:
    """Predictors by name, for observations (B, n).

    "uniform": uniform over states, and uniform over symbols (not uniform T E).
    "stationary": the stationary distribution pi and pi T E = pi E; no observation is looked at.
    "emission": the posterior proportional to E(s, o_t), that is from o_t and a uniform prior, and one step T E from it.
    "stationary x emission": the posterior proportional to pi(s) E(s, o_t), at the first position too.
    "window w": the filter over the last w observations, started from pi unless it reaches the first ("window 1" is
    "stationary x emission" from the second position on, and exact at the first).
    """
    shape = (*observations.shape, T.shape[-1])
    at_random = np.full((*observations.shape, E.shape[-1]), 1 / E.shape[-1])
    uniform = np.full(shape, 1 / T.shape[-1])
    pi = np.broadcast_to(stationary(T)[:, None], shape)
    # each observation alone, as a sequence of length one: the same filter with nothing before it
    emission = np.concatenate(
        [filter_posterior(T, E, observations[:, t : t + 1]) for t in range(observations.shape[1])], axis=1
    )
    out = {"uniform": Guess(uniform, at_random), "stationary": Guess(pi, pi @ T @ E)}
    weighted = pi * emission  # the emission posterior is E(s, o_t) up to a factor
    beliefs = {"emission": emission, "stationary x emission": weighted / possible(weighted.sum(-1, keepdims=True))}
    beliefs |= {f"window {w}": window_posterior(T, E, observations, w) for w in windows}
    return out | {name: Guess(belief, belief @ T @ E) for name, belief in beliefs.items()}


def floors(T: Floats, E: Floats, observations: Ints, windows: Sequence[int] = WINDOWS) -> dict[str, Floor]:
    """Both figures of every predictor of :func:`guesses`, by position."""
    exact = filter_posterior(T, E, observations)
    truth, entropy = exact @ T @ E, bayes.entropy(exact, units="bits")
    return {
        name: Floor(
            np.asarray(bayes.kl_divergence(truth, guess.predictive, units="bits").mean(0)),
            np.abs(entropy - bayes.entropy(guess.posterior, units="bits")).mean(0),
        )
        for name, guess in guesses(T, E, observations, windows).items()
    }


@dataclass(frozen=True)
class Memory:
    """``observations``, to be read with its ``relation``: "=" interpolated, ">=" or "<=" at an end of the table."""

    observations: float
    relation: Literal["=", ">=", "<="]

    def __str__(self) -> str:
        sign = "" if self.relation == "=" else f"{self.relation} "
        return f"{sign}{self.observations:.1f}"


def equivalent_memory(
    kl_bits: float, windows: Sequence[int], window_kl_bits: Sequence[float], stationary_kl_bits: float | None = None
) -> Memory:
    """The window length whose filter has divergence ``kl_bits``, interpolated linearly in log KL.

    ``stationary_kl_bits`` is the divergence of a window of 0. Nothing is extrapolated: a smaller divergence than that
    of the longest window gives that window with ">=", a larger one than that of the shortest gives that with "<=".

    Raises:
        ValueError: a negative ``kl_bits``, or windows that do not grow while their divergences, all positive, shrink
            (leave out windows that reach the first observation everywhere: they are exact).
    """
    if not kl_bits >= 0:
        raise ValueError(f"kl_bits: got {kl_bits}, expected a number of at least 0")
    lengths = ([] if stationary_kl_bits is None else [0]) + list(windows)
    values = ([] if stationary_kl_bits is None else [stationary_kl_bits]) + list(window_kl_bits)
    if not lengths or len(lengths) != len(values):
        raise ValueError(f"window_kl_bits: got {len(window_kl_bits)}, expected one for each of {len(windows)} windows")
    if not (np.diff(lengths) > 0).all():
        raise ValueError(f"windows: got {lengths}, expected growing lengths")
    if not (values[-1] > 0 and (np.diff(values) < 0).all()):
        raise ValueError(f"window_kl_bits: got {values}, expected positive numbers that shrink as the window grows")
    if kl_bits > values[0]:
        return Memory(float(lengths[0]), "<=")
    if kl_bits < values[-1]:
        return Memory(float(lengths[-1]), ">=")
    at = np.interp(-np.log(kl_bits), -np.log(values), lengths)
    return Memory(float(at), "=")
