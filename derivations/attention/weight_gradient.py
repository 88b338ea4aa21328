"""Compatibility is the gradient in the weights."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.terms import total
from derivations.common.any_head import weights
from derivations.common.head_laws import H
from derivations.common.notation import a, b, bbar, d_v, i, j, n, u, v
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

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
    return [Part("weights", *weights(H), "Weights taken as free variables.")]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    yield "weights", "sign", "sign flipped", -b(i, j), "u is dL/dg, not its negative"
    yield "weights", "centred", "mean subtracted", b(i, j) - bbar(i), "weights are free here: nothing is centred"
    yield "weights", "weighted", "weight multiplied in", a(i, j) * b(i, j), "that factor comes with the scores"
    column = total(lambda r, c: u(r, c) * v(j, c), over=(n, d_v))
    yield "weights", "summed", "query summed out", column, "a_ij touches the context of query i alone"


@RESULT.code("weights", "bayesgrad.compatibility")
def _(shipped, t):
    return shipped.gradients.compatibility(t.u, t.v)
