r"""What a plain gradient step of size eta does: to the loss, the context, the compatibilities, the advantages.

.. math::

    dL = -\eta |\nabla L|^2, \qquad dv_j = -\eta \sum_i a_{ij} u_i, \qquad ds_{ij} = \eta\, a_{ij} A_{ij}, \qquad
    db_{ij} = -\eta \sum_l a_{lj}\, u_i \cdot u_l

Everything is first order in eta unless a docstring says exact. Letters as in :mod:`bayesgrad.gradients`; a (..., n, m)
are the weights, u (..., n, d_v) = dL/dg, b = u v^T, A = bbar - b. An optimiser that is not plain gradient descent has
its own
steps: then the predicted change of the loss is :func:`loss_change`, the gradient times the actual step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesgrad import _arrays, _validate
from bayesgrad._head import advantage_of, score_gradient_of
from bayesgrad._types import Array, ArrayT, Bools, Floats, Generic, Real


class ValueStep(NamedTuple, Generic[ArrayT]):
    """dv (..., m, d_v), dg (..., n, d_v) and dL (no axes)."""

    values: ArrayT
    context: ArrayT
    loss: ArrayT


class ScoreStep(NamedTuple, Generic[ArrayT]):
    """ds (..., n, m), da (..., n, m), dg (..., n, d_v) and dL (no axes)."""

    scores: ArrayT
    weights: ArrayT
    context: ArrayT
    loss: ArrayT


class Feedback(NamedTuple, Generic[ArrayT]):
    """db and dA (..., n, m)."""

    compatibility: ArrayT
    advantage: ArrayT


class Replicator(NamedTuple, Generic[ArrayT]):
    """The flow's velocity da/dt (..., n, m) and the rate of the mean compatibility d(bbar)/dt (..., n)."""

    weights: ArrayT
    mean_compatibility: ArrayT


def loss_decrease(*gradients: Floats[ArrayT, "*_"], eta: Real) -> Floats[ArrayT, ""]:
    """dL = -eta |gradient|^2 along each block's own gradient; blocks add.

    Args:
        gradients: one array a block. eta: the step size, any finite number.

    Returns:
        One number (no axes), never positive for eta >= 0.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: dynamics.loss-decrease. Source: standard.

    >>> import numpy as np
    >>> float(loss_decrease(np.asarray([3.0, 4.0]), eta=0.1))
    -2.5
    """
    if not gradients:
        raise TypeError("gradients: got none, expected at least one array")
    xp = _validate.floats(**{f"gradients[{i}]": g for i, g in enumerate(gradients)})
    rate = _validate.real(xp, "eta", eta)
    wide = [_arrays.widen(xp, g) for g in gradients]
    total = xp.sum(wide[0] * wide[0])
    for g in wide[1:]:
        total = total + xp.sum(g * g)
    return _arrays.narrow(xp, gradients[0], total * -rate)


def loss_change(gradient: Floats[ArrayT, "*shape"], step: Floats[ArrayT, "*shape"]) -> Floats[ArrayT, ""]:
    """dL = <gradient, step> for the actual step of any optimiser.

    Args:
        gradient: dL/dparameter. step: the change of the parameter, same shape.

    Returns:
        One number (no axes).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: dynamics.loss-decrease. Source: standard.

    >>> import numpy as np
    >>> float(loss_change(np.asarray([3.0, 4.0]), np.asarray([-0.1, 0.0])).round(12))
    -0.3
    """
    xp = _validate.floats(gradient=gradient, step=step)
    _validate.same_shape("step", step, gradient.shape, "the gradient")
    g, s = _arrays.widen(xp, gradient, step)
    return _arrays.narrow(xp, gradient, xp.sum(g * s))


def value_step(
    weights: Floats[ArrayT, "*batch queries keys"], u: Floats[ArrayT, "*batch queries values"], *, eta: Real
) -> ValueStep[ArrayT]:
    """dv = -eta a^T u, and what follows: dg = -eta a a^T u (exact at fixed weights), dL = -eta |a^T u|^2.

    Args:
        weights: a (..., n, m). u: dL/dg (..., n, d_v). eta: the step size.

    Returns:
        :class:`ValueStep`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: dynamics.value-step. Source: ours, from the value law of arXiv 2512.22473.

    >>> import numpy as np
    >>> got = value_step(np.asarray([[0.5, 0.5]]), np.asarray([[2.0]]), eta=1.0)
    >>> got.values.tolist(), got.context.tolist(), float(got.loss)
    ([[-1.0], [-1.0]], [[-1.0]], -2.0)
    """
    xp = _validate.floats(weights=weights, u=u)
    _validate.shapes(weights=(weights, "n m"), u=(u, "n d_v"))
    rate = _validate.real(xp, "eta", eta)
    a, wide_u = _arrays.widen(xp, weights, u)
    gradient = xp.matmul(_arrays.transpose(xp, a), wide_u)
    dv = gradient * -rate
    return ValueStep(*_arrays.narrow_all(xp, u, dv, xp.matmul(a, dv), xp.sum(gradient * gradient) * -rate))


