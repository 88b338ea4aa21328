"""Layers with a linear read-out: upstream gradient, projections, inputs, many heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import bayesgrad
from bayesgrad import block, fused, heads
from bayesgrad.testing.engine import LawViolation
from bayesgrad.testing.examples import Layer
from bayesgrad.testing.strategies import layers
from checks.oracles.layers import HEADS_APART, LOSS, STAGES, by_head, layer_gradients, present
from checks.registry import checks

WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")
BIASES = ("c_Q", "c_K", "c_V", "c_O")
GROUPS = ((2, 1), (2, 2), (2, 1), (3, 1), (2, 2), (4, 2))


def gradients_of(layer: Layer, function: Callable[..., block.BlockGradients], **more: Any) -> block.BlockGradients:
    """What a function of the whole block says of a layer; ``more``: arguments that not every such function takes."""
    options = {name: getattr(layer, name) for name in ("y", "heads", "kv_heads", "mask", "scale", "reduction", *BIASES)}
    return function(layer.x, *(getattr(layer, name) for name in WEIGHTS), layer.targets, **options, **more)


def whole(layer: Layer) -> block.BlockGradients:
    """Loss, gradients and what lies between, from ``attention_block_gradients``."""
    more = {"bias": layer.beta, "dropout": layer.dropout, "intermediates": True}
    return gradients_of(layer, block.attention_block_gradients, **more)


def parts(layer: Layer) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """dL/dq, dL/dk, dL/dv, g and r of a layer with one head, from the laws of the head."""
    head = layer.head()
    g = bayesgrad.attention(head.q, head.k, head.v, mask=head.mask, scale=head.scale).context
    r = bayesgrad.cross_entropy(g @ layer.W_O + layer.bias("c_O"), layer.targets, reduction=layer.reduction)[1]
    got = bayesgrad.attention_gradients(head.q, head.k, head.v, r @ layer.W_O.T, mask=head.mask, scale=head.scale)
    return got.queries, got.keys, got.values, g, r


@checks(
    "attention.upstream",
    oracle=(*layer_gradients("g"), *STAGES),
    given=layers(),
    states={"upstream": "g"},
)
def check_upstream(layer: Layer) -> dict[str, Any]:
    """u_i = dL/dg_i = r_i W_O^T, and everything that lies between input and loss."""
    got = whole(layer)
    between = got.attention
    assert between is not None
    return {
        "g": between.upstream[0],
        "q": between.queries[0],
        "k": between.keys[0],
        "v": between.values[0],
        "a": between.attention.weights[0],
        "context": between.attention.context[0],
        "s": np.where(layer.visible, between.attention.scores[0], 0.0),
        "z": between.logits,
        "u W_O": between.logit_gradient @ layer.W_O.T,
        "dq": between.gradients.queries[0],
    }


@checks(
    "attention.projection-laws",
    oracle=layer_gradients(*WEIGHTS, *BIASES, differentiate=("W_Q",)),
    given=layers(cross=None, same_width=True),
    states={**{name: name for name in WEIGHTS}, "value-bias": "c_V", "c_O": "c_O"},
)
def check_projection_laws(layer: Layer) -> dict[str, Any]:
    """dL/dW_Q = sum_i x_i^T dL/dq_i, likewise W_K, W_V, W_O and the biases."""
    dq, dk, dv, g, r = parts(layer)
    got = bayesgrad.projection_gradients(layer.x, dq, dk, dv, y=layer.y)._asdict()
    got |= bayesgrad.read_out_gradients(g, r)._asdict()
    return {name: got[name] for name in present(layer, (*WEIGHTS, *BIASES))}


@checks(
    "attention.input-law",
    oracle=layer_gradients("x"),
    given=layers(cross=False),
    states={"self-attention": "x"},
    share=0.5,
)
def check_input_law(layer: Layer) -> dict[str, Any]:
    """dL/dx = dL/dq W_Q^T + dL/dk W_K^T + dL/dv W_V^T."""
    return inputs(layer)


@checks(
    "attention.input-law",
    oracle=layer_gradients("x", "y"),
    given=layers(cross=True, same_width=True),
    states={"queries' input": "x", "keys' input": "y"},
    share=0.5,
)
def check_input_law_of_cross_attention(layer: Layer) -> dict[str, Any]:
    """The query part for the one input, the key and value parts for the other."""
    return inputs(layer)


def inputs(layer: Layer) -> dict[str, Any]:
    """dL/dx and, in cross-attention, dL/dy, from ``input_gradients``."""
    dq, dk, dv, _, _ = parts(layer)
    got = bayesgrad.input_gradients(dq, dk, dv, layer.W_Q, layer.W_K, layer.W_V, cross=layer.y is not None)
    return {name: getattr(got, name) for name in present(layer, ("x", "y"))}


@checks(
    "attention.multi-head",
    oracle=(*layer_gradients("W_Q", "W_K", "W_V", "W_O", "c_Q", "c_V", "c_O", "x", differentiate=("W_K",)), *LOSS),
    given=layers(heads=GROUPS, pairs=True),
    share=0.5,
)
def check_multi_head(layer: Layer) -> dict[str, Any]:
    """Query head h reads key/value head h // (H/G), whose gradient sums over its group."""
    got = whole(layer)
    for name in BIASES:
        if (getattr(got, name) is None) != (getattr(layer, name) is None):
            raise LawViolation(f"attention.multi-head: the gradient of {name} is there without {name}, or missing")
    names = present(layer, ("W_Q", "W_K", "W_V", "W_O", "c_Q", "c_V", "c_O", "x"))
    return {"L": np.asarray(got.loss), **{name: getattr(got, name) for name in names}}


