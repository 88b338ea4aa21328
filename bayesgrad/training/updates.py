"""Update rules behind one signature: ``rule.start(parameters)`` and ``rule(parameters, oracle, state)``.

A rule asks the oracle for what it needs, as often as it needs it; every forward-and-backward pass it asks for is
counted, because compute is what fair comparisons hold fixed. Rules never change a tensor in place: the parameters of
the step before stay whole, which is what "stop at the last good step" relies on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from bayesgrad.training.config import SGD
from bayesgrad.training.data import Batch
from bayesgrad.training.gradients import LossAndGradients
from bayesgrad.training.model import Parameters

State = dict[str, Any]


class Oracle:
    """What a rule may ask about one batch; ``passes`` counts forward-and-backward passes."""

    def __init__(self, loss_and_gradients: LossAndGradients, batch: Batch) -> None:
        self._loss_and_gradients, self.batch, self.passes = loss_and_gradients, batch, 0

    def gradients(self, parameters: Parameters) -> tuple[Tensor, Parameters]:
        """Mean cross-entropy (nats) and its gradient in each parameter."""
        self.passes += 1
        return self._loss_and_gradients(parameters, self.batch)


@dataclass(frozen=True)
class Step:
    """What one application of a rule gives: the loss *before* it, the parameters and the state after it."""

    loss: Tensor
    parameters: Parameters
    state: State


class Update(Protocol):
    def start(self, parameters: Parameters) -> State: ...

    def __call__(self, parameters: Parameters, oracle: Oracle, state: State) -> Step: ...


class GradientDescent:
    """theta <- theta - rate * factor * gradient; a factor of 10 on W_V alone is the published "EM-like" rule."""

    def __init__(self, config: SGD) -> None:
        self.config = config

    def start(self, parameters: Parameters) -> State:
        for name in self.config.factors:
            if name not in parameters:
                raise ValueError(f"factors: got {name!r}, expected one of {', '.join(parameters)}")
        return {}

    def rate(self, name: str) -> float:
        return self.config.rate * self.config.factors.get(name, 1.0)

    def __call__(self, parameters: Parameters, oracle: Oracle, state: State) -> Step:
        loss, gradients = oracle.gradients(parameters)
        return Step(loss, {k: p - self.rate(k) * gradients[k] for k, p in parameters.items()}, state)


RULES: dict[type, Any] = {SGD: GradientDescent}


def make_update(config: Any) -> Update:
    """The rule that ``config`` describes."""
    rule: Update = RULES[type(config)](config)
    return rule
