"""The lemmas that carry the inequalities. Everything that is not an equation rests on these, by name.

log t <= t - 1        sum_j p_j log(p_j / q_j) >= 0
"""

from __future__ import annotations

from collections.abc import Callable

from derivations.laws import Part, equation, proves
from derivations.notation import m
from derivations.proof import AtMost, Chain, Equation, Minimum
from derivations.terms import Index, Num, Size, Tensor, Term, lift, log, total

t = Tensor("t", kind="positive")


@proves("lemma.log-bound")
def log_bound() -> list[Part]:
    claim = Minimum(t() - 1 - log(t()), lift(0), at=t)
    says = "For t > 0, with equality only at t = 1: the derivative 1 - 1/t has the sign of t - 1."
    return [Part("bound", claim, Chain(claim.lhs), says)]


def excess_over_log(name: str, sizes: tuple[Size, ...], ratio: Callable[..., Term]) -> Tensor:
    """phi(ratio) = ratio - 1 - log ratio, nonnegative by the bound on the logarithm."""

    def body(*at: Index) -> Term:
        return ratio(*at) - 1 - log(ratio(*at))

    return Tensor(name, sizes, "nonnegative", body, fact=(equation("lemma.log-bound"), ratio), tex=r"\varphi")


class Divergence:
    """KL(p || q) on a finite set, for each position of ``around``, and the proof that it is nonnegative.

    p is positive exactly on the support S. q is positive there (else the divergence is infinite and nothing is to be
    shown) and may be anything nonnegative outside, written q'.
    """

    def __init__(self, over: Size, around: tuple[Index, ...] = (), p: str = "p", q: str = "q"):
        self.over, self.around = over, around
        sizes = (*(i.size for i in around), over)
        raw_p, raw_q = Tensor("w_p", sizes, "positive"), Tensor("w_q", sizes, "positive")
        raw_o = Tensor("w_o", sizes, "nonnegative")
        self.S = Tensor("S", sizes, "indicator")
        self.outside = Tensor("S'", sizes, "indicator", lambda *at: 1 - self.S(*at), tex=r"\bar S")
        self.p, self.q = Tensor(p, sizes, "positive"), Tensor(q, sizes, "positive")
        self.rest = Tensor(f"{q}'", sizes, "nonnegative")

        def mass_p(*at: Index) -> Term:
            return total(lambda y: self.S(*at, y) * raw_p(*at, y), over=over)

        def mass_q(*at: Index) -> Term:
            return total(lambda y: self.S(*at, y) * raw_q(*at, y) + (1 - self.S(*at, y)) * raw_o(*at, y), over=over)

        x = around
        self.p_sums = Equation(
            total(lambda y: self.S(*x, y) * self.p(*x, y), over=over),
            lift(1),
            around,
            says=f"{p} is a distribution with support S",
            sample={self.p: lambda *at: raw_p(*at) / mass_p(*at[:-1])},
        )
        self.q_sums = Equation(
            total(lambda y: self.S(*x, y) * self.q(*x, y) + self.outside(*x, y) * self.rest(*x, y), over=over),
            lift(1),
            around,
            says=f"{q} is a distribution, positive on S ({q}' are its values outside S)",
            sample={
                self.q: lambda *at: raw_q(*at) / mass_q(*at[:-1]),
                self.rest: lambda *at: raw_o(*at) / mass_q(*at[:-1]),
            },
        )

        self.value = total(
            lambda y: self.S(*x, y) * self.p(*x, y) * (log(self.p(*x, y)) - log(self.q(*x, y))), over=over
        )
        phi = excess_over_log("phi", sizes, lambda *at: self.q(*at) / self.p(*at))
        self.excess = Tensor("Delta", sizes, "nonnegative", lambda *at: self.S(*at) * phi(*at), tex=r"(S\varphi)")
        self.leak = Tensor(
            "leak", sizes, "nonnegative", lambda *at: self.outside(*at) * self.rest(*at), tex=rf"(\bar S {q}')"
        )
        self.claim = AtMost(lift(0), self.value, around, (self.p_sums, self.q_sums), tight=(self.excess, self.leak))
        self.phi = phi

    def proof(self) -> Chain:
        x, S, p, q, phi = self.around, self.S, self.p, self.q, self.phi
        inside = total(lambda y: S(*x, y) * q(*x, y), over=self.over)
        gain = total(lambda y: S(*x, y) * p(*x, y) * phi(*x, y), over=self.over)
        mass = total(lambda y: S(*x, y) * p(*x, y), over=self.over)
        return (
            Chain(self.value)
            .definition(gain - inside + mass, "write log(q/p) as q/p - 1 minus its excess", phi)
            .rewrite(gain - inside + 1, "p sums to one", self.p_sums, lambda h: gain - inside + h(*x))
            .rewrite(
                gain + total(lambda y: self.outside(*x, y) * self.rest(*x, y), over=self.over),
                "q sums to one, so what it has inside S is one less what it leaks",
                self.q_sums,
                lambda h: gain - inside + h(*x),
            )
            .definition(
                total(lambda y: p(*x, y) * self.excess(*x, y), over=self.over)
                + total(lambda y: self.leak(*x, y), over=self.over),
                "two sums of nonnegative terms: where they vanish, q = p on S and q is 0 outside",
                self.excess,
                self.leak,
            )
        )


@proves("lemma.gibbs")
def gibbs() -> list[Part]:
    it = Divergence(m)
    return [Part("gibbs", it.claim, it.proof(), "Equality exactly where q = p.")]


__all__ = ["Divergence", "Num", "excess_over_log"]
