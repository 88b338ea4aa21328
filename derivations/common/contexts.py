"""Family A: cross-entropy and the posterior predictive, on finite sets.

    R(q) = E[-log q(y|x)] = H(Y|X) + sum_x w_x KL(p(.|x) || q(.|x))

A context x has weight w_x > 0: contexts of probability zero carry no risk and are left out. On the support S of p a
model with q = 0 has infinite risk, so that only q > 0 there is to be compared.
"""

from __future__ import annotations

from bayesgrad.symbolic.terms import Index, Size, Tensor, Term, log, rename, total
from derivations.common.lemmas import Divergence

X = Size("X")

Y = Size("Y")

x = Index("x", X)

y = Index("y", Y)

D = Divergence(Y, (x,))

w = Tensor("w", (X,), "positive")


def divergence_at(at: Index) -> Term:
    return rename(D.value, {x: at})


def expected(of: Tensor) -> Term:
    """E[-log of], over the contexts and the outcomes that can occur."""
    return total(lambda x, y: w(x) * D.S(x, y) * D.p(x, y) * -log(of(x, y)), over=(X, Y))


KL = Tensor("KL", (X,), body=divergence_at)

R = Tensor("R", body=lambda: expected(D.q))

H = Tensor("H", body=lambda: expected(D.p))
