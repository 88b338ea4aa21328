"""Filtering a hidden Markov chain."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Chain, Equation, Induction
from bayesgrad.symbolic.terms import Tensor, Term, inv, lift, total
from derivations.common.parts import part_of, tensor_of
from derivations.common.sequences import Chainlike, History, States, _mass, o, r, s
from derivations.laws import instance_of
from derivations.result import COUNTING, OURS, Part, Result, WrongRow, routes

RESULT = Result(
    "bayes.hmm-filter",
    title="Filtering a hidden Markov chain",
    means="""The filter carries one unnormalised vector forward: move it by the transitions, weigh it by what was
    seen. Its normalisers multiply up to the likelihood.""",
    fails="""The normalisers must be positive, and there is no transition before the first observation: one step
    too many gives a different filter.""",
    source=OURS,
    routes=routes(proof="required", exact="required", code=COUNTING, check="required", observed="optional"),
    implements=("bayesgrad.bayes.hmm_filter",),
    read_with=("bayes.posterior-predictive", "bayes.chain-rule"),
    headline=("every-time", "next-observation"),
)


@RESULT.proof
def proof() -> list[Part]:
    it = Chainlike()
    return [*_filter_is_marginal(it), _posterior_is_normalised(it), _next_observation(it), _normalisers(it)]


def _filter_is_marginal(it: Chainlike) -> list[Part]:
    mu, alpha = it.mu, it.alpha
    start = (
        Equation(
            mu["_1"](s),
            it.pi(s) * it.E(s, it.first),
            (s,),
            says="no transition before the first observation",
            sample={mu["_1"]: lambda s: it.pi(s) * it.E(s, it.first)},
        ),
        Equation(
            alpha["_1"](s),
            it.pi(s) * it.E(s, it.first),
            (s,),
            says="the filter starts with pi(s) E(s, o_1)",
            sample={alpha["_1"]: lambda s: it.pi(s) * it.E(s, it.first)},
        ),
    )
    base = Equation(mu["_1"](s), alpha["_1"](s), (s,), given=start)
    base_proof = (
        Chain(base.lhs)
        .rewrite(it.pi(s) * it.E(s, it.first), "the model at the first time", start[0])
        .rewrite(base.rhs, "the filter at the first time", start[1], lambda hole: hole(s))
    )
    here = Equation(mu[""](s), alpha[""](s), (s,), says="the claim at time t", sample={alpha[""]: lambda s: mu[""](s)})
    raw = Tensor("share", (History,), "positive")  # for drawing: the paths that end in one state share its mass
    paths = Equation(
        total(lambda w: it.J(w, s), over=History),
        mu[""](s),
        (s,),
        says="mu_t(s) = p(o_1..o_t, s_t = s) sums the paths that end in s",
        sample={it.J: lambda w, s: mu[""](s) * raw(w) * inv(total(lambda w: raw(w), over=History))},
    )
    longer = Equation(
        mu["'"](r),
        total(lambda w, s: it.J(w, s) * it.T(s, r) * it.E(r, it.next), over=(History, States)),
        (r,),
        says="a path grows by one transition and one emission",
        sample={
            mu["'"]: lambda r: total(lambda w, s: it.J(w, s) * it.T(s, r) * it.E(r, it.next), over=(History, States))
        },
    )
    recursion = Equation(
        alpha["'"](r),
        it.step(alpha[""], r),
        (r,),
        says="the filter recursion",
        sample={alpha["'"]: lambda r: it.step(alpha[""], r)},
    )
    step = Equation(mu["'"](s), alpha["'"](s), (s,), given=(here, paths, longer, recursion))
    step_proof = (
        Chain(step.lhs)
        .rewrite(
            total(lambda w, r: it.J(w, r) * it.T(r, s) * it.E(s, it.next), over=(History, States)),
            "all paths that end in s, one step longer",
            longer,
        )
        .algebra(
            it.E(s, it.next) * total(lambda r: total(lambda w: it.J(w, r), over=History) * it.T(r, s), over=States),
            "sum over the past of each path first",
        )
        .rewrite(
            it.step(mu[""], s),
            "which is the marginal at time t",
            paths,
            lambda hole: it.E(s, it.next) * total(lambda r: hole(r) * it.T(r, s), over=States),
        )
        .rewrite(it.step(alpha[""], s), "the claim at time t", here)
        .rewrite(step.rhs, "the filter recursion", recursion, lambda hole: hole(s))
    )
    base = instance_of("bayes.hmm-filter", base, base_proof)
    step = instance_of("bayes.hmm-filter", step, step_proof)
    claim = Induction(
        mu[""](s),
        alpha[""](s),
        (s,),
        (*start, paths, longer, recursion),
        base=base,
        step=step,
        first={mu[""]: mu["_1"], alpha[""]: alpha["_1"]},
        later={mu[""]: mu["'"], alpha[""]: alpha["'"]},
    )
    return [
        Part("every-time", claim, Chain(claim.lhs), "alpha_t(s) = p(o_1..o_t, s_t = s), for a chain of any length."),
        Part("base", base, base_proof),
        Part("step", step, step_proof),
    ]


evidence = Tensor("c", kind="positive")


def _positive_mass(alpha: Tensor) -> Equation:
    return Equation(
        _mass(alpha),
        evidence(),
        says="what was observed has positive probability c",
        sample={evidence: lambda: _mass(alpha)},
    )


def _posterior_is_normalised(it: Chainlike) -> Part:
    """p(s_t|o_1..o_t) = alpha_t(s) / sum alpha_t is a distribution."""
    alpha = it.alpha[""]
    occurs = _positive_mass(alpha)
    claim = Equation(total(lambda s: alpha(s) * inv(_mass(alpha)), over=States), lift(1), given=(occurs,))
    proof = (
        Chain(claim.lhs)
        .algebra(_mass(alpha) * inv(_mass(alpha)), "one common denominator")
        .rewrite(lift(1), "which is not zero", occurs, lambda hole: hole() * inv(hole()))
    )
    return Part("posterior", claim, proof, "The posterior of the state is the normalised filter.")


def _next_observation(it: Chainlike) -> Part:
    """p(o_1..o_t, o_{t+1} = o) / p(o_1..o_t) = ((posterior T) E)(o)."""
    alpha = it.alpha[""]
    paths = Equation(
        total(lambda w: it.J(w, s), over=History),
        alpha(s),
        (s,),
        says="alpha_t is the marginal of all paths (proved above)",
        sample={alpha: lambda s: total(lambda w: it.J(w, s), over=History)},
    )
    joint = total(lambda w, s, r: it.J(w, s) * it.T(s, r) * it.E(r, o), over=(History, States, States))
    claim = Equation(
        joint * inv(_mass(alpha)),
        total(
            lambda r: total(lambda s: alpha(s) * inv(_mass(alpha)) * it.T(s, r), over=States) * it.E(r, o), over=States
        ),
        given=(paths,),
    )
    proof = (
        Chain(claim.lhs)
        .algebra(
            total(
                lambda s, r: total(lambda w: it.J(w, s), over=History) * it.T(s, r) * it.E(r, o), over=(States, States)
            )
            * inv(_mass(alpha)),
            "sum over the past of each path first",
        )
        .rewrite(
            total(lambda s, r: alpha(s) * it.T(s, r) * it.E(r, o), over=(States, States)) * inv(_mass(alpha)),
            "which is the filter",
            paths,
            lambda hole: (
                total(lambda s, r: hole(s) * it.T(s, r) * it.E(r, o), over=(States, States)) * inv(_mass(alpha))
            ),
        )
        .algebra(claim.rhs, "normalise first, then move, then emit")
    )
    return Part("next-observation", claim, proof, "The predictive is the posterior, moved by T and emitted by E.")


def _normalisers(it: Chainlike) -> Part:
    """sum alpha_{t+1} = c_{t+1} sum alpha_t, so the log-likelihood is the sum of the logs of the normalisers."""
    alpha = it.alpha[""]
    occurs = _positive_mass(alpha)
    normaliser = total(
        lambda r: it.E(r, it.next) * total(lambda s: alpha(s) * inv(_mass(alpha)) * it.T(s, r), over=States),
        over=States,
    )
    claim = Equation(total(lambda r: it.step(alpha, r), over=States), normaliser * _mass(alpha), given=(occurs,))
    flow = total(lambda r: it.step(alpha, r), over=States)
    proof = (
        Chain(claim.lhs)
        .algebra(flow * evidence() * inv(evidence()), "put in one")
        .rewrite(claim.rhs, "and give it to the posterior", occurs, lambda hole: flow * hole() * inv(hole()))
    )
    says = "By the chain rule the log-likelihood is the sum of the logs of the normalisers, the first included."
    return Part("normalisers", claim, proof, says)


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    part = part_of("bayes.hmm-filter", "next-observation")
    alpha, T, E = (tensor_of(part, x) for x in ("alpha", "T", "E"))
    (o,) = part.order
    S = alpha.sizes[0]
    mass = inv(total(lambda s: alpha(s), over=S))
    stay = total(lambda s: alpha(s) * mass * E(s, o), over=S)
    yield "next-observation", "no-transition", "transition dropped", stay, "the state moves before it emits"
    back = total(lambda r: total(lambda s: alpha(s) * mass * T(r, s), over=S) * E(r, o), over=S)
    yield "next-observation", "transposed", "T transposed", back, "rows of T are where a state goes"
    yield "next-observation", "unnormalised", "normaliser dropped", _unnormalised(part), "alpha is a joint probability"


def _unnormalised(part: Part) -> Term:
    alpha, T, E = (tensor_of(part, x) for x in ("alpha", "T", "E"))
    (o,) = part.order
    S = alpha.sizes[0]
    return total(lambda r: total(lambda s: alpha(s) * T(s, r), over=S) * E(r, o), over=S)
