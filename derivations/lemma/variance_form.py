"""A variance as a double sum over pairs."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Equation
from bayesgrad.symbolic.terms import Tensor, lift, total
from derivations.common.lemmas import variance_form
from derivations.common.notation import m
from derivations.laws import law
from derivations.result import LEMMA_CODE, NO_RUN, OURS, Part, Result, WrongRow, routes

RESULT = Result(
    "lemma.variance-form",
    title="A variance as a double sum over pairs",
    means="""A variance is half the mean squared distance between two independent draws, which shows at a glance
    that it is not negative.""",
    fails="""The weights must sum to $1$: on an empty row both sides are zero and there is no variance to speak of.""",
    source=OURS,
    routes=routes(proof="required", exact="required", code=LEMMA_CODE, check="required", observed=NO_RUN),
)


@RESULT.proof
def proof() -> list[Part]:
    a, h, raw = Tensor("a", (m,)), Tensor("h", (m,)), Tensor("a0", (m,), "positive")
    sums = Equation(
        total(lambda j: a(j), over=m),
        lift(1),
        says="the weights sum to one (they may have any sign)",
        sample={a: lambda j: raw(j) / total(lambda k: raw(k), over=m)},
    )
    claim, proof = variance_form(a, h, m, sums, ())
    return [Part("variance", claim, proof)]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    part = law("lemma.variance-form").parts[0]
    yield "variance", "no-half", "half dropped", 2 * part.claim.rhs, "each pair comes twice"
    yield "variance", "sign", "sign flipped", -part.claim.rhs, "a variance is not negative"
    yield "variance", "zero", "nothing left", lift(0), "only where h is constant"
