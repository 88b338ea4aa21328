"""The head and its laws against loops from the definition, on every backend; what NaN may reach and what it may not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesgrad as bg
from tests.reference import attend, loops


def draw(seed, n, m, d_k, d_v, lead=()):
    rng = np.random.default_rng(seed)
    t = {
        "q": rng.normal(size=(*lead, n, d_k)),
        "k": rng.normal(size=(*lead, m, d_k)),
        "v": rng.normal(size=(*lead, m, d_v)),
        "u": rng.normal(size=(*lead, n, d_v)),
    }
    options = {
        "mask": rng.random((*lead, n, m)) < 0.7,
        "bias": rng.normal(size=(*lead, n, m)),
        "dropout": (rng.random((*lead, n, m)) < 0.8) / 0.8,
        "scale": float(rng.normal()),
    }
    if rng.random() < 0.5 and n:
        options["mask"][..., 0, :] = False
    return t, options


@settings(max_examples=100)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sets(st.sampled_from(["mask", "bias", "dropout", "scale"])),
)
def test_weights_context_and_score_gradient_equal_the_loops(seed, n, m, d_k, d_v, used):
    t, options = draw(seed, n, m, d_k, d_v)
    options = {name: options[name] for name in used}
    a, g, ds = loops(
        **t,
        mask=options.get("mask", np.ones((n, m), dtype=bool)),
        bias=options.get("bias", np.zeros((n, m))),
        scale=options.get("scale", 1 / math.sqrt(d_k)),
        dropout=options.get("dropout", np.ones((n, m))),
    )
    made = bg.attention(t["q"], t["k"], t["v"], **options)
    got = bg.attention_gradients(**t, **options)
    np.testing.assert_allclose(made.weights, a, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(made.context, g, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(got.scores, ds, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("lead", [(), (2,), (3, 1, 2)])
@pytest.mark.parametrize("full", [False, True])
def test_all_gradients_equal_autograd_with_leading_axes(xp, lead, full):
    t, options = draw(len(lead), 3, 4, 2, 5, lead)
    options = options if full else {}
    leaves = {name: torch.tensor(x, requires_grad=True) for name, x in t.items() if name != "u"}
    theirs = {name: torch.tensor(x, dtype=None if name == "mask" else torch.float64) for name, x in options.items()}
    if full:
        theirs["bias"].requires_grad_()
        theirs["scale"].requires_grad_()
    attend(**leaves, **theirs).backward(torch.tensor(t["u"]))
    ours = {name: x if name == "scale" else xp(x) for name, x in options.items()}
    got = bg.attention_gradients(*map(xp, t.values()), **ours)
    wanted = {"queries": leaves["q"].grad, "keys": leaves["k"].grad, "values": leaves["v"].grad}
    if full:
        wanted |= {"bias": theirs["bias"].grad, "scale": theirs["scale"].grad}
    for name, x in wanted.items():
        np.testing.assert_allclose(np.asarray(getattr(got, name)), x.numpy(), rtol=1e-10, atol=1e-12)


def test_the_parts_make_the_whole(xp):
    t, options = draw(7, 3, 4, 2, 5, (2,))
    q, k, v, u = map(xp, t.values())
    mask, scale = xp(options["mask"]), options["scale"]
    got = bg.attention_gradients(q, k, v, u, mask=mask, scale=scale)
    made = bg.attention(q, k, v, mask=mask, scale=scale)
    b = bg.compatibility(u, v)
    ds = bg.score_gradient(made.weights, b)
    close = {"rtol": 1e-12, "atol": 1e-13}
    # b of a row that sees nothing, or of a key that nobody sees, is 0 in the whole.
    visible = options["mask"].any(-1, keepdims=True) & options["mask"].any(-2, keepdims=True)
    np.testing.assert_allclose(np.asarray(got.weights), np.asarray(b) * visible, **close)
    np.testing.assert_allclose(np.asarray(got.scores), np.asarray(ds), **close)
    np.testing.assert_allclose(
        np.asarray(ds), -np.asarray(made.weights) * np.asarray(bg.advantage(made.weights, b)), **close
    )
    np.testing.assert_allclose(np.asarray(got.values), np.asarray(bg.value_gradient(made.weights, u)), **close)
    np.testing.assert_allclose(np.asarray(got.queries), np.asarray(bg.query_gradient(ds, k, scale=scale)), **close)
    np.testing.assert_allclose(np.asarray(got.keys), np.asarray(bg.key_gradient(ds, q, scale=scale)), **close)
    np.testing.assert_allclose(np.asarray(bg.effective_count(made.weights)), np.asarray(made.weights).sum(-2), **close)
    mean = (np.asarray(made.weights) * np.asarray(b)).sum(-1)
    np.testing.assert_allclose(np.asarray(bg.mean_compatibility(u, made.context)), mean, **close)


@pytest.mark.parametrize("shape", [(1, 4), (3, 1), (4,), (1, 1, 4), (2, 1, 1), (2, 3, 4)])
def test_the_gradient_of_a_bias_has_its_shape(xp, shape):
    t, _ = draw(8, 3, 4, 2, 5, (2,))
    bias = np.random.default_rng(0).normal(size=shape)
    leaf = torch.tensor(bias, requires_grad=True)
    attend(*(torch.tensor(t[name]) for name in "qkv"), bias=leaf).backward(torch.tensor(t["u"]))
    got = bg.attention_gradients(*map(xp, t.values()), bias=xp(bias)).bias
    assert tuple(got.shape) == shape
    np.testing.assert_allclose(np.asarray(got), leaf.grad.numpy(), atol=1e-13)


def test_masks_broadcast(xp):
    t, _ = draw(9, 3, 4, 2, 5, (2,))
    mask = np.asarray([True, False, True, True])
    arrays = list(map(xp, t.values()))
    wanted = bg.attention_gradients(*arrays, mask=xp(np.broadcast_to(mask, (2, 3, 4)).copy()))
    for shape in ((4,), (1, 4), (1, 1, 4)):
        got = bg.attention_gradients(*arrays, mask=xp(mask.reshape(shape)))
        for a, b in zip(got[:5], wanted[:5], strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["a key nobody sees", "a query that sees nothing"])
def test_what_nobody_sees_never_matters(xp, bad, where):
    t, _ = draw(10, 3, 4, 2, 5)
    mask = np.ones((3, 4), dtype=bool)
    if where == "a key nobody sees":
        mask[:, 1] = False
        names = {"k": 1, "v": 1}
    else:
        mask[2] = False
        names = {"q": 2, "u": 2}
    clean = bg.attention_gradients(**t, mask=mask), bg.attention(t["q"], t["k"], t["v"], mask=mask)
    for name, row in names.items():
        t[name][row] = bad
    arrays = {name: xp(x) for name, x in t.items()}
    got = (
        bg.attention_gradients(**arrays, mask=xp(mask)),
        bg.attention(arrays["q"], arrays["k"], arrays["v"], mask=xp(mask)),
    )
    visible = mask.any(-1, keepdims=True) & mask.any(-2, keepdims=True)
    for a, b in zip((*got[0][:5], got[0].scale, *got[1]), (*clean[0][:5], clean[0].scale, *clean[1]), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape == visible.shape:
            a, b = np.where(visible, a, 0), np.where(visible, b, 0)
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", ["q", "k", "v", "u", "bias"])
def test_nan_in_what_somebody_sees_propagates(xp, name):
    t, options = draw(11, 3, 4, 2, 5)
    bias, mask = options["bias"], np.ones((3, 4), dtype=bool)
    mask[0, 1] = False
    target = bias if name == "bias" else t[name]
    target[1, 1] = np.nan
    got = bg.attention_gradients(*map(xp, t.values()), mask=xp(mask), bias=xp(bias))
    assert np.isnan(np.asarray(got.scores)[1]).all()
    assert np.isnan(np.asarray(got.values if name != "v" else got.keys)).any()
    # Softmax itself lets nothing through: query 0 does not see key 1, so its weights stay.
    made = bg.attention(*map(xp, (t["q"], t["k"], t["v"])), mask=xp(mask), bias=xp(bias))
    assert np.isfinite(np.asarray(made.weights)[0]).all()


def test_scores_of_any_finite_size(xp):
    q, k, v = xp([[3e4, 3e4]]), xp([[1e4, 0.0], [1e4, 1.0], [-1e4, 0.0]]), xp([[1.0], [2.0], [3.0]])
    got = bg.attention(q, k, v, scale=1.0).weights
    np.testing.assert_allclose(np.asarray(got), [[0, 1, 0]], atol=1e-300)


def test_the_gradient_in_a_weight_has_the_rounding_errors_of_its_own_terms_only():
    # Dyadic numbers: u.v is exact, whereas b - bbar plus bbar would carry what rounds in the rest of the row.
    q, k = np.array([[0.125, 0.625]]), np.array([[0.375, 0.875], [-0.625, 0.25], [0.25, -0.75]])
    v, u = np.array([[0.765625, -1.859375], [-1.609375, -1.078125], [0.0, 0.109375]]), np.array([[2.078125, 0.125]])
    assert np.array_equal(bg.attention_gradients(q, k, v, u).weights, u @ v.T)


def test_a_common_offset_in_the_values_costs_nothing():
    """b - bbar is computed without what all keys share; the naive form loses every digit here."""
    t, _ = draw(12, 3, 4, 2, 5)
    t["v"] = np.round(t["v"] * 2**20) / 2**20  # so that adding the offset is exact
    wanted = bg.attention_gradients(**t)
    offset = 2.0**32
    got = bg.attention_gradients(t["q"], t["k"], t["v"] + offset, t["u"])
    np.testing.assert_allclose(got.scores, wanted.scores, rtol=1e-12, atol=1e-15)
    made = bg.attention(t["q"], t["k"], t["v"])
    naive = bg.score_gradient(made.weights, bg.compatibility(t["u"], t["v"] + offset))
    assert np.abs(naive - wanted.scores).max() > 1e-8
    mask = np.asarray([False, True, True, True])  # a key that nobody sees stands for nothing in the offset
    got = bg.attention_gradients(t["q"], t["k"], t["v"] + offset, t["u"], mask=mask)
    wanted = bg.attention_gradients(**t, mask=mask)
    np.testing.assert_allclose(got.scores, wanted.scores, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_accumulate_in_thirty_two(dtype):
    t, _ = draw(13, 64, 512, 8, 8)
    half = {name: torch.tensor(x).to(dtype) for name, x in t.items()}
    wide = {name: x.float() for name, x in half.items()}
    got, wanted = bg.attention_gradients(**half), bg.attention_gradients(**wide)
    for a, b in zip(got, wanted, strict=True):
        if a is not None:
            assert a.dtype == dtype
            assert torch.equal(a, b.to(dtype))


def test_float16_scores_just_below_overflow():
    q = torch.full((1, 4), 180.0, dtype=torch.float16)
    k = torch.cat([q, q * 0.5, -q])  # q.k = 129600 overflows float16; the score, half of it, does not
    v = torch.eye(3, dtype=torch.float16)
    made = bg.attention(q, k, v, scale=0.5)
    assert torch.isfinite(made.scores).all()
    assert made.context.tolist() == [[1.0, 0.0, 0.0]]


def test_nothing_is_written_to_an_input(xp):
    t, options = draw(14, 3, 4, 2, 5)
    before = {name: x.copy() for name, x in t.items()}
    arrays = {name: xp(x) for name, x in t.items()}
    bg.attention_gradients(**arrays, mask=xp(options["mask"]), bias=xp(options["bias"]))
    for name, x in arrays.items():
        np.testing.assert_array_equal(np.asarray(x), before[name])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_keep_library_dtype_and_device(xp, dtype):
    t, _options = draw(15, 3, 4, 2, 5)
    arrays = [xp(x.astype(dtype)) for x in t.values()]
    for made in (bg.attention(*arrays[:3]), bg.attention_gradients(*arrays)):
        for x in made:
            if x is not None:
                assert type(x) is type(arrays[0]) or np.isscalar(x)
                assert x.dtype == arrays[0].dtype
