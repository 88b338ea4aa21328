"""The sticky chain: published numbers, the filter against brute force over all paths, and the data pipeline."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayesgrad.tasks import sticky_markov as sm


def test_published_row_counts_self_twice():
    row = sm.transition()[0]
    np.testing.assert_allclose(row, [0.3498, 0.1660, 0.0830, 0.0553, 0.0415, 0.0553, 0.0830, 0.1660], atol=5e-5)
    assert sm.entropy_rate(sm.transition()) == pytest.approx(1.82919, abs=5e-6)


def test_stated_row_stays_with_the_stated_probability():
    P = sm.transition(row="stated")
    np.testing.assert_allclose(np.diag(P), 0.3)
    assert sm.entropy_rate(P) == pytest.approx(1.88325, abs=5e-6)


@pytest.mark.parametrize("row", sm.ROWS)
@pytest.mark.parametrize("symbols", [2, 3, 5, 8])
def test_rows_and_columns_sum_to_one(symbols, row):
    P = sm.transition(symbols, 0.2, row)
    np.testing.assert_allclose(P.sum(-1), 1.0)
    np.testing.assert_allclose(P.sum(0), 1.0)


def brute_force(problem: sm.Problem, x: np.ndarray) -> np.ndarray:
    """p(y_n | x_1..x_n) by summing the joint density over every path of hidden states."""
    n, symbols = len(x), len(problem.P)
    total = np.zeros(symbols)
    for path in itertools.product(range(symbols), repeat=n + 1):
        density = 1.0 / symbols
        for t in range(n):
            density *= np.exp(-0.5 * ((x[t] - problem.mu[path[t]]) ** 2).sum() / problem.sigma**2)
            density *= problem.P[path[t], path[t + 1]]
        total[path[-1]] += density
    return total / total.sum()


@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.0])
def test_predictive_is_the_sum_over_all_paths(sigma):
    rng = np.random.default_rng(3)
    problem = sm.sample_problem(rng, symbols=3, d_x=2, sigma=sigma)
    x = sm.sample_sequence(problem, 7, rng).x
    got = sm.predictive(problem, x)
    for t in range(1, 7):
        np.testing.assert_allclose(got[t - 1], brute_force(problem, x[:t]), rtol=1e-12)


def test_window_predictive_forgets_what_lies_before():
    rng = np.random.default_rng(4)
    problem = sm.sample_problem(rng, symbols=3, d_x=2)
    x = sm.sample_sequence(problem, 8, rng).x
    for window in (1, 2, 3):
        got = sm.window_predictive(problem, x, window)
        for t in range(1, 8):
            np.testing.assert_allclose(got[t - 1], brute_force(problem, x[max(0, t - window) : t]), rtol=1e-12)
    np.testing.assert_allclose(sm.window_predictive(problem, x, 50), sm.predictive(problem, x), rtol=1e-12)


def test_no_position_sees_its_own_target():
    rng = np.random.default_rng(5)
    problem = sm.sample_problem(rng, sigma=1e-3)
    sequence = sm.sample_sequence(problem, 400, rng)
    seen = sm.log_evidence(problem, sequence.x).argmax(-1)
    np.testing.assert_array_equal(seen, sequence.path[:-1])
    np.testing.assert_array_equal(sequence.targets, sequence.path[1:])
    assert (seen != sequence.targets).mean() > 0.5


def test_chain_has_the_transition_it_says():
    rng = np.random.default_rng(6)
    problem = sm.sample_problem(rng)
    path = sm.sample_sequence(problem, 40_000, rng).path
    counts = np.zeros((8, 8))
    np.add.at(counts, (path[:-1], path[1:]), 1)
    np.testing.assert_allclose(counts / counts.sum(-1, keepdims=True), problem.P, atol=0.03)


def test_same_seed_same_sequence():
    first, second = (
        sm.sample_sequence(sm.sample_problem(np.random.default_rng(1)), 50, np.random.default_rng(2)) for _ in range(2)
    )
    np.testing.assert_array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.targets, second.targets)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: sm.transition(1), "symbols"),
        (lambda: sm.transition(8, 1.5), "self_probability"),
        (lambda: sm.transition(8, 0.3, "other"), "row"),
        (lambda: sm.sample_problem(np.random.default_rng(0), d_x=0), "d_x"),
        (lambda: sm.sample_problem(np.random.default_rng(0), sigma=0.0), "sigma"),
        (
            lambda: sm.sample_sequence(sm.sample_problem(np.random.default_rng(0)), 1, np.random.default_rng(0)),
            "length",
        ),
        (lambda: sm.window_predictive(sm.sample_problem(np.random.default_rng(0)), np.zeros((3, 20)), 0), "window"),
    ],
)
def test_bad_input_names_the_argument(call, word):
    with pytest.raises(ValueError, match=rf"^{word}: got .*expected"):
        call()
