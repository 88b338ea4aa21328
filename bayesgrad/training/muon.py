r"""Muon: momentum whose direction is made orthogonal, for the matrices inside a network; AdamW for everything else.

.. math:: m \leftarrow \mu m + (1 - \mu)\, g, \qquad d = (1 - \mu)\, g + \mu m, \qquad
          W \leftarrow W - \eta \sqrt{\max(1, r/c)}\; \mathrm{orth}(d)

for a matrix of r rows and c columns. orth keeps the singular vectors and moves every singular value close to 1, by five
steps of a quintic Newton-Schulz iteration (K. Jordan's coefficients, as in ``torch.optim.Muon``). Matrices of one shape
go through it together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bayesgrad.training.config import AdamW, Muon
from bayesgrad.training.model import Parameters
from bayesgrad.training.update_rules import AdamWRule, Oracle, State, Step, clipped

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonalised(x: Tensor) -> Tensor:
    """``x`` (..., r, c) with its singular values moved close to 1 (between about 0.7 and 1.2)."""
    a, b, c = COEFFICIENTS
    tall = x.shape[-2] > x.shape[-1]
    y = x.mT if tall else x
    y = y / (torch.linalg.matrix_norm(y, keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        square = y @ y.mT
        y = a * y + (b * square + c * square @ square) @ y
    return y.mT if tall else y


def inner(name: str, value: Tensor) -> bool:
    """Whether Muon moves this parameter: a matrix of a layer, not an embedding, a read-out, a bias or a gain."""
    return name.startswith("layer") and value.dim() == 2


class _Given(Oracle):
    """An oracle that has been asked already."""

    def __init__(self, loss: Tensor, gradients: Parameters) -> None:
        self.loss, self.given = loss, gradients

    def gradients(self, parameters: Parameters) -> tuple[Tensor, Parameters]:
        return self.loss, self.given


class MuonRule:
    """Muon on the inner matrices at ``rate``, AdamW on the rest at ``rate_other``, one schedule for both."""

    def __init__(self, config: Muon, steps: int) -> None:
        self.config = config
        shared: dict[str, Any] = {"warm_up": config.warm_up, "cosine": config.cosine, "beta2": config.beta2}
        self.adam = AdamWRule(AdamW(rate=config.rate_other, **shared), steps)

    def start(self, parameters: Parameters) -> State:
        mine, rest = _split(parameters, parameters)
        return {"m": {k: torch.zeros_like(p) for k, p in mine.items()}, "adam": self.adam.start(rest)}

    def __call__(self, parameters: Parameters, oracle: Oracle, state: State) -> Step:
        c = self.config
        loss, gradients = oracle.gradients(parameters)
        gradients = clipped(gradients, c.clip)
        mine, rest = _split(parameters, gradients)
        rate = c.rate * self.adam.rate(state["adam"]["t"]) / c.rate_other
        m = {k: torch.lerp(state["m"][k], g, 1 - c.momentum) for k, g in mine.items()}
        ahead = {k: torch.lerp(g, m[k], c.momentum) for k, g in mine.items()}
        moved = self.adam({k: parameters[k] for k in rest}, _Given(loss, rest), state["adam"])
        new = moved.parameters
        for names in _by_shape(ahead):
            directions = orthogonalised(torch.stack([ahead[k] for k in names]))
            size = max(1.0, directions.shape[-2] / directions.shape[-1]) ** 0.5
            new |= {k: parameters[k] - rate * size * d for k, d in zip(names, directions.unbind(), strict=True)}
        return Step(loss, {k: new[k] for k in parameters}, {"m": m, "adam": moved.state})


def _split(parameters: Parameters, values: Mapping[str, Tensor]) -> tuple[Parameters, Parameters]:
    mine = {k: values[k] for k, p in parameters.items() if inner(k, p)}
    return mine, {k: values[k] for k in parameters if k not in mine}


def _by_shape(matrices: Mapping[str, Tensor]) -> list[list[str]]:
    shapes: dict[torch.Size, list[str]] = {}
    for name, value in matrices.items():
        shapes.setdefault(value.shape, []).append(name)
    return list(shapes.values())
