"""Jets: the derivative is right, and the error bound is a bound, for every rule."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from bayesgrad.testing.jets import Jet, along, leaf, matmul, matmul_t
from bayesgrad.testing.tolerance import unit_roundoff

RULES = {
    "x + y": (lambda x, y: x + y, lambda x, y: x + y),
    "x - y": (lambda x, y: x - y, lambda x, y: x - y),
    "x * y": (lambda x, y: x * y, lambda x, y: x * y),
    "x / y": (lambda x, y: x / y, lambda x, y: x / y),
    "1 - x": (lambda x, y: 1 - x, lambda x, y: 1 - x),
    "3 / y": (lambda x, y: 3 / y, lambda x, y: 3 / y),
    "exp x": (lambda x, y: x.exp(), lambda x, y: mpmath.exp(x)),
    "log y": (lambda x, y: y.log(), lambda x, y: mpmath.log(y)),
    "a chain": (
        lambda x, y: (x.exp() / (x.exp() + y.exp())).log() * y - x * x,
        lambda x, y: mpmath.log(mpmath.exp(x) / (mpmath.exp(x) + mpmath.exp(y))) * y - x * x,
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_value_and_derivative_are_within_their_bounds(rule: str) -> None:
    ours, exact = RULES[rule]
    rng = np.random.default_rng(7)
    u = unit_roundoff()
    for _ in range(200):
        x, y = rng.uniform(-3, 3), rng.uniform(0.1, 3)
        dx, dy = rng.uniform(-2, 2, size=2)
        got = ours(along(np.asarray(x), np.asarray(dx)), along(np.asarray(y), np.asarray(dy)))
        with mpmath.workdps(40):
            value = exact(mpmath.mpf(x), mpmath.mpf(y))
            slope = mpmath.diff(lambda t: exact(x + t * mpmath.mpf(dx), y + t * mpmath.mpf(dy)), 0)  # noqa: B023
            assert abs(mpmath.mpf(float(got.x)) - value) <= u * float(got.ex), rule
            assert abs(mpmath.mpf(float(got.dx[0])) - slope) <= u * float(got.edx[0]) + 1e-25, rule


def test_the_bound_covers_every_order_of_a_sum_that_cancels() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        half = rng.normal(size=7)
        x = np.concatenate((half, -half * (1 + 1e-9 * rng.normal(size=7))))
        with mpmath.workdps(40):
            exact = mpmath.fsum(map(mpmath.mpf, x))
        bound = unit_roundoff() * float(leaf(x).sum(-1).ex)
        for _ in range(10):
            total = 0.0
            for term in rng.permutation(x):
                total += term
            assert abs(total - exact) <= bound
        assert bound < 1e-13


def test_products_of_matrices_follow_the_definition() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3, 4))
    left, right = leaf(a), Jet(b)
    np.testing.assert_allclose(matmul(left, right).x, a @ b, rtol=1e-14)
    np.testing.assert_allclose(matmul_t(left, Jet(b.T)).dx, matmul(left, right).dx, rtol=1e-14)
    assert matmul(left, right).dx.shape == (6, 2, 4)
    for r in range(6):
        unit = np.zeros(6)
        unit[r] = 1
        np.testing.assert_allclose(matmul(left, right).dx[r], unit.reshape(2, 3) @ b, rtol=1e-14)


def test_indices_and_axes_keep_value_and_derivative_together() -> None:
    x = leaf(np.arange(6.0).reshape(2, 3))
    assert x[1, 2].dx.tolist() == [0, 0, 0, 0, 0, 1]
    assert x[:, 1:].shape == (2, 2)
    assert x[..., None, :].shape == (2, 1, 3)
    assert x.move(-1, -2).shape == (3, 2)
    assert x.move(-1, -2).dx.shape == (6, 3, 2)
    assert (np.ones((4, 2, 3)) * x).shape == (4, 2, 3)
    assert (np.ones((4, 2, 3)) - x).dx.shape == (6, 4, 2, 3)
    assert (np.ones((4, 2, 3)) - x).sum(-3).dx[0, 0, 0] == -4
