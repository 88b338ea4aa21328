"""The whole block against autograd: heads, groups, biases, cross-attention, masks; and its intermediate objects."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bayesgrad as bg
from tests.reference import block_loss

LEAD, N, M, D_X, D_Y, D_K, D_V, C = (2,), 4, 5, 3, 6, 2, 7, 8


def draw(seed, *, heads, groups, cross, lead=LEAD):
    rng = np.random.default_rng(seed)
    d_y = D_Y if cross else D_X
    t = {
        "x": rng.normal(size=(*lead, N, D_X)),
        "y": rng.normal(size=(*lead, M, D_Y)) if cross else None,
        "W_Q": rng.normal(size=(D_X, heads * D_K)),
        "W_K": rng.normal(size=(d_y, groups * D_K)),
        "W_V": rng.normal(size=(d_y, groups * D_V)),
        "W_O": rng.normal(size=(heads * D_V, C)),
        "c_Q": rng.normal(size=heads * D_K),
        "c_K": rng.normal(size=groups * D_K),
        "c_V": rng.normal(size=groups * D_V),
        "c_O": rng.normal(size=C),
    }
    targets = rng.integers(0, C, size=(*lead, N))
    targets[..., 1] = -100
    return t, targets, rng


def close(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (3, 3), (6, 2), (4, 1)])
@pytest.mark.parametrize("extras", ["plain", "mask and bias", "mask per head, dropout, weighted loss"])
def test_all_gradients_equal_autograd(heads, groups, cross, extras):
    t, targets, rng = draw(heads * 10 + groups, heads=heads, groups=groups, cross=cross)
    keys = M if cross else N
    ours, theirs, loss = {}, {}, {}
    bias = None
    if extras == "mask and bias":
        mask = rng.random((*LEAD, 1, N, keys)) < 0.7
        mask[..., 0, :] = False
        bias = rng.normal(size=(N, keys))
        ours, theirs = {"mask": mask, "scale": 0.3}, {"mask": torch.tensor(mask), "scale": 0.3}
    elif extras != "plain":
        mask = rng.random((*LEAD, heads, N, keys)) < 0.7
        dropout = (rng.random((*LEAD, heads, N, keys)) < 0.8) / 0.8
        omega = rng.random(C) + 0.1
        ours = {"mask": mask, "dropout": dropout, "class_weights": omega, "label_smoothing": 0.1}
        theirs = {"mask": torch.tensor(mask), "dropout": torch.tensor(dropout)}
        loss = {"weight": torch.tensor(omega), "label_smoothing": 0.1}
    leaves = {name: torch.tensor(x, requires_grad=True) for name, x in t.items() if x is not None}
    if bias is not None:
        leaves["bias"] = torch.tensor(bias, requires_grad=True)
        theirs["bias"] = leaves["bias"]
    W = {name: leaves[f"W_{name}"] for name in "QKVO"}
    c = {name: leaves[f"c_{name}"] for name in "QKVO"}
    wanted = block_loss(
        leaves["x"],
        leaves["y"] if cross else leaves["x"],
        W,
        c,
        torch.tensor(targets),
        heads=heads,
        groups=groups,
        **theirs,
        **loss,
    )
    wanted.backward()
    got = bg.attention_block_gradients(**t, targets=targets, bias=bias, heads=heads, kv_heads=groups, **ours)
    close(got.loss, wanted.item())
    for name, leaf in leaves.items():
        close(getattr(got, name), leaf.grad.numpy())
    assert (got.y is None) is not cross
    assert got.attention is None


def test_the_same_on_every_backend(xp):
    t, targets, rng = draw(0, heads=6, groups=2, cross=True)
    mask = rng.random((*LEAD, 1, N, M)) < 0.7
    mask[0, 0, 2] = False
    options = {"heads": 6, "kv_heads": 2, "intermediates": True}
    wanted = bg.attention_block_gradients(**t, targets=targets, mask=mask, **options)
    got = bg.attention_block_gradients(
        **{name: None if x is None else xp(x) for name, x in t.items()}, targets=xp(targets), mask=xp(mask), **options
    )
    for name in ("loss", "x", "y", "W_Q", "W_K", "W_V", "W_O", "c_Q", "c_V", "c_O", "scale"):
        close(getattr(got, name), getattr(wanted, name))
    assert type(got.W_Q) is type(xp(t["W_Q"]))
    close(got.attention.upstream, wanted.attention.upstream)


def test_the_intermediate_objects_are_those_of_the_parts():
    t, targets, _ = draw(1, heads=2, groups=1, cross=False, lead=())
    got = bg.attention_block_gradients(**t, targets=targets, heads=2, kv_heads=1, intermediates=True)
    between = got.attention
    made = bg.attention(between.queries, between.keys, between.values)
    close(between.attention.context, made.context)
    again = bg.attention_gradients(between.queries, between.keys, between.values, between.upstream)
    for name in ("weights", "scores", "values", "queries", "keys", "scale"):
        close(getattr(between.gradients, name), getattr(again, name))
    r = bg.cross_entropy(between.logits, targets).logit_gradient
    close(between.logit_gradient, r)
    close(between.upstream, bg.split_heads(r @ t["W_O"].T, 2))


def test_padding_full_of_nan_never_matters():
    t, targets, _ = draw(2, heads=3, groups=3, cross=False)
    visible = np.arange(N) < N - 1
    mask = visible[:, None] & visible
    targets[..., -1] = -100
    clean = bg.attention_block_gradients(**t, targets=targets, mask=mask, heads=3)
    t["x"][..., -1, :] = np.nan
    got = bg.attention_block_gradients(**t, targets=targets, mask=mask, heads=3)
    for name, x in clean._asdict().items():
        if x is not None:
            close(getattr(got, name), x)


def test_a_nan_that_somebody_sees_is_not_lost():
    t, targets, _ = draw(3, heads=1, groups=1, cross=False)
    t["x"][0, 0, 0] = np.nan
    got = bg.attention_block_gradients(**t, targets=targets)
    assert np.isnan(got.loss)
    assert np.isnan(got.W_V).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 4}, "heads: got 4, expected a divisor"),
        ({"heads": 0}, "heads: got 0"),
        ({"kv_heads": 4}, "kv_heads: got 4, expected a divisor of heads = 3"),
        ({"W_K": np.ones((D_X, 5))}, "W_K: got shape"),
        ({"W_O": np.ones((2, 5))}, "W_O: got shape"),
        ({"c_V": np.ones(5)}, "c_V: got shape"),
        ({"mask": np.ones((N, N + 1), dtype=bool)}, "mask: got shape"),
        ({"targets": np.ones((N,), dtype=int)}, "targets: got shape"),
        ({"y": np.ones((1, M, D_X))}, "y: got shape"),
    ],
)
def test_bad_shapes_are_named(change, message):
    t, targets, _ = draw(4, heads=3, groups=3, cross=False)
    with pytest.raises(ValueError, match=message):
        bg.attention_block_gradients(**({**t, "targets": targets, "heads": 3} | change))
