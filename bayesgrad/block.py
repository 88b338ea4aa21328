r"""The whole one-layer block: input, projections, heads, read-out, cross-entropy; its loss and every gradient.

.. math::

    q^{(h)} = x W_Q^{(h)} + c_Q^{(h)}, \quad k^{(\gamma)} = y W_K^{(\gamma)} + c_K^{(\gamma)}, \quad
    v^{(\gamma)} = y W_V^{(\gamma)} + c_V^{(\gamma)}, \quad
    z = [g^{(1)} \dots g^{(H)}] W_O + c_O, \quad L = \text{cross-entropy}(z, \text{targets}), \quad u = r W_O^T

where y = x in self-attention, columns of W_Q and rows of W_O come head by head, and query head h reads key/value head
:math:`\gamma = \lfloor h / (H/G) \rfloor`. There is no residual path, no norm and no positional term.
"""

from __future__ import annotations

from typing import NamedTuple

from bayesgrad import _arrays, _checks
from bayesgrad._types import Array, Bools, Floats, Real, Scale
from bayesgrad.attention import Attention, checked, context_of, upstream, weigh
from bayesgrad.cross_entropy import cross_entropy
from bayesgrad.gradients import AttentionGradients, backward
from bayesgrad.heads import merge_heads, repeat_groups, split_heads, sum_groups
from bayesgrad.projections import over_positions, over_rows


class BlockAttention(NamedTuple):
    """What lies between: q (..., H, n, d_k), k and v as the query heads read them (..., H, m, .), the attention, the
    logits z (..., n, C), r = dL/dz, the upstream gradients u (..., H, n, d_v) and the gradients of every head.
    """

    queries: Array
    keys: Array
    values: Array
    attention: Attention
    logits: Array
    logit_gradient: Array
    upstream: Array
    gradients: AttentionGradients


class BlockGradients(NamedTuple):
    """The loss in nats and its gradient in every argument; None for an argument that was not given.

    ``bias`` has the shape of the bias, ``scale`` no axes. ``attention`` is a :class:`BlockAttention` on request.
    """

    loss: Array
    x: Array
    W_Q: Array
    W_K: Array
    W_V: Array
    W_O: Array
    y: Array
    c_Q: Array
    c_K: Array
    c_V: Array
    c_O: Array
    bias: Array
    scale: Array
    attention: BlockAttention | None


def sizes(
    x: Array, y: Array, W_Q: Array, W_K: Array, W_V: Array, W_O: Array, heads: int, groups: int
) -> tuple[int, int, int]:
    """d_k, d_v and C; every projection has the shape that heads and input give it."""
    _checks.shapes(x=(x, "n d_x"))
    _checks.shapes(y=(y, "m d_y"))
    if tuple(x.shape)[:-2] != tuple(y.shape)[:-2]:
        raise ValueError(f"y: got shape {tuple(y.shape)}, expected the leading axes {tuple(x.shape)[:-2]} of x")
    for name, W, rows in (("W_Q", W_Q, x.shape[-1]), ("W_K", W_K, y.shape[-1]), ("W_V", W_V, y.shape[-1])):
        _checks.matrix(name, W, ("d_x" if name == "W_Q" else "d_y", rows), ("heads * d", None))
    if groups > heads or heads % groups:
        raise ValueError(f"kv_heads: got {groups}, expected a divisor of heads = {heads}")
    if W_Q.shape[1] % heads:
        raise ValueError(f"heads: got {heads}, expected a divisor of the {W_Q.shape[1]} columns of W_Q")
    d_k = W_Q.shape[1] // heads
    _checks.matrix("W_K", W_K, ("d_y", y.shape[-1]), ("kv_heads * d_k", groups * d_k))
    if W_V.shape[1] % groups:
        raise ValueError(f"kv_heads: got {groups}, expected a divisor of the {W_V.shape[1]} columns of W_V")
    d_v = W_V.shape[1] // groups
    _checks.matrix("W_O", W_O, ("heads * d_v", heads * d_v), ("C", None))
    return d_k, d_v, W_O.shape[1]


def _per_head(xp: _arrays.Namespace, x: Array, axes: int) -> Array:
    """A mask, bias or multiplier (..., n, m) for all heads gets a head axis; one with (..., H, n, m) has it already."""
    return _arrays.namespace_of(x).expand_dims(x, axis=-3) if x is not None and len(x.shape) == axes > 2 else x


