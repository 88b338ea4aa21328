"""dL/dv_j = sum_i a_ij u_i: the value law, values move against the queries they answer."""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Eq, Sum, symbols

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Tensor, inv, lift, total
from derivations.common import any_head
from derivations.common.calls_of_heads import head_drawn, whole_head
from derivations.common.head_in_sympy import BOOK, L, a, c, d_v, g, i, j, n, u, v
from derivations.common.notation import HEAD as H
from derivations.laws import instance_of
from derivations.result import IDENTITY_RUN, P2, Part, Result, WrongRow, stated

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
    gradient = Eq(Derivative(L(g), v[j, c]), Sum(a[i, j] * u[i, c], (i, 0, n - 1)))
    first = stated(BOOK, "values", gradient, sample={a: None}, by=any_head.values(H)[1])
    return [first, _effective_count(instance_of("attention.value-law", first.claim, first.proof))]


def _effective_count(law: Equation) -> Part:
    n, m, d_v, j, c = H.rows, H.columns, any_head.d_v, H.j, any_head.c
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
    return Part("effective-count", claim, step, "N_j is the effective count of key j, ubar_j its mean pull.")


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    read, over = BOOK.read, (i, 0, n - 1)
    pull, count = Sum(a[i, j] * u[i, c], over), Sum(a[i, j], over)
    yield "values", "sign", "sign flipped", read(-pull), "u is dL/dg, not its negative"
    yield "values", "unweighted", "weights dropped", read(Sum(u[i, c], over)), "a query moves what it attends to"
    yield (
        "values",
        "averaged",
        "divided by the effective count",
        read(pull / count),
        "that is the mean pull, not the gradient",
    )
    f = symbols("f", integer=True)
    mixed = Sum(a[i, j] * Sum(u[i, f], (f, 0, d_v - 1)), over)
    yield "values", "components-mixed", "component summed out", read(mixed), "components do not mix"


@RESULT.code("values", "bayesgrad.value_gradient")
def _(shipped, t):
    return shipped.gradients.value_gradient(t.a, t.u)


@RESULT.code("values", "bayesgrad.attention_gradients", bodies=head_drawn)
def _(shipped, t):
    return whole_head(shipped, t).values


@RESULT.code("effective-count", "bayesgrad.effective_count")
def _(shipped, t):
    return t.xp.expand_dims(shipped.gradients.effective_count(t.a), axis=-1) * t.ubar