def score_step(
    weights: Floats[ArrayT, "*batch queries keys"],
    u: Floats[ArrayT, "*batch queries values"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    eta: Real,
    validate: bool = True,
) -> ScoreStep[ArrayT]:
    """ds = eta a A, and what follows: da_j = a_j (ds_j - sum_k a_k ds_k), dg = da v, dL = -eta sum (a A)^2.

    Args:
        weights: a (..., n, m). u: dL/dg (..., n, d_v). v: the values (..., m, d_v). eta: the step size.

    Returns:
        :class:`ScoreStep`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: dynamics.score-step. Source: ours, from the routing law of arXiv 2512.22473.

    >>> import numpy as np
    >>> got = score_step(np.asarray([[0.5, 0.5]]), np.asarray([[1.0]]), np.asarray([[1.0], [3.0]]), eta=1.0)
    >>> got.scores.tolist(), got.context.tolist(), float(got.loss)
    ([[0.5, -0.5]], [[-0.5]], -0.5)
    """
    xp = _validate.floats(weights=weights, u=u, v=v)
    _validate.shapes(weights=(weights, "n m"), u=(u, "n d_v"), v=(v, "m d_v"))
    if validate:
        _validate.distributions(xp, "weights", weights)
    rate = _validate.real(xp, "eta", eta)
    a, wide_u, wide_v = _arrays.widen(xp, weights, u, v)
    gradient = score_gradient_of(xp, a, xp.matmul(wide_u, _arrays.transpose(xp, wide_v)))
    ds = gradient * -rate
    # Softmax's adjoint is symmetric: the same matrix takes ds to da that takes b to dL/ds.
    da = score_gradient_of(xp, a, ds)
    dL = xp.sum(gradient * gradient) * -rate
    return ScoreStep(*_arrays.narrow_all(xp, u, ds, da, xp.matmul(da, wide_v), dL))


def feedback(
    weights: Floats[ArrayT, "*batch queries keys"], u: Floats[ArrayT, "*batch queries values"], *, eta: Real
) -> Feedback[ArrayT]:
    """db_ij = -eta sum_l a_lj u_i.u_l and dA_ij = sum_k a_ik db_ik - db_ij after a value step, a and u held fixed.

    The advantage of a pair grows exactly if sum_l a_lj u_i.u_l exceeds its a_i-weighted mean over j. That u is held
    fixed is an assumption, not a limit of small eta: see :func:`feedback_full`.

    Args:
        weights: a (..., n, m). u: dL/dg (..., n, d_v). eta: the step size.

    Returns:
        :class:`Feedback`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: dynamics.feedback. Source: arXiv 2512.22473 states a growth without condition; the condition is ours.

    >>> import numpy as np
    >>> a, u = np.asarray([[0.75, 0.25]]), np.asarray([[1.0]])
    >>> feedback(a, u, eta=1.0).advantage.tolist()  # |u|^2 (a_j - sum_k a_k^2)
    [[0.125, -0.375]]
    """
    xp = _validate.floats(weights=weights, u=u)
    _validate.shapes(weights=(weights, "n m"), u=(u, "n d_v"))
    rate = _validate.real(xp, "eta", eta)
    a, wide_u = _arrays.widen(xp, weights, u)
    db = xp.matmul(xp.matmul(wide_u, _arrays.transpose(xp, wide_u)), a) * -rate
    return Feedback(*_arrays.narrow_all(xp, u, db, advantage_of(xp, a, db)))


def feedback_full(
    weights: Floats[ArrayT, "*batch queries keys"],
    v: Floats[ArrayT, "*batch keys values"],
    logit_gradient: Floats[ArrayT, "*batch queries classes"],
    probabilities: Floats[ArrayT, "*batch queries classes"],
    W_O: Floats[ArrayT, "values classes"],
    *,
    totals: Floats[ArrayT, "*batch queries"],
    eta: Real,
    W_O_step: Floats[ArrayT, "values classes"] | None = None,
    c_O_step: Floats[ArrayT, " classes"] | None = None,
) -> Feedback[ArrayT]:
    """db_ij = u_i.dv_j + du_i.v_j and dA at fixed weights, when u moves with the step as it does in a linear read-out.

    du_i = dz_i tau_i (diag p_i - p_i p_i^T) W_O^T + r_i dW_O^T, dz_i = dg_i W_O + g_i dW_O + dc_O, dv = -eta a^T u.

    Args:
        weights: a (..., n, m). v: (..., m, d_v).
        logit_gradient: r (..., n, C). probabilities: p (..., n, C). W_O: (d_v, C).
        totals: tau (..., n), the total target mass of each position (1 for a sum loss, 1/N for a mean loss).
        eta: the step size of the values. W_O_step, c_O_step: the read-out's own steps, none unless given.

    Returns:
        :class:`Feedback`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: dynamics.feedback-full. Source: ours.

    >>> import numpy as np
    >>> a, v, W_O = np.asarray([[2.0, 1.0]]) / 3, np.asarray([[-1.0], [2.0]]), np.asarray([[-1.0, 1.0]])
    >>> r, p = np.asarray([[-0.5, 0.5]]), np.asarray([[0.5, 0.5]])
    >>> frozen = feedback(a, r @ W_O.T, eta=1.0).advantage[0, 0]
    >>> full = feedback_full(a, v, r, p, W_O, totals=np.ones(1), eta=1.0).advantage[0, 0]
    >>> round(9 * float(frozen), 12), round(9 * float(full), 12)  # "u held fixed" has the wrong sign here
    (1.0, -4.0)
    """
    arguments = {"weights": weights, "v": v, "logit_gradient": logit_gradient, "probabilities": probabilities}
    xp = _validate.floats({"W_O_step": W_O_step, "c_O_step": c_O_step}, **arguments, W_O=W_O, totals=totals)
    _, size = _validate.shapes(
        weights=(weights, "n m"),
        v=(v, "m d_v"),
        logit_gradient=(logit_gradient, "n C"),
        probabilities=(probabilities, "n C"),
        totals=(totals, "n"),
    )
    _validate.matrix("W_O", W_O, ("d_v", size["d_v"]), ("C", size["C"]))
    if W_O_step is not None:
        _validate.matrix("W_O_step", W_O_step, ("d_v", size["d_v"]), ("C", size["C"]))
    _validate.vector("c_O_step", c_O_step, "C", size["C"])
    rate = _validate.real(xp, "eta", eta)
    a, wide_v, r, p, W, tau, dW, dc = _arrays.widen(xp, *arguments.values(), W_O, totals, W_O_step, c_O_step)
    u = xp.matmul(r, _arrays.transpose(xp, W))
    dv = xp.matmul(_arrays.transpose(xp, a), u) * -rate
    dz = xp.matmul(xp.matmul(a, dv), W)
    if dW is not None:
        dz = dz + xp.matmul(xp.matmul(a, wide_v), dW)
    if dc is not None:
        dz = dz + dc
    dr = xp.expand_dims(tau, axis=-1) * score_gradient_of(xp, p, dz)
    du = xp.matmul(dr, _arrays.transpose(xp, W))
    if dW is not None:
        du = du + xp.matmul(r, _arrays.transpose(xp, dW))
    db = xp.matmul(u, _arrays.transpose(xp, dv)) + xp.matmul(du, _arrays.transpose(xp, wide_v))
    return Feedback(*_arrays.narrow_all(xp, v, db, advantage_of(xp, a, db)))


def weight_space_value_step(
    x: Floats[ArrayT, "*batch keys d_x"],
    value_gradient: Floats[ArrayT, "*batch keys values"],
    *,
    eta: Real,
    bias: bool = False,
) -> Floats[ArrayT, "*batch keys values"]:
    """dv_j = -eta sum_l (x_j.x_l) dL/dv_l: what training W_V does to the values (a value bias adds 1 to each x_j.x_l).

    It is the per-token law for every gradient exactly if X X^T = I, so only if m <= d_x.

    Args:
        x: (..., m, d_x); leading axes are separate problems, each with its own W_V. value_gradient: dL/dv (..., m,
            d_v).
        eta: the step size. bias: whether a value bias is trained too.

    Returns:
        dv (..., m, d_v).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: dynamics.weight-space. Source: ours.

    >>> import numpy as np
    >>> x, dv = np.asarray([[1.0], [2.0]]), np.asarray([[1.0], [0.0]])
    >>> weight_space_value_step(x, dv, eta=1.0).tolist()  # the second value moves although its own gradient is 0
    [[-1.0], [-2.0]]
    """
    xp = _validate.floats(x=x, value_gradient=value_gradient)
    _validate.shapes(x=(x, "m d_x"), value_gradient=(value_gradient, "m d_v"))
    rate = _validate.real(xp, "eta", eta)
    wide_x, dv = _arrays.widen(xp, x, value_gradient)
    moved = xp.matmul(wide_x, xp.matmul(_arrays.transpose(xp, wide_x), dv))
    if bias:
        moved = moved + xp.sum(dv, axis=-2, keepdims=True)
    return _arrays.narrow(xp, x, moved * -rate)


def _visible_pairs(compatibility: Array, mask: Array | None) -> tuple[_arrays.Namespace, Any, Any]:
    """The namespace, b in its accumulation dtype, and the mask in its shape."""
    xp = _validate.floats(compatibility=compatibility)
    _validate.shapes(compatibility=(compatibility, "n m"))
    _validate.booleans(xp, "mask", mask, compatibility)
    _validate.broadcastable("mask", mask, tuple(compatibility.shape))
    if mask is not None:
        mask = _arrays.namespace_of(mask).broadcast_to(mask, tuple(compatibility.shape))
    return xp, _arrays.widen(xp, compatibility), mask


def natural_direction(
    compatibility: Floats[ArrayT, "*batch queries keys"], *, mask: Bools[Array, "*_"] | None = None
) -> Floats[ArrayT, "*batch queries keys"]:
    """The natural gradient F_i^+ dL/ds_i: b_ij minus its unweighted mean over the visible keys, 0 at hidden pairs.

    F_i is singular: every solution of F_i delta = dL/ds_i is b_i plus a constant on the visible keys; this one has mean
    0. Descent goes against it. The plain score gradient is this direction times F_i.

    Args:
        compatibility: b (..., n, m). mask: booleans that broadcast to it, True = visible.

    Returns:
        (..., n, m).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: dynamics.natural-routing. Source: ours.

    >>> import numpy as np
    >>> natural_direction(np.asarray([[1.0, 3.0, 9.0]]), mask=np.asarray([[True, True, False]])).tolist()
    [[-1.0, 1.0, 0.0]]
    """
    xp, b, mask = _visible_pairs(compatibility, mask)
    if mask is None:
        return _arrays.narrow(xp, compatibility, b - xp.sum(b, axis=-1, keepdims=True) / max(b.shape[-1], 1))
    count = xp.sum(_arrays.keep(xp, mask, xp.ones_like(b)), axis=-1, keepdims=True)
    count = xp.where(_arrays.seeing_queries(mask), count, xp.ones_like(count))
    mean = xp.sum(_arrays.keep(xp, mask, b), axis=-1, keepdims=True) / count
    return _arrays.narrow(xp, compatibility, _arrays.keep(xp, mask, b - mean))


def replicator_velocity(
    weights: Floats[ArrayT, "*batch queries keys"],
    compatibility: Floats[ArrayT, "*batch queries keys"],
    *,
    validate: bool = True,
) -> Replicator[ArrayT]:
    """The flow of the natural direction: a_j' = -a_j (b_j - bbar), and d(bbar)/dt = -Var_a(b) <= 0 at fixed b.

    Args:
        weights: a (..., n, m). compatibility: b (..., n, m).

    Returns:
        :class:`Replicator`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: dynamics.natural-routing. Source: ours (the replicator equation).

    >>> import numpy as np
    >>> got = replicator_velocity(np.asarray([[0.5, 0.5]]), np.asarray([[1.0, 3.0]]))
    >>> got.weights.tolist(), got.mean_compatibility.tolist()
    ([[0.5, -0.5]], [-1.0])
    """
    xp = _validate.weights_and_pairs(weights, compatibility=compatibility, validate=validate)
    a, b = _arrays.widen(xp, weights, compatibility)
    A = advantage_of(xp, a, b)
    return Replicator(*_arrays.narrow_all(xp, weights, a * A, -xp.sum(a * A * A, axis=-1)))


def replicator_step(
    weights: Floats[ArrayT, "*batch queries keys"],
    compatibility: Floats[ArrayT, "*batch queries keys"],
    *,
    eta: Real,
    validate: bool = True,
) -> Floats[ArrayT, "*batch queries keys"]:
    """a_j exp(-eta b_j) / Z: exactly the time-eta flow at fixed b, and Bayes' rule with likelihood exp(-eta b_j).

    With a mean loss b carries 1/N, so eta scales with N.

    Args:
        weights: a (..., n, m); a weight of 0 stays 0. compatibility: b (..., n, m). eta: the time.

    Returns:
        The new weights (..., n, m).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: dynamics.natural-routing, em.proximal-e-step. Source: ours.

    >>> import numpy as np
    >>> replicator_step(np.asarray([[0.5, 0.5]]), np.asarray([[0.0, np.log(3.0)]]), eta=1.0).round(12).tolist()
    [[0.75, 0.25]]
    """
    xp = _validate.weights_and_pairs(weights, compatibility=compatibility, validate=validate)
    rate = _validate.real(xp, "eta", eta)
    a, b = _arrays.widen(xp, weights, compatibility)
    return _arrays.narrow(xp, weights, _arrays.multiply_in(xp, a, b * -rate))


def saturation_bound(
    weights: Floats[ArrayT, "*batch queries keys"],
    compatibility: Floats[ArrayT, "*batch queries keys"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    validate: bool = True,
) -> Floats[ArrayT, "*batch queries keys"]:
    """a_ij (1 - a_ij) (max b_i - min b_i over visible keys): never less than |dL/ds_ij|, and equal in two-key rows.

    Args:
        weights: a (..., n, m). compatibility: b (..., n, m). mask: booleans that broadcast to them, True = visible.

    Returns:
        (..., n, m).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: attention.saturation-bound. Source: ours.

    >>> import numpy as np
    >>> saturation_bound(np.asarray([[0.5, 0.5]]), np.asarray([[1.0, 3.0]])).tolist()
    [[0.5, 0.5]]
    """
    xp = _validate.weights_and_pairs(weights, compatibility=compatibility, validate=validate)
    _, b, mask = _visible_pairs(compatibility, mask)
    a = _arrays.widen(xp, weights)
    return _arrays.narrow(xp, weights, a * (1 - a) * _visible_range(xp, b, mask))


def frame_precision_bound(
    weights: Floats[ArrayT, "*batch queries keys"],
    compatibility: Floats[ArrayT, "*batch queries keys"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    validate: bool = True,
) -> Floats[ArrayT, "*batch queries"]:
    """M (1 - M) (max b_i - min b_i) with M = max_j a_ij: no |dL/ds_ij| of the row exceeds it.

    Routing gradients vanish as a row saturates while the range stays bounded; value gradients need not (they can). It
    says nothing about when weights saturate.

    Args:
        weights: a (..., n, m).
        compatibility: b (..., n, m).
        mask: booleans that broadcast to them, True = visible.

    Returns:
        (..., n).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: dynamics.frame-precision. Source: ours.

    >>> import numpy as np
    >>> frame_precision_bound(np.asarray([[0.75, 0.25]]), np.asarray([[1.0, 3.0]])).tolist()
    [0.375]
    """
    xp = _validate.weights_and_pairs(weights, compatibility=compatibility, validate=validate)
    _, b, mask = _visible_pairs(compatibility, mask)
    a = _arrays.widen(xp, weights)
    if a.shape[-1] == 0:
        return _arrays.narrow(xp, weights, xp.sum(a, axis=-1))
    top = xp.max(a, axis=-1, keepdims=True)
    return _arrays.narrow(xp, weights, (top * (1 - top) * _visible_range(xp, b, mask))[..., 0])


def _visible_range(xp: _arrays.Namespace, b: Any, mask: Any) -> Any:
    """(..., n, 1): the largest minus the smallest visible b; 0 on empty rows."""
    if b.shape[-1] == 0:
        return xp.sum(b, axis=-1, keepdims=True)
    if mask is None:
        return xp.max(b, axis=-1, keepdims=True) - xp.min(b, axis=-1, keepdims=True)
    infinite = _arrays.full_like(xp, b, (), float("inf"))
    top = xp.max(xp.where(mask, b, -infinite), axis=-1, keepdims=True)
    bottom = xp.min(xp.where(mask, b, infinite), axis=-1, keepdims=True)
    seeing = _arrays.seeing_queries(mask)
    return _arrays.keep(xp, seeing, top) - _arrays.keep(xp, seeing, bottom)
