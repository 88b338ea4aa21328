r"""A stack of LSTM layers on the same tokens, the baseline that has a memory but no attention.

.. math:: (h_t, c_t) = \mathrm{LSTM}(E[\text{token}_t], h_{t-1}, c_{t-1}), \qquad z_t = \mathrm{norm}(h_t)\, W_{out}

PyTorch's own LSTM, called with our flat dictionary of parameters.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from bayesgrad.training.config import LSTM, Config
from bayesgrad.training.data import WEIGHTS, generator
from bayesgrad.training.model import Parameters
from bayesgrad.training.transformer import embed

PREFIX = "lstm."


@lru_cache(maxsize=8)
def _module(layers: int, width: int) -> nn.LSTM:
    """The recurrence without weights of its own."""
    return nn.LSTM(width, width, layers, batch_first=True, device="meta")


def initial_parameters(config: Config, seed: int) -> Parameters:
    """PyTorch's uniform start (bound 1 / sqrt(width)), forget gates open (bias 1), embedding as the transformer's."""
    task, c = config.task, config.model
    rng = generator(seed, WEIGHTS)
    dtype = getattr(torch, config.dtype)
    bound = 1 / math.sqrt(c.width)
    out: Parameters = {"embedding": torch.tensor(0.5 * rng.standard_normal((task.vocabulary, c.width)), dtype=dtype)}
    for name, empty in _module(c.layers, c.width).named_parameters():
        value = torch.tensor(rng.uniform(-bound, bound, tuple(empty.shape)), dtype=dtype)
        if name.startswith("bias_ih"):
            value[c.width : 2 * c.width] = 1.0  # gates are ordered input, forget, cell, output
        out[PREFIX + name] = value
    out["norm.gain"], out["norm.bias"] = torch.ones(c.width, dtype=dtype), torch.zeros(c.width, dtype=dtype)
    out["read_out"] = torch.tensor(0.02 * rng.standard_normal((c.width, task.classes)), dtype=dtype)
    return out


def logits(parameters: Parameters, tokens: Tensor, c: LSTM, supervised: slice) -> Tensor:
    """Logits (B, L, C) at the ``supervised`` positions."""
    p = parameters
    weights = {name.removeprefix(PREFIX): value for name, value in p.items() if name.startswith(PREFIX)}
    h = functional_call(_module(c.layers, c.width), weights, (embed(p["embedding"], tokens),))[0][:, supervised]
    return F.layer_norm(h, (c.width,), p["norm.gain"], p["norm.bias"]) @ p["read_out"]
