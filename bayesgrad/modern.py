r"""Attention with what models of today add: soft cap, temperature, a sink, and a loss that reads the row's log-sum-exp.

.. math::

    t_{ij} = \text{scale}\; q_i \cdot k_j + \text{bias}_{ij}, \qquad
    s_{ij} = \frac{1}{T}\, c \tanh(t_{ij} / c), \qquad
    Z_i = e^{\sigma_i} + \sum_{k \text{ visible}} e^{s_{ik}}, \qquad a_{ij} = e^{s_{ij}} / Z_i

.. math::

    \frac{\partial L}{\partial s_{ij}} = a_{ij} (b_{ij} - \bar b_i + w_i), \qquad
    \frac{\partial L}{\partial \sigma_i} = a_{i0} (w_i - \bar b_i), \qquad
    \frac{\partial L}{\partial t_{ij}} = \frac{1}{T} \Big(1 - \tanh^2 \frac{t_{ij}}{c}\Big)
    \frac{\partial L}{\partial s_{ij}}

with :math:`a_{i0} = e^{\sigma_i} / Z_i`, :math:`w_i = \partial L / \partial \log Z_i` and
:math:`\bar b_i = \sum_k a_{ik} b_{ik}`, which is *not* renormalised: with a sink a row of weights sums to
:math:`1 - a_{i0}`. Then zero row sums, a zero gradient of a key bias and the saturation bound no longer hold.
Visibility comes after the cap: capping a score of -inf would give -c, which is not hidden. Without a sink
:math:`\sigma = -\infty`, without a cap :math:`c = \infty`, and T = 1; their gradients are then those limits, so that
every field of a result is always there.

Adding w to b instead changes nothing without a sink, because the law is blind to a shift of the whole row.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayesgrad import _arrays, _validate
from bayesgrad._head import Head, above_mean, prepare_head, run_forward, used_weights
from bayesgrad._types import Array, ArrayT, Bools, Floats, Generic, Real


class ModernAttention(NamedTuple, Generic[ArrayT]):
    """Scores after the map (-inf at hidden pairs), weights, the sink's weight (..., n), log Z (..., n), context."""

    scores: ArrayT
    weights: ArrayT
    sink_weight: ArrayT
    log_total: ArrayT
    context: ArrayT


class ModernGradients(NamedTuple, Generic[ArrayT]):
    """Gradients of the loss, one field an argument.

    ``weights`` is b, ``scores`` dL/ds after the map and ``products`` dL/dt before it; ``bias`` has the shape of the
    bias (without one: of a bias for every pair), ``sink`` that of the sink (without one: (..., n) zeros); ``scale``,
    ``soft_cap`` and ``temperature`` have no axes.
    """

    weights: ArrayT
    scores: ArrayT
    products: ArrayT
    values: ArrayT
    queries: ArrayT
    keys: ArrayT
    bias: ArrayT
    scale: ArrayT
    sink: ArrayT
    soft_cap: ArrayT
    temperature: ArrayT


class _Map(NamedTuple):
    """The options of this module after checking; None where one was not given."""

    soft_cap: Any
    temperature: Any
    sink: Any
    sink_shape: tuple[int, ...] | None


class _Made(NamedTuple):
    """t (0 at hidden pairs), the capped t, tanh(t/c) or None, s, a, a_0 (..., n, 1) or None, log Z (..., n, 1)."""

    t: Any
    capped: Any
    tanh: Any
    scores: Any
    weights: Any
    sink_weight: Any
    log_total: Any


def _not_zero(xp: Any, name: str, x: Real | None) -> Any:
    if x is None:
        return None
    x = _validate.real(xp, name, x)
    if _arrays.holds(x == 0) if not isinstance(x, float) else x == 0:
        raise ValueError(f"{name}: got 0, expected a number that is not 0 (None for none)")
    return x


def _options(head: Head, like: Any, soft_cap: Any, temperature: Any, sink: Any) -> _Map:
    xp = head.xp
    shape = None
    if sink is not None:
        if getattr(sink, "shape", None) in (None, ()):
            sink = _validate.real(xp, "sink", sink)
            sink = _arrays.full_like(xp, head.q, (), sink) if isinstance(sink, float) else _arrays.widen(xp, sink)
            shape = ()
        else:
            _validate.floats(q=like, sink=sink)
            _validate.broadcastable("sink", sink, tuple(head.q.shape)[:-1])
            sink, shape = _arrays.widen(xp, sink), tuple(sink.shape)
        sink = sink if shape == () else xp.expand_dims(sink, axis=-1)
    return _Map(_not_zero(xp, "soft_cap", soft_cap), _not_zero(xp, "temperature", temperature), sink, shape)


def _forward(head: Head, chosen: _Map) -> _Made:
    xp = head.xp
    t = xp.matmul(head.q * head.scale, _arrays.transpose(xp, head.k))
    if head.bias is not None:
        t = t + head.bias
    if head.mask is not None:
        # A bias of -inf is hidden by the mask; what stands there must not meet 0 later.
        t = _arrays.keep(xp, head.mask, t)
    tanh = None if chosen.soft_cap is None else xp.tanh(t / chosen.soft_cap)
    capped = t if tanh is None else chosen.soft_cap * tanh
    scores = capped if chosen.temperature is None else capped / chosen.temperature
    scores = _arrays.hide(xp, scores, head.mask)
    hidden = _arrays.full_like(xp, scores, (*scores.shape[:-1], 1), -math.inf)
    sink = hidden if chosen.sink is None else xp.broadcast_to(chosen.sink, hidden.shape)
    # The sink is one more key: the largest of all scores is taken out, so that nothing overflows.
    terms, total, top = _arrays.exp_visible(xp, _arrays.beside(xp, scores, sink), None)
    weights, log_total = terms / total, top + xp.log(total)
    nothing = sink == -math.inf
    if head.mask is not None:
        nothing = xp.logical_and(nothing, xp.logical_not(head.seeing))
    elif scores.shape[-1]:
        nothing = xp.zeros_like(nothing)
    log_total = xp.where(nothing, hidden, log_total)
    return _Made(t, capped, tanh, scores, weights[..., :-1], weights[..., -1:], log_total)


