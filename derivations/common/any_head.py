"""Family B, second half: the laws of one attention head under any differentiable loss of its contexts.

    g_i = sum_j a_ij v_j        u_i = dL/dg_i        b_ij = u_i . v_j        bbar_i = sum_k a_ik b_ik

Every law is a function of a :class:`Head`, so that self-attention, where queries and keys share one input, gets the
same proof as the general case.
"""

from __future__ import annotations

from collections.abc import Callable

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Entry, Index, Term, delta, total
from derivations.common.notation import Head, d_k, d_v

Proved = tuple[Equation, Chain]

c, e = Index("c", d_v), Index("e", d_k)


def weights(H: Head) -> Proved:
    """dL/da_ij = b_ij."""
    claim = Equation(Diff(H.L(), H.a(H.i, H.j)), H.b(H.i, H.j), sample={H.a: None, H.v: None})
    by = H.a(H.i, H.j)
    over = (H.rows, d_v)
    proof = (
        Chain(claim.lhs)
        .differentiate(
            total(lambda r, c: H.u(r, c) * Diff(H.g(r, c), by), over=over), "the loss sees the contexts alone"
        )
        .definition(
            total(lambda r, c: H.u(r, c) * Diff(total(lambda k: H.a(r, k) * H.v(k, c), over=H.columns), by), over=over),
            "a context is the weighted sum of the values",
            H.g,
        )
        .differentiate(
            total(
                lambda r, c: H.u(r, c) * total(lambda k: delta(r, H.i) * delta(k, H.j) * H.v(k, c), over=H.columns),
                over=over,
            ),
            "it is linear in the weights",
        )
        .algebra(total(lambda c: H.u(H.i, c) * H.v(H.j, c), over=d_v), "the deltas pick query i and key j")
        .definition(claim.rhs, "which is the compatibility", H.b)
    )
    return claim, proof


def scores(H: Head, onto_weights: Equation, jacobian: Equation) -> Proved:
    """The routing law: dL/ds_ij = a_ij (b_ij - bbar_i)."""
    i, j = H.i, H.j
    claim = Equation(Diff(H.L(), H.s(i, j)), H.a(i, j) * (H.b(i, j) - H.bbar(i)), sample={H.s: None, H.v: None})
    over = (H.rows, H.columns)
    proof = (
        Chain(claim.lhs)
        .through(
            total(lambda r, k: Diff(H.L(), H.a(r, k)) * Diff(H.a(r, k), H.s(i, j)), over=over),
            "scores act on the loss through the weights alone",
            H.a,
        )
        .rewrite(
            total(lambda r, k: H.b(r, k) * Diff(H.a(r, k), H.s(i, j)), over=over),
            "the gradient in a weight is the compatibility",
            onto_weights,
        )
        .rewrite(
            total(lambda r, k: H.b(r, k) * delta(r, i) * H.a(r, k) * (delta(k, j) - H.a(r, j)), over=over),
            "the softmax Jacobian",
            jacobian,
        )
        .algebra(
            H.a(i, j) * H.b(i, j) - H.a(i, j) * total(lambda k: H.a(i, k) * H.b(i, k), over=H.columns),
            "only query i is left",
        )
        .definition(claim.rhs, "the sum is the mean compatibility", H.bbar)
    )
    return claim, proof


def values(H: Head) -> Proved:
    """dL/dv_j = sum_i a_ij u_i."""
    claim = Equation(
        Diff(H.L(), H.v(H.j, c)), total(lambda i: H.a(i, H.j) * H.u(i, c), over=H.rows), sample={H.a: None}
    )
    by = H.v(H.j, c)
    over = (H.rows, d_v)
    proof = (
        Chain(claim.lhs)
        .differentiate(
            total(lambda r, f: H.u(r, f) * Diff(H.g(r, f), by), over=over), "the loss sees the contexts alone"
        )
        .definition(
            total(lambda r, f: H.u(r, f) * Diff(total(lambda k: H.a(r, k) * H.v(k, f), over=H.columns), by), over=over),
            "a context is the weighted sum of the values",
            H.g,
        )
        .differentiate(
            total(
                lambda r, f: H.u(r, f) * total(lambda k: H.a(r, k) * delta(k, H.j) * delta(f, c), over=H.columns),
                over=over,
            ),
            "it is linear in the values",
        )
        .algebra(claim.rhs, "the deltas pick key j and component c; every query that attends to j is left")
    )
    return claim, proof


def by_scores(
    H: Head, variable: Entry, slope: Callable[[Index, Index], Term], right: Term, routing: Equation, last: str
) -> Proved:
    """dL/dX for anything that acts through the scores alone; ``slope(r, k)`` is ds_rk/dX."""
    claim = Equation(Diff(H.L(), variable), right, sample=H.free)
    over = (H.rows, H.columns)

    def onto(slope_at: Callable[[Index, Index], Term]) -> Term:
        return total(lambda r, k: Diff(H.L(), H.s(r, k)) * slope_at(r, k), over=over)

    proof = (
        Chain(claim.lhs)
        .through(onto(lambda r, k: Diff(H.s(r, k), variable)), "it acts on the loss through the scores alone", H.s)
        .definition(
            onto(lambda r, k: Diff(H.scale() * H.product(r, k) + H.bias(r, k), variable)),
            "a score is a scaled inner product plus a bias",
            H.s,
        )
        .differentiate(onto(slope), "which is linear in it", variable.tensor)
        .rewrite(
            total(lambda r, k: H.a(r, k) * (H.b(r, k) - H.bbar(r)) * slope(r, k), over=over),
            "the routing law",
            routing,
        )
        .algebra(right, last)
    )
    return claim, proof


def queries(H: Head, routing: Equation) -> Proved:
    """dL/dq_i = scale * sum_j a_ij (b_ij - bbar_i) k_j."""
    i = H.i
    right = H.scale() * total(lambda j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.key(j, e), over=H.columns)
    return by_scores(
        H, H.q(i, e), lambda r, k: H.scale() * delta(r, i) * H.key(k, e), right, routing, "only query i is left"
    )


def keys(H: Head, routing: Equation) -> Proved:
    """dL/dk_j = scale * sum_i a_ij (b_ij - bbar_i) q_i."""
    j = H.j
    right = H.scale() * total(lambda i: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.q(i, e), over=H.rows)
    return by_scores(
        H, H.key(j, e), lambda r, k: H.scale() * delta(k, j) * H.q(r, e), right, routing, "only key j is left"
    )
