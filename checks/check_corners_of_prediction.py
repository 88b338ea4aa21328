"""The corners of prediction: mass that a predictor misses, distributions a rounding apart, vanishing likelihoods."""

from __future__ import annotations

import mpmath
import numpy as np

from bayesgrad import bayes, em


def check_missed_mass() -> None:
    """Where q is 0 and p is not, divergence and risk are +inf; where p is 0, q does not matter."""
    p, q = np.array([[0.5, 0.5, 0.0], [0.25, 0.0, 0.75]]), np.array([[1.0, 0.0, 0.0], [0.25, 0.0, 0.75]])
    assert bayes.kl_divergence(p, q, units="bits").tolist() == [np.inf, 0.0]
    assert bayes.kl_divergence(q, p, units="bits").tolist() == [1.0, 0.0]
    certain = np.eye(2)
    assert bayes.kl_divergence(certain, certain[::-1], units="nats").tolist() == [np.inf, np.inf]
    assert bayes.kl_divergence(certain, certain, units="nats").tolist() == [0.0, 0.0]
    assert bayes.total_variation(p, q).tolist() == [0.5, 0.0]
    assert bayes.risk(np.array([0.5, 0.5]), p, q, units="bits") == np.inf
    assert bayes.risk(np.array([0.0, 1.0]), p, q, units="nats") == bayes.entropy(p[1], units="nats")
    assert bayes.risk(np.array([1.0, 0.0]), q, p, units="bits") == 1.0
    assert bayes.sequence_surprise(q[:1], np.array([1]), units="nats") == np.inf
    assert bayes.sequence_surprise(q[:1], np.array([0]), units="nats") == 0.0


def check_close_distributions() -> None:
    """A divergence that the textbook sum rounds below 0 keeps its digits: sum p log(p/q) - p + q in 50 of them."""
    w, v = np.array([5.0, 7.0, 5.0, 7.0, 7.0]), np.array([4.99999999, 7.0, 5.0, 6.99999999, 7.0])
    p, q = w / w.sum(), v / v.sum()
    assert (p * np.log(p / q) - p + q).sum() < 0
    with mpmath.workdps(50):
        exact = mpmath.fsum(
            a * mpmath.log(a / b) - a + b for a, b in zip(map(mpmath.mpf, p), map(mpmath.mpf, q), strict=False)
        )
    assert np.isclose(bayes.kl_divergence(p, q, units="nats"), float(exact), rtol=1e-6, atol=0)
    assert bayes.kl_divergence(p, p, units="bits") == 0.0


def check_likelihoods_that_underflow() -> None:
    """An observation far from every mean still tells which is nearest; no observation at all leaves no row."""
    P, start = np.array([[0.75, 0.25], [0.125, 0.875]]), np.array([0.5, 0.5])
    means, far = np.array([[0.0], [10.0]]), np.array([[1000.0], [-1000.0]])
    got = bayes.sticky_markov_predictive(far, means, P, initial=start)
    assert np.allclose(got, P[::-1], rtol=1e-15)
    assert bayes.sticky_markov_predictive(far[:0], means, P, initial=start).shape == (0, 2)


def check_likelihoods_beyond_any_number() -> None:
    """Exponents that overflow to either side: one state is certain, the other is out, and the one between them too.

    They are taken against the first state; two that overflow to the same side against it stay tied.
    """
    P, start = np.array([[0.75, 0.25, 0.0], [0.125, 0.375, 0.5], [0.0, 0.25, 0.75]]), np.array([0.25, 0.5, 0.25])
    means, far = np.array([[0.0], [1e10], [-1e10]]), np.array([[1e300], [-1e300], [1e300]])
    for order in ([0, 1, 2], [0, 2, 1], [1, 2, 0]):
        moved = P[np.ix_(order, order)]
        got = bayes.sticky_markov_predictive(far[:1], means[order], moved, initial=start[order])
        assert got.tolist() == [moved[order.index(1)].tolist()]
    got = bayes.sticky_markov_predictive(far, means, np.full((3, 3), 1 / 3), initial=start)
    assert np.allclose(got, 1 / 3, rtol=1e-15)


def check_posterior() -> None:
    """Bayes' rule where all numbers are exact, and where a likelihood is 0 or underflows together with the others."""
    prior = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
    got = bayes.posterior(prior, np.log(np.array([[0.25, 0.25, 0.25], [0.5, 0.75, 0.25]])))
    assert np.allclose(got, [[0.5, 0.25, 0.25], [0.0, 0.75, 0.25]], rtol=1e-15)
    got = bayes.posterior(prior, np.array([[-np.inf, -3000.0, -3000.0 + np.log(3.0)], [0.0, -1e5, -np.inf]]))
    assert np.allclose(got, [[0.0, 0.25, 0.75], [0.0, 1.0, 0.0]], rtol=1e-12)


def check_mixtures_with_infinite_costs() -> None:
    """A component with cost inf is out before and after; one with cost -inf is certain, and the loss is -inf."""
    pi, half = np.array([0.5, 0.25, 0.25]), np.log(2.0)
    got = em.em_identity(pi, np.array([np.inf, 0.0, 0.0]), np.array([np.inf, half, half]))
    assert np.allclose([got.loss_change, got.cost_change, got.divergence], [half, half, 0.0], rtol=1e-15, atol=1e-16)
    with np.errstate(invalid="ignore"):
        certain = em.em_identity(pi, np.array([0.0, 0.0, 0.0]), np.array([-np.inf, 0.0, 0.0]))
    assert certain.loss_change == -np.inf


def check_one_state() -> None:
    """A chain with a single state is no chain: symbols are independent."""
    emission = np.array([[0.25, 0.75]])
    got = bayes.hmm_filter(np.ones(1), np.ones((1, 1)), emission, np.array([0, 1, 1]))
    assert np.array_equal(got.posterior, np.ones((3, 1)))
    assert np.array_equal(got.predictive, np.repeat(emission, 3, axis=0))
    assert np.isclose(got.log_likelihood, np.log(0.25 * 0.75 * 0.75), rtol=1e-15)
