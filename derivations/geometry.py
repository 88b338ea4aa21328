"""Family C, geometry: steps of matrices, the natural direction of routing, and what saturation does to gradients.

F_i (b_i + constant) = dL/ds_i        a_j(t) = a_j(0) exp(-t b_j) / Z(t)        X X^T = I needs m <= d_x
"""

from __future__ import annotations

from fractions import Fraction

from derivations.attention import EVERY_ROW_SEES, every_row_normalised, saturation_claim
from derivations.dynamics import DRAWN, H, c, eta, h, i, j, k, m, n, pull
from derivations.laws import Part, equation, instance_of, proves, whole
from derivations.lemmas import variance_form
from derivations.notation import d_v, d_x
from derivations.proof import AtMost, Chain, Equation, Witness
from derivations.softmax import SEES, fisher_entry
from derivations.terms import Count, Diff, Index, Lookup, Tensor, Term, delta, exp, inv, lift, total

f, r = Index("f", d_x), Index("r", m)


def gram(one: Index, other: Index) -> Term:
    """x_j . x_l of the inputs of keys and values."""
    return total(lambda f: H.memory(one, f) * H.memory(other, f), over=d_x)


@proves("dynamics.weight-space")
def weight_space() -> list[Part]:
    matrix = equation("attention.projection-laws", "W_V")
    bias = equation("attention.projection-laws", "value-bias")
    move = total(lambda f: H.memory(j, f) * -(eta() * Diff(H.L(), H.W_V(f, c))), over=d_x)
    claim = Equation(move, -(eta() * total(lambda l: gram(j, l) * pull(l, c), over=m)))
    proof = (
        Chain(move)
        .rewrite(
            total(lambda f: H.memory(j, f) * -(eta() * total(lambda l: H.memory(l, f) * pull(l, c), over=m)), over=d_x),
            "the law of W_V",
            matrix,
        )
        .algebra(claim.rhs, "inputs meet in their inner products")
    )
    claim = instance_of("dynamics.weight-space", claim, proof)
    both = Equation(
        move - eta() * Diff(H.L(), H.b_V(c)), -(eta() * total(lambda l: (gram(j, l) + 1) * pull(l, c), over=m))
    )
    both_proof = (
        Chain(both.lhs)
        .rewrite(
            claim.rhs - eta() * Diff(H.L(), H.b_V(c)),
            "the step of the matrix",
            claim,
            lambda hole: whole(claim)(hole) - eta() * Diff(H.L(), H.b_V(c)),
        )
        .rewrite(
            claim.rhs - eta() * total(lambda i: total(lambda j: H.a(i, j), over=m) * H.u(i, c), over=n),
            "the law of the bias",
            bias,
        )
        .algebra(both.rhs, "a bias is an input of one that all share")
    )
    return [
        Part("matrix", claim, proof, "v_j moves by the pulls of all keys whose inputs overlap with its own."),
        Part("with-bias", both, both_proof, "A value bias adds 1 to each inner product."),
        *_orthonormal(claim),
        _rank(),
    ]


ORTHONORMAL = Equation(
    gram(j, k),
    delta(j, k),
    (j, k),
    says="the inputs are orthonormal, X X^T = I",
    sample={H.memory: lambda j, f: delta(Lookup("place", (m,), d_x)(j), f)},
)


