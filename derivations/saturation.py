"""Family B, the bound: a weight near 0 or 1 routes little.

|dL/ds_ij| <= a_ij (1 - a_ij) R_i        R_i at least every difference of two visible compatibilities
"""

from __future__ import annotations

from fractions import Fraction

from bayesgrad.symbolic.proof import AtMost, Chain, Equation
from bayesgrad.symbolic.terms import Diff, Index, Lookup, Tensor, Term, delta, lift, total
from derivations.head_laws import H, i, j, k, m, n
from derivations.laws import Part, equation, proves
from derivations.softmax import SEES


def _gap(i: Index, j: Index, k: Index) -> Term:
    """The difference of the compatibilities of two visible keys; its square plus 1/4 is at least its size."""
    return H.M(i, j) * H.M(i, k) * (H.b(i, j) - H.b(i, k))


@proves("attention.saturation-bound")
def saturation_bound() -> list[Part]:
    return [*(_saturation(sign) for sign in (1, -1)), _two_keys()]


def _two_keys() -> Part:
    one, two = Lookup("j", (), m)(), Lookup("k", (), m)()
    pair = Equation(
        H.a(i, k),
        delta(k, one) * H.a(i, one) + delta(k, two) * H.a(i, two),
        (k,),
        says="query i sees two keys only, j and k",
        sample={H.M: lambda i, r: delta(r, one) + delta(r, two)},
    )
    claim = Equation(
        Diff(H.L(), H.s(i, one)),
        H.a(i, one) * (1 - H.a(i, one)) * (H.b(i, one) - H.b(i, two)),
        given=(SEES, pair),
        sample={H.s: None, H.v: None},
    )
    weight, other = H.a(i, one), H.a(i, two)
    near, far = H.b(i, one), H.b(i, two)
    normalised = equation("softmax.jacobian", "normalisation")
    left = lambda total_weight: weight * (total_weight * near - weight * near - other * far)
    proof = (
        Chain(claim.lhs)
        .rewrite(weight * (near - H.bbar(i)), "the routing law", equation("attention.routing-law"))
        .definition(weight * (near - total(lambda r: H.a(i, r) * H.b(i, r), over=m)), "the mean", H.bbar)
        .rewrite(
            left(lift(1)),
            "two terms are left of the mean",
            pair,
            lambda h: weight * (near - total(lambda r: h(r) * H.b(i, r), over=m)),
        )
        .rewrite(
            left(total(lambda r: H.a(i, r), over=m)),
            "the weights sum to one",
            normalised,
            lambda h: left(h(i)),
        )
        .rewrite(left(weight + other), "two terms again", pair, lambda h: left(total(lambda r: h(r), over=m)))
        .algebra(weight * other * (near - far), "the key's own term cancels")
        .algebra(weight * (weight + other - weight) * (near - far), "a_ik is what a_ij leaves")
        .rewrite(
            weight * (total(lambda r: H.a(i, r), over=m) - weight) * (near - far),
            "two terms once more",
            pair,
            lambda h: weight * (total(lambda r: h(r), over=m) - weight) * (near - far),
        )
        .rewrite(claim.rhs, "the weights sum to one", normalised, lambda h: weight * (h(i) - weight) * (near - far))
    )
    return Part("two-keys", claim, proof, "Equality in every row with two visible keys.")


def _saturation(sign: int) -> Part:
    claim, _, proof = saturation_claim(sign, SEES, equation("softmax.jacobian", "normalisation"))
    name = "upper" if sign > 0 else "lower"
    return Part(name, claim, proof, "R_i may be the range of b_i over the visible keys.")


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
