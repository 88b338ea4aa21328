"""Triton kernels as they are published, run by Triton's interpreter on the CPU."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"


def parallel(q: Any, k: Any, v: Any, *, scale: Any = None, sink: Any = None, window_size: int | None = None) -> Any:
    """fla's ``parallel_attn``: causal, grouped queries, a window, a sink per head."""
    function = import_module("fla.ops.attn.parallel").parallel_attn
    return function(q, k, v, scale=scale, window_size=window_size, sink_bias=sink)


def neighbourhood(q: Any, k: Any, v: Any, *, scale: Any = None) -> Any:
    """liger-kernel's fused neighbourhood attention, three keys to either side."""
    function = import_module("liger_kernel.ops.fused_neighborhood_attention")
    return function.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1, scale)
