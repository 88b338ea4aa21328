"""Projection matrices of a block: the shapes that they must have, and the sums that give their gradients."""

from __future__ import annotations

from typing import Any

from bayesgrad import _arrays, _validate
from bayesgrad._types import Array


def over_positions(xp: _arrays.Namespace, x: Any, gradient: Any) -> Any:
    """sum_i x_i^T gradient_i over every leading axis as well: the projection is shared by all of them."""
    product = xp.matmul(_arrays.transpose(xp, x), gradient)
    return xp.sum(product, axis=tuple(range(len(product.shape) - 2))) if len(product.shape) > 2 else product


def over_rows(xp: _arrays.Namespace, gradient: Any) -> Any:
    """The gradient of a bias that all positions share."""
    return xp.sum(gradient, axis=tuple(range(len(gradient.shape) - 1)))


def block_sizes(
    x: Array, y: Array, W_Q: Array, W_K: Array, W_V: Array, W_O: Array, heads: int, groups: int
) -> tuple[int, int, int]:
    """d_k, d_v and C; every projection has the shape that heads and input give it."""
    _validate.shapes(x=(x, "n d_x"))
    _validate.shapes(y=(y, "m d_y"))
    if tuple(x.shape)[:-2] != tuple(y.shape)[:-2]:
        raise ValueError(f"y: got shape {tuple(y.shape)}, expected the leading axes {tuple(x.shape)[:-2]} of x")
    for name, W, rows in (("W_Q", W_Q, x.shape[-1]), ("W_K", W_K, y.shape[-1]), ("W_V", W_V, y.shape[-1])):
        _validate.matrix(name, W, ("d_x" if name == "W_Q" else "d_y", rows), ("heads * d", None))
    if groups > heads or heads % groups:
        raise ValueError(f"kv_heads: got {groups}, expected a divisor of heads = {heads}")
    if W_Q.shape[1] % heads:
        raise ValueError(f"heads: got {heads}, expected a divisor of the {W_Q.shape[1]} columns of W_Q")
    d_k = W_Q.shape[1] // heads
    _validate.matrix("W_K", W_K, ("d_y", y.shape[-1]), ("kv_heads * d_k", groups * d_k))
    if W_V.shape[1] % groups:
        raise ValueError(f"kv_heads: got {groups}, expected a divisor of the {W_V.shape[1]} columns of W_V")
    d_v = W_V.shape[1] // groups
    _validate.matrix("W_O", W_O, ("heads * d_v", heads * d_v), ("C", None))
    return d_k, d_v, W_O.shape[1]
