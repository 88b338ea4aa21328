"""Somebody else's attention: PyTorch's and JAX's own, on the conventions that they share with ours.

All other oracles are our transcriptions of one definition, so that a convention which we misread would be in all of
them. These are not: ``torch.nn.functional.scaled_dot_product_attention`` and ``jax.nn.dot_product_attention`` with
their own masks, scales and biases, differentiated by their own libraries. The common ground is a head without dropout
in which every query sees a key; the gradient in the bias is that in the scores. JAX takes the softmax of float64 in
float32, so its answers count to the roundings of that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from bayesgrad.testing.engine import Oracle, Reference
from bayesgrad.testing.examples import Array, Head
from bayesgrad.testing.oracles import forward
from checks.oracles import padded

KNOWN = {"q": "q", "k": "k", "v": "v", "s": "bias", "bias": "bias"}
"""What is asked -> the argument whose gradient it is."""


def shared(head: Head) -> bool:
    """Whether the head is on the common ground."""
    return head.dropout is None and bool(head.visible.any(-1).all())


def of_torch(head: Head) -> dict[str, Array]:
    """dL/dq, dL/dk, dL/dv and dL/dbias by PyTorch's attention and autograd."""
    bias = np.zeros(head.visible.shape) if head.bias is None else head.bias
    q, k, v, b = (torch.tensor(x).requires_grad_() for x in (head.q, head.k, head.v, bias))
    seen = torch.where(torch.tensor(head.visible), b, -torch.inf)
    g = torch.nn.functional.scaled_dot_product_attention(
        q[None, None], k[None, None], v[None, None], attn_mask=seen[None, None], scale=head.scale
    )
    found = torch.autograd.grad(g[0, 0], [q, k, v, b], torch.tensor(head.u))
    return dict(zip(("q", "k", "v", "bias"), (x.numpy() for x in found), strict=True))


@functools.cache
def _program() -> Callable[..., Any]:
    jax = padded.jax_module()

    def program(leaves: Any, u: Any, seen: Any) -> Any:
        def context(leaves: Any) -> Any:
            q, k, v, bias = leaves
            one = lambda x: x[None, :, None]  # (batch, n, heads, d)
            # Its scale is a Python number of the program: ours is taken into the queries, its own is 1.
            return jax.nn.dot_product_attention(
                one(q), one(k), one(v), bias=bias[None, None], mask=seen[None, None], scale=1.0
            )[0, :, 0]

        return jax.vjp(context, leaves)[1](u)[0]

    return jax.jit(program)


def of_jax(head: Head) -> dict[str, Array]:
    """The same by JAX's attention, in a block of one size."""
    (n, d_k), (m, d_v) = head.q.shape, head.v.shape
    N, M, D = padded.at_least(5, n), padded.at_least(5, m), padded.at_least(5, d_k, d_v)
    bias = np.zeros((n, m)) if head.bias is None else head.bias
    c = head.the_scale
    leaves = (
        padded.into(c * head.q, N, D), padded.into(head.k, M, D), padded.into(head.v, M, D), padded.into(bias, N, M),
    )  # fmt: skip
    dq, dk, dv, db = padded.call(_program, leaves, padded.into(head.u, N, D), padded.seen_in(head.visible, N, M))
    return {"q": c * dq[:n, :d_k], "k": dk[:m, :d_k], "v": dv[:m, :d_v], "bias": db[:n, :m]}


def outsiders(*names: str) -> tuple[Oracle, ...]:
    """Both of them, where they know one of the named gradients."""
    asked = [name for name in names if name in KNOWN]

    def torch_says(head: Head) -> dict[str, Reference]:
        found = of_torch(head) if shared(head) else {}
        return {name: Reference(found[KNOWN[name]]) for name in asked if found}

    def jax_says(head: Head) -> dict[str, Reference]:
        if not shared(head):
            return {}
        found, bounds = of_jax(head), forward.gradients(head, *asked)
        return {name: Reference(found[KNOWN[name]], 2.0**29 * np.asarray(bounds[name][1])) for name in asked}

    jax = (Oracle("JAX's own attention", jax_says, slow=True),) if padded.installed() else ()
    return (Oracle("PyTorch's own attention", torch_says), *jax) if asked else ()