def _orthonormal(law: Equation) -> list[Part]:
    per_token = Equation(law.lhs, -(eta() * pull(j, c)), given=(ORTHONORMAL,))
    if_part = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the step of the matrix", law, whole(law))
        .rewrite(
            per_token.rhs,
            "inner products are deltas",
            ORTHONORMAL,
            lambda hole: -(eta() * total(lambda l: hole(j, l) * pull(l, c), over=m)),
        )
    )
    K = Tensor("K", (m, m))
    unit = Equation(
        total(lambda l: K(j, l) * delta(l, k), over=m),
        delta(j, k),
        (j, k),
        says="sum_l K_jl G_l = G_j holds for every gradient G, so for each unit gradient",
        sample={K: lambda j, k: delta(j, k)},
    )
    forced = Equation(K(j, k), delta(j, k), given=(unit,))
    only_if = (
        Chain(K(j, k))
        .algebra(total(lambda l: K(j, l) * delta(l, k), over=m), "put in the unit gradient of key k")
        .rewrite(delta(j, k), "the law for it", unit, lambda hole: hole(j, k))
    )
    return [
        Part("per-token", per_token, if_part, "Orthonormal inputs: the law per token."),
        Part("only-if", forced, only_if, "The per-token law for every gradient forces X X^T = I."),
    ]


def _rank() -> Part:
    """d_x - m = sum_fg (delta_fg - P_fg)^2 with P = X^T X, since tr P = tr P^2 = m."""
    claim = AtMost(Count(m), Count(d_x), given=(ORTHONORMAL,))
    P = Tensor("P", (d_x, d_x), body=lambda f, g: total(lambda j: H.memory(j, f) * H.memory(j, g), over=m))
    square = total(lambda f, g: P(f, g) ** 2, over=(d_x, d_x))
    trace = total(lambda f: P(f, f), over=d_x)
    proof = (
        Chain(Count(d_x) - Count(m))
        .algebra(
            Count(d_x)
            - 2 * total(lambda j: delta(j, j), over=m)
            + total(lambda j, k: delta(j, k) * delta(j, k), over=(m, m)),
            "m is a trace of deltas, and so is its square",
        )
        .rewrite(
            Count(d_x) - 2 * total(lambda j: gram(j, j), over=m) + total(lambda j, k: gram(j, k) ** 2, over=(m, m)),
            "orthonormal inputs",
            ORTHONORMAL,
            lambda hole: (
                Count(d_x)
                - 2 * total(lambda j: hole(j, j), over=m)
                + total(lambda j, k: hole(j, k) * hole(j, k), over=(m, m))
            ),
        )
        .definition(Count(d_x) - 2 * trace + square, "both are traces of P = X^T X as well", P)
        .algebra(total(lambda f, g: (delta(f, g) - P(f, g)) ** 2, over=(d_x, d_x)), "a sum of squares")
    )
    return Part("rank", claim, proof, "So orthonormal inputs need m <= d_x.")


# -- natural routing -----------------------------------------------------------------------------------------------


@proves("dynamics.natural-routing")
def natural_routing() -> list[Part]:
    return [_solutions(), _only_constants(), _representative(), _bayes_rule(), *_replicator()]


def _solutions() -> Part:
    kappa = Tensor("kappa", tex=r"\kappa")
    kernel = equation("softmax.fisher", "kernel")
    routing = equation("attention.routing-law")
    claim = Equation(
        total(lambda k: fisher_entry(i, j, k) * (H.b(i, k) + kappa() * H.M(i, k)), over=m),
        Diff(H.L(), H.s(i, j)),
        given=(SEES,),
        sample=DRAWN,
    )
    proof = (
        Chain(claim.lhs)
        .algebra(
            total(lambda k: fisher_entry(i, j, k) * H.b(i, k), over=m)
            + kappa() * total(lambda k: fisher_entry(i, j, k) * H.M(i, k), over=m),
            "F is linear",
        )
        .rewrite(
            total(lambda k: fisher_entry(i, j, k) * H.b(i, k), over=m),
            "constants on the visible keys lie in the kernel",
            kernel,
            lambda hole: total(lambda k: fisher_entry(i, j, k) * H.b(i, k), over=m) + kappa() * whole(kernel)(hole),
        )
        .definition(H.a(i, j) * (H.b(i, j) - H.bbar(i)), "diag(a) b minus a times the mean", H.bbar)
        .rewrite(claim.rhs, "the routing law", routing, whole(routing))
    )
    return Part("solutions", claim, proof, "b_i plus any constant on the visible keys solves F_i x = dL/ds_i.")


