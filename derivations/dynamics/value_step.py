"""What a step of the values does to the context."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Index, Size, Tensor, Term, inv, total
from derivations.common.notation import d_v
from derivations.common.one_step import DRAWN, H, c, eta, i, m, n, pull
from derivations.common.parts import part_of
from derivations.laws import equation
from derivations.result import IDENTITY_RUN, OURS, Part, Result, WrongRow

RESULT = Result(
    "dynamics.value-step",
    title="What a step of the values does to the context",
    means="""Moving values moves every context by a smoothed copy of the upstream gradients; which queries move
    together is told by how much they read in common.""",
    fails="""The change of the contexts is exact, the change of the loss is first order.""",
    source=OURS,
    routes=IDENTITY_RUN,
    implements=("bayesgrad.dynamics.value_step",),
    headline=("context", "loss"),
)


@RESULT.proof
def proof() -> list[Part]:
    moved = Tensor("v'", (m, d_v), body=lambda j, c: H.v(j, c) - eta() * pull(j, c))
    change = total(lambda j: H.a(i, j) * (moved(j, c) - H.v(j, c)), over=m)
    claim = Equation(
        change,
        -(eta() * total(lambda l: total(lambda j: H.a(i, j) * H.a(l, j), over=m) * H.u(l, c), over=n)),
        sample=DRAWN,
    )
    proof = (
        Chain(change)
        .definition(
            total(lambda j: H.a(i, j) * -(eta() * pull(j, c)), over=m), "each value steps down its gradient", moved
        )
        .algebra(claim.rhs, "sum over keys first: queries meet in the keys that both attend to")
    )
    descent, steps = _descent(
        lambda j, c: Diff(H.L(), H.v(j, c)),
        lambda j, c: pull(j, c),
        (m, d_v),
        equation("attention.value-law"),
        "the value law",
    )
    return [
        Part("context", claim, proof, "Exact at fixed weights, for a step of any size."),
        Part("loss", descent, steps, "First order: the gradient times the step."),
    ]


def _descent(
    gradient: Callable[[Index, Index], Term],
    law_at: Callable[[Index, Index], Term],
    sizes: tuple[Size, Size],
    law: Equation,
    why: str,
) -> tuple[Equation, Chain]:
    """Sum of gradient times plain step, with the gradient written by its law."""
    claim = Equation(
        total(lambda r, t: gradient(r, t) * -(eta() * gradient(r, t)), over=sizes),
        -(eta() * total(lambda r, t: law_at(r, t) ** 2, over=sizes)),
        sample=DRAWN,
    )
    return claim, Chain(claim.lhs).rewrite(claim.rhs, why, law)


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    right = part_of("dynamics.value-step", "context").claim.rhs
    yield "context", "sign", "sign flipped", -right, "the step goes down"
    alone = -(eta() * total(lambda j: H.a(i, j) ** 2, over=m) * H.u(i, c))
    yield "context", "diagonal", "diagonal only", alone, "other queries move the same values"
    summed = -(eta() * total(lambda l: H.u(l, c), over=n))
    yield "context", "unweighted", "weights dropped", summed, "queries meet in the keys that both attend to"
    yield "context", "no-rate", "step size missing", right * inv(eta()), "the step carries eta"


@RESULT.code("context", "bayesgrad.dynamics.value_step")
def _(shipped, t):
    return shipped.dynamics.value_step(t.a, t.u, eta=t.eta).context


@RESULT.code("loss", "bayesgrad.dynamics.value_step")
def _(shipped, t):
    return shipped.dynamics.value_step(t.a, t.u, eta=t.eta).loss
