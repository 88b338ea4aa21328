r"""Exact predictions, and how far a model is from them, in named units.

.. math::

    R(q) = H(Y|C) + \mathbb E_c \mathrm{KL}(p(\cdot|c) \| q(\cdot|c)), \qquad
    p(y|x,c) = \sum_\theta p(\theta|c)\, p(y|x,\theta), \qquad
    \alpha_{t+1} = E(\cdot, o_{t+1}) (\alpha_t T)

Outcome sets are finite, 0 log 0 = 0, risks and divergences lie in [0, +inf]. ``units`` is "nats" or "bits" and never
implied. Distributions stand on the last axis; leading axes are free.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, get_args

from bayesgrad import _arrays, _validate
from bayesgrad._softmax import log_total_of
from bayesgrad._types import Array, ArrayT, Floats, Generic, Ints, Real, Units

UNITS = get_args(Units)


class Filter(NamedTuple, Generic[ArrayT]):
    """Posterior over states (..., T, S), predictive of the next observation (..., T, O), log-likelihood (...) in
    nats."""

    posterior: ArrayT
    predictive: ArrayT
    log_likelihood: ArrayT


def _unit(units: Units) -> float:
    _validate.choice("units", units, UNITS)
    return 1.0 if units == "nats" else 1 / math.log(2)


def _surprise(xp: _arrays.Namespace, p: Any, q: Any) -> Any:
    """p * -log q with 0 log 0 = 0, and +inf where q misses a part of p's support."""
    none = p == 0
    hit = xp.where(xp.logical_or(none, q == 0), xp.ones_like(q), q)
    missed = xp.logical_and(xp.logical_not(none), q == 0)
    return xp.where(missed, _arrays.full_like(xp, q, (), math.inf), -p * xp.log(hit))


_SERIES = 12
"""Terms of the series below: 0.04^12 is less than float64's rounding."""


def _excess(xp: _arrays.Namespace, p: Any, q: Any) -> Any:
    """p log(p/q) - p + q, which is never negative, entry by entry, and whose extra terms sum to 0.

    Where q is within p/4 below and p/2 above p, r = (q - p)/p and t = r/(2 + r), it is p (r - log(1 + r)) with
    log(1 + r) = 2 (t + t^3/3 + t^5/5 + ...), so r - log(1 + r) = t (r - 2 t^2 (1/3 + t^2/5 + ...)): no difference of
    near numbers is left. Elsewhere the difference of the logarithms, since the ratio may overflow.
    """
    none, missed = p == 0, q == 0
    ones = xp.ones_like(p)
    safe_p, safe_q = xp.where(none, ones, p), xp.where(missed, ones, q)
    near = xp.logical_and(q >= 0.75 * p, q <= 1.5 * p)
    near = xp.logical_and(near, xp.logical_not(xp.logical_or(none, missed)))
    r = xp.where(near, q - p, xp.zeros_like(p)) / safe_p
    t = r / (2 + r)
    series = xp.zeros_like(t)
    for k in range(_SERIES, 0, -1):
        series = t * t * series + 1 / (2 * k + 1)
    close = p * (t * (r - 2 * t * t * series))
    far = p * (xp.log(safe_p) - xp.log(safe_q)) - p + q
    terms = xp.where(near, close, xp.where(none, q, far))
    missing = xp.logical_and(missed, xp.logical_not(none))
    return xp.where(missing, _arrays.full_like(xp, q, (), math.inf), terms)


def _two(p: Array, q: Array, validate: bool) -> tuple[_arrays.Namespace, Any, Any]:
    """The namespace, p and q in their accumulation dtype."""
    xp = _validate.floats(p=p, q=q)
    _validate.shapes(p=(p, "y"))
    _validate.shapes(q=(q, "y"))
    _validate.same_shape("q", q, p.shape, "p")
    if validate:
        _validate.distributions(xp, "p", p, empty=False)
        _validate.distributions(xp, "q", q, empty=False)
    return xp, *_arrays.widen(xp, p, q)


