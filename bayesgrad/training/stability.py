r"""How far a checkpoint is from the final state: attention maps, values, read-out.

.. math:: d_{att}(t) = \mathrm{mean}\ \tfrac12 |a_i^{(t)} - a_i^{(T)}|_1, \qquad
          d_{val}(t) = \frac{\|v^{(t)} - v^{(T)}\|}{\|v^{(T)}\|}, \qquad
          d_{read}(t) = \sqrt{1 - \tfrac1r \sum \cos^2 \theta}

on a fixed held-out probe: rows of every head and layer, value vectors of every head and layer, principal angles between
the column spaces of the read-out. The permutation null of the attention distance compares each final map with the final
map of *another* sequence at the same place: what a map differs by when its content is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayesgrad.training.checkpoints import load, path_of
from bayesgrad.training.model import Parameters
from bayesgrad.training.problem import Problem


def row_variation(left: Tensor, right: Tensor) -> float:
    """Mean total variation between corresponding rows; the first query, which sees one key, is left out."""
    return float(0.5 * (left - right).abs().sum(-1)[..., 1:].mean())


def subspace_distance(left: Tensor, right: Tensor) -> float:
    """0 when the column spaces agree, 1 when they are orthogonal."""
    q1, q2 = torch.linalg.qr(left.double())[0], torch.linalg.qr(right.double())[0]
    squares = torch.linalg.svdvals(q1.mT @ q2) ** 2
    return float((1 - squares.mean()).clamp_min(0).sqrt())


def permutation_null(maps: Sequence[Tensor]) -> float | None:
    """Mean row variation between the final maps of different sequences; None where there is one sequence."""
    batched = [a for a in maps if a.dim() > 3 and len(a) > 1]
    if not batched:
        return None
    return float(np.mean([row_variation(a, a.roll(1, 0)) for a in batched]))


def _distances(problem: Problem, now: Parameters, end: Parameters, final: Any) -> dict[str, float]:
    seen = problem.look(now)
    attention = [row_variation(a, b) for (a, _), (b, _) in zip(seen, final, strict=True)]
    values = [float((v - w).norm() / w.norm()) for (_, v), (_, w) in zip(seen, final, strict=True)]
    return {
        "attention": float(np.mean(attention)),
        "values": float(np.mean(values)),
        "read_out": subspace_distance(problem.read_out(now), problem.read_out(end)),
    }


def measure(problem: Problem, folder: Path, steps: Sequence[int], identity: dict[str, Any]) -> dict[str, Any]:
    """Distances to the last of ``steps`` along the snapshots in ``folder``, and held-out KL in bits beside them."""
    end = load(path_of(folder, steps[-1]), **identity).parameters
    final = problem.look(end)
    rows = []
    for step in steps:
        now = load(path_of(folder, step), **identity).parameters
        row: dict[str, float] = {"step": step} | _distances(problem, now, end, final)
        row["kl_bits"] = problem.evaluate(now)["held_out_kl_bits"]
        rows.append(row)
    return {
        "step": list(steps),
        "distance": {name: [row[name] for row in rows] for name in ("attention", "values", "read_out")},
        "kl_bits": [row["kl_bits"] for row in rows],
        "attention_null": permutation_null([a for a, _ in final]),
    }
