"""The value law: values move against the queries they answer."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Tensor, inv, lift, total
from derivations.common.any_head import c, values
from derivations.common.calls_of_heads import head_drawn, whole_head
from derivations.common.head_laws import H, j, m, n
from derivations.common.notation import a, d_v, u
from derivations.laws import instance_of
from derivations.result import IDENTITY_RUN, P2, Part, Result, WrongRow

RESULT = Result(
    "attention.value-law",
    title="The value law: values move against the queries they answer",
    means="""Readers pull: each value moves against the mean upstream gradient of the queries that read it, with
    the strength of how much they read.""",
    fails="""The mean makes sense only where the total weight is positive; a value that nobody reads does not move.""",
    source=P2,
    routes=IDENTITY_RUN,
    implements=("bayesgrad.value_gradient", "bayesgrad.effective_count"),
    headline=("values",),
)


@RESULT.proof
def proof() -> list[Part]:
    law, proof = values(H)
    law = instance_of("attention.value-law", law, proof)
    N = Tensor("N", (m,), body=lambda j: total(lambda i: H.a(i, j), over=n))
    ubar = Tensor(
        "ubar", (m, d_v), body=lambda j, c: total(lambda i: H.a(i, j) * H.u(i, c), over=n) * inv(N(j)), tex=r"\bar u"
    )
    attended = Equation(N(j) * inv(N(j)), lift(1), says="some query attends to key j")
    claim = Equation(law.lhs, N(j) * ubar(j, c), given=(attended,), sample=law.sample)
    pull = total(lambda i: H.a(i, j) * H.u(i, c), over=n)
    step = (
        Chain(law.lhs)
        .rewrite(pull, "the law", law)
        .rewrite(pull * (N(j) * inv(N(j))), "the effective count is not zero", attended, lambda h: pull * h())
        .definition(claim.rhs, "the mean pull, times the effective count", ubar)
    )
    return [
        Part("values", law, proof),
        Part("effective-count", claim, step, "N_j is the effective count of key j, ubar_j its mean pull."),
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    yield "values", "sign", "sign flipped", -total(lambda i: a(i, j) * u(i, c), over=n), "u is dL/dg, not its negative"
    yield (
        "values",
        "unweighted",
        "weights dropped",
        total(lambda i: u(i, c), over=n),
        "a query moves what it attends to",
    )
    mean = total(lambda i: a(i, j) * u(i, c), over=n) * inv(total(lambda i: a(i, j), over=n))
    yield "values", "averaged", "divided by the effective count", mean, "that is the mean pull, not the gradient"
    mixed = total(lambda i: a(i, j) * total(lambda f: u(i, f), over=d_v), over=n)
    yield "values", "components-mixed", "component summed out", mixed, "components do not mix"


@RESULT.code("values", "bayesgrad.value_gradient")
def _(shipped, t):
    return shipped.gradients.value_gradient(t.a, t.u)


@RESULT.code("values", "bayesgrad.attention_gradients", bodies=head_drawn)
def _(shipped, t):
    return whole_head(shipped, t).values


@RESULT.code("effective-count", "bayesgrad.effective_count")
def _(shipped, t):
    return t.xp.expand_dims(shipped.gradients.effective_count(t.a), axis=-1) * t.ubar
