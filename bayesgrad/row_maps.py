r"""Other ways from scores to weights than softmax, and their gradients.

.. math::

    \text{one law: } J = \operatorname{diag}(w_i) - w_i w_i^T / W_i, \; W_i = \sum_k w_{ik} \;\Rightarrow\;
    \frac{\partial L}{\partial s_{ij}} = w_{ij} \Big(b_{ij} - \sum_k w_{ik} b_{ik} / W_i\Big)

Softmax has w = a. alpha-entmax, :math:`a_{ij} = [(\alpha - 1) s_{ij} - \tau_i]_+^{1/(\alpha - 1)}`, has
:math:`w_{ij} = a_{ij}^{2 - \alpha}` on its support and 0 off it; alpha = 2 is sparsemax. Three are of another kind:

.. math::

    \text{sigmoid: } & a_{ij} = \sigma(s_{ij}), \quad \frac{\partial L}{\partial s_{ij}} = a_{ij} (1 - a_{ij}) b_{ij} \\
    \text{linear: } & a_{ij} = t_{ij} / Z_i, \; t_{ij} = \varphi_i \cdot \psi_j, \quad
        \frac{\partial L}{\partial t_{ij}} = (b_{ij} - u_i \cdot g_i) / Z_i \\
    \text{differential: } & a = a^1 - \lambda a^2, \quad ds^1 = a^1 (b - \textstyle\sum a^1 b), \;
        ds^2 = -\lambda a^2 (b - \sum a^2 b), \; d\lambda = -\sum a^2 b

Under sigmoid keys do not compete, and the sign of b alone decides: the advantage is a property of normalisation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayesgrad import _arrays, _validate
from bayesgrad._attention import Attention
from bayesgrad._head import (
    AttentionGradients,
    Head,
    prepare_head,
    run_backward,
    run_forward,
    scores_and_weights,
    used_weights,
)
from bayesgrad._types import Array, ArrayT, Bools, Floats, Generic, Real


class LinearGradients(NamedTuple, Generic[ArrayT]):
    """dL/dt (..., n, m), and the gradients of the features of queries and keys, and of the values."""

    products: ArrayT
    query_features: ArrayT
    key_features: ArrayT
    values: ArrayT


class DifferentialGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of both pairs of queries and keys, of the values, and of lambda (no axes)."""

    queries: ArrayT
    keys: ArrayT
    other_queries: ArrayT
    other_keys: ArrayT
    values: ArrayT
    factor: ArrayT


def _law(xp: Any, w: Any, b: Any) -> Any:
    total = xp.sum(w, axis=-1, keepdims=True)
    mean = xp.sum(w * b, axis=-1, keepdims=True) / xp.where(total == 0, xp.ones_like(total), total)
    return w * (b - mean)


def row_map_gradient(
    slopes: Floats[ArrayT, "*batch queries keys"], compatibility: Floats[ArrayT, "*batch queries keys"]
) -> Floats[ArrayT, "*batch queries keys"]:
    """dL/ds_ij = w_ij (b_ij - sum_k w_ik b_ik / W_i) for every row map with Jacobian diag(w) - w w^T / W.

    Args:
        slopes: w (..., n, m), not negative; 0 at hidden pairs and off the support. compatibility: b (..., n, m).

    Returns:
        dL/ds (..., n, m); its rows sum to 0, and a row without slopes is 0.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.row-map. Source: ours.

    >>> import numpy as np
    >>> row_map_gradient(np.asarray([[1.0, 1.0, 0.0]]), np.asarray([[1.0, 3.0, 9.0]])).tolist()
    [[-1.0, 1.0, 0.0]]
    """
    xp = _validate.floats(slopes=slopes, compatibility=compatibility)
    _validate.shapes(slopes=(slopes, "n m"))
    _validate.same_shape("compatibility", compatibility, slopes.shape, "slopes")
    return _arrays.narrow(xp, slopes, _law(xp, *_arrays.widen(xp, slopes, compatibility)))


