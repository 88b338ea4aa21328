"""What it takes to call the kernels of the gallery that do not take (q, k, v) and keywords as they are.

Each function imports its package itself, so that any of them may be missing.
"""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any


def multihead(q: Any, k: Any, v: Any, *, mask: Any = None) -> Any:
    """``torch.nn.MultiheadAttention`` with matrices of 1 for projections; its mask is True where hidden."""
    torch = import_module("torch")
    batch, heads, n, d = q.shape
    layer = torch.nn.MultiheadAttention(heads * d, heads, bias=False, batch_first=True, dtype=q.dtype)
    one = torch.eye(heads * d, dtype=q.dtype)
    layer.in_proj_weight = torch.nn.Parameter(torch.cat((one, one, one)), requires_grad=False)
    layer.out_proj.weight = torch.nn.Parameter(one, requires_grad=False)
    side_by_side = lambda x: x.transpose(1, 2).reshape(batch, x.shape[2], heads * d)
    hidden = None if mask is None else ~mask.expand(batch, heads, n, k.shape[2]).reshape(-1, n, k.shape[2])
    out = layer(*map(side_by_side, (q, k, v)), attn_mask=hidden, need_weights=False)[0]
    return out.reshape(batch, n, heads, d).transpose(1, 2)


def two_tiles(q: Any, k: Any, v: Any, *, mask: Any = None, causal: bool = False) -> Any:
    """The hand-written backward pass of memory-efficient-attention-pytorch, in tiles of 64."""
    module = import_module("memory_efficient_attention_pytorch.flash_attention")
    mask = None if mask is None else mask[:, None, None]
    return module.FlashAttentionFunction.apply(q, k, v, mask, causal, 64, 64)


def jax_flash(q: Any, k: Any, v: Any, *, mask: Any = None) -> Any:
    """flash-attention-jax, which always wants a mask of keys."""
    jax = import_module("jax")
    shown = jax.numpy.ones((k.shape[0], k.shape[2]), dtype=bool) if mask is None else mask
    return import_module("flash_attention_jax").flash_attention(q, k, v, shown)


def keras(q: Any, k: Any, v: Any, *, mask: Any = None, scale: Any = None) -> Any:
    """``keras.ops.dot_product_attention`` on PyTorch."""
    import os

    os.environ.setdefault("KERAS_BACKEND", "torch")
    return import_module("keras").ops.dot_product_attention(q, k, v, mask=mask, scale=scale)


def mlx(q: Any, k: Any, v: Any, *, mask: Any = None, scale: float = 1.0) -> Any:
    """``mx.fast.scaled_dot_product_attention``."""
    return import_module("mlx.core").fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)


def tinygrad(q: Any, k: Any, v: Any, *, mask: Any = None) -> Any:
    """``Tensor.scaled_dot_product_attention``."""
    return q.scaled_dot_product_attention(k, v, attn_mask=mask)


def with_autograd(q: Any, k: Any, v: Any, *, mask: Any = None, scale: float = 1.0) -> Any:
    """Attention as one writes it with autograd's NumPy: weights from logsumexp."""
    anp = import_module("autograd.numpy")
    logsumexp = import_module("autograd.scipy.special").logsumexp
    s = scale * anp.matmul(q, anp.swapaxes(k, -1, -2))
    s = s if mask is None else anp.where(mask, s, -1e30)
    return anp.matmul(anp.exp(s - logsumexp(s, axis=-1, keepdims=True)), v)


def llama(q: Any, k: Any, v: Any, *, mask: Any = None, scale: float = 1.0) -> Any:
    """The eager attention of transformers' Llama, with the additive mask that its models make: finfo.min."""
    torch = import_module("torch")
    eager = import_module("transformers.models.llama.modeling_llama").eager_attention_forward
    module = SimpleNamespace(num_key_value_groups=q.shape[1] // k.shape[1], training=False)
    added = None if mask is None else torch.where(mask, 0.0, torch.finfo(q.dtype).min).to(q.dtype)
    return eager(module, q, k, v, added, scale)[0].transpose(1, 2)


def naive(q: Any, k: Any, v: Any, *, scale: Any = None) -> Any:
    """fla's reference without Triton; it returns (context, largest logits)."""
    out = import_module("fla.ops.attn.naive").naive_parallel_attn(q, k, v, scale=scale)
    return out[0] if isinstance(out, tuple) else out
