r"""Do the laws hold on every head of every layer of a network while it trains? On held-out sequences, in float64.

What stands around the heads is left to autograd: :math:`u = \partial L/\partial g` at the output of each head, and the
first-order changes dq, dk, dv, du that the real step makes there. The head itself is bayesgrad's:

.. math:: (q, k, v, u) \mapsto \frac{\partial L}{\partial (q, k, v, s)}, \frac{\partial L}{\partial (W_Q, W_K, W_V)},
          \qquad (dq, dk, dv, du) \mapsto ds,\ da,\ dg,\ db,\ dA

The first is compared with autograd through the same head, the second with the change measured after t times the step,
over the step sizes of :mod:`bayesgrad.training.step_laws`. For the loss the prediction is <gradient, step> over all
parameters, with the closed forms at the projections.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayesgrad import cross_entropy, merge_heads
from bayesgrad.dynamics import loss_change
from bayesgrad.training import first_order, step_laws
from bayesgrad.training.data import Batch
from bayesgrad.training.first_order import Head
from bayesgrad.training.head_graph import Graph, Layer, LogitsOf, along, graph_of, layers_of
from bayesgrad.training.model import Parameters
from bayesgrad.training.transformer import rotate


def projections(layer: Layer) -> Parameters:
    """dL/dW = sum over sequences of x^T dL/d(x W), for the three matrices that the heads of a layer read."""
    asked, found = layer.asked, layer.found
    x, queries, keys = asked.x.detach(), found["queries"], found["keys"]
    if asked.rotary:  # the adjoint of a rotation is the rotation back
        queries, keys = rotate(queries, x.shape[-2], asked.at, back=True), rotate(keys, back=True)
    read = {"W_Q": (x[:, asked.at], queries), "W_K": (x, keys), "W_V": (x, found["values"])}
    return {f"{asked.name}.{matrix}": (y.mT @ merge_heads(slope)).sum(0) for matrix, (y, slope) in read.items()}


def gradient_errors(now: Graph, layers: Sequence[Layer], targets: Tensor) -> tuple[dict[str, float], Parameters]:
    """Worst relative error over heads (over layers for the matrices), and the gradients, closed forms where known."""
    *gradients, at_logits = torch.autograd.grad(now.loss, [*now.leaves.values(), now.logits], retain_graph=True)
    every = dict(zip(now.leaves, gradients, strict=True))
    ours = cross_entropy(now.logits.detach(), targets).logit_gradient
    errors: dict[str, list[float]] = {"logits": [step_laws.relative(ours - at_logits, at_logits)]}
    for layer in layers:
        for name, found in layer.found.items():
            reference = layer.reference[name]
            for h in range(found.shape[1]):
                error = step_laws.relative(found[:, h] - reference[:, h], reference[:, h])
                errors.setdefault(name, []).append(error)
        for name, slope in projections(layer).items():
            errors.setdefault(name.rpartition(".")[2], []).append(step_laws.relative(slope - every[name], every[name]))
            every[name] = slope
    return {name: max(each) for name, each in errors.items()}, every


@dataclass(frozen=True)
class Moved:
    """First-order changes of one layer's heads along a step."""

    s: Tensor
    v: Tensor
    g: Tensor
    b: Tensor
    A: Tensor


def moved(head: Head, dq: Tensor, dk: Tensor, dv: Tensor, du: Tensor) -> Moved:
    """What the head's own laws make of the changes of its inputs and of its upstream gradient."""
    ds = first_order.score_change(head, dq, dk)
    da = first_order.fisher_times(head.a, ds)
    db = first_order.compatibility_change(head, du, dv)
    return Moved(ds, dv, first_order.context_change(head, da, dv), db, first_order.advantage_change(head, da, db))


def predicted(now: Graph, layers: Sequence[Layer], step: Parameters) -> tuple[list[Moved], Tensor]:
    """First-order changes of the heads of every layer when the parameters move by ``step``, and those of the logits."""
    read = [part for layer in now.asked for part in (layer.q, layer.k, layer.v)]
    order = list(now.leaves)
    outputs = [*read, *now.upstream, now.logits]
    *changes, dz = along(outputs, [now.leaves[name] for name in order], [step[name] for name in order])
    inputs, upstream = changes[: len(read)], changes[len(read) :]
    found = []
    for index, layer in enumerate(layers):
        dq, dk, dv = inputs[3 * index : 3 * index + 3]
        found.append(moved(layer.head, dq, dk, dv, upstream[index]))
    return found, dz


