"""First-order predictions against real steps, the witnesses in exact numbers, and who may lose advantage."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgrad as bg
from bayesgrad import dynamics

RNG = np.random.default_rng(0)
N, M, D_V, C = 3, 4, 5, 6


def softmax(s, mask):
    e = np.where(mask, np.exp(s), 0)
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def draw():
    mask = np.ones((N, M), dtype=bool)
    mask[0, 1:3] = False
    s, v = RNG.normal(size=(2, N, M)), RNG.normal(size=(2, M, D_V))
    W_O, c_O = RNG.normal(size=(D_V, C)), RNG.normal(size=C)
    y = RNG.integers(0, C, size=(2, N))
    return s, v, W_O, c_O, y, mask


def loss_and_upstream(s, v, W_O, c_O, y, mask):
    a = softmax(s, mask)
    loss, r = bg.cross_entropy(a @ v @ W_O + c_O, y)
    return float(loss), a, r, r @ W_O.T


def slope(residual):
    """The order of a residual in the step size, over two decades of it."""
    etas = np.asarray([1e-2, 3e-3, 1e-3, 3e-4])
    return np.polyfit(np.log(etas), np.log([residual(eta) for eta in etas]), 1)[0]


def test_the_loss_falls_as_predicted_up_to_second_order():
    s, v, W_O, c_O, y, mask = draw()
    L, a, _, u = loss_and_upstream(s, v, W_O, c_O, y, mask)

    def after_values(eta):
        step = dynamics.value_step(a, u, eta=eta)
        return abs(loss_and_upstream(s, v + step.values, W_O, c_O, y, mask)[0] - L - float(step.loss))

    def after_scores(eta):
        step = dynamics.score_step(a, u, v, eta=eta)
        return abs(loss_and_upstream(s + step.scores, v, W_O, c_O, y, mask)[0] - L - float(step.loss))

    def after_both(eta):
        gradient_v, gradient_s = bg.value_gradient(a, u), bg.score_gradient(a, bg.compatibility(u, v))
        predicted = float(dynamics.loss_decrease(gradient_v, gradient_s, eta=eta))
        same = dynamics.loss_change(gradient_v, -eta * gradient_v) + dynamics.loss_change(gradient_s, -eta * gradient_s)
        assert predicted == pytest.approx(float(same), rel=1e-12)
        return abs(loss_and_upstream(s - eta * gradient_s, v - eta * gradient_v, W_O, c_O, y, mask)[0] - L - predicted)

    for residual in (after_values, after_scores, after_both):
        assert slope(residual) == pytest.approx(2, abs=0.1)


def test_context_and_weights_move_as_predicted():
    s, v, W_O, c_O, y, mask = draw()
    _, a, _, u = loss_and_upstream(s, v, W_O, c_O, y, mask)
    step = dynamics.value_step(a, u, eta=0.5)
    np.testing.assert_allclose(step.context, a @ (v + step.values) - a @ v, atol=1e-14)

    def residual(eta):
        step = dynamics.score_step(a, u, v, eta=eta)
        moved = softmax(s + step.scores, mask)
        assert np.abs(moved - a - step.weights).max() < eta**2
        return np.abs((moved - a) @ v - step.context).max()

    assert slope(residual) == pytest.approx(2, abs=0.1)


def test_feedback_is_exact_at_fixed_weights_and_upstream():
    s, v, W_O, c_O, y, mask = draw()
    _, a, _, u = loss_and_upstream(s, v, W_O, c_O, y, mask)
    eta = 0.7
    got = dynamics.feedback(a, u, eta=eta)
    moved = v + dynamics.value_step(a, u, eta=eta).values
    np.testing.assert_allclose(got.compatibility, bg.compatibility(u, moved) - bg.compatibility(u, v), atol=1e-13)
    before, after = (bg.advantage(a, bg.compatibility(u, x)) for x in (v, moved))
    np.testing.assert_allclose(got.advantage, after - before, atol=1e-13)


def test_the_full_feedback_lets_upstream_and_read_out_move():
    s, v, W_O, c_O, y, mask = draw()
    _, a, r, u = loss_and_upstream(s, v, W_O, c_O, y, mask)
    p = bg.softmax(a @ v @ W_O + c_O)
    totals = np.full(y.shape, 1 / y.size)
    dW, dc = RNG.normal(size=W_O.shape), RNG.normal(size=C)

    def residual(eta):
        got = dynamics.feedback_full(a, v, r, p, W_O, totals=totals, eta=eta, W_O_step=eta * dW, c_O_step=eta * dc)
        moved = v + dynamics.value_step(a, u, eta=eta).values
        _, _, _, u1 = loss_and_upstream(s, moved, W_O + eta * dW, c_O + eta * dc, y, mask)
        wanted = bg.compatibility(u1, moved) - bg.compatibility(u, v)
        np.testing.assert_allclose(
            got.advantage, np.sum(a * got.compatibility, -1, keepdims=True) - got.compatibility, atol=1e-12
        )
        return np.abs(got.compatibility - wanted).max()

    assert slope(residual) == pytest.approx(2, abs=0.1)


def test_one_query_loses_advantage_below_the_level(xp):
    a, u = xp([[2 / 3, 1 / 3]]), xp([[2.0, -1.0]])
    got = dynamics.feedback(a, u, eta=0.1).advantage
    np.testing.assert_allclose(np.asarray(got), 0.1 * 5 * (np.asarray([[2 / 3, 1 / 3]]) - 5 / 9), rtol=1e-12)


def test_causal_uniform_attention_is_not_neutral(xp):
    got = dynamics.feedback(xp([[1.0, 0], [0.5, 0.5]]), xp([[1.0], [1.0]]), eta=1.0).advantage
    np.testing.assert_allclose(np.asarray(got)[1, 0], 0.5, rtol=1e-12)
    uniform = dynamics.feedback(xp(np.full((2, 2), 0.5)), xp([[1.0], [1.0]]), eta=1.0).advantage
    np.testing.assert_allclose(np.asarray(uniform), 0, atol=1e-15)


def test_the_feedback_can_reverse(xp):
    a, u = [[2 / 3, 1 / 3], [3 / 4, 1 / 4]], [[1.0], [-1.0]]
    alone = dynamics.feedback(xp(a[:1]), xp(u[:1]), eta=1.0).advantage
    np.testing.assert_allclose(np.asarray(alone)[0, 0], 1 / 9, rtol=1e-12)
    together = dynamics.feedback(xp(a), xp(u), eta=1.0).advantage
    np.testing.assert_allclose(np.asarray(together)[0, 0], -1 / 18, rtol=1e-12)


def test_frozen_upstream_can_have_the_wrong_sign(xp):
    a, v, W_O = xp([[2 / 3, 1 / 3]]), xp([[-1.0], [2.0]]), xp([[-1.0, 1.0]])
    z = np.asarray([[0.0, 0.0]])  # context (2/3)(-1) + (1/3) 2 = 0
    r, p = bg.cross_entropy(z, np.asarray([0])).logit_gradient, bg.softmax(z)
    u = xp(r @ np.asarray(W_O).T)
    frozen = dynamics.feedback(a, u, eta=1.0).advantage
    np.testing.assert_allclose(np.asarray(frozen)[0, 0], 1 / 9, rtol=1e-12)
    full = dynamics.feedback_full(a, v, xp(r), xp(p), W_O, totals=xp([1.0]), eta=1.0).advantage
    np.testing.assert_allclose(np.asarray(full)[0, 0], -4 / 9, rtol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_training_the_projection_mixes_the_values(xp, bias):
    x, dv = RNG.normal(size=(M, 3)), RNG.normal(size=(M, D_V))
    wanted = -0.1 * (x @ (x.T @ dv) + (dv.sum(0) if bias else 0))
    got = dynamics.weight_space_value_step(xp(x), xp(dv), eta=0.1, bias=bias)
    np.testing.assert_allclose(np.asarray(got), wanted, atol=1e-13)


def test_orthonormal_inputs_give_the_per_token_law():
    x = np.linalg.qr(RNG.normal(size=(6, M)))[0].T
    dv = RNG.normal(size=(M, D_V))
    np.testing.assert_allclose(dynamics.weight_space_value_step(x, dv, eta=1.0), -dv, atol=1e-13)


def test_the_natural_direction_solves_the_singular_system(xp):
    s, v, W_O, c_O, y, mask = draw()
    _, a, _, u = loss_and_upstream(s, v, W_O, c_O, y, mask)
    b = bg.compatibility(u, v)
    got = np.asarray(dynamics.natural_direction(xp(b), mask=xp(mask)))
    F = bg.fisher(a)
    np.testing.assert_allclose((F @ got[..., None])[..., 0], bg.score_gradient(a, b), atol=1e-14)
    np.testing.assert_allclose(got.sum(-1), 0, atol=1e-13)
    assert np.all(got[:, 0, 1:3] == 0)
    # The pseudo-inverse, row by row: least norm among all solutions.
    least = np.linalg.pinv(F, rcond=1e-10, hermitian=True) @ bg.score_gradient(a, b)[..., None]
    np.testing.assert_allclose(got, least[..., 0], atol=1e-10)


def test_the_replicator_step_is_the_flow_and_the_mean_falls(xp):
    s, v, W_O, c_O, y, mask = draw()
    _, a, _, u = loss_and_upstream(s, v, W_O, c_O, y, mask)
    b = 5 * bg.compatibility(u, v)
    steps, flowed = 4000, a
    for _ in range(steps):  # Heun's rule
        first = dynamics.replicator_velocity(flowed, b, validate=False).weights
        second = dynamics.replicator_velocity(flowed + first / steps, b, validate=False).weights
        flowed = flowed + (first + second) / (2 * steps)
    got = np.asarray(dynamics.replicator_step(xp(a), xp(b), eta=1.0))
    np.testing.assert_allclose(got, flowed, atol=1e-7)
    assert np.all(got[:, 0, 1:3] == 0)
    rate = dynamics.replicator_velocity(a, b).mean_compatibility
    h = 1e-6
    ahead, back = (np.sum(dynamics.replicator_step(a, b, eta=t) * b, -1) for t in (h, -h))
    np.testing.assert_allclose(rate, (ahead - back) / (2 * h), atol=1e-8)
    assert np.all(rate <= 0)


def test_the_replicator_step_survives_large_exponents(xp):
    got = dynamics.replicator_step(xp([[0.5, 0.5, 0.0]]), xp([[4000.0, 4001.0, -9000.0]]), eta=10.0)
    assert np.asarray(got)[0, 0] == pytest.approx(1 / (1 + np.exp(-10)), rel=1e-12)
    assert np.asarray(got)[0, 2] == 0


def test_bounds_hold_and_are_tight_for_two_keys(xp):
    s, v, W_O, c_O, y, mask = draw()
    _, a, _, u = loss_and_upstream(4 * s, v, W_O, c_O, y, mask)
    b = bg.compatibility(u, v)
    ds = np.abs(bg.score_gradient(a, b))
    bound = np.asarray(dynamics.saturation_bound(xp(a), xp(b), mask=xp(mask)))
    row = np.asarray(dynamics.frame_precision_bound(xp(a), xp(b), mask=xp(mask)))
    assert np.all(ds <= bound * (1 + 1e-12) + 1e-15)
    assert np.all(bound <= row[..., None] * (1 + 1e-12) + 1e-15)
    np.testing.assert_allclose(ds[:, 0], bound[:, 0], rtol=1e-12, atol=1e-15)  # row 0 sees two keys
    hidden = np.asarray(dynamics.saturation_bound(xp([[0.0, 0.0]]), xp([[1.0, 2.0]]), mask=xp([[False, False]])))
    assert np.all(hidden == 0)


def test_weights_that_are_no_distribution_are_named():
    with pytest.raises(ValueError, match="weights: got rows"):
        dynamics.replicator_step(np.ones((1, 2)), np.ones((1, 2)), eta=1.0)
    dynamics.replicator_step(np.ones((1, 2)), np.ones((1, 2)), eta=1.0, validate=False)
    with pytest.raises(TypeError, match="gradients: got none"):
        dynamics.loss_decrease(eta=1.0)
    with pytest.raises(ValueError, match="eta: got nan"):
        dynamics.value_step(np.ones((1, 2)), np.ones((1, 2)), eta=float("nan"))
