r"""The laws of one head: what the loss asks of weights, scores, values, queries and keys.

With the upstream gradient :math:`u_i = \partial L/\partial g_i` (never its negative), for any network behind the head:

.. math::

    b_{ij} &= u_i \cdot v_j = \partial L / \partial a_{ij}, \qquad
    \bar b_i = \sum_k a_{ik} b_{ik} = u_i \cdot g_i, \qquad A_{ij} = \bar b_i - b_{ij} \\
    \frac{\partial L}{\partial s_{ij}} &= a_{ij} (b_{ij} - \bar b_i) = -a_{ij} A_{ij}, \qquad
    \frac{\partial L}{\partial v_j} = \sum_i a_{ij} u_i \\
    \frac{\partial L}{\partial q_i} &= \text{scale} \sum_j \frac{\partial L}{\partial s_{ij}} k_j, \qquad
    \frac{\partial L}{\partial k_j} = \text{scale} \sum_i \frac{\partial L}{\partial s_{ij}} q_i

Descent raises :math:`s_{ij}` exactly where the advantage A is positive, that is where b lies *below* its mean under the
weights; the sign of b alone says nothing. With a dropout multiplier D, b is D u.v and the values see a D.
"""

from __future__ import annotations

from typing import NamedTuple

from bayesgrad import _arrays, _checks
from bayesgrad._types import Array, Bools, Floats, Scale
from bayesgrad.attention import Head, Weighed, checked, weigh


class AttentionGradients(NamedTuple):
    """Gradients of the loss, one field an argument.

    ``weights`` is dL/da = b (weights taken as free), ``scores`` dL/ds, ``values`` dL/dv, ``queries`` dL/dq, ``keys``
    dL/dk, ``bias`` dL/dbias in the shape of the bias (None without one), ``scale`` dL/dscale (no axes: one number,
    summed over all leading axes).
    """

    weights: Array
    scores: Array
    values: Array
    queries: Array
    keys: Array
    bias: Array
    scale: Array


def compatibility(
    u: Floats[Array, "*batch queries values"], v: Floats[Array, "*batch keys values"]
) -> Floats[Array, "*batch queries keys"]:
    """b_ij = u_i . v_j, the gradient of the loss in the weight a_ij taken as free.

    Args:
        u: the upstream gradient dL/dg (..., n, d_v).
        v: the values (..., m, d_v).

    Label: attention.weight-gradient. Source: arXiv 2512.22473 (the name), standard.

    >>> import numpy as np
    >>> compatibility(np.asarray([[1.0, 2.0]]), np.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])).tolist()
    [[1.0, 2.0, 3.0]]
    """
    xp = _checks.floats(u=u, v=v)
    _checks.shapes(u=(u, "n d_v"), v=(v, "m d_v"))
    wide_u, wide_v = _arrays.widen(xp, u, v)
    return _arrays.narrow(xp, u.dtype, xp.matmul(wide_u, _arrays.transpose(xp, wide_v)))


def _weights_and(name: str, weights: Array, other: Array, validate: bool) -> _arrays.Namespace:
    xp = _checks.floats(weights=weights, **{name: other})
    _checks.shapes(weights=(weights, "n m"))
    _checks.same_shape(name, other, weights.shape, "weights")
    if validate:
        _checks.distributions(xp, "weights", weights)
    return xp


def _above_mean(xp: _arrays.Namespace, a: Array, b: Array) -> Array:
    """b_ij - bbar_i, which is -A_ij."""
    return b - xp.sum(a * b, axis=-1, keepdims=True)


def _advantage(xp: _arrays.Namespace, a: Array, b: Array) -> Array:
    return xp.sum(a * b, axis=-1, keepdims=True) - b


def advantage(
    weights: Floats[Array, "*batch queries keys"],
    compatibility: Floats[Array, "*batch queries keys"],
    *,
    validate: bool = True,
) -> Floats[Array, "*batch queries keys"]:
    """A_ij = sum_k a_ik b_ik - b_ij: descent raises the score s_ij where it is positive.

    Args:
        weights: a (..., n, m), rows that sum to 1, or 0 on empty rows (looked at unless ``validate=False``).
        compatibility: b (..., n, m).

    A common offset c in b costs about eps |c|; :func:`attention_gradients` removes it beforehand.
    Source: arXiv 2512.22473.

    >>> import numpy as np
    >>> advantage(np.asarray([[0.5, 0.5]]), np.asarray([[1.0, 3.0]])).tolist()
    [[1.0, -1.0]]
    """
    xp = _weights_and("compatibility", weights, compatibility, validate)
    a, b = _arrays.widen(xp, weights, compatibility)
    return _arrays.narrow(xp, weights.dtype, _advantage(xp, a, b))


