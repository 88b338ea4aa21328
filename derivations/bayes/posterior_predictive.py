"""The best predictor is the posterior predictive."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Witness, every
from bayesgrad.symbolic.terms import Count, Diff, Index, Size, Tensor, Term, delta, exp, inv, lift, log, total
from derivations.common.contexts import KL, D, H, R, X, Y, divergence_at, w, x, y
from derivations.laws import equation, instance_of
from derivations.result import COUNTING, INEQUALITY, P1, Part, Result, WrongRow, routes

RESULT = Result(
    "bayes.posterior-predictive",
    title="The best predictor is the posterior predictive",
    means="""The lowest point of the risk is the posterior predictive, context by context, so a network that
    reaches the minimum computes Bayes' rule whatever its weights look like.""",
    fails="""Uniqueness holds on contexts of positive probability only. If the query input tells something about
    the latent parameter, the mixture must be taken over the posterior that has seen the query input as well. A
    softmax reaches a predictive with zeros only in the limit.""",
    source=P1,
    routes=routes(proof="required", exact=INEQUALITY, code=COUNTING, check="required", observed="optional"),
    implements=("bayesgrad.bayes.posterior_predictive",),
    naive=("p(y|x,c) = sum_theta p(theta|c) p(y|x,theta) without condition (ii)",),
    headline=("optimum", "mixture"),
)


@RESULT.proof
def proof() -> list[Part]:
    return [_optimum(), _mixture(), _mixture_posterior(), *_lagrange(), _unique_logits(), *_without_independence()]


def _optimum() -> Part:
    gibbs = instance_of("lemma.gibbs", D.claim, D.proof())
    kl = Tensor("D", (X,), "nonnegative", divergence_at, fact=gibbs, tex=r"\mathrm{KL}")
    claim = AtMost(H(), R(), given=(D.p_sums, D.q_sums), tight=(every(kl),))
    proof = (
        Chain(R() - H())
        .rewrite(
            total(lambda x: w(x) * KL(x), over=X),
            "the risk is the entropy plus the mean divergence",
            equation("bayes.risk-decomposition"),
        )
        .definition(
            total(lambda x: w(x) * kl(x), over=X),
            "each divergence is at least 0 (Gibbs), and every w is positive",
            KL,
            kl,
        )
    )
    says = (
        "The risk is least, and equal to the entropy, exactly where KL(p(.|x) || q(.|x)) = 0 at every context of "
        "positive probability, that is where q = p there."
    )
    return Part("optimum", claim, proof, says)


class Joint:
    """A joint distribution of parameter, context, input and outcome, and what makes it a Bayesian model."""

    Theta, Gamma = Size("Theta"), Size("Gamma")
    P = Tensor("P", (Theta, Gamma, X, Y), "nonnegative")
    f = Tensor("f", (Theta, X, Y), "nonnegative")
    h = Tensor("h", (Theta, Gamma), "nonnegative")
    c, theta = Index("c", Gamma), Index("theta", Theta)

    @classmethod
    def weight(cls, theta: Index, c: Index, x: Index) -> Term:
        return total(lambda y: cls.P(theta, c, x, y), over=Y)

    @classmethod
    def mass(cls) -> Term:
        return total(lambda theta, y: cls.P(theta, cls.c, x, y), over=(cls.Theta, Y))

    @classmethod
    def hypotheses(cls) -> tuple[Equation, Equation, Equation]:
        """(i) y depends on c through (x, theta) alone; (ii) x tells nothing more about theta; the context occurs."""
        raw_f, raw_h = Tensor("f0", cls.f.sizes, "positive"), Tensor("h0", cls.h.sizes, "positive")
        raw_x = Tensor("g0", (cls.Gamma, X), "positive")

        def f(t: Index, x: Index, y: Index) -> Term:
            return raw_f(t, x, y) * inv(total(lambda y: raw_f(t, x, y), over=Y))

        def h(t: Index, c: Index) -> Term:
            return raw_h(t, c) * inv(total(lambda t: raw_h(t, c), over=cls.Theta))

        theta, c = cls.theta, cls.c
        first = Equation(
            cls.P(theta, c, x, y),
            cls.f(theta, x, y) * cls.weight(theta, c, x),
            (theta, c, x, y),
            says="y is independent of c given (x, theta), with f = p(y|x,theta)",
            sample={cls.f: f, cls.h: h, cls.P: lambda t, c, x, y: f(t, x, y) * h(t, c) * raw_x(c, x)},
        )
        second = Equation(
            cls.weight(theta, c, x),
            cls.h(theta, c) * total(lambda t: cls.weight(t, c, x), over=cls.Theta),
            (theta, c, x),
            says="x is independent of theta given c, with h = p(theta|c)",
        )
        occurs = Equation(cls.mass() * inv(cls.mass()), lift(1), says="the context (x, c) has positive probability")
        return first, second, occurs


