r"""A small transformer as plain functions: each part can be left out, so that its share can be seen.

.. math:: h^{(0)} = E[\text{token}] + P_t, \qquad h \leftarrow h + \mathrm{Attn}(\mathrm{norm}(h)), \qquad
          h \leftarrow h + \mathrm{MLP}(\mathrm{norm}(h)), \qquad z = \mathrm{norm}(h)\, W_{out}

Pre-norm. ``residual=False`` drops the "h +", ``norm=False`` the norms, ``mlp=0`` the second update. Positions: "none",
"learned" (P added to the embedding; positions beyond the trained length keep their start), "rotary" (queries and keys
of a head turned by an angle that grows with the position). Layers from ``attention_layers`` on have no attention.
Tokens are ids, or rows of features (then E[token] is features times E). Parameters are one flat dictionary, as for the
one-head model.
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


def attending(c: Transformer) -> int:
    """How many layers, the lowest, have attention."""
    return c.layers if c.attention_layers is None else c.attention_layers


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
        if layer < attending(c):
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
def _angles(n: int, width: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    frequency = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * frequency
    return angle.cos().to(device, dtype), angle.sin().to(device, dtype)


def rotate(x: Tensor, n: int | None = None, at: slice = slice(None)) -> Tensor:
    """Turn the pairs of features (i, i + width/2) of each position by its angles; norms and relative phases stay.
    ``x`` holds the positions ``at`` of ``n`` (all of them unless told)."""
    cos, sin = (table[at] for table in _angles(n or x.shape[-2], x.shape[-1], x.dtype, x.device))
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


ALL = slice(None)


def embed(table: Tensor, tokens: Tensor) -> Tensor:
    """E[token] for ids (..., n), features times E for rows of features (..., n, F)."""
    return tokens @ table if tokens.is_floating_point() else table[tokens]


def forward(
    parameters: Parameters, tokens: Tensor, c: Transformer, *, only: slice = ALL, look: bool = False
) -> tuple[Tensor, Any]:
    """h after the last norm (B, n, width), and on request [(a (B, H, n, n), v (B, H, n, d))] of each layer.

    With ``only`` nothing is computed at positions that nobody asks about: from the last attention on, queries and MLPs
    are those of ``only``, and h has their positions alone.
    """
    p, n = parameters, tokens.shape[1]
    seen: list[tuple[Tensor, Tensor]] = []

    def normed(h: Tensor, name: str) -> Tensor:
        return F.layer_norm(h, (c.width,), p[f"{name}.gain"], p[f"{name}.bias"]) if c.norm else h

    def heads(h: Tensor) -> Tensor:
        return h.unflatten(-1, (c.heads, -1)).transpose(-3, -2)

    def attention(x: Tensor, name: str, at: slice) -> Tensor:
        q, k, v = (heads(y @ p[f"{name}.{matrix}"]) for matrix, y in (("W_Q", x[:, at]), ("W_K", x), ("W_V", x)))
        if c.positions == "rotary":
            q, k = rotate(q, n, at), rotate(k, n)
        visible = None if at == ALL else _visible(n, at.start, at.step, x.device)
        if look:
            mask = _visible(n, None, None, x.device) if visible is None else visible
            a = torch.softmax((q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf), dim=-1)
            seen.append((a, v))
            g = a @ v
        else:
            g = F.scaled_dot_product_attention(q, k, v, visible, is_causal=visible is None)
        return g.transpose(-3, -2).flatten(-2) @ p[f"{name}.W_O"]

    h = embed(p["embedding"], tokens)
    if c.positions == "learned":
        h = h + p["positions"][:n]
    if not attending(c):
        h = h[:, only]
    for layer in range(c.layers):
        name = f"layer{layer}"
        if layer < attending(c):
            at = only if layer == attending(c) - 1 else ALL
            update = attention(normed(h, f"{name}.norm1"), name, at)
            h = h[:, at] + update if c.residual else update
        if c.mlp:
            x = normed(h, f"{name}.norm2")
            inner = F.gelu(torch.addmm(p[f"{name}.b_in"], x.flatten(0, -2), p[f"{name}.W_in"]))
            update = torch.addmm(p[f"{name}.b_out"], inner, p[f"{name}.W_out"]).view_as(x)
            h = h + update if c.residual else update
    return normed(h, "norm"), seen


@lru_cache(maxsize=16)
def _visible(n: int, start: int | None, step: int | None, device: torch.device) -> Tensor:
    """True where key j is visible to the query at position i: j <= i, for i = start, start + step, ..."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()[start::step]


def logits(parameters: Parameters, tokens: Tensor, c: Transformer, supervised: slice) -> Tensor:
    """Logits (B, L, C) at the ``supervised`` positions."""
    h, _ = forward(parameters, tokens, c, only=supervised)
    return h @ parameters["read_out"]


def look(parameters: Parameters, tokens: Tensor, c: Transformer) -> list[tuple[Tensor, Tensor]]:
    """Weights and values of every layer that has attention, by explicit operations."""
    seen: list[tuple[Tensor, Tensor]] = forward(parameters, tokens, c, look=True)[1]
    return seen