def entropy(p: Floats[ArrayT, "*batch y"], *, units: Units, validate: bool = True) -> Floats[ArrayT, "*batch"]:
    """H(p) = -sum_y p(y) log p(y).

    Args:
        p: (..., Y), distributions (checked unless ``validate=False``). units: "nats" or "bits".

    Returns:
        H (...).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Source: standard.

    >>> import numpy as np
    >>> float(entropy(np.asarray([0.5, 0.5]), units="bits"))
    1.0
    """
    unit = _unit(units)
    xp, wide, _ = _two(p, p, validate)
    return _arrays.narrow(xp, p, xp.sum(_surprise(xp, wide, wide), axis=-1) * unit)


def kl_divergence(
    p: Floats[ArrayT, "*batch y"], q: Floats[ArrayT, "*batch y"], *, units: Units, validate: bool = True
) -> Floats[ArrayT, "*batch"]:
    """KL(p || q) = sum_y p log(p/q), never below 0; +inf where q misses a part of p's support.

    Args:
        p, q: (..., Y), distributions. units: "nats" or "bits".

    Returns:
        KL (...).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: lemma.gibbs. Source: standard.

    >>> import numpy as np
    >>> p = np.asarray([1.0, 2.0]) / 3
    >>> round(float(kl_divergence(p, p[::-1].copy(), units="bits")), 12)
    0.333333333333
    """
    unit = _unit(units)
    xp, p_, q_ = _two(p, q, validate)
    return _arrays.narrow(xp, p, xp.sum(_excess(xp, p_, q_), axis=-1) * unit)


def total_variation(
    p: Floats[ArrayT, "*batch y"], q: Floats[ArrayT, "*batch y"], *, validate: bool = True
) -> Floats[ArrayT, "*batch"]:
    """TV(p, q) = 1/2 sum_y |p(y) - q(y)|, in [0, 1], without a unit.

    Args:
        p, q: (..., Y), distributions. Source: standard.

    Returns:
        TV (...).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    >>> import numpy as np
    >>> float(total_variation(np.asarray([1.0, 0.0]), np.asarray([0.75, 0.25])))
    0.25
    """
    xp, p_, q_ = _two(p, q, validate)
    return _arrays.narrow(xp, p, xp.sum(xp.abs(p_ - q_), axis=-1) / 2)


def _contexts(contexts: Array, p: Array, validate: bool) -> None:
    _validate.same_shape("contexts", contexts, tuple(p.shape)[:-1], "p without its last axis")
    if validate and len(contexts.shape):
        xp = _arrays.namespace_of(contexts)
        _validate.distributions(xp, "contexts", xp.reshape(contexts, (-1,)), empty=False)


def conditional_entropy(
    contexts: Floats[ArrayT, "*contexts"], p: Floats[ArrayT, "*contexts y"], *, units: Units, validate: bool = True
) -> Floats[ArrayT, ""]:
    """H(Y|C) = sum_c P(c) H(p(.|c)): the least risk that any predictor can have.

    Args:
        contexts: P(c), of any shape, total 1. p: p(y|c), that shape and (Y,). units: "nats" or "bits".

    Returns:
        H(Y|C), one number (no axes).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: bayes.risk-decomposition. Source: standard.

    >>> import numpy as np
    >>> p = np.asarray([[0.5, 0.5], [1.0, 0.0]])
    >>> float(conditional_entropy(np.asarray([0.5, 0.5]), p, units="bits"))
    0.5
    """
    _validate.floats(p=p, contexts=contexts)
    _contexts(contexts, p, validate)
    return risk(contexts, p, p, units=units, validate=validate)


