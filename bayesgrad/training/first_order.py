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
from typing import Any

import torch
from torch import Tensor

from bayesgrad.block import attention_block_gradients
from bayesgrad.dynamics import loss_change
from bayesgrad.gradients import advantage
from bayesgrad.softmax import softmax
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
    matrices: dict[str, Any] = {**parameters}
    got = attention_block_gradients(
        batch.x, **matrices, targets=batch.targets, mask=causal(len(batch.x)), intermediates=True, validate=False
    )
    between: Any = got.attention
    # one head: its axis, which stands before the positions, is dropped
    q, k, v, a, g, u = (
        part[0]
        for part in (
            between.queries,
            between.keys,
            between.values,
            between.attention.weights,
            between.attention.context,
            between.upstream,
        )
    )
    b = between.gradients.weights[0]
    return State(
        parameters=parameters,
        x=batch.x,
        q=q,
        k=k,
        v=v,
        a=a,
        g=g,
        p=softmax(between.logits),
        r=between.logit_gradient,
        u=u,
        b=b,
        A=advantage(a, b, validate=False),
        loss=got.loss,
        scores=between.gradients.scores[0],
        values=between.gradients.values[0],
        gradients={name: getattr(got, name) for name in parameters},
    )


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
    loss = torch.stack([loss_change(s.gradients[name], step[name]) for name in step]).sum()
    return Change(loss, dg, du, db, advantage_change(s, da, db))
