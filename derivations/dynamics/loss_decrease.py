"""How much a gradient step lowers the loss."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Index, Size, Tensor, lift, total
from derivations.common.calls_of_heads import Bodies, Named
from derivations.common.one_step import h
from derivations.common.parts import part_of
from derivations.laws import instance_of
from derivations.result import IDENTITY_RUN, OURS, Part, Result, WrongRow

RESULT = Result(
    "dynamics.loss-decrease",
    title="How much a gradient step lowers the loss",
    means="""A small step along a block's own gradient pays off with the squared length of that gradient, and
    blocks add up.""",
    fails="""First order in the step. For any other optimiser the prediction is the gradient's inner product with
    the step that was really taken.""",
    source=OURS,
    routes=IDENTITY_RUN,
    implements=("bayesgrad.dynamics.loss_decrease",),
    headline=("gradient-step",),
)


@RESULT.proof
def proof() -> list[Part]:
    blocks, size = Size("B"), Size("N")
    start, gradient = Tensor("theta0", (blocks, size), tex=r"\theta^0"), Tensor("G0", (blocks, size), tex="G^0")
    step = Tensor("d", (blocks, size))
    moved = Tensor("theta", (blocks, size), body=lambda b, r: start(b, r) + h() * step(b, r), tex=r"\theta")
    now = Tensor("G", (blocks, size))
    L = Tensor("L", through=(moved, now))
    block, at = Index("b", blocks), Index("r", size)
    here = Equation(
        now(block, at),
        gradient(block, at),
        (block, at),
        says="at the start of the step the gradient G is G0",
        sample={now: lambda b, r: gradient(b, r)},
    )
    over = (blocks, size)
    general = Equation(Diff(L(), h()), total(lambda b, r: gradient(b, r) * step(b, r), over=over), given=(here,))
    chain = (
        Chain(general.lhs)
        .differentiate(
            total(lambda b, r: now(b, r) * Diff(moved(b, r), h()), over=over), "the loss sees the parameters alone"
        )
        .definition(
            total(lambda b, r: now(b, r) * Diff(start(b, r) + h() * step(b, r), h()), over=over),
            "which move along the step",
            moved,
        )
        .differentiate(total(lambda b, r: now(b, r) * step(b, r), over=over), "at a constant speed")
        .rewrite(general.rhs, "the gradient at the start", here)
    )
    general = instance_of("dynamics.loss-decrease", general, chain)
    rate = Tensor("eta", (blocks,), tex=r"\eta")
    own = Equation(
        step(block, at),
        -(rate(block) * gradient(block, at)),
        (block, at),
        says="each block steps along its own gradient, with its own rate",
        sample={step: lambda b, r: -(rate(b) * gradient(b, r))},
    )
    plain = Equation(
        general.lhs,
        -total(lambda b: rate(b) * total(lambda r: gradient(b, r) ** 2, over=size), over=blocks),
        given=(here, own),
    )
    square = (
        Chain(plain.lhs)
        .rewrite(general.rhs, "the gradient times the step", general)
        .rewrite(plain.rhs, "each block steps down its own gradient; blocks add", own)
    )
    return [
        Part(
            "any-step", general, chain, "Any optimiser: the first-order change is the gradient times the actual step."
        ),
        Part(
            "gradient-step",
            plain,
            square,
            "Plain gradient steps: minus the rate times the squared norm, block by block.",
        ),
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    right = part_of("dynamics.loss-decrease", "gradient-step").claim.rhs
    yield "gradient-step", "sign", "sign flipped", -right, "a small step down lowers the loss"
    yield "gradient-step", "half", "half of it", Fraction(1, 2) * right, "the half belongs to the second order"
    yield "gradient-step", "nothing", "no change", lift(0), "only where the gradient is 0"


@RESULT.code("any-step", "bayesgrad.dynamics.loss_change")
def _(shipped, t):
    return shipped.dynamics.loss_change(t.G0, t.d)


def one_rate(named: Named) -> Bodies:
    rate = Tensor("rate")
    return {named["eta"]: lambda b: rate()}


@RESULT.code("gradient-step", "bayesgrad.dynamics.loss_decrease", bodies=one_rate)
def _(shipped, t):
    return shipped.dynamics.loss_decrease(*(t.G0[b] for b in range(t.G0.shape[0])), eta=t.rate)
