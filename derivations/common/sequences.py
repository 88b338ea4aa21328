"""Family A over time: the chain rule, filters and noisy chains.

    sum_t -log p(y_t|y_<t) = -log p(y_1..y_T)        alpha_{t+1}(s') = E(s', o_{t+1}) sum_s alpha_t(s) T(s, s')

Statements about every time go by the induction rule: tensors without a prime belong to time t, primed ones to t + 1,
those with a 1 to the first time.
"""

from __future__ import annotations

from bayesgrad.symbolic.terms import Index, Lookup, Size, Tensor, Term, total

States, Symbols, History = Size("S"), Size("O", nonempty=True), Size("W")

s, r, o = Index("s", States), Index("r", States), Index("o", Symbols)


class Chainlike:
    """A hidden Markov chain at time t and t + 1: all paths, their marginal, and the unnormalised filter."""

    def __init__(self) -> None:
        self.T, self.E = Tensor("T", (States, States), "nonnegative"), Tensor("E", (States, Symbols), "nonnegative")
        self.pi = Tensor("pi", (States,), "nonnegative", tex=r"\pi")
        self.seen, self.next, self.first = (Lookup(x, (), Symbols)() for x in ("o_t", "o'", "o_1"))
        self.J = Tensor("J", (History, States), "nonnegative")
        self.mu = {t: Tensor(f"mu{t}", (States,), "nonnegative", tex=rf"\mu{t}") for t in ("", "'", "_1")}
        self.alpha = {t: Tensor(f"alpha{t}", (States,), "nonnegative", tex=rf"\alpha{t}") for t in ("", "'", "_1")}

    def step(self, filtered: Tensor, at: Index) -> Term:
        """E(s', o_{t+1}) sum_s alpha(s) T(s, s')."""
        return self.E(at, self.next) * total(lambda s: filtered(s) * self.T(s, at), over=States)


def _mass(alpha: Tensor) -> Term:
    return total(lambda s: alpha(s), over=States)
