"""Attention weights are the responsibilities of a Gaussian mixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Index, Tensor, Term, exp, inv, log, total
from derivations.common.calls_of_steps import SEEING, one_row
from derivations.common.notation import d_k
from derivations.common.one_step import m
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

RESULT = Result(
    "em.gaussian-mixture",
    title="Attention weights are the responsibilities of a Gaussian mixture",
    means="""Softmax attention computes responsibilities of equally wide Gaussians around the keys; a longer key
    counts as a likelier one.""",
    fails="""The scale must be positive. A bias that depends on the query changes the prior from query to query.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.em.gaussian_mixture_responsibilities",),
    read_with=("softmax.shift-invariance",),
)


class Gaussian:
    """Scores with per-key prior weights, and the Gaussian mixture that they are the responsibilities of."""

    def __init__(self) -> None:
        self.q, self.key = Tensor("q", (d_k,)), Tensor("k", (m, d_k))
        self.scale = Tensor("scale", kind="positive", tex=r"\varsigma")
        self.pi, self.M = Tensor("pi", (m,), "positive"), Tensor("M", (m,), "indicator")
        self.at = Index("j", m)
        self.half = Fraction(1, 2)

    def score(self, j: Index) -> Term:
        return self.scale() * total(lambda e: self.q(e) * self.key(j, e), over=d_k) + log(self.pi(j))

    def norm(self, j: Index) -> Term:
        return total(lambda e: self.key(j, e) ** 2, over=d_k)

    def distance(self, j: Index) -> Term:
        return total(lambda e: (self.q(e) - self.key(j, e)) ** 2, over=d_k)

    def component(self, j: Index) -> Term:
        """Prior weight times density: pi_j exp(scale |k_j|^2 / 2) exp(-scale |q - k_j|^2 / 2)."""
        prior = self.pi(j) * exp(self.half * self.scale() * self.norm(j))
        return prior * exp(-(self.half * self.scale() * self.distance(j)))

    def normalised(self, weight: Callable[[Index], Term]) -> Term:
        """One visible key's share."""
        mass = total(lambda j: self.M(j) * weight(j), over=m)
        return self.M(self.at) * weight(self.at) * inv(mass)


GAUSSIAN = Gaussian()


@RESULT.proof
def proof() -> list[Part]:
    it = GAUSSIAN
    claim = Equation(it.normalised(lambda j: exp(it.score(j))), it.normalised(it.component))
    near = exp(-(it.half * it.scale() * total(lambda e: it.q(e) ** 2, over=d_k)))
    product = lambda j: exp(it.scale() * total(lambda e: it.q(e) * it.key(j, e), over=d_k))
    proof = (
        Chain(claim.lhs)
        .algebra(it.normalised(lambda j: it.pi(j) * product(j)), "exp(log pi) = pi")
        .algebra(
            it.normalised(lambda j: it.pi(j) * product(j) * near),
            "a factor that depends on the query alone cancels (shift invariance)",
        )
        .algebra(claim.rhs, "complete the square: |q - k|^2 = |q|^2 - 2 q.k + |k|^2")
    )
    says = (
        "Responsibilities of a Gaussian mixture with means k_j, covariance I/scale and prior weights proportional to "
        "pi_j exp(scale |k_j|^2 / 2); M marks the keys with pi_j > 0."
    )
    return [Part("responsibilities", claim, proof, says)]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    it = GAUSSIAN
    near = lambda j: exp(-(it.half * it.scale() * it.distance(j)))
    far = lambda j: exp(-(it.scale() * it.distance(j)))
    tall = lambda j: exp(it.half * it.scale() * it.norm(j))
    row = "responsibilities"
    yield row, "no-prior", "norms forgotten", it.normalised(lambda j: it.pi(j) * near(j)), "long keys have more prior"
    yield row, "uniform", "priors dropped", it.normalised(lambda j: tall(j) * near(j)), "pi_j weighs the keys"
    yield row, "no-half", "half dropped", it.normalised(lambda j: it.pi(j) * tall(j) * far(j)), "the half is Gaussian"


@RESULT.code("responsibilities", "bayesgrad.em.gaussian_mixture_responsibilities", patterns=SEEING)
def _(shipped, t):
    got = shipped.em.gaussian_mixture_responsibilities(one_row(t.q), t.k, priors=t.M * t.pi, scale=t.scale)
    return got[0]


@RESULT.code("responsibilities", "bayesgrad.attention", patterns=("all",))
def _(shipped, t):
    bias = one_row(t.xp.log(t.pi))
    return shipped.attention(one_row(t.q), t.k, t.k, bias=bias, scale=t.scale).weights[0]
