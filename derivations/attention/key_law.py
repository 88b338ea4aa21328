"""dL/dk_j = scale * sum_i a_ij (b_ij - bbar_i) q_i: a key moves by its advantages, a common shift not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sympy import Derivative, Eq, Sum

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, lift, total
from derivations.common import any_head
from derivations.common.calls_of_heads import whole_head
from derivations.common.head_in_sympy import BOOK, L, a, b, bbar, e, g, i, j, key, l, n, q, scale, v
from derivations.common.head_laws import EVERY_ROW_SEES, every_row_normalised
from derivations.common.notation import HEAD as H
from derivations.laws import equation, instance_of
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow, stated

RESULT = Result(
    "attention.key-law",
    title="A key moves by its advantages, and a common shift of all keys not at all",
    means="""A key is pulled by the queries that read it, each with its signed advantage; over all keys the pulls
    cancel.""",
    fails="""The cancellation needs keys that share one shift; it is why a bias added to all keys has a gradient of
    exactly zero.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.key_gradient",),
)


def pulled(gap: Any) -> Any:
    """The queries that read a key, each with its weight and a factor of its own."""
    return Sum(a[i, j] * gap * q[i, e], (i, 0, n - 1))


@RESULT.proof
def proof() -> list[Part]:
    law = Eq(Derivative(L(g), key[j, e]), scale * pulled(b[i, j] - bbar[i]))
    by = any_head.keys(H, equation("attention.routing-law"))[1]
    first = stated(BOOK, "keys", law, sample={q: None, key: None, v: None}, by=by)
    return [first, _sum(instance_of("attention.key-law", first.claim, first.proof))]


def _sum(law: Equation) -> Part:
    n, m, e = H.rows, H.columns, any_head.e
    claim = Equation(
        total(lambda j: Diff(H.L(), H.key(j, e)), over=m), lift(0), given=(EVERY_ROW_SEES,), sample=law.sample
    )
    factor = lambda i: H.scale() * H.bbar(i) * H.q(i, e)
    everywhere = every_row_normalised()
    steps = (
        Chain(claim.lhs)
        .rewrite(
            total(
                lambda j: H.scale() * total(lambda i: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.q(i, e), over=n),
                over=m,
            ),
            "the law",
            law,
        )
        .definition(
            total(lambda i: factor(i) * (1 - total(lambda j: H.a(i, j), over=m)), over=n),
            "the first sum over keys is the mean itself",
            H.bbar,
        )
        .rewrite(
            lift(0),
            "the weights of every row sum to one",
            everywhere,
            lambda h: total(lambda i: factor(i) * (1 - h(i)), over=n),
        )
    )
    return Part("sum", claim, steps, "So a shift that all keys share, such as a key bias, has gradient exactly 0.")


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    read, gap = BOOK.read, b[i, j] - bbar[i]
    yield "keys", "sign", "sign flipped", read(-scale * pulled(gap)), "the gradient, not the step"
    yield "keys", "no-scale", "scale missing", read(pulled(gap)), "scores carry the scale"
    yield "keys", "no-mean", "mean dropped", read(scale * pulled(b[i, j])), "the normaliser takes the mean away"
    gap = b[i, j] - Sum(a[l, j] * b[l, j], (l, 0, n - 1))
    yield "keys", "column-mean", "column mean", read(scale * pulled(gap)), "each query has its own mean"


@RESULT.code("keys", "bayesgrad.key_gradient", "bayesgrad.score_gradient")
def _(shipped, t):
    ds = shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v))
    return shipped.gradients.key_gradient(ds, t.q, scale=t.scale)


@RESULT.code("keys", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).keys


@RESULT.code("sum", "bayesgrad.attention_gradients", patterns=("all", "holes"))
def _(shipped, t):
    return t.xp.sum(whole_head(shipped, t).keys, axis=-2)
