"""Family B, the bound: a weight near 0 or 1 routes little.

|dL/ds_ij| <= a_ij (1 - a_ij) R_i        R_i at least every difference of two visible compatibilities
"""

from __future__ import annotations

from fractions import Fraction

from bayesgrad.symbolic.proof import AtMost, Chain, Equation
from bayesgrad.symbolic.terms import Diff, Index, Tensor, Term, delta, total
from derivations.common.head_laws import H, i, j, m, n
from derivations.laws import equation


def _gap(i: Index, j: Index, k: Index) -> Term:
    """The difference of the compatibilities of two visible keys; its square plus 1/4 is at least its size."""
    return H.M(i, j) * H.M(i, k) * (H.b(i, j) - H.b(i, k))


def saturation_claim(sign: int, sees: Equation, normalised: Equation) -> tuple[AtMost, Tensor, Chain]:
    """a_ij (1 - a_ij) R - (+-) dL/ds_ij is a sum of weights times what R leaves above a difference."""
    routing = equation("attention.routing-law")
    R = Tensor("R", (n,), "nonnegative")
    near, far = Index("j", m), Index("k", m)
    up = sign * (H.b(i, near) - H.b(i, far))
    both = H.M(i, near) * H.M(i, far)
    spread = AtMost(
        both * up,
        both * R(i),
        (i, near, far),
        says="R_i is at least every difference of compatibilities of two visible keys",
        sample={
            R: lambda i: Fraction(1, 4) + total(lambda j, k: _gap(i, j, k) ** 2, over=(m, m)) * Fraction(1, 2),
        },
    )
    slack = Tensor(
        "slack",
        (n, m, m),
        "nonnegative",
        lambda i, j, k: H.M(i, j) * H.M(i, k) * R(i) - H.M(i, j) * H.M(i, k) * (sign * (H.b(i, j) - H.b(i, k))),
        fact=spread,
    )
    gradient = Diff(H.L(), H.s(i, j))
    claim = AtMost(
        sign * gradient,
        H.a(i, j) * (1 - H.a(i, j)) * R(i),
        (i, j),
        (sees, spread),
        sample={H.s: None, H.v: None},
    )
    one = total(lambda k: H.a(i, k), over=m)
    pairs = H.a(i, j) * total(lambda k: H.a(i, k) * (1 - delta(j, k)) * (R(i) - sign * (H.b(i, j) - H.b(i, k))), over=m)
    other = Tensor("different", (m, m), "indicator", lambda j, k: 1 - delta(j, k), tex=r"\bar\delta")
    mean = total(lambda k: H.a(i, k) * H.b(i, k), over=m)
    proof = (
        Chain(claim.rhs - claim.lhs)
        .rewrite(
            H.a(i, j) * (1 - H.a(i, j)) * R(i) - sign * H.a(i, j) * (H.b(i, j) - H.bbar(i)),
            "the routing law",
            routing,
        )
        .definition(
            H.a(i, j) * ((1 - H.a(i, j)) * R(i) - sign * (1 * H.b(i, j) - mean)), "the mean, written out", H.bbar
        )
        .rewrite(
            H.a(i, j) * ((one - H.a(i, j)) * R(i) - sign * (one * H.b(i, j) - mean)),
            "the weights sum to one",
            normalised,
            lambda h: H.a(i, j) * ((h(i) - H.a(i, j)) * R(i) - sign * (h(i) * H.b(i, j) - mean)),
        )
        .algebra(pairs, "the difference to each other key, weighted; key j itself drops out")
        .definition(
            H.a(i, j) * total(lambda k: H.a(i, k) * other(j, k) * slack(i, j, k), over=m),
            "each term is at least 0, since R is at least the difference",
            other,
            slack,
            H.a,
        )
    )
    return claim, R, proof
