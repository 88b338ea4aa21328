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
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from bayesgrad.training.config import Config, Transformer
from bayesgrad.training.model import Parameters, normals


def attending(c: Transformer) -> int:
    """How many layers, the lowest, have attention."""
    return c.layers if c.attention_layers is None else c.attention_layers


def initial_parameters(config: Config, seed: int) -> Parameters:
    """Normal weights: 0.5 for the token embedding, 0.02 elsewhere as usual; gains 1 and biases 0."""
    task, c = config.task, config.model
    dtype = getattr(torch, config.dtype)
    normal = normals(config, seed)

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


def rotate(x: Tensor, n: int | None = None, at: slice = slice(None), *, back: bool = False) -> Tensor:
    """Turn the pairs of features (i, i + width/2) of each position by its angles; norms and relative phases stay.
    ``x`` holds the positions ``at`` of ``n`` (all of them unless told). ``back`` turns them back, the adjoint."""
    cos, sin = (table[at] for table in _angles(n or x.shape[-2], x.shape[-1], x.dtype, x.device))
    sin = -sin if back else sin
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


ALL = slice(None)


def embed(table: Tensor, tokens: Tensor) -> Tensor:
    """E[token] for ids (..., n), features times E for rows of features (..., n, F)."""
    return tokens @ table if tokens.is_floating_point() else table[tokens]


@dataclass(frozen=True)
class Asked:
    """What the heads of one layer are given: queries at the positions ``at`` of ``x`` (B, n, width), keys and values at
    all of them, split and turned (B, H, .., d); ``visible`` (queries, keys). ``name`` begins the layer's parameters."""

    name: str
    x: Tensor
    at: slice
    rotary: bool
    q: Tensor
    k: Tensor
    v: Tensor

    @property
    def visible(self) -> Tensor:
        return _visible(self.x.shape[-2], self.at.start, self.at.step, self.x.device)


Attend = Callable[[Asked], Tensor]
"""The outputs g of the heads (B, H, queries, d)."""


def by_kernel(asked: Asked) -> Tensor:
    """PyTorch's fused attention."""
    mask = None if asked.at == ALL else asked.visible
    return F.scaled_dot_product_attention(asked.q, asked.k, asked.v, mask, is_causal=mask is None)


def scores_of(asked: Asked) -> Tensor:
    """s by explicit operations, -inf at the pairs that are hidden."""
    s = asked.q @ asked.k.mT / math.sqrt(asked.q.shape[-1])
    return s.masked_fill(~asked.visible, -math.inf)


def forward(
    parameters: Parameters, tokens: Tensor, c: Transformer, *, only: slice = ALL, attend: Attend = by_kernel
) -> Tensor:
    """h after the last norm (B, n, width); the heads are left to ``attend``, layer by layer.

    With ``only`` nothing is computed at positions that nobody asks about: from the last attention on, queries and MLPs
    are those of ``only``, and h has their positions alone.
    """
    p, n = parameters, tokens.shape[1]

    def normed(h: Tensor, name: str) -> Tensor:
        return F.layer_norm(h, (c.width,), p[f"{name}.gain"], p[f"{name}.bias"]) if c.norm else h

    def heads(h: Tensor) -> Tensor:
        return h.unflatten(-1, (c.heads, -1)).transpose(-3, -2)

    def attention(x: Tensor, name: str, at: slice) -> Tensor:
        q, k, v = (heads(y @ p[f"{name}.{matrix}"]) for matrix, y in (("W_Q", x[:, at]), ("W_K", x), ("W_V", x)))
        if c.positions == "rotary":
            q, k = rotate(q, n, at), rotate(k, n)
        g = attend(Asked(name, x, at, c.positions == "rotary", q, k, v))
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
    return normed(h, "norm")


@lru_cache(maxsize=16)
def _visible(n: int, start: int | None, step: int | None, device: torch.device) -> Tensor:
    """True where key j is visible to the query at position i: j <= i, for i = start, start + step, ..."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()[start::step]


def logits(
    parameters: Parameters, tokens: Tensor, c: Transformer, supervised: slice, *, attend: Attend = by_kernel
) -> Tensor:
    """Logits (B, L, C) at the ``supervised`` positions."""
    return forward(parameters, tokens, c, only=supervised, attend=attend) @ parameters["read_out"]


def look(parameters: Parameters, tokens: Tensor, c: Transformer) -> list[tuple[Tensor, Tensor]]:
    """Weights (B, H, n, n) and values (B, H, n, d) of every layer that has attention, by explicit operations."""
    seen: list[tuple[Tensor, Tensor]] = []

    def attend(asked: Asked) -> Tensor:
        a = torch.softmax(scores_of(asked), dim=-1)
        seen.append((a, asked.v))
        return a @ asked.v

    forward(parameters, tokens, c, attend=attend)
    return seen
