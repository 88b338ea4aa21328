"""Forward mode: PyTorch's dual numbers (torch.autograd.forward_ad) pushed through explicit operations in float64.

A stage or parameter x moves along a direction dx, and every stage y after it comes with dy = (dy/dx) dx. The rules are
PyTorch's; they share nothing with those of our jets (:mod:`bayesgrad.testing.jets`), nor with reverse mode's. Where u
is itself a gradient (the feedback of a whole layer) it is written out: forward mode then differentiates it once.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from bayesgrad.testing.examples import Array, Head, Logits, Mixture


@functools.cache
def _load() -> None:
    """PyTorch compiles formulas for some operators at the first use, and warns of its own compiler."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        forward_ad.make_dual(torch.zeros(1), torch.zeros(1))


def _tensor(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(x, dtype=np.float64))


class Line:
    """A block within which variables move along directions: ``with Line(moves) as line: v = line("v", head.v)``."""

    def __init__(self, moves: Mapping[str, Array]) -> None:
        _load()
        self.moves = {name: _tensor(move) for name, move in moves.items()}
        self.level = forward_ad.dual_level()

    def __enter__(self) -> Line:
        self.level.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.level.__exit__(*error)

    def __call__(self, name: str, x: Any) -> torch.Tensor:
        """``x`` as a tensor, with its direction if it has one; a stage that is a tensor already keeps what it has."""
        tensor = x if isinstance(x, torch.Tensor) else _tensor(x)
        if name not in self.moves:
            return tensor
        own = forward_ad.unpack_dual(tensor)
        direction = self.moves[name] if own.tangent is None else own.tangent + self.moves[name]
        return forward_ad.make_dual(own.primal, direction)

    @staticmethod
    def slopes(stages: Mapping[str, torch.Tensor]) -> dict[str, Array]:
        """name -> the derivative of the stage along the line; zeros where it does not move."""
        found = {}
        for name, x in stages.items():
            tangent = forward_ad.unpack_dual(x).tangent
            found[name] = np.zeros(tuple(x.shape)) if tangent is None else tangent.numpy()
        return found


def softmax(s: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """exp s over the sum of the visible exp s, the largest score taken out first."""
    hidden = torch.where(visible, s, -torch.inf)
    top = forward_ad.unpack_dual(hidden).primal.amax(-1, keepdim=True)
    e = torch.exp(torch.where(visible, s - top, -torch.inf))
    return e / e.sum(-1, keepdim=True)


def head_slopes(head: Head, moves: Mapping[str, Array], frozen: tuple[str, ...] = ()) -> dict[str, Array]:
    """d/dt at t = 0 of s, a, g, L, b = D u.v, bbar and A = bbar - b, the named stages moving by t moves[name].

    ``frozen``: stages that are held at their values for t = 0 (the weights, where only compatibility moves).
    """
    with Line(moves) as line:
        q, k, v = (line(name, getattr(head, name)) for name in "qkv")
        s = line("scale", head.the_scale) * (q @ k.mT)
        s = line("s", s if head.bias is None else s + _tensor(head.bias))
        a = line("a", softmax(s, torch.from_numpy(head.visible)))
        a = forward_ad.unpack_dual(a).primal if "a" in frozen else a
        multiplier, u = _tensor(head.multiplier), _tensor(head.u)
        g = line("g", (a * multiplier) @ v)
        b = multiplier * (u @ v.mT)
        bbar = (a * b).sum(-1)
        return line.slopes({"s": s, "a": a, "g": g, "L": (u * g).sum(), "b": b, "bbar": bbar, "A": bbar[:, None] - b})


def flow_slopes(scores: Array, costs: Array, visible: Array) -> dict[str, Array]:
    """d/dt at t = 0 of a = softmax(s - t c) over the visible keys, and of sum_j a_j c_j."""
    with Line({"s": -costs}) as line:
        a = softmax(line("s", scores), torch.from_numpy(visible))
        return line.slopes({"a": a, "mean": (a * _tensor(costs)).sum(-1)})


def upstream_slopes(
    weights: Array, values: Array, W: Array, c: Array, soft_targets: Array, moves: Mapping[str, Array]
) -> dict[str, Array]:
    """d/dt at t = 0 of u = (tau p - t) W^T, b = u.v and A, at fixed weights; moves of v, W and c."""
    with Line(moves) as line:
        a, v, W_O, t = _tensor(weights), line("v", values), line("W", W), _tensor(soft_targets)
        z = a @ v @ W_O + line("c", c)
        u = (t.sum(-1, keepdim=True) * softmax(z, torch.ones(z.shape, dtype=torch.bool)) - t) @ W_O.mT
        b = u @ v.mT
        return line.slopes({"u": u, "b": b, "A": (a * b).sum(-1, keepdim=True) - b})


def loss_slope(logits: Logits, direction: Array) -> tuple[float, float]:
    """L and its derivative along a direction of the logits, L written out as PyTorch defines it."""
    with Line({"z": direction}) as line:
        z = line("z", logits.z)
        top = forward_ad.unpack_dual(z).primal.amax(-1, keepdim=True)
        log_p = z - top - torch.exp(z - top).sum(-1, keepdim=True).log()
        loss = -(log_p * _tensor(logits.soft_targets())).sum()
        return float(forward_ad.unpack_dual(loss).primal), float(line.slopes({"L": loss})["L"])


def mixture_slope(example: Mixture) -> Array:
    """The derivative of -log sum pi exp(-c) along the change of the costs."""
    with Line({"c": example.change}) as line:
        loss = -(_tensor(example.pi) * torch.exp(-line("c", example.costs))).sum().log()
        return line.slopes({"l": loss})["l"]
