"""Gibbs' inequality."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.terms import Term, log, tensors_of, total
from derivations.common.lemmas import Divergence
from derivations.common.notation import m
from derivations.laws import law
from derivations.result import INEQUALITY, NO_RUN, OURS, Part, Result, WrongRow, routes

RESULT = Result(
    "lemma.gibbs",
    title="Gibbs' inequality",
    means="""Coding $p$ with the code of $q$ never saves anything: the divergence is a sum of gaps between the
    logarithm and its tangent.""",
    fails="""Split on the support: where $p > 0 = q$ the divergence is infinite, and where $p = 0$ nothing is said
    about $q$ outcome by outcome.""",
    source=OURS,
    routes=routes(proof="required", exact=INEQUALITY, code=INEQUALITY, check="required", observed=NO_RUN),
    implements=("bayesgrad.bayes.kl_divergence",),
)


@RESULT.proof
def proof() -> list[Part]:
    it = Divergence(m)
    return [Part("gibbs", it.claim, it.proof(), "Equality exactly where q = p.")]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    part = law("lemma.gibbs").parts[0]
    yield "gibbs", "reversed", "bound reversed", -part.claim.rhs, "a divergence is not negative"
    yield "gibbs", "shifted", "one taken away", part.claim.rhs - 1, "it can be 0"
    yield "gibbs", "halved-support", "log of p dropped", _cross_only(part.claim.rhs), "not a divergence"


def _cross_only(term: Term) -> Term:
    tensors = {t.name: t for t in tensors_of(term)}
    S, p_, q_ = tensors["S"], tensors["p"], tensors["q"]
    return total(lambda y: S(y) * p_(y) * log(q_(y)), over=m)
