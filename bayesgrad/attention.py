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

from bayesgrad import _arrays, _checks
from bayesgrad._types import Array, Bools, Floats, Scale
from bayesgrad.softmax import weights_of


class Attention(NamedTuple):
    """What the head computed: scores s (-inf at hidden pairs), weights a, context g."""

    scores: Array
    weights: Array
    context: Array


class Head(NamedTuple):
    """The arguments of one head after checking: wide, and with 0 wherever nothing can be seen."""

    xp: _arrays.Namespace
    q: Array
    k: Array
    v: Array
    u: Array
    mask: Array
    seen: Array
    seeing: Array
    bias: Array
    scale: Array
    dropout: Array


def checked(q: Array, k: Array, v: Array, u: Array, mask: Array, bias: Array, scale: Scale, dropout: Array) -> Head:
    """Look at every argument once, for the forward map and for the gradients (u = None: forward only)."""
    xp = _checks.floats({"u": u, "bias": bias, "dropout": dropout}, q=q, k=k, v=v)
    leading, size = _checks.shapes(q=(q, "n d_k"), k=(k, "m d_k"), v=(v, "m d_v"), u=(u, "n d_v"))
    n, m = size["n"], size["m"]
    pairs = (*leading, n, m)
    _checks.booleans(xp, "mask", mask, q)
    for name, x in (("mask", mask), ("bias", bias), ("dropout", dropout)):
        _checks.broadcastable(name, x, pairs)
    factor = _checks.scale(xp, scale, size["d_k"])
    q, k, v, u, bias, dropout = _arrays.widen(xp, q, k, v, u, bias, dropout)
    mask = _arrays.visibility(xp, mask, bias, n, m)
    seen = seeing = None
    if mask is not None:
        # A key that nobody sees, and a query that sees nothing, must not matter, even if NaN: 0 * NaN is NaN.
        seen, seeing = _arrays.seen_keys(mask), _arrays.seeing_queries(mask)
        if not _arrays.all_known(seen):
            k, v = _arrays.keep(xp, seen, k), _arrays.keep(xp, seen, v)
        if not _arrays.all_known(seeing):
            q, u = _arrays.keep(xp, seeing, q), None if u is None else _arrays.keep(xp, seeing, u)
    return Head(xp, q, k, v, u, mask, seen, seeing, bias, factor, dropout)


def upstream(head: Head, u: Array) -> Head:
    """The head with an upstream gradient that was not known before the forward map."""
    return head._replace(u=u if head.mask is None else _arrays.keep(head.xp, head.seeing, u))


def centre_of(xp: _arrays.Namespace, v: Array, seen: Array) -> Array:
    """(..., 1, d_v): the mean of the values that somebody sees. Taking it out of every v leaves b - bbar unchanged."""
    if seen is None:
        return xp.sum(v, axis=-2, keepdims=True) / max(v.shape[-2], 1)
    some = _arrays.namespace_of(seen).any(seen, axis=-2, keepdims=True)
    count = xp.sum(_arrays.keep(xp, seen, xp.ones_like(v)), axis=-2, keepdims=True)
    return xp.sum(v, axis=-2, keepdims=True) / xp.where(some, count, xp.ones_like(count))


class Weighed(NamedTuple):
    """Scores and weights, the values' centre c (..., 1, d_v), the values v - c, and sum_j a_ij D_ij (v_j - c)."""

    scores: Array
    weights: Array
    centre: Array
    centred: Array
    relative: Array


def _scores_and_weights(head: Head) -> tuple[Array, Array]:
    xp = head.xp
    # The scale meets q before the product, so that no intermediate is larger than the score itself.
    scores = xp.matmul(head.q * head.scale, _arrays.transpose(xp, head.k))
    if head.bias is not None:
        scores = scores + head.bias
    scores = _arrays.hide(xp, scores, head.mask)
    return scores, weights_of(xp, scores, None if not _arrays.symbolic(xp) else head.mask)


def weigh(head: Head) -> Weighed:
    """The forward map as the gradients need it, in the accumulation dtype."""
    xp = head.xp
    scores, weights = _scores_and_weights(head)
    centre = centre_of(xp, head.v, head.seen)
    centred = head.v - centre
    used = weights if head.dropout is None else weights * head.dropout
    return Weighed(scores, weights, centre, centred, xp.matmul(used, centred))


def context_of(head: Head, made: Weighed) -> Array:
    """g from what :func:`weigh` made. With dropout a row of a D has another sum than 1."""
    xp = head.xp
    if head.dropout is not None:
        return made.relative + xp.sum(made.weights * head.dropout, axis=-1, keepdims=True) * made.centre
    g = made.relative + made.centre
    return g if head.mask is None else _arrays.keep(xp, head.seeing, g)


def forward(head: Head) -> Attention:
    """The three equations above, in the accumulation dtype."""
    scores, weights = _scores_and_weights(head)
    used = weights if head.dropout is None else weights * head.dropout
    return Attention(scores, weights, head.xp.matmul(used, head.v))


def attention(
    q: Floats[Array, "*batch queries width"],
    k: Floats[Array, "*batch keys width"],
    v: Floats[Array, "*batch keys values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[Array, "*_"] | None = None,
    scale: Scale = None,
    dropout: Floats[Array, "*_"] | None = None,
) -> Attention:
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
    head = checked(q, k, v, None, mask, bias, scale, dropout)
    return Attention(*_arrays.narrow(head.xp, q.dtype, *forward(head)))
