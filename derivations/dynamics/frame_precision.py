"""Family C, frame and precision: saturated rows stop routing, while their values may go on moving.

|dL/ds_ij| <= a_max (1 - a_max) R_i        dL/dv_j -> u_i + what the other queries send, as a_ij -> 1
"""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Witness
from bayesgrad.symbolic.terms import Diff, Index, Lookup, Tensor, delta, lift, total
from derivations.common.head_laws import EVERY_ROW_SEES, every_row_normalised
from derivations.common.notation import d_v
from derivations.common.one_step import DRAWN, H, c, i, j, k, m, n
from derivations.common.saturation import saturation_claim
from derivations.laws import equation, instance_of
from derivations.result import INEQUALITY, Part, Result, WrongRow, routes

RESULT = Result(
    "dynamics.frame-precision",
    title="Saturated routing stops, values need not",
    means="""As a row becomes one-hot its routing gradients die out, while the value that it reads still feels its
    full pull: a frame can stand while values go on moving.""",
    fails="""Value gradients need not survive: readers that pull in opposite directions cancel. And nothing here
    says *when* rows saturate; that is for the experiments.""",
    source="arXiv 2512.22471 and 2512.22473 (the claim); the bound is ours",
    routes=routes(proof="required", exact=INEQUALITY, code=INEQUALITY, check="required", observed="optional"),
    implements=("bayesgrad.dynamics.frame_precision_bound",),
    headline=("upper", "lower", "value-limit"),
)


@RESULT.proof
def proof() -> list[Part]:
    return [_vanishing(1), _vanishing(-1), _value_limit(), _values_vanish()]


def _vanishing(sign: int) -> Part:
    """|dL/ds_ij| <= a_max (1 - a_max) R_i: routing gradients vanish as a row becomes one-hot."""
    bound, R, proof = saturation_claim(sign, EVERY_ROW_SEES, every_row_normalised())
    bound = instance_of("attention.saturation-bound", bound, proof)  # type: ignore[assignment]
    top = Lookup("top", (n,), m)
    largest = AtMost(H.a(i, k), H.a(i, top(i)), (i, k), says="top(i) is a key of largest weight in row i", sample={})
    below = Tensor("below", (n, m), "nonnegative", lambda i, k: H.a(i, top(i)) - H.a(i, k), fact=largest)
    slack = Tensor(
        "slack'",
        (n, m),
        "nonnegative",
        lambda i, j: H.a(i, j) * (1 - H.a(i, j)) * R(i) - sign * Diff(H.L(), H.s(i, j)),
        fact=bound,
    )
    other = Tensor("others", (n, m, m), "indicator", lambda i, j, k: (1 - delta(j, k)) * (1 - delta(k, top(i))))
    claim = AtMost(
        sign * Diff(H.L(), H.s(i, j)),
        H.a(i, top(i)) * (1 - H.a(i, top(i))) * R(i),
        (i, j),
        (*bound.given, largest),
        sample=DRAWN,
    )
    sums = every_row_normalised()
    gap = (H.a(i, top(i)) - H.a(i, j)) * R(i)
    rest = lambda whole_weight: gap * (whole_weight - H.a(i, top(i)) - H.a(i, j))
    steps = (
        Chain(claim.rhs - claim.lhs)
        .algebra(
            rest(lift(1)) + (H.a(i, j) * (1 - H.a(i, j)) * R(i) - sign * Diff(H.L(), H.s(i, j))),
            "a(1-a) differs from its value at the top by a product",
        )
        .definition(rest(lift(1)) + slack(i, j), "the saturation bound", slack)
        .rewrite(
            rest(total(lambda k: H.a(i, k), over=m)) + slack(i, j),
            "the weights sum to one",
            sums,
            lambda hole: rest(hole(i)) + slack(i, j),
        )
        .algebra(
            gap * total(lambda k: (1 - delta(j, k)) * (1 - delta(k, top(i))) * H.a(i, k), over=m) + slack(i, j),
            "what neither j nor the top key has; at j = top the first factor is 0",
        )
        .definition(
            below(i, j) * R(i) * total(lambda k: other(i, j, k) * H.a(i, k), over=m) + slack(i, j),
            "each factor is at least 0",
            below,
            other,
            slack,
        )
    )
    name = "upper" if sign > 0 else "lower"
    return Part(
        name, claim, steps, "R_i may be the range of b_i; as the largest weight tends to 1 the bound tends to 0."
    )


def _value_limit() -> Part:
    law = equation("attention.value-law")
    others = total(lambda l: (1 - delta(l, i)) * H.a(l, j) * H.u(l, c), over=n)
    claim = Equation(Diff(H.L(), H.v(j, c)), H.u(i, c) + others - (1 - H.a(i, j)) * H.u(i, c), sample={H.a: None})
    proof = (
        Chain(claim.lhs)
        .rewrite(total(lambda l: H.a(l, j) * H.u(l, c), over=n), "the value law", law)
        .algebra(claim.rhs, "take query i out of the sum")
    )
    says = "As a_ij tends to 1 the last term tends to 0: the value gradient tends to u_i plus what other queries send."
    return Part("value-limit", claim, proof, says)


def _values_vanish() -> Part:
    one = Index("j", m)
    component = Index("c", d_v)
    sent = total(lambda l: H.a(l, one) * H.u(l, component), over=n)
    claim = Witness(
        sent,
        lift(0),
        sizes={n: 2, m: 2, d_v: 1},
        values={H.a: ((1, 0), (1, 0)), H.u: ((1,), (-1,))},
        at={one: 0, component: 0},
    )
    return Part(
        "values-vanish", claim, Chain(sent), "Two equal one-hot rows with opposite pulls: the value gradient is 0."
    )


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    others = total(lambda l: H.a(l, j) * H.u(l, c), over=n) - H.a(i, j) * H.u(i, c)
    yield "value-limit", "vanishes", "value gradient vanishes", lift(0), "saturated rows go on moving values"
    yield "value-limit", "alone", "other queries dropped", H.u(i, c), "other queries attend to the key too"
    yield "value-limit", "too-early", "limit taken", H.u(i, c) + others, "only at a_ij = 1"
