"""Losses of the positions add up to the loss of the sequence."""

from __future__ import annotations

from fractions import Fraction

from bayesgrad.symbolic.proof import Chain, Equation, Induction, Witness
from bayesgrad.symbolic.terms import Index, Size, Tensor, inv, lift, log, total
from derivations.laws import instance_of
from derivations.result import FAMILY, OURS, Part, Result

RESULT = Result(
    "bayes.chain-rule",
    title="Losses of the positions add up to the loss of the sequence",
    means="""Supervising every position of a sequence is the same as scoring the sequence as a whole: the terms
    telescope into its log-probability.""",
    fails="""With inputs beside the outputs, an input that reveals an earlier output breaks it; so do a mean loss
    (it rescales) and positions that are left out.""",
    source=OURS,
    routes=FAMILY,
    implements=("bayesgrad.bayes.sequence_surprise",),
    naive=("the same with inputs x and no condition on them (x_2 := y_1 breaks it)",),
)


@RESULT.proof
def proof() -> list[Part]:
    joint = {t: Tensor(f"J{t}", kind="positive") for t in ("", "'", "_1")}
    loss = {t: Tensor(f"S{t}") for t in ("", "'", "_1")}
    first, later = Tensor("c_1", kind="positive"), Tensor("c'", kind="positive")
    here = Equation(
        loss[""](),
        -log(joint[""]()),
        says="the claim at time t",
        sample={loss[""]: lambda: -log(joint[""]())},
    )
    start = (
        Equation(joint["_1"](), first(), says="J_1 = p(y_1)", sample={joint["_1"]: lambda: first()}),
        Equation(loss["_1"](), -log(first()), says="S_1 = -log p(y_1)", sample={loss["_1"]: lambda: -log(first())}),
    )
    grow = (
        Equation(
            joint["'"](),
            joint[""]() * later(),
            says="p(y_1..y_{t+1}) = p(y_1..y_t) p(y_{t+1}|y_1..y_t), of positive probability",
            sample={joint["'"]: lambda: joint[""]() * later()},
        ),
        Equation(
            loss["'"](),
            loss[""]() - log(later()),
            says="every position is supervised: the sum grows by -log p(y_{t+1}|y_1..y_t)",
            sample={loss["'"]: lambda: loss[""]() - log(later())},
        ),
    )
    base = Equation(loss["_1"](), -log(joint["_1"]()), given=start)
    base_proof = (
        Chain(loss["_1"]())
        .rewrite(-log(first()), "one position", start[1])
        .rewrite(base.rhs, "whose probability is the joint one", start[0], lambda hole: -log(hole()))
    )
    step = Equation(loss["'"](), -log(joint["'"]()), given=(here, *grow))
    step_proof = (
        Chain(loss["'"]())
        .rewrite(loss[""]() - log(later()), "one more position", grow[1])
        .rewrite(-log(joint[""]()) - log(later()), "the claim at time t", here)
        .algebra(-log(joint[""]() * later()), "log of a product")
        .rewrite(step.rhs, "the product rule", grow[0], lambda hole: -log(hole()))
    )
    base = instance_of("bayes.chain-rule", base, base_proof)
    step = instance_of("bayes.chain-rule", step, step_proof)
    claim = Induction(
        loss[""](),
        -log(joint[""]()),
        given=(*start, *grow),
        base=base,
        step=step,
        first={loss[""]: loss["_1"], joint[""]: joint["_1"]},
        later={loss[""]: loss["'"], joint[""]: joint["'"]},
    )
    says = (
        "S_t is the summed loss up to t, J_t the joint probability; with inputs x it needs y_t independent of later x."
    )
    return [
        Part("every-time", claim, Chain(claim.lhs), says),
        Part("base", base, base_proof),
        Part("step", step, step_proof),
        *_inputs_that_tell(),
    ]


def _inputs_that_tell() -> list[Part]:
    """x_2 := y_1: the losses add up to -log p(y_1|x_1), but y_1 is certain given all the inputs."""
    Y, X2 = Size("Y"), Size("X")
    J = Tensor("P", (Y, X2))
    y, x = Index("y", Y), Index("x", X2)
    half = Fraction(1, 2)
    given = {"sizes": {Y: 2, X2: 2}, "values": {J: ((half, 0), (0, half))}, "at": {y: 0, x: 0}}
    alone = total(lambda x: J(y, x), over=X2)
    told = J(y, x) * inv(total(lambda y: J(y, x), over=Y))
    supervised = Witness(-log(alone), log(lift(2)), **given)  # type: ignore[arg-type]
    joint = Witness(-log(told), lift(0), **given)  # type: ignore[arg-type]
    return [
        Part(
            "inputs-loss", supervised, Chain(supervised.lhs), "A later input that repeats an output: the loss is log 2,"
        ),
        Part("inputs-joint", joint, Chain(joint.lhs), "while given all inputs the output is certain."),
    ]