def attention_block_gradients(
    x: Floats[Array, "*batch queries d_x"],
    W_Q: Floats[Array, "d_x columns_q"],
    W_K: Floats[Array, "d_y columns_k"],
    W_V: Floats[Array, "d_y columns_v"],
    W_O: Floats[Array, "columns_o classes"],
    targets: Array,
    *,
    heads: int = 1,
    kv_heads: int | None = None,
    y: Floats[Array, "*batch keys d_y"] | None = None,
    c_Q: Floats[Array, " columns_q"] | None = None,
    c_K: Floats[Array, " columns_k"] | None = None,
    c_V: Floats[Array, " columns_v"] | None = None,
    c_O: Floats[Array, " classes"] | None = None,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[Array, "*_"] | None = None,
    scale: Scale = None,
    dropout: Floats[Array, "*_"] | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    class_weights: Floats[Array, " classes"] | None = None,
    label_smoothing: Real = 0.0,
    intermediates: bool = False,
    validate: bool = True,
) -> BlockGradients:
    """Loss and all gradients of the one-layer block.

    Args:
        x: (..., n, d_x). y: keys' and values' input (..., m, d_y) in cross-attention, else x.
        W_Q: (d_x, H d_k). W_K: (d_y, G d_k). W_V: (d_y, G d_v). W_O: (H d_v, C); their biases c_Q, c_K, c_V, c_O.
        targets, reduction, ignore_index, class_weights, label_smoothing, validate: as in
            :func:`bayesgrad.cross_entropy`; with "none" the gradients are those of the sum.
        heads, kv_heads: H and G (H by default), G divides H.
        mask, bias, dropout: as in :func:`bayesgrad.attention`, (..., n, m) for all heads or (..., H, n, m).
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
    xp = _checks.floats(optional, x=x, W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O)
    heads = _checks.natural("heads", heads, least=1)
    groups = heads if kv_heads is None else _checks.natural("kv_heads", kv_heads, least=1)
    d_k, _, classes = sizes(x, x if y is None else y, W_Q, W_K, W_V, W_O, heads, groups)
    for (name, c), size in zip(given.items(), (W_Q.shape[1], W_K.shape[1], W_V.shape[1], classes), strict=True):
        _checks.vector(name, c, "columns", size)
    _checks.booleans(xp, "mask", mask, x)
    dtype, cross, bias_shape, axes = x.dtype, y is not None, None if bias is None else tuple(bias.shape), len(x.shape)
    x, y, W_Q, W_K, W_V, W_O = _arrays.widen(xp, x, x if y is None else y, W_Q, W_K, W_V, W_O)
    c_Q, c_K, c_V, c_O, bias, dropout, omega = _arrays.widen(xp, *given.values(), bias, dropout, class_weights)

    def project(inputs: Array, W: Array, c: Array, count: int) -> Array:
        out = xp.matmul(inputs, W)
        return split_heads(out if c is None else out + c, count)

    q = project(x, W_Q, c_Q, heads)
    k = repeat_groups(project(y, W_K, c_K, groups), heads)
    v = repeat_groups(project(y, W_V, c_V, groups), heads)
    mask, bias, dropout = (_per_head(xp, each, axes) for each in (mask, bias, dropout))
    head = checked(q, k, v, None, mask, bias, _checks.scale(xp, scale, d_k), dropout)
    made = weigh(head)
    context = context_of(head, made)
    g = merge_heads(context)
    z = xp.matmul(g, W_O) if c_O is None else xp.matmul(g, W_O) + c_O
    if hasattr(targets, "dtype") and targets.dtype == dtype:
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
    u = split_heads(xp.matmul(r, _arrays.transpose(xp, W_O)), heads)
    head = upstream(head, u)
    got = backward(head, made, None if bias is None else tuple(bias.shape))
    dq = merge_heads(got.queries)
    dk = merge_heads(sum_groups(got.keys, groups))
    dv = merge_heads(sum_groups(got.values, groups))
    x, y = _visible_inputs(xp, head.seeing, head.seen, x, y)
    through_q = xp.matmul(dq, _arrays.transpose(xp, W_Q))
    through_kv = xp.matmul(dk, _arrays.transpose(xp, W_K)) + xp.matmul(dv, _arrays.transpose(xp, W_V))
    found = BlockGradients(
        loss=loss,
        x=through_q if cross else through_q + through_kv,
        W_Q=over_positions(xp, x, dq),
        W_K=over_positions(xp, y, dk),
        W_V=over_positions(xp, y, dv),
        W_O=over_positions(xp, g, r),
        y=through_kv if cross else None,
        c_Q=None if c_Q is None else over_rows(xp, dq),
        c_K=None if c_K is None else over_rows(xp, dk),
        c_V=None if c_V is None else over_rows(xp, dv),
        c_O=None if c_O is None else over_rows(xp, r),
        bias=None if bias_shape is None else xp.reshape(got.bias, bias_shape),
        scale=got.scale,
        attention=None,
    )
    found = BlockGradients(*_arrays.narrow(xp, dtype, *found))
    if not intermediates:
        return found
    q, k, v, z, r, u = _arrays.narrow(xp, dtype, q, k, v, z, r, u)
    seen = Attention(*_arrays.narrow(xp, dtype, made.scores, made.weights, context))
    return found._replace(
        attention=BlockAttention(q, k, v, seen, z, r, u, AttentionGradients(*_arrays.narrow(xp, dtype, *got)))
    )


def _visible_inputs(xp: _arrays.Namespace, seeing: Array, seen: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """The inputs with 0 where, in every head, the query sees nothing or nobody sees the key: 0 * NaN is NaN."""
    if seen is None:
        return x, y
    own = _arrays.namespace_of(seen)
    if len(seen.shape) > 2:
        seeing, seen = own.any(seeing, axis=-3), own.any(seen, axis=-3)
    return _arrays.keep(xp, seeing, x), _arrays.keep(xp, seen, y)
