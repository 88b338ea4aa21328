r"""First-order changes of one head when its four matrices move, composed from bayesgrad's closed forms.

With :math:`dq = x\,dW_Q`, :math:`dk = x\,dW_K`, :math:`dv = x\,dW_V`:

.. math::

    ds_{ij} &= \text{scale}\,(dq_i \cdot k_j + q_i \cdot dk_j), \qquad da_i = F_i\, ds_i, \qquad
    dg_i = \sum_j da_{ij} v_j + a_{ij} dv_j \\
    dz &= dg\, W_O + g\, dW_O, \qquad du_i = dz_i\, \tau_i (\mathrm{diag}\, p_i - p_i p_i^T) W_O^T + r_i\, dW_O^T \\
    db_{ij} &= du_i \cdot v_j + u_i \cdot dv_j, \qquad dA_{ij} = \sum_k (da_{ik} b_{ik} + a_{ik} db_{ik}) - db_{ij}

and :math:`dL = \langle \partial L/\partial W, dW \rangle` over the matrices. "Frozen u" drops du: it is an assumption
and not a small-step limit, because du is of the same order as the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bayesgrad.attention import attention
from bayesgrad.cross_entropy import cross_entropy
from bayesgrad.gradients import advantage, attention_gradients, compatibility
from bayesgrad.training.data import Batch
from bayesgrad.training.model import Parameters, causal


@dataclass(frozen=True)
class State:
    """What one head computes, and the closed-form gradient of its mean cross-entropy in each matrix."""

    parameters: Parameters
    x: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    a: Tensor
    g: Tensor
    p: Tensor
    r: Tensor
    u: Tensor
    b: Tensor
    A: Tensor
    loss: Tensor
    scores: Tensor
    values: Tensor
    gradients: Parameters

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.q.shape[-1])


def state_of(parameters: Parameters, batch: Batch) -> State:
    """Everything of the head at ``parameters``, by bayesgrad's functions alone."""
    x = batch.x
    mask = causal(x.shape[-2])
    q, k, v = x @ parameters["W_Q"], x @ parameters["W_K"], x @ parameters["W_V"]
    made = attention(q, k, v, mask=mask)
    z = made.context @ parameters["W_O"]
    entropy = cross_entropy(z, batch.targets, validate=False)
    r = entropy.logit_gradient
    u = r @ parameters["W_O"].mT
    got = attention_gradients(q, k, v, u, mask=mask)
    b = compatibility(u, v)
    gradients = {
        "W_Q": x.mT @ got.queries,
        "W_K": x.mT @ got.keys,
        "W_V": x.mT @ got.values,
        "W_O": made.context.mT @ r,
    }
    return State(
        parameters, x, q, k, v, made.weights, made.context, torch.softmax(z, -1), r, u, b,
        advantage(made.weights, b, validate=False), entropy.loss, got.scores, got.values, gradients,
    )  # fmt: skip


@dataclass(frozen=True)
class Change:
    """First-order changes: loss (), g (n, d_v), u (n, d_v), b (n, n), A (n, n)."""

    loss: Tensor
    g: Tensor
    u: Tensor
    b: Tensor
    A: Tensor


def fisher_times(a: Tensor, h: Tensor) -> Tensor:
    """F_i h_i for every row: a_ij (h_ij - sum_k a_ik h_ik), which is also da when h = ds."""
    return a * (h - (a * h).sum(-1, keepdim=True))


def upstream_change(s: State, dg: Tensor, dW_O: Tensor) -> Tensor:
    """du_i = dz_i tau_i (diag p_i - p_i p_i^T) W_O^T + r_i dW_O^T with tau_i = 1/N (mean loss)."""
    W_O = s.parameters["W_O"]
    dz = dg @ W_O + s.g @ dW_O
    return fisher_times(s.p, dz) / len(s.p) @ W_O.mT + s.r @ dW_O.mT


def advantage_change(s: State, da: Tensor, db: Tensor) -> Tensor:
    """dA_ij = sum_k (da_ik b_ik + a_ik db_ik) - db_ij."""
    return (da * s.b + s.a * db).sum(-1, keepdim=True) - db


def predicted(s: State, step: Parameters) -> Change:
    """First-order changes when each matrix moves by ``step``."""
    dq, dk, dv = s.x @ step["W_Q"], s.x @ step["W_K"], s.x @ step["W_V"]
    ds = s.scale * (dq @ s.k.mT + s.q @ dk.mT)
    da = fisher_times(s.a, ds)
    dg = da @ s.v + s.a @ dv
    du = upstream_change(s, dg, step["W_O"])
    db = du @ s.v.mT + s.u @ dv.mT
    loss = sum(((s.gradients[name] * step[name]).sum() for name in step), torch.zeros((), dtype=s.x.dtype))
    return Change(loss, dg, du, db, advantage_change(s, da, db))
