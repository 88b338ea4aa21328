r"""Softmax over visible keys, and the matrix that is its Jacobian and its Fisher information.

.. math::

    a_{ij} = \frac{e^{s_{ij}}}{\sum_{k \text{ visible to } i} e^{s_{ik}}}, \qquad
    \frac{\partial a_{ij}}{\partial s_{lk}} = \delta_{il}\, a_{ij} (\delta_{jk} - a_{ik}), \qquad
    F_i = \operatorname{diag}(a_i) - a_i a_i^T

where i, l run over the n queries and j, k over the m keys. A hidden pair has weight exactly 0. A row in which nothing
is visible (or every score is -inf) is *empty*: its weights are 0, its log-sum-exp is -inf. That is a convention.

The array-API standard has none of these functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayesgrad import _arrays, _validate
from bayesgrad._types import Array, ArrayT, Bools, Floats


def _checked(scores: Array, mask: Array | None) -> tuple[_arrays.Namespace, Any, Any]:
    """The namespace, the scores in their accumulation dtype, and the mask in their shape."""
    xp = _validate.floats(scores=scores)
    _validate.shapes(scores=(scores, "keys"))
    _validate.booleans(xp, "mask", mask, scores)
    _validate.broadcastable("mask", mask, tuple(scores.shape))
    if mask is not None:
        mask = _arrays.namespace_of(mask).broadcast_to(mask, tuple(scores.shape))
    return xp, _arrays.widen(xp, scores), mask


def weights_of(xp: _arrays.Namespace, scores: Any, mask: Any) -> Any:
    """Softmax without argument checks: what the other modules call."""
    if scores.shape[-1] == 0:
        return xp.zeros_like(scores)
    if _arrays.is_torch(xp) and _arrays.outside_any_graph(scores):
        # The same in PyTorch's own kernel, which makes NaN of empty rows; their maximum tells them from true NaN. On a
        # CPU one column says whether there is anything to do; elsewhere a look would wait for the device.
        scores = _arrays.hide(xp, scores, mask)
        weights = scores.softmax(-1)
        if weights.device.type == "cpu" and not bool(weights[..., 0].isnan().any()):
            return weights
        return weights.masked_fill_(scores.amax(-1, keepdim=True) == -math.inf, 0.0)
    terms, total, _ = _arrays.exp_visible(xp, scores, mask)
    return terms / total


def softmax(
    scores: Floats[ArrayT, "*rows keys"], *, mask: Bools[Array, "*_"] | None = None
) -> Floats[ArrayT, "*rows keys"]:
    """a = exp(s) / sum exp(s) over the visible entries of the last axis; 0 at hidden entries and on empty rows.

    Args:
        scores: (..., m), real floating. +inf gives NaN, -inf gives weight 0.
        mask: booleans that broadcast to the scores, True = visible.

    Returns:
        The weights (..., m), in the dtype of the scores; 16-bit scores accumulate in float32.

    Raises:
        TypeError, ValueError: an argument of the wrong kind or shape.

    Source: standard.

    >>> import numpy as np
    >>> softmax(np.asarray([[0.0, 0.0, np.log(2.0)]])).tolist()
    [[0.25, 0.25, 0.5]]
    >>> softmax(np.zeros((1, 2)), mask=np.asarray([[False, False]])).tolist()
    [[0.0, 0.0]]
    """
    xp, wide, mask = _checked(scores, mask)
    return _arrays.narrow(xp, scores, weights_of(xp, wide, mask))


def logsumexp(
    scores: Floats[ArrayT, "*rows keys"], *, mask: Bools[Array, "*_"] | None = None
) -> Floats[ArrayT, "*rows"]:
    """log sum exp(s) over the visible entries of the last axis, in nats; -inf on an empty row.

    Args:
        scores: (..., m), real floating.
        mask: booleans that broadcast to the scores, True = visible.

    Returns:
        (...), in the dtype of the scores; -inf on an empty row.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Source: standard.

    >>> import numpy as np
    >>> float(logsumexp(np.zeros(4)).round(12)), round(float(np.log(4)), 12)
    (1.38629436112, 1.38629436112)
    """
    xp, wide, mask = _checked(scores, mask)
    return _arrays.narrow(xp, scores, log_total_of(xp, wide, mask))


def log_total_of(xp: _arrays.Namespace, scores: Any, mask: Any) -> Any:
    """Log-sum-exp without argument checks."""
    if scores.shape[-1] == 0:
        return _arrays.full_like(xp, scores, tuple(scores.shape)[:-1], -math.inf)
    terms, total, top = _arrays.exp_visible(xp, scores, mask)
    value = top + xp.log(total)
    if not _arrays.symbolic(xp):
        empty = xp.max(terms, axis=-1, keepdims=True) == 0
        value = xp.where(empty, _arrays.full_like(xp, value, (), -math.inf), value)
        # The largest score decides where it is infinite; inf - inf says nothing.
        value = xp.where(top == math.inf, top, value)
    return value[..., 0]


def log_weights_of(xp: _arrays.Namespace, scores: Any, mask: Any) -> Any:
    """Log-softmax without argument checks."""
    if scores.shape[-1] == 0:
        return xp.zeros_like(scores)
    _, total, top = _arrays.exp_visible(xp, scores, mask)
    # (s - top) - log(sum): the difference of large numbers is taken first, and exactly.
    with _arrays.quiet(xp):
        return (_arrays.hide(xp, scores, mask) - top) - xp.log(total)


def log_softmax(
    scores: Floats[ArrayT, "*rows keys"], *, mask: Bools[Array, "*_"] | None = None
) -> Floats[ArrayT, "*rows keys"]:
    """s - log sum exp(s) over the visible entries, in nats; -inf at hidden entries and on empty rows.

    Args:
        scores: (..., m), real floating.
        mask: booleans that broadcast to the scores, True = visible.

    Returns:
        (..., m), in the dtype of the scores; -inf at hidden entries and on empty rows.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Source: standard.

    >>> import numpy as np
    >>> log_softmax(np.asarray([0.0, -1000.0])).tolist()
    [0.0, -1000.0]
    """
    xp, wide, mask = _checked(scores, mask)
    return _arrays.narrow(xp, scores, log_weights_of(xp, wide, mask))


def fisher(weights: Floats[ArrayT, "*rows keys"], *, validate: bool = True) -> Floats[ArrayT, "*rows keys keys"]:
    """F = diag(a) - a a^T: the Jacobian of softmax, and the Fisher information of the categorical in its scores.

    Positive semidefinite; its kernel is the constants on the visible keys (and every coordinate with weight 0).

    Args:
        weights: (..., m), rows that sum to 1, or 0 on empty rows (checked unless ``validate=False``).

    Returns:
        (..., m, m), symmetric.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Labels: softmax.jacobian, softmax.fisher. Source: ours (standard).

    >>> import numpy as np
    >>> fisher(np.asarray([0.5, 0.5])).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    xp = _validate.floats(weights=weights)
    _validate.shapes(weights=(weights, "keys"))
    if validate:
        _validate.distributions(xp, "weights", weights)
    a = _arrays.widen(xp, weights)
    keys = a.shape[-1]
    if _arrays.symbolic(xp):
        same = np.eye(keys, dtype=bool)
    else:
        index = xp.arange(keys, device=_arrays.device_of(a))
        same = xp.expand_dims(index, axis=-1) == index
    row, column = xp.expand_dims(a, axis=-1), xp.expand_dims(a, axis=-2)
    outer = row * column
    # a_j (delta_jk - a_k): the diagonal as a_j - a_j^2, so that a one-hot row gives exactly 0.
    return _arrays.narrow(xp, weights, xp.where(same, row - outer, -outer))
