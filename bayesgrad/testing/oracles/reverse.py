"""Reverse mode: PyTorch autograd on explicit operations in float64.

Explicit, because the fused kernel behind scaled_dot_product_attention has no double backward and edge cases of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bayesgrad.testing.examples import Array, Head, Layer, Logits


def _leaf(x: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(x, dtype=np.float64), requires_grad=True)


def run_head(head: Head) -> dict[str, torch.Tensor]:
    """Every stage of a head as a tensor of one graph, and L = sum u g."""
    q, k, v, bias = _leaf(head.q), _leaf(head.k), _leaf(head.v), _leaf(np.zeros(head.visible.shape))
    scale = _leaf(head.the_scale)
    given = 0.0 if head.bias is None else torch.from_numpy(head.bias)
    visible = torch.from_numpy(head.visible)
    s = scale * (q @ k.mT) + given + bias
    top = torch.where(visible, s, -torch.inf).amax(-1, keepdim=True).detach()
    e = torch.exp(torch.where(visible, s - top, -torch.inf))
    a = e / e.sum(-1, keepdim=True)
    g = (a * torch.from_numpy(head.multiplier)) @ v
    loss = (g * torch.from_numpy(head.u)).sum()
    return {"q": q, "k": k, "v": v, "bias": bias, "scale": scale, "s": s, "a": a, "g": g, "L": loss}


def gradients(head: Head, *names: str) -> dict[str, Array]:
    """dL/d(name) for the named stages or parameters, L = sum u g."""
    graph = run_head(head)
    found = torch.autograd.grad(graph["L"], [graph[name] for name in names], allow_unused=True)
    return {
        name: np.zeros(tuple(graph[name].shape)) if g is None else g.numpy()
        for name, g in zip(names, found, strict=True)
    }


def softmax_jacobian(head: Head) -> Array:
    """da_ij / ds_lk as an array (i, j, l, k), one backward pass an output."""
    graph = run_head(head)
    a, s = graph["a"], graph["s"]
    rows = [torch.autograd.grad(entry, s, retain_graph=True)[0] for entry in a.reshape(-1)]
    return torch.stack(rows).reshape(*a.shape, *s.shape).numpy()


def cross_entropy(logits: Logits) -> dict[str, Array]:
    """PyTorch's own loss in float64 and its gradient in the logits."""
    z = _leaf(logits.z)
    loss = torch.nn.functional.cross_entropy(
        z,
        torch.from_numpy(logits.targets),
        weight=None if logits.class_weights is None else torch.from_numpy(logits.class_weights),
        reduction=logits.reduction,
        label_smoothing=logits.label_smoothing,
        ignore_index=-100,
    )
    (gradient,) = torch.autograd.grad(loss, z)
    return {"L": loss.detach().numpy(), "z": gradient.numpy()}


PARAMETERS = ("x", "y", "W_Q", "W_K", "W_V", "W_O", "c_Q", "c_K", "c_V", "c_O")


def run_layer(layer: Layer) -> dict[str, torch.Tensor]:
    """Every stage of a layer as a tensor of one graph; q, k, v, g have their heads side by side."""
    part = {name: _leaf(getattr(layer, name)) for name in ("x", "W_Q", "W_K", "W_V", "W_O")}
    part |= {name: _leaf(layer.bias(name)) for name in ("c_Q", "c_K", "c_V", "c_O")}
    part["y"] = part["x"] if layer.y is None else _leaf(layer.y)
    H, G = layer.heads, layer.kv_heads
    q = part["x"] @ part["W_Q"] + part["c_Q"]
    k = part["y"] @ part["W_K"] + part["c_K"]
    v = part["y"] @ part["W_V"] + part["c_V"]
    by_head = [t.unflatten(-1, (count, -1)).movedim(-2, 0) for t, count in ((q, H), (k, G), (v, G))]
    keys, values = (t.repeat_interleave(H // G, dim=0) for t in by_head[1:])
    s = layer.the_scale * (by_head[0] @ keys.mT)
    s = s if layer.beta is None else s + torch.from_numpy(layer.beta)
    s = torch.where(torch.from_numpy(layer.visible), s, -torch.inf)
    e = torch.exp(s - s.amax(-1, keepdim=True).detach())
    a = e / e.sum(-1, keepdim=True)
    used = a if layer.dropout is None else a * torch.from_numpy(layer.dropout)
    g = (used @ values).movedim(0, -2).flatten(-2)
    z = g @ part["W_O"] + part["c_O"]
    loss = torch.nn.functional.cross_entropy(z, torch.from_numpy(layer.targets), reduction=layer.reduction)
    return {**part, "q": q, "k": k, "v": v, "s": s, "a": a, "g": g, "z": z, "L": loss}


def layer_gradients(layer: Layer, *names: str) -> dict[str, Array]:
    """dL/d(name) for the named stages and parameters of a layer."""
    graph = run_layer(layer)
    found = torch.autograd.grad(graph["L"], [graph[name] for name in names], allow_unused=True)
    return {
        name: np.zeros(tuple(graph[name].shape)) if g is None else g.numpy()
        for name, g in zip(names, found, strict=True)
    }