def _alpha(xp: Any, alpha: Real) -> float:
    alpha = _validate.real(xp, "alpha", alpha)
    if not isinstance(alpha, float) or alpha <= 1:
        raise ValueError(f"alpha: got {alpha!r}, expected a Python number above 1 (softmax is the limit at 1)")
    return alpha


def _entmax(xp: Any, scores: Any, mask: Any, alpha: float) -> Any:
    """Weights of one alpha by bisection of the threshold, which lies within 1 below the largest (alpha - 1) s."""
    if scores.shape[-1] == 0:
        return scores
    s = _arrays.hide(xp, scores, mask) * (alpha - 1)
    top = xp.max(s, axis=-1, keepdims=True)
    top = xp.where(top == -math.inf, xp.zeros_like(top), top)
    with _arrays.quiet(xp):
        s = s - top

    def weights(tau: Any) -> Any:
        over = s - tau
        return _arrays.keep(xp, over > 0, xp.where(over > 0, over, xp.ones_like(over)) ** (1 / (alpha - 1)))

    low, high = xp.zeros_like(top) - 1, xp.zeros_like(top)
    for _ in range(int(xp.finfo(s.dtype).bits)):
        middle = (low + high) / 2
        enough = xp.sum(weights(middle), axis=-1, keepdims=True) >= 1
        low, high = xp.where(enough, middle, low), xp.where(enough, high, middle)
    a = weights(low)
    total = xp.sum(a, axis=-1, keepdims=True)
    # What the last bisection leaves over is spread: rows sum to 1 up to rounding.
    a = a / xp.where(total == 0, xp.ones_like(total), total)
    unknown = xp.any(xp.isnan(s), axis=-1, keepdims=True)  # a NaN that is visible propagates
    return xp.where(unknown, _arrays.full_like(xp, a, (), math.nan), a)


def entmax(
    scores: Floats[ArrayT, "*rows keys"], *, alpha: Real, mask: Bools[Array, "*_"] | None = None
) -> Floats[ArrayT, "*rows keys"]:
    """alpha-entmax over the visible entries: [(alpha - 1) s - tau]_+^(1/(alpha - 1)), which sums to 1.

    Args:
        scores: (..., m). alpha: above 1; 2 is sparsemax. mask: booleans that broadcast to the scores, True = visible.

    Returns:
        (..., m), exactly 0 off the support and at hidden entries; 0 on empty rows.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.row-map. Source: standard.

    >>> import numpy as np
    >>> entmax(np.asarray([0.0, 0.5, -1.0]), alpha=2.0).round(12).tolist()
    [0.25, 0.75, 0.0]
    """
    xp = _validate.floats(scores=scores)
    _validate.at_least("scores", scores, 1)
    _validate.booleans(xp, "mask", mask, scores)
    _validate.broadcastable("mask", mask, tuple(scores.shape))
    return _arrays.narrow(xp, scores, _entmax(xp, _arrays.widen(xp, scores), mask, _alpha(xp, alpha)))


def _assembled(head: Head, weights: Any, b: Any, ds: Any) -> AttentionGradients[Any]:
    """Everything that follows from a and dL/ds, whatever the map between."""
    xp = head.xp
    along_k = xp.matmul(ds, head.k)
    return AttentionGradients(
        weights=b,
        scores=ds,
        values=xp.matmul(_arrays.transpose(xp, used_weights(head, weights)), head.u),
        queries=along_k * head.scale,
        keys=xp.matmul(_arrays.transpose(xp, ds), head.q * head.scale),
        bias=ds if head.bias_shape is None else _arrays.unbroadcast(xp, ds, head.bias_shape),
        scale=xp.sum(along_k * head.q),
    )


def _scores(head: Head) -> Any:
    """The scores; 0 at hidden pairs, which the caller leaves out."""
    scores = scores_and_weights(head)[0]
    return scores if head.mask is None else _arrays.keep(head.xp, head.mask, scores)


def _compatibility(head: Head) -> Any:
    b = head.xp.matmul(head.u, _arrays.transpose(head.xp, head.v))
    return b if head.dropout is None else b * head.dropout


