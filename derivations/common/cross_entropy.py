"""The gradient of a cross-entropy in its logits, for any targets.

    L = sum_i sum_c t_ic (-log p_ic)        p_i = softmax(z_i)        tau_i = sum_c t_ic

Hard labels, class weights and label smoothing are choices of t, not other losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Index, Tensor, Term, delta, inv, log, tensors_of, total
from derivations.common.notation import C, n
from derivations.common.softmax import READ_OUT, Softmax
from derivations.laws import instance_of
from derivations.result import Part

i, d = Index("i", n), Index("c", C)

SOFT = Tensor("t", (n, C))


@dataclass(frozen=True)
class Loss:
    """The cross-entropy of one kind of target."""

    target: Tensor
    read_out: Softmax = READ_OUT

    @cached_property
    def value(self) -> Tensor:
        t, p = self.target, self.read_out.weights
        return Tensor("L", body=lambda: total(lambda i, c: t(i, c) * -log(p(i, c)), over=(n, C)))

    def gradient(self) -> tuple[Equation, Chain]:
        """dL/dz_ic = tau_i p_ic - t_ic, through the probabilities."""
        t, loss = self.target, self.value
        p, z = self.read_out.weights, self.read_out.scores
        tau = Tensor("tau", (n,), body=lambda i: total(lambda c: t(i, c), over=C), tex=r"\tau")
        claim = Equation(Diff(loss(), z(i, d)), tau(i) * p(i, d) - t(i, d), sample={z: None})
        jacobian = instance_of("softmax.jacobian", *self.read_out.jacobian())
        written = total(lambda i, c: t(i, c) * -log(p(i, c)), over=(n, C))

        def onto(slope: Term, r: Index, f: Index) -> Term:
            return slope * Diff(p(r, f), z(i, d))

        proof = (
            Chain(claim.lhs)
            .through(
                total(lambda r, f: onto(Diff(loss(), p(r, f)), r, f), over=(n, C)),
                "logits act on the loss through the probabilities alone",
                p,
            )
            .definition(
                total(lambda r, f: onto(Diff(written, p(r, f)), r, f), over=(n, C)), "write the cross-entropy out", loss
            )
            .differentiate(
                total(
                    lambda r, f: onto(
                        total(lambda i, c: t(i, c) * -(inv(p(i, c)) * delta(i, r) * delta(c, f)), over=(n, C)), r, f
                    ),
                    over=(n, C),
                ),
                "the derivative of -log p is -1/p",
            )
            .algebra(
                total(lambda r, f: onto(-(t(r, f) * inv(p(r, f))), r, f), over=(n, C)), "each term has its own slope"
            )
            .rewrite(
                total(
                    lambda r, f: -(t(r, f) * inv(p(r, f))) * (delta(r, i) * p(r, f) * (delta(f, d) - p(r, d))),
                    over=(n, C),
                ),
                "the softmax Jacobian",
                jacobian,
            )
            .algebra(p(i, d) * total(lambda f: t(i, f), over=C) - t(i, d), "p cancels; only row i is left")
            .definition(claim.rhs, "the total target of the row", tau)
        )
        return claim, proof

    def special(self, name: str, residual: Term, says: str) -> Part:
        """The same gradient with the total target worked out."""
        general = instance_of("loss.logit-gradient", *self.gradient())
        claim = Equation(general.lhs, residual, sample=general.sample)
        tau = tau_of(general)
        proof = (
            Chain(claim.lhs)
            .rewrite(general.rhs, "the gradient for any target", general)
            .definition(claim.rhs, "put the target in", tau, self.target)
        )
        return Part(name, claim, proof, says)


def tau_of(gradient: Equation) -> Tensor:
    """The tensor of total targets in a logit gradient."""
    return next(t for t in tensors_of(gradient.rhs) if t.name == "tau")
