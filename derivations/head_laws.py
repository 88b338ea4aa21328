"""The laws of the head as they stand in the catalogue, with their corollaries.

dL/ds_ij = a_ij (b_ij - bbar_i)        dL/dv_j = sum_i a_ij u_i        dL/dq_i = scale * Cov_{a_i}(b_i, k)
"""

from __future__ import annotations

from functools import cache

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import At, Diff, Index, Lookup, Tensor, delta, exp, inv, lift, total
from derivations.attention import by_scores, c, e, keys, queries, scores, values, weights
from derivations.laws import Part, axes, equation, instance_of, proves
from derivations.notation import HEAD, d_v
from derivations.softmax import SEES, fisher_entry

H = HEAD
i, j, k = H.i, H.j, H.k
n, m = H.rows, H.columns
EVERY_ROW_SEES = Equation(SEES.lhs, SEES.rhs, (i,), says="every query sees at least one key")


@proves("attention.weight-gradient")
def weight_gradient() -> list[Part]:
    return [Part("weights", *weights(H), "Weights taken as free variables.")]


@proves("attention.routing-law")
def routing_law() -> list[Part]:
    law, proof = scores(H, equation("attention.weight-gradient"), equation("softmax.jacobian"))
    law = instance_of("attention.routing-law", law, proof)
    return [
        Part("scores", law, proof),
        _by_advantage(law),
        _by_fisher(law),
        _rows_sum_to_zero(law),
        _masked(law),
        _single_key(law),
        _bias(law),
    ]


def _by_advantage(law: Equation) -> Part:
    claim = Equation(law.lhs, -(H.a(i, j) * H.A(i, j)), sample=law.sample)
    proof = Chain(law.lhs).rewrite(law.rhs, "the law", law).definition(claim.rhs, "the advantage is bbar - b", H.A)
    return Part("advantage", claim, proof, "Descent raises a score where the compatibility is below its mean.")


def _by_fisher(law: Equation) -> Part:
    is_jacobian = equation("softmax.fisher", "jacobian")
    claim = Equation(law.lhs, total(lambda k: Diff(H.a(i, j), H.s(i, k)) * H.b(i, k), over=m), sample=law.sample)
    proof = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the law", law)
        .definition(
            total(lambda k: fisher_entry(i, j, k) * H.b(i, k), over=m), "diag(a) b minus a times the mean", H.bbar
        )
        .rewrite(
            claim.rhs,
            "F_i is the Jacobian of row i",
            is_jacobian,
            lambda hole: total(lambda k: hole(*_as(is_jacobian, i, j, k)) * H.b(i, k), over=m),
        )
    )
    return Part("fisher", claim, proof, "The score gradient is (F_i b_i)_j.")


def _as(eq: Equation, row: Index, left: Index, right: Index) -> tuple[Index, ...]:
    """The hole's indices in the order in which the equation's free indices were made."""
    given = {"i": row, "j": left, "k": right}
    return tuple(given[x.name] for x in sorted(axes(eq.lhs, eq.rhs), key=lambda x: x.uid))


def _rows_sum_to_zero(law: Equation) -> Part:
    normalised = equation("softmax.jacobian", "normalisation")
    claim = Equation(total(lambda j: Diff(H.L(), H.s(i, j)), over=m), lift(0), given=(SEES,), sample=law.sample)
    proof = (
        Chain(claim.lhs)
        .rewrite(total(lambda j: H.a(i, j) * (H.b(i, j) - H.bbar(i)), over=m), "the law", law)
        .definition(
            H.bbar(i) - H.bbar(i) * total(lambda j: H.a(i, j), over=m), "the first sum is the mean itself", H.bbar
        )
        .rewrite(lift(0), "the weights sum to one", normalised, lambda h: H.bbar(i) - H.bbar(i) * h(i))
    )
    return Part("row-sum", claim, proof, "In a row that sees nothing every term is 0.")


def _masked(law: Equation) -> Part:
    hidden = 1 - H.M(i, j)
    claim = Equation(hidden * Diff(H.L(), H.s(i, j)), lift(0), sample=law.sample)
    proof = (
        Chain(claim.lhs)
        .rewrite(hidden * H.a(i, j) * (H.b(i, j) - H.bbar(i)), "the law", law)
        .definition(lift(0), "a masked pair has weight 0", H.a)
    )
    return Part("masked", claim, proof, "Masked pairs have gradient exactly 0.")


def _single_key(law: Equation) -> Part:
    only: At = Lookup("j", (), m)()
    alone = Equation(
        H.M(i, k),
        delta(k, only),
        (k,),
        says="query i sees one key only",
        sample={H.M: lambda r, k: delta(k, only)},
    )
    claim = Equation(Diff(H.L(), H.s(i, k)), lift(0), given=(alone,), sample=law.sample)
    visible = H.M(i, k) * exp(H.s(i, k)) * inv(total(lambda r: H.M(i, r) * exp(H.s(i, r)), over=m))
    mean = total(lambda r: H.M(i, r) * exp(H.s(i, r)) * H.b(i, r), over=m) * inv(
        total(lambda r: H.M(i, r) * exp(H.s(i, r)), over=m)
    )
    proof = (
        Chain(claim.lhs)
        .rewrite(H.a(i, k) * (H.b(i, k) - H.bbar(i)), "the law", law)
        .definition(visible * (H.b(i, k) - mean), "write the weights out", H.a, H.Z, H.bbar)
        .rewrite(lift(0), "the mean is the compatibility of that key", alone)
    )
    return Part("single-key", claim, proof, "A single visible key gets no routing gradient.")


