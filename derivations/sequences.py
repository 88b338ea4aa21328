"""Family A over time: the chain rule, filters and noisy chains.

    sum_t -log p(y_t|y_<t) = -log p(y_1..y_T)        alpha_{t+1}(s') = E(s', o_{t+1}) sum_s alpha_t(s) T(s, s')

Statements about every time go by the induction rule: tensors without a prime belong to time t, primed ones to t + 1,
those with a 1 to the first time.
"""

from __future__ import annotations

from fractions import Fraction

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Induction, Witness
from bayesgrad.symbolic.terms import Index, Lookup, Size, Tensor, Term, delta, inv, lift, log, rename, total
from derivations.laws import Part, instance_of, proves
from derivations.lemmas import Divergence

# -- the chain rule ------------------------------------------------------------------------------------------------


@proves("bayes.chain-rule")
def chain_rule() -> list[Part]:
    joint = {t: Tensor(f"J{t}", kind="positive") for t in ("", "'", "_1")}
    loss = {t: Tensor(f"S{t}") for t in ("", "'", "_1")}
    first, later = Tensor("c_1", kind="positive"), Tensor("c'", kind="positive")
    here = Equation(
        loss[""](),
        -log(joint[""]()),
        says="the claim at time t",
        sample={loss[""]: lambda: -log(joint[""]())},
    )
    start = (
        Equation(joint["_1"](), first(), says="J_1 = p(y_1)", sample={joint["_1"]: lambda: first()}),
        Equation(loss["_1"](), -log(first()), says="S_1 = -log p(y_1)", sample={loss["_1"]: lambda: -log(first())}),
    )
    grow = (
        Equation(
            joint["'"](),
            joint[""]() * later(),
            says="p(y_1..y_{t+1}) = p(y_1..y_t) p(y_{t+1}|y_1..y_t), of positive probability",
            sample={joint["'"]: lambda: joint[""]() * later()},
        ),
        Equation(
            loss["'"](),
            loss[""]() - log(later()),
            says="every position is supervised: the sum grows by -log p(y_{t+1}|y_1..y_t)",
            sample={loss["'"]: lambda: loss[""]() - log(later())},
        ),
    )
    base = Equation(loss["_1"](), -log(joint["_1"]()), given=start)
    base_proof = (
        Chain(loss["_1"]())
        .rewrite(-log(first()), "one position", start[1])
        .rewrite(base.rhs, "whose probability is the joint one", start[0], lambda hole: -log(hole()))
    )
    step = Equation(loss["'"](), -log(joint["'"]()), given=(here, *grow))
    step_proof = (
        Chain(loss["'"]())
        .rewrite(loss[""]() - log(later()), "one more position", grow[1])
        .rewrite(-log(joint[""]()) - log(later()), "the claim at time t", here)
        .algebra(-log(joint[""]() * later()), "log of a product")
        .rewrite(step.rhs, "the product rule", grow[0], lambda hole: -log(hole()))
    )
    base = instance_of("bayes.chain-rule", base, base_proof)
    step = instance_of("bayes.chain-rule", step, step_proof)
    claim = Induction(
        loss[""](),
        -log(joint[""]()),
        given=(*start, *grow),
        base=base,
        step=step,
        first={loss[""]: loss["_1"], joint[""]: joint["_1"]},
        later={loss[""]: loss["'"], joint[""]: joint["'"]},
    )
    says = (
        "S_t is the summed loss up to t, J_t the joint probability; with inputs x it needs y_t independent of later x."
    )
    return [
        Part("every-time", claim, Chain(claim.lhs), says),
        Part("base", base, base_proof),
        Part("step", step, step_proof),
        *_inputs_that_tell(),
    ]


def _inputs_that_tell() -> list[Part]:
    """x_2 := y_1: the losses add up to -log p(y_1|x_1), but y_1 is certain given all the inputs."""
    Y, X2 = Size("Y"), Size("X")
    J = Tensor("P", (Y, X2))
    y, x = Index("y", Y), Index("x", X2)
    half = Fraction(1, 2)
    given = {"sizes": {Y: 2, X2: 2}, "values": {J: ((half, 0), (0, half))}, "at": {y: 0, x: 0}}
    alone = total(lambda x: J(y, x), over=X2)
    told = J(y, x) * inv(total(lambda y: J(y, x), over=Y))
    supervised = Witness(-log(alone), log(lift(2)), **given)  # type: ignore[arg-type]
    joint = Witness(-log(told), lift(0), **given)  # type: ignore[arg-type]
    return [
        Part(
            "inputs-loss", supervised, Chain(supervised.lhs), "A later input that repeats an output: the loss is log 2,"
        ),
        Part("inputs-joint", joint, Chain(joint.lhs), "while given all inputs the output is certain."),
    ]


# -- hidden Markov chains ------------------------------------------------------------------------------------------

States, Symbols, History = Size("S"), Size("O", nonempty=True), Size("W")
s, r, o = Index("s", States), Index("r", States), Index("o", Symbols)


