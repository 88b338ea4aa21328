"""Modern attention, norms and perceptrons against autograd over explicit operations, on every array library."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bayesgrad as bg
from bayesgrad import layers, modern, positions, row_maps
from tests.test_rim import K, Q, U, V, make, read

__all__ = ["make"]

LEAD, N, M, D, D_V = (2, 3), 4, 6, 4, 5


def arrays(seed, lead=LEAD, n=N, m=M, d=D, d_v=D_V):
    rng = np.random.default_rng(seed)
    shapes = {"q": (*lead, n, d), "k": (*lead, m, d), "v": (*lead, m, d_v), "u": (*lead, n, d_v)}
    return rng, {name: rng.normal(size=shape) for name, shape in shapes.items()}


def leaf(x):
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


def close(got, wanted, atol=1e-11):
    np.testing.assert_allclose(read(got), wanted.detach().numpy() if hasattr(wanted, "detach") else wanted, atol=atol)


def visible_softmax(s, mask, sink=None):
    """Softmax from the definition; rows that see nothing are 0. Returns the weights, the sink's weight and Z."""
    e = torch.where(mask, s, 0.0).exp() * mask
    z0 = torch.zeros(s.shape[:-1]) if sink is None else sink.exp() + torch.zeros(s.shape[:-1])
    Z = e.sum(-1) + z0
    safe = torch.where(Z == 0, torch.ones_like(Z), Z)
    return e / safe[..., None], z0 / safe, safe


@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("options", ["", "cap", "temperature", "sink", "lse", "cap temperature sink lse", "sink lse"])
def test_caps_sinks_and_log_sum_exp_equal_autograd(options, dropout):
    rng, t = arrays(3)
    mask = rng.random((*LEAD, N, M)) < 0.6
    mask[0, 0, 1], mask[1, 2] = False, False
    bias = rng.normal(size=(3, 1, M))
    leaves = {name: leaf(x) for name, x in t.items() if name != "u"} | {"bias": leaf(bias), "scale": leaf(0.7)}
    u = torch.tensor(t["u"])
    given_ = {"mask": mask, "bias": bias, "scale": 0.7}
    if dropout:
        given_["dropout"] = (rng.random((*LEAD, N, M)) < 0.8) / 0.8
    if "cap" in options:
        leaves["soft_cap"], given_["soft_cap"] = leaf(1.3), 1.3
    if "temperature" in options:
        leaves["temperature"], given_["temperature"] = leaf(-0.6), -0.6
    if "sink" in options:
        sink = rng.normal(size=(3, 1))
        leaves["sink"], given_["sink"] = leaf(sink), sink
    s = leaves["q"] @ leaves["k"].mT * leaves["scale"] + leaves["bias"]
    s = leaves["soft_cap"] * torch.tanh(s / leaves["soft_cap"]) if "cap" in options else s
    s = s / leaves["temperature"] if "temperature" in options else s
    a, a0, Z = visible_softmax(s, torch.tensor(mask), leaves.get("sink"))
    used = a * torch.tensor(given_["dropout"]) if dropout else a
    loss = (used @ leaves["v"] * u).sum()
    if "lse" in options:
        w = rng.normal(size=(*LEAD, N))
        given_w = {"d_log_total": w}
        loss = loss + (torch.tensor(w) * Z.log()).sum()
    else:
        given_w = {}
    loss.backward()
    made = modern.attention(t["q"], t["k"], t["v"], **given_)
    close(made.weights, a)
    close(made.sink_weight, a0)
    close(made.context, used @ leaves["v"])
    seen = made.log_total > -np.inf
    assert seen.all() == ("sink" in options)
    close(made.log_total[seen], Z.log().detach().numpy()[seen])
    got = modern.attention_gradients(*t.values(), **given_, **given_w)
    names = {"q": "queries", "k": "keys", "v": "values"}
    for name, x in leaves.items():
        close(getattr(got, names.get(name, name)), x.grad)
    assert got.sink.shape == ((3, 1) if "sink" in options else (*LEAD, N))
    assert all(np.isfinite(x).all() for x in got)
    if "sink" not in options:
        assert not got.sink.any()


def test_without_options_it_is_the_plain_head():
    rng, t = arrays(5)
    mask = rng.random((*LEAD, N, M)) < 0.6
    got, plain = (f(*t.values(), mask=mask) for f in (modern.attention_gradients, bg.attention_gradients))
    for name in plain._fields:
        close(getattr(got, name), getattr(plain, name), 1e-14)
    close(got.products, plain.scores, 1e-14)
    assert got.soft_cap == 0


