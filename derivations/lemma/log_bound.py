"""The logarithm lies below its tangent at 1."""

from __future__ import annotations

from bayesgrad.symbolic.proof import Chain, Minimum
from bayesgrad.symbolic.terms import Tensor, lift, log
from derivations.result import LEMMA, OURS, Part, Result

RESULT = Result(
    "lemma.log-bound",
    title="The logarithm lies below its tangent at 1",
    means="""The logarithm is concave, so it stays below its tangent at $1$ and touches it there only.""",
    fails=r"""It is an inequality for $t > 0$. At $t = 0$ it holds with $\log 0 = -\infty$ and is never an
    equality.""",
    source=OURS,
    routes=LEMMA,
)

t = Tensor("t", kind="positive")


@RESULT.proof
def proof() -> list[Part]:
    claim = Minimum(t() - 1 - log(t()), lift(0), at=t)
    says = "For t > 0, with equality only at t = 1: the derivative 1 - 1/t has the sign of t - 1."
    return [Part("bound", claim, Chain(claim.lhs), says)]
