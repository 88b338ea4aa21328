"""Family B, first half: what the softmax is as a function of its scores.

a_ij = M_ij exp(s_ij) / Z_i        Z_i = sum_k M_ik exp(s_ik)        any set of visible pairs M
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, every
from bayesgrad.symbolic.terms import Diff, Index, Tensor, Term, delta, exp, inv, lift, total
from derivations.laws import Part, equation, instance_of, proves
from derivations.lemmas import variance_form
from derivations.notation import M, Z, Zc, a, i, j, k, l, m, n, p, s, z


@dataclass(frozen=True)
class Softmax:
    """A softmax over the second axis of ``scores``: the weights of a head, or the probabilities of a read-out."""

    weights: Tensor
    scores: Tensor
    mass: Tensor
    visible: Tensor | None = None

    def term(self, row: Index, at: Index) -> Term:
        """One visible exponential."""
        one = exp(self.scores(row, at))
        return one if self.visible is None else self.visible(row, at) * one

    def total(self, row: Index) -> Term:
        """The mass of a row, written out."""
        return total(lambda r: self.term(row, r), over=self.scores.sizes[1])

    def jacobian(self) -> tuple[Equation, Chain]:
        rows, columns = self.scores.sizes
        i, l, j, k = Index("i", rows), Index("l", rows), Index("j", columns), Index("k", columns)
        weight, score = self.weights, self.scores(l, k)
        quotient = self.term(i, j) * inv(self.total(i))
        own = delta(i, l) * delta(j, k) * quotient
        shared = self.term(i, j) * inv(self.total(i)) ** 2 * delta(i, l) * self.term(i, k)
        claim = Equation(
            Diff(weight(i, j), score),
            delta(i, l) * weight(i, j) * (delta(j, k) - weight(i, k)),
            sample={self.scores: None},
        )
        proof = (
            Chain(claim.lhs)
            .definition(Diff(quotient, score), "write the weight out as a quotient", weight, self.mass)
            .differentiate(own - shared, "product rule; the mass is positive, or zero in a row that sees nothing")
            .definition(
                delta(i, l) * delta(j, k) * weight(i, j) - delta(i, l) * weight(i, j) * weight(i, k),
                "each quotient is a weight again",
                weight,
                self.mass,
            )
            .algebra(claim.rhs, "take out the common factor")
        )
        return claim, proof


HEAD = Softmax(a, s, Z, M)
READ_OUT = Softmax(p, z, Zc)


SEES = Equation(Z(i) * inv(Z(i)), lift(1), says="query i sees at least one key")


def normalised() -> tuple[Equation, Chain]:
    """The weights of a row that sees a key sum to one."""
    claim = Equation(total(lambda j: a(i, j), over=m), lift(1), given=(SEES,), sample={s: None})
    proof = (
        Chain(claim.lhs)
        .definition(total(lambda j: M(i, j) * exp(s(i, j)), over=m) * inv(Z(i)), "one common denominator", a)
        .definition(Z(i) * inv(Z(i)), "which is the mass of the row", Z)
        .rewrite(claim.rhs, "and that is not zero, since the row sees a key", SEES, lambda h: h())
    )
    return claim, proof


@proves("softmax.shift-invariance")
def shift_invariance() -> list[Part]:
    shift = Tensor("c", (n,))

    def moved(row: Index, at: Index) -> Term:
        return M(row, at) * exp(s(row, at) + shift(row))

    claim = Equation(moved(i, j) * inv(total(lambda k: moved(i, k), over=m)), a(i, j), sample={s: None})
    common = exp(shift(i))
    proof = (
        Chain(claim.lhs)
        .algebra(
            M(i, j) * exp(s(i, j)) * common * inv(total(lambda k: M(i, k) * exp(s(i, k)), over=m) * common),
            "exp turns the shift into a common factor of numerator and mass",
        )
        .algebra(M(i, j) * exp(s(i, j)) * inv(total(lambda k: M(i, k) * exp(s(i, k)), over=m)), "which cancels")
        .definition(claim.rhs, "what is left is the weight", a, Z)
    )
    return [Part("shift", claim, proof)]


@proves("softmax.jacobian")
def jacobian() -> list[Part]:
    claim, proof = HEAD.jacobian()
    return [
        Part("jacobian", claim, proof),
        Part("normalisation", *normalised(), "Weights of a row that sees a key are a distribution."),
    ]


h = Tensor("h", (m,))


def fisher_entry(row: Index, left: Index, right: Index) -> Term:
    """F_i = diag(a_i) - a_i a_i^T, entry by entry."""
    return delta(left, right) * a(row, left) - a(row, left) * a(row, right)


@proves("softmax.fisher")
def fisher() -> list[Part]:
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


__all__ = ["HEAD", "READ_OUT", "SEES", "Softmax", "k", "l"]
