"""Update rules behind one signature: ``rule.start(parameters)`` and ``rule(parameters, oracle, state)``.

A rule asks the oracle for what it needs, as often as it needs it; every forward-and-backward pass it asks for is
counted, because compute is what fair comparisons hold fixed. Rules never change a tensor in place: the parameters of
the step before stay whole, which is what "stop at the last good step" relies on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from bayesgrad.training import natural_directions
from bayesgrad.training.config import SGD, AdamW, Alternating, Natural
from bayesgrad.training.data import Batch
from bayesgrad.training.head_gradients import LossAndGradients
from bayesgrad.training.model import Parameters
from bayesgrad.training.natural_directions import Sweep

State = dict[str, Any]


class Oracle:
    """What a rule may ask about one batch; ``passes`` counts forward-and-backward passes."""

    def __init__(self, loss_and_gradients: LossAndGradients, batch: Batch) -> None:
        self._loss_and_gradients, self.batch, self.passes = loss_and_gradients, batch, 0

    def gradients(self, parameters: Parameters) -> tuple[Tensor, Parameters]:
        """Mean cross-entropy (nats) and its gradient in each parameter."""
        self.passes += 1
        return self._loss_and_gradients(parameters, self.batch)

    def sweep(self, parameters: Parameters, *, keep: bool = False) -> Sweep:
        """Loss, natural direction and, on request, weights and compatibilities of the one-head model."""
        self.passes += 1
        return natural_directions.sweep(parameters, self.batch, keep=keep)

    def e_gradients(self, parameters: Parameters, target: list[Tensor]) -> tuple[Tensor, Parameters]:
        """Mean KL(a* || a) and its gradient in W_Q and W_K."""
        self.passes += 1
        return natural_directions.e_gradients(parameters, self.batch.x, target)


@dataclass(frozen=True)
class Step:
    """What one application of a rule gives: the loss *before* it, the parameters and the state after it."""

    loss: Tensor
    parameters: Parameters
    state: State


class Update(Protocol):
    """The one signature."""

    def start(self, parameters: Parameters) -> State:
        """The state before the first step: plain numbers and tensors, as a checkpoint can hold them."""
        ...

    def __call__(self, parameters: Parameters, oracle: Oracle, state: State) -> Step:
        """One step."""
        ...


def _known(factors: Mapping[str, float], parameters: Parameters) -> None:
    for name in factors:
        if name not in parameters:
            raise ValueError(f"factors: got {name!r}, expected one of {', '.join(parameters)}")


def clipped(gradients: Parameters, bound: float | None) -> Parameters:
    """``gradients`` scaled down together so that their common norm is at most ``bound`` (None: as they are)."""
    if bound is None:
        return gradients
    g = list(gradients.values())
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(g)))
    g = list(torch._foreach_mul(g, torch.clamp(bound / (norm + 1e-6), max=1.0)))
    return dict(zip(gradients, g, strict=True))


class GradientDescent:
    """m <- momentum m + gradient; theta <- theta - rate * factor * m. A factor of 10 on W_V is the "EM-like" rule."""

    def __init__(self, config: SGD, steps: int) -> None:
        self.config = config

    def start(self, parameters: Parameters) -> State:
        _known(self.config.factors, parameters)
        return {"m": {k: torch.zeros_like(p) for k, p in parameters.items()}} if self.config.momentum else {}

    def __call__(self, parameters: Parameters, oracle: Oracle, state: State) -> Step:
        loss, m = oracle.gradients(parameters)
        if self.config.momentum:
            m = {k: self.config.momentum * state["m"][k] + m[k] for k in parameters}
            state = {"m": m}
        c = self.config
        return Step(loss, {k: p - c.rate * c.factors.get(k, 1.0) * m[k] for k, p in parameters.items()}, state)


class AdamWRule:
    """Adam with decoupled weight decay, warm-up, cosine decay to 0, and clipping of the global gradient norm."""

    def __init__(self, config: AdamW, steps: int) -> None:
        self.config, self.steps = config, steps

    def start(self, parameters: Parameters) -> State:
        _known(self.config.factors, parameters)
        return {
            "t": 0,
            "m": {k: torch.zeros_like(p) for k, p in parameters.items()},
            "v": {k: torch.zeros_like(p) for k, p in parameters.items()},
        }

    def rate(self, t: int) -> float:
        """The learning rate of step ``t`` = 0, 1, ..: linear warm-up times cosine."""
        c = self.config
        warm = min(1.0, (t + 1) / c.warm_up) if c.warm_up else 1.0
        return c.rate * warm * (0.5 * (1 + math.cos(math.pi * min(1.0, t / max(self.steps, 1)))) if c.cosine else 1.0)

    def __call__(self, parameters: Parameters, oracle: Oracle, state: State) -> Step:
        c = self.config
        loss, gradients = oracle.gradients(parameters)
        names = list(parameters)
        gradients = clipped(gradients, c.clip)
        p, g = [parameters[k] for k in names], [gradients[k] for k in names]
        t = state["t"] + 1
        m = torch._foreach_lerp([state["m"][k] for k in names], g, 1 - c.beta1)
        v = torch._foreach_lerp([state["v"][k] for k in names], torch._foreach_mul(g, g), 1 - c.beta2)
        denominator = torch._foreach_add(torch._foreach_sqrt(torch._foreach_div(v, 1 - c.beta2**t)), c.epsilon)
        direction = torch._foreach_div(torch._foreach_div(m, 1 - c.beta1**t), denominator)
        rates = [self.rate(t - 1) * c.factors.get(k, 1.0) for k in names]
        # biases and gains (one axis) are not decayed
        decayed = torch._foreach_mul(
            p, [1 - r * (c.weight_decay if q.dim() > 1 else 0.0) for q, r in zip(p, rates, strict=True)]
        )
        new = torch._foreach_sub(decayed, torch._foreach_mul(direction, rates))
        return Step(
            loss,
            dict(zip(names, new, strict=True)),
            {"t": t, "m": dict(zip(names, m, strict=True)), "v": dict(zip(names, v, strict=True))},
        )


class NaturalRouting:
    """Gradient descent whose score gradient a_ij (b_ij - bbar_i) is replaced by b_ij - bbar_i over the visible keys.

    Pulled back to W_Q and W_K this direction is about a thousand times the plain one, hence their own ``routing``
    factor.
    """

    def __init__(self, config: Natural, steps: int) -> None:
        self.config = config

    def start(self, parameters: Parameters) -> State:
        return {}

    def __call__(self, parameters: Parameters, oracle: Oracle, state: State) -> Step:
        c = self.config
        found = oracle.sweep(parameters)
        rate = {"W_Q": c.rate * c.routing, "W_K": c.rate * c.routing, "W_V": c.rate, "W_O": c.rate}
        return Step(found.loss, {k: p - rate[k] * found.gradients[k] for k, p in parameters.items()}, state)


class AlternatingRule:
    """A true alternation. E phase: u frozen, targets a* = a exp(-eta N b)/Z, ``e_steps`` steps of mean KL(a* || a) on
    W_Q and W_K. M phase: ``m_steps`` proximal steps on W_V, each with a fresh upstream gradient; the last takes W_O
    along."""

    def __init__(self, config: Alternating, steps: int) -> None:
        self.config = config

    def start(self, parameters: Parameters) -> State:
        return {}

    def __call__(self, parameters: Parameters, oracle: Oracle, state: State) -> Step:
        c = self.config
        found = oracle.sweep(parameters, keep=True)
        target = natural_directions.e_targets(found, c.eta, len(oracle.batch.x))
        for _ in range(c.e_steps):
            _, slopes = oracle.e_gradients(parameters, target)
            parameters = parameters | {k: parameters[k] - c.rate * c.e_factor * slopes[k] for k in slopes}
        for step in range(c.m_steps):
            _, slopes = oracle.gradients(parameters)
            moving = ("W_V", "W_O") if step == c.m_steps - 1 else ("W_V",)
            parameters = parameters | {k: parameters[k] - c.rate * slopes[k] for k in moving}
        return Step(found.loss, parameters, state)