class Chainlike:
    """A hidden Markov chain at time t and t + 1: all paths, their marginal, and the unnormalised filter."""

    def __init__(self) -> None:
        self.T, self.E = Tensor("T", (States, States), "nonnegative"), Tensor("E", (States, Symbols), "nonnegative")
        self.pi = Tensor("pi", (States,), "nonnegative", tex=r"\pi")
        self.seen, self.next, self.first = (Lookup(x, (), Symbols)() for x in ("o_t", "o'", "o_1"))
        self.J = Tensor("J", (History, States), "nonnegative")
        self.mu = {t: Tensor(f"mu{t}", (States,), "nonnegative", tex=rf"\mu{t}") for t in ("", "'", "_1")}
        self.alpha = {t: Tensor(f"alpha{t}", (States,), "nonnegative", tex=rf"\alpha{t}") for t in ("", "'", "_1")}

    def step(self, filtered: Tensor, at: Index) -> Term:
        """E(s', o_{t+1}) sum_s alpha(s) T(s, s')."""
        return self.E(at, self.next) * total(lambda s: filtered(s) * self.T(s, at), over=States)


@proves("bayes.hmm-filter")
def hmm_filter() -> list[Part]:
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


def _mass(alpha: Tensor) -> Term:
    return total(lambda s: alpha(s), over=States)


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


# -- a chain seen through noise ------------------------------------------------------------------------------------


@proves("bayes.sticky-markov")
def sticky_markov() -> list[Part]:
    return [_one_step_ahead(), *_entropy_bound()]


def _one_step_ahead() -> Part:
    it = Chainlike()
    alpha = it.alpha[""]
    paths = Equation(
        total(lambda w: it.J(w, s), over=History),
        alpha(s),
        (s,),
        says="alpha is the filter of y_{t-1}: the noisy input is emitted by it",
        sample={alpha: lambda s: total(lambda w: it.J(w, s), over=History)},
    )
    joint = total(lambda w, s: it.J(w, s) * it.T(s, r), over=(History, States))
    claim = Equation(
        joint * inv(_mass(alpha)),
        total(lambda s: alpha(s) * inv(_mass(alpha)) * it.T(s, r), over=States),
        given=(paths,),
    )
    proof = (
        Chain(claim.lhs)
        .algebra(
            total(lambda s: total(lambda w: it.J(w, s), over=History) * it.T(s, r), over=States) * inv(_mass(alpha)),
            "sum over the past of each path first",
        )
        .rewrite(
            total(lambda s: alpha(s) * it.T(s, r), over=States) * inv(_mass(alpha)),
            "which is the filter",
            paths,
            lambda hole: total(lambda s: hole(s) * it.T(s, r), over=States) * inv(_mass(alpha)),
        )
        .algebra(claim.rhs, "normalise first")
    )
    return Part("predictive", claim, proof, "The predictive of y_t is the filter of y_{t-1}, moved by P (here T).")


def _entropy_bound() -> list[Part]:
    """No model beats H(Y_t | Y_{t-1}) on average, even one that sees the previous state."""
    Seen, States_ = Size("X"), Size("S")
    x = Index("x", Seen)
    D = Divergence(States_, (x,))
    w = Tensor("w", (Seen,), "positive")
    gibbs = instance_of("lemma.gibbs", D.claim, D.proof())
    kl = Tensor("D", (Seen,), "nonnegative", lambda at: rename(D.value, {x: at}), fact=gibbs, tex=r"\mathrm{KL}")
    expected = lambda of: total(lambda x, y: w(x) * D.S(x, y) * D.p(x, y) * -log(of(x, y)), over=(Seen, States_))
    bound = AtMost(expected(D.p), expected(D.q), given=(D.p_sums, D.q_sums))
    proof = (
        Chain(bound.rhs - bound.lhs)
        .algebra(total(lambda x: w(x) * rename(D.value, {D.around[0]: x}), over=Seen), "log p against log q")
        .definition(total(lambda x: w(x) * kl(x), over=Seen), "at least 0 (Gibbs)", kl)
    )
    previous = Lookup("y", (Seen,), States_)
    mu, state = Tensor("mu", (States_,), tex=r"\mu"), Index("s", States_)
    h = Tensor("h", (States_,))
    mass = Equation(
        total(lambda x: w(x) * delta(previous(x), state), over=Seen),
        mu(state),
        (state,),
        says="mu(s) is the probability that the previous state is s",
        sample={mu: lambda s: total(lambda x: w(x) * delta(previous(x), s), over=Seen)},
    )
    regroup = Equation(
        total(lambda x: w(x) * h(previous(x)), over=Seen), total(lambda s: mu(s) * h(s), over=States_), given=(mass,)
    )
    grouped = (
        Chain(regroup.lhs)
        .algebra(
            total(lambda s: total(lambda x: w(x) * delta(previous(x), s), over=Seen) * h(s), over=States_),
            "group what was seen by the previous state",
        )
        .rewrite(regroup.rhs, "its probability", mass, lambda hole: total(lambda s: hole(s) * h(s), over=States_))
    )
    return [
        Part("bound", bound, proof, "x is everything up to the previous state; p(y|x) depends on that state alone."),
        Part(
            "regroup",
            regroup,
            grouped,
            "With h(s) the entropy of row s of P this is H(Y_t|Y_{t-1}): it bounds the expected loss only.",
        ),
    ]
