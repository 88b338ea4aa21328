"""What a step of the scores does to the context."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Tensor, delta, total
from derivations.common.calls_of_heads import Bodies, Named
from derivations.common.notation import HEAD
from derivations.common.one_step import DRAWN, H, c, eta, i, j, m, n
from derivations.common.parts import part_of, tensor_of
from derivations.laws import equation
from derivations.result import IDENTITY_RUN, OURS, Part, Result, WrongRow

RESULT = Result(
    "dynamics.score-step",
    title="What a step of the scores does to the context",
    means="""A step on the scores feeds every key by its weight times its advantage; the gain is the sum of the
    squares.""",
    fails="""First order. The scores themselves are moved here: through the projections the step is filtered by the
    inputs.""",
    source=OURS,
    routes=IDENTITY_RUN,
    implements=("bayesgrad.dynamics.score_step",),
    headline=("step", "loss", "context"),
)


@RESULT.proof
def proof() -> list[Part]:
    routing = equation("attention.routing-law")
    step = Equation(-(eta() * Diff(H.L(), H.s(i, j))), eta() * H.a(i, j) * H.A(i, j), sample=DRAWN)
    by_advantage = (
        Chain(step.lhs)
        .rewrite(-(eta() * H.a(i, j) * (H.b(i, j) - H.bbar(i))), "the routing law", routing)
        .definition(step.rhs, "the advantage is the mean minus the compatibility", H.A)
    )
    fall = Equation(
        total(lambda i, j: Diff(H.L(), H.s(i, j)) * -(eta() * Diff(H.L(), H.s(i, j))), over=(n, m)),
        -(eta() * total(lambda i, j: H.a(i, j) ** 2 * H.A(i, j) ** 2, over=(n, m))),
        sample=DRAWN,
    )
    descends = (
        Chain(fall.lhs)
        .rewrite(
            -(eta() * total(lambda i, j: (H.a(i, j) * (H.b(i, j) - H.bbar(i))) ** 2, over=(n, m))),
            "the routing law",
            routing,
        )
        .definition(fall.rhs, "squared advantages", H.A)
    )
    context, moves = context_change()
    return [
        Part("step", step, by_advantage),
        Part("loss", fall, descends, "First order: the gradient times the step."),
        Part("context", context, moves, "For any small change ds of the scores, first order."),
    ]


ds = Tensor("ds", (n, m), tex=r"{\dot s}")


def context_change() -> tuple[Equation, Chain]:
    """dg_ic = sum_j a_ij (ds_ij - sum_k a_ik ds_ik) v_jc for any change of the scores."""
    mean = lambda i: total(lambda k: H.a(i, k) * ds(i, k), over=m)
    claim = Equation(
        total(lambda l, k: Diff(H.g(i, c), H.s(l, k)) * ds(l, k), over=(n, m)),
        total(lambda j: H.a(i, j) * (ds(i, j) - mean(i)) * H.v(j, c), over=m),
        sample=DRAWN,
    )
    proof = (
        Chain(claim.lhs)
        .definition(
            total(
                lambda l, k: Diff(total(lambda j: H.a(i, j) * H.v(j, c), over=m), H.s(l, k)) * ds(l, k),
                over=(n, m),
            ),
            "the context",
            H.g,
        )
        .differentiate(
            total(lambda l, k: total(lambda j: Diff(H.a(i, j), H.s(l, k)) * H.v(j, c), over=m) * ds(l, k), over=(n, m)),
            "values do not depend on scores",
        )
        .rewrite(
            total(
                lambda l, k: (
                    total(lambda j: delta(i, l) * H.a(i, j) * (delta(j, k) - H.a(i, k)) * H.v(j, c), over=m) * ds(l, k)
                ),
                over=(n, m),
            ),
            "the softmax Jacobian",
            equation("softmax.jacobian"),
        )
        .algebra(claim.rhs, "only row i is left, and each change is taken from its mean")
    )
    return claim, proof


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    weight, gap = H.a(i, j), H.A(i, j)
    yield "step", "sign", "sign flipped", -(eta() * weight * gap), "descent raises what has positive advantage"
    yield "step", "no-weight", "weight dropped", eta() * gap, "that is the natural direction"
    yield "step", "compatibility", "compatibility for advantage", -(eta() * weight * H.b(i, j)), "the mean is missing"
    ds = tensor_of(part_of("dynamics.score-step", "context"), "ds")
    flat = total(lambda j: H.a(i, j) * ds(i, j) * H.v(j, c), over=m)
    yield "context", "no-mean", "mean dropped", flat, "a common change of the scores does nothing"


@RESULT.code("step", "bayesgrad.dynamics.score_step")
def _(shipped, t):
    return shipped.dynamics.score_step(t.a, t.u, t.v, eta=t.eta).scores


@RESULT.code("loss", "bayesgrad.dynamics.score_step")
def _(shipped, t):
    return shipped.dynamics.score_step(t.a, t.u, t.v, eta=t.eta).loss


def own_step(named: Named) -> Bodies:
    """The step of the scores is their own gradient step."""
    eta = Tensor("eta", kind="positive")
    return {named["ds"]: lambda i, j: eta() * HEAD.a(i, j) * HEAD.A(i, j)}


@RESULT.code("context", "bayesgrad.dynamics.score_step", bodies=own_step)
def _(shipped, t):
    return shipped.dynamics.score_step(t.a, t.u, t.v, eta=t.eta).context