def risk(
    contexts: Floats[ArrayT, "*contexts"],
    p: Floats[ArrayT, "*contexts y"],
    q: Floats[ArrayT, "*contexts y"],
    *,
    units: Units,
    validate: bool = True,
) -> Floats[ArrayT, ""]:
    """R(q) = E[-log q(y|c)] under P(c) p(y|c), the expected cross-entropy; a context of probability 0 takes no part.

    Args:
        contexts: P(c), of any shape, total 1. p, q: truth and prediction, that shape and (Y,). units: "nats" or "bits".

    Returns:
        R(q), one number (no axes).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: bayes.risk-decomposition. Source: arXiv 2512.22471.

    >>> import numpy as np
    >>> p, q = np.asarray([[1.0, 0.0]]), np.asarray([[0.25, 0.75]])
    >>> float(risk(np.asarray([1.0]), p, q, units="bits"))
    2.0
    """
    unit = _unit(units)
    _validate.floats(contexts=contexts, p=p, q=q)
    xp, p_, q_ = _two(p, q, validate)
    _contexts(contexts, p, validate)
    P = _arrays.widen(xp, contexts)
    # Context by context: the product of two small probabilities may underflow, which would hide what q misses.
    each = xp.sum(_surprise(xp, p_, q_), axis=-1)
    return _arrays.narrow(xp, p, xp.sum(P * _arrays.keep(xp, P != 0, each)) * unit)


def posterior(
    prior: Floats[ArrayT, "*batch theta"], log_likelihood: Floats[ArrayT, "*batch theta"], *, validate: bool = True
) -> Floats[ArrayT, "*batch theta"]:
    """p(theta|c) prop. to p(theta) exp(log p(c|theta)).

    Args:
        prior: (..., Theta), distributions. log_likelihood: (..., Theta), in nats, -inf allowed.

    Returns:
        (..., Theta).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Source: Bayes' rule.

    >>> import numpy as np
    >>> posterior(np.asarray([0.5, 0.5]), np.log(np.asarray([0.75, 0.25]))).round(12).tolist()
    [0.75, 0.25]
    """
    xp = _validate.floats(prior=prior, log_likelihood=log_likelihood)
    _validate.shapes(prior=(prior, "theta"))
    _validate.same_shape("log_likelihood", log_likelihood, prior.shape, "the prior")
    if validate:
        _validate.distributions(xp, "prior", prior, empty=False)
    return _arrays.narrow(xp, prior, _arrays.multiply_in(xp, *_arrays.widen(xp, prior, log_likelihood)))


def posterior_predictive(
    posterior: Floats[ArrayT, "*batch theta"],
    conditional: Floats[ArrayT, "*batch theta y"],
    *,
    validate: bool = True,
) -> Floats[ArrayT, "*batch y"]:
    """p(y|x,c) = sum_theta p(theta|c) p(y|x,theta).

    It is the predictive exactly if y is independent of c given (x, theta) and x is independent of theta given c;
    without the second condition pass p(theta|x,c) as the posterior.

    Args:
        posterior: (..., Theta). conditional: p(y|x,theta), (..., Theta, Y).

    Returns:
        p(y|x,c) (..., Y).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: bayes.posterior-predictive. Source: arXiv 2512.22471; the second condition is ours.

    >>> import numpy as np
    >>> posterior_predictive(np.asarray([0.75, 0.25]), np.asarray([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [0.75, 0.25]
    """
    xp = _validate.floats(posterior=posterior, conditional=conditional)
    _validate.shapes(posterior=(posterior, "theta"), conditional=(conditional, "theta y"))
    if validate:
        _validate.distributions(xp, "posterior", posterior, empty=False)
        _validate.distributions(xp, "conditional", conditional, empty=False)
    w, p = _arrays.widen(xp, posterior, conditional)
    return _arrays.narrow(xp, posterior, xp.matmul(xp.expand_dims(w, axis=-2), p)[..., 0, :])


