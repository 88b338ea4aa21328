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

from typing import Literal, NamedTuple, overload

from bayesgrad import _arrays, _validate
from bayesgrad._parameters import over_positions, over_rows
from bayesgrad._types import ArrayT, Floats, Generic


class ProjectionGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of the three projections of a head and of their biases."""

    W_Q: ArrayT
    W_K: ArrayT
    W_V: ArrayT
    c_Q: ArrayT
    c_K: ArrayT
    c_V: ArrayT


class ReadOutGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of the read-out W_O and of its bias c_O."""

    W_O: ArrayT
    c_O: ArrayT


class InputGradients(NamedTuple, Generic[ArrayT]):
    """dL/dx through q, k and v, in self-attention."""

    x: ArrayT


class CrossInputGradients(NamedTuple, Generic[ArrayT]):
    """dL/dx through q, and dL/dy through k and v, in cross-attention."""

    x: ArrayT
    y: ArrayT


def projection_gradients(
    x: Floats[ArrayT, "*batch queries d_x"],
    d_queries: Floats[ArrayT, "*batch queries width"],
    d_keys: Floats[ArrayT, "*batch keys width"],
    d_values: Floats[ArrayT, "*batch keys values"],
    *,
    y: Floats[ArrayT, "*batch keys d_y"] | None = None,
) -> ProjectionGradients[ArrayT]:
    """Gradients of W_Q, W_K, W_V and of their biases.

    Args:
        x: the input of the queries (..., n, d_x); of keys and values too unless ``y`` (..., m, d_y) is given.
        d_queries: dL/dq (..., n, d_k).
        d_keys: dL/dk (..., m, d_k).
        d_values: dL/dv (..., m, d_v).
        y: the input of keys and values in cross-attention.

    Returns:
        :class:`ProjectionGradients`, summed over every leading axis. The key bias has gradient 0 up to rounding.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.projection-laws. Source: ours (standard).

    >>> import numpy as np
    >>> x, dq, dk, dv = np.asarray([[1.0], [2.0]]), np.ones((2, 1)), np.zeros((2, 1)), np.ones((2, 3))
    >>> got = projection_gradients(x, dq, dk, dv)
    >>> got.W_Q.tolist(), got.W_V.tolist(), got.c_V.tolist()
    ([[3.0]], [[3.0, 3.0, 3.0]], [2.0, 2.0, 2.0])
    """
    xp = _validate.floats({"y": y}, x=x, d_queries=d_queries, d_keys=d_keys, d_values=d_values)
    m, inputs = ("n", {}) if y is None else ("m", {"y": (y, "m d_y")})
    _validate.shapes(
        x=(x, "n d_x"),
        d_queries=(d_queries, "n d_k"),
        **inputs,
        d_keys=(d_keys, f"{m} d_k"),
        d_values=(d_values, f"{m} d_v"),
    )
    wide_x, wide_y, dq, dk, dv = _arrays.widen(xp, x, x if y is None else y, d_queries, d_keys, d_values)
    found = (
        over_positions(xp, wide_x, dq),
        over_positions(xp, wide_y, dk),
        over_positions(xp, wide_y, dv),
        *(over_rows(xp, gradient) for gradient in (dq, dk, dv)),
    )
    return ProjectionGradients(*_arrays.narrow_all(xp, x, *found))


def read_out_gradients(
    context: Floats[ArrayT, "*batch queries values"], logit_gradient: Floats[ArrayT, "*batch queries classes"]
) -> ReadOutGradients[ArrayT]:
    """Gradients of the read-out z = g W_O + c_O: dL/dW_O = sum_i g_i^T r_i, dL/dc_O = sum_i r_i.

    Args:
        context: g (..., n, d_v), the contexts of all heads side by side.
        logit_gradient: r = dL/dz (..., n, C), as :func:`bayesgrad.cross_entropy` returns it.

    Returns:
        :class:`ReadOutGradients`, summed over every leading axis.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.projection-laws. Source: ours (standard).

    >>> import numpy as np
    >>> got = read_out_gradients(np.asarray([[1.0, 2.0]]), np.asarray([[-0.5, 0.5]]))
    >>> got.W_O.tolist(), got.c_O.tolist()
    ([[-0.5, 0.5], [-1.0, 1.0]], [-0.5, 0.5])
    """
    xp = _validate.floats(context=context, logit_gradient=logit_gradient)
    _validate.shapes(context=(context, "n d_v"), logit_gradient=(logit_gradient, "n C"))
    g, r = _arrays.widen(xp, context, logit_gradient)
    return ReadOutGradients(*_arrays.narrow_all(xp, context, over_positions(xp, g, r), over_rows(xp, r)))