def attention(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
    soft_cap: Real | None = None,
    temperature: Real | None = None,
    sink: Floats[ArrayT, "*_"] | Real | None = None,
) -> ModernAttention[ArrayT]:
    """:func:`bayesgrad.attention` with a soft cap, a temperature and a sink.

    Args:
        q, k, v, mask, bias, scale, dropout: as there. The bias is added before the cap.
        soft_cap: c, not 0. temperature: T, not 0.
        sink: sigma, a number or an array that broadcasts to (..., n): (H, 1) is one for each head, and 0 is off-by-one
            softmax. A query that sees no key gives all its weight to the sink.

    Returns:
        :class:`ModernAttention`; log Z is -inf where neither a key nor a sink is there.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Labels: attention.sink, attention.score-map. Source: standard.

    >>> import numpy as np
    >>> q, k, v = np.zeros((1, 1)), np.zeros((1, 1)), np.asarray([[2.0]])
    >>> attention(q, k, v, sink=0.0).context.tolist()
    [[1.0]]
    """
    head = prepare_head(q, k, v, None, mask=mask, bias=bias, scale=scale, dropout=dropout)
    made = _forward(head, _options(head, q, soft_cap, temperature, sink))
    context = head.xp.matmul(used_weights(head, made.weights), head.v)
    found = made.scores, made.weights, made.sink_weight[..., 0], made.log_total[..., 0], context
    return ModernAttention(*_arrays.narrow_all(head.xp, q, *found))


def attention_gradients(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    d_log_total: Floats[ArrayT, "*batch queries"] | None = None,
    mask: Bools[Array, "*_"] | None = None,
    bias: Floats[ArrayT, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[ArrayT, "*_"] | None = None,
    soft_cap: Real | None = None,
    temperature: Real | None = None,
    sink: Floats[ArrayT, "*_"] | Real | None = None,
) -> ModernGradients[ArrayT]:
    """All gradients of :func:`attention`, also where the loss reads log Z.

    Args:
        q, k, v, mask, bias, scale, dropout, soft_cap, temperature, sink: as there.
        u: the upstream gradient dL/dg (..., n, d_v), at fixed log Z.
        d_log_total: w = dL/dlog Z (..., n); none is 0.

    Returns:
        :class:`ModernGradients`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Labels: attention.sink, attention.lse-law, attention.score-map. Source: ours (standard calculus).

    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> attention_gradients(0 * one, one, one, one, sink=0.0).scores.tolist()
    [[0.25]]
    """
    _validate.floats(u=u)
    head = prepare_head(q, k, v, u, mask=mask, bias=bias, scale=scale, dropout=dropout)
    xp, chosen = head.xp, _options(head, q, soft_cap, temperature, sink)
    made = _forward(head, chosen)
    a = made.weights
    b = xp.matmul(head.u, _arrays.transpose(xp, head.v))
    b = b if head.dropout is None else b * head.dropout
    if chosen.sink is None:
        # Rows sum to 1, so that what all values share, and the mean a second time, cost no digits (docs/numerics.md).
        near = b
        if head.dropout is None:
            near = xp.matmul(head.u, _arrays.transpose(xp, run_forward(head).centred))
        above = above_mean(xp, a, above_mean(xp, a, near))
        of_sink = xp.zeros_like(made.log_total)
    else:
        mean = xp.sum(a * b, axis=-1, keepdims=True)
        above, of_sink = b - mean, -made.sink_weight * mean
    if d_log_total is not None:
        _validate.floats(q=q, d_log_total=d_log_total)
        _validate.same_shape("d_log_total", d_log_total, tuple(q.shape)[:-1], "the queries")
        w = xp.expand_dims(_arrays.widen(xp, d_log_total), axis=-1)
        if chosen.sink is not None:
            of_sink = of_sink + made.sink_weight * w
        above = above + (w if head.mask is None else _arrays.keep(xp, head.seeing, w))
    ds = a * above
    dt = ds if chosen.temperature is None else ds / chosen.temperature
    of_temperature = -xp.sum(dt * made.capped) / (1.0 if chosen.temperature is None else chosen.temperature)
    of_cap = xp.sum(dt) * 0
    if made.tanh is not None:
        slope = 1 - made.tanh * made.tanh
        of_cap = xp.sum(dt * (made.tanh - made.t / chosen.soft_cap * slope))
        dt = dt * slope
    along_k = xp.matmul(dt, head.k)
    of_sink = of_sink[..., 0]
    found = (
        b,
        ds,
        dt,
        xp.matmul(_arrays.transpose(xp, used_weights(head, a)), head.u),
        along_k * head.scale,
        xp.matmul(_arrays.transpose(xp, dt), head.q * head.scale),
        dt if head.bias_shape is None else _arrays.unbroadcast(xp, dt, head.bias_shape),
        xp.sum(along_k * head.q),
        of_sink if chosen.sink_shape is None else _arrays.unbroadcast(xp, of_sink, chosen.sink_shape),
        of_cap,
        of_temperature,
    )
    return ModernGradients(*_arrays.narrow_all(xp, q, *found))
