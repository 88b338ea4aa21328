"""Small inputs with known right answers, on every backend, at 1e-9. Each of them has broken a public tool."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgrad as bg

Q = [[1.0, 0], [0, 1]]
K = [[1.0, 0], [0, 1], [1, 1]]
V = [[1.0, 2], [3, 4], [5, 6]]
U = [[1.0, 0], [0, 1]]
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture
def xp(every_xp):
    """Every backend here, JAX too."""
    return every_xp


def agree(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), **CLOSE)


def test_two_queries_three_keys(xp):
    q, k, v, u = map(xp, (Q, K, V, U))
    got, made = bg.attention_gradients(q, k, v, u), bg.attention(q, k, v)
    agree(
        made.weights,
        [[0.4011120927, 0.1977758146, 0.4011120927], [0.1977758146, 0.4011120927, 0.4011120927]],
    )
    agree(got.scores, [[-0.8022241854, 0, 0.8022241854], [-0.4759816254, -0.1631212800, 0.6391029054]])
    agree(got.queries, [[0, 0.5672581615], [0.1153441632, 0.3365698350]])
    agree(got.keys, [[-0.5672581615, -0.3365698350], [0, -0.1153441632], [0.5672581615, 0.4519139983]])
    agree(got.values, [[0.4011120927, 0.1977758146], [0.1977758146, 0.4011120927], [0.4011120927, 0.4011120927]])
    agree(got.weights, np.asarray(U) @ np.asarray(V).T)


@pytest.mark.parametrize("how", ["boolean mask", "bias of -inf"])
@pytest.mark.parametrize("poison", [0.0, np.nan])
def test_a_query_that_sees_nothing(xp, how, poison):
    visible = np.asarray([[True] * 3, [False] * 3])
    blind = np.asarray([[1.0, 0], [poison or 0.0, 1]])
    hidden = {"mask": xp(visible)} if how == "boolean mask" else {"bias": xp(np.where(visible, 0.0, -np.inf))}
    q, k, v, u = map(xp, (blind, K, V, U))
    got, made = bg.attention_gradients(q, k, v, u, **hidden), bg.attention(q, k, v, **hidden)
    agree(made.context[1, :], [0, 0])
    assert np.all(np.asarray(got.scores)[1] == 0)
    agree(got.queries, [[0, 0.5672581615], [0, 0]])
    agree(got.keys, [[-0.5672581615, 0], [0, 0], [0.5672581615, 0]])
    agree(got.values, [[0.4011120927, 0], [0.1977758146, 0], [0.4011120927, 0]])


def test_causal_upper_left(xp):
    q, k, v, u = map(xp, (Q, K, V, U))
    mask = bg.causal_mask(2, 3, align="upper-left", like=q)
    agree(bg.attention(q, k, v, mask=mask).weights, [[1, 0, 0], [0.3302384507, 0.6697615493, 0]])
    agree(bg.attention_gradients(q, k, v, u, mask=mask).scores, [[0, 0, 0], [-0.4423620327, 0.4423620327, 0]])


def test_causal_lower_right(xp):
    q, k, v, u = map(xp, (Q, K, V, U))
    mask = bg.causal_mask(2, 3, align="lower-right", like=q)
    agree(bg.attention(q, k, v, mask=mask).weights[0, :], [0.6697615493, 0.3302384507, 0])
    got = bg.attention_gradients(q, k, v, u, mask=mask).scores
    agree(got[0, :], [-0.4423620327, 0.4423620327, 0])
    agree(got[1, :], bg.attention_gradients(q, k, v, u).scores[1, :])


def test_a_shift_of_all_keys_has_no_gradient(xp):
    got = bg.attention_gradients(*map(xp, (Q, K, V, U)))
    agree(np.asarray(got.keys).sum(axis=0), [0, 0])


def test_grouped_queries_read_consecutive_heads(xp):
    rng = np.random.default_rng(0)
    q, k, v, u = (rng.normal(size=s) for s in ((6, 2, 3), (2, 4, 3), (2, 4, 5), (6, 2, 5)))
    got = bg.grouped_attention_gradients(*map(xp, (q, k, v, u)))
    dk, dv = np.zeros_like(k), np.zeros_like(v)
    for h in range(6):
        one = bg.attention_gradients(q[h], k[h // 3], v[h // 3], u[h])
        dk[h // 3] += one.keys
        dv[h // 3] += one.values
        agree(got.queries[h, :, :], one.queries)
    agree(got.keys, dk)
    agree(got.values, dv)


def test_one_by_one(xp):
    one = xp([[1.0]])
    got = bg.attention_gradients(one, one, xp([[2.0]]), one)
    for x in (got.scores, got.queries, got.keys):
        agree(x, [[0]])
    agree(got.values, [[1]])


def test_no_keys_at_all(xp):
    q, k, v, u = xp(np.ones((2, 3))), xp(np.ones((0, 3))), xp(np.ones((0, 5))), xp(np.ones((2, 5)))
    agree(bg.attention(q, k, v).context, np.zeros((2, 5)))
    got = bg.attention_gradients(q, k, v, u)
    agree(got.queries, np.zeros((2, 3)))
    assert tuple(got.keys.shape) == (0, 3)
    assert tuple(got.values.shape) == (0, 5)


LOGITS = [[1.0, 2, 3], [0, 0, 0], [3, 1, 0]]
CLASS_WEIGHTS = [0.2, 0.3, 0.5]


def test_cross_entropy_with_an_ignored_row(xp):
    got = bg.cross_entropy(xp(LOGITS), xp(np.asarray([2, -100, 0])))
    agree(got.loss, 0.2887259920)
    agree(
        got.logit_gradient,
        [[0.0450152866, 0.1223642355, -0.1673795221], [0, 0, 0], [-0.0781026328, 0.0570975997, 0.0210050331]],
    )


def test_cross_entropy_variants(xp):
    z, y, omega = xp(LOGITS), xp(np.asarray([2, -100, 0])), xp(CLASS_WEIGHTS)
    agree(bg.cross_entropy(z, y, class_weights=omega).loss, 0.3396745516)
    agree(bg.cross_entropy(z, y, label_smoothing=0.2).loss, 0.5553926587)
    agree(bg.cross_entropy(z, y, class_weights=omega, label_smoothing=0.2).loss, 0.5934017350)


def test_every_target_ignored(xp):
    got = bg.cross_entropy(xp(LOGITS), xp(np.asarray([-100] * 3)))
    agree(got.loss, 0)
    agree(got.logit_gradient, np.zeros((3, 3)))


@pytest.mark.parametrize("outside", [3, -1])
def test_a_target_outside_the_classes_raises(xp, outside):
    with pytest.raises(ValueError, match=r"targets: got -?\d, expected 0\.\.2"):
        bg.cross_entropy(xp(LOGITS), xp(np.asarray([2, outside, 0])))
