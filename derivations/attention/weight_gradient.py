"""dL/da_ij = b_ij: compatibility is the gradient in the weights."""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Eq, Sum

from derivations.common.any_head import weights
from derivations.common.head_in_sympy import BOOK, L, a, b, bbar, c, d_v, g, i, j, l, n, u, v
from derivations.common.notation import HEAD
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow, stated

RESULT = Result(
    "attention.weight-gradient",
    title="Compatibility is the gradient in the weights",
    means="""If weights could be set freely, the loss would change by the compatibility: how far the value points
    along the upstream gradient.""",
    fails="""Weights cannot be set freely: they sum to one. The routing law is what remains of this gradient on the
    simplex.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.compatibility",),
)


@RESULT.proof
def proof() -> list[Part]:
    law = Eq(Derivative(L(g), a[i, j]), b[i, j])
    says = "Weights taken as free variables."
    return [stated(BOOK, "weights", law, sample={a: None, v: None}, says=says, by=weights(HEAD)[1])]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    read = BOOK.read
    yield "weights", "sign", "sign flipped", read(-b[i, j]), "u is dL/dg, not its negative"
    yield "weights", "centred", "mean subtracted", read(b[i, j] - bbar[i]), "weights are free here: nothing is centred"
    yield "weights", "weighted", "weight multiplied in", read(a[i, j] * b[i, j]), "that factor comes with the scores"
    column = Sum(u[l, c] * v[j, c], (l, 0, n - 1), (c, 0, d_v - 1))
    yield "weights", "summed", "query summed out", read(column), "a_ij touches the context of query i alone"


@RESULT.code("weights", "bayesgrad.compatibility")
def _(shipped, t):
    return shipped.gradients.compatibility(t.u, t.v)
