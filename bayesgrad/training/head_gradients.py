"""Loss and gradients of the one-head model, four ways that agree to rounding.

``autograd`` differentiates explicit operations, ``kernel`` differentiates PyTorch's fused attention, ``closed`` is
bayesgrad's dense closed form, ``fused`` its one-sweep form. All return (mean cross-entropy in nats, {matrix:
gradient}).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bayesgrad.block import attention_block_gradients
from bayesgrad.fused import attention_block_gradients as fused_block_gradients
from bayesgrad.training import model
from bayesgrad.training.data import Batch
from bayesgrad.training.model import Parameters

LossAndGradients = Callable[[Parameters, Batch], tuple[Tensor, Parameters]]


def differentiate(loss_of: Callable[[Parameters, Batch], Tensor]) -> LossAndGradients:
    """Loss and gradients by autograd of any loss that is a function of (parameters, batch)."""

    def loss_and_gradients(parameters: Parameters, batch: Batch) -> tuple[Tensor, Parameters]:
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        loss = loss_of(leaves, batch)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        return loss.detach(), dict(zip(leaves, gradients, strict=True))

    return loss_and_gradients


def _explicit(parameters: Parameters, batch: Batch) -> Tensor:
    return F.cross_entropy(model.logits(parameters, batch.x), batch.targets)


def _fused_kernel(parameters: Parameters, batch: Batch) -> Tensor:
    return F.cross_entropy(model.kernel_logits(parameters, batch.x), batch.targets)


autograd = differentiate(_explicit)
kernel = differentiate(_fused_kernel)


def closed(parameters: Parameters, batch: Batch) -> tuple[Tensor, Parameters]:
    """The dense closed form: no graph, no backward."""
    mask = model.causal(batch.x.shape[-2])
    matrices: dict[str, Any] = {**parameters}
    got = attention_block_gradients(batch.x, **matrices, targets=batch.targets, mask=mask, validate=False)
    return got.loss, {name: getattr(got, name) for name in parameters}


def fused(parameters: Parameters, batch: Batch) -> tuple[Tensor, Parameters]:
    """The closed form in one sweep over query tiles: nothing n x n exists."""
    matrices: dict[str, Any] = {**parameters}
    got = fused_block_gradients(batch.x, **matrices, targets=batch.targets, causal="upper-left", validate=False)
    return got.loss, {name: getattr(got, name) for name in parameters}


WAYS: dict[str, LossAndGradients] = {"autograd": autograd, "kernel": kernel, "closed": closed, "fused": fused}


def way(name: str) -> LossAndGradients:
    """The gradient path called ``name``."""
    if name not in WAYS:
        raise ValueError(f"gradients: got {name!r}, expected one of {', '.join(WAYS)}")
    return WAYS[name]
