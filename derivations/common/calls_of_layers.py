"""The table of the code route, second part: projections, inputs, grouped heads, the whole block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayesgrad.symbolic.terms import Tensor, Term, exp, inv, total
from derivations.common.calls_of_heads import Bodies, Named
from derivations.common.notation import HEAD, C, d_v, n

PROJECTIONS = ("bayesgrad.projection_gradients", "bayesgrad.attention_gradients")

BLOCK = "bayesgrad.attention_block_gradients"

BLOCK_SIZES = (("d_x", 1), ("d_k", 5), ("d_v", 4), ("C", 6))


class ReadOut:
    """What stands behind a head in a block: z = g W_O + c_O, cross-entropy with soft targets t."""

    W, c, t = Tensor("W_O", (d_v, C)), Tensor("c_O", (C,)), Tensor("t", (n, C))

    def __init__(self, context: Callable[[Any, Any], Term]):
        self.z = Tensor(
            "z", (n, C), body=lambda i, y: total(lambda c: context(i, c) * self.W(c, y), over=d_v) + self.c(y)
        )
        self.mass = Tensor("Z'", (n,), body=lambda i: total(lambda y: exp(self.z(i, y)), over=C))
        self.r = Tensor(
            "r",
            (n, C),
            body=lambda i, y: (
                total(lambda d: self.t(i, d), over=C) * exp(self.z(i, y)) * inv(self.mass(i)) - self.t(i, y)
            ),
        )

    def upstream(self, i: Any, c: Any) -> Term:
        """u_i = r_i W_O^T."""
        return total(lambda y: self.r(i, y) * self.W(c, y), over=C)


def in_block(named: Named) -> Bodies:
    """The upstream gradient of the head is that of its read-out."""
    return {named["u"]: ReadOut(named["g"]).upstream}


def block(shipped: Any, t: Any, **options: Any) -> Any:
    """Every gradient of the whole block; ``options`` says whether keys and values have an input of their own."""
    return shipped.block.attention_block_gradients(
        t.x,
        t.W_Q,
        t.W_K,
        t.W_V,
        t.W_O,
        t.t,
        c_Q=t.c_Q,
        c_K=t.c_K,
        c_V=t.c_V,
        c_O=t.c_O,
        mask=t.mask(),
        bias=t.beta,
        scale=t.scale,
        reduction="sum",
        intermediates=True,
        **options,
    )


def _of_block(field: str) -> Callable[[Any, Any], Any]:
    return lambda shipped, t: getattr(block(shipped, t, y=t["x'"]), field)


def behind_head(named: Named) -> Bodies:
    """The context that the read-out sees is that of a head, made from its inputs."""
    return {named["g"]: lambda i, c: total(lambda j: HEAD.a(i, j) * HEAD.v(j, c), over=HEAD.columns)}
