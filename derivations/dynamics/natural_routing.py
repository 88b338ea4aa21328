"""Family C, natural routing: the score gradient without its Fisher preconditioner is Bayes' rule.

F_i (b_i + constant) = dL/ds_i        a_j(t) = a_j(0) exp(-t b_j) / Z(t)        d(bbar)/dt = -Var_a(b)
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from bayesgrad.symbolic.proof import AtMost, Chain, Equation
from bayesgrad.symbolic.terms import Count, Diff, Index, Tensor, Term, exp, inv, lift, total
from derivations.common.calls_of_steps import SEEING, one_row
from derivations.common.lemmas import variance_form
from derivations.common.one_step import DRAWN, H, eta, h, i, j, m
from derivations.common.parts import part_of, tensor_of
from derivations.common.softmax import SEES, fisher_entry
from derivations.laws import equation, instance_of, whole
from derivations.result import OURS, Part, Result, WrongRow, routes

RESULT = Result(
    "dynamics.natural-routing",
    title="The natural gradient of routing is Bayes' rule",
    means="""In the geometry of the simplex the steepest direction is the compatibility itself, and its flow
    multiplies each weight by a likelihood: Bayes' rule.""",
    fails="""The plain gradient is this direction squeezed by the Fisher matrix, so it starves keys of small
    weight. Exactness needs the compatibilities held fixed.""",
    source=OURS,
    routes=routes(proof="required", exact="required", code="required", check="required", wrong_laws="required"),
    implements=("bayesgrad.dynamics.natural_direction", "bayesgrad.dynamics.replicator_step"),
    headline=("solutions", "bayes-rule", "replicator", "variance"),
)


@RESULT.proof
def proof() -> list[Part]:
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


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    part = part_of("dynamics.natural-routing", "replicator")
    a, b, mean = (tensor_of(part, x) for x in ("a", "b", "bbar"))
    yield "replicator", "sign", "sign flipped", a(j) * (b(j) - mean()), "costs drive weights down"
    yield "replicator", "no-mean", "mean dropped", -(a(j) * b(j)), "weights keep their total"
    yield "replicator", "plain", "weight squared", -(a(j) ** 2 * (b(j) - mean())), "that is the plain score gradient"
    uniform = inv(Count(m)) * total(lambda k: b(k), over=m)
    yield "replicator", "uniform-mean", "uniform mean", -(a(j) * (b(j) - uniform)), "the mean is under the weights"


@RESULT.code("solutions", "bayesgrad.dynamics.natural_direction", "bayesgrad.fisher")
def _(shipped, t):
    b = shipped.gradients.compatibility(t.u, t.v)
    natural = t.xp.expand_dims(shipped.dynamics.natural_direction(b, mask=t.mask()), axis=-1)
    return t.xp.matrix_transpose(t.xp.matmul(shipped.fisher(t.a), natural)[..., 0])


@RESULT.code("pseudo-inverse", "bayesgrad.dynamics.natural_direction")
def _(shipped, t):
    natural = shipped.dynamics.natural_direction(shipped.gradients.compatibility(t.u, t.v), mask=t.mask())
    return t.xp.sum(natural, axis=-1)


@RESULT.code("bayes-rule", "bayesgrad.dynamics.replicator_step", patterns=SEEING)
def _(shipped, t):
    return shipped.dynamics.replicator_step(t.a, t.b, eta=t.eta)


@RESULT.code("replicator", "bayesgrad.dynamics.replicator_velocity")
def _(shipped, t):
    return shipped.dynamics.replicator_velocity(one_row(t.a), one_row(t.b)).weights[0]


@RESULT.code("variance", "bayesgrad.dynamics.replicator_velocity")
def _(shipped, t):
    return shipped.dynamics.replicator_velocity(one_row(t.a), one_row(t.b)).mean_compatibility[0]
