"""Multiplying in a likelihood is a proximal step."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, every
from bayesgrad.symbolic.terms import Index, Tensor, exp, inv, log, tensors_of, total
from derivations.common.calls_of_steps import one_row
from derivations.common.lemmas import Divergence
from derivations.common.one_step import eta, m
from derivations.common.parts import part_of
from derivations.laws import instance_of
from derivations.result import OURS, Part, Result, WrongRow, routes

RESULT = Result(
    "em.proximal-e-step",
    title="Multiplying in a likelihood is a proximal step",
    means="""Trading expected compatibility against divergence from the old weights gives the multiplicative
    update: a prior times a likelihood.""",
    fails="""A weight that starts at zero stays there: multiplication cannot revive it.""",
    source=OURS,
    routes=routes(proof="required", exact="required", code="required", check="required", wrong_laws="required"),
    implements=("bayesgrad.em.proximal_e_step",),
)


@RESULT.proof
def proof() -> list[Part]:
    D = Divergence(m, (), p="a", q="a*")
    gibbs = instance_of("lemma.gibbs", D.claim, D.proof())
    b, Z = Tensor("b", (m,)), Tensor("Z", kind="positive")
    prior = Tensor("a0", (m,), "positive", tex="a^0")
    key = Index("j", m)
    target = Equation(
        D.q(key),
        prior(key) * exp(-(eta() * b(key))) * inv(Z()),
        (key,),
        says="a* = a0 exp(-eta b)/Z, where Z makes it sum to one (outside S likewise)",
        sample={prior: lambda j: D.q(j) * Z() * exp(eta() * b(j))},
    )
    mean = total(lambda j: D.S(j) * D.p(j) * b(j), over=m)
    pull = total(lambda j: D.S(j) * D.p(j) * (log(D.p(j)) - log(prior(j))), over=m)
    kl = Tensor("D", (), "nonnegative", lambda: D.value, fact=gibbs, tex=r"\mathrm{KL}")
    mass = total(lambda j: D.S(j) * D.p(j), over=m)
    claim = AtMost(
        -(inv(eta()) * log(Z())),
        mean + inv(eta()) * pull,
        (),
        (D.p_sums, D.q_sums, target),
        tight=(every(kl),),
    )
    inside = total(lambda j: D.S(j) * D.p(j) * (log(D.p(j)) - log(prior(j)) + eta() * b(j) + log(Z())), over=m)
    proof = (
        Chain(claim.rhs - claim.lhs)
        .rewrite(
            mean + inv(eta()) * pull + inv(eta()) * log(Z()) * mass,
            "a sums to one",
            D.p_sums,
            lambda hole: mean + inv(eta()) * pull + inv(eta()) * log(Z()) * hole(),
        )
        .algebra(inv(eta()) * inside, "collect the logarithms")
        .algebra(
            inv(eta())
            * total(
                lambda j: D.S(j) * D.p(j) * (log(D.p(j)) - log(prior(j) * exp(-(eta() * b(j))) * inv(Z()))), over=m
            ),
            "the log of a0 exp(-eta b)/Z",
        )
        .rewrite(
            inv(eta()) * D.value,
            "which is a*",
            target,
            lambda hole: inv(eta()) * total(lambda j: D.S(j) * D.p(j) * (log(D.p(j)) - log(hole(j))), over=m),
        )
        .definition(inv(eta()) * kl(), "so the objective exceeds its least value by KL(a||a*)/eta", kl)
    )
    says = "The minimum over the simplex is reached exactly at a = a*; the prior a0 may miss keys."
    return [Part("minimum", claim, proof, says)]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    claim = part_of("em.proximal-e-step", "minimum").claim
    mean = next(t for t in tensors_of(claim.rhs) if t.name == "b")
    S, a = (next(t for t in tensors_of(claim.rhs) if t.name == x) for x in ("S", "a"))
    cost = total(lambda j: S(j) * a(j) * mean(j), over=m)
    yield "minimum", "no-prox", "distance dropped", cost, "without the distance to a0 the objective can be lower"
    yield "minimum", "reversed", "distance subtracted", 2 * cost - claim.rhs, "the distance is a penalty"
    yield "minimum", "shifted", "one taken away", claim.rhs - 1, "the minimum is reached"


@RESULT.code("minimum", "bayesgrad.em.proximal_e_step", puts="a", patterns=("all", "holes"))
def _(shipped, t):
    return shipped.em.proximal_e_step(one_row(t.S * t.a0), one_row(t.b), eta=t.eta)[0]
