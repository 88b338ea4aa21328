r"""Tasks whose exact Bayesian predictive is known, as a sequence model sees them.

A tunnel draws sequences (tokens, targets, the exact predictive of every supervised position) and knows its floors:
what one reaches without learning, or with a short memory. Held-out sequences are as long as the task tests; training
sequences are as long as it trains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bayesgrad.tasks import bijection, hmm, hmm_encoding, hmm_floors
from bayesgrad.training.config import Bijection, Hmm
from bayesgrad.training.data import Batch


@dataclass(frozen=True)
class Drawn:
    """Sequences with the exact predictive ``bayes`` (B, L, C) of each supervised position, in float64."""

    batch: Batch
    bayes: np.ndarray
    floors: dict[str, np.ndarray]
    """Predictors (B, L, C) that have learnt nothing, or remember little."""


class Tunnel(Protocol):
    """What a sequence model needs to know about its task."""

    @property
    def trained_to(self) -> int:
        """Supervised positions of a training sequence; held-out ones may have more."""
        ...

    def batch(self, rng: np.random.Generator, dtype: torch.dtype) -> Batch:
        """A batch to train on."""
        ...

    def held_out(self, rng: np.random.Generator, dtype: torch.dtype) -> Drawn:
        """Sequences to test on."""
        ...


def _not_shown(condition: bool) -> None:
    if not condition:
        raise AssertionError("a supervised position has its own target as its input")


class BijectionTunnel:
    """A hidden permutation: see :mod:`bayesgrad.tasks.bijection`."""

    def __init__(self, task: Bijection) -> None:
        self.task, self.trained_to = task, task.keys

    def _sample(self, rng: np.random.Generator, count: int) -> bijection.Sequences:
        t = self.task
        drawn = bijection.sample(rng, count, values=t.values, keys=t.keys, protocol=t.protocol)  # type: ignore[arg-type]
        # a supervised token is a key, its target a value that comes one token later
        _not_shown(bool((drawn.tokens[:, t.supervised] < t.values).all()))
        return drawn

    def batch(self, rng: np.random.Generator, dtype: torch.dtype) -> Batch:
        drawn = self._sample(rng, self.task.batch)
        return Batch(torch.from_numpy(drawn.tokens), torch.from_numpy(drawn.targets))

    def held_out(self, rng: np.random.Generator, dtype: torch.dtype) -> Drawn:
        drawn = self._sample(rng, self.task.held_out)
        bayes = bijection.predictive(drawn.tokens, self.task.values)
        batch = Batch(torch.from_numpy(drawn.tokens), torch.from_numpy(drawn.targets))
        return Drawn(batch, bayes, {"uniform": np.full_like(bayes, 1 / self.task.values)})


class HmmTunnel:
    """A chain and its emissions in the header, then observations: see :mod:`bayesgrad.tasks.hmm`."""

    def __init__(self, task: Hmm) -> None:
        self.task, self.trained_to = task, task.steps

    def _sample(self, rng: np.random.Generator, count: int, steps: int) -> tuple[hmm.Sequences, np.ndarray]:
        t = self.task
        drawn = hmm.sample(
            rng,
            count,
            steps=steps,
            states=t.states,
            symbols=t.symbols,
            generator=t.generator,  # type: ignore[arg-type]
            rho=t.rho,
        )
        encoded = hmm_encoding.encode(drawn.T, drawn.E, drawn.shown, t.header)  # type: ignore[arg-type]
        # the supervised token shows o_t, its target is o_{t+1}: to the right of it, or nowhere in the input
        at = encoded.tokens[:, t.supervised]
        at = at[..., -t.symbols :].argmax(-1) if t.header == "rows" else at - hmm_encoding.FIRST_SYMBOL
        _not_shown(np.array_equal(at, drawn.observations[:, :-1]))
        _not_shown(np.array_equal(drawn.targets, drawn.observations[:, 1:]))
        return drawn, encoded.tokens

    def _tensor(self, tokens: np.ndarray, dtype: torch.dtype) -> Tensor:
        x = torch.from_numpy(tokens)
        return x.to(dtype) if x.is_floating_point() else x

    def batch(self, rng: np.random.Generator, dtype: torch.dtype) -> Batch:
        drawn, tokens = self._sample(rng, self.task.batch, self.task.steps)
        if self.task.target == "posterior":
            soft = hmm.filter_posterior(drawn.T, drawn.E, drawn.shown)
            return Batch(self._tensor(tokens, dtype), torch.from_numpy(soft).to(dtype))
        return Batch(self._tensor(tokens, dtype), torch.from_numpy(drawn.targets.copy()))

    def held_out(self, rng: np.random.Generator, dtype: torch.dtype) -> Drawn:
        drawn, tokens = self._sample(rng, self.task.held_out, self.task.test_steps)
        soft = hmm.filter_posterior(drawn.T, drawn.E, drawn.shown)
        guesses = hmm_floors.guesses(drawn.T, drawn.E, drawn.shown)
        x = self._tensor(tokens, dtype)
        if self.task.target == "posterior":
            # the outcome to score is the state, which the loss of distillation never sees
            states = torch.from_numpy(drawn.states[:, :-1].copy())
            return Drawn(Batch(x, states), soft, {name: guess.posterior for name, guess in guesses.items()})
        targets = torch.from_numpy(drawn.targets.copy())
        floors = {name: guess.predictive for name, guess in guesses.items()}
        return Drawn(Batch(x, targets), soft @ drawn.T @ drawn.E, floors)


def make_tunnel(task: Any) -> Tunnel:
    """The tunnel of a task's config."""
    return BijectionTunnel(task) if isinstance(task, Bijection) else HmmTunnel(task)
