"""Equal entropies say nothing about equal predictions."""

from __future__ import annotations

from fractions import Fraction

from bayesgrad.symbolic.proof import Chain, Witness
from bayesgrad.symbolic.terms import Index, Size, Tensor, lift, log, total
from derivations.result import NO_RUN, OURS, WITNESS, Part, Result, routes

RESULT = Result(
    "bayes.entropy-is-blind",
    title="Equal entropies say nothing about equal predictions",
    means="""Two predictions can be equally unsure and point in opposite directions. Matching entropies says
    nothing about matching predictions; the divergence does.""",
    fails="""The converse is fine: zero divergence does imply equal entropies.""",
    source=OURS,
    routes=routes(proof="required", exact=WITNESS, code=WITNESS, check="required", observed=NO_RUN),
    implements=("bayesgrad.bayes.entropy", "bayesgrad.bayes.kl_divergence"),
    naive=("a model whose entropy matches the exact entropy predicts the exact distribution",),
    headline=("equal-entropies", "divergence"),
)


@RESULT.proof
def proof() -> list[Part]:
    K = Size("K")
    p, q = Tensor("p", (K,)), Tensor("q", (K,))
    sizes = {K: 2}
    values = {p: (Fraction(1, 3), Fraction(2, 3)), q: (Fraction(2, 3), Fraction(1, 3))}
    entropy = lambda of: -total(lambda y: of(y) * log(of(y)), over=K)
    divergence = total(lambda y: p(y) * (log(p(y)) - log(q(y))), over=K)
    equal = Witness(entropy(p), entropy(q), sizes=sizes, values=values)
    apart = Witness(divergence, Fraction(1, 3) * log(lift(2)), sizes=sizes, values=values)
    sure, other = {p: (1, 0), q: (0, 1)}, Index("y", K)
    missing = Witness(p(other) * (1 - q(other)), lift(1), sizes=sizes, values=sure, at={other: 0})
    return [
        Part("equal-entropies", equal, Chain(equal.lhs), "(1/3, 2/3) and (2/3, 1/3) have the same entropy,"),
        Part("divergence", apart, Chain(apart.lhs), "and a divergence of (log 2)/3, one third of a bit."),
        Part("infinite", missing, Chain(missing.lhs), "(1, 0) against (0, 1): q gives 0 to what is certain under p."),
    ]