@overload
def input_gradients(
    d_queries: Floats[ArrayT, "*batch queries width"],
    d_keys: Floats[ArrayT, "*batch keys width"],
    d_values: Floats[ArrayT, "*batch keys values"],
    W_Q: Floats[ArrayT, "d_x width"],
    W_K: Floats[ArrayT, "d_y width"],
    W_V: Floats[ArrayT, "d_y values"],
    *,
    cross: Literal[False] = False,
) -> InputGradients[ArrayT]: ...


@overload
def input_gradients(
    d_queries: Floats[ArrayT, "*batch queries width"],
    d_keys: Floats[ArrayT, "*batch keys width"],
    d_values: Floats[ArrayT, "*batch keys values"],
    W_Q: Floats[ArrayT, "d_x width"],
    W_K: Floats[ArrayT, "d_y width"],
    W_V: Floats[ArrayT, "d_y values"],
    *,
    cross: Literal[True],
) -> CrossInputGradients[ArrayT]: ...


@overload
def input_gradients(
    d_queries: Floats[ArrayT, "*batch queries width"],
    d_keys: Floats[ArrayT, "*batch keys width"],
    d_values: Floats[ArrayT, "*batch keys values"],
    W_Q: Floats[ArrayT, "d_x width"],
    W_K: Floats[ArrayT, "d_y width"],
    W_V: Floats[ArrayT, "d_y values"],
    *,
    cross: bool,
) -> InputGradients[ArrayT] | CrossInputGradients[ArrayT]: ...


def input_gradients(
    d_queries: Floats[ArrayT, "*batch queries width"],
    d_keys: Floats[ArrayT, "*batch keys width"],
    d_values: Floats[ArrayT, "*batch keys values"],
    W_Q: Floats[ArrayT, "d_x width"],
    W_K: Floats[ArrayT, "d_y width"],
    W_V: Floats[ArrayT, "d_y values"],
    *,
    cross: bool = False,
) -> InputGradients[ArrayT] | CrossInputGradients[ArrayT]:
    """dL/dx = dL/dq W_Q^T + dL/dk W_K^T + dL/dv W_V^T; with ``cross=True`` the first term and the other two apart.

    Args:
        d_queries: dL/dq (..., n, d_k).
        d_keys: dL/dk (..., m, d_k).
        d_values: dL/dv (..., m, d_v).
        W_Q, W_K, W_V: (d_x, d_k), (d_y, d_k), (d_y, d_v); in self-attention n = m and d_x = d_y.
        cross: whether keys and values have an input of their own.

    Returns:
        :class:`InputGradients` with ``x``, or :class:`CrossInputGradients` with ``x`` and ``y``.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.input-law. Source: ours (standard).

    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> input_gradients(one, 2 * one, 3 * one, one, one, one).x.tolist()
    [[6.0]]
    """
    arrays = {"d_queries": d_queries, "d_keys": d_keys, "d_values": d_values}
    xp = _validate.floats(**arrays, W_Q=W_Q, W_K=W_K, W_V=W_V)
    m = "m" if cross else "n"
    _, size = _validate.shapes(
        d_queries=(d_queries, "n d_k"), d_keys=(d_keys, f"{m} d_k"), d_values=(d_values, f"{m} d_v")
    )
    _validate.matrix("W_Q", W_Q, ("d_x", None), ("d_k", size["d_k"]))
    d_y = None if cross else W_Q.shape[0]
    _validate.matrix("W_K", W_K, ("d_y" if cross else "d_x", d_y), ("d_k", size["d_k"]))
    _validate.matrix("W_V", W_V, ("d_y" if cross else "d_x", W_K.shape[0]), ("d_v", size["d_v"]))
    dq, dk, dv, wq, wk, wv = _arrays.widen(xp, *arrays.values(), W_Q, W_K, W_V)
    through_q = xp.matmul(dq, _arrays.transpose(xp, wq))
    through_kv = xp.matmul(dk, _arrays.transpose(xp, wk)) + xp.matmul(dv, _arrays.transpose(xp, wv))
    if cross:
        return CrossInputGradients(*_arrays.narrow_all(xp, d_queries, through_q, through_kv))
    return InputGradients(_arrays.narrow(xp, d_queries, through_q + through_kv))