def _score_gradient(xp: _arrays.Namespace, a: Array, b: Array) -> Array:
    # The sign of the routing law stands here and nowhere else: dL/ds = +a (b - bbar) = -a A.
    return _arrays.times_in_place(xp, _above_mean(xp, a, b), a)


def score_gradient(
    weights: Floats[Array, "*batch queries keys"],
    compatibility: Floats[Array, "*batch queries keys"],
    *,
    validate: bool = True,
) -> Floats[Array, "*batch queries keys"]:
    """The routing law: dL/ds_ij = a_ij (b_ij - bbar_i) = -a_ij A_ij. Also the gradient in an additive bias.

    Rows sum to 0, hidden pairs and rows with a single visible key are exactly 0 for finite b.

    Args, errors: as :func:`advantage`. Label: attention.routing-law. Source: arXiv 2512.22473.

    >>> import numpy as np
    >>> score_gradient(np.asarray([[0.5, 0.5]]), np.asarray([[1.0, 3.0]])).tolist()
    [[-0.5, 0.5]]
    """
    xp = _weights_and("compatibility", weights, compatibility, validate)
    a, b = _arrays.widen(xp, weights, compatibility)
    return _arrays.narrow(xp, weights.dtype, _score_gradient(xp, a, b))


def mean_compatibility(
    u: Floats[Array, "*batch queries values"], context: Floats[Array, "*batch queries values"]
) -> Floats[Array, "*batch queries"]:
    """bbar_i = sum_k a_ik b_ik = u_i . g_i: the mean compatibility, without the weights (FlashAttention's delta).

    Args:
        u: dL/dg (..., n, d_v). context: g (..., n, d_v).

    Label: attention.delta-identity. Source: standard.

    >>> import numpy as np
    >>> mean_compatibility(np.asarray([[1.0, 2.0]]), np.asarray([[3.0, 4.0]])).tolist()
    [11.0]
    """
    xp = _checks.floats(u=u, context=context)
    _checks.shapes(u=(u, "n d_v"), context=(context, "n d_v"))
    wide_u, g = _arrays.widen(xp, u, context)
    return _arrays.narrow(xp, u.dtype, xp.sum(wide_u * g, axis=-1))


def responsibility(weights: Floats[Array, "*batch queries keys"]) -> Floats[Array, "*batch keys"]:
    """N_j = sum_i a_ij: how much of all queries key j answers for.

    The value law reads dv_j = -eta N_j ubar_j, ubar_j the a-weighted mean of u (only where N_j > 0).
    Source: arXiv 2512.22473 (responsibilities), N_j ours.

    >>> import numpy as np
    >>> responsibility(np.asarray([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [1.5, 0.5]
    """
    xp = _checks.floats(weights=weights)
    _checks.shapes(weights=(weights, "n m"))
    return _arrays.narrow(xp, weights.dtype, xp.sum(_arrays.widen(xp, weights), axis=-2))


def value_gradient(
    weights: Floats[Array, "*batch queries keys"], u: Floats[Array, "*batch queries values"]
) -> Floats[Array, "*batch keys values"]:
    """The value law: dL/dv_j = sum_i a_ij u_i (with dropout, pass a D).

    Label: attention.value-law. Source: arXiv 2512.22473.

    >>> import numpy as np
    >>> value_gradient(np.asarray([[1.0, 0.0], [0.5, 0.5]]), np.asarray([[2.0], [4.0]])).tolist()
    [[4.0], [2.0]]
    """
    xp = _checks.floats(weights=weights, u=u)
    _checks.shapes(weights=(weights, "n m"), u=(u, "n d_v"))
    a, wide_u = _arrays.widen(xp, weights, u)
    return _arrays.narrow(xp, weights.dtype, xp.matmul(_arrays.transpose(xp, a), wide_u))


def query_gradient(
    score_gradient: Floats[Array, "*batch queries keys"], k: Floats[Array, "*batch keys width"], *, scale: Scale = None
) -> Floats[Array, "*batch queries width"]:
    """dL/dq_i = scale sum_j (dL/ds_ij) k_j = scale Cov_{a_i}(b_i, k). Scale 1/sqrt(d_k) by default.

    Label: attention.query-law. Source: ours (standard).

    >>> import numpy as np
    >>> query_gradient(np.asarray([[-0.5, 0.5]]), np.asarray([[1.0], [3.0]]), scale=2.0).tolist()
    [[2.0]]
    """
    xp = _checks.floats(score_gradient=score_gradient, k=k)
    _, size = _checks.shapes(score_gradient=(score_gradient, "n m"), k=(k, "m d_k"))
    factor = _checks.scale(xp, scale, size["d_k"])
    ds, wide = _arrays.widen(xp, score_gradient, k)
    return _arrays.narrow(xp, k.dtype, factor * xp.matmul(ds, wide))


