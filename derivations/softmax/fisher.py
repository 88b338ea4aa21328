"""The Jacobian is the Fisher information."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, every
from bayesgrad.symbolic.terms import Diff, Index, Tensor, delta, exp, inv, lift, total
from derivations.common.lemmas import variance_form
from derivations.common.notation import M, Z, a, i, j, k, m, n, s
from derivations.common.softmax import SEES, fisher_entry, h
from derivations.laws import equation, instance_of
from derivations.result import BOUND, OURS, Part, Result, WrongRow

RESULT = Result(
    "softmax.fisher",
    title="The Jacobian is the Fisher information",
    means="""The Jacobian of a row is the covariance matrix of its one-hot draw: an ellipsoid on the simplex that
    is flat along the constant direction and shrinks as the row becomes sure.""",
    fails="""It is never invertible: the constants on the visible keys are its kernel, and masked coordinates
    belong to it too.""",
    source=OURS,
    routes=BOUND,
    implements=("bayesgrad.fisher",),
    headline=("semidefinite", "information", "kernel"),
)


@RESULT.proof
def proof() -> list[Part]:
    sums = equation("softmax.jacobian", "normalisation")
    quadratic = total(lambda j, k: h(j) * fisher_entry(i, j, k) * h(k), over=(m, m))
    variance, steps = variance_form(lambda j: a(i, j), lambda j: h(j), m, sums, (i,))
    known = instance_of("lemma.variance-form", variance, steps)
    as_variance = Equation(quadratic, variance.lhs, sample={s: None})
    spread = Tensor(
        "Delta", (n, m, m), "nonnegative", lambda i, j, k: a(i, j) * a(i, k) * (h(j) - h(k)) ** 2, tex=r"\Delta"
    )
    semidefinite = AtMost(lift(0), quadratic, given=(SEES,), tight=(every(spread, i, None, None),), sample={s: None})
    below = (
        Chain(quadratic)
        .algebra(variance.lhs, "the quadratic form is a variance under the weights")
        .rewrite(variance.rhs, "written over pairs", known, lambda hole: hole(i) if len(hole.sizes) else hole())
        .definition(
            Fraction(1, 2) * total(lambda j, k: spread(i, j, k), over=(m, m)),
            "a sum of nonnegative terms, 0 only where h is equal on every two visible keys",
            spread,
        )
    )
    return [
        Part("variance", as_variance, Chain(quadratic).algebra(as_variance.rhs, "contract the delta")),
        Part("semidefinite", semidefinite, below, "Equality exactly where a_ij a_ik (h_j - h_k)^2 = 0 for all j, k."),
        _information(sums),
        _constants(sums),
        Part("jacobian", *_is_jacobian(), "F_i is the Jacobian of row i."),
    ]


def _is_jacobian() -> tuple[Equation, Chain]:
    claim = Equation(Diff(a(i, j), s(i, k)), fisher_entry(i, j, k), sample={s: None})
    proof = (
        Chain(claim.lhs)
        .rewrite(
            a(i, j) * (delta(j, k) - a(i, k)), "the Jacobian in the row's own scores", equation("softmax.jacobian")
        )
        .algebra(claim.rhs, "take the weight inside")
    )
    return claim, proof


def _constants(sums: Equation) -> Part:
    claim = Equation(total(lambda k: fisher_entry(i, j, k) * M(i, k), over=m), lift(0), given=(SEES,), sample={s: None})
    proof = (
        Chain(claim.lhs)
        .definition(a(i, j) * (1 - total(lambda k: a(i, k), over=m)), "masked keys carry no weight anyway", a)
        .rewrite(lift(0), "the weights sum to one", sums, lambda hole: a(i, j) * (1 - hole(i)))
    )
    return Part("kernel", claim, proof, "Constants on the visible keys lie in the kernel.")


def _information(sums: Equation) -> Part:
    """E[d log a / ds_k  d log a / ds_l] = F_kl, with d log a = (da) / a on the visible keys."""
    r, t = Index("k", m), Index("l", m)
    claim = Equation(
        total(lambda j: inv(a(i, j)) * Diff(a(i, j), s(i, r)) * Diff(a(i, j), s(i, t)), over=m),
        fisher_entry(i, r, t),
        given=(SEES,),
        sample={s: None},
    )
    jac = equation("softmax.jacobian")
    pair = lambda j: (delta(j, r) - a(i, r)) * (delta(j, t) - a(i, t))
    proof = (
        Chain(claim.lhs)
        .rewrite(total(lambda j: inv(a(i, j)) * a(i, j) ** 2 * pair(j), over=m), "the Jacobian, twice", jac)
        .definition(
            total(lambda j: M(i, j) * exp(s(i, j)) * inv(Z(i)) * Z(i) * inv(Z(i)) * pair(j), over=m),
            "an exponential cancels, and the mass of the row is left",
            a,
        )
        .rewrite(
            total(lambda j: M(i, j) * exp(s(i, j)) * inv(Z(i)) * pair(j), over=m),
            "which is not zero",
            SEES,
            lambda hole: total(lambda j: M(i, j) * exp(s(i, j)) * inv(Z(i)) * hole() * pair(j), over=m),
        )
        .definition(total(lambda j: a(i, j) * pair(j), over=m), "so one weight is left", a)
        .algebra(fisher_entry(i, r, t) + a(i, r) * a(i, t) * (total(lambda j: a(i, j), over=m) - 1), "multiply out")
        .rewrite(
            claim.rhs,
            "the weights sum to one",
            sums,
            lambda hole: fisher_entry(i, r, t) + a(i, r) * a(i, t) * (hole(i) - 1),
        )
    )
    return Part("information", claim, proof, "Fisher information of the categorical in its scores.")


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    plus = delta(j, k) * a(i, j) + a(i, j) * a(i, k)
    yield "jacobian", "plus", "sign flipped", plus, "the outer product is taken away"
    yield "jacobian", "diagonal", "diagonal only", delta(j, k) * a(i, j), "weights share one total"
    yield (
        "jacobian",
        "bernoulli",
        "diagonal of a(1-a)",
        delta(j, k) * a(i, j) * (1 - a(i, j)),
        "off the diagonal as well",
    )
    yield "jacobian", "unweighted", "weights dropped", delta(j, k) - a(i, k), "each entry carries a_ij"


@RESULT.code("jacobian", "bayesgrad.fisher")
def _(shipped, t):
    return shipped.fisher(t.a)


@RESULT.code("kernel", "bayesgrad.fisher")
def _(shipped, t):
    seen = t.xp.expand_dims(t.M, axis=-1)
    return t.xp.matrix_transpose(t.xp.matmul(shipped.fisher(t.a), seen)[..., 0])
