"""A common shift of the scores changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Eq, IndexedBase, Sum, exp

from derivations.common.head_in_sympy import BOOK, M, Z, a, i, j, k, m, n, s
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow, becomes, stated

RESULT = Result(
    "softmax.shift-invariance",
    title="A common shift of the scores changes nothing",
    means="""Scores matter only through their differences: moving all of a row by the same amount moves nothing.""",
    fails="""The shift must be the same for all visible keys of the row.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.softmax",),
)


shift = IndexedBase("c", shape=(n,))
mass = Sum(M[i, k] * exp(s[i, k]), (k, 0, m - 1))


@RESULT.proof
def proof() -> list[Part]:
    moved = M[i, j] * exp(s[i, j] + shift[i]) / Sum(M[i, k] * exp(s[i, k] + shift[i]), (k, 0, m - 1))
    return [
        stated(
            BOOK,
            "shift",
            Eq(moved, a[i, j]),
            becomes(
                "exp turns the shift into a common factor of numerator and mass, which cancels",
                M[i, j] * exp(s[i, j]) / mass,
            ),
            becomes("what is left is the weight", a[i, j], a, Z),
            sample={s: None},
        )
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    common, weight = exp(shift[i]), a[i, j]
    yield "shift", "scaled", "shift left in", BOOK.read(weight * common), "numerator and mass both carry it"
    yield "shift", "divided", "shift divided out twice", BOOK.read(weight / common), "numerator and mass both carry it"
    yield "shift", "unnormalised", "mass dropped", BOOK.read(M[i, j] * exp(s[i, j])), "weights sum to one"
    yield "shift", "unmasked", "mask dropped", BOOK.read(exp(s[i, j]) / Z[i]), "a masked key has weight 0"


@RESULT.code("shift", "bayesgrad.softmax")
def _(shipped, t):
    return shipped.softmax(t.s + t.xp.expand_dims(t.c, axis=-1), mask=t.mask())
