"""Family B, first half: what the softmax is as a function of its scores.

a_ij = M_ij exp(s_ij) / Z_i        Z_i = sum_k M_ik exp(s_ik)        any set of visible pairs M
"""

from __future__ import annotations

from dataclasses import dataclass

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Index, Tensor, Term, delta, exp, inv, lift, total
from derivations.common.notation import Z, Zc, a, i, m, p, z


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


READ_OUT = Softmax(p, z, Zc)

SEES = Equation(Z(i) * inv(Z(i)), lift(1), says="query i sees at least one key")

h = Tensor("h", (m,))


def fisher_entry(row: Index, left: Index, right: Index) -> Term:
    """F_i = diag(a_i) - a_i a_i^T, entry by entry."""
    return delta(left, right) * a(row, left) - a(row, left) * a(row, right)
