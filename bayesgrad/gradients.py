r"""The laws of one head: the gradient of the loss in weights, scores, values, queries and keys.

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

from typing import Any

from bayesgrad import _arrays, _validate
from bayesgrad._head import (
    AttentionGradients,
    advantage_of,
    prepare_head,
    run_backward,
    run_forward,
    score_gradient_of,
)
from bayesgrad._types import Array, ArrayT, Bools, Floats, Real


def compatibility(
    u: Floats[ArrayT, "*batch queries values"], v: Floats[ArrayT, "*batch keys values"]
) -> Floats[ArrayT, "*batch queries keys"]:
    """b_ij = u_i . v_j, the gradient of the loss in the weight a_ij taken as free.

    Args:
        u: the upstream gradient dL/dg (..., n, d_v).
        v: the values (..., m, d_v).

    Returns:
        b (..., n, m), in the dtype of the arguments.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.weight-gradient. Source: arXiv 2512.22473 (the name), standard.

    >>> import numpy as np
    >>> compatibility(np.asarray([[1.0, 2.0]]), np.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])).tolist()
    [[1.0, 2.0, 3.0]]
    """
    xp = _validate.floats(u=u, v=v)
    _validate.shapes(u=(u, "n d_v"), v=(v, "m d_v"))
    wide_u, wide_v = _arrays.widen(xp, u, v)
    return _arrays.narrow(xp, u, xp.matmul(wide_u, _arrays.transpose(xp, wide_v)))


def advantage(
    weights: Floats[ArrayT, "*batch queries keys"],
    compatibility: Floats[ArrayT, "*batch queries keys"],
    *,
    validate: bool = True,
) -> Floats[ArrayT, "*batch queries keys"]:
    """A_ij = sum_k a_ik b_ik - b_ij: descent raises the score s_ij where it is positive.

    Args:
        weights: a (..., n, m), rows that sum to 1, or 0 on empty rows.
        compatibility: b (..., n, m).
        validate: whether the rows of the weights are checked. Where they are known to be distributions, an offset that
            b has in common is taken out first and costs no digits.

    Returns:
        A (..., n, m).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: attention.routing-law. Source: arXiv 2512.22473.

    >>> import numpy as np
    >>> advantage(np.asarray([[0.5, 0.5]]), np.asarray([[1.0, 3.0]])).tolist()
    [[1.0, -1.0]]
    """
    xp = _validate.weights_and_pairs(weights, compatibility=compatibility, validate=validate)
    a, b = _arrays.widen(xp, weights, compatibility)
    return _arrays.narrow(xp, weights, advantage_of(xp, a, _without_offset(xp, a, b) if validate else b))


def _without_offset(xp: _arrays.Namespace, a: Any, b: Any) -> Any:
    """b less its mean in each row, which changes no advantage where the weights sum to 1, and costs no digits later."""
    return b - xp.sum(a * b, axis=-1, keepdims=True)


def score_gradient(
    weights: Floats[ArrayT, "*batch queries keys"],
    compatibility: Floats[ArrayT, "*batch queries keys"],
    *,
    validate: bool = True,
) -> Floats[ArrayT, "*batch queries keys"]:
    """The routing law: dL/ds_ij = a_ij (b_ij - bbar_i) = -a_ij A_ij. Also the gradient in an additive bias.

    Rows sum to 0, hidden pairs and rows with a single visible key are exactly 0 for finite b.

    Args:
        weights: a (..., n, m), rows that sum to 1, or 0 on empty rows.
        compatibility: b (..., n, m).
        validate: whether the rows of the weights are checked. Where they are known to be distributions, an offset that
            b has in common is taken out first and costs no digits. (With a sink they are not: pass False.)

    Returns:
        dL/ds (..., n, m).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: attention.routing-law. Source: arXiv 2512.22473.

    >>> import numpy as np
    >>> score_gradient(np.asarray([[0.5, 0.5]]), np.asarray([[1.0, 3.0]])).tolist()
    [[-0.5, 0.5]]
    """
    xp = _validate.weights_and_pairs(weights, compatibility=compatibility, validate=validate)
    a, b = _arrays.widen(xp, weights, compatibility)
    return _arrays.narrow(xp, weights, score_gradient_of(xp, a, _without_offset(xp, a, b) if validate else b))


def mean_compatibility(
    u: Floats[ArrayT, "*batch queries values"], context: Floats[ArrayT, "*batch queries values"]
) -> Floats[ArrayT, "*batch queries"]:
    """bbar_i = sum_k a_ik b_ik = u_i . g_i: the mean compatibility, without the weights (FlashAttention's delta).

    Args:
        u: the upstream gradient dL/dg (..., n, d_v).
        context: g (..., n, d_v).

    Returns:
        bbar (..., n).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.delta-identity. Source: standard.

    >>> import numpy as np
    >>> mean_compatibility(np.asarray([[1.0, 2.0]]), np.asarray([[3.0, 4.0]])).tolist()
    [11.0]
    """
    xp = _validate.floats(u=u, context=context)
    _validate.shapes(u=(u, "n d_v"), context=(context, "n d_v"))
    wide_u, g = _arrays.widen(xp, u, context)
    return _arrays.narrow(xp, u, xp.sum(wide_u * g, axis=-1))


def effective_count(
    weights: Floats[ArrayT, "*batch queries keys"], *, validate: bool = True
) -> Floats[ArrayT, "*batch keys"]:
    """N_j = sum_i a_ij: the effective count of key j, the queries that attend to it, counted by weight.

    In the words of EM a_ij is the responsibility of key j for query i, and N_j the effective number of points of its
    component. The value law reads dv_j = -eta N_j ubar_j, ubar_j the a-weighted mean of u (only where N_j > 0).

    Args:
        weights: a (..., n, m), rows that sum to 1, or 0 on empty rows.
        validate: whether the rows of the weights are checked (pass False for a D, with dropout).

    Returns:
        N (..., m).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: attention.value-law. Source: ours, from the value law of arXiv 2512.22473.

    >>> import numpy as np
    >>> effective_count(np.asarray([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [1.5, 0.5]
    """
    xp = _validate.weights_and_pairs(weights, validate=validate)
    return _arrays.narrow(xp, weights, xp.sum(_arrays.widen(xp, weights), axis=-2))


def value_gradient(
    weights: Floats[ArrayT, "*batch queries keys"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    validate: bool = True,
) -> Floats[ArrayT, "*batch keys values"]:
    """The value law: dL/dv_j = sum_i a_ij u_i.

    Args:
        weights: a (..., n, m), rows that sum to 1, or 0 on empty rows.
        u: the upstream gradient dL/dg (..., n, d_v).
        validate: whether the rows of the weights are checked (pass False for a D, with dropout).

    Returns:
        dL/dv (..., m, d_v).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: attention.value-law. Source: arXiv 2512.22473.

    >>> import numpy as np
    >>> value_gradient(np.asarray([[1.0, 0.0], [0.5, 0.5]]), np.asarray([[2.0], [4.0]])).tolist()
    [[4.0], [2.0]]
    """
    xp = _validate.weights_and_upstream(weights, u, validate=validate)
    a, wide_u = _arrays.widen(xp, weights, u)
    return _arrays.narrow(xp, weights, xp.matmul(_arrays.transpose(xp, a), wide_u))


def query_gradient(
    score_gradient: Floats[ArrayT, "*batch queries keys"],
    k: Floats[ArrayT, "*batch keys width"],
    *,
    scale: Real | None = None,
) -> Floats[ArrayT, "*batch queries width"]:
    """dL/dq_i = scale sum_j (dL/ds_ij) k_j = scale Cov_{a_i}(b_i, k).

    Args:
        score_gradient: dL/ds (..., n, m).
        k: the keys (..., m, d_k).
        scale: any real number, 1/sqrt(d_k) by default.

    Returns:
        dL/dq (..., n, d_k).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.query-law. Source: ours (standard).

    >>> import numpy as np
    >>> query_gradient(np.asarray([[-0.5, 0.5]]), np.asarray([[1.0], [3.0]]), scale=2.0).tolist()
    [[2.0]]
    """
    xp = _validate.floats(score_gradient=score_gradient, k=k)
    _, size = _validate.shapes(score_gradient=(score_gradient, "n m"), k=(k, "m d_k"))
    factor = _validate.scale(xp, scale, size["d_k"])
    ds, wide = _arrays.widen(xp, score_gradient, k)
    return _arrays.narrow(xp, k, factor * xp.matmul(ds, wide))


def key_gradient(
    score_gradient: Floats[ArrayT, "*batch queries keys"],
    q: Floats[ArrayT, "*batch queries width"],
    *,
    scale: Real | None = None,
) -> Floats[ArrayT, "*batch keys width"]:
    """dL/dk_j = scale sum_i (dL/ds_ij) q_i. Summed over j it is 0: a shift of all keys changes nothing.

    Args:
        score_gradient: dL/ds (..., n, m).
        q: the queries (..., n, d_k).
        scale: any real number, 1/sqrt(d_k) by default.

    Returns:
        dL/dk (..., m, d_k).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.key-law. Source: ours (standard).

    >>> import numpy as np
    >>> key_gradient(np.asarray([[-0.5, 0.5]]), np.asarray([[3.0]]), scale=2.0).tolist()
    [[-3.0], [3.0]]
    """
    xp = _validate.floats(score_gradient=score_gradient, q=q)
    _, size = _validate.shapes(score_gradient=(score_gradient, "n m"), q=(q, "n d_k"))
    factor = _validate.scale(xp, scale, size["d_k"])
    ds, wide = _arrays.widen(xp, score_gradient, q)
    return _arrays.narrow(xp, q, xp.matmul(_arrays.transpose(xp, ds), factor * wide))


def attention_gradients(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> AttentionGradients[ArrayT]:
    """All gradients of one head (or many: leading axes are free) from the upstream gradient u = dL/dg.

    Args:
        q, k, v, mask, bias, scale, dropout: as in :func:`bayesgrad.attention`.
        u: the upstream gradient dL/dg (..., n, d_v).

    Returns:
        :class:`AttentionGradients`. Queries that see no key and keys that no query sees have gradient exactly 0,
        whatever stands there; NaN in anything visible propagates.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Labels: the attention.* laws of this module. Source: arXiv 2512.22473 and standard calculus.

    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> got = attention_gradients(one, one, 2 * one, one)
    >>> bool(got.scores == 0), got.values.tolist()
    (True, [[1.0]])
    """
    _validate.floats(u=u)
    head = prepare_head(q, k, v, u, mask=mask, bias=bias, scale=scale, dropout=dropout)
    got = run_backward(head, run_forward(head))
    return AttentionGradients(*_arrays.narrow_all(head.xp, q, *got))
