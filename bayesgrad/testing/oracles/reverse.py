"""Reverse mode: PyTorch autograd on explicit operations in float64.

Explicit, because the fused kernel behind scaled_dot_product_attention has no double backward and edge cases of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..examples import Array, Head, Logits


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
