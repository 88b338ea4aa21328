"""Tasks as the loop sees them: a batch for a step, held-out sequences with their exact predictive, floors.

Every array comes from ``default_rng([seed, stream])`` (or ``[seed, stream, step]`` for fresh batches): the batch of a
step is a pure function of (seed, step), so that a resumed run needs no generator state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayesgrad.tasks import sticky_markov as sm
from bayesgrad.training.config import StickyMarkov

PROBLEM, TRAIN, HELD_OUT, WEIGHTS = range(4)
"""Streams of random numbers that a seed owns."""


def generator(seed: int, *stream: int) -> np.random.Generator:
    """The generator of one stream of ``seed``; streams never overlap."""
    return np.random.default_rng([seed, *stream])


@dataclass(frozen=True)
class Batch:
    """``x`` (..., n, d_x) or token ids (B, n), and ``targets`` of the supervised positions (..., n)."""

    x: Tensor
    targets: Tensor


@dataclass(frozen=True)
class HeldOut:
    """A held-out sequence with the exact predictive of each position, (n, C), in float64."""

    batch: Batch
    bayes: np.ndarray


class StickyMarkovData:
    """One sequence for every step (full batch), ``task.held_out`` fresh ones that share mu and P."""

    def __init__(self, task: StickyMarkov, seed: int, dtype: torch.dtype) -> None:
        self.task, self.seed, self.dtype = task, seed, dtype
        self.problem = sm.sample_problem(
            generator(seed, PROBLEM),
            symbols=task.symbols,
            d_x=task.d_x,
            self_probability=task.self_probability,
            row=task.row,  # type: ignore[arg-type]
            sigma=task.sigma,
        )
        self.train = self._batch(sm.sample_sequence(self.problem, task.length, generator(seed, TRAIN)))
        self._held_out: list[HeldOut] | None = None

    def _batch(self, sequence: sm.Sequence) -> Batch:
        # position t carries a picture of y_{t-1}: its target y_t is never what it shows
        if not (np.array_equal(sequence.targets, sequence.path[1:]) and len(sequence.x) == len(sequence.path) - 1):
            raise AssertionError("a supervised position has its own target as its input")
        return Batch(torch.tensor(sequence.x, dtype=self.dtype), torch.tensor(sequence.targets))

    def batch(self, step: int) -> Batch:
        return self.train

    def held_out(self) -> list[HeldOut]:
        if self._held_out is None:
            self._held_out = []
            for index in range(self.task.held_out):
                sequence = sm.sample_sequence(self.problem, self.task.length, generator(self.seed, HELD_OUT, index))
                self._held_out.append(HeldOut(self._batch(sequence), sm.predictive(self.problem, sequence.x)))
        return self._held_out

    def facts(self) -> dict[str, Any]:
        """Entropy rate (nats) and, per floor, the metrics of a baseline that has learnt nothing or little."""
        from bayesgrad.training.metrics import average, predictive_metrics

        uniform = np.full(self.task.symbols, 1.0 / self.task.symbols)
        floors: dict[str, list[dict[str, float]]] = {"uniform": []}
        for held in self.held_out():
            x = held.batch.x.double().numpy()
            targets = held.batch.targets.numpy()
            floors["uniform"].append(
                predictive_metrics(held.bayes, np.broadcast_to(uniform, held.bayes.shape), targets)
            )
            for window in (1, 2, 3):
                name = f"window filter of {window}"
                seen = sm.window_predictive(self.problem, x, window)
                floors.setdefault(name, []).append(predictive_metrics(held.bayes, seen, targets))
            floors.setdefault("exact", []).append(predictive_metrics(held.bayes, held.bayes, targets))
        # the best constant entropy is a floor of the entropy error alone: the median of the exact entropies
        exact = np.concatenate([-(h.bayes * np.log2(h.bayes)).sum(-1) for h in self.held_out()])
        constant = float(np.abs(exact - np.median(exact)).mean())
        out: dict[str, Any] = {name: average(rows) for name, rows in floors.items()}
        out["best constant entropy"] = {"entropy_mae_bits": constant}
        return {"entropy_rate_nats": sm.entropy_rate(self.problem.P), "floors": out}
