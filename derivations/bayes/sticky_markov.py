"""Predicting a chain that is seen through noise."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import AtMost, Chain, Equation
from bayesgrad.symbolic.terms import Index, Lookup, Size, Tensor, delta, inv, log, rename, total
from derivations.common.lemmas import Divergence
from derivations.common.parts import part_of, tensor_of
from derivations.common.sequences import Chainlike, History, States, _mass, r, s
from derivations.laws import instance_of
from derivations.result import COUNTING, OURS, Part, Result, WrongRow, routes

RESULT = Result(
    "bayes.sticky-markov",
    title="Predicting a chain that is seen through noise",
    means="""The input gives away, through noise, where the chain was one step ago; the best prediction is that
    belief pushed through one transition.""",
    fails="""The entropy rate bounds the *expected* loss. On a single training sequence a model may go below it,
    which is memorising and not insight.""",
    source=OURS,
    routes=routes(proof="required", exact="required", code=COUNTING, check="required", observed="optional"),
    implements=("bayesgrad.bayes.sticky_markov_predictive",),
    naive=("no training loss falls below H(Y_t|Y_{t-1})",),
    headline=("predictive", "bound"),
)


@RESULT.proof
def proof() -> list[Part]:
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


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    part = part_of("bayes.sticky-markov", "predictive")
    alpha, T = (tensor_of(part, x) for x in ("alpha", "T"))
    (r,) = part.order
    S = alpha.sizes[0]
    mass = inv(total(lambda s: alpha(s), over=S))
    yield "predictive", "no-transition", "transition dropped", alpha(r) * mass, "y_t is one step after what was seen"
    back = total(lambda s: alpha(s) * mass * T(r, s), over=S)
    yield "predictive", "transposed", "P transposed", back, "rows of P are where a state goes"
    plain = total(lambda s: alpha(s) * T(s, r), over=S)
    yield "predictive", "unnormalised", "normaliser dropped", plain, "the filter is a joint probability"