def test_known_answers_in_every_library(make):
    """The first example with a gradient of log Z, with a sink and with a cap."""
    q, k, v, u = map(make, (Q, K, V, U))
    got = modern.attention_gradients(q, k, v, u, d_log_total=make([0.5, -1.0]))
    close(got.scores, [[-0.601668139, 0.0988879073, 1.0027802317], [-0.67375744, -0.5642333727, 0.2379908127]], 1e-9)
    got = modern.attention_gradients(q, k, v, u, sink=0.7)
    close(got.sink, -1.5087573608, 1e-9)
    close(got.queries, [[0.3466556352, 0.6644755915], [0.4626252894, 0.749903486]], 1e-9)
    got = modern.attention_gradients(q, k, v, u, sink=make([0.7, 0.7]))
    close(read(got.sink).sum(), -1.5087573608, 1e-9)
    got = modern.attention_gradients(q, k, v, u, soft_cap=1.5)
    close(got.products, [[-0.6411347176, 0, 0.6411347176], [-0.4898437565, -0.1229188011, 0.5182159166]], 1e-9)


def test_what_a_sink_breaks():
    """One key, s = sigma = 0, b = 1: the gradient is 1/4 although the range of b is 0; rows do not sum to 0."""
    one = np.ones((1, 1))
    got = modern.attention_gradients(0 * one, one, one, one, sink=0.0)
    assert got.scores.item() == 0.25
    assert got.sink.item() == -0.25


def test_a_sink_of_any_size_and_scores_of_any_size():
    for sink in (-1e4, -300.0, 0.0, 300.0, 1e4):
        got = modern.attention(np.asarray([[1.0], [1e4]]), np.ones((2, 1)), np.ones((2, 1)), scale=1.0, sink=sink)
        assert np.isfinite(got.log_total).all()
        close(got.weights.sum(-1) + got.sink_weight, np.ones(2))


@pytest.mark.parametrize("changed", ["lse as a shift of b", "renormalised", "cap without c"])
def test_laws_that_look_right_are_off(changed):
    q, k, v, u = (np.asarray(x) for x in (Q, K, V, U))
    if changed == "lse as a shift of b":
        w = np.asarray([0.5, -1.0])
        right = modern.attention_gradients(q, k, v, u, d_log_total=w).scores
        a = bg.attention(q, k, v).weights
        wrong = bg.score_gradient(a, bg.compatibility(u, v) + w[:, None])
    elif changed == "renormalised":
        right = modern.attention_gradients(q, k, v, u, sink=0.7).scores
        a = modern.attention(q, k, v, sink=0.7).weights
        b = bg.compatibility(u, v)
        wrong = a * (b - (a * b).sum(-1, keepdims=True) / a.sum(-1, keepdims=True))
    else:
        right = modern.attention_gradients(q, k, v, u, soft_cap=1.5)
        wrong, right = right.scores * (1 - modern.attention(q, k, v, soft_cap=1.5).scores ** 2), right.products
    assert np.abs(right - wrong).max() > 0.05


@pytest.mark.parametrize("option", ["soft_cap", "temperature"])
def test_zero_options_are_refused(option):
    with pytest.raises(ValueError, match=f"^{option}: got 0, expected"):
        modern.attention(*(np.asarray(x) for x in (Q, K, V)), **{option: 0})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_fewer_bits_accumulate_in_thirty_two(dtype):
    _, t = arrays(9)
    few = [torch.tensor(x).to(dtype) for x in t.values()]
    got = modern.attention_gradients(*few, sink=0.5, soft_cap=2.0, temperature=0.9)
    wide = modern.attention_gradients(*(x.double() for x in few), sink=0.5, soft_cap=2.0, temperature=0.9)
    for x, y in zip(got, wide, strict=True):
        assert x.dtype == dtype
        torch.testing.assert_close(x.double(), y, rtol=2 * torch.finfo(dtype).eps, atol=2e-5)


