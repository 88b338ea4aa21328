"""sum_k a_ik b_ik = u_i . g_i: the mean compatibility without the weights, which kernels call delta."""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Eq, Sum

from derivations.common.head_in_sympy import BOOK, a, b, c, d_v, g, i, k, l, m, n, u, v
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow, becomes, opens, stated

RESULT = Result(
    "attention.delta-identity",
    title="The mean compatibility without the weights",
    means="""The row's mean compatibility is one dot product of upstream gradient and context, so no row of
    compatibilities has to be kept to know it.""",
    fails="""With dropout the compatibility carries the dropout multiplier; forget it, and the identity fails.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.mean_compatibility",),
)


@RESULT.proof
def proof() -> list[Part]:
    delta = Sum(u[i, c] * g[i, c], (c, 0, d_v - 1))
    mean = Sum(a[i, k] * b[i, k], (k, 0, m - 1))
    return [
        stated(
            BOOK,
            "delta",
            Eq(mean, delta),
            opens("a compatibility is an inner product", b),
            becomes("sum over keys first: that is the context", delta, g),
            sample={a: None, v: None},
            says="The mean compatibility needs no weights: kernels call it delta.",
        )
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    flipped = -Sum(u[i, c] * g[i, c], (c, 0, d_v - 1))
    yield "delta", "sign", "sign flipped", BOOK.read(flipped), "the same sign on both sides"
    unweighted = Sum(u[i, c] * Sum(v[k, c], (k, 0, m - 1)), (c, 0, d_v - 1))
    yield "delta", "unweighted", "weights dropped", BOOK.read(unweighted), "the context is weighted"
    column = Sum(u[l, c] * g[l, c], (l, 0, n - 1), (c, 0, d_v - 1))
    yield "delta", "summed", "query summed out", BOOK.read(column), "each query has its own mean"


@RESULT.code("delta", "bayesgrad.mean_compatibility")
def _(shipped, t):
    return shipped.gradients.mean_compatibility(t.u, t.g)