def _shown(head: Head, scores: Any, weights: Any) -> tuple[Any, ...]:
    return (
        _arrays.hide(head.xp, scores, head.mask),
        weights,
        head.xp.matmul(used_weights(head, weights), head.v),
    )


def entmax_attention(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    alpha: Real,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> Attention[ArrayT]:
    """:func:`bayesgrad.attention` with :func:`entmax` in the place of softmax.

    Args:
        q, k, v, mask, bias, scale, dropout: as there. alpha: above 1.

    Returns:
        ``Attention(scores, weights, context)``.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.row-map. Source: standard.

    >>> import numpy as np
    >>> q, k, v = np.ones((1, 1)), np.asarray([[0.0], [5.0]]), np.asarray([[1.0], [2.0]])
    >>> entmax_attention(q, k, v, alpha=2.0).weights.tolist()
    [[0.0, 1.0]]
    """
    head = prepare_head(q, k, v, None, mask=mask, bias=bias, scale=scale, dropout=dropout)
    scores = _scores(head)
    weights = _entmax(head.xp, scores, head.mask, _alpha(head.xp, alpha))
    return Attention(*_arrays.narrow_all(head.xp, q, *_shown(head, scores, weights)))


def entmax_attention_gradients(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    alpha: Real,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> AttentionGradients[ArrayT]:
    """All gradients of :func:`entmax_attention`: the law of :func:`row_map_gradient` with w = a^(2 - alpha).

    Args:
        q, k, v, alpha, mask, bias, scale, dropout: as there. u: the upstream gradient dL/dg (..., n, d_v).

    Returns:
        :class:`bayesgrad.AttentionGradients`. For alpha >= 2 the map has kinks where a key enters the support; there it
        is the gradient of the side on which the key is out.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.row-map. Source: ours.

    >>> import numpy as np
    >>> q, k, v = np.ones((1, 1)), np.asarray([[0.0], [5.0]]), np.asarray([[1.0], [2.0]])
    >>> entmax_attention_gradients(q, k, v, q, alpha=1.5).values.tolist()
    [[0.0], [1.0]]
    """
    _validate.floats(u=u)
    head = prepare_head(q, k, v, u, mask=mask, bias=bias, scale=scale, dropout=dropout)
    xp, alpha = head.xp, _alpha(head.xp, alpha)
    a = _entmax(xp, _scores(head), head.mask, alpha)
    w = _arrays.keep(xp, a != 0, xp.where(a != 0, a, xp.ones_like(a)) ** (2 - alpha))
    b = _compatibility(head)
    return AttentionGradients(*_arrays.narrow_all(xp, q, *_assembled(head, a, b, _law(xp, w, b))))


def _sigmoid(head: Head, scores: Any) -> Any:
    xp = head.xp
    small = xp.exp(-xp.abs(scores))  # of -|s|, so that nothing overflows
    a = xp.where(scores >= 0, 1 / (1 + small), small / (1 + small))
    return a if head.mask is None else _arrays.keep(xp, head.mask, a)


def sigmoid_attention(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> Attention[ArrayT]:
    """Attention with a_ij = sigmoid(s_ij): no normalisation, and a hidden pair has weight 0.

    Args:
        q, k, v, mask, bias, scale, dropout: as in :func:`bayesgrad.attention`; a bias of -log m keeps rows near 1.

    Returns:
        ``Attention(scores, weights, context)``.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.sigmoid. Source: standard.

    >>> import numpy as np
    >>> sigmoid_attention(np.zeros((1, 1)), np.zeros((2, 1)), np.ones((2, 1))).context.tolist()
    [[1.0]]
    """
    head = prepare_head(q, k, v, None, mask=mask, bias=bias, scale=scale, dropout=dropout)
    scores = _scores(head)
    return Attention(*_arrays.narrow_all(head.xp, q, *_shown(head, scores, _sigmoid(head, scores))))


def sigmoid_attention_gradients(
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
    """All gradients of :func:`sigmoid_attention`: dL/ds_ij = a_ij (1 - a_ij) b_ij, without any mean.

    Args:
        q, k, v, mask, bias, scale, dropout: as there. u: the upstream gradient dL/dg (..., n, d_v).

    Returns:
        :class:`bayesgrad.AttentionGradients`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.sigmoid. Source: ours (standard calculus).

    >>> import numpy as np
    >>> zero, one = np.zeros((1, 1)), np.ones((1, 1))
    >>> sigmoid_attention_gradients(zero, zero, one, one).scores.tolist()
    [[0.25]]
    """
    _validate.floats(u=u)
    head = prepare_head(q, k, v, u, mask=mask, bias=bias, scale=scale, dropout=dropout)
    a, b = _sigmoid(head, _scores(head)), _compatibility(head)
    return AttentionGradients(*_arrays.narrow_all(head.xp, q, *_assembled(head, a, b, a * (1 - a) * b)))


def _named(arguments: dict[str, tuple[Any, str]]) -> None:
    """Check arrays under the caller's names, before the head knows them by its own; only u may be None."""
    u = arguments.pop("u", (None, ""))
    _validate.floats({"u": u[0]}, **{name: x for name, (x, _) in arguments.items()})
    _validate.shapes(**arguments, u=u)


def _linear(phi: Any, psi: Any, v: Any, u: Any, mask: Any) -> tuple[Head, Any, Any]:
    """The head, t with 0 at hidden pairs, and Z with 1 on empty rows."""
    named = {"query_features": (phi, "n f"), "key_features": (psi, "m f"), "v": (v, "m d_v"), "u": (u, "n d_v")}
    _named(named)
    head = prepare_head(phi, psi, v, u, mask=mask, bias=None, scale=1.0, dropout=None)
    t = _scores(head)
    total = head.xp.sum(t, axis=-1, keepdims=True)
    if head.mask is not None:
        total = head.xp.where(head.seeing, total, head.xp.ones_like(total))
    elif not t.shape[-1]:
        total = head.xp.ones_like(total)
    return head, t, total


def linear_attention(
    query_features: Floats[ArrayT, "*batch queries features"],
    key_features: Floats[ArrayT, "*batch keys features"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
) -> Floats[ArrayT, "*batch queries values"]:
    """g_i = sum_j t_ij v_j / Z_i with t_ij = phi_i . psi_j and Z_i their sum over the visible keys.

    Args:
        query_features, key_features: phi (..., n, f) and psi (..., m, f), usually positive.
        v: (..., m, d_v). mask: booleans that broadcast to (..., n, m), True = may attend.

    Returns:
        (..., n, d_v); 0 on empty rows. A visible row whose t sum to 0 has no answer (a division by 0).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.linear. Source: standard.

    >>> import numpy as np
    >>> linear_attention(np.ones((1, 1)), np.asarray([[1.0], [3.0]]), np.asarray([[0.0], [4.0]])).tolist()
    [[3.0]]
    """
    head, t, total = _linear(query_features, key_features, v, None, mask)
    return _arrays.narrow(head.xp, query_features, head.xp.matmul(t, head.v) / total)


def linear_attention_gradients(
    query_features: Floats[ArrayT, "*batch queries features"],
    key_features: Floats[ArrayT, "*batch keys features"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
) -> LinearGradients[ArrayT]:
    """All gradients of :func:`linear_attention`: dL/dt_ij = (b_ij - u_i . g_i) / Z_i at visible pairs.

    Args:
        query_features, key_features, v, mask: as there. u: the upstream gradient dL/dg (..., n, d_v).

    Returns:
        :class:`LinearGradients`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.linear. Source: ours (standard calculus).

    >>> import numpy as np
    >>> phi, psi, v = np.ones((1, 1)), np.asarray([[1.0], [3.0]]), np.asarray([[0.0], [4.0]])
    >>> linear_attention_gradients(phi, psi, v, phi).products.tolist()
    [[-0.75, 0.25]]
    """
    _validate.floats(u=u)
    head, t, total = _linear(query_features, key_features, v, u, mask)
    xp = head.xp

    def T(x: Any) -> Any:
        return _arrays.transpose(xp, x)

    g = xp.matmul(t, head.v) / total
    dt = (xp.matmul(head.u, T(head.v)) - xp.sum(head.u * g, axis=-1, keepdims=True)) / total
    dt = dt if head.mask is None else _arrays.keep(xp, head.mask, dt)
    found = dt, xp.matmul(dt, head.k), xp.matmul(T(dt), head.q), xp.matmul(T(t / total), head.u)
    return LinearGradients(*_arrays.narrow_all(xp, query_features, *found))


def differential_attention(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    other_q: Floats[ArrayT, "*batch queries other_width"],
    other_k: Floats[ArrayT, "*batch keys other_width"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    factor: Real,
    mask: Bools[Array, "*_"] | None = None,
    scale: Real | None = None,
) -> Floats[ArrayT, "*batch queries values"]:
    """The context of a = a1 - lambda a2, the difference of two softmaxes over the same values.

    Args:
        q, k, other_q, other_k: the queries and keys of the first map and of the second. v: (..., m, d_v).
        factor: lambda. mask, scale: of both maps, as in :func:`bayesgrad.attention`.

    Returns:
        (..., n, d_v).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.differential. Source: standard.

    >>> import numpy as np
    >>> q, k, v = np.zeros((1, 1)), np.zeros((2, 1)), np.ones((2, 1))
    >>> differential_attention(q, k, q, k, v, factor=0.25).tolist()
    [[0.75]]
    """
    _named(
        {
            "q": (q, "n d_k"),
            "k": (k, "m d_k"),
            "v": (v, "m d_v"),
            "other_q": (other_q, "n d"),
            "other_k": (other_k, "m d"),
        }
    )
    first = prepare_head(q, k, v, None, mask=mask, bias=None, scale=scale, dropout=None)
    second = prepare_head(other_q, other_k, v, None, mask=mask, bias=None, scale=scale, dropout=None)
    xp, factor = first.xp, _validate.real(first.xp, "factor", factor)
    a = scores_and_weights(first)[1] - factor * scores_and_weights(second)[1]
    return _arrays.narrow(xp, q, xp.matmul(a, first.v))


def differential_attention_gradients(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    other_q: Floats[ArrayT, "*batch queries other_width"],
    other_k: Floats[ArrayT, "*batch keys other_width"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    factor: Real,
    mask: Bools[Array, "*_"] | None = None,
    scale: Real | None = None,
) -> DifferentialGradients[ArrayT]:
    """All gradients of :func:`differential_attention`: the routing law once for each map, each with its own mean.

    Args:
        q, k, other_q, other_k, v, factor, mask, scale: as there. u: the upstream gradient dL/dg (..., n, d_v).

    Returns:
        :class:`DifferentialGradients`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.differential. Source: ours (standard calculus).

    >>> import numpy as np
    >>> q, k, v = np.zeros((1, 1)), np.zeros((2, 1)), np.ones((2, 1))
    >>> differential_attention_gradients(q, k, q, k, v, np.ones((1, 1)), factor=0.25).factor.tolist()
    -1.0
    """
    _validate.floats(u=u)
    _named(
        {
            "q": (q, "n d_k"),
            "k": (k, "m d_k"),
            "v": (v, "m d_v"),
            "other_q": (other_q, "n d"),
            "other_k": (other_k, "m d"),
        }
    )
    first = prepare_head(q, k, v, u, mask=mask, bias=None, scale=scale, dropout=None)
    second = prepare_head(other_q, other_k, v, u, mask=mask, bias=None, scale=scale, dropout=None)
    xp, lambda_ = first.xp, _validate.real(first.xp, "factor", factor)
    one, made = run_backward(first, run_forward(first)), run_forward(second)
    two = run_backward(second, made)
    found = (
        one.queries,
        one.keys,
        -lambda_ * two.queries,
        -lambda_ * two.keys,
        one.values - lambda_ * two.values,
        -xp.sum(made.weights * two.weights),
    )
    return DifferentialGradients(*_arrays.narrow_all(xp, q, *found))
