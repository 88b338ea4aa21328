"""What a run trains: a model on a task, behind the few questions that the loop asks.

One head on the sticky chain here, sequence models on the wind tunnels in ``sequence_subject``. Everything is a function
of parameters: a problem holds data, never weights.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from bayesgrad.training import measurements, model
from bayesgrad.training.config import Config
from bayesgrad.training.data import Batch, StickyMarkovData
from bayesgrad.training.head_gradients import LossAndGradients, way
from bayesgrad.training.model import Parameters
from bayesgrad.training.step_laws import observe_laws

HEAT_MAP = 24


class Problem(Protocol):
    """What the training loop calls."""

    @property
    def loss_and_gradients(self) -> LossAndGradients: ...

    def initial(self) -> Parameters: ...

    def batch(self, step: int) -> Batch: ...

    def evaluate(self, parameters: Parameters) -> dict[str, Any]:
        """Held-out metrics, sequence by sequence and then averaged."""
        ...

    def laws(self, before: Parameters, after: Parameters) -> dict[str, Any]:
        """Predicted against measured changes for one real step."""
        ...

    def look(self, parameters: Parameters) -> list[tuple[Tensor, Tensor]]:
        """Per layer: weights (..., n, n) and values (..., n, d) on a fixed probe."""
        ...

    def read_out(self, parameters: Parameters) -> Tensor:
        """The matrix (d, C) whose column space the answer is read from."""
        ...

    def final(self, parameters: Parameters) -> dict[str, Any]:
        """What is kept about the trained model."""
        ...


class OneHeadOnStickyMarkov:
    """The published set-up."""

    def __init__(self, config: Config, seed: int) -> None:
        self.config, self.seed = config, seed
        self.data = StickyMarkovData(config.task, seed, getattr(torch, config.dtype))
        self.loss_and_gradients = way(config.gradients)

    def initial(self) -> Parameters:
        return model.initial_parameters(self.config, self.seed)

    def batch(self, step: int) -> Batch:
        return self.data.batch(step)

    def evaluate(self, parameters: Parameters) -> dict[str, Any]:
        return measurements.evaluate(parameters, self.data.held_out(), self.data.train.x)

    def laws(self, before: Parameters, after: Parameters) -> dict[str, Any]:
        return observe_laws(before, after, self.data.train, self.config.laws)

    def look(self, parameters: Parameters) -> list[tuple[Tensor, Tensor]]:
        x = self.data.train.x
        return [(model.weights(parameters, x), x @ parameters["W_V"])]

    def read_out(self, parameters: Parameters) -> Tensor:
        return parameters["W_O"]

    def final(self, parameters: Parameters) -> dict[str, Any]:
        x, targets = self.data.train.x, self.data.train.targets
        return {
            "values": measurements.value_geometry(parameters, torch.tensor(self.data.problem.mu, dtype=x.dtype)),
            "heat_map": {
                "start": measurements.advantage_map(self.initial(), x, targets, HEAT_MAP),
                "end": measurements.advantage_map(parameters, x, targets, HEAT_MAP),
            },
            "facts": self.data.facts(),
            "parameters": sum(value.numel() for value in parameters.values()),
        }


def make_problem(config: Config, seed: int) -> Problem:
    """The problem of ``config`` for ``seed``."""
    if config.model.kind == "one-head":
        return OneHeadOnStickyMarkov(config, seed)
    from bayesgrad.training.sequence_problem import SequenceModel

    return SequenceModel(config, seed)
