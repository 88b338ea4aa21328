"""The one-sweep form equals its dense twin: every tile size, alignment, mask, grouping and loss, NumPy and PyTorch."""

from __future__ import annotations

import tracemalloc

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesgrad as bg
from bayesgrad import fused

BACKENDS = {"numpy": np.asarray, "torch": lambda x: torch.as_tensor(np.array(x))}


def draw(rng, n, m, heads, groups, lead, *, cross, biases):
    d_x, d_y, d_k, d_v, C = 3, 4 if cross else 3, 2, 5, 6
    t = {
        "x": rng.normal(size=(*lead, n, d_x)),
        "W_Q": rng.normal(size=(d_x, heads * d_k)),
        "W_K": rng.normal(size=(d_y, groups * d_k)),
        "W_V": rng.normal(size=(d_y, groups * d_v)),
        "W_O": rng.normal(size=(heads * d_v, C)),
    }
    if cross:
        t["y"] = rng.normal(size=(*lead, m, d_y))
    if biases:
        sizes = {"c_Q": heads * d_k, "c_K": groups * d_k, "c_V": groups * d_v, "c_O": C}
        t |= {name: rng.normal(size=size) for name, size in sizes.items()}
    targets = rng.integers(0, C, size=(*lead, n))
    targets[rng.random(targets.shape) < 0.2] = -100
    return t, targets


def same(got, wanted, skip=()):
    for name, x in wanted._asdict().items():
        if name in ("attention", *skip):
            continue
        if x is None:
            assert getattr(got, name) is None
        else:
            np.testing.assert_allclose(np.asarray(getattr(got, name)), np.asarray(x), rtol=1e-9, atol=1e-12)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 7),
    m=st.integers(0, 7),
    lead=st.sampled_from([(), (2,), (0,), (2, 1)]),
    shape=st.sampled_from([(1, 1), (2, 2), (4, 2), (3, 1)]),
    causal=st.sampled_from([None, "upper-left", "lower-right"]),
    mask=st.sampled_from([None, "pairs", "padding", "batch", "every", "heads", "heads of examples"]),
    tile=st.integers(1, 8),
    flags=st.sets(st.sampled_from(["cross", "biases", "weights", "smoothing", "soft", "sum", "scale"])),
    backend=st.sampled_from(list(BACKENDS)),
)
def test_equal_to_the_dense_form(seed, n, m, lead, shape, causal, mask, tile, flags, backend):
    rng = np.random.default_rng(seed)
    cross = "cross" in flags
    keys = m if cross else n
    t, targets = draw(rng, n, keys, *shape, lead, cross=cross, biases="biases" in flags)
    xp = BACKENDS[backend]
    options = {"heads": shape[0], "kv_heads": shape[1]}
    if "weights" in flags:
        options["class_weights"] = xp(rng.random(6) + 0.1)
    if "smoothing" in flags:
        options["label_smoothing"] = 0.2
    if "soft" in flags:
        targets = rng.random((*targets.shape, 6))
    if "sum" in flags:
        options["reduction"] = "sum"
    if "scale" in flags:
        options["scale"] = -0.7
    shapes = {
        "pairs": (n, keys),
        "padding": (*lead, 1, 1, keys),
        "batch": (*lead, 1, n, keys),
        "every": (keys,),
        "heads": (shape[0], n, keys),
        "heads of examples": (*lead, shape[0], 1, keys),
    }
    given_mask = None if mask is None else rng.random(shapes[mask]) < 0.7
    pairs = (*lead, shape[0], n, keys)
    full = np.ones((n, keys), dtype=bool) if given_mask is None else np.broadcast_to(given_mask, pairs)
    if causal:
        full = full & bg.causal_mask(n, keys, align=causal)
    arrays = {name: xp(x) for name, x in t.items()} | {"targets": xp(targets)}
    wanted = bg.attention_block_gradients(**arrays, mask=xp(np.array(full)), **options)
    got = fused.attention_block_gradients(
        **arrays, causal=causal, mask=None if given_mask is None else xp(given_mask), tile=tile, **options
    )
    same(got, wanted)
    assert type(got.W_Q) is type(wanted.W_Q)
    assert got.W_Q.dtype == wanted.W_Q.dtype


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_padding_full_of_nan_never_matters(backend):
    xp, rng = BACKENDS[backend], np.random.default_rng(0)
    t, targets = draw(rng, 6, 6, 2, 1, (2,), cross=False, biases=True)
    real = np.arange(6) < 4
    targets[..., ~real] = -100
    mask = real[:, None] & real
    clean = bg.attention_block_gradients(**t, targets=targets, mask=mask, heads=2, kv_heads=1)
    t["x"][:, ~real] = np.nan
    for tile in (1, 3, 6):
        arrays = {name: xp(x) for name, x in t.items()} | {"targets": xp(targets)}
        same(fused.attention_block_gradients(**arrays, mask=xp(mask), heads=2, kv_heads=1, tile=tile), clean)