@checks(
    "attention.multi-head",
    oracle=(*layer_gradients(*WEIGHTS, *BIASES, "x", "y", differentiate=()), *LOSS),
    given=layers(heads=((1, 1), *GROUPS)),
    share=0.5,
)
def check_one_sweep(layer: Layer) -> dict[str, Any]:
    """The same gradients from one sweep over tiles of one or two queries, of which no weight is kept."""
    got = gradients_of(layer, fused.attention_block_gradients, tile=1 + layer.x.shape[0] % 2)
    names = present(layer, (*WEIGHTS, *BIASES, "x", "y"))
    return {"L": np.asarray(got.loss), **{name: getattr(got, name) for name in names}}


@checks(
    "attention.multi-head",
    oracle=HEADS_APART,
    given=layers(heads=GROUPS),
    states={"values": "values", "keys": "keys", "queries": "queries", "upstream": "upstream"},
)
def check_heads_apart(layer: Layer) -> dict[str, Any]:
    """The laws hold head by head; keys and values sum over the query heads that read them."""
    q, k, v = by_head(layer)
    u = heads.split_heads(layer.logit_gradient() @ layer.W_O.T, layer.heads)
    got = heads.grouped_attention_gradients(q, k, v, u, mask=layer.mask, scale=layer.scale)
    return {"queries": got.queries, "keys": got.keys, "values": got.values, "upstream": u}


@checks("attention.multi-head", oracle=HEADS_APART, given=layers(heads=GROUPS, pairs=True), share=0.25)
def check_heads_apart_with_bias_and_dropout(layer: Layer) -> dict[str, Any]:
    """The same where the scores have a bias and the weights a dropout multiplier, each in its place."""
    q, k, v = by_head(layer)
    u = heads.split_heads(layer.logit_gradient() @ layer.W_O.T, layer.heads)
    pairs = {"bias": layer.beta, "dropout": layer.dropout}
    got = heads.grouped_attention_gradients(q, k, v, u, mask=layer.mask, scale=layer.scale, **pairs)
    return {"queries": got.queries, "keys": got.keys, "values": got.values, "upstream": u}
