"""Exact predictives against exhaustive enumeration in exact rationals; risk, divergence and entropy in named units."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from bayesgrad import bayes

F = Fraction
RNG = np.random.default_rng(2)


def rational_rows(*shape):
    """Random distributions with small integer weights (some of them 0), as Fractions and as floats."""
    counts = RNG.integers(0, 5, size=shape)
    counts[..., 0] += 1
    exact = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        exact[index] = F(int(counts[index]), int(counts[index[:-1]].sum()))
    return exact, exact.astype(float)


def close(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted, dtype=float), rtol=1e-12, atol=1e-15)


# --- HMM --------------------------------------------------------------------------------------------------------------


def enumerate_hmm(pi, T, E, observed):
    """Sums over every state path: posterior of the last state, of the next observation, and the joint probability."""
    S, O = E.shape
    last, following = [F(0)] * S, [F(0)] * O
    for path in itertools.product(range(S), repeat=len(observed)):
        p = pi[path[0]] * E[path[0], observed[0]]
        for t in range(1, len(observed)):
            p *= T[path[t - 1], path[t]] * E[path[t], observed[t]]
        last[path[-1]] += p
        for s in range(S):
            for o in range(O):
                following[o] += p * T[path[-1], s] * E[s, o]
    total = sum(last)
    return total, [x / total for x in last], [x / total for x in following]


def test_the_filter_equals_the_sum_over_all_paths(xp):
    (pi, pi_f), (T, T_f), (E, E_f) = rational_rows(3), rational_rows(3, 3), rational_rows(3, 4)
    E[:, 1:] = [[F(1, 8), F(1, 4), F(1, 8)]] * 3  # every observation possible
    E[:, 0] = 1 - E[:, 1:].sum(-1)
    E[1] = [F(1, 10), F(1, 5), F(3, 10), F(2, 5)]
    E_f = E.astype(float)
    observed = [2, 0, 3, 3, 1]
    got = bayes.hmm_filter(xp(pi_f), xp(T_f), xp(E_f), xp(np.asarray(observed)))
    for t in range(1, 6):
        total, last, following = enumerate_hmm(pi, T, E, observed[:t])
        close(got.posterior[t - 1, :], last)
        close(got.predictive[t - 1, :], following)
    assert float(got.log_likelihood) == pytest.approx(math.log(total), rel=1e-13)


def test_the_filter_takes_batches(xp):
    pi, T, E = (rational_rows(2, *shape)[1] for shape in ((3,), (3, 3), (3, 4)))
    E = (E + 0.5) / (E + 0.5).sum(-1, keepdims=True)
    o = RNG.integers(0, 4, size=(2, 6))
    got = bayes.hmm_filter(xp(pi), xp(T), xp(E), xp(o))
    for b in range(2):
        one = bayes.hmm_filter(pi[b], T[b], E[b], o[b])
        for part, alone in zip(got, one, strict=True):
            close(np.asarray(part)[b], alone)


def test_an_impossible_observation_is_named():
    with pytest.raises(ValueError, match="observations: got something of probability 0 at position 0"):
        bayes.hmm_filter(np.asarray([1.0]), np.ones((1, 1)), np.asarray([[1.0, 0.0]]), np.asarray([1]))


def test_no_observations():
    got = bayes.hmm_filter(np.asarray([1.0]), np.ones((1, 1)), np.ones((1, 1)), np.zeros(0, dtype=int))
    assert got.posterior.shape == (0, 1)
    assert got.log_likelihood == 0


# --- bijections -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_the_bijection_predictive_equals_a_count_of_permutations(xp, size):
    for trial in range(20):
        truth = RNG.permutation(size)
        count = int(RNG.integers(0, size + 2))
        keys = RNG.integers(0, size, size=count)  # with repeats
        query = int(RNG.integers(0, size)) if trial % 2 or not count else int(keys[0])
        fits = [p for p in itertools.permutations(range(size)) if all(p[k] == truth[k] for k in keys)]
        wanted = [F(sum(p[query] == y for p in fits), len(fits)) for y in range(size)]
        got = bayes.bijection_predictive(
            xp(keys.astype(np.int64)), xp(truth[keys].astype(np.int64)), xp(np.asarray(query)), size=size
        )
        close(got, wanted)


def test_key_choices_that_know_the_permutation_break_it():
    """The exact predictive under key := inverse of value 0 is certain; the rule for ignorable keys is uniform."""
    fits = list(itertools.permutations(range(3)))
    informed = [p for p in fits if p.index(0) == 1]  # the query, key 1, was chosen because its value is 0
    assert {p[1] for p in informed} == {0}
    none = np.zeros(0, dtype=np.int64)
    close(bayes.bijection_predictive(none, none, np.asarray(1), size=3), [1 / 3] * 3)


def test_the_entropy_after_each_pair():
    size = 8
    for m in range(size):
        pairs = np.arange(m)
        p = bayes.bijection_predictive(pairs, pairs, np.asarray(m), size=size)
        assert float(bayes.entropy(p, units="bits")) == pytest.approx(math.log2(size - m), abs=1e-12)


def test_pairs_of_no_permutation_are_named():
    with pytest.raises(ValueError, match="values: got pairs that contradict"):
        bayes.bijection_predictive(np.asarray([0, 1]), np.asarray([2, 2]), np.asarray(0), size=3)
    with pytest.raises(ValueError, match=r"keys: got 3, expected 0\.\.2"):
        bayes.bijection_predictive(np.asarray([3]), np.asarray([2]), np.asarray(0), size=3)


# --- the sticky chain -------------------------------------------------------------------------------------------------


def test_the_sticky_predictive_equals_the_sum_over_all_paths(xp):
    (pi, pi_f), (P, P_f) = rational_rows(3), rational_rows(3, 3)
    means, x = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 2))
    got = np.asarray(bayes.sticky_markov_predictive(xp(x), xp(means), xp(P_f), initial=xp(pi_f), noise=0.8))
    # The likelihoods as they are in floating point, then everything exactly.
    like = [[F(float(np.exp(-((x[t] - means[s]) ** 2).sum() / 1.28))) for s in range(3)] for t in range(4)]
    for t in range(1, 5):
        mass = [F(0)] * 3
        for path in itertools.product(range(3), repeat=t):
            p = pi[path[0]] * like[0][path[0]]
            for r in range(1, t):
                p *= P[path[r - 1], path[r]] * like[r][path[r]]
            for y in range(3):
                mass[y] += p * P[path[-1], y]
        close(got[t - 1], [m / sum(mass) for m in mass])


def test_far_observations_do_not_underflow():
    got = bayes.sticky_markov_predictive(
        np.asarray([[1e3], [1e3]]), np.asarray([[0.0], [1.0]]), np.eye(2), initial=np.asarray([0.5, 0.5])
    )
    assert np.all(np.isfinite(got))


# --- risk, divergence, entropy ----------------------------------------------------------------------------------------


def test_risk_is_entropy_plus_divergence(xp):
    (_, P), (_, p), (_, q) = rational_rows(6), rational_rows(6, 4), rational_rows(6, 4)
    q = (q + 0.1) / (q + 0.1).sum(-1, keepdims=True)
    for units in ("nats", "bits"):
        risk = bayes.risk(xp(P), xp(p), xp(q), units=units)
        H = bayes.conditional_entropy(xp(P), xp(p), units=units)
        kl = bayes.kl_divergence(xp(p), xp(q), units=units)
        assert float(risk) == pytest.approx(float(H) + float((P * np.asarray(kl)).sum()), rel=1e-12)
    assert float(risk) == pytest.approx(float(bayes.risk(xp(P), xp(p), xp(q), units="nats")) / math.log(2), rel=1e-14)


def test_infinite_where_the_support_is_missed_and_nowhere_else(xp):
    p, q = xp([[1.0, 0], [0, 1], [0.5, 0.5]]), xp([[0.0, 1], [0, 1], [0.5, 0.5]])
    assert np.asarray(bayes.kl_divergence(p, q, units="nats")).tolist() == [math.inf, 0, 0]
    assert np.asarray(bayes.entropy(p, units="bits")).tolist() == [0, 0, 1]
    assert float(bayes.risk(xp([0.0, 0.5, 0.5]), p, q, units="bits")) == 0.5
    assert float(bayes.risk(xp([0.5, 0.5, 0.0]), p, q, units="bits")) == math.inf


def test_entropy_is_blind(xp):
    p, q = xp([1 / 3, 2 / 3]), xp([2 / 3, 1 / 3])
    assert float(bayes.entropy(p, units="bits")) == pytest.approx(float(bayes.entropy(q, units="bits")), rel=1e-15)
    assert float(bayes.kl_divergence(p, q, units="bits")) == pytest.approx(1 / 3, rel=1e-14)
    assert float(bayes.total_variation(p, q)) == pytest.approx(1 / 3, rel=1e-14)


def test_a_tiny_divergence_keeps_its_digits(xp):
    d = 1e-9
    got = float(bayes.kl_divergence(xp([0.5 + d, 0.5 - d]), xp([0.5, 0.5]), units="nats"))
    assert 0 <= got < 1e-16


def test_the_predictive_needs_the_second_condition(xp):
    """The witness: P(theta=c) = 2/3, P(x=theta) = 3/4, P(y=theta) = 4/5, at (c, x) = (0, 1)."""
    prior = [F(2, 3), F(1, 3)]
    joint = [prior[0] * F(1, 4), prior[1] * F(3, 4)]  # p(theta, x=1 | c=0)
    given_x = [x / sum(joint) for x in joint]
    y = xp([[4 / 5, 1 / 5], [1 / 5, 4 / 5]])
    truth = bayes.posterior_predictive(xp([float(x) for x in given_x]), y)
    naive = bayes.posterior_predictive(xp([float(x) for x in prior]), y)
    close(truth[1], F(14, 25))
    close(naive[1], F(2, 5))
    close(bayes.posterior(xp([2 / 3, 1 / 3]), xp(np.log([1 / 4, 3 / 4]))), given_x)


def test_the_surprise_of_a_sequence_is_that_of_its_joint(xp):
    (_pi, pi_f), (_T, T_f) = rational_rows(3), rational_rows(3, 3)
    T_f = T_f + 0.1
    T_f = T_f / T_f.sum(-1, keepdims=True)
    path = np.asarray([0, 2, 1, 1])
    rows = np.concatenate([pi_f[None], T_f[path[:-1]]])
    joint = pi_f[0] * np.prod([T_f[a, b] for a, b in itertools.pairwise(path)])
    got = bayes.sequence_surprise(xp(rows), xp(path), units="bits")
    assert float(got) == pytest.approx(-math.log2(joint), rel=1e-13)


def test_units_are_never_implied():
    with pytest.raises(TypeError, match="units"):
        bayes.entropy(np.asarray([1.0]))
    with pytest.raises(ValueError, match="units: got 'nat', expected one of 'nats', 'bits'"):
        bayes.entropy(np.asarray([1.0]), units="nat")
    with pytest.raises(ValueError, match="p: got rows"):
        bayes.entropy(np.asarray([1.0, 1.0]), units="nats")