def _mixture() -> Part:
    it = Joint
    first, second, occurs = it.hypotheses()
    top = total(lambda t: it.P(t, it.c, x, y), over=it.Theta)
    claim = Equation(
        top * inv(it.mass()),
        total(lambda t: it.h(t, it.c) * it.f(t, x, y), over=it.Theta),
        given=(first, second, occurs),
    )
    mixed = total(lambda t: it.f(t, x, y) * it.h(t, it.c), over=it.Theta)
    proof = (
        Chain(claim.lhs)
        .rewrite(
            total(lambda t: it.f(t, x, y) * it.weight(t, it.c, x), over=it.Theta) * inv(it.mass()),
            "given x and theta, the context says nothing about y",
            first,
            lambda hole: total(lambda t: hole(t, it.c, x, y), over=it.Theta) * inv(it.mass()),
        )
        .rewrite(
            mixed * it.mass() * inv(it.mass()),
            "given c, the input says nothing about theta",
            second,
            lambda hole: total(lambda t: it.f(t, x, y) * hole(t, it.c, x), over=it.Theta) * inv(it.mass()),
        )
        .rewrite(claim.rhs, "the context occurs, so its probability cancels", occurs, lambda hole: mixed * hole())
    )
    return Part(
        "mixture", claim, proof, "p(y|x,c) = sum over theta of p(theta|c) p(y|x,theta), where (i) and (ii) hold."
    )


def _mixture_posterior() -> Part:
    it = Joint
    first, _, _ = it.hypotheses()
    top = total(lambda t: it.P(t, it.c, x, y), over=it.Theta)
    claim = Equation(
        top * inv(it.mass()),
        total(lambda t: it.weight(t, it.c, x) * inv(it.mass()) * it.f(t, x, y), over=it.Theta),
        given=(first,),
    )
    proof = Chain(claim.lhs).rewrite(
        claim.rhs,
        "given x and theta, the context says nothing about y",
        first,
        lambda hole: total(lambda t: hole(t, it.c, x, y), over=it.Theta) * inv(it.mass()),
    )
    return Part("mixture-by-posterior", claim, proof, "Without (ii) the weights are p(theta|x,c).")


def _lagrange() -> list[Part]:
    p, q, lam = Tensor("p", (Y,), "positive"), Tensor("q", (Y,), "positive"), Tensor("lambda", tex=r"\lambda")
    F = total(lambda y: p(y) * -log(q(y)), over=Y) + lam() * (total(lambda y: q(y), over=Y) - 1)
    slope = Equation(Diff(F, q(y)), lam() - p(y) * inv(q(y)))
    tangent = AtMost(-log(p(y)) - (q(y) - p(y)) * inv(p(y)), -log(q(y)), (y,))
    from derivations.common.lemmas import excess_over_log

    phi = excess_over_log("phi", (Y,), lambda r: q(r) / p(r))
    return [
        Part(
            "lagrange",
            slope,
            Chain(slope.lhs).differentiate(slope.rhs, "only one term of each sum depends on q_y"),
            "It is 0 at q = p with lambda = 1; needs p(y|x) > 0 for every y.",
        ),
        Part(
            "convexity",
            tangent,
            Chain(tangent.rhs - tangent.lhs).definition(phi(y), "the gap is the excess over the log bound", phi),
            "-log lies above each of its tangents, so the stationary point is the global minimum.",
        ),
    ]


