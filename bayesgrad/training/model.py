r"""One attention head over one sequence, as published.

.. math:: s_{ij} = \frac{x_i W_Q \cdot x_j W_K}{\sqrt{d_k}}, \quad a_i = \mathrm{softmax}_{j \le i}(s_i), \quad
          z_i = \Big(\sum_j a_{ij}\, x_j W_V\Big) W_O

Weights start as ``initial * N(0, 1)``. Parameters are a plain dictionary of tensors: updates are functions from
dictionaries to dictionaries, and closed forms need no module.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from bayesgrad.training.config import Config, OneHead
from bayesgrad.training.data import WEIGHTS, generator

Parameters = dict[str, Tensor]


def initial_parameters(config: Config, seed: int) -> Parameters:
    """W_Q (d_x, d_k), W_K (d_x, d_k), W_V (d_x, d_v), W_O (d_v, C) of ``config`` for ``seed``."""
    task, model = config.task, config.model
    shapes = {
        "W_Q": (task.d_x, model.d_k),
        "W_K": (task.d_x, model.d_k),
        "W_V": (task.d_x, model.d_v),
        "W_O": (model.d_v, task.symbols),
    }
    rng = generator(seed, WEIGHTS)
    dtype = getattr(torch, config.dtype)
    return {name: torch.tensor(model.initial * rng.standard_normal(s), dtype=dtype) for name, s in shapes.items()}


def normals(config: Config, seed: int) -> Callable[..., Tensor]:
    """``normal(*shape, std=...)``: a maker of weights that goes on where it stopped, so that order matters."""
    rng = generator(seed, WEIGHTS)
    dtype = getattr(torch, config.dtype)

    def normal(*shape: int, std: float = 0.02) -> Tensor:
        return torch.tensor(std * rng.standard_normal(shape), dtype=dtype)

    return normal


def causal(n: int) -> Tensor:
    """True where key j is visible to query i: j <= i."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def weights(parameters: Parameters, x: Tensor) -> Tensor:
    """a (n, n): row i is a distribution over the keys j <= i. Dense, for evaluation and as the eager path."""
    q, k = x @ parameters["W_Q"], x @ parameters["W_K"]
    scores = (q @ k.mT) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(~causal(x.shape[-2]), -math.inf), dim=-1)


def logits(parameters: Parameters, x: Tensor) -> Tensor:
    """z (n, C) by explicit operations."""
    return weights(parameters, x) @ (x @ parameters["W_V"]) @ parameters["W_O"]


def kernel_logits(parameters: Parameters, x: Tensor) -> Tensor:
    """z (n, C) through PyTorch's fused kernel, which wants d_k = d_v: the narrower of the two is padded with zeros."""
    q, k, v = x @ parameters["W_Q"], x @ parameters["W_K"], x @ parameters["W_V"]
    d_k, d_v = q.shape[-1], v.shape[-1]
    width = max(d_k, d_v)
    q, k = F.pad(q, (0, width - d_k)), F.pad(k, (0, width - d_k))
    v = F.pad(v, (0, width - d_v))
    context = F.scaled_dot_product_attention(
        q[None, None], k[None, None], v[None, None], is_causal=True, scale=1 / math.sqrt(d_k)
    )[0, 0]
    return context[:, :d_v] @ parameters["W_O"]


def check(model: OneHead) -> OneHead:
    """The model itself, when it is one that these functions know."""
    if not isinstance(model, OneHead):
        raise ValueError(f"model: got {type(model).__name__}, expected a one-head model")
    return model