# --- other row maps ---------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([1.2, 1.5, 1.9, 2.0, 3.0]), st.booleans())
def test_entmax_meets_its_definition(seed, alpha, hidden):
    rng = np.random.default_rng(seed)
    s = rng.normal(size=(3, 5)) * 3
    mask = (rng.random((3, 5)) < 0.6) | (not hidden)
    a = row_maps.entmax(s, alpha=alpha, mask=mask)
    assert (a[~mask] == 0).all()
    for row, weights, seen in zip(s, a, mask, strict=True):
        if not seen.any():
            assert not weights.any()
            continue
        assert weights.sum() == pytest.approx(1)
        on = weights > 1e-9
        tau = (alpha - 1) * row[on] - weights[on] ** (alpha - 1)  # the same for all keys of the support
        np.testing.assert_allclose(tau, tau[0], atol=1e-9)
        assert ((alpha - 1) * row[seen & (weights == 0)] <= tau[0] + 1e-9).all()


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
def test_entmax_gradients_equal_differences(alpha):
    rng, t = arrays(11)
    mask = rng.random((*LEAD, N, M)) < 0.7
    mask[0, 1, 2] = False

    def loss(**moved):
        at = {**t, **moved}
        return (row_maps.entmax_attention(at["q"], at["k"], at["v"], alpha=alpha, mask=mask).context * t["u"]).sum()

    got = row_maps.entmax_attention_gradients(*t.values(), alpha=alpha, mask=mask)
    for name, field in (("q", "queries"), ("k", "keys"), ("v", "values")):
        for _ in range(3):
            direction, h = rng.normal(size=t[name].shape), 1e-6
            slope = (loss(**{name: t[name] + h * direction}) - loss(**{name: t[name] - h * direction})) / (2 * h)
            assert slope == pytest.approx((getattr(got, field) * direction).sum(), rel=2e-6, abs=1e-7)


def test_softmax_is_the_other_end_of_one_law():
    rng = np.random.default_rng(0)
    a, b = bg.softmax(rng.normal(size=(4, 5))), rng.normal(size=(4, 5))
    close(row_maps.row_map_gradient(a, b), bg.score_gradient(a, b), 1e-15)
    near = row_maps.entmax(np.log(a), alpha=1 + 1e-6)
    close(near, a, 1e-5)


def test_sigmoid_linear_and_differential_equal_autograd():
    rng, t = arrays(12)
    mask = rng.random((*LEAD, N, M)) < 0.6
    mask[0, 0, 1] = False
    seen, u = torch.tensor(mask), torch.tensor(t["u"])
    q, k, v = (leaf(t[name]) for name in "qkv")
    ((torch.sigmoid(q @ k.mT * 0.5) * seen) @ v * u).sum().backward()
    got = row_maps.sigmoid_attention_gradients(*t.values(), mask=mask, scale=0.5)
    for name, x in (("queries", q), ("keys", k), ("values", v)):
        close(getattr(got, name), x.grad)

    phi, psi, v = leaf(np.exp(t["q"])), leaf(np.exp(t["k"])), leaf(t["v"])
    products = phi @ psi.mT * seen
    Z = products.sum(-1, keepdim=True)
    (products @ v / torch.where(Z == 0, 1.0, Z) * u).sum().backward()
    arguments = phi.detach().numpy(), psi.detach().numpy(), t["v"]
    got = row_maps.linear_attention_gradients(*arguments, t["u"], mask=mask)
    for ours, x in zip(got[1:], (phi, psi, v), strict=True):
        close(ours, x.grad)
    close(row_maps.linear_attention(*arguments, mask=mask), (products @ v / torch.where(Z == 0, 1.0, Z)))

    other = {"q": rng.normal(size=(*LEAD, N, 3)), "k": rng.normal(size=(*LEAD, M, 3))}
    leaves = [leaf(x) for x in (t["q"], t["k"], other["q"], other["k"], t["v"])]
    factor = leaf(0.4)
    one = visible_softmax(leaves[0] @ leaves[1].mT * 0.5, seen)[0]
    two = visible_softmax(leaves[2] @ leaves[3].mT * 0.5, seen)[0]
    ((one - factor * two) @ leaves[4] * u).sum().backward()
    given_ = (t["q"], t["k"], other["q"], other["k"], t["v"])
    got = row_maps.differential_attention_gradients(*given_, t["u"], factor=0.4, mask=mask, scale=0.5)
    for ours, x in zip(got, (*leaves, factor), strict=True):
        close(ours, x.grad)
    close(row_maps.differential_attention(*given_, factor=0.4, mask=mask, scale=0.5), (one - 0.4 * two) @ leaves[4])