def sequence_surprise(
    predictive: Floats[ArrayT, "*batch time y"],
    outcomes: Ints[Array, "*batch time"],
    *,
    units: Units,
    validate: bool = True,
) -> Floats[ArrayT, "*batch"]:
    """sum_t -log p(y_t|y_<t): the surprise of the whole sequence, if each row is the exact conditional.

    Args:
        predictive: (..., T, Y), distributions. outcomes: (..., T), integers in 0..Y-1. units: "nats" or "bits".

    Returns:
        (...).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: bayes.chain-rule. Source: standard.

    >>> import numpy as np
    >>> float(sequence_surprise(np.full((3, 2), 0.5), np.asarray([0, 1, 1]), units="bits"))
    2.9999999999999996
    """
    unit = _unit(units)
    xp = _validate.floats(predictive=predictive)
    _validate.shapes(predictive=(predictive, "T y"))
    if validate:
        _validate.distributions(xp, "predictive", predictive, empty=False)
    hot = _chosen(xp, "outcomes", outcomes, predictive, tuple(predictive.shape)[:-1], predictive.shape[-1], validate)
    wide = _arrays.widen(xp, predictive)
    happened = _arrays.keep(xp, hot, xp.ones_like(wide))
    return _arrays.narrow(xp, predictive, xp.sum(_surprise(xp, happened, wide), axis=(-2, -1)) * unit)


def _chosen(
    xp: _arrays.Namespace, name: str, x: Any, like: Array, shape: tuple[int, ...], size: int, validate: bool
) -> Any:
    """Booleans (*shape, size) that mark each index; out of range raises."""
    _validate.integers(xp, name, x, like)
    _validate.same_shape(name, x, shape, "the other arguments say")
    x = _arrays.wide_integers(x)
    if validate and _arrays.concrete(x):
        outside = xp.logical_or(x < 0, x >= size)
        if _arrays.holds(xp.any(outside)):
            raise ValueError(f"{name}: got {int(x[outside][0])}, expected 0..{size - 1}")
    return _arrays.one_hot(xp, x, size)


def bijection_predictive(
    keys: Ints[Array, "*batch pairs"],
    values: Ints[Array, "*batch pairs"],
    query: Ints[Array, "*batch"],
    *,
    size: int,
    like: Array | None = None,
    validate: bool = True,
) -> Floats[Any, "*batch values"]:
    """p(pi(query) | pairs) for a uniformly random permutation pi of 0..V-1, exactly.

    A seen key is certain; a new one is uniform over the unseen values. That holds for every protocol that chooses keys
    without knowing the permutation beyond the revealed pairs, with or without repeated keys.

    Args:
        keys, values: (..., T), integers; the revealed pairs, value t = pi(key t).
        query: (...), integers. size: V. like: an array whose dtype the result gets; float64 by default (which JAX has
            only in its 64-bit mode).

    Returns:
        (..., V).

    Raises:
        ValueError: an index outside 0..V-1, or pairs that belong to no permutation.

    Label: bayes.bijection. Source: ours; the task is that of arXiv 2512.22471.

    >>> import numpy as np
    >>> pairs = np.asarray([0, 2]), np.asarray([1, 3])
    >>> bijection_predictive(*pairs, np.asarray(1), size=4).tolist()
    [0.5, 0.0, 0.5, 0.0]
    """
    size = _validate.natural("size", size, least=1)
    xp = _validate.any_namespace("keys", keys)
    if like is None:
        like = xp.ones((), dtype=xp.float64, device=_arrays.device_of(keys))
    _validate.floats(like=like)
    one_k = _chosen(xp, "keys", keys, like, tuple(keys.shape), size, validate)
    one_v = _chosen(xp, "values", values, like, tuple(keys.shape), size, validate)
    at = xp.expand_dims(_chosen(xp, "query", query, like, tuple(keys.shape)[:-1], size, validate), axis=-2)
    if validate and _arrays.concrete(keys):
        same_k = xp.expand_dims(keys, axis=-1) == xp.expand_dims(keys, axis=-2)
        same_v = xp.expand_dims(values, axis=-1) == xp.expand_dims(values, axis=-2)
        if _arrays.holds(xp.any(same_k != same_v)):
            raise ValueError("values: got pairs that contradict each other, expected those of one permutation")
    hit = xp.any(xp.logical_and(one_k, at), axis=-1, keepdims=True)
    told = xp.any(xp.logical_and(one_v, hit), axis=-2)
    unseen = xp.logical_not(xp.any(one_v, axis=-2))
    known = xp.any(hit, axis=-2)
    chosen = xp.where(known, told, unseen)
    ones = xp.ones(tuple(chosen.shape), dtype=like.dtype, device=_arrays.device_of(keys))
    mass = _arrays.keep(xp, chosen, ones)
    return mass / xp.sum(mass, axis=-1, keepdims=True)


