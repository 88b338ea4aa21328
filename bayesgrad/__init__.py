"""Closed-form gradients of attention under cross-entropy.

>>> import numpy as np
>>> import bayesgrad as bg
>>> rng = np.random.default_rng(0)
>>> q, k, v, u = (rng.normal(size=shape) for shape in ((2, 3), (4, 3), (4, 5), (2, 5)))
>>> got = bg.attention_gradients(q, k, v, u)
>>> got.queries.shape, got.keys.shape, got.values.shape
((2, 3), (4, 3), (4, 5))
"""

from bayesgrad.attention import Attention, attention
from bayesgrad.block import BlockAttention, BlockGradients, attention_block_gradients
from bayesgrad.cross_entropy import CrossEntropy, cross_entropy
from bayesgrad.explain import Explanation, explain
from bayesgrad.gradients import (
    AttentionGradients,
    advantage,
    attention_gradients,
    compatibility,
    key_gradient,
    mean_compatibility,
    query_gradient,
    responsibility,
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
from bayesgrad.projections import InputGradients, ProjectionGradients, input_gradients, projection_gradients
from bayesgrad.softmax import fisher, log_softmax, logsumexp, softmax

__version__ = "0.1.0"

__all__ = [
    "Attention",
    "AttentionGradients",
    "BlockAttention",
    "BlockGradients",
    "CrossEntropy",
    "Explanation",
    "InputGradients",
    "ProjectionGradients",
    "advantage",
    "attention",
    "attention_block_gradients",
    "attention_gradients",
    "causal_mask",
    "compatibility",
    "cross_entropy",
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
    "repeat_groups",
    "responsibility",
    "score_gradient",
    "softmax",
    "split_heads",
    "sum_groups",
    "value_gradient",
    "window_mask",
]
