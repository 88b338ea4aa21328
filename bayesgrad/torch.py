r"""The head as a node of PyTorch's graph, with our closed forms as its derivatives.

.. math::

    \text{backward: } u \mapsto \left(\frac{\partial L}{\partial q}, \frac{\partial L}{\partial k},
    \frac{\partial L}{\partial v}\right) \text{ by the laws}, \qquad
    \text{forward mode: } dg_i = \sum_j da_{ij} v_j + a_{ij}\, dv_j, \quad
    da_{ij} = a_{ij} \Big(ds_{ij} - \sum_k a_{ik}\, ds_{ik}\Big)

Double backward works because the laws are differentiable themselves: under ``create_graph`` they are recorded. Nothing
of size n x m is kept between forward and backward; the weights are computed again.

Under torch.compile the node is traced in one graph (``fullgraph=True``), without its forward mode, which PyTorch's
tracer refuses; the functions of the package itself trace too.

This module needs PyTorch; the rest of the package does not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bayesgrad._attention import attention as _forward
from bayesgrad._types import Bools, Floats, Real
from bayesgrad.derivatives import attention_jvp
from bayesgrad.gradients import attention_gradients as _backward
from bayesgrad.heads import repeat_groups
from bayesgrad.transformer_block import AttentionParameters


class _Traced(torch.autograd.Function):
    """g from q, k, v, bias, scale, and what is constant: mask and dropout. What torch.compile can trace."""

    generate_vmap_rule = True

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, bias: Any, scale: Any, mask: Any, dropout: Any) -> Tensor:
        context: Tensor = _forward(q, k, v, mask=mask, bias=bias, scale=scale, dropout=dropout).context
        return context

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensors = [x if isinstance(x, Tensor) else None for x in inputs]
        ctx.number = None if isinstance(inputs[4], Tensor) else inputs[4]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (u,) = gradients
        q, k, v, bias, scale, mask, dropout = ctx.saved_tensors
        got = _backward(q, k, v, u, mask=mask, bias=bias, scale=ctx.number if scale is None else scale, dropout=dropout)
        return (
            got.queries,
            got.keys,
            got.values,
            None if bias is None else got.bias,
            None if scale is None else got.scale,
            None,
            None,
        )


class _Attention(_Traced):
    """The same with forward mode, which torch.compile cannot trace."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        q, k, v, bias, scale, mask, dropout = ctx.saved_tensors
        dq, dk, dv, dbias, dscale, _, _ = tangents
        return attention_jvp(
            q,
            k,
            v,
            q_tangent=dq,
            k_tangent=dk,
            v_tangent=dv,
            bias_tangent=dbias,
            scale_tangent=dscale,
            mask=mask,
            bias=bias,
            scale=ctx.number if scale is None else scale,
            dropout=dropout,
        ).context


def attention(
    q: Floats[Tensor, "*batch queries width"],
    k: Floats[Tensor, "*batch keys width"],
    v: Floats[Tensor, "*batch keys values"],
    *,
    mask: Bools[Tensor, "*_"] | None = None,
    bias: Floats[Tensor, "*_"] | None = None,
    scale: Real | None = None,
    dropout: Floats[Tensor, "*_"] | None = None,
) -> Floats[Tensor, "*batch queries values"]:
    """The context g of :func:`bayesgrad.attention`, differentiable: backward, double backward, forward mode, vmap.

    Args:
        q, k, v: (..., n, d_k), (..., m, d_k), (..., m, d_v). With heads before positions, k and v may have fewer heads
            than q: query head h reads h // (H/G).
        mask: booleans, True = may attend (as in ``scaled_dot_product_attention``; ``MultiheadAttention`` means the
            opposite). bias: added to the scores, differentiable; -inf hides. Both broadcast to (..., n, m).
        scale: a number or a tensor without axes (then differentiable); 1/sqrt(d_k) by default.
        dropout: the fixed multiplier, 0 or 1/(1-rate); a constant.

    Returns:
        (..., n, d_v), in the dtype of q; 16-bit inputs accumulate in float32.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Source: ours.

    >>> import torch
    >>> q, k, v = (torch.ones(2, 3, requires_grad=True) for _ in range(3))
    >>> attention(q, k, v).sum().backward()
    >>> v.grad.tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: got {type(x).__name__}, expected a PyTorch tensor")
    if dropout is not None and isinstance(dropout, Tensor) and dropout.requires_grad:
        raise ValueError("dropout: got a tensor that requires a gradient, expected a constant multiplier")
    if q.ndim >= 3 and k.ndim >= 3 and v.ndim >= 3 and k.shape[-3] == v.shape[-3] != q.shape[-3]:
        k, v = repeat_groups(k, q.shape[-3]), repeat_groups(v, q.shape[-3])
    node = _Traced if torch.compiler.is_compiling() else _Attention
    context: Tensor = node.apply(q, k, v, bias, scale, mask, dropout)  # type: ignore[no-untyped-call]
    return context


def from_torch(module: torch.nn.MultiheadAttention) -> tuple[AttentionParameters, int]:
    """The parameters of a ``torch.nn.MultiheadAttention``, for :func:`bayesgrad.attention_layer_gradients`.

    PyTorch keeps three matrices in one, transposed, and its boolean masks say what is *ignored*: give ``~attn_mask``
    and ``~key_padding_mask[:, None, None]``. Inputs have the batch first.

    Args:
        module: without ``bias_k`` and ``add_zero_attn``.

    Returns:
        (:class:`bayesgrad.transformer_block.AttentionParameters`, the number of heads). The tensors are detached views.

    Raises:
        TypeError, ValueError: another module, or one of the two unusual options.

    Source: ours.

    >>> import torch
    >>> parameters, heads = from_torch(torch.nn.MultiheadAttention(4, 2))
    >>> parameters.W_Q.shape, heads
    (torch.Size([4, 4]), 2)
    """
    if not isinstance(module, torch.nn.MultiheadAttention):
        raise TypeError(f"module: got {type(module).__name__}, expected torch.nn.MultiheadAttention")
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError("module: got one with add_bias_kv or add_zero_attn, expected neither")
    if module.in_proj_weight is not None:
        weights = list(module.in_proj_weight.detach().chunk(3))
    else:
        weights = [w.detach() for w in (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)]
    biases: list[Any] = [None, None, None]
    if module.in_proj_bias is not None:
        biases = list(module.in_proj_bias.detach().chunk(3))
    out = module.out_proj
    c_O = None if out.bias is None else out.bias.detach()
    W_Q, W_K, W_V = (w.mT for w in weights)
    c_Q, c_K, c_V = biases
    return AttentionParameters(W_Q, W_K, W_V, out.weight.detach().mT, c_Q, c_K, c_V, c_O), module.num_heads
