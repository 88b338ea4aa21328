"""Family B, the outer layers: read-out, projections and inputs.

z_i = g_i W_O + c_O     r_i = dL/dz_i = tau_i p_i - t_i     q_i = x_i W_Q + c_Q, k_j and v_j likewise from x'
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Entry, Index, Tensor, Term, exp, inv, rename, total
from derivations.common.any_head import Proved
from derivations.common.cross_entropy import SOFT, Loss, tau_of
from derivations.common.notation import HEAD, C, d_k, d_v, d_x, n
from derivations.common.softmax import Softmax
from derivations.free_axes import axes
from derivations.laws import instance_of

f, e, c = Index("f", d_x), Index("e", d_k), Index("c", d_v)

i = HEAD.i

y = Index("y", C)


class ReadOut:
    """A linear read-out with cross-entropy: logits z = g W_O + c_O, any soft targets t."""

    def __init__(self) -> None:
        self.g, self.W, self.c = (
            Tensor("g", (n, d_v)),
            Tensor("W_O", (d_v, C), tex="W^O"),
            Tensor("c_O", (C,), tex="c^O"),
        )
        self.t = SOFT
        self.z = Tensor(
            "z", (n, C), body=lambda i, y: total(lambda c: self.g(i, c) * self.W(c, y), over=d_v) + self.c(y)
        )
        self.mass = Tensor("Z'", (n,), "positive", lambda i: total(lambda d: exp(self.z(i, d)), over=C))
        self.p = Tensor("p", (n, C), "positive", lambda i, d: exp(self.z(i, d)) * inv(self.mass(i)))
        self.loss = Loss(self.t, Softmax(self.p, self.z, self.mass))
        claim, proof = self.loss.gradient()
        self.claim, self.proof = claim, proof
        self.L = self.loss.value
        self.tau = tau_of(claim)
        self.r = Tensor("r", (n, C), body=lambda i, y: self.tau(i) * self.p(i, y) - self.t(i, y))

    def by(self, variable: Entry, slope: Callable[[Index, Index], Term], right: Term, why: str) -> Proved:
        """dL/dX for anything that acts through the logits; ``slope(i, y)`` is dz_iy/dX."""
        claim = Equation(Diff(self.L(), variable), right)

        def onto(at: Callable[[Index, Index], Term]) -> Term:
            return total(lambda r, d: Diff(self.L(), self.z(r, d)) * at(r, d), over=(n, C))

        written = lambda r, d: total(lambda k: self.g(r, k) * self.W(k, d), over=d_v) + self.c(d)
        proof = (
            Chain(claim.lhs)
            .through(onto(lambda r, d: Diff(self.z(r, d), variable)), "it acts through the logits alone", self.z)
            .definition(onto(lambda r, d: Diff(written(r, d), variable)), "the read-out is linear", self.z)
            .differentiate(onto(slope), "so its slope is what it is multiplied by", variable.tensor)
            .rewrite(
                total(lambda r, d: (self.tau(r) * self.p(r, d) - self.t(r, d)) * slope(r, d), over=(n, C)),
                "the logit gradient",
                instance_of("loss.logit-gradient", self.claim, self.proof),
            )
            .definition(right, why, self.r)
        )
        return claim, proof


@cache
def the_read_out() -> ReadOut:
    """The one read-out of the laws; it proves its logit gradient, so it is made when a proof first asks for it."""
    return ReadOut()


def _at(law: Equation, row: Index, component: Index) -> Term:
    """The right side of a law at other free indices."""
    own = axes(law.lhs)
    return rename(law.rhs, dict(zip(own, (row, component), strict=True)))
