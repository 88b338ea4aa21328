"""Layers with a linear read-out: upstream gradient, projections, inputs, many heads."""

from __future__ import annotations

from typing import Any

import numpy as np

import bayesgrad
from bayesgrad import block
from bayesgrad.testing.examples import Layer
from bayesgrad.testing.strategies import layers
from checks.oracles.layers import layer_gradients, present
from checks.registry import checks

WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")
BIASES = ("c_Q", "c_K", "c_V", "c_O")
GROUPS = ((2, 1), (2, 2), (2, 1), (3, 1), (2, 2), (4, 2))


def whole(layer: Layer) -> block.BlockGradients:
    """Loss, gradients and what lies between, from ``attention_block_gradients``."""
    biases: dict[str, Any] = {name: layer.bias(name) for name in BIASES}
    return block.attention_block_gradients(
        layer.x,
        layer.W_Q,
        layer.W_K,
        layer.W_V,
        layer.W_O,
        layer.targets,
        y=layer.y,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        mask=layer.mask,
        scale=layer.scale,
        reduction=layer.reduction,
        intermediates=True,
        **biases,
    )


def parts(layer: Layer) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """dL/dq, dL/dk, dL/dv, g and r of a layer with one head, from the laws of the head."""
    head = layer.head()
    g = bayesgrad.attention(head.q, head.k, head.v, mask=head.mask, scale=head.scale).context
    r = bayesgrad.cross_entropy(g @ layer.W_O + layer.bias("c_O"), layer.targets, reduction=layer.reduction)[1]
    got = bayesgrad.attention_gradients(head.q, head.k, head.v, r @ layer.W_O.T, mask=head.mask, scale=head.scale)
    return got.queries, got.keys, got.values, g, r


@checks("attention.upstream", oracle=layer_gradients("g"), given=layers(), states="g")
def check_upstream(layer: Layer) -> dict[str, Any]:
    """u_i = dL/dg_i = r_i W_O^T."""
    between = whole(layer).attention
    assert between is not None
    return {"g": between.upstream[0]}


@checks(
    "attention.projection-laws",
    oracle=layer_gradients(*WEIGHTS, *BIASES, differentiate=("W_Q",)),
    given=layers(),
    states="W_Q",
)
def check_projection_laws(layer: Layer) -> dict[str, Any]:
    """dL/dW_Q = sum_i x_i^T dL/dq_i, likewise W_K, W_V, W_O and the biases."""
    dq, dk, dv, g, r = parts(layer)
    got = bayesgrad.projection_gradients(layer.x, dq, dk, dv, y=layer.y, context=g, logits=r)
    return {name: getattr(got, name) for name in (*WEIGHTS, *BIASES)}


@checks("attention.input-law", oracle=layer_gradients("x", "y"), given=layers(), states="x")
def check_input_law(layer: Layer) -> dict[str, Any]:
    """dL/dx = dL/dq W_Q^T + dL/dk W_K^T + dL/dv W_V^T; the three apart in cross-attention."""
    dq, dk, dv, _, _ = parts(layer)
    got = bayesgrad.input_gradients(dq, dk, dv, layer.W_Q, layer.W_K, layer.W_V, cross=layer.y is not None)
    return {name: getattr(got, name) for name in present(layer, ("x", "y"))}


@checks(
    "attention.multi-head",
    oracle=layer_gradients("W_K", "W_V", "W_O", "c_V", "x", differentiate=("W_K",)),
    given=layers(heads=GROUPS),
    states="W_K",
)
def check_multi_head(layer: Layer) -> dict[str, Any]:
    """Query head h reads key/value head h // (H/G), whose gradient sums over its group."""
    got = whole(layer)
    return {name: getattr(got, name) for name in ("W_K", "W_V", "W_O", "c_V", "x")}
