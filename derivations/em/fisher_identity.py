"""The gradient of a mixture loss is that of its E-step."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Index, Tensor, exp, inv, log, total
from derivations.common.lemmas import Mixture
from derivations.common.one_step import h
from derivations.common.parts import part_of, tensor_of
from derivations.laws import instance_of
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

RESULT = Result(
    "em.fisher-identity",
    title="The gradient of a mixture loss is that of its E-step",
    means="""The gradient of a mixture's loss is the mean gradient of its parts under the posterior: at the loss,
    EM and gradient agree exactly.""",
    fails="""The mixing weights are held fixed.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.em.mixture_responsibilities",),
)


@RESULT.proof
def proof() -> list[Part]:
    it = Mixture()
    size = it.size
    pi, cost = it.prior, it.cost[0]
    (mass, loss, r) = it.mass[0], it.loss[0], it.r[0]
    key = Index("j", size)
    claim = Equation(Diff(loss(), cost(key)), r(key))
    written = total(lambda j: pi(j) * exp(-cost(j)), over=size)
    proof = (
        Chain(claim.lhs)
        .definition(Diff(-log(written), cost(key)), "minus the log of the mass", loss, mass)
        .differentiate(inv(written) * pi(key) * exp(-cost(key)), "one term of the mass depends on c_j")
        .definition(claim.rhs, "which is the responsibility", r, mass)
    )
    claim = instance_of("em.fisher-identity", claim, proof)
    slope = Tensor("dc", (size,), tex=r"{\dot c}")
    moving = Tensor("c", (size,), body=lambda j: pi0(j) + h() * slope(j))
    pi0 = Tensor("c0", (size,), tex="c^0")
    mass_m = Tensor("Z", (), "positive", lambda: total(lambda j: pi(j) * exp(-moving(j)), over=size))
    loss_m = Tensor("l", (), body=lambda: -log(mass_m()))
    r_m = Tensor("r", (size,), "positive", lambda j: pi(j) * exp(-moving(j)) * inv(mass_m()))
    along = Equation(Diff(loss_m(), h()), total(lambda j: r_m(j) * slope(j), over=size))
    path = total(lambda j: pi(j) * exp(-(pi0(j) + h() * slope(j))), over=size)
    steps = (
        Chain(along.lhs)
        .definition(Diff(-log(path), h()), "minus the log of the mass, with moving costs", loss_m, mass_m, moving)
        .differentiate(
            inv(path) * total(lambda j: pi(j) * exp(-(pi0(j) + h() * slope(j))) * slope(j), over=size), "chain rule"
        )
        .definition(along.rhs, "the mean slope under the responsibilities", r_m, mass_m, moving)
    )
    return [
        Part("cost", claim, proof, "Exact EM at the level of the loss: its gradient in a cost is a responsibility."),
        Part("along", along, steps, "Along any change of the costs, dl = sum_j r_j dc_j, priors fixed."),
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    part = part_of("em.fisher-identity", "cost")
    pi, r = tensor_of(part, "pi"), tensor_of(part, "r")
    key = part.order[0]
    yield "cost", "sign", "sign flipped", -r(key), "a cost that rises raises the loss"
    yield "cost", "prior", "prior for posterior", pi(key), "responsibilities weigh the priors by the likelihoods"
    yield "cost", "squared", "squared", r(key) ** 2, "one responsibility"


@RESULT.code("cost", "bayesgrad.em.mixture_responsibilities")
def _(shipped, t):
    return shipped.em.mixture_responsibilities(t.pi, t.c)


@RESULT.code("along", "bayesgrad.em.mixture_loss_change")
def _(shipped, t):
    return shipped.em.mixture_loss_change(t.pi, t.c, t.dc)
