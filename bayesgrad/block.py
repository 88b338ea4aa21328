r"""The whole one-layer block: input, projections, heads, read-out, cross-entropy; its loss and every gradient.

.. math::

    q^{(h)} = x W_Q^{(h)} + c_Q^{(h)}, \quad k^{(\gamma)} = y W_K^{(\gamma)} + c_K^{(\gamma)}, \quad
    v^{(\gamma)} = y W_V^{(\gamma)} + c_V^{(\gamma)}, \quad
    z = [g^{(1)} \dots g^{(H)}] W_O + c_O, \quad L = \text{cross-entropy}(z, \text{targets}), \quad u = r W_O^T

where y = x in self-attention, columns of W_Q and rows of W_O come head by head, and query head h reads key/value head
:math:`\gamma = \lfloor h / (H/G) \rfloor`. There is no residual path, no norm and no positional term.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesgrad import _arrays, _validate
from bayesgrad._attention import Attention
from bayesgrad._cross_entropy import cross_entropy
from bayesgrad._head import AttentionGradients, context_of, prepare_head, run_backward, run_forward, with_upstream
from bayesgrad._parameters import block_sizes, over_positions, over_rows
from bayesgrad._types import Array, ArrayT, Bools, Floats, Generic, Ints, Real, Reduction
from bayesgrad.heads import merge_heads, repeat_groups, split_heads, sum_groups


class BlockAttention(NamedTuple, Generic[ArrayT]):
    """What lies between: q (..., H, n, d_k), k and v as the query heads read them (..., H, m, .), the attention, the
    logits z (..., n, C), r = dL/dz, the upstream gradients u (..., H, n, d_v) and the gradients of every head.
    """

    queries: ArrayT
    keys: ArrayT
    values: ArrayT
    attention: Attention[ArrayT]
    logits: ArrayT
    logit_gradient: ArrayT
    upstream: ArrayT
    gradients: AttentionGradients[ArrayT]


class BlockGradients(NamedTuple, Generic[ArrayT]):
    """The loss in nats and its gradient in every argument; None for an argument that was not given.

    ``bias`` has the shape of the bias, ``scale`` no axes. ``attention`` is a :class:`BlockAttention` on request.
    """

    # `ArrayT | Any`: None where the argument was not given, which the caller knows better than a type checker.

    loss: ArrayT
    x: ArrayT
    W_Q: ArrayT
    W_K: ArrayT
    W_V: ArrayT
    W_O: ArrayT
    y: ArrayT | Any
    c_Q: ArrayT | Any
    c_K: ArrayT | Any
    c_V: ArrayT | Any
    c_O: ArrayT | Any
    bias: ArrayT | Any
    scale: ArrayT
    attention: BlockAttention[ArrayT] | None


def attention_block_gradients(
    x: Floats[ArrayT, "*batch queries d_x"],
    W_Q: Floats[ArrayT, "d_x columns_q"],
    W_K: Floats[ArrayT, "d_y columns_k"],
    W_V: Floats[ArrayT, "d_y columns_v"],
    W_O: Floats[ArrayT, "columns_o classes"],
    targets: Ints[Array, "*batch queries"] | Floats[ArrayT, "*batch queries classes"],
    *,
    heads: int = 1,
    kv_heads: int | None = None,
    y: Floats[ArrayT, "*batch keys d_y"] | None = None,
    c_Q: Floats[ArrayT, " columns_q"] | None = None,
    c_K: Floats[ArrayT, " columns_k"] | None = None,
    c_V: Floats[ArrayT, " columns_v"] | None = None,
    c_O: Floats[ArrayT, " classes"] | None = None,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    class_weights: Floats[ArrayT, " classes"] | None = None,
    label_smoothing: Real = 0.0,
    intermediates: bool = False,
    validate: bool = True,
) -> BlockGradients[ArrayT]:
    """Loss and all gradients of the one-layer block.

    Args:
        x: (..., n, d_x). y: keys' and values' input (..., m, d_y) in cross-attention, else x.
        W_Q: (d_x, H d_k). W_K: (d_y, G d_k). W_V: (d_y, G d_v). W_O: (H d_v, C); their biases c_Q, c_K, c_V, c_O.
        targets, reduction, ignore_index, class_weights, label_smoothing, validate: as in
            :func:`bayesgrad.cross_entropy`; with "none" the gradients are those of the sum.
        heads, kv_heads: H and G (H by default), G divides H.
        mask, bias, dropout: as in :func:`bayesgrad.attention`; they broadcast against (..., H, n, m): three axes are
            (H, n, m), and one pattern for each example is ``mask[:, None]``.
        scale: 1/sqrt(d_k) by default.
        intermediates: whether ``attention`` holds what lies between.

    Returns:
        :class:`BlockGradients`. Projections sum over all leading axes; x and y keep theirs.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, shape or value.

    Labels: attention.upstream and all laws of the head. Source: arXiv 2512.22473 and standard calculus.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, W_Q, W_K = rng.normal(size=(4, 3)), rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    >>> W_V, W_O = rng.normal(size=(3, 5)), rng.normal(size=(5, 6))
    >>> got = attention_block_gradients(x, W_Q, W_K, W_V, W_O, np.asarray([0, 5, 2, 1]))
    >>> got.loss.shape, got.x.shape, got.W_V.shape
    ((), (4, 3), (3, 5))
    """
    given = {"c_Q": c_Q, "c_K": c_K, "c_V": c_V, "c_O": c_O}
    optional = {"y": y, **given, "bias": bias, "dropout": dropout, "class_weights": class_weights}
    xp = _validate.floats(optional, x=x, W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O)
    heads = _validate.natural("heads", heads, least=1)
    groups = heads if kv_heads is None else _validate.natural("kv_heads", kv_heads, least=1)
    d_k, _, classes = block_sizes(x, x if y is None else y, W_Q, W_K, W_V, W_O, heads, groups)
    for (name, c), size in zip(given.items(), (W_Q.shape[1], W_K.shape[1], W_V.shape[1], classes), strict=True):
        _validate.vector(name, c, "columns", size)
    _validate.booleans(xp, "mask", mask, x)
    cross = y is not None
    pairs = (*tuple(x.shape)[:-2], heads, x.shape[-2], (x if y is None else y).shape[-2])
    for name, each in (("mask", mask), ("bias", bias), ("dropout", dropout)):
        _validate.broadcastable(name, each, pairs)
    wide_x, wide_y, wq, wk, wv, wo = _arrays.widen(xp, x, x if y is None else y, W_Q, W_K, W_V, W_O)
    wide_biases = _arrays.widen(xp, *given.values())
    bias_q, bias_k, bias_v, bias_o = wide_biases
    bias, dropout, omega = _arrays.widen(xp, bias, dropout, class_weights)

    def project(inputs: Any, W: Any, c: Any, count: int) -> Any:
        out = xp.matmul(inputs, W)
        return split_heads(out if c is None else out + c, count)

    q = project(wide_x, wq, bias_q, heads)
    k = repeat_groups(project(wide_y, wk, bias_k, groups), heads)
    v = repeat_groups(project(wide_y, wv, bias_v, groups), heads)
    head = prepare_head(q, k, v, None, mask=mask, bias=bias, scale=_validate.scale(xp, scale, d_k), dropout=dropout)
    made = run_forward(head)
    context = context_of(head, made)
    g = merge_heads(context)
    z = xp.matmul(g, wo) if bias_o is None else xp.matmul(g, wo) + bias_o
    if hasattr(targets, "dtype") and targets.dtype == x.dtype:
        targets = _arrays.widen(xp, targets)
    loss, r = cross_entropy(
        z,
        targets,
        reduction=reduction,
        ignore_index=ignore_index,
        class_weights=omega,
        label_smoothing=label_smoothing,
        validate=validate,
    )
    u = split_heads(xp.matmul(r, _arrays.transpose(xp, wo)), heads)
    head = with_upstream(head, u)
    got = run_backward(head, made)
    dq = merge_heads(got.queries)
    dk = merge_heads(sum_groups(got.keys, groups))
    dv = merge_heads(sum_groups(got.values, groups))
    through_q = xp.matmul(dq, _arrays.transpose(xp, wq))
    through_kv = xp.matmul(dk, _arrays.transpose(xp, wk)) + xp.matmul(dv, _arrays.transpose(xp, wv))
    wide_x, wide_y = _visible_inputs(xp, head.seeing, head.seen, wide_x, wide_y)
    found: dict[str, Any] = {
        "loss": loss,
        "x": through_q if cross else through_q + through_kv,
        "W_Q": over_positions(xp, wide_x, dq),
        "W_K": over_positions(xp, wide_y, dk),
        "W_V": over_positions(xp, wide_y, dv),
        "W_O": over_positions(xp, g, r),
        "y": through_kv if cross else None,
        "c_Q": None if bias_q is None else over_rows(xp, dq),
        "c_K": None if bias_k is None else over_rows(xp, dk),
        "c_V": None if bias_v is None else over_rows(xp, dv),
        "c_O": None if bias_o is None else over_rows(xp, r),
        "bias": None if bias is None else got.bias,
        "scale": got.scale,
    }
    between = None
    if intermediates:
        q, k, v, z, r, u = _arrays.narrow_all(xp, x, q, k, v, z, r, u)
        seen = Attention(*_arrays.narrow_all(xp, x, made.scores, made.weights, context))
        between = BlockAttention(q, k, v, seen, z, r, u, AttentionGradients(*_arrays.narrow_all(xp, x, *got)))
    narrowed: dict[str, Any] = {
        name: None if out is None else _arrays.narrow(xp, x, out) for name, out in found.items()
    }
    return BlockGradients(**narrowed, attention=between)


def _visible_inputs(xp: _arrays.Namespace, seeing: Any, seen: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """The inputs with 0 where, in every head, the query sees nothing or no query sees the key: 0 * NaN is NaN."""
    if seen is None:
        return x, y
    own = _arrays.namespace_of(seen)
    if len(seen.shape) > 2:
        seeing, seen = own.any(seeing, axis=-3), own.any(seen, axis=-3)
    return _arrays.keep(xp, seeing, x), _arrays.keep(xp, seen, y)
