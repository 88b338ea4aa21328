"""A query moves by a covariance of compatibility and keys."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import total
from derivations.common.any_head import by_scores, e, queries
from derivations.common.calls_of_heads import whole_head
from derivations.common.head_laws import H, i, m, n
from derivations.common.notation import HEAD, a, b, bbar, scale
from derivations.common.softmax import SEES
from derivations.laws import equation, instance_of
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

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


@RESULT.proof
def proof() -> list[Part]:
    law, proof = queries(H, equation("attention.routing-law"))
    normalised = equation("softmax.jacobian", "normalisation")
    law = instance_of("attention.query-law", law, proof)
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
    return [
        Part("queries", law, proof),
        Part("covariance", claim, steps, "The covariance of compatibility and keys under the weights."),
        _scale_gradient(equation("attention.routing-law")),
    ]


def _scale_gradient(routing: Equation) -> Part:
    right = total(lambda i, j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.product(i, j), over=(n, m))
    claim, proof = by_scores(H, H.scale(), lambda r, k: H.product(r, k), right, routing, "every pair counts")
    return Part("scale", claim, proof, "The gradient in the scale.")


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    key = HEAD.key
    term = lambda gap: total(lambda j: a(i, j) * gap(j) * key(j, e), over=m)
    right = lambda j: b(i, j) - bbar(i)
    yield "queries", "sign", "sign flipped", -(scale() * term(right)), "the gradient, not the step"
    yield "queries", "no-scale", "scale missing", term(right), "scores carry the scale"
    yield "queries", "no-mean", "mean dropped", scale() * term(lambda j: b(i, j)), "the normaliser takes the mean away"
    bare = scale() * total(lambda j: right(j) * key(j, e), over=m)
    yield "queries", "unweighted", "weights dropped", bare, "an unattended key pulls on nothing"
    yield "queries", "scale-twice", "scale squared", scale() ** 2 * term(right), "the scale enters once"


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