def _bias(law: Equation) -> Part:
    claim, proof = by_scores(
        H, H.bias(i, j), lambda r, k: delta(r, i) * delta(k, j), law.rhs, law, "only the pair (i, j) is left"
    )
    return Part("bias", claim, proof, "The gradient in an additive bias is the score gradient.")


@proves("attention.delta-identity")
def delta_identity() -> list[Part]:
    claim = Equation(
        total(lambda k: H.a(i, k) * H.b(i, k), over=m),
        total(lambda c: H.u(i, c) * H.g(i, c), over=d_v),
        sample={H.a: None, H.v: None},
    )
    proof = (
        Chain(claim.lhs)
        .definition(
            total(lambda k: H.a(i, k) * total(lambda c: H.u(i, c) * H.v(k, c), over=d_v), over=m),
            "a compatibility is an inner product",
            H.b,
        )
        .algebra(
            total(lambda c: H.u(i, c) * total(lambda k: H.a(i, k) * H.v(k, c), over=m), over=d_v),
            "sum over keys first",
        )
        .definition(claim.rhs, "which is the context", H.g)
    )
    return [Part("delta", claim, proof, "The mean compatibility needs no weights: kernels call it delta.")]


@proves("attention.value-law")
def value_law() -> list[Part]:
    law, proof = values(H)
    law = instance_of("attention.value-law", law, proof)
    N = Tensor("N", (m,), body=lambda j: total(lambda i: H.a(i, j), over=n))
    ubar = Tensor(
        "ubar", (m, d_v), body=lambda j, c: total(lambda i: H.a(i, j) * H.u(i, c), over=n) * inv(N(j)), tex=r"\bar u"
    )
    attended = Equation(N(j) * inv(N(j)), lift(1), says="some query attends to key j")
    claim = Equation(law.lhs, N(j) * ubar(j, c), given=(attended,), sample=law.sample)
    pull = total(lambda i: H.a(i, j) * H.u(i, c), over=n)
    step = (
        Chain(law.lhs)
        .rewrite(pull, "the law", law)
        .rewrite(pull * (N(j) * inv(N(j))), "the effective count is not zero", attended, lambda h: pull * h())
        .definition(claim.rhs, "the mean pull, times the effective count", ubar)
    )
    return [
        Part("values", law, proof),
        Part("effective-count", claim, step, "N_j is the effective count of key j, ubar_j its mean pull."),
    ]


@proves("attention.query-law")
def query_law() -> list[Part]:
    law, proof = queries(H, equation("attention.routing-law"))
    normalised = equation("softmax.jacobian", "normalisation")
    law = instance_of("attention.query-law", law, proof)
    mean = total(lambda j: H.a(i, j) * H.key(j, e), over=m)
    covariance = H.scale() * total(lambda j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * (H.key(j, e) - mean), over=m)
    claim = Equation(law.lhs, covariance, given=(SEES,), sample=law.sample)
    rest = H.scale() * mean * H.bbar(i)
    steps = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the law", law)
        .rewrite(
            law.rhs + rest * total(lambda j: H.a(i, j), over=m) - rest,
            "the weights sum to one",
            normalised,
            lambda h: law.rhs + rest * h(i) - rest,
        )
        .definition(covariance, "the mean key can be taken from each key", H.bbar)
    )
    return [
        Part("queries", law, proof),
        Part("covariance", claim, steps, "The covariance of compatibility and keys under the weights."),
        _scale_gradient(equation("attention.routing-law")),
    ]


def _scale_gradient(routing: Equation) -> Part:
    right = total(lambda i, j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.product(i, j), over=(n, m))
    claim, proof = by_scores(H, H.scale(), lambda r, k: H.product(r, k), right, routing, "every pair counts")
    return Part("scale", claim, proof, "The gradient in the scale.")


@proves("attention.key-law")
def key_law() -> list[Part]:
    law, proof = keys(H, equation("attention.routing-law"))
    law = instance_of("attention.key-law", law, proof)
    claim = Equation(
        total(lambda j: Diff(H.L(), H.key(j, e)), over=m), lift(0), given=(EVERY_ROW_SEES,), sample=law.sample
    )
    factor = lambda i: H.scale() * H.bbar(i) * H.q(i, e)
    everywhere = every_row_normalised()
    steps = (
        Chain(claim.lhs)
        .rewrite(
            total(
                lambda j: H.scale() * total(lambda i: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.q(i, e), over=n),
                over=m,
            ),
            "the law",
            law,
        )
        .definition(
            total(lambda i: factor(i) * (1 - total(lambda j: H.a(i, j), over=m)), over=n),
            "the first sum over keys is the mean itself",
            H.bbar,
        )
        .rewrite(
            lift(0),
            "the weights of every row sum to one",
            everywhere,
            lambda h: total(lambda i: factor(i) * (1 - h(i)), over=n),
        )
    )
    return [
        Part("keys", law, proof),
        Part("sum", claim, steps, "So a shift that all keys share, such as a key bias, has gradient exactly 0."),
    ]


@cache
def every_row_normalised() -> Equation:
    """The weights of each row sum to one, where every row sees a key."""
    claim = Equation(total(lambda j: H.a(i, j), over=m), lift(1), given=(EVERY_ROW_SEES,), sample={H.s: None})
    proof = (
        Chain(claim.lhs)
        .definition(total(lambda j: H.M(i, j) * exp(H.s(i, j)), over=m) * inv(H.Z(i)), "one common denominator", H.a)
        .definition(H.Z(i) * inv(H.Z(i)), "which is the mass of the row", H.Z)
        .rewrite(claim.rhs, "and that is not zero", EVERY_ROW_SEES, lambda h: h(i))
    )
    return instance_of("softmax.jacobian", claim, proof)