def key_gradient(
    score_gradient: Floats[Array, "*batch queries keys"],
    q: Floats[Array, "*batch queries width"],
    *,
    scale: Scale = None,
) -> Floats[Array, "*batch keys width"]:
    """dL/dk_j = scale sum_i (dL/ds_ij) q_i. Summed over j it is 0: a shift of all keys changes nothing.

    Label: attention.key-law. Source: ours (standard).

    >>> import numpy as np
    >>> key_gradient(np.asarray([[-0.5, 0.5]]), np.asarray([[3.0]]), scale=2.0).tolist()
    [[-3.0], [3.0]]
    """
    xp = _checks.floats(score_gradient=score_gradient, q=q)
    _, size = _checks.shapes(score_gradient=(score_gradient, "n m"), q=(q, "n d_k"))
    factor = _checks.scale(xp, scale, size["d_k"])
    ds, wide = _arrays.widen(xp, score_gradient, q)
    return _arrays.narrow(xp, q.dtype, xp.matmul(_arrays.transpose(xp, ds), factor * wide))


def backward(head: Head, made: Weighed, bias_shape: tuple[int, ...] | None) -> AttentionGradients:
    """All gradients of the head, in the accumulation dtype."""
    xp, a, u = head.xp, made.weights, head.u
    if head.dropout is None:
        # b - bbar as one product, from the values without what all keys share: [u, -u.g] [v, 1]^T. A common offset in v
        # costs no accuracy that way, and taking the mean out a second time leaves the small gradients of a saturated
        # row their digits (docs/numerics.md). b itself is a product of its own: b - bbar plus bbar would carry rounding
        # errors of its whole row.
        mean = xp.sum(u * made.relative, axis=-1, keepdims=True)
        values = _arrays.beside(xp, made.centred, xp.ones_like(made.centred[..., :1]))
        nearly = xp.matmul(_arrays.beside(xp, u, -mean), _arrays.transpose(xp, values))
        b = xp.matmul(u, _arrays.transpose(xp, head.v))
        ds, used = _score_gradient(xp, a, nearly), a
    else:
        b = xp.matmul(u, _arrays.transpose(xp, head.v)) * head.dropout
        ds, used = _score_gradient(xp, a, b), a * head.dropout
    along_k = xp.matmul(ds, head.k)
    return AttentionGradients(
        weights=b,
        scores=ds,
        values=xp.matmul(_arrays.transpose(xp, used), u),
        queries=along_k * head.scale,
        keys=xp.matmul(_arrays.transpose(xp, ds), head.q * head.scale),
        bias=None if bias_shape is None else _arrays.unbroadcast(xp, ds, bias_shape),
        scale=xp.sum(along_k * head.q),
    )


def attention_gradients(
    q: Floats[Array, "*batch queries width"],
    k: Floats[Array, "*batch keys width"],
    v: Floats[Array, "*batch keys values"],
    u: Floats[Array, "*batch queries values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[Array, "*_"] | None = None,
    scale: Scale = None,
    dropout: Floats[Array, "*_"] | None = None,
) -> AttentionGradients:
    """All gradients of one head (or many: leading axes are free) from the upstream gradient u = dL/dg.

    Args:
        q, k, v, mask, bias, scale, dropout: as in :func:`bayesgrad.attention`.
        u: dL/dg (..., n, d_v).

    Returns:
        :class:`AttentionGradients`. Queries that see no key and keys that nobody sees have gradient exactly 0, whatever
        stands there; NaN in anything visible propagates.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Labels: the attention.* laws of this module. Source: arXiv 2512.22473 and standard calculus.

    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> got = attention_gradients(one, one, 2 * one, one)
    >>> bool(got.scores == 0), got.values.tolist()
    (True, [[1.0]])
    """
    _checks.floats(u=u)
    head = checked(q, k, v, u, mask, bias, scale, dropout)
    got = backward(head, weigh(head), None if bias is None else tuple(bias.shape))
    return AttentionGradients(*_arrays.narrow(head.xp, q.dtype, *got))
