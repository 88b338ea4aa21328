r"""First-order changes of heads when what they read moves, composed from bayesgrad's closed forms.

From dq, dk, dv and du of any head, and for the one-head model with :math:`dq = x\,dW_Q`, :math:`dk = x\,dW_K`,
:math:`dv = x\,dW_V`:

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

from bayesgrad import softmax
from bayesgrad.block import attention_block_gradients
from bayesgrad.dynamics import loss_change
from bayesgrad.gradients import advantage
from bayesgrad.training.data import Batch
from bayesgrad.training.model import Parameters, causal


@dataclass(frozen=True)
class Head:
    """What a head computes and what the loss asks of it; axes before positions are heads and sequences.

    visible (n, m), q (..., n, d_k), k (..., m, d_k), v, values (..., m, d_v), g, u (..., n, d_v), a, b, A, scores
    (..., n, m); ``scores`` and ``values`` are dL/ds and dL/dv by the laws.
    """

    visible: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    a: Tensor
    g: Tensor
    u: Tensor
    b: Tensor
    A: Tensor
    scores: Tensor
    values: Tensor

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.q.shape[-1])


@dataclass(frozen=True)
class State(Head):
    """The one-head model: its head, read-out, and the closed-form gradient of its mean cross-entropy in each matrix."""

    parameters: Parameters
    x: Tensor
    p: Tensor
    r: Tensor
    loss: Tensor
    gradients: Parameters


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
        visible=causal(len(batch.x)),
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


def score_change(s: Head, dq: Tensor, dk: Tensor) -> Tensor:
    """ds_ij = scale (dq_i . k_j + q_i . dk_j)."""
    return s.scale * (dq @ s.k.mT + s.q @ dk.mT)


def context_change(s: Head, da: Tensor, dv: Tensor) -> Tensor:
    """dg_i = sum_j da_ij v_j + a_ij dv_j."""
    return da @ s.v + s.a @ dv


def compatibility_change(s: Head, du: Tensor, dv: Tensor) -> Tensor:
    """db_ij = du_i . v_j + u_i . dv_j."""
    return du @ s.v.mT + s.u @ dv.mT


def advantage_change(s: Head, da: Tensor, db: Tensor) -> Tensor:
    """dA_ij = sum_k (da_ik b_ik + a_ik db_ik) - db_ij."""
    return (da * s.b + s.a * db).sum(-1, keepdim=True) - db


def predicted(s: State, step: Parameters) -> Change:
    """First-order changes when each matrix moves by ``step``."""
    dv = s.x @ step["W_V"]
    da = fisher_times(s.a, score_change(s, s.x @ step["W_Q"], s.x @ step["W_K"]))
    dg = context_change(s, da, dv)
    du = upstream_change(s, dg, step["W_O"])
    db = compatibility_change(s, du, dv)
    loss = torch.stack([loss_change(s.gradients[name], step[name]) for name in step]).sum()
    return Change(loss, dg, du, db, advantage_change(s, da, db))