def _only_constants() -> Part:
    w = Tensor("w", (m,))
    null = Equation(
        total(lambda k: fisher_entry(i, j, k) * w(k), over=m),
        lift(0),
        (j,),
        says="w is the difference of two solutions, F_i w = 0",
        sample={w: lambda j: lift(2)},
    )
    sums = equation("softmax.jacobian", "normalisation")
    variance, steps = variance_form(lambda j: H.a(i, j), lambda j: w(j), m, sums, (i,))
    known = instance_of("lemma.variance-form", variance, steps)
    claim = Equation(
        Fraction(1, 2) * total(lambda j, k: H.a(i, j) * H.a(i, k) * (w(j) - w(k)) ** 2, over=(m, m)),
        lift(0),
        given=(SEES, null),
        sample=DRAWN,
    )
    proof = (
        Chain(claim.lhs)
        .rewrite(known.lhs, "a variance under the weights", known, whole(known))
        .algebra(
            total(lambda j: w(j) * total(lambda k: fisher_entry(i, j, k) * w(k), over=m), over=m),
            "which is the quadratic form of F",
        )
        .rewrite(lift(0), "F w = 0", null, lambda hole: total(lambda j: w(j) * hole(j), over=m))
    )
    return Part("only-constants", claim, proof, "A sum of nonnegative terms that is 0: w is constant on visible keys.")


def _representative() -> Part:
    """The solution of least norm takes the unweighted mean over visible keys away."""
    seen = total(lambda k: H.M(i, k), over=m)
    some = Equation(seen * inv(seen), lift(1), says="query i sees at least one key")
    mean = total(lambda k: H.M(i, k) * H.b(i, k), over=m) * inv(seen)
    claim = Equation(total(lambda k: H.M(i, k) * (H.b(i, k) - mean), over=m), lift(0), given=(some,), sample=DRAWN)
    proof = (
        Chain(claim.lhs)
        .algebra(
            total(lambda k: H.M(i, k) * H.b(i, k), over=m) * (1 - seen * inv(seen)),
            "the mean comes once for each visible key",
        )
        .rewrite(
            lift(0),
            "which cancels",
            some,
            lambda hole: total(lambda k: H.M(i, k) * H.b(i, k), over=m) * (1 - hole()),
        )
    )
    return Part("pseudo-inverse", claim, proof, "Orthogonal to the kernel: b minus its unweighted visible mean.")


def _bayes_rule() -> Part:
    """Stepping the scores by -eta b multiplies the weights by exp(-eta b) and normalises."""
    likelihood = lambda k: exp(-(eta() * H.b(i, k)))
    top = lambda k: H.M(i, k) * exp(H.s(i, k) - eta() * H.b(i, k))
    mass = total(lambda k: H.M(i, k) * exp(H.s(i, k)) * likelihood(k), over=m)
    claim = Equation(
        top(j) * inv(total(lambda k: top(k), over=m)),
        H.a(i, j) * likelihood(j) * inv(total(lambda k: H.a(i, k) * likelihood(k), over=m)),
        given=(SEES,),
        sample={H.s: None, H.b: None},
    )
    plain = H.M(i, j) * exp(H.s(i, j)) * likelihood(j) * inv(mass)
    proof = (
        Chain(claim.lhs)
        .algebra(plain, "exp of a sum is a product")
        .rewrite(plain * (H.Z(i) * inv(H.Z(i))), "the row sees a key", SEES, lambda hole: plain * hole())
        .definition(claim.rhs, "the old mass turns prior scores into prior weights", H.a)
    )
    return Part("bayes-rule", claim, proof, "The natural step is Bayes' rule with likelihood exp(-eta b_j).")


