"""What an exact EM step changes."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import AtMost, Chain, Equation
from bayesgrad.symbolic.terms import Index, Tensor, Term, exp, inv, log
from derivations.common.lemmas import Mixture, full_divergence
from derivations.laws import instance_of, law
from derivations.result import NO_RUN, OURS, Part, Result, WrongRow, routes

RESULT = Result(
    "lemma.em-identity",
    title="What an exact EM step changes",
    means="""A mixture's loss changes by what its surrogate changes, minus a divergence between old and new
    responsibilities. Lowering the surrogate therefore lowers the loss: the surrogate lies above it.""",
    fails="""It needs the *exact* responsibilities of the same mixture. Attention weights are responsibilities of
    the read-out's loss only by analogy: see [[em.not-variational]].""",
    source=OURS,
    routes=routes(proof="required", exact="required", check="required", observed=NO_RUN),
    implements=("bayesgrad.em.mixture_loss", "bayesgrad.em.mixture_responsibilities"),
)


@RESULT.proof
def proof() -> list[Part]:
    it = Mixture()
    (c0, c1), (l0, l1), (Z0, Z1), (r0, r1) = it.cost, it.loss, it.mass, it.r
    divergence = it.over(lambda j: r0(j) * (log(r0(j)) - log(r1(j))))
    surrogate = it.over(lambda j: r0(j) * c1(j)) - it.over(lambda j: r0(j) * c0(j))
    one = instance_of("lemma.em-identity", *it.sums(0))
    two = instance_of("lemma.em-identity", *it.sums(1))
    claim = Equation(l1() - l0(), surrogate - divergence)
    gap = log(Z0()) - log(Z1())
    written = it.over(lambda j: r0(j) * (-c0(j) - log(Z0()) + c1(j) + log(Z1())))
    proof = (
        Chain(claim.lhs)
        .definition(gap, "the loss is minus the log of the mass", l0, l1)
        .rewrite(it.over(lambda j: r0(j)) * gap, "responsibilities sum to one", one, lambda h: h() * gap)
        .algebra(surrogate - written, "add the change of the mean cost and take it away")
        .definition(
            surrogate - it.over(lambda j: r0(j) * (log(_ratio(it, 0, j)) - log(_ratio(it, 1, j)))),
            "log r = log pi - c - log Z, and the priors cancel",
        )
        .definition(claim.rhs, "which is the divergence of the responsibilities", r0, r1)
    )
    gibbs = instance_of("lemma.gibbs", *full_divergence(r0, r1, it.size, (), one, two))
    kl = Tensor("D", (), "nonnegative", lambda: gibbs.rhs - gibbs.lhs, fact=gibbs, tex=r"\mathrm{KL}")
    bound = AtMost(l1() - l0(), surrogate)
    fall = (
        Chain(bound.rhs - bound.lhs)
        .rewrite(divergence, "the identity", claim, lambda h: surrogate - h())
        .definition(kl(), "at least 0 (Gibbs)", kl)
    )
    return [
        Part("identity", claim, proof, "r are the exact responsibilities at the old costs, r' at the new ones."),
        Part("majorant", bound, fall, "So a step that does not raise the mean cost under r never raises l."),
    ]


def _ratio(it: Mixture, which: int, j: Index) -> Term:
    return it.prior(j) * exp(-it.cost[which](j)) * inv(it.mass[which]())


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    part = law("lemma.em-identity").parts[0]
    surrogate = law("lemma.em-identity").parts[1].claim.rhs
    yield "identity", "no-divergence", "divergence dropped", surrogate, "that is only a bound"
    yield "identity", "added", "divergence added", 2 * surrogate - part.claim.rhs, "the divergence is taken away"
    yield "identity", "sign", "sign flipped", -part.claim.rhs, "new minus old on both sides"


@RESULT.code("identity", "bayesgrad.em.em_identity")
def _(shipped, t):
    got = shipped.em.em_identity(t.pi, t.c, t["c'"])
    return got.cost_change - got.divergence


@RESULT.code("identity", "bayesgrad.em.mixture_loss")
def _(shipped, t):
    return shipped.em.mixture_loss(t.pi, t["c'"]) - shipped.em.mixture_loss(t.pi, t.c)


@RESULT.code("identity", "bayesgrad.em.mixture_responsibilities")
def _(shipped, t):
    r, r1 = (shipped.em.mixture_responsibilities(t.pi, c) for c in (t.c, t["c'"]))
    return t.xp.sum(r * (t["c'"] - t.c) - r * (t.xp.log(r) - t.xp.log(r1)))
