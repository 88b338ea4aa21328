"""A value step is a proximal step."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.proof import AtMost, Chain, every
from bayesgrad.symbolic.terms import Index, Tensor, Term, inv, tensors_of, total
from derivations.common.notation import d_v
from derivations.common.one_step import eta, m, n
from derivations.common.parts import part_of
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

RESULT = Result(
    "em.proximal-m-step",
    title="A value step is a proximal step",
    means="""Trading the same surrogate against squared distance from the old values gives exactly the value law.""",
    fails="""Routing and values are proximal steps in *different* geometries. The plain routing gradient is not the
    proximal step of this surrogate.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.em.proximal_m_step",),
)

c = Index("c", d_v)


@RESULT.proof
def proof() -> list[Part]:
    a, u = Tensor("a", (n, m)), Tensor("u", (n, d_v))
    v, v0 = Tensor("v", (m, d_v)), Tensor("v0", (m, d_v), tex="v^0")
    best = Tensor("v*", (m, d_v), body=lambda j, c: v0(j, c) - eta() * total(lambda i: a(i, j) * u(i, c), over=n))

    def surrogate(values: Tensor) -> Term:
        work = total(lambda i, j: a(i, j) * total(lambda c: u(i, c) * values(j, c), over=d_v), over=(n, m))
        stray = total(lambda j, c: (values(j, c) - v0(j, c)) ** 2, over=(m, d_v))
        return work + inv(2 * eta()) * stray

    square = Tensor("Delta", (m, d_v), "nonnegative", lambda j, c: (v(j, c) - best(j, c)) ** 2, tex=r"\Delta")
    claim = AtMost(surrogate(best), surrogate(v), tight=(every(square),))
    proof = (
        Chain(claim.rhs - claim.lhs)
        .definition(
            inv(2 * eta()) * total(lambda j, c: (v(j, c) - best(j, c)) ** 2, over=(m, d_v)),
            "complete the square around v* = v0 - eta sum_i a_ij u_i",
            best,
        )
        .definition(total(lambda j, c: inv(2 * eta()) * square(j, c), over=(m, d_v)), "0 only at v = v*", square)
    )
    return [Part("minimum", claim, proof, "The value step is the unique minimiser.")]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    claim = part_of("em.proximal-m-step", "minimum").claim
    a, u, v = (next(t for t in tensors_of(claim.rhs) if t.name == x) for x in ("a", "u", "v"))
    work = total(lambda i, j: a(i, j) * total(lambda c: u(i, c) * v(j, c), over=d_v), over=(n, m))
    yield "minimum", "no-prox", "distance dropped", work, "a linear objective has no minimum"
    yield "minimum", "reversed", "distance subtracted", 2 * work - claim.rhs, "the distance is a penalty"
    yield "minimum", "shifted", "one taken away", claim.rhs - 1, "the minimum is reached"


@RESULT.code("minimum", "bayesgrad.em.proximal_m_step", puts="v")
def _(shipped, t):
    return shipped.em.proximal_m_step(t.v0, t.a, t.u, eta=t.eta)
