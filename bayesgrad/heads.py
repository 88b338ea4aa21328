r"""Many heads: a thin layer over the laws of one.

Heads stand before positions, (..., H, n, d). With G key/value heads (G divides H) query head h reads key/value head
:math:`\lfloor h / (H/G) \rfloor`, and the gradient of that one is the sum over its group:

.. math::

    \frac{\partial L}{\partial v^{(\gamma)}_j}
    = \sum_{h : \lfloor h / (H/G) \rfloor = \gamma} \sum_i a^{(h)}_{ij} u^{(h)}_i
"""

from __future__ import annotations

from bayesgrad import _arrays, _checks
from bayesgrad._types import Array, Bools, Floats, Scale
from bayesgrad.attention import Attention, attention
from bayesgrad.gradients import AttentionGradients, attention_gradients


def split_heads(x: Floats[Array, "*batch n columns"], heads: int) -> Floats[Array, "*batch {heads} n d"]:
    """(..., n, H d) to (..., H, n, d): head h takes the columns h d up to (h+1) d.

    >>> import numpy as np
    >>> split_heads(np.zeros((3, 8)), 2).shape
    (2, 3, 4)
    """
    xp = _checks.floats(x=x)
    _checks.shapes(x=(x, "n H*d"))
    heads = _checks.natural("heads", heads, least=1)
    *leading, n, columns = x.shape
    if columns % heads:
        raise ValueError(f"heads: got {heads}, expected a divisor of the {columns} columns of x")
    x = xp.reshape(x, (*leading, n, heads, columns // heads))
    axes = len(x.shape)
    return xp.permute_dims(x, (*range(axes - 3), axes - 2, axes - 3, axes - 1))


def merge_heads(x: Floats[Array, "*batch heads n d"]) -> Floats[Array, "*batch n columns"]:
    """(..., H, n, d) to (..., n, H d), the inverse of :func:`split_heads`.

    >>> import numpy as np
    >>> merge_heads(np.zeros((2, 3, 4))).shape
    (3, 8)
    """
    xp = _checks.floats(x=x)
    _checks.shapes(x=(x, "H n d"))
    *leading, heads, n, d = x.shape
    axes = len(x.shape)
    return xp.reshape(xp.permute_dims(x, (*range(axes - 3), axes - 2, axes - 3, axes - 1)), (*leading, n, heads * d))


def repeat_groups(k: Floats[Array, "*batch groups m d"], heads: int) -> Floats[Array, "*batch {heads} m d"]:
    """(..., G, m, d) to (..., H, m, d): what query head h reads.

    >>> import numpy as np
    >>> repeat_groups(np.asarray([[[0.0]], [[1.0]]]), 6)[:, 0, 0].tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    """
    xp = _checks.floats(k=k)
    _checks.shapes(k=(k, "G m d"))
    heads = _checks.natural("heads", heads, least=1)
    *leading, groups, m, d = k.shape
    _divides(heads, groups)
    repeated = xp.broadcast_to(xp.expand_dims(k, axis=-3), (*leading, groups, heads // groups, m, d))
    return xp.reshape(repeated, (*leading, heads, m, d))


def sum_groups(gradient: Floats[Array, "*batch heads m d"], groups: int) -> Floats[Array, "*batch {groups} m d"]:
    """The adjoint of :func:`repeat_groups`: sums over the query heads that read the same key/value head.

    >>> import numpy as np
    >>> sum_groups(np.ones((6, 1, 1)), 2)[:, 0, 0].tolist()
    [3.0, 3.0]
    """
    xp = _checks.floats(gradient=gradient)
    _checks.shapes(gradient=(gradient, "H m d"))
    groups = _checks.natural("groups", groups, least=1)
    *leading, heads, m, d = gradient.shape
    _divides(heads, groups)
    wide = xp.reshape(_arrays.widen(xp, gradient), (*leading, groups, heads // groups, m, d))
    return _arrays.narrow(xp, gradient.dtype, xp.sum(wide, axis=-3))


def _divides(heads: int, groups: int) -> None:
    if not groups or heads % groups:
        raise ValueError(f"heads: got {heads}, expected a multiple of the {groups} key/value heads")


def _matched(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    _checks.floats(q=q, k=k, v=v)
    for name, x, pattern in (("q", q, "H n d_k"), ("k", k, "G m d_k"), ("v", v, "G m d_v")):
        _checks.shapes(**{name: (x, pattern)})
    if k.shape[-3] != v.shape[-3]:
        raise ValueError(f"v: got {v.shape[-3]} heads, expected {k.shape[-3]} as k")
    if not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"q: got {q.shape[-3]} heads, expected a multiple of the {k.shape[-3]} heads of k")
    return repeat_groups(k, q.shape[-3]), repeat_groups(v, q.shape[-3])


def grouped_attention(
    q: Floats[Array, "*batch heads queries width"],
    k: Floats[Array, "*batch groups keys width"],
    v: Floats[Array, "*batch groups keys values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[Array, "*_"] | None = None,
    scale: Scale = None,
    dropout: Floats[Array, "*_"] | None = None,
) -> Attention:
    """:func:`bayesgrad.attention` for H query heads on G key/value heads (multi-query for G = 1).

    Args:
        q: (..., H, n, d_k). k, v: (..., G, m, d_k), (..., G, m, d_v). The rest as in :func:`bayesgrad.attention`.

    Label: attention.multi-head. Source: ours (standard).

    >>> import numpy as np
    >>> q, k, v = np.zeros((6, 1, 2)), np.zeros((2, 3, 2)), np.arange(6.0).reshape(2, 3, 1)
    >>> grouped_attention(q, k, v).context[:, 0, 0].tolist()
    [1.0, 1.0, 1.0, 3.9999999999999996, 3.9999999999999996, 3.9999999999999996]
    """
    k, v = _matched(q, k, v)
    return attention(q, k, v, mask=mask, bias=bias, scale=scale, dropout=dropout)


def grouped_attention_gradients(
    q: Floats[Array, "*batch heads queries width"],
    k: Floats[Array, "*batch groups keys width"],
    v: Floats[Array, "*batch groups keys values"],
    u: Floats[Array, "*batch heads queries values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[Array, "*_"] | None = None,
    scale: Scale = None,
    dropout: Floats[Array, "*_"] | None = None,
) -> AttentionGradients:
    """:func:`bayesgrad.attention_gradients` for H query heads on G key/value heads; keys and values sum over the group.

    Label: attention.multi-head. Source: ours (standard).

    >>> import numpy as np
    >>> q, k, v, u = np.zeros((6, 1, 2)), np.zeros((2, 2, 2)), np.ones((2, 2, 1)), np.ones((6, 1, 1))
    >>> grouped_attention_gradients(q, k, v, u).values[:, :, 0].tolist()
    [[1.5, 1.5], [1.5, 1.5]]
    """
    xp = _checks.floats({"bias": bias, "dropout": dropout}, q=q, k=k, v=v, u=u)
    repeated_k, repeated_v = _matched(q, k, v)
    # Widened here, so that the gradients of the heads of a group are rounded to 16 bits after their sum, not before.
    wide_q, wide_k, wide_v, wide_u, bias, dropout = _arrays.widen(xp, q, repeated_k, repeated_v, u, bias, dropout)
    got = attention_gradients(wide_q, wide_k, wide_v, wide_u, mask=mask, bias=bias, scale=scale, dropout=dropout)
    groups = k.shape[-3]
    got = got._replace(values=sum_groups(got.values, groups), keys=sum_groups(got.keys, groups))
    return type(got)(*_arrays.narrow(xp, q.dtype, *got))
