r"""Forward mode and second derivatives of one head, in closed form.

A tangent, written with a dot, is the direction in which an argument moves. With :math:`B_{ij} = b_{ij} - \bar b_i`:

.. math::

    \dot s_{ij} &= \text{scale}\, (\dot q_i \cdot k_j + q_i \cdot \dot k_j) + \dot{\text{scale}}\; q_i \cdot k_j
        + \dot{\text{bias}}_{ij}, \qquad
    \dot a_{ij} = a_{ij} \Big(\dot s_{ij} - \sum_k a_{ik} \dot s_{ik}\Big), \qquad
    \dot g_i = \sum_j \dot a_{ij} v_j + a_{ij} \dot v_j \\
    \dot b_{ij} &= \dot u_i \cdot v_j + u_i \cdot \dot v_j, \qquad
    e_{ij} = \Big(\dot s_{ij} - \sum_k a_{ik} \dot s_{ik}\Big) B_{ij} + \dot b_{ij}, \qquad
    \frac{d}{dt} \frac{\partial L}{\partial s_{ij}} = a_{ij} \Big(e_{ij} - \sum_k a_{ik} e_{ik}\Big)

The routing law serves three times: the softmax's derivative is symmetric, so the map that takes b to dL/ds also takes
the tangent of s to that of a, and e to that of dL/ds. Backward through the gradients needs nothing new: the Hessian of
:math:`\sum_i u_i \cdot g_i` is symmetric, so its product with the gradients' own upstream gradients is a tangent of the
gradients, and what reaches u is a tangent of g. With dropout, b is D u.v and the values see a D.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesgrad import _arrays, _validate
from bayesgrad._head import (
    AttentionGradients,
    Head,
    above_mean,
    prepare_head,
    run_backward,
    run_forward,
    score_gradient_of,
    scores_and_weights,
    used_weights,
)
from bayesgrad._types import Array, ArrayT, Bools, Floats, Generic, Real


class AttentionTangents(NamedTuple, Generic[ArrayT]):
    """Tangents of scores and weights (0 at hidden pairs) and of the context."""

    scores: ArrayT
    weights: ArrayT
    context: ArrayT


class DoubleBackward(NamedTuple, Generic[ArrayT]):
    """Gradients of a function of dL/dq, dL/dk and dL/dv in the arguments of the head and in u.

    ``bias`` has the shape of the bias (without one: of a bias for every pair); ``scale`` has no axes.
    """

    queries: ArrayT
    keys: ArrayT
    values: ArrayT
    u: ArrayT
    bias: ArrayT
    scale: ArrayT


class _Direction(NamedTuple):
    """How the arguments move: in the accumulation dtype, 0 wherever nothing can be seen; None does not move."""

    q: Any = None
    k: Any = None
    v: Any = None
    u: Any = None
    bias: Any = None
    scale: Any = None


def _direction(head: Head, arguments: dict[str, Any], tangents: dict[str, Any]) -> _Direction:
    """Validate tangents against the arguments that they move, widen them, and put 0 where nothing looks.

    ``tangents`` maps the parameter that a caller gave to (what it moves, the tangent or None).
    """
    xp, looked_at = head.xp, {"q": head.seeing, "k": head.seen, "v": head.seen, "u": head.seeing}
    given = {name: (moves, x) for name, (moves, x) in tangents.items() if x is not None}
    _validate.floats({name: x for name, (moves, x) in given.items() if moves != "scale"}, q=arguments["q"])
    found: dict[str, Any] = {}
    for name, (moves, x) in given.items():
        if moves == "scale":
            found[moves] = _validate.real(xp, name, x)
            continue
        if moves == "bias":
            _validate.broadcastable(name, x, (*arguments["q"].shape[:-1], arguments["k"].shape[-2]))
        else:
            _validate.same_shape(name, x, tuple(arguments[moves].shape), moves)
        wide, keep = _arrays.widen(xp, x), looked_at.get(moves)
        found[moves] = wide if keep is None else _arrays.keep(xp, keep, wide)
    return _Direction(**found)


def _total(parts: list[Any]) -> Any:
    """The sum of what there is; None is 0."""
    there = [part for part in parts if part is not None]
    return None if not there else sum(there[1:], there[0])


def _product(xp: Any, left: Any, right: Any) -> Any:
    """left @ right, None where one of them does not move."""
    return None if left is None or right is None else xp.matmul(left, right)


def _scores_move(head: Head, to: _Direction, weights: Any) -> Any:
    """The tangent of the scores, 0 at hidden pairs, where a bias of -inf or of NaN may stand."""
    xp, keys = head.xp, _arrays.transpose(head.xp, head.k)
    moved = _total(
        [
            _product(xp, None if to.q is None else to.q * head.scale, keys),
            _product(xp, head.q * head.scale, None if to.k is None else _arrays.transpose(xp, to.k)),
            _product(xp, None if to.scale is None else head.q * to.scale, keys),
            to.bias,
        ]
    )
    moved = xp.zeros_like(weights) if moved is None else xp.broadcast_to(moved, weights.shape)
    return moved if head.mask is None else _arrays.keep(xp, head.mask, moved)


def _context_moves(head: Head, to: _Direction, weights: Any, da: Any) -> Any:
    """The tangent of g: a common offset of the values drops out of da v, whose rows of da sum to 0."""
    xp = head.xp
    return _total([xp.matmul(used_weights(head, da), head.v), _product(xp, used_weights(head, weights), to.v)])


def _gradients_move(head: Head, to: _Direction) -> AttentionGradients[Any]:
    """The tangents of all gradients."""
    xp = head.xp

    def T(x: Any) -> Any:
        return _arrays.transpose(xp, x)

    made = run_forward(head)
    a, now = made.weights, run_backward(head, made)
    ds = _scores_move(head, to, a)
    da = score_gradient_of(xp, a, ds)
    db = _total([_product(xp, to.u, T(head.v)), _product(xp, head.u, None if to.v is None else T(to.v))])
    db = xp.zeros_like(a) if db is None else used_weights(head, db)
    second = score_gradient_of(xp, a, above_mean(xp, a, ds) * above_mean(xp, a, now.weights) + db)
    along_k = _total([xp.matmul(second, head.k), _product(xp, now.scores, to.k)])
    keys = _total([xp.matmul(T(second), head.q), _product(xp, T(now.scores), to.q)])
    of_scale = xp.sum(along_k * head.q)
    if to.q is not None:
        of_scale = of_scale + xp.sum(xp.matmul(now.scores, head.k) * to.q)
    queries, keys = along_k * head.scale, keys * head.scale
    if to.scale is not None:
        queries = queries + xp.matmul(now.scores, head.k) * to.scale
        keys = keys + xp.matmul(T(now.scores), head.q) * to.scale
    return AttentionGradients(
        weights=db,
        scores=second,
        values=_total([xp.matmul(T(used_weights(head, da)), head.u), _product(xp, T(used_weights(head, a)), to.u)]),
        queries=queries,
        keys=keys,
        bias=second if head.bias_shape is None else _arrays.unbroadcast(xp, second, head.bias_shape),
        scale=of_scale,
    )


def attention_jvp(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    q_tangent: Floats[ArrayT, "*batch queries width"] | None = None,
    k_tangent: Floats[ArrayT, "*batch keys width"] | None = None,
    v_tangent: Floats[ArrayT, "*batch keys values"] | None = None,
    bias_tangent: Floats[ArrayT, "*_"] | None = None,
    scale_tangent: Real | None = None,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> AttentionTangents[ArrayT]:
    """Forward mode: how scores, weights and context move when the arguments move along their tangents.

    Args:
        q, k, v, mask, bias, scale, dropout: as in :func:`bayesgrad.attention`.
        q_tangent, k_tangent, v_tangent: in the shape of what they move; None does not move.
        bias_tangent: broadcasts to (..., n, m), with or without a bias. scale_tangent: a number or an array without
            axes.

    Returns:
        :class:`AttentionTangents`. Hidden pairs and empty rows move by exactly 0.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    sum_i u_i . dg_i is the inner product of the direction with :func:`bayesgrad.attention_gradients`.
    Label: attention.jvp. Source: standard.

    >>> import numpy as np
    >>> q, k, v = np.ones((1, 1)), np.asarray([[0.0], [0.0]]), np.asarray([[1.0], [3.0]])
    >>> attention_jvp(q, k, v, k_tangent=np.asarray([[1.0], [0.0]])).context.tolist()
    [[-0.5]]
    """
    head = prepare_head(q, k, v, None, mask=mask, bias=bias, scale=scale, dropout=dropout)
    moves = {
        "q_tangent": ("q", q_tangent),
        "k_tangent": ("k", k_tangent),
        "v_tangent": ("v", v_tangent),
        "bias_tangent": ("bias", bias_tangent),
        "scale_tangent": ("scale", scale_tangent),
    }
    to = _direction(head, {"q": q, "k": k, "v": v}, moves)
    _, weights = scores_and_weights(head)
    ds = _scores_move(head, to, weights)
    da = score_gradient_of(head.xp, weights, ds)
    found = ds, da, _context_moves(head, to, weights, da)
    return AttentionTangents(*_arrays.narrow_all(head.xp, q, *found))


def attention_gradients_jvp(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    q_tangent: Floats[ArrayT, "*batch queries width"] | None = None,
    k_tangent: Floats[ArrayT, "*batch keys width"] | None = None,
    v_tangent: Floats[ArrayT, "*batch keys values"] | None = None,
    u_tangent: Floats[ArrayT, "*batch queries values"] | None = None,
    bias_tangent: Floats[ArrayT, "*_"] | None = None,
    scale_tangent: Real | None = None,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> AttentionGradients[ArrayT]:
    """How all gradients of the head move: Hessian-vector products.

    With u fixed it is the Hessian of sum_i u_i . g_i times the direction. For a loss L(g) whose own Hessian is not 0,
    give ``u_tangent`` = (Hessian of L in g) dg, with dg from :func:`attention_jvp`.

    Args:
        q, k, v, u, mask, bias, scale, dropout: as in :func:`bayesgrad.attention_gradients`.
        q_tangent, k_tangent, v_tangent, u_tangent: in the shape of what they move; None does not move.
        bias_tangent, scale_tangent: as in :func:`attention_jvp`.

    Returns:
        :class:`bayesgrad.AttentionGradients`, each field the tangent of that gradient.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.double-backward. Source: ours (standard calculus).

    >>> import numpy as np
    >>> q, k, v = np.ones((1, 1)), np.asarray([[0.0], [0.0]]), np.asarray([[1.0], [3.0]])
    >>> attention_gradients_jvp(q, k, v, np.ones((1, 1)), v_tangent=np.asarray([[1.0], [0.0]])).keys.tolist()
    [[0.25], [-0.25]]
    """
    head = prepare_head(q, k, v, u, mask=mask, bias=bias, scale=scale, dropout=dropout)
    moves = {
        "q_tangent": ("q", q_tangent),
        "k_tangent": ("k", k_tangent),
        "v_tangent": ("v", v_tangent),
        "u_tangent": ("u", u_tangent),
        "bias_tangent": ("bias", bias_tangent),
        "scale_tangent": ("scale", scale_tangent),
    }
    to = _direction(head, {"q": q, "k": k, "v": v, "u": u}, moves)
    return AttentionGradients(*_arrays.narrow_all(head.xp, q, *_gradients_move(head, to)))


def attention_double_backward(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    d_queries: Floats[ArrayT, "*batch queries width"] | None = None,
    d_keys: Floats[ArrayT, "*batch keys width"] | None = None,
    d_values: Floats[ArrayT, "*batch keys values"] | None = None,
    d_bias: Floats[ArrayT, "*_"] | None = None,
    d_scale: Real | None = None,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
) -> DoubleBackward[ArrayT]:
    """Backward through the gradients of the head: the gradient in q, k, v and u of a loss on dL/dq, dL/dk, dL/dv.

    Args:
        q, k, v, u, mask, bias, scale, dropout: as in :func:`bayesgrad.attention_gradients`.
        d_queries, d_keys, d_values, d_bias, d_scale: gradients of that loss in the gradients of the head, in their
            shapes; None is 0.

    Returns:
        :class:`DoubleBackward`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.double-backward. Source: ours (standard calculus).

    >>> import numpy as np
    >>> q, k, v = np.ones((1, 1)), np.asarray([[0.0], [0.0]]), np.asarray([[1.0], [3.0]])
    >>> attention_double_backward(q, k, v, np.ones((1, 1)), d_keys=np.asarray([[1.0], [0.0]])).u.tolist()
    [[-0.5]]
    """
    head = prepare_head(q, k, v, u, mask=mask, bias=bias, scale=scale, dropout=dropout)
    moves = {
        "d_queries": ("q", d_queries),
        "d_keys": ("k", d_keys),
        "d_values": ("v", d_values),
        "d_bias": ("bias", d_bias),
        "d_scale": ("scale", d_scale),
    }
    to = _direction(head, {"q": q, "k": k, "v": v}, moves)
    got = _gradients_move(head, to)
    _, weights = scores_and_weights(head)
    da = score_gradient_of(head.xp, weights, _scores_move(head, to, weights))
    of_u = _context_moves(head, to, weights, da)
    found = got.queries, got.keys, got.values, of_u, got.bias, got.scale
    return DoubleBackward(*_arrays.narrow_all(head.xp, q, *found))
