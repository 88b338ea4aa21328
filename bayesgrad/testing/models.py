"""Finite probability models with whole-number weights, so that every probability is an exact fraction.

A weight array w stands for the distributions w / sum w over its last axis. Weights of 0 occur (a simplex point on the
boundary); a row of zeros does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bayesgrad.testing.examples import Array, Example


def fractions(weights: Array) -> Any:
    """Nested lists of exact probabilities, normalised over the last axis."""
    if weights.ndim == 1:
        total = int(weights.sum())
        return [Fraction(int(w), total) for w in weights]
    return [fractions(row) for row in weights]


def floats(weights: Array) -> Array:
    """The same probabilities, each rounded once to float64."""
    return np.asarray(weights, dtype=np.float64) / weights.sum(-1, keepdims=True)


@dataclass(frozen=True, eq=False, repr=False)
class Joint(Example):
    """P(c) P(theta|c) P(x|c) P(y|x,theta): y is independent of c given (x,theta), x of theta given c.

    Weights: contexts (c,), beliefs (c, theta), inputs (c, x), outcomes (x, theta, y). Contexts are possible.
    """

    contexts: Array
    beliefs: Array
    inputs: Array
    outcomes: Array

    def tensors(self) -> dict[str, Array]:
        """h = p(theta|c) as (theta, c), f = p(y|x,theta) as (theta, x, y), P (theta, c, x, y)."""
        h, f = floats(self.beliefs).T, floats(self.outcomes).swapaxes(0, 1)
        P = np.einsum("c,tc,cx,txy->tcxy", floats(self.contexts), h, floats(self.inputs), f)
        return {"h": h, "f": f, "P": P}

    def named_sizes(self) -> dict[str, int]:
        """Theta, Gamma (contexts), X and Y."""
        return dict(zip(("Gamma", "Theta"), self.beliefs.shape, strict=True)) | dict(
            zip(("X", "Theta", "Y"), self.outcomes.shape, strict=True)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Simplex(Example):
    """Truths p (c, y) and predictions q (c, y) in contexts with weights P(c); q has full support where it says so."""

    contexts: Array
    p: Array
    q: Array

    def tensors(self) -> dict[str, Array]:
        """w = P(c), p (1 outside its support, where nothing depends on it), q, and S, the support of p."""
        S = self.p > 0
        return {
            "w": floats(self.contexts),
            "p": np.where(S, floats(self.p), 1.0),
            "q": floats(self.q),
            "S": S.astype(float),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Sequences(Example):
    """A joint distribution of y_1..y_T with weights (Y, ..., Y), and one sequence of positive probability."""

    weights: Array
    outcomes: Array

    def conditional(self, t: int) -> list[Fraction]:
        """p(y_t | y_<t) along the sequence, exactly (t from 0)."""
        past = self.weights[tuple(self.outcomes[:t])]
        rows = past.reshape(past.shape[0], -1).sum(-1)
        return fractions(rows)


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Example):
    """Pairs (key, pi(key)) of a permutation pi of 0..V-1, and a query key."""

    permutation: Array
    keys: Array
    query: int

    @property
    def values(self) -> Array:
        """pi(keys)."""
        return self.permutation[self.keys]

    def named_sizes(self) -> dict[str, int]:
        """V, and m distinct pairs."""
        return {"V": len(self.permutation), "m": len(np.unique(self.keys))}


@dataclass(frozen=True, eq=False, repr=False)
class Hmm(Example):
    """A hidden Markov model with weights initial (S,), transition (S, S), emission (S, O), and observations (T,).

    Emission weights are positive, so every sequence is possible.
    """

    initial: Array
    transition: Array
    emission: Array
    observations: Array


@dataclass(frozen=True, eq=False, repr=False)
class NoisyChain(Example):
    """A Markov chain with weights initial (S,), transition (S, S), seen as x (T, d) = mean of the state plus noise."""

    initial: Array
    transition: Array
    means: Array
    x: Array
    noise: float
