r"""A hidden permutation, revealed pair by pair.

A fresh uniform permutation :math:`\pi` of V values for each sequence; keys :math:`k_1, .., k_L`; tokens
:math:`k_1, \pi(k_1), k_2, \pi(k_2), .., k_L` (length 2L - 1, keys 0..V-1, values V..2V-1). Every *key* position is
supervised with its value, which comes one token later: no position has its own target as its input.

.. math:: p(v \mid k_1 v_1 .. k_t) = \begin{cases} 1[v = v_s] & k_t = k_s \text{ for some } s < t \\
          1[v \text{ unseen}] / (V - m) & \text{otherwise, after } m \text{ distinct pairs} \end{cases}

for every way of choosing keys that does not look at the permutation beyond the pairs revealed so far. Two such ways:
"without" replacement (each key is new, the entropy is log2(V - t + 1) at the t-th key) and "with" (keys uniform, so
that entropy and position are not the same variable).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Protocol = Literal["without", "with"]
PROTOCOLS: tuple[Protocol, ...] = ("without", "with")


@dataclass(frozen=True)
class Sequences:
    """``tokens`` (B, 2L - 1), and ``targets`` (B, L): the value 0..V-1 of the key at position 2t."""

    tokens: NDArray[np.int64]
    targets: NDArray[np.int64]

    @property
    def supervised(self) -> NDArray[np.int64]:
        """Where the keys are (L,): position 2t says the value that position 2t + 1 shows."""
        return 2 * np.arange(self.targets.shape[-1])


def check(values: int, keys: int, protocol: Protocol) -> None:
    """ValueError for a task that is none."""
    if values < 2:
        raise ValueError(f"values: got {values}, expected at least 2 (one value leaves nothing to learn)")
    if keys < 1:
        raise ValueError(f"keys: got {keys}, expected at least 1")
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol: got {protocol!r}, expected one of {', '.join(PROTOCOLS)}")
    if protocol == "without" and keys > values:
        raise ValueError(f"keys: got {keys}, expected at most {values} without replacement")


def sample(
    rng: np.random.Generator, count: int, *, values: int, keys: int, protocol: Protocol = "without"
) -> Sequences:
    """``count`` independent sequences, each with its own permutation."""
    check(values, keys, protocol)
    permutation = rng.random((count, values)).argsort(-1)
    if protocol == "without":
        asked = rng.random((count, values)).argsort(-1)[:, :keys]
    else:
        asked = rng.integers(values, size=(count, keys))
    targets = np.take_along_axis(permutation, asked, axis=-1)
    tokens = np.empty((count, 2 * keys - 1), dtype=np.int64)
    tokens[:, 0::2] = asked
    tokens[:, 1::2] = values + targets[:, :-1]
    return Sequences(tokens, targets)


def predictive(tokens: NDArray[np.int64], values: int) -> NDArray[np.float64]:
    """The exact predictive (B, L, V) at every key position, for any choice of keys that the permutation is blind to."""
    asked, shown = tokens[:, 0::2], tokens[:, 1::2] - values
    count, keys = asked.shape
    out = np.empty((count, keys, values))
    known = np.full((count, values), -1)  # known[b, k] = the value of key k, once revealed
    free = np.ones((count, values), dtype=bool)
    rows = np.arange(count)
    for t in range(keys):
        seen = known[rows, asked[:, t]]
        out[:, t] = free / np.maximum(free.sum(-1, keepdims=True), 1)
        certain = seen >= 0
        out[certain, t] = 0.0
        out[rows[certain], t, seen[certain]] = 1.0
        if t < keys - 1:
            known[rows, asked[:, t]] = shown[:, t]
            free[rows, shown[:, t]] = False
    return out


def floor_bits(values: int, keys: int) -> float:
    """Mean exact entropy in bits over the key positions without replacement: nothing can have a smaller loss."""
    check(values, keys, "without")
    return float(np.log2(values - np.arange(keys)).mean())