def test_nan_that_somebody_sees_is_not_lost():
    t, targets = draw(np.random.default_rng(0), 6, 6, 1, 1, (), cross=False, biases=False)
    targets[:] = 0
    t["x"][2, 0] = np.nan
    got = fused.attention_block_gradients(**t, targets=targets, causal="upper-left", tile=2)
    assert np.isnan(got.loss)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_accumulate_in_thirty_two(dtype):
    t, targets = draw(np.random.default_rng(1), 40, 40, 2, 2, (), cross=False, biases=True)
    half = {name: torch.tensor(x).to(dtype) for name, x in t.items()}
    got = fused.attention_block_gradients(**half, targets=torch.tensor(targets), heads=2, causal="upper-left", tile=16)
    mask = torch.tensor(bg.causal_mask(40, 40, align="upper-left"))
    wanted = bg.attention_block_gradients(**half, targets=torch.tensor(targets), heads=2, mask=mask)
    for name, x in wanted._asdict().items():
        if x is not None:
            ours = getattr(got, name)
            assert ours.dtype == dtype
            # One unit of the narrow dtype at the size of the array: both round the same wide sums.
            worst = (ours.float() - x.float()).abs().max()
            assert worst <= 2 * torch.finfo(dtype).eps * x.float().abs().max() + 1e-6  # c_K is 0 up to float32


def test_no_graph_and_no_write_to_the_inputs():
    t, targets = draw(np.random.default_rng(2), 9, 9, 1, 1, (), cross=False, biases=True)
    leaves = {name: torch.tensor(x, requires_grad=True) for name, x in t.items()}
    got = fused.attention_block_gradients(**leaves, targets=torch.tensor(targets), tile=4)
    assert not got.W_Q.requires_grad
    for name, x in t.items():
        assert np.array_equal(leaves[name].detach().numpy(), x)
        x.flags.writeable = False
    fused.attention_block_gradients(**t, targets=targets, tile=4)


def test_memory_is_linear_in_the_sequence():
    """Twice the positions cost at most about twice the memory; one n x n array alone would be 32 MiB here."""
    rng = np.random.default_rng(3)

    def peak(n):
        t, targets = draw(rng, n, n, 1, 1, (), cross=False, biases=False)
        tracemalloc.start()
        fused.attention_block_gradients(**t, targets=targets, causal="upper-left", tile=16)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    small, large = peak(1024), peak(2048)
    assert large < 2.2 * small
    assert large < 2048 * 2048 * 8 / 8


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"causal": True}, TypeError, "causal: got bool"),
        ({"causal": "left"}, ValueError, "causal: got 'left'"),
        ({"reduction": "none"}, ValueError, "reduction: got 'none'"),
        ({"tile": 0}, ValueError, "tile: got 0"),
        ({"mask": np.ones((3, 3), dtype=bool)}, ValueError, "mask: got shape"),
        ({"W_O": np.ones((2, 2))}, ValueError, "W_O: got shape"),
        ({"targets": np.full(6, 6)}, ValueError, "targets: got 6"),
    ],
)
def test_bad_arguments_are_named(change, error, message):
    t, targets = draw(np.random.default_rng(4), 6, 6, 1, 1, (), cross=False, biases=False)
    with pytest.raises(error, match=message):
        fused.attention_block_gradients(**(t | {"targets": targets} | change))


def test_another_library_is_named():
    t, targets = draw(np.random.default_rng(4), 6, 6, 1, 1, (), cross=False, biases=False)
    arrays = {name: array_api_strict.asarray(x) for name, x in t.items()}
    with pytest.raises(TypeError, match="x: got Array, expected a NumPy array or a PyTorch tensor"):
        fused.attention_block_gradients(**arrays, targets=array_api_strict.asarray(targets))
