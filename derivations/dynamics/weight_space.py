"""Family C, weight space: training W_V moves the values of all keys whose inputs overlap.

dv_j = -eta sum_l (x_j . x_l) dL/dv_l        the law per token for every gradient iff X X^T = I, so only if m <= d_x
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayesgrad.symbolic.proof import AtMost, Chain, Equation
from bayesgrad.symbolic.terms import Count, Diff, Index, Lookup, Tensor, Term, delta, exp, inv, total
from derivations.common.notation import Head, d_x
from derivations.common.one_step import H, c, eta, j, k, m, n, pull
from derivations.common.parts import part_of
from derivations.laws import equation, instance_of, whole
from derivations.result import IDENTITY_RUN, OURS, Part, Result, WrongRow

RESULT = Result(
    "dynamics.weight-space",
    title="Training W_V mixes the value steps of similar inputs",
    means="""Training the value projection moves each value by what similar tokens want: similarity of inputs is
    the kernel.""",
    fails="""It is the per-token law only when the inputs are orthonormal, so never with more tokens than input
    dimensions.""",
    source=OURS,
    routes=IDENTITY_RUN,
    implements=("bayesgrad.dynamics.weight_space_value_step",),
    naive=("training W_V moves each value by its own gradient",),
    headline=("matrix", "per-token", "rank"),
)

f, r = Index("f", d_x), Index("r", m)


def gram(one: Index, other: Index) -> Term:
    """x_j . x_l of the inputs of keys and values."""
    return total(lambda f: H.memory(one, f) * H.memory(other, f), over=d_x)


@RESULT.proof
def proof() -> list[Part]:
    matrix = equation("attention.projection-laws", "W_V")
    bias = equation("attention.projection-laws", "value-bias")
    move = total(lambda f: H.memory(j, f) * -(eta() * Diff(H.L(), H.W_V(f, c))), over=d_x)
    claim = Equation(move, -(eta() * total(lambda l: gram(j, l) * pull(l, c), over=m)))
    proof = (
        Chain(move)
        .rewrite(
            total(lambda f: H.memory(j, f) * -(eta() * total(lambda l: H.memory(l, f) * pull(l, c), over=m)), over=d_x),
            "the law of W_V",
            matrix,
        )
        .algebra(claim.rhs, "inputs meet in their inner products")
    )
    claim = instance_of("dynamics.weight-space", claim, proof)
    both = Equation(
        move - eta() * Diff(H.L(), H.c_V(c)), -(eta() * total(lambda l: (gram(j, l) + 1) * pull(l, c), over=m))
    )
    both_proof = (
        Chain(both.lhs)
        .rewrite(
            claim.rhs - eta() * Diff(H.L(), H.c_V(c)),
            "the step of the matrix",
            claim,
            lambda hole: whole(claim)(hole) - eta() * Diff(H.L(), H.c_V(c)),
        )
        .rewrite(
            claim.rhs - eta() * total(lambda i: total(lambda j: H.a(i, j), over=m) * H.u(i, c), over=n),
            "the law of the bias",
            bias,
        )
        .algebra(both.rhs, "a bias is an input of one that all share")
    )
    return [
        Part("matrix", claim, proof, "v_j moves by the pulls of all keys whose inputs overlap with its own."),
        Part("with-bias", both, both_proof, "A value bias adds 1 to each inner product."),
        *_orthonormal(claim),
        _rank(),
    ]


ORTHONORMAL = Equation(
    gram(j, k),
    delta(j, k),
    (j, k),
    says="the inputs are orthonormal, X X^T = I",
    sample={H.memory: lambda j, f: delta(Lookup("place", (m,), d_x)(j), f)},
)


def _orthonormal(law: Equation) -> list[Part]:
    per_token = Equation(law.lhs, -(eta() * pull(j, c)), given=(ORTHONORMAL,))
    if_part = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the step of the matrix", law, whole(law))
        .rewrite(
            per_token.rhs,
            "inner products are deltas",
            ORTHONORMAL,
            lambda hole: -(eta() * total(lambda l: hole(j, l) * pull(l, c), over=m)),
        )
    )
    G = Tensor("G", (m, m))
    unit = Equation(
        G(k, j),
        delta(k, j),
        (k, j),
        says="G_k is the value gradient that is 1 at key k and 0 elsewhere (one component is enough)",
        sample={G: lambda k, j: delta(k, j)},
    )
    holds = Equation(
        total(lambda l: gram(j, l) * G(k, l), over=m),
        G(k, j),
        (j, k),
        says="the law per token holds for each of these gradients: sum_l x_j.x_l G_kl = G_kj",
        sample=ORTHONORMAL.sample,
    )
    forced = Equation(gram(j, k), delta(j, k), given=(unit, holds))
    only_if = (
        Chain(gram(j, k))
        .rewrite(
            total(lambda l: gram(j, l) * G(k, l), over=m),
            "put in the unit gradient of key k",
            unit,
            lambda hole: total(lambda l: gram(j, l) * hole(k, l), over=m),
        )
        .rewrite(G(k, j), "the law for it", holds, lambda hole: hole(j, k))
        .rewrite(delta(j, k), "which is 1 at key k alone", unit)
    )
    return [
        Part("per-token", per_token, if_part, "Orthonormal inputs: the law per token."),
        Part("only-if", forced, only_if, "The per-token law for every gradient forces X X^T = I."),
        _realised(),
    ]


def _realised() -> Part:
    """Any numbers G are a value gradient: m queries, each of which sees one key, with upstream gradients G."""
    own = Head(rows=m, columns=m)
    row, at = own.i, own.j
    alone = Equation(
        own.M(row, at),
        delta(row, at),
        (row, at),
        says="there is a query for each key, and it sees that key alone",
        sample={own.M: lambda i, j: delta(i, j)},
    )
    sent = total(lambda i: own.a(i, at) * own.u(i, c), over=m)
    claim = Equation(sent, own.u(at, c), given=(alone,), sample={own.s: None})
    proof = (
        Chain(sent)
        .definition(
            total(
                lambda i: (
                    own.M(i, at)
                    * exp(own.s(i, at))
                    * inv(total(lambda k: own.M(i, k) * exp(own.s(i, k)), over=m))
                    * own.u(i, c)
                ),
                over=m,
            ),
            "the weights",
            own.a,
            own.Z,
        )
        .rewrite(claim.rhs, "each row has one visible key, whose weight is 1", alone)
    )
    return Part(
        "realised", claim, proof, 'Every G is the value gradient of some head, so "every gradient" means every G.'
    )


def _rank() -> Part:
    """d_x - m = sum_fg (delta_fg - P_fg)^2 with P = X^T X, since tr P = tr P^2 = m."""
    claim = AtMost(Count(m), Count(d_x), given=(ORTHONORMAL,))
    P = Tensor("P", (d_x, d_x), body=lambda f, g: total(lambda j: H.memory(j, f) * H.memory(j, g), over=m))
    square = total(lambda f, g: P(f, g) ** 2, over=(d_x, d_x))
    trace = total(lambda f: P(f, f), over=d_x)
    proof = (
        Chain(Count(d_x) - Count(m))
        .algebra(
            Count(d_x)
            - 2 * total(lambda j: delta(j, j), over=m)
            + total(lambda j, k: delta(j, k) * delta(j, k), over=(m, m)),
            "m is a trace of deltas, and so is its square",
        )
        .rewrite(
            Count(d_x) - 2 * total(lambda j: gram(j, j), over=m) + total(lambda j, k: gram(j, k) ** 2, over=(m, m)),
            "orthonormal inputs",
            ORTHONORMAL,
            lambda hole: (
                Count(d_x)
                - 2 * total(lambda j: hole(j, j), over=m)
                + total(lambda j, k: hole(j, k) * hole(j, k), over=(m, m))
            ),
        )
        .definition(Count(d_x) - 2 * trace + square, "both are traces of P = X^T X as well", P)
        .algebra(total(lambda f, g: (delta(f, g) - P(f, g)) ** 2, over=(d_x, d_x)), "a sum of squares")
    )
    return Part("rank", claim, proof, "So orthonormal inputs need m <= d_x.")


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    right = part_of("dynamics.weight-space", "matrix").claim.rhs
    token = -(eta() * pull(j, c))
    yield "matrix", "per-token", "the law per token", token, "needs orthonormal inputs"
    yield "matrix", "sign", "sign flipped", -right, "the step goes down"
    yield "matrix", "with-bias", "a bias that is not there", right + token, "without a bias nothing is shared"


def _value_gradient(shipped: Any, t: Any) -> Any:
    return shipped.gradients.value_gradient(t.a, t.u)


@RESULT.code("matrix", "bayesgrad.dynamics.weight_space_value_step")
def _(shipped, t):
    return shipped.dynamics.weight_space_value_step(t["x'"], _value_gradient(shipped, t), eta=t.eta)


@RESULT.code("with-bias", "bayesgrad.dynamics.weight_space_value_step")
def _(shipped, t):
    return shipped.dynamics.weight_space_value_step(t["x'"], _value_gradient(shipped, t), eta=t.eta, bias=True)


@RESULT.code("per-token", "bayesgrad.dynamics.weight_space_value_step")
def _(shipped, t):
    return shipped.dynamics.weight_space_value_step(t["x'"], _value_gradient(shipped, t), eta=t.eta)