ROW_MAPS = {
    "entmax": lambda q, k, v, u: row_maps.entmax_attention_gradients(q, k, v, u, alpha=1.5).queries,
    "sigmoid": lambda q, k, v, u: row_maps.sigmoid_attention_gradients(q, k, v, u).queries,
    "linear": lambda q, k, v, u: row_maps.linear_attention_gradients(q, k, v, u).query_features,
    "differential": lambda q, k, v, u: row_maps.differential_attention_gradients(q, k, q, k, v, u, factor=0.5).queries,
    "rotary": lambda q, k, v, u: positions.rotary(q, layout="halves"),
    "alibi": lambda q, k, v, u: positions.alibi_bias(q[0, :], 2, 3, align="lower-right"),
    "rms": lambda q, k, v, u: layers.rms_norm_gradient(q, k[0, :], u, eps=1e-6).x,
    "layer": lambda q, k, v, u: layers.layer_norm_gradient(q, k[0, :], u, eps=1e-6).x,
    "mlp": lambda q, k, v, u: layers.mlp_gradient(q, q, u, u, activation="gelu_tanh").W_1,
    "gated": lambda q, k, v, u: layers.gated_mlp_gradient(q, q, u, q, u, activation="silu").W_gate,
}


@pytest.mark.parametrize("name", list(ROW_MAPS))
def test_the_same_in_every_library(name, make):
    wanted = ROW_MAPS[name](*(np.asarray(x) for x in (Q, K, V, U)))
    got = ROW_MAPS[name](*map(make, (Q, K, V, U)))
    close(got, wanted, 1e-12)
    assert isinstance(got, type(make(Q)))


