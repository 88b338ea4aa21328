"""Backward functions to try the checks on: PyTorch's fused CPU kernel, a right one, a subtly wrong one, and our own."""

from __future__ import annotations

import numpy as np
import torch

from bayesgrad.testing.capabilities import Capabilities
from bayesgrad.testing.examples import Array
from bayesgrad.torch import attention

Gradients = tuple[Array, Array, Array]


def torch_fused(q: Array, k: Array, v: Array, u: Array, *, mask: Array | None, scale: float) -> Gradients:
    """scaled_dot_product_attention with the fused CPU kernel (flash attention), and its backward pass."""
    leaves = [torch.tensor(x)[None, None].requires_grad_() for x in (q, k, v)]
    visible = None if mask is None else torch.from_numpy(mask)[None, None]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        g = torch.nn.functional.scaled_dot_product_attention(
            leaves[0], leaves[1], leaves[2], attn_mask=visible, scale=scale
        )
    found = torch.autograd.grad((g * torch.from_numpy(u)).sum(), leaves)
    return tuple(x[0, 0].numpy() for x in found)  # type: ignore[return-value]


TORCH_FUSED = Capabilities(equal_widths=True, masks="rows", empty=False, unseen_nan=False, huge=False)
"""What the fused kernel is claimed to do here: values as wide as keys, a key for each query, no NaN, no huge scores."""


def numpy_right(q: Array, k: Array, v: Array, u: Array, *, mask: Array | None, scale: float) -> Gradients:
    """The textbook backward pass in NumPy, rows without keys and keys without queries taken out first."""
    n, m = len(q), len(k)
    visible = np.ones((n, m), dtype=bool) if mask is None else mask
    rows, columns = visible.any(1), visible.any(0)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    if not rows.any():
        return dq, dk, dv
    seen = visible[np.ix_(rows, columns)]
    qs, ks, vs, us = q[rows], k[columns], v[columns], u[rows]
    s = np.where(seen, (qs * q.dtype.type(scale)) @ ks.T, -np.inf)
    a = np.exp(s - s.max(axis=1, keepdims=True))
    a /= a.sum(axis=1, keepdims=True)
    b = us @ vs.T
    ds = a * (b - (a * b).sum(axis=1, keepdims=True)) * q.dtype.type(scale)
    dq[rows], dk[columns], dv[columns] = ds @ ks, ds.T @ qs, a.T @ us
    return dq, dk, dv


def numpy_wrong(q: Array, k: Array, v: Array, u: Array, *, mask: Array | None, scale: float) -> Gradients:
    """The same but for the mean of b, which runs over all keys and not under the weights: right for uniform weights."""
    n, m = len(q), len(k)
    visible = np.ones((n, m), dtype=bool) if mask is None else mask
    s = np.where(visible, (q * scale) @ k.T, -1e30)
    a = np.where(visible, np.exp(s - s.max(axis=1, keepdims=True, initial=-1e30)), 0)
    a = a / np.maximum(a.sum(axis=1, keepdims=True), 1e-300)
    b = u @ v.T
    ds = a * (b - b.mean(axis=1, keepdims=True)) * scale if m else a
    return ds @ k, ds.T @ q, a.T @ u


def ours(q: Array, k: Array, v: Array, u: Array, *, mask: Array | None, scale: float) -> Gradients:
    """The backward pass of :func:`bayesgrad.torch.attention`."""
    leaves = [torch.tensor(x).requires_grad_() for x in (q, k, v)]
    visible = None if mask is None else torch.from_numpy(mask)
    g = attention(leaves[0], leaves[1], leaves[2], mask=visible, scale=scale)
    found = torch.autograd.grad(g, leaves, torch.from_numpy(u))
    return tuple(x.numpy() for x in found)  # type: ignore[return-value]


def torch_at_the_edge() -> list[str]:
    """What the fused kernel does where nothing is claimed, with L = the sum of the context. One sentence each."""
    one, two = np.ones((1, 1), dtype=np.float32), np.ones((2, 1), dtype=np.float32)
    far = 2.0**17 * one
    said = []
    for what, q, k, mask in (
        ("a NaN query with one key", np.nan * one, one, None),
        ("a NaN query with two keys", np.nan * one, two, None),
        ("a query without a key", one, one, np.zeros((1, 1), dtype=bool)),
        ("two keys with the same score 2^17 (dv should be [0.5, 0.5])", far, two, None),
        ("two keys with the same score 2^30 (dv should be [0.5, 0.5])", 2.0**13 * far, two, None),
    ):
        try:
            leaves = [torch.tensor(x)[None, None].requires_grad_() for x in (q, k, k)]
            visible = None if mask is None else torch.from_numpy(mask)[None, None]
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
                g = torch.nn.functional.scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], visible)
            dq, dk, dv = (x.flatten().tolist() for x in torch.autograd.grad(g.sum(), leaves))
            said.append(f"{what}: context {g.flatten().tolist()}, dq {dq}, dk {dk}, dv {dv}")
        except RuntimeError as error:
            said.append(f"{what}: raises {str(error).splitlines()[0]}")
    return said


DEMONSTRATIONS = {
    "torch": (torch_fused, TORCH_FUSED),
    "right": (numpy_right, Capabilities()),
    "wrong": (numpy_wrong, Capabilities()),
    "bayesgrad": (ours, Capabilities(dtypes=("float64", "float32", "float16"))),
}
"""name -> (function, what it claims)."""
