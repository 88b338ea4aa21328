"""One head from inside: arguments checked and widened once, the forward map, the backward map.

Every function that needs a head (:func:`bayesgrad.attention`, its gradients, the block, ``explain``, PyTorch's node)
calls :func:`prepare_head`, then :func:`run_forward`, then :func:`run_backward`; the equations stand in the docstrings
of the public modules. All arrays here have their accumulation dtype.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesgrad import _arrays, _validate
from bayesgrad._softmax import weights_of
from bayesgrad._types import Array, ArrayT, Generic, Real


class AttentionGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of the loss, one field an argument.

    ``weights`` is dL/da = b (weights taken as free), ``scores`` dL/ds, ``values`` dL/dv, ``queries`` dL/dq, ``keys``
    dL/dk, ``bias`` dL/dbias in the shape of the bias (without one: of a bias for every pair, so it is dL/ds), ``scale``
    dL/dscale (no axes: one number, summed over all leading axes).
    """

    weights: ArrayT
    scores: ArrayT
    values: ArrayT
    queries: ArrayT
    keys: ArrayT
    bias: ArrayT
    scale: ArrayT


class Head(NamedTuple):
    """The arguments of one head after checking: wide, and with 0 wherever nothing can be seen.

    ``mask`` holds the visible pairs (..., n, m), None where all are; ``seen`` and ``seeing`` say which keys some query
    sees and which queries see some key, None as well then. ``bias_shape`` is the shape of the bias that was given.
    """

    xp: _arrays.Namespace
    q: Any
    k: Any
    v: Any
    u: Any
    mask: Any
    seen: Any
    seeing: Any
    bias: Any
    bias_shape: tuple[int, ...] | None
    scale: Any
    dropout: Any


class Forward(NamedTuple):
    """What the backward map reuses: scores and weights, the centre c of the values (..., 1, d_v), the values v - c,
    and sum_j a_ij D_ij (v_j - c)."""

    scores: Any
    weights: Any
    centre: Any
    centred: Any
    relative: Any


def prepare_head(
    q: Array,
    k: Array,
    v: Array,
    u: Array | None,
    *,
    mask: Array | None,
    bias: Array | None,
    scale: Real | None,
    dropout: Array | None,
) -> Head:
    """Validate and widen the arguments of one head, and replace by 0 what nothing sees; u = None: forward only."""
    xp = _validate.floats({"u": u, "bias": bias, "dropout": dropout}, q=q, k=k, v=v)
    leading, size = _validate.shapes(q=(q, "n d_k"), k=(k, "m d_k"), v=(v, "m d_v"), u=(u, "n d_v"))
    n, m = size["n"], size["m"]
    pairs = (*leading, n, m)
    _validate.booleans(xp, "mask", mask, q)
    for name, x in (("mask", mask), ("bias", bias), ("dropout", dropout)):
        _validate.broadcastable(name, x, pairs)
    factor = _validate.scale(xp, scale, size["d_k"])
    bias_shape = None if bias is None else tuple(bias.shape)
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
    return Head(xp, q, k, v, u, mask, seen, seeing, bias, bias_shape, factor, dropout)


def with_upstream(head: Head, u: Any) -> Head:
    """The head with an upstream gradient that was not known before the forward map."""
    return head._replace(u=u if head.mask is None else _arrays.keep(head.xp, head.seeing, u))


def scores_and_weights(head: Head) -> tuple[Any, Any]:
    """s and a."""
    xp = head.xp
    # The scale meets q before the product, so that no intermediate is larger than the score itself.
    scores = xp.matmul(head.q * head.scale, _arrays.transpose(xp, head.k))
    if head.bias is not None:
        scores = scores + head.bias
    scores = _arrays.hide(xp, scores, head.mask)
    return scores, weights_of(xp, scores, None if not _arrays.symbolic(xp) else head.mask)


def used_weights(head: Head, weights: Any) -> Any:
    """a D: the weights that the values meet."""
    return weights if head.dropout is None else weights * head.dropout


