"""The gradient of a cross-entropy in its logits, for any targets.

    L = sum_i sum_c t_ic (-log p_ic)        p_i = softmax(z_i)        tau_i = sum_c t_ic

Hard labels, class weights and label smoothing are choices of t, not other losses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayesgrad.symbolic.terms import Count, Lookup, Tensor, delta, inv, lift, total
from derivations.common.calls_of_heads import CROSS_ENTROPY, Bodies, Named
from derivations.common.cross_entropy import SOFT, Loss, d, i
from derivations.common.notation import C, n, p
from derivations.common.notation import p as P
from derivations.result import IDENTITY_RUN, Part, Result, WrongRow

RESULT = Result(
    "loss.logit-gradient",
    title="The gradient of cross-entropy in the logits",
    means="""The gradient in the logits is the prediction minus the target, each with the weight that the loss
    gives it.""",
    fails="""With class weights *and* smoothing the target no longer sums to one weight, so the familiar short form
    is wrong: the total has to be carried along.""",
    source="standard; the form with weights and smoothing is ours",
    routes=IDENTITY_RUN,
    implements=("bayesgrad.cross_entropy",),
)

y = Lookup("y", (n,), C)

w = Tensor("w", (n,))

omega = Tensor("omega", (C,), tex=r"\omega")

eps = Tensor("epsilon", tex=r"\varepsilon")


@RESULT.proof
def proof() -> list[Part]:
    hard = Tensor("t", (n, C), body=lambda i, c: w(i) * delta(c, y(i)))
    smooth = Tensor(
        "t",
        (n, C),
        body=lambda i, c: w(i) * omega(c) * ((1 - eps()) * delta(c, y(i)) + eps() * inv(Count(C))),
    )
    share = (1 - eps()) * omega(y(i)) + eps() * inv(Count(C)) * total(lambda f: omega(f), over=C)
    claim, proof = Loss(SOFT).gradient()
    return [
        Part("soft", claim, proof, "Any targets: t_i need not sum to one, tau_i is its total."),
        Loss(hard).special("hard", w(i) * (P(i, d) - delta(d, y(i))), "A label y_i with weight w_i."),
        Loss(smooth).special(
            "smoothed",
            w(i) * (share * P(i, d) - omega(d) * ((1 - eps()) * delta(d, y(i)) + eps() * inv(Count(C)))),
            "Class weights omega and label smoothing epsilon; w_i (p_i - smoothed target) would be wrong.",
        ),
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    t = lambda *at: SOFT(*at)
    at = i, d
    tau = total(lambda f: t(at[0], f), over=C)
    yield "soft", "sign", "sign flipped", t(*at) - tau * p(*at), "the gradient points from target to prediction"
    yield "soft", "no-total", "total dropped", p(*at) - t(*at), "only right where the targets sum to one"
    yield "soft", "scaled-target", "total on the wrong term", p(*at) - tau * t(*at), "the total weighs the prediction"
    yield (
        "soft",
        "column-total",
        "axes swapped",
        total(lambda r: t(r, at[1]), over=n) * p(*at) - t(*at),
        "rows, not columns",
    )
    hit = delta(at[1], y(at[0]))
    yield "hard", "weight-once", "weight on one term", w(at[0]) * p(*at) - hit, "the weight scales the whole row"
    yield "hard", "no-weight", "weight dropped", p(*at) - hit, "the weight scales the whole row"


@RESULT.code("soft", CROSS_ENTROPY)
def _(shipped, t):
    return shipped.cross_entropy(t.z, t.t, reduction="sum").logit_gradient


def mean_of_soft(named: Named) -> Bodies:
    raw = Tensor("t1", (n, C))
    return {named["t"]: lambda i, c: raw(i, c) * inv(Count(n))}


@RESULT.code("soft", CROSS_ENTROPY, bodies=mean_of_soft)
def _(shipped, t):
    return shipped.cross_entropy(t.z, t.t1, reduction="mean").logit_gradient


def weight_one(named: Named) -> Bodies:
    return {named["w"]: lambda i: lift(1)}


COUNTED = Tensor("counted", (n,), "indicator")


def weight_mean(named: Named) -> Bodies:
    """w_i = 1/N over the counted positions; all 0 where nothing is counted."""
    return {named["w"]: lambda i: COUNTED(i) * inv(total(lambda l: COUNTED(l), over=n))}


def counted_labels(t: Any) -> Any:
    """The labels, with the ignored index where a position does not count."""
    y = t.labels("y")
    y[~t.mask("counted")] = -100
    return y


@RESULT.code("hard", CROSS_ENTROPY, bodies=weight_one)
def _(shipped, t):
    return shipped.cross_entropy(t.z, t.labels("y"), reduction="sum").logit_gradient


@RESULT.code("hard", CROSS_ENTROPY, bodies=weight_mean, patterns=("all", "holes"))
def _(shipped, t):
    return shipped.cross_entropy(t.z, counted_labels(t), reduction="mean").logit_gradient


@RESULT.code("smoothed", CROSS_ENTROPY, bodies=weight_one)
def _(shipped, t):
    got = shipped.cross_entropy(t.z, t.labels("y"), reduction="sum", class_weights=t.omega, label_smoothing=t.epsilon)
    return got.logit_gradient
