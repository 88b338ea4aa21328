"""Family B, the bound: a weight near 0 or 1 routes little.

|dL/ds_ij| <= a_ij (1 - a_ij) R_i        R_i at least every difference of two visible compatibilities
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Lookup, Term, delta, lift, tensors_of, total
from derivations.common.head_laws import H, i, k, m
from derivations.common.notation import a, b, j
from derivations.common.saturation import saturation_claim
from derivations.common.softmax import SEES
from derivations.laws import equation, law
from derivations.result import BOUND, OURS, Part, Result, WrongRow

RESULT = Result(
    "attention.saturation-bound",
    title="A saturated weight routes little",
    means="""A row that is nearly sure hardly moves: the gradient in a score is capped by $a(1-a)$ times the spread
    of the compatibilities.""",
    fails="""It bounds, it does not predict: with more than two keys the gradient may be far smaller. A large
    spread can compensate a small factor.""",
    source=OURS,
    routes=BOUND,
    implements=("bayesgrad.dynamics.saturation_bound",),
    headline=("upper", "lower"),
)


@RESULT.proof
def proof() -> list[Part]:
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


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    R = next(t for t in tensors_of(law("attention.saturation-bound").parts[0].claim.rhs) if t.name == "R")
    weight = a(i, j)
    tight = Fraction(1, 2) * weight * (1 - weight) * R(i)
    pair = law("attention.saturation-bound").parts[2].claim.rhs
    yield "upper", "half", "bound halved", tight, "two keys reach the whole bound"
    yield "upper", "square", "weight squared", weight**2 * (1 - weight) * R(i), "one factor of the weight"
    yield "two-keys", "no-complement", "(1 - a) dropped", _without_complement(pair), "the other key has the rest"
    yield "two-keys", "sign", "sign flipped", -pair, "the key that is more compatible gets the positive gradient"


def _without_complement(pair: Term) -> Term:
    one = Lookup("j", (), m)()
    two = Lookup("k", (), m)()
    return a(i, one) * (b(i, one) - b(i, two))
