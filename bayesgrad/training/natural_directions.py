r"""Natural gradient and E-step targets of one causal head, tile by tile over the queries.

.. math::

    \text{natural:}\quad \frac{\partial L}{\partial s_{ij}} \;\to\; b_{ij} - \bar b_i \text{ over the visible keys},
    \qquad
    \text{E-step target:}\quad a^*_{ij} = a_{ij}\, e^{-\eta b_{ij}} / Z_i

with :math:`b_{ij} = u_i \cdot v_j`. Query tiles see only the keys before their end, so nothing n x n is held but the
E-step's targets. The mean loss puts 1/N into b: eta is given in units of N, so that it means the same at every length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bayesgrad.training.data import Batch
from bayesgrad.training.model import Parameters, causal

TILE = 128


@dataclass(frozen=True)
class Projected:
    """q (already scaled), k, v of one head."""

    q: Tensor
    k: Tensor
    v: Tensor


def project(parameters: Parameters, x: Tensor) -> Projected:
    q = x @ parameters["W_Q"]
    return Projected(q / math.sqrt(q.shape[-1]), x @ parameters["W_K"], x @ parameters["W_V"])


def tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Pairs (rows, keys): rows of a tile, and the keys that any of them may see."""
    for start in range(0, n, TILE):
        end = min(start + TILE, n)
        yield slice(start, end), slice(0, end)


def hidden(rows: slice, keys: slice) -> Tensor:
    """True at the pairs of the tile that the causal mask hides."""
    size = rows.stop - rows.start
    mask = torch.zeros(size, keys.stop, dtype=torch.bool)
    mask[:, rows.start :] = ~causal(size)
    return mask


def weights(h: Projected, rows: slice, keys: slice) -> Tensor:
    """a of a tile."""
    scores = h.q[rows] @ h.k[keys].mT
    return torch.softmax(scores.masked_fill(hidden(rows, keys), -math.inf), dim=-1)


@dataclass(frozen=True)
class Sweep:
    """Loss, read-out and value gradients, the natural direction in W_Q and W_K, and (a, b) of each tile on request."""

    loss: Tensor
    gradients: Parameters
    a: list[Tensor]
    b: list[Tensor]


def sweep(parameters: Parameters, batch: Batch, *, keep: bool = False) -> Sweep:
    """One pass over the tiles; ``gradients`` holds the *natural* direction for W_Q and W_K, the plain one elsewhere."""
    x, targets = batch.x, batch.targets
    n = len(x)
    h = project(parameters, x)
    W_O = parameters["W_O"]
    dq, dk, dv = torch.zeros_like(h.q), torch.zeros_like(h.k), torch.zeros_like(h.v)
    dW_O, loss = torch.zeros_like(W_O), x.new_zeros(())
    kept_a, kept_b = [], []
    for rows, keys in tiles(n):
        a = weights(h, rows, keys)
        g = a @ h.v[keys]
        log_p = torch.log_softmax(g @ W_O, dim=-1)
        own = targets[rows, None]
        loss = loss - log_p.gather(1, own).sum() / n
        r = log_p.exp().scatter_add(1, own, x.new_full(own.shape, -1.0)) / n
        u = r @ W_O.mT
        b = u @ h.v[keys].mT
        delta = (b - (u * g).sum(-1, keepdim=True)).masked_fill(hidden(rows, keys), 0.0)
        dW_O += g.mT @ r
        dv[keys] += a.mT @ u
        dq[rows] = delta @ h.k[keys]
        dk[keys] += delta.mT @ h.q[rows]
        if keep:
            kept_a.append(a)
            kept_b.append(b)
    scale = 1 / math.sqrt(h.q.shape[-1])
    gradients = {"W_Q": scale * (x.mT @ dq), "W_K": x.mT @ dk, "W_V": x.mT @ dv, "W_O": dW_O}
    return Sweep(loss, gradients, kept_a, kept_b)


def e_targets(found: Sweep, eta: float, n: int) -> list[Tensor]:
    """a* = a exp(-eta N b) / Z of each tile, at frozen u: Bayes' rule with likelihood exp(-eta N b)."""
    out = []
    for a, b in zip(found.a, found.b, strict=True):
        # hidden pairs have a = 0 and drop out; the largest exponent of the visible ones is subtracted
        log = (a.log() - eta * n * b).masked_fill(a == 0, -math.inf)
        out.append(torch.softmax(log, dim=-1))
    return out


def e_gradients(parameters: Parameters, x: Tensor, target: list[Tensor]) -> tuple[Tensor, Parameters]:
    """Mean over rows of KL(a*_i || a_i), and its gradient in W_Q and W_K: dKL/ds = a - a*."""
    n = len(x)
    h = project(parameters, x)
    dq, dk, kl = torch.zeros_like(h.q), torch.zeros_like(h.k), x.new_zeros(())
    for (rows, keys), a_star in zip(tiles(n), target, strict=True):
        a = weights(h, rows, keys)
        ds = (a - a_star) / n
        dq[rows] = ds @ h.k[keys]
        dk[keys] += ds.mT @ h.q[rows]
        tiny = torch.finfo(a.dtype).tiny
        kl = kl + torch.special.xlogy(a_star, a_star.clamp_min(tiny) / a.clamp_min(tiny)).sum() / n
    return kl, {"W_Q": x.mT @ dq / math.sqrt(h.q.shape[-1]), "W_K": x.mT @ dk}