class Flow:
    """a_j(h) = M_j pi_j exp(-h b_j) / Z(h), at fixed compatibilities."""

    def __init__(self) -> None:
        self.M, self.pi, self.b = Tensor("M", (m,), "indicator"), Tensor("pi", (m,), "positive"), Tensor("b", (m,))
        self.mass = Tensor("Z", (), "nonnegative", lambda: total(lambda k: self.term(k), over=m))
        self.a = Tensor("a", (m,), "nonnegative", lambda j: self.term(j) * inv(self.mass()))
        self.mean = Tensor("bbar", body=lambda: total(lambda k: self.a(k) * self.b(k), over=m), tex=r"\bar b")
        self.sees = Equation(self.mass() * inv(self.mass()), lift(1), says="the query sees at least one key")

    def term(self, at: Index) -> Term:
        return self.M(at) * self.pi(at) * exp(-(h() * self.b(at)))


def _replicator() -> list[Part]:
    it = Flow()
    mass = total(lambda k: it.term(k), over=m)
    claim = Equation(Diff(it.a(j), h()), -(it.a(j) * (it.b(j) - it.mean())))
    slope = total(lambda k: it.term(k) * -it.b(k), over=m)
    proof = (
        Chain(claim.lhs)
        .definition(Diff(it.term(j) * inv(mass), h()), "write the weight out", it.a, it.mass)
        .differentiate(it.term(j) * -it.b(j) * inv(mass) - it.term(j) * inv(mass) ** 2 * slope, "quotient rule")
        .definition(claim.rhs, "weight times its distance from the mean", it.a, it.mass, it.mean)
    )
    flow = instance_of("dynamics.natural-routing", claim, proof)
    variance = total(lambda k: it.a(k) * it.b(k) ** 2, over=m) - it.mean() ** 2
    fall = Equation(Diff(it.mean(), h()), -variance)
    falls = (
        Chain(fall.lhs)
        .definition(Diff(total(lambda k: it.a(k) * it.b(k), over=m), h()), "the mean", it.mean)
        .differentiate(total(lambda k: Diff(it.a(k), h()) * it.b(k), over=m), "compatibilities are fixed")
        .rewrite(total(lambda k: -(it.a(k) * (it.b(k) - it.mean())) * it.b(k), over=m), "the flow", flow)
        .definition(fall.rhs, "second moment less squared mean", it.mean)
    )
    fall = instance_of("dynamics.natural-routing", fall, falls)
    sums = Equation(total(lambda k: it.a(k), over=m), lift(1), given=(it.sees,))
    summed = (
        Chain(sums.lhs)
        .definition(mass * inv(it.mass()), "one common denominator", it.a)
        .definition(it.mass() * inv(it.mass()), "which is the mass", it.mass)
        .rewrite(lift(1), "not zero", it.sees, lambda hole: hole())
    )
    one = instance_of("softmax.jacobian", sums, summed)
    pairs, steps = variance_form(lambda k: it.a(k), lambda k: it.b(k), m, one, ())
    known = instance_of("lemma.variance-form", pairs, steps)
    down = AtMost(Diff(it.mean(), h()), lift(0), given=(it.sees,))
    descends = (
        Chain(lift(0) - Diff(it.mean(), h()))
        .rewrite(variance, "minus the variance", fall, lambda hole: -whole(fall)(hole))
        .definition(known.lhs, "of the compatibilities under the weights", it.mean)
        .rewrite(known.rhs, "written over pairs: nonnegative", known, whole(known))
    )
    return [
        Part("replicator", flow, proof, "The exact flow at fixed b is the replicator equation."),
        Part("variance", fall, falls, "Along it the mean compatibility falls at the rate of its variance."),
        Part("descends", down, descends),
    ]


# -- frame and precision -------------------------------------------------------------------------------------------


@proves("dynamics.frame-precision")
def frame_precision() -> list[Part]:
    return [_vanishing(1), _vanishing(-1), _value_limit(), _values_vanish()]