def _filter(
    xp: _arrays.Namespace, initial: Any, T: Any, log_likelihood: Any, validate: bool, name: str
) -> tuple[Any, Any]:
    """Posteriors (..., time, S) and the log-likelihood from that of each state (..., time, S), all in logarithms.

    A state that was nearly excluded may be the only one left later, so a posterior of 1e-400 must not become 0. Only
    what is impossible has the logarithm -inf. No transition comes before the first observation.
    """
    log_T = _arrays.transpose(xp, _arrays.log_or_hidden(xp, T))
    ahead, total, out = _arrays.log_or_hidden(xp, initial), xp.zeros_like(initial[..., 0]), []
    for t in range(log_likelihood.shape[-2]):
        if t:
            ahead = log_total_of(xp, xp.expand_dims(ahead, axis=-2) + log_T, None)
        joint = ahead + log_likelihood[..., t, :]
        step = log_total_of(xp, joint, None)
        if validate and _arrays.concrete(step) and _arrays.holds(xp.any(step == -math.inf)):
            raise ValueError(f"{name}: got something of probability 0 at position {t}, expected a possible sequence")
        with _arrays.quiet(xp):
            ahead = joint - xp.expand_dims(step, axis=-1)
        total = total + step
        out.append(xp.exp(ahead))
    if not out:
        return xp.zeros_like(log_likelihood), total
    return xp.stack(out, axis=-2), total


def hmm_filter(
    initial: Floats[ArrayT, "*batch states"],
    transition: Floats[ArrayT, "*batch states states"],
    emission: Floats[ArrayT, "*batch states symbols"],
    observations: Ints[Array, "*batch time"],
    *,
    validate: bool = True,
) -> Filter[ArrayT]:
    """alpha_1(s) = pi(s) E(s, o_1), alpha_{t+1} = E(., o_{t+1}) (alpha_t T): the posterior is alpha_t normalised.

    Args:
        initial: pi (..., S), the state at the first observation (no transition before it).
        transition: T (..., S, S), rows = from. emission: E (..., S, O). observations: (..., time), integers in 0..O-1.

    Returns:
        ``Filter(posterior, predictive, log_likelihood)``: position t knows o_1..o_t; the predictive is that of o_{t+1},
        the log-likelihood (in nats) is that of all observations.

    Raises:
        ValueError: rows that are no distributions, or observations of probability 0.

    Label: bayes.hmm-filter. Source: standard (forward algorithm).

    >>> import numpy as np
    >>> T, E = np.asarray([[0.9, 0.1], [0.1, 0.9]]), np.asarray([[0.8, 0.2], [0.2, 0.8]])
    >>> got = hmm_filter(np.asarray([0.5, 0.5]), T, E, np.asarray([0]))
    >>> got.posterior.round(12).tolist(), got.predictive.round(12).tolist()
    ([[0.8, 0.2]], [[0.644, 0.356]])
    """
    xp = _validate.floats(initial=initial, transition=transition, emission=emission)
    leading, size = _validate.shapes(initial=(initial, "S"), transition=(transition, "S S"), emission=(emission, "S O"))
    _validate.at_least("observations", observations, 1)
    shape = (*leading, observations.shape[-1])
    hot = _chosen(xp, "observations", observations, initial, shape, size["O"], validate)
    if validate:
        for name, x in (("initial", initial), ("transition", transition), ("emission", emission)):
            _validate.distributions(xp, name, x, empty=False)
    pi, T, E = _arrays.widen(xp, initial, transition, emission)
    seen = _arrays.keep(xp, hot, xp.ones(tuple(hot.shape), dtype=E.dtype, device=_arrays.device_of(E)))
    likelihood = _arrays.log_or_hidden(xp, xp.matmul(seen, _arrays.transpose(xp, E)))
    alpha, log_likelihood = _filter(xp, pi, T, likelihood, validate, "observations")
    predictive = xp.matmul(xp.matmul(alpha, T), E)
    return Filter(*_arrays.narrow_all(xp, initial, alpha, predictive, log_likelihood))


