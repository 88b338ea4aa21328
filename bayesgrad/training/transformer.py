r"""A small transformer as plain functions: each part can be left out, so that its share can be seen.

.. math:: h^{(0)} = E[\text{token}] + P_t, \qquad h \leftarrow h + \mathrm{Attn}(\mathrm{norm}(h)), \qquad
          h \leftarrow h + \mathrm{MLP}(\mathrm{norm}(h)), \qquad z = \mathrm{norm}(h)\, W_{out}

Pre-norm. ``residual=False`` drops the "h +", ``norm=False`` the norms, ``mlp=0`` the second update. Positions: "none",
"learned" (P added to the embedding; positions beyond the trained length have none), "rotary" (queries and keys of a
head turned by an angle that grows with the position). Parameters are one flat dictionary, as for the one-head model.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bayesgrad.training.config import Config, Transformer
from bayesgrad.training.data import WEIGHTS, generator
from bayesgrad.training.model import Parameters


def initial_parameters(config: Config, seed: int) -> Parameters:
    """Normal weights: 0.5 for the token embedding, 0.02 elsewhere as usual; gains 1 and biases 0."""
    task, c = config.task, config.model
    rng = generator(seed, WEIGHTS)
    dtype = getattr(torch, config.dtype)

    def normal(*shape: int, std: float = 0.02) -> Tensor:
        return torch.tensor(std * rng.standard_normal(shape), dtype=dtype)

    def norm(name: str) -> Parameters:
        if not c.norm:
            return {}
        return {f"{name}.gain": torch.ones(c.width, dtype=dtype), f"{name}.bias": torch.zeros(c.width, dtype=dtype)}

    out: Parameters = {"embedding": normal(task.vocabulary, c.width, std=0.5)}
    if c.positions == "learned":
        out["positions"] = normal(task.context, c.width)
    for layer in range(c.layers):
        name = f"layer{layer}"
        out |= norm(f"{name}.norm1")
        for matrix in ("W_Q", "W_K", "W_V", "W_O"):
            out[f"{name}.{matrix}"] = normal(c.width, c.width)
        if c.mlp:
            out |= norm(f"{name}.norm2")
            hidden = c.mlp * c.width
            out[f"{name}.W_in"], out[f"{name}.b_in"] = normal(c.width, hidden), torch.zeros(hidden, dtype=dtype)
            out[f"{name}.W_out"], out[f"{name}.b_out"] = normal(hidden, c.width), torch.zeros(c.width, dtype=dtype)
    out |= norm("norm")
    out["read_out"] = normal(c.width, task.classes)
    return out


@lru_cache(maxsize=8)
def _angles(n: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    frequency = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * frequency
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Tensor) -> Tensor:
    """Turn the pairs of features (i, i + width/2) of each position by its angles; norms and relative phases stay."""
    cos, sin = _angles(x.shape[-2], x.shape[-1], x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


def forward(parameters: Parameters, tokens: Tensor, c: Transformer, *, look: bool = False) -> tuple[Tensor, Any]:
    """h after the last norm (B, n, width), and on request [(a (B, H, n, n), v (B, H, n, d))] of each layer."""
    p = parameters
    seen: list[tuple[Tensor, Tensor]] = []

    def normed(h: Tensor, name: str) -> Tensor:
        return F.layer_norm(h, (c.width,), p[f"{name}.gain"], p[f"{name}.bias"]) if c.norm else h

    def heads(h: Tensor) -> Tensor:
        return h.unflatten(-1, (c.heads, -1)).transpose(-3, -2)

    h = p["embedding"][tokens]
    if c.positions == "learned":
        h = h + p["positions"][: tokens.shape[-1]]
    for layer in range(c.layers):
        name = f"layer{layer}"
        x = normed(h, f"{name}.norm1")
        q, k, v = (heads(x @ p[f"{name}.{matrix}"]) for matrix in ("W_Q", "W_K", "W_V"))
        if c.positions == "rotary":
            q, k = rotate(q), rotate(k)
        if look:
            hidden = ~torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
            scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
            a = torch.softmax(scores, dim=-1)
            seen.append((a, v))
            g = a @ v
        else:
            g = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        update = g.transpose(-3, -2).flatten(-2) @ p[f"{name}.W_O"]
        h = h + update if c.residual else update
        if c.mlp:
            x = normed(h, f"{name}.norm2")
            inner = F.gelu(torch.addmm(p[f"{name}.b_in"], x.flatten(0, -2), p[f"{name}.W_in"]))
            update = torch.addmm(p[f"{name}.b_out"], inner, p[f"{name}.W_out"]).view_as(x)
            h = h + update if c.residual else update
    return normed(h, "norm"), seen


def logits(parameters: Parameters, tokens: Tensor, c: Transformer) -> Tensor:
    """Logits (B, L, C) at the supervised positions 0, 2, 4, .."""
    h, _ = forward(parameters, tokens, c)
    return h[..., 0::2, :] @ parameters["read_out"]


def look(parameters: Parameters, tokens: Tensor, c: Transformer) -> list[tuple[Tensor, Tensor]]:
    """Weights and values of every layer, by explicit operations."""
    seen: list[tuple[Tensor, Tensor]] = forward(parameters, tokens, c, look=True)[1]
    return seen
