r"""A multilayer perceptron that is given the whole context: the baseline without attention and without recurrence.

.. math:: h_t = \mathrm{gelu}\Big(\sum_{j \le t} W_j[\text{token}_j] + W[\text{token}_t] + b_t\Big), \qquad
          h \leftarrow h + \mathrm{MLP}(\mathrm{norm}(h)), \qquad z = \mathrm{norm}(h)\, W_{out}

The sum is a dense layer on the flattened context (one slot per position, empty where the future is), computed for all
positions at once as a running sum; the current token has a slot of its own as well. A perceptron that sees one position
alone sees no context and is no comparison: it is the transformer with ``attention_layers=0``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from bayesgrad.training.config import MLP, Config
from bayesgrad.training.model import Parameters, normals
from bayesgrad.training.transformer import embed


def initial_parameters(config: Config, seed: int) -> Parameters:
    """Normal weights, scaled so that the first layer starts with units of size one."""
    task, c = config.task, config.model
    dtype = getattr(torch, config.dtype)
    normal = normals(config, seed)

    out: Parameters = {
        "slots": normal(task.context, task.vocabulary, c.width, std=task.context**-0.5),
        "current": normal(task.vocabulary, c.width, std=0.5),
        "offset": torch.zeros(task.context, c.width, dtype=dtype),
    }
    for layer in range(1, c.layers):
        name, hidden = f"layer{layer}", c.mlp * c.width
        out[f"{name}.gain"], out[f"{name}.bias"] = torch.ones(c.width, dtype=dtype), torch.zeros(c.width, dtype=dtype)
        out[f"{name}.W_in"], out[f"{name}.b_in"] = normal(c.width, hidden), torch.zeros(hidden, dtype=dtype)
        out[f"{name}.W_out"], out[f"{name}.b_out"] = normal(hidden, c.width), torch.zeros(c.width, dtype=dtype)
    out["norm.gain"], out["norm.bias"] = torch.ones(c.width, dtype=dtype), torch.zeros(c.width, dtype=dtype)
    out["read_out"] = normal(c.width, task.classes)
    return out


def logits(parameters: Parameters, tokens: Tensor, c: MLP, supervised: slice) -> Tensor:
    """Logits (B, L, C) at the ``supervised`` positions."""
    p, n = parameters, tokens.shape[1]
    if tokens.is_floating_point():
        slots = torch.einsum("bnf,nfw->bnw", tokens, p["slots"][:n])
    else:
        slots = p["slots"][torch.arange(n, device=tokens.device), tokens]
    h = slots.cumsum(1)[:, supervised] + embed(p["current"], tokens[:, supervised]) + p["offset"][:n][supervised]
    h = F.gelu(h)
    for layer in range(1, c.layers):
        name = f"layer{layer}"
        x = F.layer_norm(h, (c.width,), p[f"{name}.gain"], p[f"{name}.bias"])
        h = h + F.gelu(x @ p[f"{name}.W_in"] + p[f"{name}.b_in"]) @ p[f"{name}.W_out"] + p[f"{name}.b_out"]
    return F.layer_norm(h, (c.width,), p["norm.gain"], p["norm.bias"]) @ p["read_out"]
