"""What a run trains: a model on a task, behind the few questions that the loop asks.

One-head on the sticky chain, or a transformer on the bijection. Everything is a function of parameters: a subject holds
data, never weights.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bayesgrad.tasks import bijection
from bayesgrad.training import evaluation, model, transformer
from bayesgrad.training.config import Bijection, Config, Transformer
from bayesgrad.training.data import HELD_OUT, TRAIN, Batch, StickyMarkovData, generator
from bayesgrad.training.gradients import LossAndGradients, differentiate, way
from bayesgrad.training.laws import observe_laws
from bayesgrad.training.metrics import predictive_metrics
from bayesgrad.training.model import Parameters

HEAT_MAP = 24
PROBE = 64
"""Held-out sequences whose attention maps are looked at."""


class Subject(Protocol):
    """The questions of the loop."""

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
        return evaluation.evaluate(parameters, self.data.held_out(), self.data.train.x)

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
            "values": evaluation.value_geometry(parameters, torch.tensor(self.data.problem.mu, dtype=x.dtype)),
            "heat_map": {
                "start": evaluation.advantage_map(self.initial(), x, targets, HEAT_MAP),
                "end": evaluation.advantage_map(parameters, x, targets, HEAT_MAP),
            },
            "facts": self.data.facts(),
            "parameters": sum(value.numel() for value in parameters.values()),
        }


class TransformerOnBijection:
    """Fresh sequences at every step, each a function of (seed, step)."""

    def __init__(self, config: Config, seed: int) -> None:
        self.config, self.seed = config, seed
        self.task: Bijection = config.task
        self.model: Transformer = config.model
        self.loss_and_gradients = differentiate(self._loss)
        held = self._sample(self.task.held_out, HELD_OUT)
        self.held = self._as_batch(held)
        self.bayes = bijection.predictive(held.tokens, self.task.values)

    def _sample(self, count: int, *stream: int) -> bijection.Sequences:
        t = self.task
        rng = generator(self.seed, *stream)
        return bijection.sample(rng, count, values=t.values, keys=t.keys, protocol=t.protocol)  # type: ignore[arg-type]

    def _as_batch(self, drawn: bijection.Sequences) -> Batch:
        # a supervised token is a key, its target a value that comes one token later
        if (drawn.tokens[:, 0::2] >= self.task.values).any():
            raise AssertionError("a supervised position has its own target as its input")
        return Batch(torch.from_numpy(drawn.tokens), torch.from_numpy(drawn.targets))

    def _loss(self, parameters: Parameters, batch: Batch) -> Tensor:
        z = transformer.logits(parameters, batch.x, self.model)
        return F.cross_entropy(z.flatten(0, -2), batch.targets.flatten())

    def initial(self) -> Parameters:
        return transformer.initial_parameters(self.config, self.seed)

    def batch(self, step: int) -> Batch:
        return self._as_batch(self._sample(self.task.batch, TRAIN, step))

    @torch.no_grad()
    def evaluate(self, parameters: Parameters) -> dict[str, Any]:
        z = transformer.logits(parameters, self.held.x, self.model)
        found = predictive_metrics(self.bayes, torch.softmax(z.double(), -1).numpy(), self.held.targets.numpy())
        maps = [a for a, _ in self.look(parameters)]
        entropy = float(np.mean([evaluation.normalised_entropy(a) for a in maps]))
        return {f"held_out_{name}": value for name, value in found.items()} | {"attention_entropy": entropy}

    def laws(self, before: Parameters, after: Parameters) -> dict[str, Any]:
        raise NotImplementedError("the observed laws are those of the one-head model")

    @torch.no_grad()
    def look(self, parameters: Parameters) -> list[tuple[Tensor, Tensor]]:
        return transformer.look(parameters, self.held.x[:PROBE], self.model)

    def read_out(self, parameters: Parameters) -> Tensor:
        return parameters["read_out"]

    @torch.no_grad()
    def final(self, parameters: Parameters) -> dict[str, Any]:
        z = transformer.logits(parameters, self.held.x, self.model)
        p = torch.softmax(z.double(), -1).numpy()
        exact = self.bayes
        log_p = np.log2(np.where(exact > 0, exact, 1.0))
        by_position = {
            "exact_entropy_bits": (-(exact * log_p).sum(-1)).mean(0).tolist(),
            "model_entropy_bits": (-(p * np.log2(np.maximum(p, 1e-300))).sum(-1)).mean(0).tolist(),
            "kl_bits": np.where(exact > 0, exact * (log_p - np.log2(np.maximum(p, 1e-300))), 0)
            .sum(-1)
            .mean(0)
            .tolist(),
        }
        uniform = np.full_like(exact, 1 / self.task.values)
        floor = predictive_metrics(exact, uniform, self.held.targets.numpy())
        return {
            "by_position": by_position,
            "facts": {"floors": {"uniform": floor}},
            "parameters": sum(value.numel() for value in parameters.values()),
        }


def make_subject(config: Config, seed: int) -> Subject:
    """The subject of ``config`` for ``seed``."""
    if config.model.kind == "transformer":
        return TransformerOnBijection(config, seed)
    return OneHeadOnStickyMarkov(config, seed)
