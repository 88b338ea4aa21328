r"""Matrices and observations of :mod:`bayesgrad.tasks.hmm` as a model's input: a header, then o_1 .. o_K.

"rows": 2S header tokens, one per row of T and then of E, and one token per observation. Each is a vector of
S + O + S + O numbers, of which a kind of token uses two parts or one:

.. math:: [\,T_{s, \cdot} \mid E_{s, \cdot} \mid \text{one-hot of } s \mid \text{one-hot of } o_t\,]

"published": token numbers [T], the entries of T in hundredths (0..100), [E], the entries of E, [SEQ] (53 tokens for
5 states and symbols), then K pairs ([OBS], o_t). It can only say hundredths, which the matrices of the "long-memory"
generator are not.

The supervised token of step t is the one that shows o_t; its target o_{t+1} stands to the right of it or nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bayesgrad.tasks.hmm import Floats, Ints, check_matrices

Encoding = Literal["rows", "published"]
ENCODINGS: tuple[Encoding, ...] = ("rows", "published")
MARK_T, MARK_E, MARK_SEQ, MARK_OBS, FIRST_SYMBOL = 101, 102, 103, 104, 105


@dataclass(frozen=True)
class Encoded:
    """``tokens``: features (B, n, F) in "rows", numbers (B, n) in "published". ``supervised`` (K,): where o_t is."""

    tokens: Floats | Ints
    supervised: NDArray[np.int64]


def _known(encoding: str) -> None:
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding: got {encoding!r}, expected one of {', '.join(ENCODINGS)}")


def width(encoding: Encoding, states: int = 5, symbols: int = 5) -> int:
    """Features per token in "rows", the size of the vocabulary in "published"."""
    _known(encoding)
    return 2 * (states + symbols) if encoding == "rows" else FIRST_SYMBOL + symbols


def positions(encoding: Encoding, steps: int, states: int = 5, symbols: int = 5) -> NDArray[np.int64]:
    """The supervised positions (K,); the sequence ends with the last of them."""
    _known(encoding)
    if encoding == "rows":
        return 2 * states + np.arange(steps)
    return 3 + states * (states + symbols) + 1 + 2 * np.arange(steps)


def encode(T: Floats, E: Floats, observations: Ints, encoding: Encoding) -> Encoded:
    """The input of a model that is shown ``observations`` (B, K), without their last target.

    Raises:
        ValueError: an unknown encoding, no observation, rows that are no distributions, or (with "published") entries
            that are no hundredths.
    """
    _known(encoding)
    check_matrices(T, E)
    (B, states, symbols), steps = E.shape, observations.shape[-1]
    if observations.shape != (B, steps) or steps < 1:
        raise ValueError(f"observations: got shape {observations.shape}, expected ({B}, K) with K >= 1")
    if observations.min() < 0 or observations.max() >= symbols:
        raise ValueError(f"observations: got {observations.min()}..{observations.max()}, expected 0..{symbols - 1}")
    supervised = positions(encoding, steps, states, symbols)
    if encoding == "rows":
        x = np.zeros((B, 2 * states + steps, width("rows", states, symbols)))
        x[:, :states, :states] = T
        x[:, states : 2 * states, states : states + symbols] = E
        which = np.tile(np.arange(states), 2)
        x[:, np.arange(2 * states), states + symbols + which] = 1.0
        x[:, 2 * states :, 2 * states + symbols :] = np.eye(symbols)[observations]
        return Encoded(x, supervised)
    cents = []
    for name, matrix in (("T", T), ("E", E)):
        rounded = np.rint(100 * matrix)
        wrong = np.argwhere(np.abs(100 * matrix - rounded) > 1e-9)
        if len(wrong):
            b, s, j = wrong[0]
            raise ValueError(
                f"{name}: got {matrix[b, s, j]} in row {s} of matrix {b}, expected hundredths"
                ' (the "published" encoding has no token for anything else)'
            )
        cents.append(rounded.reshape(B, -1).astype(np.int64))
    head = [np.full((B, 1), MARK_T), cents[0], np.full((B, 1), MARK_E), cents[1], np.full((B, 1), MARK_SEQ)]
    pairs = np.full((B, 2 * steps), MARK_OBS)
    pairs[:, 1::2] = FIRST_SYMBOL + observations
    return Encoded(np.concatenate([*head, pairs], axis=1), supervised)
