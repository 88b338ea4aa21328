"""dL/dq_i = scale * sum_j a_ij (b_ij - bbar_i) k_j: a query moves by a covariance of compatibility and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sympy import Derivative, Eq, Sum

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import total
from derivations.common import any_head
from derivations.common.calls_of_heads import whole_head
from derivations.common.head_in_sympy import BOOK, L, a, b, bbar, e, g, i, j, key, m, q, scale, v
from derivations.common.notation import HEAD as H
from derivations.common.softmax import SEES
from derivations.laws import equation, instance_of
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow, stated

RESULT = Result(
    "attention.query-law",
    title="A query moves by a covariance of compatibility and keys",
    means="""A query turns along the covariance of compatibility and key: away from keys whose values hurt, towards
    those whose values help.""",
    fails="""A row that is one-hot has no covariance, and its query stands still.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.query_gradient",),
)


def pulled(gap: Any) -> Any:
    """The keys of a row, each with its weight and a factor of its own."""
    return Sum(a[i, j] * gap * key[j, e], (j, 0, m - 1))


@RESULT.proof
def proof() -> list[Part]:
    routing = equation("attention.routing-law")
    law = Eq(Derivative(L(g), q[i, e]), scale * pulled(b[i, j] - bbar[i]))
    first = stated(BOOK, "queries", law, sample={q: None, key: None, v: None}, by=any_head.queries(H, routing)[1])
    return [
        first,
        _covariance(instance_of("attention.query-law", first.claim, first.proof)),
        _scale_gradient(routing),
    ]


def _covariance(law: Equation) -> Part:
    m, i, e = H.columns, H.i, any_head.e
    normalised = equation("softmax.jacobian", "normalisation")
    mean = total(lambda j: H.a(i, j) * H.key(j, e), over=m)
    covariance = H.scale() * total(lambda j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * (H.key(j, e) - mean), over=m)
    claim = Equation(law.lhs, covariance, given=(SEES,), sample=law.sample)
    rest = H.scale() * mean * H.bbar(i)
    steps = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the law", law)
        .rewrite(
            law.rhs + rest * total(lambda j: H.a(i, j), over=m) - rest,
            "the weights sum to one",
            normalised,
            lambda h: law.rhs + rest * h(i) - rest,
        )
        .definition(covariance, "the mean key can be taken from each key", H.bbar)
    )
    return Part("covariance", claim, steps, "The covariance of compatibility and keys under the weights.")


def _scale_gradient(routing: Equation) -> Part:
    n, m = H.rows, H.columns
    right = total(lambda i, j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.product(i, j), over=(n, m))
    claim, proof = any_head.by_scores(H, H.scale(), lambda r, k: H.product(r, k), right, routing, "every pair counts")
    return Part("scale", claim, proof, "The gradient in the scale.")


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    read, gap = BOOK.read, b[i, j] - bbar[i]
    yield "queries", "sign", "sign flipped", read(-scale * pulled(gap)), "the gradient, not the step"
    yield "queries", "no-scale", "scale missing", read(pulled(gap)), "scores carry the scale"
    yield "queries", "no-mean", "mean dropped", read(scale * pulled(b[i, j])), "the normaliser takes the mean away"
    bare = scale * Sum(gap * key[j, e], (j, 0, m - 1))
    yield "queries", "unweighted", "weights dropped", read(bare), "an unattended key pulls on nothing"
    yield "queries", "scale-twice", "scale squared", read(scale**2 * pulled(gap)), "the scale enters once"


@RESULT.code("queries", "bayesgrad.query_gradient", "bayesgrad.score_gradient")
def _(shipped, t):
    ds = shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v))
    return shipped.gradients.query_gradient(ds, t.k, scale=t.scale)


@RESULT.code("queries", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).queries


@RESULT.code("covariance", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).queries


@RESULT.code("scale", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).scale
