"""A common shift of the scores changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Index, Tensor, Term, exp, inv, tensors_of, total
from derivations.common.notation import M, Z, a, i, j, m, n, s
from derivations.laws import law
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

RESULT = Result(
    "softmax.shift-invariance",
    title="A common shift of the scores changes nothing",
    means="""Scores matter only through their differences: moving all of a row by the same amount moves nothing.""",
    fails="""The shift must be the same for all visible keys of the row.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.softmax",),
)


@RESULT.proof
def proof() -> list[Part]:
    shift = Tensor("c", (n,))

    def moved(row: Index, at: Index) -> Term:
        return M(row, at) * exp(s(row, at) + shift(row))

    claim = Equation(moved(i, j) * inv(total(lambda k: moved(i, k), over=m)), a(i, j), sample={s: None})
    common = exp(shift(i))
    proof = (
        Chain(claim.lhs)
        .algebra(
            M(i, j) * exp(s(i, j)) * common * inv(total(lambda k: M(i, k) * exp(s(i, k)), over=m) * common),
            "exp turns the shift into a common factor of numerator and mass",
        )
        .algebra(M(i, j) * exp(s(i, j)) * inv(total(lambda k: M(i, k) * exp(s(i, k)), over=m)), "which cancels")
        .definition(claim.rhs, "what is left is the weight", a, Z)
    )
    return [Part("shift", claim, proof)]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    shift = next(t for t in tensors_of(law("softmax.shift-invariance").parts[0].claim.lhs) if t.name == "c")
    common = exp(shift(i))
    yield "shift", "scaled", "shift left in", a(i, j) * common, "numerator and mass both carry it"
    yield "shift", "divided", "shift divided out twice", a(i, j) * inv(common), "numerator and mass both carry it"
    yield "shift", "unnormalised", "mass dropped", M(i, j) * exp(s(i, j)), "weights sum to one"
    yield "shift", "unmasked", "mask dropped", exp(s(i, j)) * inv(Z(i)), "a masked key has weight 0"


@RESULT.code("shift", "bayesgrad.softmax")
def _(shipped, t):
    return shipped.softmax(t.s + t.xp.expand_dims(t.c, axis=-1), mask=t.mask())
