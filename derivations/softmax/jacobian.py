"""The Jacobian of softmax."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import delta, exp, inv, lift, total
from derivations.common.notation import M, Z, a, i, j, k, l, m, s
from derivations.common.softmax import SEES, Softmax
from derivations.result import IDENTITY, P2, Part, Result, WrongRow

RESULT = Result(
    "softmax.jacobian",
    title="The Jacobian of softmax",
    means="""To give weight to one key is to take it from the others in proportion to what they have.""",
    fails="""Rows do not talk to each other, and a masked pair has a zero row and a zero column.""",
    source=P2,
    routes=IDENTITY,
    implements=("bayesgrad.fisher",),
)

HEAD = Softmax(a, s, Z, M)


def normalised() -> tuple[Equation, Chain]:
    """The weights of a row that sees a key sum to one."""
    claim = Equation(total(lambda j: a(i, j), over=m), lift(1), given=(SEES,), sample={s: None})
    proof = (
        Chain(claim.lhs)
        .definition(total(lambda j: M(i, j) * exp(s(i, j)), over=m) * inv(Z(i)), "one common denominator", a)
        .definition(Z(i) * inv(Z(i)), "which is the mass of the row", Z)
        .rewrite(claim.rhs, "and that is not zero, since the row sees a key", SEES, lambda h: h())
    )
    return claim, proof


@RESULT.proof
def proof() -> list[Part]:
    claim, proof = HEAD.jacobian()
    return [
        Part("jacobian", claim, proof),
        Part("normalisation", *normalised(), "Weights of a row that sees a key are a distribution."),
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    same = delta(i, l)
    yield (
        "jacobian",
        "sign",
        "sign flipped",
        same * a(i, j) * (a(i, k) - delta(j, k)),
        "raising a score raises its weight",
    )
    yield (
        "jacobian",
        "diagonal",
        "diagonal only",
        same * delta(j, k) * a(i, j) * (1 - a(i, j)),
        "weights share one total",
    )
    yield "jacobian", "no-self", "mean dropped", same * delta(j, k) * a(i, j), "the normaliser moves too"
    yield (
        "jacobian",
        "wrong-weight",
        "index swapped",
        same * a(i, k) * (delta(j, k) - a(i, k)),
        "the first factor is a_ij",
    )
    yield "jacobian", "rows-mixed", "row delta dropped", a(i, j) * (delta(j, k) - a(i, k)), "rows are normalised apart"


@RESULT.code("jacobian", "bayesgrad.fisher", "bayesgrad.softmax")
def _(shipped, t):
    F = shipped.fisher(shipped.softmax(t.s, mask=t.mask()))
    rows, keys = t.s.shape
    out = t.xp.zeros((rows, keys, rows, keys))
    for row in range(rows):
        out.data[row, :, row, :] = F.data[row]
    return out


@RESULT.code("normalisation", "bayesgrad.softmax")
def _(shipped, t):
    return t.xp.sum(shipped.softmax(t.s, mask=t.mask()), axis=-1)
