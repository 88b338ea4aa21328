"""Edge-emitting chains, mixtures and in-context regression: exact predictives equal enumeration and quadrature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayesgrad import bayes
from bayesgrad.tasks import edge_chains, linear_regression, mixture

CHAINS = {"Mess3": edge_chains.mess3(), "Mess3, other": edge_chains.mess3(0.2, 0.5), "RRXOR": edge_chains.rrxor()}


def chain_probability(chain, word):
    """p(word) by summing over every path of hidden states."""
    S = len(chain.start)
    total = 0.0
    for path in itertools.product(range(S), repeat=len(word) + 1):
        p = chain.start[path[0]]
        for o, s, after in zip(word, path, path[1:], strict=False):
            p *= chain.T[o, s, after]
        total += p
    return total


@pytest.mark.parametrize("name", list(CHAINS))
def test_edge_chains_equal_enumeration(name):
    chain = CHAINS[name]
    symbols, steps = chain.T.shape[0], 4
    assert sum(chain_probability(chain, w) for w in itertools.product(range(symbols), repeat=3)) == pytest.approx(1)
    for word in itertools.product(range(symbols), repeat=steps):
        if chain_probability(chain, word) == 0:
            continue
        got = edge_chains.predictive(chain, np.asarray([word]))[0]
        for t in range(1, steps + 1):
            known = chain_probability(chain, word[:t])
            exact = [chain_probability(chain, (*word[:t], o)) / known for o in range(symbols)]
            np.testing.assert_allclose(got[t - 1], exact, atol=1e-12)


def test_rrxor_is_what_it_says():
    chain = edge_chains.rrxor()
    np.testing.assert_allclose(edge_chains.stationary(chain), chain.start, atol=1e-12)
    found = edge_chains.sample(np.random.default_rng(0), 200, chain=chain, steps=30)
    for row, states in zip(found.symbols, found.states, strict=True):
        first = int(np.flatnonzero(states[:3] == 0)[0])
        for at in range(first, len(row) - 2, 3):
            assert row[at + 2] == row[at] ^ row[at + 1]
    with pytest.raises(ValueError, match="probability 0 at position"):
        edge_chains.belief(chain, np.asarray([[0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 1, 1]]))


@pytest.mark.parametrize("name", list(CHAINS))
def test_samples_follow_the_law_and_the_loss_meets_the_entropy(name):
    chain = CHAINS[name]
    found = edge_chains.sample(np.random.default_rng(1), 4000, chain=chain, steps=6)
    exact = edge_chains.predictive(chain, found.shown)
    happened = np.take_along_axis(exact, found.targets[..., None], -1)[..., 0]
    gap = -np.log2(happened) - bayes.entropy(exact, units="bits")
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(gap.size)
    shares = [(found.symbols[:, 0] == o).mean() for o in range(chain.T.shape[0])]
    np.testing.assert_allclose(shares, chain.start @ chain.T.sum(-1).T, atol=0.05)


def test_windows_shorten_the_memory_and_the_whole_window_is_exact():
    chain = edge_chains.mess3()
    shown = edge_chains.sample(np.random.default_rng(2), 500, chain=chain, steps=10).shown
    exact = edge_chains.predictive(chain, shown)
    np.testing.assert_allclose(edge_chains.window_predictive(chain, shown, 10), exact, atol=1e-12)
    lost = [
        bayes.kl_divergence(exact, edge_chains.window_predictive(chain, shown, w), units="bits").mean()
        for w in (0, 1, 2, 4, 8)
    ]
    assert all(a > b for a, b in itertools.pairwise(lost))


def test_a_long_chain_does_not_underflow():
    shown = edge_chains.sample(np.random.default_rng(3), 1, chain=edge_chains.mess3(), steps=5000).shown
    assert np.isfinite(edge_chains.predictive(edge_chains.mess3(), shown)).all()


def test_dice_equal_enumeration():
    dice = mixture.Dice(np.asarray([0.2, 0.5, 0.3]), np.asarray([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]))
    for word in itertools.product(range(3), repeat=4):
        got = mixture.predictive(dice, np.asarray([word]))[0]
        for t in range(1, 5):
            joint = [dice.priors[k] * np.prod([dice.E[k, o] for o in word[:t]]) for k in range(3)]
            exact = [sum(j * dice.E[k, o] for k, j in enumerate(joint)) / sum(joint) for o in range(3)]
            np.testing.assert_allclose(got[t - 1], exact, atol=1e-12)
    shown = np.asarray([[0, 2, 1, 1]])
    np.testing.assert_allclose(mixture.window_predictive(dice, shown, 4), mixture.predictive(dice, shown), atol=1e-14)
    np.testing.assert_allclose(mixture.window_predictive(dice, shown, 0)[0, 2], dice.priors @ dice.E)
    drawn = mixture.sample(np.random.default_rng(0), 4000, dice=dice, steps=3)
    assert abs((drawn.symbols[drawn.die == 1] == 2).mean() - 0.7) < 0.03
    assert not (drawn.symbols[drawn.die == 0] == 2).any()


def test_dice_remember_what_is_all_but_excluded():
    dice = mixture.Dice(np.asarray([0.5, 0.5]), np.asarray([[0.999, 0.0, 0.001], [0.01, 0.98, 0.01]]))
    np.testing.assert_array_equal(mixture.posterior(dice, np.asarray([[0] * 400 + [1]]))[0, -1], [0, 1])
    with pytest.raises(ValueError, match="probability 0"):
        mixture.posterior(mixture.Dice(np.asarray([1.0, 0.0]), dice.E), np.asarray([[1]]))


def test_the_ridge_posterior_equals_quadrature():
    """One feature, so that the integral over w is one on a grid: equal steps are exact for Gaussians."""
    found = linear_regression.sample(np.random.default_rng(0), 3, steps=4, d_x=1, noise=0.5)
    got = linear_regression.predictive(found.x, found.y, noise=0.5)
    w = np.linspace(-14, 14, 8001)
    weight = np.exp(-(w**2) / 2)
    for b in range(3):
        for t in range(4):
            past = np.exp(-0.5 * ((found.y[b, :t, None] - found.x[b, :t] * w) ** 2).sum(0) / 0.25)
            p = weight * past / (weight * past).sum()
            mean = (p * w).sum() * found.x[b, t, 0]
            variance = 0.25 + (p * (w * found.x[b, t, 0] - mean) ** 2).sum()
            assert got.mean[b, t] == pytest.approx(mean, abs=1e-12)
            assert got.variance[b, t] == pytest.approx(variance, abs=1e-12)


def test_the_ridge_posterior_is_gaussian_conditioning():
    """Several features: (past, y_t) is jointly Gaussian with covariance X X^T + noise^2."""
    found = linear_regression.sample(np.random.default_rng(1), 2, steps=6, d_x=3, noise=0.3)
    got = linear_regression.predictive(found.x, found.y, noise=0.3)
    for b in range(2):
        C = found.x[b] @ found.x[b].T + 0.09 * np.eye(6)
        for t in range(6):
            solved = np.linalg.solve(C[:t, :t], C[:t, t]) if t else np.zeros(0)
            assert got.mean[b, t] == pytest.approx(solved @ found.y[b, :t], abs=1e-11)
            assert got.variance[b, t] == pytest.approx(C[t, t] - solved @ C[:t, t], abs=1e-11)


def test_the_squared_error_meets_its_floor_and_windows_do_worse():
    found = linear_regression.sample(np.random.default_rng(2), 4000, steps=8, d_x=3)
    exact = linear_regression.predictive(found.x, found.y)
    error = (found.y - exact.mean) ** 2 - linear_regression.least_error(found.x)
    assert abs(error.mean()) < 5 * error.std() / np.sqrt(error.size)
    last = [
        ((found.y - linear_regression.predictive(found.x, found.y, window=w).mean) ** 2)[:, -1].mean()
        for w in (0, 2, 7)
    ]
    assert last[0] > last[1] > last[2]


def test_bad_tasks_are_named():
    for call, message in {
        lambda: edge_chains.mess3(x=0.6): "^x: got 0.6, expected",
        lambda: edge_chains.check(edge_chains.Chain(np.ones((2, 3, 3)), np.ones(3) / 3)): "^T: got row 0",
        lambda: edge_chains.belief(edge_chains.rrxor(), np.asarray([[2]])): r"^observations: got 2\.\.2, expected",
        lambda: linear_regression.sample(np.random.default_rng(0), 1, steps=1, d_x=0): "^d_x: got 0, expected",
        lambda: linear_regression.predictive(np.ones((1, 2, 3)), np.ones((1, 3))): "^y: got shape",
        lambda: mixture.random_dice(np.random.default_rng(0), symbols=1): "^symbols: got 1, expected",
        lambda: mixture.check(mixture.Dice(np.ones(2), np.ones((2, 2)) / 2)): "^priors: got row 0",
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