def _value_centre(xp: _arrays.Namespace, v: Any, seen: Any) -> Any:
    """(..., 1, d_v): the mean of the values that some query sees. Without it in every v, b - bbar is unchanged."""
    if seen is None:
        return xp.sum(v, axis=-2, keepdims=True) / max(v.shape[-2], 1)
    some = _arrays.namespace_of(seen).any(seen, axis=-2, keepdims=True)
    count = xp.sum(_arrays.keep(xp, seen, xp.ones_like(v)), axis=-2, keepdims=True)
    return xp.sum(v, axis=-2, keepdims=True) / xp.where(some, count, xp.ones_like(count))


def run_forward(head: Head) -> Forward:
    """The forward map as the backward map needs it."""
    scores, weights = scores_and_weights(head)
    centre = _value_centre(head.xp, head.v, head.seen)
    centred = head.v - centre
    return Forward(scores, weights, centre, centred, head.xp.matmul(used_weights(head, weights), centred))


def context_of(head: Head, made: Forward) -> Any:
    """g from what :func:`run_forward` made. With dropout a row of a D has another sum than 1."""
    xp = head.xp
    if head.dropout is not None:
        return made.relative + xp.sum(made.weights * head.dropout, axis=-1, keepdims=True) * made.centre
    g = made.relative + made.centre
    return g if head.mask is None else _arrays.keep(xp, head.seeing, g)


def advantage_of(xp: _arrays.Namespace, a: Any, b: Any) -> Any:
    """A_ij = bbar_i - b_ij."""
    return xp.sum(a * b, axis=-1, keepdims=True) - b


def above_mean(xp: _arrays.Namespace, a: Any, b: Any) -> Any:
    """b_ij - bbar_i, which is -A_ij."""
    return b - xp.sum(a * b, axis=-1, keepdims=True)


def score_gradient_of(xp: _arrays.Namespace, a: Any, b: Any) -> Any:
    """dL/ds_ij. Softmax's adjoint is symmetric, so this is its tangent map too: da from a and ds."""
    # The sign of the routing law stands here and nowhere else: dL/ds = +a (b - bbar) = -a A.
    return _arrays.times_in_place(xp, above_mean(xp, a, b), a)


def run_backward(head: Head, made: Forward) -> AttentionGradients[Any]:
    """All gradients of the head."""
    xp, a, u = head.xp, made.weights, head.u
    if head.dropout is None and head.v.shape[-1]:
        # b - bbar as one product, from the values without what all keys share: [u, -u.g] [v, 1]^T. A common offset in v
        # costs no accuracy that way, and taking the mean out a second time leaves the small gradients of a saturated
        # row their digits (docs/numerics.md). b itself is a product of its own: b - bbar plus bbar would carry rounding
        # errors of its whole row.
        mean = xp.sum(u * made.relative, axis=-1, keepdims=True)
        values = _arrays.beside(xp, made.centred, xp.ones_like(made.centred[..., :1]))
        nearly = xp.matmul(_arrays.beside(xp, u, -mean), _arrays.transpose(xp, values))
        b = xp.matmul(u, _arrays.transpose(xp, head.v))
        ds = score_gradient_of(xp, a, nearly)
    else:
        b = xp.matmul(u, _arrays.transpose(xp, head.v))
        b = b if head.dropout is None else b * head.dropout
        ds = score_gradient_of(xp, a, b)
    along_k = xp.matmul(ds, head.k)
    return AttentionGradients(
        weights=b,
        scores=ds,
        values=xp.matmul(_arrays.transpose(xp, used_weights(head, a)), u),
        queries=along_k * head.scale,
        keys=xp.matmul(_arrays.transpose(xp, ds), head.q * head.scale),
        bias=ds if head.bias_shape is None else _arrays.unbroadcast(xp, ds, head.bias_shape),
        scale=xp.sum(along_k * head.q),
    )
