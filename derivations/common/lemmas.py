"""The lemmas that carry the inequalities. Everything that is not an equation rests on these, by name.

log t <= t - 1        sum_j p_j log(p_j / q_j) >= 0
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, every, is_proved
from bayesgrad.symbolic.terms import Index, Size, Tensor, Term, exp, inv, lift, log, total
from derivations.laws import equation


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
        self.claim = AtMost(
            lift(0),
            self.value,
            around,
            (self.p_sums, self.q_sums),
            tight=(every(self.excess, *around, None), every(self.leak, *around, None)),
        )
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


def full_divergence(
    p: Tensor, q: Tensor, over: Size, around: tuple[Index, ...], p_sums: Equation, q_sums: Equation
) -> tuple[AtMost, Chain]:
    """Gibbs' inequality for two distributions that are positive everywhere, whose sums are known to be one."""
    x = around
    phi = excess_over_log("phi", (*(i.size for i in around), over), lambda *at: q(*at) / p(*at))
    value = total(lambda y: p(*x, y) * (log(p(*x, y)) - log(q(*x, y))), over=over)
    gain = total(lambda y: p(*x, y) * phi(*x, y), over=over)
    mass_q = total(lambda y: q(*x, y), over=over)
    given = tuple(dict.fromkeys((*_needs(p_sums), *_needs(q_sums))))
    claim = AtMost(lift(0), value, around, given, tight=(every(phi, *around, None),))
    proof = (
        Chain(value)
        .definition(gain - mass_q + total(lambda y: p(*x, y), over=over), "log(q/p) is q/p - 1 minus its excess", phi)
        .rewrite(gain - mass_q + 1, "p sums to one", p_sums, lambda h: gain - mass_q + h(*x))
        .rewrite(gain, "q sums to one", q_sums, lambda h: gain - h(*x) + 1)
    )
    return claim, proof


def _needs(equation: Equation) -> tuple[Equation, ...]:
    """What must be given for an equation to be used: itself, where it is a hypothesis."""
    return equation.given if is_proved(equation) else (equation,)


def variance_form(
    a: Callable[[Index], Term], h: Callable[[Index], Term], over: Size, sums: Equation, at: tuple[Index, ...]
):
    """sum a h^2 - (sum a h)^2 as a double sum over pairs, where the weights a sum to one."""
    square = total(lambda j: a(j) * h(j) ** 2, over=over)
    mean = total(lambda j: a(j) * h(j), over=over)
    claim = Equation(
        square - mean**2,
        Fraction(1, 2) * total(lambda j, k: a(j) * a(k) * (h(j) - h(k)) ** 2, over=(over, over)),
        given=_needs(sums),
    )
    proof = (
        Chain(claim.lhs)
        .rewrite(
            total(lambda k: a(k), over=over) * square - mean**2,
            "the weights sum to one",
            sums,
            lambda hole: hole(*at) * square - mean**2,
        )
        .algebra(claim.rhs, "a square of a difference summed over pairs; each pair comes twice")
    )
    return claim, proof


class Mixture:
    """l = -log sum_j pi_j exp(-c_j) at two points, with its exact responsibilities."""

    size = Size("m", nonempty=True)

    def __init__(self) -> None:
        size = self.size
        pi = self.prior = Tensor("pi", (size,), "positive")
        self.cost = [Tensor("c", (size,)), Tensor("c'", (size,))]
        self.mass, self.loss, self.r = [], [], []
        for tick, cost in zip(("", "'"), self.cost, strict=True):
            mass = Tensor(
                f"Z{tick}", (), "positive", lambda cost=cost: total(lambda j: pi(j) * exp(-cost(j)), over=size)
            )
            self.mass.append(mass)
            self.loss.append(Tensor(f"l{tick}", (), body=lambda mass=mass: -log(mass())))
            self.r.append(
                Tensor(
                    f"r{tick}",
                    (size,),
                    "positive",
                    lambda j, cost=cost, mass=mass: pi(j) * exp(-cost(j)) * inv(mass()),
                )
            )

    def over(self, body: Callable[[Index], Term]) -> Term:
        return total(lambda j: body(j), over=self.size)

    def sums(self, which: int) -> tuple[Equation, Chain]:
        """The responsibilities sum to one."""
        r, Z, cost = self.r[which], self.mass[which], self.cost[which]
        claim = Equation(self.over(lambda j: r(j)), lift(1))
        proof = (
            Chain(claim.lhs)
            .definition(self.over(lambda j: self.prior(j) * exp(-cost(j))) * inv(Z()), "one common denominator", r)
            .definition(Z() * inv(Z()), "which is the mass", Z)
            .algebra(claim.rhs, "and the mass is positive")
        )
        return claim, proof
