"""A transformer, an LSTM or a perceptron on a wind tunnel: fresh sequences at every step, each a function of (seed,
step); held-out ones with their exact predictive."""

from __future__ import annotations

from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bayesgrad.training import lstm, measurements, mlp, transformer, wind_tunnel
from bayesgrad.training.config import Config
from bayesgrad.training.data import HELD_OUT, TRAIN, Batch, generator
from bayesgrad.training.head_gradients import differentiate
from bayesgrad.training.metrics import predictive_metrics
from bayesgrad.training.model import Parameters
from bayesgrad.training.tunnels import Drawn, make_tunnel
from bayesgrad.training.watched_heads import observe_head_laws

PROBE = 64
"""Held-out sequences whose attention maps are looked at."""
CHUNK = 256
"""Held-out sequences that go through the model at once."""

MODELS: dict[str, ModuleType] = {"transformer": transformer, "lstm": lstm, "mlp": mlp}


class SequenceModel:
    """The questions of the loop, for any model in ``MODELS``: modules with ``initial_parameters`` and ``logits``."""

    def __init__(self, config: Config, seed: int) -> None:
        self.config, self.seed = config, seed
        self.task, self.model = config.task, config.model
        self.supervised: slice = config.task.supervised
        self.dtype: torch.dtype = getattr(torch, config.dtype)
        self.tunnel = make_tunnel(config.task)
        self.module = MODELS[config.model.kind]
        self.loss_and_gradients = differentiate(self._loss)

    @cached_property
    def held(self) -> Drawn:
        """Held-out sequences of the tested length."""
        return self.tunnel.held_out(generator(self.seed, HELD_OUT), self.dtype)

    def logits(self, parameters: Parameters, tokens: Tensor) -> Tensor:
        """Logits (B, L, C) at the supervised positions."""
        z: Tensor = self.module.logits(parameters, tokens, self.model, self.supervised)
        return z

    def _loss(self, parameters: Parameters, batch: Batch) -> Tensor:
        z = self.logits(parameters, batch.x)
        return F.cross_entropy(z.flatten(0, 1), batch.targets.flatten(0, 1))

    def initial(self) -> Parameters:
        parameters: Parameters = self.module.initial_parameters(self.config, self.seed)
        return parameters

    def batch(self, step: int) -> Batch:
        return self.tunnel.batch(generator(self.seed, TRAIN, step), self.dtype)

    @torch.no_grad()
    def probabilities(self, parameters: Parameters, *, positions: int | None = None) -> np.ndarray:
        """What the model says at the first ``positions`` supervised positions of the held-out sequences (B, L, C)."""
        x, first, step = self.held.batch.x, self.supervised.start, self.supervised.step or 1
        if positions is not None:
            x = x[:, : first + step * (positions - 1) + 1]
        z = [self.logits(parameters, part) for part in x.split(CHUNK)]
        p: np.ndarray = torch.softmax(torch.cat(z).double(), -1).numpy()
        return p

    def evaluate(self, parameters: Parameters) -> dict[str, Any]:
        n = self.tunnel.trained_to
        found = predictive_metrics(
            self.held.bayes[:, :n],
            self.probabilities(parameters, positions=n),
            self.held.batch.targets[:, :n].numpy(),
        )
        out = {f"held_out_{name}": value for name, value in found.items()}
        maps = [a for a, _ in self.look(parameters)]
        if maps:
            out["attention_entropy"] = float(np.mean([measurements.normalised_entropy(a) for a in maps]))
        return out

    def _probe(self, sequences: int) -> Batch:
        """The first held-out sequences, as far as the model is trained."""
        first, step, n = self.supervised.start, self.supervised.step or 1, self.tunnel.trained_to
        held = self.held.batch
        return Batch(held.x[:sequences, : first + step * (n - 1) + 1], held.targets[:sequences, :n])

    def laws(self, before: Parameters, after: Parameters) -> dict[str, Any]:
        def logits_of(parameters: Parameters, tokens: Tensor, attend: transformer.Attend) -> Tensor:
            return transformer.logits(parameters, tokens, self.model, self.supervised, attend=attend)

        return observe_head_laws(logits_of, before, after, self._probe(self.config.laws))

    @torch.no_grad()
    def look(self, parameters: Parameters) -> list[tuple[Tensor, Tensor]]:
        if self.model.kind != "transformer":
            return []
        return transformer.look(parameters, self._probe(PROBE).x, self.model)

    def read_out(self, parameters: Parameters) -> Tensor:
        return parameters["read_out"]

    def final(self, parameters: Parameters) -> dict[str, Any]:
        p = self.probabilities(parameters)
        targets = self.held.batch.targets.numpy()
        out = wind_tunnel.measure(self.held.bayes, p, targets, self.held.floors, self.tunnel.trained_to)
        return out | {"parameters": sum(value.numel() for value in parameters.values())}
