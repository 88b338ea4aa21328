"""Cross-entropy is entropy plus divergence."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import log, total
from derivations.common.contexts import KL, D, H, R, X, Y, expected, w
from derivations.result import COUNTING, NO_RUN, P1, Part, Result, WrongRow, routes

RESULT = Result(
    "bayes.risk-decomposition",
    title="Cross-entropy is entropy plus divergence",
    means="""Cross-entropy splits into what nobody can remove (the conditional entropy) and the mean divergence
    from the truth, which is all that a model can still win.""",
    fails="""Finite outcome sets. One context on which the model gives probability zero to something that happens
    makes the risk infinite.""",
    source=P1,
    routes=routes(proof="required", exact="optional", code=COUNTING, check="required", observed=NO_RUN),
    implements=("bayesgrad.bayes.risk", "bayesgrad.bayes.conditional_entropy"),
)


@RESULT.proof
def proof() -> list[Part]:
    claim = Equation(R(), H() + total(lambda x: w(x) * KL(x), over=X), given=(D.p_sums, D.q_sums))
    gap = total(lambda x, y: w(x) * D.S(x, y) * D.p(x, y) * (log(D.p(x, y)) - log(D.q(x, y))), over=(X, Y))
    proof = (
        Chain(R())
        .definition(expected(D.q), "write the risk out", R)
        .algebra(expected(D.p) + gap, "add log p and take it away")
        .definition(claim.rhs, "the entropy, which no model avoids, and the divergence, which a model can", H, KL)
    )
    return [Part("decomposition", claim, proof, "R is the risk of q, H the conditional entropy H(Y|X), both in nats.")]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    yield "decomposition", "sign", "sign flipped", H() - total(lambda x: w(x) * KL(x), over=X), "a model cannot gain"
    yield (
        "decomposition",
        "unweighted",
        "context weights dropped",
        H() + total(lambda x: KL(x), over=X),
        "rare contexts count less",
    )
    back = total(lambda x, y: w(x) * D.S(x, y) * D.q(x, y) * (log(D.q(x, y)) - log(D.p(x, y))), over=(X, Y))
    yield "decomposition", "reversed", "arguments swapped", H() + back, "the mean is under the truth"