def apart(now: Head, then: Head, change: Moved, t: float) -> dict[str, list[float]]:
    """Norms of what t times the prediction leaves over, head by head."""
    out = {}
    for name in ("g", "b", "A"):
        left = getattr(then, name) - getattr(now, name) - t * getattr(change, name)
        if name in "bA":
            left = torch.where(now.visible, left, torch.zeros_like(left))
        out[name] = [float(left[:, h].norm()) for h in range(left.shape[1])]
    return out


def steepness(times: list[float], residuals: Sequence[Sequence[float]]) -> tuple[float, list[float]]:
    """The slope farthest from 2 among the columns (heads) of residuals (one row a step size), and its column."""
    columns = np.asarray(residuals).T.tolist()
    slopes = [step_laws.slope(times, column) for column in columns]
    worst = max(range(len(slopes)), key=lambda h: abs(slopes[h] - 2))
    return slopes[worst], columns[worst]


def over_layers(rows: Sequence[dict[str, float]], counts: Sequence[str] = ()) -> dict[str, float]:
    """Mean of each figure over layers, leaving out those where there was nothing to look at; ``counts`` add up."""
    out = {}
    for name in rows[0]:
        known = [row[name] for row in rows if not math.isnan(row[name])]
        out[name] = sum(known) / (1 if name in counts else len(known)) if known else math.nan
    return out


def observe_head_laws(logits_of: LogitsOf, before: Parameters, after: Parameters, batch: Batch) -> dict[str, Any]:
    """For the step from ``before`` to ``after``, in the form of :func:`bayesgrad.training.step_laws.observe_laws`.

    Errors are the worst over heads, slopes those farthest from 2; ``heads`` says how many there are.
    """
    base = {name: value.double() for name, value in before.items()}
    step = {name: after[name].double() - base[name] for name in base}
    x = batch.x.double() if batch.x.is_floating_point() else batch.x
    batch = Batch(x, batch.targets.double() if batch.targets.is_floating_point() else batch.targets)
    now = graph_of(logits_of, base, batch)
    layers = layers_of(now)
    errors, gradients = gradient_errors(now, layers, batch.targets)
    expected, dz = predicted(now, layers, step)
    dL = float(torch.stack([loss_change(gradients[name], step[name]) for name in step]).sum())

    times = step_laws.step_sizes(dz, *(change.s for change in expected))
    left: dict[str, list[list[float]]] = {name: [] for name in ("loss", "g", "b", "A")}
    for t in times:
        there = graph_of(logits_of, {name: p + t * step[name] for name, p in base.items()}, batch)
        left["loss"].append([abs(float(there.loss.detach() - now.loss.detach()) - t * dL)])
        rows = [
            apart(old.head, new.head, change, t)
            for old, new, change in zip(layers, layers_of(there), expected, strict=True)
        ]
        for name in ("g", "b", "A"):
            left[name].append([value for row in rows for value in row[name]])
    found = {name: steepness(times, rows) for name, rows in left.items()} if times else {}
    changes = {
        "slope": {name: pair[0] for name, pair in found.items()},
        "t": times,
        "residual": {name: pair[1] for name, pair in found.items()},
        "predicted_loss_change": dL,
    }
    exact = [step_laws.exact_steps(layer.head) for layer in layers]
    return {
        "heads": sum(layer.head.a.shape[1] for layer in layers),
        "gradient_error": errors,
        "changes": changes if times else {},
        "exact": {name: max(row[name] for row in exact) for name in exact[0]},
        "feedback": over_layers([step_laws.feedback(layer.head) for layer in layers], ("pairs", "favoured_pairs")),
        "e_step": over_layers(
            [step_laws.e_step(layer.head, change.s, change.v) for layer, change in zip(layers, expected, strict=True)]
        ),
    }