def _unique_logits() -> Part:
    """Two logit vectors with one softmax differ by a constant: z_c - z'_c does not depend on c."""
    size = Size("C", nonempty=True)
    z, other = Tensor("z", (size,)), Tensor("z'", (size,))
    c = Index("c", size)
    Z, Z1 = (Tensor(f"Z{t}", kind="positive") for t in ("", "'"))
    one, two = exp(z(c)) * inv(Z()), exp(other(c)) * inv(Z1())
    equal = Equation(
        one,
        two,
        (c,),
        says="z and z' give the same prediction (Z, Z' are their normalisers)",
        sample={z: lambda c: other(c), Z1: lambda: Z()},
    )
    claim = Equation(z(c) - other(c), log(Z()) - log(Z1()), given=(equal,))
    proof = (
        Chain(claim.lhs)
        .algebra(log(one) + log(Z()) - log(two) - log(Z1()), "a logit is the log of its prediction plus log Z")
        .rewrite(
            claim.rhs,
            "the predictions are equal",
            equal,
            lambda hole: log(hole(c)) + log(Z()) - log(two) - log(Z1()),
        )
    )
    says = "A softmax model is positive everywhere, so it attains the minimum only where p has full support."
    return Part("logits", claim, proof, says)


def _without_independence() -> list[Part]:
    """P(theta=c) = 2/3, P(x=theta) = 3/4, P(y=theta) = 4/5: at (c, x) = (0, 1) the truth is 14/25, the mixture 2/5."""
    it = Joint
    c, x1, y1 = it.c, Index("x", X), Index("y", Y)
    third, quarter, fifth = Fraction(1, 3), Fraction(1, 4), Fraction(1, 5)
    h = ((2 * third, third), (third, 2 * third))
    f = (((4 * fifth, fifth),) * 2, ((fifth, 4 * fifth),) * 2)
    sees = ((3 * quarter, quarter), (quarter, 3 * quarter))
    joint = tuple(
        tuple(
            tuple(tuple(h[t][c0] * sees[t][x0] * f[t][x0][y0] / 2 for y0 in (0, 1)) for x0 in (0, 1)) for c0 in (0, 1)
        )
        for t in (0, 1)
    )
    sizes = {it.Theta: 2, it.Gamma: 2, X: 2, Y: 2}
    values = {it.P: joint, it.h: h, it.f: f}
    at = {c: 0, x1: 1, y1: 1}
    truth = total(lambda t: it.P(t, c, x1, y1), over=it.Theta) * inv(
        total(lambda t, y: it.P(t, c, x1, y), over=(it.Theta, Y))
    )
    mixture = total(lambda t: it.h(t, c) * it.f(t, x1, y1), over=it.Theta)
    exact = Witness(truth, lift(Fraction(14, 25)), sizes=sizes, values=values, at=at)
    naive = Witness(mixture, lift(Fraction(2, 5)), sizes=sizes, values=values, at=at)
    return [
        Part("witness-truth", exact, Chain(truth), "Where x tells about theta beyond c, the predictive is 14/25 ..."),
        Part("witness-mixture", naive, Chain(mixture), "... and the mixture over p(theta|c) is 2/5."),
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    J = Joint
    mixed = lambda weight: total(lambda t: weight(t) * J.f(t, x, y), over=J.Theta)
    yield (
        "mixture",
        "uniform",
        "uniform weights",
        mixed(lambda t: inv(Count(J.Theta))),
        "the context reweighs the parameters",
    )
    yield "mixture", "unweighted", "weights dropped", mixed(lambda t: delta(t, t)), "p(theta|c) is missing"
    yield (
        "mixture",
        "squared",
        "posterior used twice",
        mixed(lambda t: J.h(t, J.c) * J.h(t, J.c)),
        "the evidence counts once",
    )
    gap = 2 * H() - R()
    yield "optimum", "below-entropy", "bound reversed", gap, "no model goes below the entropy"
