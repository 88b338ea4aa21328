r"""From the gradients of queries, keys and values to those of the projections and of the input.

With row vectors :math:`q_i = x_i W_Q + c_Q`, :math:`k_j = y_j W_K + c_K`, :math:`v_j = y_j W_V + c_V`,
:math:`z_i = g_i W_O + c_O`, where y = x in self-attention:

.. math::

    \frac{\partial L}{\partial W_Q} = \sum_i x_i^T \frac{\partial L}{\partial q_i}, \quad
    \frac{\partial L}{\partial W_K} = \sum_j y_j^T \frac{\partial L}{\partial k_j}, \quad
    \frac{\partial L}{\partial W_V} = \sum_j y_j^T \frac{\partial L}{\partial v_j}, \quad
    \frac{\partial L}{\partial W_O} = \sum_i g_i^T r_i, \quad
    \frac{\partial L}{\partial x} = \frac{\partial L}{\partial q} W_Q^T + \frac{\partial L}{\partial k} W_K^T
    + \frac{\partial L}{\partial v} W_V^T

The input law holds the part through q, k and v; a residual path adds its own term.
"""

from __future__ import annotations

from typing import NamedTuple

from bayesgrad import _arrays, _checks
from bayesgrad._types import Array, Floats


class ProjectionGradients(NamedTuple):
    """Gradients of the projections and of their biases; those of the read-out are None where no logits were given."""

    W_Q: Array
    W_K: Array
    W_V: Array
    W_O: Array
    c_Q: Array
    c_K: Array
    c_V: Array
    c_O: Array


class InputGradients(NamedTuple):
    """dL/dx through q, k, v (self-attention), or dL/dx through q and dL/dy through k, v (cross-attention)."""

    x: Array
    y: Array


def over_positions(xp: _arrays.Namespace, x: Array, gradient: Array) -> Array:
    """sum_i x_i^T gradient_i over every leading axis as well: the projection is shared by all of them."""
    product = xp.matmul(_arrays.transpose(xp, x), gradient)
    return xp.sum(product, axis=tuple(range(len(product.shape) - 2))) if len(product.shape) > 2 else product


def over_rows(xp: _arrays.Namespace, gradient: Array) -> Array:
    """The gradient of a bias that all positions share."""
    return xp.sum(gradient, axis=tuple(range(len(gradient.shape) - 1)))


def projection_gradients(
    x: Floats[Array, "*batch queries d_x"],
    queries: Floats[Array, "*batch queries width"],
    keys: Floats[Array, "*batch keys width"],
    values: Floats[Array, "*batch keys values"],
    *,
    y: Floats[Array, "*batch keys d_y"] | None = None,
    context: Floats[Array, "*batch queries values"] | None = None,
    logits: Floats[Array, "*batch queries classes"] | None = None,
) -> ProjectionGradients:
    """Gradients of W_Q, W_K, W_V (and of W_O where context and logit gradient are given) and of their biases.

    Args:
        x: the input of the queries (..., n, d_x); of keys and values too unless ``y`` (..., m, d_y) is given.
        queries, keys, values: dL/dq, dL/dk, dL/dv.
        context, logits: g (..., n, d_v) and r = dL/dz (..., n, C), both or neither.

    Returns:
        :class:`ProjectionGradients`, summed over every leading axis. The key bias has gradient 0 up to rounding.

    Labels: attention.projection-laws. Source: ours (standard).

    >>> import numpy as np
    >>> x, dq, dk, dv = np.asarray([[1.0], [2.0]]), np.ones((2, 1)), np.zeros((2, 1)), np.ones((2, 3))
    >>> got = projection_gradients(x, dq, dk, dv)
    >>> got.W_Q.tolist(), got.W_V.tolist(), got.c_V.tolist()
    ([[3.0]], [[3.0, 3.0, 3.0]], [2.0, 2.0, 2.0])
    """
    xp = _checks.floats({"y": y, "context": context, "logits": logits}, x=x, queries=queries, keys=keys, values=values)
    if (context is None) != (logits is None):
        missing, given = ("context", "logits") if context is None else ("logits", "context")
        raise ValueError(f"{missing}: got None although {given} is given, expected both or neither")
    patterns = {"x": (x, "n d_x"), "queries": (queries, "n d_k")}
    patterns |= {"keys": (keys, "n d_k"), "values": (values, "n d_v")} if y is None else {}
    patterns |= {"y": (y, "m d_y"), "keys": (keys, "m d_k"), "values": (values, "m d_v")} if y is not None else {}
    _checks.shapes(**patterns, context=(context, "n d_o"), logits=(logits, "n C"))
    dtype = x.dtype
    x, y, dq, dk, dv, g, r = _arrays.widen(xp, x, x if y is None else y, queries, keys, values, context, logits)
    got = ProjectionGradients(
        W_Q=over_positions(xp, x, dq),
        W_K=over_positions(xp, y, dk),
        W_V=over_positions(xp, y, dv),
        W_O=None if g is None else over_positions(xp, g, r),
        c_Q=over_rows(xp, dq),
        c_K=over_rows(xp, dk),
        c_V=over_rows(xp, dv),
        c_O=None if r is None else over_rows(xp, r),
    )
    return ProjectionGradients(*_arrays.narrow(xp, dtype, *got))


def input_gradients(
    queries: Floats[Array, "*batch queries width"],
    keys: Floats[Array, "*batch keys width"],
    values: Floats[Array, "*batch keys values"],
    W_Q: Floats[Array, "d_x width"],
    W_K: Floats[Array, "d_y width"],
    W_V: Floats[Array, "d_y values"],
    *,
    cross: bool = False,
) -> InputGradients:
    """dL/dx = dL/dq W_Q^T + dL/dk W_K^T + dL/dv W_V^T; with ``cross=True`` the first term and the other two apart.

    Args:
        queries, keys, values: dL/dq (..., n, d_k), dL/dk (..., m, d_k), dL/dv (..., m, d_v).
        W_Q, W_K, W_V: (d_x, d_k), (d_y, d_k), (d_y, d_v); in self-attention n = m and d_x = d_y.

    Returns:
        :class:`InputGradients`; ``y`` is None in self-attention.

    Label: attention.input-law. Source: ours (standard).

    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> input_gradients(one, 2 * one, 3 * one, one, one, one).x.tolist()
    [[6.0]]
    """
    xp = _checks.floats(queries=queries, keys=keys, values=values, W_Q=W_Q, W_K=W_K, W_V=W_V)
    m = "m" if cross else "n"
    _, size = _checks.shapes(queries=(queries, "n d_k"), keys=(keys, f"{m} d_k"), values=(values, f"{m} d_v"))
    _checks.matrix("W_Q", W_Q, ("d_x", None), ("d_k", size["d_k"]))
    d_y = None if cross else W_Q.shape[0]
    _checks.matrix("W_K", W_K, ("d_y" if cross else "d_x", d_y), ("d_k", size["d_k"]))
    _checks.matrix("W_V", W_V, ("d_y" if cross else "d_x", W_K.shape[0]), ("d_v", size["d_v"]))
    dtype = queries.dtype
    dq, dk, dv, wq, wk, wv = _arrays.widen(xp, queries, keys, values, W_Q, W_K, W_V)
    through_q = xp.matmul(dq, _arrays.transpose(xp, wq))
    through_kv = xp.matmul(dk, _arrays.transpose(xp, wk)) + xp.matmul(dv, _arrays.transpose(xp, wv))
    if cross:
        return InputGradients(*_arrays.narrow(xp, dtype, through_q, through_kv))
    return InputGradients(_arrays.narrow(xp, dtype, through_q + through_kv), None)