# --- positions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["halves", "pairs"])
def test_rotary_turns_pairs_and_its_gradient_turns_back(layout):
    rng = np.random.default_rng(2)
    x, dy, d = rng.normal(size=(2, 5, 6)), rng.normal(size=(2, 5, 6)), 6
    where = np.asarray([3, 0, 7, 1, 100])
    R = np.zeros((5, d, d))
    for i, position in enumerate(where):
        for p in range(d // 2):
            one, two = (p, p + d // 2) if layout == "halves" else (2 * p, 2 * p + 1)
            angle = position * 10000 ** (-2 * p / d)
            R[i, one, one] = R[i, two, two] = math.cos(angle)
            R[i, one, two], R[i, two, one] = -math.sin(angle), math.sin(angle)
    close(positions.rotary(x, positions=where, layout=layout), np.einsum("bif,ief->bie", x, R), 1e-12)
    close(positions.rotary_gradient(dy, positions=where, layout=layout), np.einsum("bie,ief->bif", dy, R), 1e-12)


def test_rotary_scores_depend_on_differences_alone():
    rng = np.random.default_rng(3)
    q, k, where = rng.normal(size=(4, 8)), rng.normal(size=(6, 8)), np.arange(6)
    turn = lambda x, at: positions.rotary(x, positions=at, layout="halves")
    close(turn(q, where[:4]) @ turn(k, where).T, turn(q, where[:4] + 50) @ turn(k, where + 50).T, 1e-12)


def test_a_chunk_after_a_cache_is_the_rest_of_the_whole():
    """Queries at the end of the cached keys: rotary at their own positions, a mask aligned lower-right."""
    _, t = arrays(6, lead=(2,), n=7, m=7)
    turn = lambda x, start: positions.rotary(x, positions=np.arange(start, start + x.shape[-2]), layout="halves")
    q, k = turn(t["q"], 0), turn(t["k"], 0)
    whole = bg.attention(q, k, t["v"], mask=bg.causal_mask(7, 7, align="upper-left")).context
    late = bg.attention(turn(t["q"][:, 4:], 4), k, t["v"], mask=bg.causal_mask(3, 7, align="lower-right"))
    close(late.context, whole[:, 4:], 1e-13)


def test_alibi_slopes_equal_autograd():
    _, t = arrays(8, lead=(2, 3))
    slopes = leaf([0.5, 0.25, 0.125])
    distance = (torch.arange(N)[:, None] + M - N - torch.arange(M)).abs()
    q, k, v, u = (torch.tensor(x) for x in t.values())
    s = q @ k.mT / 2 - slopes[:, None, None] * distance
    (torch.softmax(s, -1) @ v * u).sum().backward()
    bias = positions.alibi_bias(slopes.detach().numpy(), N, M, align="lower-right")
    got = bg.attention_gradients(*t.values(), bias=bias)
    close(positions.alibi_slope_gradient(got.bias, align="lower-right"), slopes.grad)


# --- norms and perceptrons --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.3])
def test_norms_equal_autograd(eps):
    rng = np.random.default_rng(4)
    x, dy, gamma, beta = (rng.normal(size=s) for s in ((2, 3, 7), (2, 3, 7), (7,), (7,)))
    t = [leaf(v) for v in (x, gamma, beta)]
    y = torch.nn.functional.layer_norm(t[0], (7,), t[1], t[2], eps=eps)
    close(layers.layer_norm(x, gamma, beta=beta, eps=eps), y)
    for ours, theirs in zip(
        layers.layer_norm_gradient(x, gamma, dy, eps=eps), torch.autograd.grad(y, t, torch.tensor(dy)), strict=True
    ):
        close(ours, theirs)
    y = torch.nn.functional.rms_norm(t[0], (7,), t[1], eps=eps)
    close(layers.rms_norm(x, gamma, eps=eps), y)
    got = layers.rms_norm_gradient(x, gamma, dy, eps=eps)
    for ours, theirs in zip(got, torch.autograd.grad(y, t[:2], torch.tensor(dy)), strict=True):
        close(ours, theirs)
    w, rho = gamma * dy, np.sqrt((x**2).mean(-1) + eps)
    np.testing.assert_allclose((x * got.x).sum(-1), eps * (w * x).sum(-1) / rho**3, atol=1e-12)


TORCH = {
    "identity": lambda h: h,
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
    "gelu_tanh": lambda h: torch.nn.functional.gelu(h, approximate="tanh"),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "of the caller": lambda h: torch.sin(h) + h,
}
MINE = layers.Activation(lambda xp, h: xp.sin(h) + h, lambda xp, h: xp.cos(h) + 1)


@pytest.mark.parametrize("name", list(TORCH))
def test_perceptrons_equal_autograd(name):
    assert set(TORCH) == {*layers.ACTIVATIONS, "of the caller"}
    phi = MINE if name == "of the caller" else name
    rng = np.random.default_rng(5)
    x, W_1, c_1, W_2, c_2, dy = (rng.normal(size=s) for s in ((2, 3, 4), (4, 6), (6,), (6, 5), (5,), (2, 3, 5)))
    t = [leaf(v) for v in (x, W_1, c_1, W_2, c_2)]
    y = TORCH[name](t[0] @ t[1] + t[2]) @ t[3] + t[4]
    close(layers.mlp(x, W_1, W_2, c_1=c_1, c_2=c_2, activation=phi), y)
    got = layers.mlp_gradient(x, W_1, W_2, dy, c_1=c_1, activation=phi)
    for ours, theirs in zip(got, torch.autograd.grad(y, t, torch.tensor(dy)), strict=True):
        close(ours, theirs)
    W_up = rng.normal(size=(4, 6))
    t = [leaf(v) for v in (x, W_1, W_up, W_2)]
    y = (TORCH[name](t[0] @ t[1]) * (t[0] @ t[2])) @ t[3]
    close(layers.gated_mlp(x, W_1, W_up, W_2, activation=phi), y)
    got = layers.gated_mlp_gradient(x, W_1, W_up, W_2, dy, activation=phi)
    for ours, theirs in zip(got, torch.autograd.grad(y, t, torch.tensor(dy)), strict=True):
        close(ours, theirs)


def test_activations_at_the_ends_of_the_format():
    h = np.asarray([-1e300, -800.0, 0.0, 800.0, 1e300])
    for name in ("silu", "sigmoid", "tanh", "relu"):
        phi = layers.ACTIVATIONS[name]
        assert np.isfinite(phi.value(np, h)).all(), name
        assert np.isfinite(phi.slope(np, h)).all(), name


def test_bad_arguments_are_named():
    x, W = np.ones((2, 3)), np.ones((3, 4))
    for call, message in {
        lambda: layers.mlp(x, W, W, activation="relu"): r"^W_2: got shape \(3, 4\), expected",
        lambda: layers.mlp(x, W, W.T, activation="gelu"): "^activation: got 'gelu', expected one of 'identity'",
        lambda: layers.mlp(x, W, W.T, activation=3): "^activation: got int, expected one of",
        lambda: layers.rms_norm(x, np.ones(2), eps=1e-6): r"^gamma: got shape \(2,\), expected",
        lambda: layers.rms_norm(x, np.ones(3), eps=-1): "^eps: got -1.0, expected a number of at least 0",
        lambda: positions.rotary(x, layout="halves"): "^x: got shape .* expected an even number of features",
        lambda: positions.rotary(W, layout="neox"): "^layout: got 'neox', expected one of",
        lambda: positions.rotary(W, positions=np.ones(2, int), layout="pairs"): "^positions: got shape",
        lambda: row_maps.entmax(x, alpha=1.0): "^alpha: got 1.0, expected a Python number above 1",
        lambda: modern.attention(x, x, x, sink=np.ones(3)): "^sink: got shape",
        lambda: modern.attention(x, x, x, sink="1"): "^sink: got str, expected",
        lambda: modern.attention_gradients(x, x, x, x, d_log_total=x): "^d_log_total: got shape",
    }.items():
        with pytest.raises((TypeError, ValueError), match=message):
            call()
