"""Whole layers against autograd over the same layer written in plain PyTorch, dense and tiled."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

import bayesgrad as bg
from bayesgrad import transformer_block
from bayesgrad.torch import from_torch
from bayesgrad.transformer_block import AttentionParameters, BlockParameters, LayerOptions
from tests.reference import attend

F = torch.nn.functional
LEAD, N, D, H, G, D_K, D_V, HIDDEN = (2,), 5, 8, 4, 2, 6, 3, 7
KINDS = {
    "llama": LayerOptions(heads=H, kv_heads=G, causal="upper-left", rotary="halves", eps=1e-6),
    "qwen": LayerOptions(heads=H, kv_heads=G, causal="upper-left", rotary="halves", eps=1e-6),
    "gpt-j": LayerOptions(
        heads=H, kv_heads=G, causal="upper-left", rotary="pairs", norm="layer", activation="gelu_tanh"
    ),
    "gpt-2": LayerOptions(heads=H, kv_heads=H, causal="upper-left", norm="layer", activation="gelu_tanh"),
    "gemma": LayerOptions(
        heads=H, kv_heads=1, causal="upper-left", rotary="halves", soft_cap=1.5, activation="gelu_tanh"
    ),
}


def draw(kind, seed=0):
    rng, o = np.random.default_rng(seed), KINDS[kind]
    groups = o.kv_heads

    def random(*shape):
        return rng.normal(size=shape) / np.sqrt(shape[0])

    biases = {}
    if kind == "gpt-2":
        biases = {"c_Q": random(H * D_K), "c_K": random(groups * D_K), "c_V": random(groups * D_V), "c_O": random(D)}
    norms = {"q_norm": random(D_K) + 1, "k_norm": random(D_K) + 1} if kind == "qwen" else {}
    attention = AttentionParameters(
        random(D, H * D_K), random(D, groups * D_K), random(D, groups * D_V), random(H * D_V, D), **biases, **norms
    )
    more = {"W_gate": random(D, HIDDEN)} if o.norm == "rms" else {"c_1": random(HIDDEN), "c_2": random(D)}
    if o.norm == "layer":
        more |= {"beta_1": random(D), "beta_2": random(D)}
    block = BlockParameters(attention, random(D) + 1, random(D) + 1, random(D, HIDDEN), random(HIDDEN, D), **more)
    return rng, block, random(*LEAD, N, D) * 2, random(*LEAD, N, D), o


def leaves_of(block):
    own = {f.name: getattr(block, f.name) for f in fields(block) if f.name != "attention"}
    own |= {f.name: getattr(block.attention, f.name) for f in fields(block.attention)}
    return {name: torch.tensor(x, requires_grad=True) for name, x in own.items() if x is not None}


def turned(x, layout):
    """Rotary embedding from its complex definition."""
    d = x.shape[-1]
    angle = torch.arange(x.shape[-2]).double()[:, None] * 10000.0 ** (-2 * torch.arange(d // 2).double() / d)
    one, two = (x[..., : d // 2], x[..., d // 2 :]) if layout == "halves" else (x[..., 0::2], x[..., 1::2])
    z = torch.complex(one, two) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((z.real, z.imag), -1) if layout == "halves" else torch.stack((z.real, z.imag), -1).flatten(-2)


def plain(x, t, o, mask):
    """The same block in plain PyTorch."""

    def norm(x, number):
        if o.norm == "rms":
            return F.rms_norm(x, (D,), t[f"norm_{number}"], eps=o.eps)
        return F.layer_norm(x, (D,), t[f"norm_{number}"], t[f"beta_{number}"], eps=o.eps)

    def heads(x, name, count):
        out = x @ t[f"W_{name}"] + t.get(f"c_{name}", 0.0)
        return out.unflatten(-1, (count, -1)).transpose(-2, -3)

    y = norm(x, 1)
    q, k, v = heads(y, "Q", H), heads(y, "K", o.kv_heads), heads(y, "V", o.kv_heads)
    if "q_norm" in t:
        q, k = F.rms_norm(q, (D_K,), t["q_norm"], eps=o.eps), F.rms_norm(k, (D_K,), t["k_norm"], eps=o.eps)
    if o.rotary:
        q, k = turned(q, o.rotary), turned(k, o.rotary)
    k, v = (z.repeat_interleave(H // o.kv_heads, -3) for z in (k, v))
    if o.soft_cap is None:
        g = attend(q, k, v, mask=mask)
    else:
        s = o.soft_cap * torch.tanh(q @ k.mT / D_K**0.5 / o.soft_cap)
        g = torch.where(mask, s.masked_fill(~mask, -1e30).softmax(-1), 0.0) @ v
    h = x + g.transpose(-2, -3).flatten(-2) @ t["W_O"] + t.get("c_O", 0.0)
    y = norm(h, 2)
    phi = F.silu if o.activation == "silu" else lambda z: F.gelu(z, approximate="tanh")
    if "W_gate" in t:
        return h + (phi(y @ t["W_gate"]) * (y @ t["W_1"])) @ t["W_2"]
    return h + phi(y @ t["W_1"] + t["c_1"]) @ t["W_2"] + t["c_2"]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    ("kind", "method"), [*((k, "dense") for k in KINDS), *((k, "tiled") for k, o in KINDS.items() if not o.soft_cap)]
)
def test_a_whole_block_equals_autograd(kind, method, padded):
    _, block, x, upstream, o = draw(kind)
    causal = torch.ones(N, N, dtype=torch.bool).tril()
    mask = None
    if padded:  # left padding: the first two positions of the first example see nothing
        mask = (np.arange(N) >= np.asarray([[2], [0]]))[:, None, None]
        causal = causal & torch.tensor(mask)
    t, leaf = leaves_of(block), torch.tensor(x, requires_grad=True)
    out = plain(leaf, t, o, causal)
    (out * torch.tensor(upstream)).sum().backward()
    got = bg.transformer_block_gradients(
        x, block, upstream=upstream, options=replace(o, method=method, mask=mask, tile=2)
    )
    np.testing.assert_allclose(got.output, out.detach(), atol=1e-12)
    np.testing.assert_allclose(got.x, leaf.grad, atol=1e-11)
    assert set(got.parameters) == set(t)
    for name, wanted in t.items():
        np.testing.assert_allclose(got.parameters[name], wanted.grad, atol=1e-11, err_msg=name)


def test_padding_full_of_nan_takes_no_part():
    _, block, x, upstream, o = draw("llama")
    o = replace(o, mask=(np.arange(N) >= np.asarray([[2], [0]]))[:, None, None])
    upstream[0, :2] = 0
    clean = bg.transformer_block_gradients(x, block, upstream=upstream, options=o)
    x[0, :2] = np.nan
    got = bg.transformer_block_gradients(x, block, upstream=upstream, options=o)
    for name, wanted in clean.parameters.items():
        np.testing.assert_allclose(got.parameters[name], wanted, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(got.x, clean.x, atol=1e-12)


def test_the_read_out_block_is_one_case():
    rng = np.random.default_rng(1)
    x, targets = rng.normal(size=(2, N, D)), rng.integers(0, 6, size=(2, N))
    W = [rng.normal(size=s) for s in ((D, 8), (D, 4), (D, 6), (12, 6))]
    wanted = bg.attention_block_gradients(x, *W, targets, heads=4, kv_heads=2)
    options = LayerOptions(heads=4, kv_heads=2)
    got = bg.attention_layer_gradients(x, AttentionParameters(*W), targets=targets, options=options)
    np.testing.assert_allclose(got.others["loss"], wanted.loss, atol=1e-12)
    np.testing.assert_allclose(got.x, wanted.x, atol=1e-12)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        np.testing.assert_allclose(got.parameters[name], getattr(wanted, name), atol=1e-12)


@pytest.mark.parametrize("cross", [False, True])
def test_a_multihead_attention_module_equals_its_autograd(cross):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(
        8, 2, kdim=5 if cross else None, vdim=5 if cross else None, batch_first=True
    ).double()
    x, y = torch.randn(3, 4, 8).double().requires_grad_(), torch.randn(3, 6, 5).double().requires_grad_()
    source = y if cross else x
    ignored = torch.rand(4, source.shape[1]) < 0.3
    ignored[:, 0] = False
    out, _ = module(x, source, source, attn_mask=ignored)
    upstream = torch.randn_like(out)
    (out * upstream).sum().backward()
    with torch.inference_mode():
        parameters, heads = from_torch(module)
        options = LayerOptions(heads=heads, mask=~ignored)
        got = bg.attention_layer_gradients(
            x.detach(), parameters, upstream=upstream, y=y.detach() if cross else None, options=options
        )
    torch.testing.assert_close(got.output, out.detach())
    torch.testing.assert_close(got.x, x.grad)
    if cross:
        torch.testing.assert_close(got.others["y"], y.grad)
        weights = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
    else:
        weights = list(module.in_proj_weight.grad.chunk(3))
    for name, w in zip("QKV", weights, strict=True):
        torch.testing.assert_close(got.parameters[f"W_{name}"], (w.grad if cross else w).mT)
    torch.testing.assert_close(got.parameters["W_O"], module.out_proj.weight.grad.mT)
    torch.testing.assert_close(got.parameters["c_V"], module.in_proj_bias.grad[16:])


def test_a_bias_and_a_sink_of_a_layer():
    rng = np.random.default_rng(2)
    x, d = rng.normal(size=(2, N, D)), rng.normal(size=(2, N, 3))
    p = AttentionParameters(*(rng.normal(size=s) for s in ((D, 8), (D, 8), (D, 8), (8, 3))))
    bias, sink = rng.normal(size=(4, N, N)), rng.normal(size=(4, 1))

    def loss(bias, sink):
        options = LayerOptions(heads=4, bias=bias, sink=sink)
        return (bg.attention_layer_gradients(x, p, upstream=d, options=options).output * d).sum()

    got = bg.attention_layer_gradients(x, p, upstream=d, options=LayerOptions(heads=4, bias=bias, sink=sink))
    step, h = rng.normal(size=bias.shape), 1e-6
    assert (loss(bias + h * step, sink) - loss(bias - h * step, sink)) / (2 * h) == pytest.approx(
        (got.others["bias"] * step).sum(), rel=1e-6
    )
    step = rng.normal(size=sink.shape)
    assert (loss(bias, sink + h * step) - loss(bias, sink - h * step)) / (2 * h) == pytest.approx(
        (got.others["sink"] * step).sum(), rel=1e-6
    )


def test_a_layer_goes_through_vmap():
    rng, block, _, _, o = draw("llama")
    as_tensors = {f.name: getattr(block.attention, f.name) for f in fields(block.attention)}
    p = AttentionParameters(**{name: None if x is None else torch.tensor(x) for name, x in as_tensors.items()})
    x, d = torch.tensor(rng.normal(size=(3, N, D))), torch.tensor(rng.normal(size=(3, N, D)))
    each = torch.func.vmap(lambda x, d: bg.attention_layer_gradients(x, p, upstream=d, options=o))(x, d)
    for i in range(3):
        one = bg.attention_layer_gradients(x[i], p, upstream=d[i], options=o)
        torch.testing.assert_close(each.x[i], one.x)
        torch.testing.assert_close(each.parameters["W_K"][i], one.parameters["W_K"])


def test_bad_layers_are_named():
    _, block, x, _, o = draw("llama")
    p = block.attention
    for call, message in {
        lambda: bg.attention_layer_gradients(x, p): "^upstream: got neither of upstream and targets",
        lambda: bg.attention_layer_gradients(x, p, upstream=x, targets=x): "^upstream: got both",
        lambda: bg.attention_layer_gradients(
            x, block, upstream=x
        ): "^parameters: got BlockParameters, expected Attention",
        lambda: bg.attention_layer_gradients(x, p, upstream=x, options={}): "^options: got dict, expected LayerOptions",
        lambda: bg.attention_layer_gradients(x, p, upstream=x[0], options=o): "^upstream: got shape",
        lambda: bg.attention_layer_gradients(x, p, upstream=x): "^W_K: got shape",
        lambda: bg.transformer_block_gradients(x, p, upstream=x, options=o): "^parameters: got AttentionParameters",
        lambda: bg.transformer_block_gradients(
            x, block, upstream=x, options=replace(o, soft_cap=2.0, method="tiled")
        ): '^soft_cap: got one with method="tiled"',
        lambda: bg.transformer_block_gradients(
            x, replace(block, beta_1=x[0, 0]), upstream=x, options=o
        ): '^beta_1: got one with norm="rms"',
        lambda: bg.transformer_block_gradients(
            x, block, upstream=x, options=replace(o, mask=np.ones((2, N, N), bool))
        ): r"^mask: got shape .* one for each example is mask\[:, None\]",
    }.items():
        with pytest.raises((TypeError, ValueError), match=message):
            call()
    assert transformer_block.METHODS == ("dense", "tiled")