def _vanishing(sign: int) -> Part:
    """|dL/ds_ij| <= a_max (1 - a_max) R_i: routing gradients vanish as a row becomes one-hot."""
    bound, R, proof = saturation_claim(sign, EVERY_ROW_SEES, every_row_normalised())
    bound = instance_of("attention.saturation-bound", bound, proof)  # type: ignore[assignment]
    top = Lookup("top", (n,), m)
    largest = AtMost(H.a(i, k), H.a(i, top(i)), (i, k), says="top(i) is a key of largest weight in row i", sample={})
    below = Tensor("below", (n, m), "nonnegative", lambda i, k: H.a(i, top(i)) - H.a(i, k), fact=largest)
    slack = Tensor(
        "slack'",
        (n, m),
        "nonnegative",
        lambda i, j: H.a(i, j) * (1 - H.a(i, j)) * R(i) - sign * Diff(H.L(), H.s(i, j)),
        fact=bound,
    )
    other = Tensor("others", (n, m, m), "indicator", lambda i, j, k: (1 - delta(j, k)) * (1 - delta(k, top(i))))
    claim = AtMost(
        sign * Diff(H.L(), H.s(i, j)),
        H.a(i, top(i)) * (1 - H.a(i, top(i))) * R(i),
        (i, j),
        (*bound.given, largest),
        sample=DRAWN,
    )
    sums = every_row_normalised()
    gap = (H.a(i, top(i)) - H.a(i, j)) * R(i)
    rest = lambda whole_weight: gap * (whole_weight - H.a(i, top(i)) - H.a(i, j))
    steps = (
        Chain(claim.rhs - claim.lhs)
        .algebra(
            rest(lift(1)) + (H.a(i, j) * (1 - H.a(i, j)) * R(i) - sign * Diff(H.L(), H.s(i, j))),
            "a(1-a) differs from its value at the top by a product",
        )
        .definition(rest(lift(1)) + slack(i, j), "the saturation bound", slack)
        .rewrite(
            rest(total(lambda k: H.a(i, k), over=m)) + slack(i, j),
            "the weights sum to one",
            sums,
            lambda hole: rest(hole(i)) + slack(i, j),
        )
        .algebra(
            gap * total(lambda k: (1 - delta(j, k)) * (1 - delta(k, top(i))) * H.a(i, k), over=m) + slack(i, j),
            "what neither j nor the top key has; at j = top the first factor is 0",
        )
        .definition(
            below(i, j) * R(i) * total(lambda k: other(i, j, k) * H.a(i, k), over=m) + slack(i, j),
            "each factor is at least 0",
            below,
            other,
            slack,
        )
    )
    name = "upper" if sign > 0 else "lower"
    return Part(
        name, claim, steps, "R_i may be the range of b_i; as the largest weight tends to 1 the bound tends to 0."
    )


def _value_limit() -> Part:
    law = equation("attention.value-law")
    others = total(lambda l: (1 - delta(l, i)) * H.a(l, j) * H.u(l, c), over=n)
    claim = Equation(Diff(H.L(), H.v(j, c)), H.u(i, c) + others - (1 - H.a(i, j)) * H.u(i, c), sample={H.a: None})
    proof = (
        Chain(claim.lhs)
        .rewrite(total(lambda l: H.a(l, j) * H.u(l, c), over=n), "the value law", law)
        .algebra(claim.rhs, "take query i out of the sum")
    )
    says = "As a_ij tends to 1 the last term tends to 0: the value gradient tends to u_i plus what other queries send."
    return Part("value-limit", claim, proof, says)


def _values_vanish() -> Part:
    one = Index("j", m)
    component = Index("c", d_v)
    sent = total(lambda l: H.a(l, one) * H.u(l, component), over=n)
    claim = Witness(
        sent,
        lift(0),
        sizes={n: 2, m: 2, d_v: 1},
        values={H.a: ((1, 0), (1, 0)), H.u: ((1,), (-1,))},
        at={one: 0, component: 0},
    )
    return Part(
        "values-vanish", claim, Chain(sent), "Two equal one-hot rows with opposite pulls: the value gradient is 0."
    )
