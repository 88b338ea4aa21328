"""Family B, second half: the laws of one attention head under any differentiable loss of its contexts.

g_i = sum_j a_ij v_j        u_i = dL/dg_i        b_ij = u_i . v_j        bbar_i = sum_k a_ik b_ik
"""

from __future__ import annotations

from derivations.laws import Part, equation, proves
from derivations.notation import L, a, b, bbar, c, d_v, g, i, j, m, n, s, u, v
from derivations.proof import Chain, Equation
from derivations.terms import Diff, delta, total


@proves("attention.weight-gradient")
def weight_gradient() -> list[Part]:
    claim = Equation(Diff(L(), a(i, j)), b(i, j), sample={a: None})
    moved = Diff(L(), a(i, j))
    proof = (
        Chain(moved)
        .differentiate(
            total(lambda r, c: u(r, c) * Diff(g(r, c), a(i, j)), over=(n, d_v)), "the loss sees the contexts alone"
        )
        .definition(
            total(lambda r, c: u(r, c) * Diff(total(lambda k: a(r, k) * v(k, c), over=m), a(i, j)), over=(n, d_v)),
            "a context is the weighted sum of the values",
            g,
        )
        .differentiate(
            total(lambda r, c: u(r, c) * total(lambda k: delta(r, i) * delta(k, j) * v(k, c), over=m), over=(n, d_v)),
            "it is linear in the weights",
        )
        .algebra(total(lambda c: u(i, c) * v(j, c), over=d_v), "the deltas pick query i and key j")
        .definition(claim.rhs, "which is the compatibility", b)
    )
    return [Part("weights", claim, proof, "Weights taken as free variables.")]


@proves("attention.routing-law")
def routing_law() -> list[Part]:
    claim = Equation(Diff(L(), s(i, j)), a(i, j) * (b(i, j) - bbar(i)), sample={s: None})
    proof = (
        Chain(claim.lhs)
        .through(
            total(lambda r, k: Diff(L(), a(r, k)) * Diff(a(r, k), s(i, j)), over=(n, m)),
            "scores act on the loss through the weights alone",
            a,
        )
        .rewrite(
            total(lambda r, k: b(r, k) * Diff(a(r, k), s(i, j)), over=(n, m)),
            "the gradient in a weight is the compatibility",
            equation("attention.weight-gradient"),
        )
        .rewrite(
            total(lambda r, k: b(r, k) * delta(r, i) * a(r, k) * (delta(k, j) - a(r, j)), over=(n, m)),
            "the softmax Jacobian",
            equation("softmax.jacobian"),
        )
        .algebra(a(i, j) * b(i, j) - a(i, j) * total(lambda k: a(i, k) * b(i, k), over=m), "only query i is left")
        .definition(claim.rhs, "the sum is the mean compatibility", bbar)
    )
    return [Part("scores", claim, proof)]


@proves("attention.value-law")
def value_law() -> list[Part]:
    claim = Equation(Diff(L(), v(j, c)), total(lambda i: a(i, j) * u(i, c), over=n), sample={a: None})
    proof = (
        Chain(claim.lhs)
        .differentiate(
            total(lambda r, f: u(r, f) * Diff(g(r, f), v(j, c)), over=(n, d_v)), "the loss sees the contexts alone"
        )
        .definition(
            total(lambda r, f: u(r, f) * Diff(total(lambda k: a(r, k) * v(k, f), over=m), v(j, c)), over=(n, d_v)),
            "a context is the weighted sum of the values",
            g,
        )
        .differentiate(
            total(lambda r, f: u(r, f) * total(lambda k: a(r, k) * delta(k, j) * delta(f, c), over=m), over=(n, d_v)),
            "it is linear in the values",
        )
        .algebra(claim.rhs, "the deltas pick key j and component c; every query that attends to j is left")
    )
    return [Part("values", claim, proof)]
