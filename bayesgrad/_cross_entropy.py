r"""Cross-entropy from logits and its gradient, in one normal form.

Every variant is a soft target :math:`t_i` with total :math:`\tau_i`:

.. math::

    L = -\sum_{ic} t_{ic} \log p_{ic}, \qquad p_i = \operatorname{softmax}(z_i), \qquad
    r_i = \frac{\partial L}{\partial z_i} = \tau_i p_i - t_i, \qquad \tau_i = \sum_c t_{ic}

A hard target with class weights omega and smoothing eps has
:math:`t_{ic} = w_i \omega_c ((1-\varepsilon) \delta_{c y_i} + \varepsilon / C)`, which is PyTorch's definition; with
weights *and* smoothing it is not :math:`w_i (p_i - \text{smoothed target})`. The position weight :math:`w_i` is 1 for
``sum`` and ``none``; for ``mean`` it is 1/N over the N counted positions (with class weights: one over the summed
weights of the counted targets); ignored positions have 0, and all have 0 where nothing is counted: then loss and
gradient are 0 (PyTorch says NaN). 0 log 0 = 0: a logit of -inf is fine where the target has no mass.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple, get_args

from bayesgrad import _arrays, _validate
from bayesgrad._softmax import log_weights_of, weights_of
from bayesgrad._types import Array, ArrayT, Floats, Generic, Ints, Real, Reduction

REDUCTIONS = get_args(Reduction)


class CrossEntropy(NamedTuple, Generic[ArrayT]):
    """The loss in nats (no axes, or (...) for ``reduction="none"``) and r = dL/dz (..., C)."""

    loss: ArrayT
    logit_gradient: ArrayT


class LossOptions(NamedTuple):
    """The options of a call after checking, class weights in the accumulation dtype."""

    reduction: str
    ignore_index: int
    omega: Any
    smoothing: Any


def loss_options(
    xp: _arrays.Namespace,
    classes: int,
    *,
    reduction: str,
    ignore_index: int,
    class_weights: Array | None,
    label_smoothing: Real,
) -> LossOptions:
    """Validate the options once, for the dense and for the tiled form."""
    _validate.choice("reduction", reduction, REDUCTIONS)
    if class_weights is not None:
        _validate.vector("class_weights", class_weights, "C", classes)
    smoothing = _validate.real(xp, "label_smoothing", label_smoothing)
    if isinstance(smoothing, float) and not 0 <= smoothing <= 1:
        raise ValueError(f"label_smoothing: got {label_smoothing!r}, expected a number in [0, 1]")
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, numbers.Integral):
        raise TypeError(f"ignore_index: got {type(ignore_index).__name__}, expected an integer")
    return LossOptions(reduction, int(ignore_index), _arrays.widen(xp, class_weights), smoothing)


def target_mass(
    xp: _arrays.Namespace, targets: Array, like: Array, shape: tuple[int, ...], chosen: LossOptions, validate: bool
) -> Any:
    """t (..., C), the one normal form of every variant, in the accumulation dtype. ``like`` gives dtype and device."""
    wide = _arrays.widen(xp, like)
    symbolic, classes = _arrays.symbolic(xp), shape[-1]
    if _validate.is_floating(xp, targets):
        _validate.floats(logits=like, targets=targets)
        _validate.same_shape("targets", targets, shape, "the logits")
        hot, share = _arrays.widen(xp, targets), None
    else:
        _validate.integers(xp, "targets", targets, like)
        _validate.same_shape("targets", targets, shape[:-1], "the logits without their last axis")
        hot = _one_hot(xp, targets, wide, shape, chosen.ignore_index, validate)
        share = hot if chosen.omega is None else hot * chosen.omega
    t, smoothing = hot, chosen.smoothing
    if not (isinstance(smoothing, float) and smoothing == 0):
        # The total of an unsmoothed row: 1 for an index target, 0 where ignored.
        total = xp.sum(hot, axis=-1, keepdims=True)
        t = hot * (1 - smoothing) + total * (smoothing / max(classes, 1))
    if chosen.omega is not None:
        t = t * chosen.omega
    if chosen.reduction == "mean":
        if share is None:
            return t / max(math.prod(shape[:-1]), 1)
        counted = xp.sum(share)
        t = t / (counted if symbolic else xp.where(counted == 0, xp.ones_like(counted), counted))
    return t


def _one_hot(
    xp: _arrays.Namespace, targets: Array, like: Any, shape: tuple[int, ...], ignore: int, validate: bool
) -> Any:
    """1 at the class of each counted position, 0 elsewhere."""
    own, classes, y = _arrays.namespace_of(targets), shape[-1], _arrays.wide_integers(targets)
    counted = y != ignore
    if validate and _arrays.concrete(y):
        outside = own.logical_and(counted, own.logical_or(y < 0, y >= classes))
        if _arrays.holds(own.any(outside)):
            found = int(y[outside][0])
            raise ValueError(f"targets: got {found}, expected 0..{classes - 1} or ignore_index = {ignore}")
    one = own.logical_and(_arrays.one_hot(xp, y, classes), own.expand_dims(counted, axis=-1))
    return _arrays.keep(xp, one, _arrays.full_like(xp, like, shape, 1.0))


def cross_entropy(
    logits: Floats[ArrayT, "*batch classes"],
    targets: Ints[Array, "*batch"] | Floats[ArrayT, "*batch classes"],
    *,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    class_weights: Floats[ArrayT, " classes"] | None = None,
    label_smoothing: Real = 0.0,
    validate: bool = True,
) -> CrossEntropy[ArrayT]:
    """Cross-entropy in nats and its gradient in the logits.

    Args:
        logits: z (..., C).
        targets: class indices (...), or soft targets (..., C) of the dtype of the logits (rows may have any total).
        reduction: "mean", "sum" or "none" (then the gradient is that of the sum). The mean of soft targets divides by
            the number of positions, as PyTorch does.
        ignore_index: an index that takes no part (hard targets only).
        class_weights: omega (C,).
        label_smoothing: eps in [0, 1].
        validate: whether index targets are checked; out of range raises.

    Returns:
        ``CrossEntropy(loss, logit_gradient)``.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, shape or value.

    Label: loss.logit-gradient. Source: standard; the general form with weights and smoothing is ours.

    >>> import numpy as np
    >>> got = cross_entropy(np.zeros((1, 2)), np.asarray([0]))
    >>> round(float(got.loss), 6), got.logit_gradient.tolist()
    (0.693147, [[-0.5, 0.5]])
    """
    xp = _validate.floats({"class_weights": class_weights}, logits=logits)
    _validate.shapes(logits=(logits, "C"))
    chosen = loss_options(
        xp,
        logits.shape[-1],
        reduction=reduction,
        ignore_index=ignore_index,
        class_weights=class_weights,
        label_smoothing=label_smoothing,
    )
    t = target_mass(xp, targets, logits, tuple(logits.shape), chosen, validate)
    z = _arrays.widen(xp, logits)
    if not _arrays.symbolic(xp):
        # A position without target mass takes no part, even where its logits are NaN: 0 before anything is computed, so
        # that autograd through the loss gives 0 there too (0 * NaN is NaN).
        z = xp.where(xp.any(t != 0, axis=-1, keepdims=True), z, xp.zeros_like(z))
    surprise = log_weights_of(xp, z, None)
    if not _arrays.symbolic(xp):
        surprise = xp.where(t == 0, xp.zeros_like(surprise), surprise)
    loss = -xp.sum(t * surprise, axis=-1)
    if reduction != "none":
        loss = xp.sum(loss)
    r = xp.sum(t, axis=-1, keepdims=True) * weights_of(xp, z, None) - t
    return CrossEntropy(*_arrays.narrow_all(xp, logits, loss, r))
