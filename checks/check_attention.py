"""The laws of one head, each from the closed form that bears its name and again from ``attention_gradients``."""

from __future__ import annotations

from typing import Any

import numpy as np

import bayesgrad
from bayesgrad import gradients
from bayesgrad.testing.examples import Head
from bayesgrad.testing.strategies import heads
from checks.oracles.heads import MEAN_COMPATIBILITY, head_gradients, visible_only
from checks.registry import checks


def _all(head: Head) -> bayesgrad.AttentionGradients:
    return bayesgrad.attention_gradients(
        head.q, head.k, head.v, head.u, mask=head.mask, bias=head.bias, scale=head.scale, dropout=head.dropout
    )


def _weights(head: Head) -> np.ndarray:
    return bayesgrad.attention(
        head.q, head.k, head.v, mask=head.mask, bias=head.bias, scale=head.scale, dropout=head.dropout
    ).weights


def _compatibility(head: Head) -> np.ndarray:
    return head.multiplier * bayesgrad.compatibility(head.u, head.v)


def _score_gradient(head: Head) -> np.ndarray:
    return bayesgrad.score_gradient(_weights(head), _compatibility(head))


@checks("attention.weight-gradient", oracle=head_gradients("a"), given=heads(), states={"weights": "a"})
def check_weight_gradient(head: Head) -> dict[str, Any]:
    """dL/da_ij = b_ij = D_ij u_i.v_j, the weights taken as free."""
    return {"a": _compatibility(head)}


@checks(
    "attention.routing-law",
    oracle=head_gradients("s"),
    given=heads(),
    states={"scores": "s", "advantage": "s", "bias": "s"},
)
def check_routing_law(head: Head) -> dict[str, Any]:
    """dL/ds_ij = a_ij (b_ij - bbar_i)."""
    return {"s": _score_gradient(head)}


@checks("attention.delta-identity", oracle=MEAN_COMPATIBILITY, given=heads(), states={"delta": "bbar"})
def check_delta_identity(head: Head) -> dict[str, Any]:
    """sum_k a_ik b_ik = u_i.g_i; context, scores, advantage and effective count on the way."""
    made = bayesgrad.attention(
        head.q, head.k, head.v, mask=head.mask, bias=head.bias, scale=head.scale, dropout=head.dropout
    )
    return {
        "bbar": gradients.mean_compatibility(head.u, made.context),
        "g": made.context,
        # The scores of hidden pairs are -inf here and finite in the oracles; the visible ones are compared.
        "s": np.where(head.visible, made.scores, head.scores()),
        "A": bayesgrad.advantage(made.weights, _compatibility(head)),
        "N": bayesgrad.effective_count(made.weights),
    }


@checks(
    "attention.value-law",
    oracle=head_gradients("v"),
    given=heads(dropout=False),
    states={"values": "v", "effective-count": "v"},
)
def check_value_law(head: Head) -> dict[str, Any]:
    """dL/dv_j = sum_i a_ij D_ij u_i."""
    return {"v": bayesgrad.value_gradient(_weights(head) * head.multiplier, head.u)}


@checks(
    "attention.query-law",
    oracle=head_gradients("q"),
    given=heads(),
    states={"queries": "q", "covariance": "q"},
)
def check_query_law(head: Head) -> dict[str, Any]:
    """dL/dq_i = scale sum_j (dL/ds_ij) k_j."""
    return {"q": bayesgrad.query_gradient(_score_gradient(head), head.k, scale=head.scale)}


@checks("attention.key-law", oracle=head_gradients("k"), given=heads(), states={"keys": "k"})
def check_key_law(head: Head) -> dict[str, Any]:
    """dL/dk_j = scale sum_i (dL/ds_ij) q_i."""
    return {"k": bayesgrad.key_gradient(_score_gradient(head), head.q, scale=head.scale)}


FIELDS = {"a": "weights", "s": "scores", "v": "values", "q": "queries", "k": "keys", "scale": "scale"}


@checks("attention.routing-law", oracle=visible_only(head_gradients(*FIELDS)), given=heads(), share=0.5)
def check_all_gradients_at_once(head: Head) -> dict[str, Any]:
    """``attention_gradients`` gives every law of the head, and dL/dscale = sum_ij (dL/ds_ij) q_i.k_j.

    dL/da at visible pairs only: what stands at a key that nobody sees is not looked at, so neither is its b.
    """
    got = _all(head)
    found = {name: getattr(got, field) for name, field in FIELDS.items()}
    return {**found, "a": found["a"] * head.visible}
