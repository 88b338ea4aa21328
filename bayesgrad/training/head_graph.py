"""One evaluation of a network with the graph behind it, and its heads: by bayesgrad's functions, and by autograd.

Attention is done by explicit operations here, so that everything can be differentiated twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bayesgrad import attention, attention_gradients
from bayesgrad.gradients import advantage
from bayesgrad.training.data import Batch
from bayesgrad.training.first_order import Head
from bayesgrad.training.model import Parameters
from bayesgrad.training.transformer import Asked, Attend, scores_of

LogitsOf = Callable[[Parameters, Tensor, Attend], Tensor]
"""Logits of a network that leaves its heads to ``attend``."""

PARTS = ("queries", "keys", "values", "scores")


@dataclass(frozen=True)
class Layer:
    """The heads of a layer by the closed forms, their gradients, and autograd's for the same heads."""

    asked: Asked
    head: Head
    found: dict[str, Tensor]
    reference: dict[str, Tensor]


@dataclass(frozen=True)
class Graph:
    """One evaluation with the graph behind it: what each layer was asked, its scores and upstream gradient, z, L."""

    leaves: Parameters
    asked: list[Asked]
    scores: list[Tensor]
    upstream: Sequence[Tensor]
    logits: Tensor
    loss: Tensor


def graph_of(logits_of: LogitsOf, parameters: Parameters, batch: Batch) -> Graph:
    """Evaluate by explicit operations, remembering every layer; u is itself differentiable."""
    leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
    asked, scores, context = [], [], []

    def attend(what: Asked) -> Tensor:
        s = scores_of(what)
        g = torch.softmax(s, dim=-1) @ what.v
        asked.append(what)
        scores.append(s)
        context.append(g)
        return g

    z = logits_of(leaves, batch.x, attend)
    loss = F.cross_entropy(z.flatten(0, 1), batch.targets.flatten(0, 1))
    return Graph(leaves, asked, scores, torch.autograd.grad(loss, context, create_graph=True), z, loss)


def layers_of(now: Graph) -> list[Layer]:
    """Every layer from q, k, v, u by bayesgrad's functions, and what autograd says."""
    parts = [part for layer, s in zip(now.asked, now.scores, strict=True) for part in (layer.q, layer.k, layer.v, s)]
    reference = torch.autograd.grad(now.loss, parts, retain_graph=True)
    out = []
    for index, (layer, upstream) in enumerate(zip(now.asked, now.upstream, strict=True)):
        q, k, v, u = (part.detach() for part in (layer.q, layer.k, layer.v, upstream))
        made = attention(q, k, v, mask=layer.visible)
        got = attention_gradients(q, k, v, u, mask=layer.visible)
        a, b = made.weights, got.weights
        A = advantage(a, b, validate=False)
        head = Head(layer.visible, q, k, v, a, made.context, u, b, A, got.scores, got.values)
        own = {name: getattr(got, name) for name in PARTS}
        out.append(Layer(layer, head, own, dict(zip(PARTS, reference[4 * index :], strict=False))))
    return out


def along(outputs: Sequence[Tensor], leaves: Sequence[Tensor], step: Sequence[Tensor]) -> list[Tensor]:
    """J step: how ``outputs`` change when the leaves move by ``step``, as the derivative of (J^T w) . step in w."""
    ws = [torch.zeros_like(output, requires_grad=True) for output in outputs]
    pulled = torch.autograd.grad(outputs, leaves, ws, create_graph=True, materialize_grads=True)
    total = torch.stack([(p * s).sum() for p, s in zip(pulled, step, strict=True)]).sum()
    return list(torch.autograd.grad(total, ws, retain_graph=True, materialize_grads=True))