def sticky_markov_predictive(
    x: Floats[ArrayT, "*batch time d_x"],
    means: Floats[ArrayT, "*batch states d_x"],
    transition: Floats[ArrayT, "*batch states states"],
    *,
    initial: Floats[ArrayT, "*batch states"],
    noise: Real = 1.0,
    validate: bool = True,
) -> Floats[ArrayT, "*batch time states"]:
    """p(y_t | x_1..x_t) where x_t = mu_{y_{t-1}} + noise N(0, I): the filtered y_{t-1}, taken one step by P.

    Args:
        x: (..., time, d_x). means: mu (..., S, d_x). transition: P (..., S, S), rows = from.
        initial: the distribution of y_0, the state that x_1 shows (..., S). noise: the standard deviation, positive.

    Returns:
        (..., time, S). Its expected loss is at least H(Y_t|Y_{t-1}); on one sequence the loss can fall below that.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape, or rows that are no distributions.

    Label: bayes.sticky-markov. Source: ours; the task is that of arXiv 2512.22473.

    >>> import numpy as np
    >>> x, means, P = np.zeros((1, 1)), np.asarray([[0.0], [100.0]]), np.asarray([[0.9, 0.1], [0.1, 0.9]])
    >>> sticky_markov_predictive(x, means, P, initial=np.asarray([0.5, 0.5])).round(12).tolist()
    [[0.9, 0.1]]
    """
    xp = _validate.floats(x=x, means=means, transition=transition, initial=initial)
    _validate.shapes(x=(x, "time d_x"), means=(means, "S d_x"), transition=(transition, "S S"), initial=(initial, "S"))
    noise = _validate.real(xp, "noise", noise, positive=True)
    if validate:
        for name, rows in (("transition", transition), ("initial", initial)):
            _validate.distributions(xp, name, rows, empty=False)
    wide_x, mu, P, pi = _arrays.widen(xp, x, means, transition, initial)
    # log N(x; mu_s) - log N(x; mu_0) = (mu_s - mu_0) . (x - (mu_s + mu_0)/2) / noise^2: the squares that all states
    # share, which may overflow, never appear.
    gap = mu - mu[..., :1, :]
    middle = mu[..., :1, :] + gap / 2
    from_middle = (xp.expand_dims(wide_x, axis=-2) - xp.expand_dims(middle, axis=-3)) / noise
    with _arrays.quiet(xp):
        exponent = xp.sum(from_middle * xp.expand_dims(gap / noise, axis=-3), axis=-1)
    # Beyond any number one state is certain against the first: finite, so that no inf - inf comes of it. (Two that are
    # beyond any number on the same side stay tied, which takes observations and means whose product passes 1e308.)
    most = float(xp.finfo(exponent.dtype).max) / 4
    exponent = xp.where(exponent > most, xp.full_like(exponent, most), exponent)
    exponent = xp.where(exponent < -most, xp.full_like(exponent, -most), exponent)
    alpha, _ = _filter(xp, pi, P, exponent, validate, "x")
    return _arrays.narrow(xp, x, xp.matmul(alpha, P))
