"""The mean compatibility without the weights."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import total
from derivations.common.head_laws import H, i, m
from derivations.common.notation import d_v, g, n, u, v
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

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
    claim = Equation(
        total(lambda k: H.a(i, k) * H.b(i, k), over=m),
        total(lambda c: H.u(i, c) * H.g(i, c), over=d_v),
        sample={H.a: None, H.v: None},
    )
    proof = (
        Chain(claim.lhs)
        .definition(
            total(lambda k: H.a(i, k) * total(lambda c: H.u(i, c) * H.v(k, c), over=d_v), over=m),
            "a compatibility is an inner product",
            H.b,
        )
        .algebra(
            total(lambda c: H.u(i, c) * total(lambda k: H.a(i, k) * H.v(k, c), over=m), over=d_v),
            "sum over keys first",
        )
        .definition(claim.rhs, "which is the context", H.g)
    )
    return [Part("delta", claim, proof, "The mean compatibility needs no weights: kernels call it delta.")]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    yield "delta", "sign", "sign flipped", -total(lambda c: u(i, c) * g(i, c), over=d_v), "the same sign on both sides"
    unweighted = total(lambda c: u(i, c) * total(lambda k: v(k, c), over=m), over=d_v)
    yield "delta", "unweighted", "weights dropped", unweighted, "the context is weighted"
    column = total(lambda r, c: u(r, c) * g(r, c), over=(n, d_v))
    yield "delta", "summed", "query summed out", column, "each query has its own mean"


@RESULT.code("delta", "bayesgrad.mean_compatibility")
def _(shipped, t):
    return shipped.gradients.mean_compatibility(t.u, t.g)
