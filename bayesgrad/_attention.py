r"""The forward map of one attention head.

.. math::

    s_{ij} = \text{scale}\; q_i \cdot k_j + \text{bias}_{ij}, \qquad
    a_i = \operatorname{softmax}_{j \text{ visible}} s_{ij}, \qquad
    g_i = \sum_j a_{ij} D_{ij} v_j

where i = 1..n, j = 1..m, q (n, d_k), k (m, d_k), v (m, d_v), and D is a fixed dropout multiplier (all 1 unless given).
The bias is not scaled. A query that sees no key has a_i = 0 and g_i = 0.
"""

from __future__ import annotations

from typing import NamedTuple

from bayesgrad import _arrays
from bayesgrad._head import prepare_head, scores_and_weights, used_weights
from bayesgrad._types import Array, ArrayT, Bools, Floats, Generic, Real


class Attention(NamedTuple, Generic[ArrayT]):
    """What the head computed: scores s (-inf at hidden pairs), weights a, context g."""

    scores: ArrayT
    weights: ArrayT
    context: ArrayT


def attention(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> Attention[ArrayT]:
    """Scores, weights and context of one head, or of many: leading axes are free, heads stand before positions.

    Args:
        q, k, v: (..., n, d_k), (..., m, d_k), (..., m, d_v), of one library, dtype and device.
        mask: booleans that broadcast to (..., n, m), True = may attend.
        bias: added to the scores, broadcasts to (..., n, m); -inf hides the pair as the mask does.
        scale: any real number, 1/sqrt(d_k) by default.
        dropout: the fixed multiplier D (0 or 1/(1-rate)), broadcasts to (..., n, m).

    Returns:
        ``Attention(scores, weights, context)`` with shapes (..., n, m), (..., n, m), (..., n, d_v); the weights are
        those before dropout. 16-bit inputs accumulate in float32.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    A non-finite key or value that some query sees may reach every query, because 0 * NaN is NaN; one that nobody sees
    never matters. Source: standard.

    >>> import numpy as np
    >>> q, k, v = np.zeros((1, 2)), np.zeros((3, 2)), np.asarray([[0.0], [3.0], [6.0]])
    >>> attention(q, k, v).context.tolist()
    [[3.0]]
    >>> attention(q, k, v, mask=np.asarray([[True, True, False]])).weights.tolist()
    [[0.5, 0.5, 0.0]]
    """
    head = prepare_head(q, k, v, None, mask=mask, bias=bias, scale=scale, dropout=dropout)
    scores, weights = scores_and_weights(head)
    context = head.xp.matmul(used_weights(head, weights), head.v)
    return Attention(*_arrays.narrow_all(head.xp, q, scores, weights, context))
