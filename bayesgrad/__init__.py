"""Closed-form gradients of attention under cross-entropy.

>>> import numpy as np
>>> import bayesgrad as bg
>>> rng = np.random.default_rng(0)
>>> q, k, v, u = (rng.normal(size=shape) for shape in ((2, 3), (4, 3), (4, 5), (2, 5)))
>>> got = bg.attention_gradients(q, k, v, u)
>>> got.queries.shape, got.keys.shape, got.values.shape
((2, 3), (4, 3), (4, 5))
"""

import importlib
from typing import Any

from bayesgrad._attention import Attention, attention
from bayesgrad._cross_entropy import CrossEntropy, cross_entropy
from bayesgrad._explain import Explanation, explain
from bayesgrad._head import AttentionGradients
from bayesgrad._softmax import fisher, log_softmax, logsumexp, softmax
from bayesgrad.block import BlockAttention, BlockGradients, attention_block_gradients
from bayesgrad.derivatives import (
    AttentionTangents,
    DoubleBackward,
    attention_double_backward,
    attention_gradients_jvp,
    attention_jvp,
)
from bayesgrad.gradients import (
    advantage,
    attention_gradients,
    compatibility,
    effective_count,
    key_gradient,
    mean_compatibility,
    query_gradient,
    score_gradient,
    value_gradient,
)
from bayesgrad.heads import (
    grouped_attention,
    grouped_attention_gradients,
    merge_heads,
    repeat_groups,
    split_heads,
    sum_groups,
)
from bayesgrad.masks import causal_mask, window_mask
from bayesgrad.projections import (
    CrossInputGradients,
    InputGradients,
    ProjectionGradients,
    ReadOutGradients,
    input_gradients,
    projection_gradients,
    read_out_gradients,
)
from bayesgrad.transformer_block import (
    AttentionParameters,
    BlockParameters,
    LayerGradients,
    LayerOptions,
    attention_layer_gradients,
    transformer_block_gradients,
)

__version__ = "0.1.0"

__all__ = [
    "Attention",
    "AttentionGradients",
    "AttentionParameters",
    "AttentionTangents",
    "BlockAttention",
    "BlockGradients",
    "BlockParameters",
    "CrossEntropy",
    "CrossInputGradients",
    "DoubleBackward",
    "Explanation",
    "InputGradients",
    "LayerGradients",
    "LayerOptions",
    "ProjectionGradients",
    "ReadOutGradients",
    "advantage",
    "attention",
    "attention_block_gradients",
    "attention_double_backward",
    "attention_gradients",
    "attention_gradients_jvp",
    "attention_jvp",
    "attention_layer_gradients",
    "causal_mask",
    "compatibility",
    "cross_entropy",
    "effective_count",
    "explain",
    "fisher",
    "grouped_attention",
    "grouped_attention_gradients",
    "input_gradients",
    "key_gradient",
    "log_softmax",
    "logsumexp",
    "mean_compatibility",
    "merge_heads",
    "projection_gradients",
    "query_gradient",
    "read_out_gradients",
    "repeat_groups",
    "score_gradient",
    "softmax",
    "split_heads",
    "sum_groups",
    "transformer_block_gradients",
    "value_gradient",
    "window_mask",
]

_MODULES = (
    "bayes",
    "dynamics",
    "em",
    "fused",
    "layers",
    "modern",
    "positions",
    "row_maps",
    "symbolic",
    "tasks",
    "testing",
    "theorems",
    "tiled",
    "torch",
    "training",
    "transformer_block",
)
"""Sub-modules that are imported at their first use: ``bg.bayes``, ``bg.torch``."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
