r"""What the EM reading of attention means exactly.

.. math::

    l = -\log \sum_j \pi_j e^{-c_j}, \quad r_j = \pi_j e^{-c_j + l}, \quad dl = \sum_j r_j\, dc_j, \qquad
    \arg\min_a \sum_j a_j b_j + \tfrac1\eta \mathrm{KL}(a \| a_0) \propto a_{0j} e^{-\eta b_j}, \qquad
    \arg\min_v \sum_{ij} a_{ij} u_i \cdot v_j + \frac{|v - v_0|^2}{2 \eta} = v_0 - \eta\, a^T u

The natural routing step and the value law are proximal steps of one surrogate, sum_ij a_ij b_ij at fixed u; the plain
routing law is not. And the pair is not variational: :func:`not_variational_witness` raises its own loss. eta > 0
throughout; losses and divergences in this module are in nats.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bayesgrad import _arrays, _validate
from bayesgrad._attention import attention
from bayesgrad._cross_entropy import cross_entropy
from bayesgrad._types import Array, ArrayT, Floats, Generic, Real
from bayesgrad.dynamics import replicator_step
from bayesgrad.gradients import attention_gradients


class EmIdentity(NamedTuple, Generic[ArrayT]):
    """l1 - l0, Q1 - Q0 and KL(r0 || r1), all (...), in nats: the first is the second minus the third."""

    loss_change: ArrayT
    cost_change: ArrayT
    divergence: ArrayT


class Witness(NamedTuple):
    """One query, two keys with scores 0, target class 0: values v (2, 1), W_O (1, 3), and the losses in nats at the
    start, after the value step, and after the plain and the natural routing step that follow it.
    """

    v: np.ndarray[Any, np.dtype[Any]]
    W_O: np.ndarray[Any, np.dtype[Any]]
    start: float
    after_values: float
    after_plain_routing: float
    after_natural_routing: float


def _mixture(priors: Array, costs: Array, validate: bool, **more: Array) -> tuple[_arrays.Namespace, Any, Any]:
    """The namespace, pi and c in their accumulation dtype."""
    xp = _validate.floats(priors=priors, costs=costs, **more)
    _validate.shapes(priors=(priors, "m"))
    for name, x in {"costs": costs, **more}.items():
        _validate.shapes(**{name: (x, "m")})
        _validate.same_shape(name, x, priors.shape, "the priors")
    if validate:
        _validate.distributions(xp, "priors", priors)
    return xp, *_arrays.widen(xp, priors, costs)


def _loss(xp: _arrays.Namespace, pi: Any, c: Any) -> Any:
    terms, _, top = _arrays.exp_visible(xp, -c, _arrays.support(xp, pi))
    loss = -xp.log(xp.sum(pi * terms, axis=-1)) - top[..., 0]
    if _arrays.symbolic(xp):
        return loss
    # A cost of -inf makes its component certain: the loss is -inf, not inf - inf.
    return xp.where(top[..., 0] == math.inf, -top[..., 0], loss)


def mixture_loss(
    priors: Floats[ArrayT, "*batch m"], costs: Floats[ArrayT, "*batch m"], *, validate: bool = True
) -> Floats[ArrayT, "*batch"]:
    """l = -log sum_j pi_j exp(-c_j), in nats.

    Args:
        priors: pi (..., m), distributions. costs: c (..., m), +inf allowed.

    Returns:
        l (...).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: em.fisher-identity, lemma.em-identity. Source: standard.

    >>> import numpy as np
    >>> float(mixture_loss(np.asarray([0.5, 0.5]), np.asarray([1.0, 1.0])).round(12))
    1.0
    """
    xp, pi, c = _mixture(priors, costs, validate)
    return _arrays.narrow(xp, priors, _loss(xp, pi, c))


def mixture_responsibilities(
    priors: Floats[ArrayT, "*batch m"], costs: Floats[ArrayT, "*batch m"], *, validate: bool = True
) -> Floats[ArrayT, "*batch m"]:
    """r_j = pi_j exp(-c_j) / sum_l pi_l exp(-c_l): the exact posterior over components, and dl/dc.

    Args:
        priors: pi (..., m), distributions.
        costs: c (..., m), +inf allowed.

    Returns:
        r (..., m).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: em.fisher-identity. Source: standard (Fisher's identity).

    >>> import numpy as np
    >>> mixture_responsibilities(np.asarray([0.5, 0.5]), np.asarray([0.0, np.log(3.0)])).round(12).tolist()
    [0.75, 0.25]
    """
    xp, pi, c = _mixture(priors, costs, validate)
    return _arrays.narrow(xp, priors, _arrays.multiply_in(xp, pi, -c))


def mixture_loss_change(
    priors: Floats[ArrayT, "*batch m"],
    costs: Floats[ArrayT, "*batch m"],
    cost_change: Floats[ArrayT, "*batch m"],
    *,
    validate: bool = True,
) -> Floats[ArrayT, "*batch"]:
    """dl = sum_j r_j dc_j at fixed priors, first order in dc.

    Args:
        priors, costs: as in :func:`mixture_loss`. cost_change: dc (..., m).

    Returns:
        dl (...).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: em.fisher-identity. Source: standard (Fisher's identity).

    >>> import numpy as np
    >>> float(mixture_loss_change(np.asarray([0.5, 0.5]), np.zeros(2), np.asarray([0.1, 0.3])).round(12))
    0.2
    """
    xp, pi, c = _mixture(priors, costs, validate, cost_change=cost_change)
    r = _arrays.multiply_in(xp, pi, -c)
    return _arrays.narrow(xp, priors, xp.sum(r * _arrays.widen(xp, cost_change), axis=-1))


def em_identity(
    priors: Floats[ArrayT, "*batch m"],
    costs: Floats[ArrayT, "*batch m"],
    new_costs: Floats[ArrayT, "*batch m"],
    *,
    validate: bool = True,
) -> EmIdentity[ArrayT]:
    """The three terms of l1 - l0 = Q1 - Q0 - KL(r0 || r1), with Q = sum_j r0_j c_j; each computed on its own.

    Args:
        priors: pi (..., m). costs, new_costs: finite costs before and after (..., m).

    Returns:
        :class:`EmIdentity`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: lemma.em-identity. Source: standard (Dempster, Laird and Rubin).

    >>> import numpy as np
    >>> got = em_identity(np.asarray([0.5, 0.5]), np.asarray([0.0, 1.0]), np.asarray([1.0, 0.0]))
    >>> bool(abs(got.loss_change - (got.cost_change - got.divergence)) < 1e-15)
    True
    """
    xp, pi, c0 = _mixture(priors, costs, validate, new_costs=new_costs)
    c1 = _arrays.widen(xp, new_costs)
    r0, l0, l1 = _arrays.multiply_in(xp, pi, -c0), _loss(xp, pi, c0), _loss(xp, pi, c1)
    # log(r0/r1) = (c1 - c0) - (l1 - l0) component by component: no division, no log 0.
    # A component without responsibility takes no part, even where its costs are infinite.
    moved = _difference(xp, c1, c0)
    moved = moved if _arrays.symbolic(xp) else xp.where(r0 == 0, xp.zeros_like(c0), moved)
    ratio = moved - xp.expand_dims(l1 - l0, axis=-1)
    parts = l1 - l0, xp.sum(r0 * moved, axis=-1), xp.sum(r0 * ratio, axis=-1)
    return EmIdentity(*_arrays.narrow_all(xp, priors, *parts))


def _difference(xp: _arrays.Namespace, new: Any, old: Any) -> Any:
    with _arrays.quiet(xp):
        return new - old


def proximal_e_step(
    weights: Floats[ArrayT, "*batch queries keys"],
    compatibility: Floats[ArrayT, "*batch queries keys"],
    *,
    eta: Real,
    validate: bool = True,
) -> Floats[ArrayT, "*batch queries keys"]:
    """argmin over the simplex of sum_j a_j b_j + KL(a || a0)/eta: a0_j exp(-eta b_j) / Z.

    Args:
        weights: a0 (..., n, m); a weight of 0 stays 0. compatibility: b (..., n, m). eta: positive.

    Returns:
        a (..., n, m).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: em.proximal-e-step. Source: ours (mirror descent in the KL geometry).

    >>> import numpy as np
    >>> proximal_e_step(np.asarray([[0.5, 0.5]]), np.asarray([[0.0, np.log(3.0)]]), eta=1.0).round(12).tolist()
    [[0.75, 0.25]]
    """
    xp = _validate.floats(weights=weights, compatibility=compatibility)
    rate = _validate.real(xp, "eta", eta, positive=True)
    return replicator_step(weights, compatibility, eta=rate, validate=validate)


def proximal_m_step(
    v: Floats[ArrayT, "*batch keys values"],
    weights: Floats[ArrayT, "*batch queries keys"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    eta: Real,
) -> Floats[ArrayT, "*batch keys values"]:
    """argmin over v of sum_ij a_ij u_i.v_j + |v - v0|^2/(2 eta): v0_j - eta sum_i a_ij u_i.

    Args:
        v: v0 (..., m, d_v). weights: a (..., n, m). u: dL/dg (..., n, d_v). eta: positive.

    Returns:
        v (..., m, d_v).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: em.proximal-m-step. Source: ours.

    >>> import numpy as np
    >>> proximal_m_step(np.zeros((2, 1)), np.asarray([[0.75, 0.25]]), np.asarray([[4.0]]), eta=0.5).tolist()
    [[-1.5], [-0.5]]
    """
    xp = _validate.floats(v=v, weights=weights, u=u)
    _validate.shapes(v=(v, "m d_v"), weights=(weights, "n m"), u=(u, "n d_v"))
    rate = _validate.real(xp, "eta", eta, positive=True)
    v0, a, wide_u = _arrays.widen(xp, v, weights, u)
    return _arrays.narrow(xp, v, v0 - rate * xp.matmul(_arrays.transpose(xp, a), wide_u))


def gaussian_mixture_responsibilities(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    *,
    priors: Floats[ArrayT, "*batch keys"],
    scale: Real,
    validate: bool = True,
) -> Floats[ArrayT, "*batch queries keys"]:
    """Responsibilities of the mixture with means k_j, covariance I/scale and priors prop. to pi_j exp(scale |k_j|^2/2).

    They equal softmax_j(scale q.k_j + log pi_j); here they are computed as what they are called, from squared
    distances.

    Args:
        q: (..., n, d_k). k: (..., m, d_k). priors: pi (..., m), >= 0, of any positive total. scale: positive.

    Returns:
        (..., n, m); rows of 0 where every pi_j is 0.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: em.gaussian-mixture. Source: ours.

    >>> import numpy as np
    >>> q, k = np.asarray([[1.0]]), np.asarray([[0.0], [np.log(3.0)]])
    >>> gaussian_mixture_responsibilities(q, k, priors=np.ones(2), scale=1.0).round(12).tolist()
    [[0.25, 0.75]]
    """
    xp = _validate.floats(q=q, k=k, priors=priors)
    _validate.shapes(q=(q, "n d_k"), k=(k, "m d_k"), priors=(priors, "m"))
    factor = _validate.real(xp, "scale", scale, positive=True)
    wide_q, wide_k, pi = _arrays.widen(xp, q, k, priors)
    if validate and _arrays.concrete(pi) and _arrays.holds(xp.any(pi < 0)):
        raise ValueError("priors: got a negative entry, expected numbers >= 0")
    distance = xp.expand_dims(wide_q, axis=-2) - xp.expand_dims(wide_k, axis=-3)
    far = xp.sum(distance * distance, axis=-1)
    long = xp.expand_dims(xp.sum(wide_k * wide_k, axis=-1), axis=-2)
    prior = xp.broadcast_to(xp.expand_dims(pi, axis=-2), tuple(far.shape))
    return _arrays.narrow(xp, q, _arrays.multiply_in(xp, prior, (long - far) * factor / 2))


def not_variational_witness(eta: Real = 1.0) -> Witness:
    """An instance in which the value step lowers the loss and the routing step then raises it above the start.

    With w = min(1, 1/sqrt(eta)), V = max(4, 4/eta): v = ((1+V)/w, (1-V)/w), W_O = (0, w, -w), one query, two keys,
    scores 0, target class 0. The losses are computed by this package's own functions, in float64.

    Args:
        eta: positive, the size of both steps.

    Returns:
        :class:`Witness`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: em.not-variational. Source: ours.

    >>> got = not_variational_witness(1.0)
    >>> [round(x, 4) for x in got[2:]]
    [1.4076, 1.2611, 2.2359, 3.1035]
    """
    rate: float = _validate.real(np, "eta", eta, positive=True)
    w, V = min(1.0, 1 / math.sqrt(rate)), max(4.0, 4 / rate)
    v, W_O, target = np.asarray([[(1 + V) / w], [(1 - V) / w]]), np.asarray([[0.0, w, -w]]), np.asarray([0])
    one, keys = np.ones((1, 1)), np.zeros((2, 1))

    def look(values: Any, scores: Any) -> tuple[float, Any]:
        loss, r = cross_entropy(attention(one, keys, values, bias=scores).context @ W_O, target)
        return float(loss), r @ W_O.T

    s = np.zeros((1, 2))
    start, u = look(v, s)
    got = attention_gradients(one, keys, v, u, bias=s)
    stepped = v - rate * got.values
    after_values, u = look(stepped, s)
    got = attention_gradients(one, keys, stepped, u, bias=s)
    plain, _ = look(stepped, s - rate * got.scores)
    # softmax(s - eta b) = a exp(-eta b)/Z: the proximal E-step, here in the scores.
    natural, _ = look(stepped, s - rate * got.weights)
    return Witness(v, W_O, start, after_values, plain, natural)
