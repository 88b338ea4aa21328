r"""Many heads: a thin layer over the laws of one.

Heads stand before positions, (..., H, n, d). With G key/value heads (G divides H) query head h reads key/value head
:math:`\lfloor h / (H/G) \rfloor`, and the gradient of that one is the sum over its group:

.. math::

    \frac{\partial L}{\partial v^{(\gamma)}_j}
    = \sum_{h : \lfloor h / (H/G) \rfloor = \gamma} \sum_i a^{(h)}_{ij} u^{(h)}_i
"""

from __future__ import annotations

from bayesgrad import _arrays, _validate
from bayesgrad._attention import Attention, attention
from bayesgrad._head import AttentionGradients
from bayesgrad._types import Array, ArrayT, Bools, Floats, Real
from bayesgrad.gradients import attention_gradients


def split_heads(x: Floats[ArrayT, "*batch n columns"], heads: int) -> Floats[ArrayT, "*batch {heads} n d"]:
    """(..., n, H d) to (..., H, n, d): head h takes the columns h d up to (h+1) d.

    Args:
        x: (..., n, H d).
        heads: H.

    Returns:
        (..., H, n, d).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    >>> import numpy as np
    >>> split_heads(np.zeros((3, 8)), 2).shape
    (2, 3, 4)
    """
    xp = _validate.floats(x=x)
    _validate.shapes(x=(x, "n H*d"))
    heads = _validate.natural("heads", heads, least=1)
    *leading, n, columns = x.shape
    if columns % heads:
        raise ValueError(f"heads: got {heads}, expected a divisor of the {columns} columns of x")
    parted: ArrayT = xp.reshape(x, (*leading, n, heads, columns // heads))
    return _exchanged(xp, parted)


def merge_heads(x: Floats[ArrayT, "*batch heads n d"]) -> Floats[ArrayT, "*batch n columns"]:
    """(..., H, n, d) to (..., n, H d), the inverse of :func:`split_heads`.

    Args:
        x: (..., H, n, d).

    Returns:
        (..., n, H d).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    >>> import numpy as np
    >>> merge_heads(np.zeros((2, 3, 4))).shape
    (3, 8)
    """
    xp = _validate.floats(x=x)
    _validate.shapes(x=(x, "H n d"))
    *leading, heads, n, d = x.shape
    merged: ArrayT = xp.reshape(_exchanged(xp, x), (*leading, n, heads * d))
    return merged


def _exchanged(xp: _arrays.Namespace, x: ArrayT) -> ArrayT:
    """Heads and positions exchanged."""
    axes = len(x.shape)
    exchanged: ArrayT = xp.permute_dims(x, (*range(axes - 3), axes - 2, axes - 3, axes - 1))
    return exchanged


def repeat_groups(k: Floats[ArrayT, "*batch groups m d"], heads: int) -> Floats[ArrayT, "*batch {heads} m d"]:
    """(..., G, m, d) to (..., H, m, d): what query head h reads.

    Args:
        k: (..., G, m, d).
        heads: H, a multiple of G.

    Returns:
        (..., H, m, d).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    >>> import numpy as np
    >>> repeat_groups(np.asarray([[[0.0]], [[1.0]]]), 6)[:, 0, 0].tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    """
    xp = _validate.floats(k=k)
    _validate.shapes(k=(k, "G m d"))
    heads = _validate.natural("heads", heads, least=1)
    *leading, groups, m, d = k.shape
    _divides(heads, groups)
    each = xp.broadcast_to(xp.expand_dims(k, axis=-3), (*leading, groups, heads // groups, m, d))
    repeated: ArrayT = xp.reshape(each, (*leading, heads, m, d))
    return repeated


def sum_groups(gradient: Floats[ArrayT, "*batch heads m d"], groups: int) -> Floats[ArrayT, "*batch {groups} m d"]:
    """The adjoint of :func:`repeat_groups`: sums over the query heads that read the same key/value head.

    Args:
        gradient: (..., H, m, d).
        groups: G, a divisor of H.

    Returns:
        (..., G, m, d).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    >>> import numpy as np
    >>> sum_groups(np.ones((6, 1, 1)), 2)[:, 0, 0].tolist()
    [3.0, 3.0]
    """
    xp = _validate.floats(gradient=gradient)
    _validate.shapes(gradient=(gradient, "H m d"))
    groups = _validate.natural("groups", groups, least=1)
    *leading, heads, m, d = gradient.shape
    _divides(heads, groups)
    wide = xp.reshape(_arrays.widen(xp, gradient), (*leading, groups, heads // groups, m, d))
    return _arrays.narrow(xp, gradient, xp.sum(wide, axis=-3))


def _divides(heads: int, groups: int) -> None:
    if not groups or heads % groups:
        raise ValueError(f"heads: got {heads}, expected a multiple of the {groups} key/value heads")


def _matched(q: ArrayT, k: ArrayT, v: ArrayT) -> tuple[ArrayT, ArrayT]:
    """k and v as the query heads read them."""
    _validate.floats(q=q, k=k, v=v)
    for name, x, pattern in (("q", q, "H n d_k"), ("k", k, "G m d_k"), ("v", v, "G m d_v")):
        _validate.shapes(**{name: (x, pattern)})
    if k.shape[-3] != v.shape[-3]:
        raise ValueError(f"v: got {v.shape[-3]} heads, expected {k.shape[-3]} as k")
    if not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"q: got {q.shape[-3]} heads, expected a multiple of the {k.shape[-3]} heads of k")
    return repeat_groups(k, q.shape[-3]), repeat_groups(v, q.shape[-3])


def grouped_attention(
    q: Floats[ArrayT, "*batch heads queries width"],
    k: Floats[ArrayT, "*batch groups keys width"],
    v: Floats[ArrayT, "*batch groups keys values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> Attention[ArrayT]:
    """:func:`bayesgrad.attention` for H query heads on G key/value heads (multi-query for G = 1).

    Args:
        q: (..., H, n, d_k). k, v: (..., G, m, d_k), (..., G, m, d_v). The rest as in :func:`bayesgrad.attention`.

    Returns:
        ``Attention(scores, weights, context)`` of the H query heads.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.multi-head. Source: ours (standard).

    >>> import numpy as np
    >>> q, k, v = np.zeros((6, 1, 2)), np.zeros((2, 4, 2)), np.arange(8.0).reshape(2, 4, 1)
    >>> grouped_attention(q, k, v).context[:, 0, 0].tolist()
    [1.5, 1.5, 1.5, 5.5, 5.5, 5.5]
    """
    k, v = _matched(q, k, v)
    return attention(q, k, v, mask=mask, bias=bias, scale=scale, dropout=dropout)


def grouped_attention_gradients(
    q: Floats[ArrayT, "*batch heads queries width"],
    k: Floats[ArrayT, "*batch groups keys width"],
    v: Floats[ArrayT, "*batch groups keys values"],
    u: Floats[ArrayT, "*batch heads queries values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> AttentionGradients[ArrayT]:
    """:func:`bayesgrad.attention_gradients` for H query heads on G key/value heads; keys and values sum over the group.

    Args:
        q: (..., H, n, d_k).
        k, v: (..., G, m, d_k), (..., G, m, d_v).
        u: the upstream gradient dL/dg (..., H, n, d_v).
        mask, bias, scale, dropout: as in :func:`bayesgrad.attention`.

    Returns:
        :class:`AttentionGradients`, those of keys and values (..., G, m, .).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.multi-head. Source: ours (standard).

    >>> import numpy as np
    >>> q, k, v, u = np.zeros((6, 1, 2)), np.zeros((2, 2, 2)), np.ones((2, 2, 1)), np.ones((6, 1, 1))
    >>> grouped_attention_gradients(q, k, v, u).values[:, :, 0].tolist()
    [[1.5, 1.5], [1.5, 1.5]]
    """
    xp = _validate.floats({"bias": bias, "dropout": dropout}, q=q, k=k, v=v, u=u)
    repeated_k, repeated_v = _matched(q, k, v)
    # Widened here, so that the gradients of the heads of a group are rounded to 16 bits after their sum, not before.
    wide_q, wide_k, wide_v, wide_u, bias, dropout = _arrays.widen(xp, q, repeated_k, repeated_v, u, bias, dropout)
    got = attention_gradients(wide_q, wide_k, wide_v, wide_u, mask=mask, bias=bias, scale=scale, dropout=dropout)
    groups = k.shape[-3]
    got = got._replace(values=sum_groups(got.values, groups), keys=sum_groups(got.keys, groups))
    return AttentionGradients(*_arrays.narrow_all(xp, q, *got))
