"""Family C, the full feedback: context, read-out and values move at once, and u with them.

du_i = dz_i (tau_i (diag p_i - p_i p_i^T)) W_O^T + r_i dW_O^T        db_ij = u_i.dv_j + du_i.v_j
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from bayesgrad.symbolic.proof import Chain, Equation, Witness
from bayesgrad.symbolic.terms import Diff, Index, Tensor, Term, delta, exp, inv, lift, total
from derivations.common.calls_of_heads import Bodies, Named
from derivations.common.notation import HEAD, C, d_v
from derivations.common.one_step import c, h, i, j, m, n
from derivations.common.parts import part_of, tensor_of
from derivations.common.softmax import Softmax
from derivations.laws import instance_of
from derivations.result import IDENTITY_RUN, OURS, Part, Result, WrongRow

RESULT = Result(
    "dynamics.feedback-full",
    title="The feedback with the upstream gradient moving too",
    means="""The upstream gradient moves as fast as the values do, because the prediction improves; its motion has
    to be added.""",
    fails="""To freeze the upstream gradient is an assumption and not a limit of small steps: it can get the sign
    wrong at every step size.""",
    source=OURS,
    routes=IDENTITY_RUN,
    implements=("bayesgrad.dynamics.feedback_full",),
    read_with=("dynamics.feedback", "attention.upstream"),
    naive=("u may be held fixed for small eta",),
    headline=("upstream", "compatibility"),
)


class Moving:
    """Everything of a linear read-out moving at once: context, read-out and values along a time h."""

    def __init__(self) -> None:
        self.g0, self.dg = Tensor("g0", (n, d_v), tex="g^0"), Tensor("dg", (n, d_v), tex=r"{\dot g}")
        self.W0, self.dW = Tensor("W0", (d_v, C), tex="W^0"), Tensor("dW", (d_v, C), tex=r"{\dot W}")
        self.c0, self.dc = Tensor("c0", (C,), tex="c^0"), Tensor("dc", (C,), tex=r"{\dot c}")
        self.v0, self.dv = Tensor("v0", (m, d_v), tex="v^0"), Tensor("dv", (m, d_v), tex=r"{\dot v}")
        self.t = Tensor("t", (n, C))
        self.g = Tensor("g", (n, d_v), body=lambda i, c: self.g0(i, c) + h() * self.dg(i, c))
        self.W = Tensor("W_O", (d_v, C), body=lambda c, y: self.W0(c, y) + h() * self.dW(c, y), tex="W^O")
        self.c = Tensor("c_O", (C,), body=lambda y: self.c0(y) + h() * self.dc(y), tex="c^O")
        self.v = Tensor("v", (m, d_v), body=lambda j, c: self.v0(j, c) + h() * self.dv(j, c))
        self.z = Tensor(
            "z", (n, C), body=lambda i, y: total(lambda c: self.g(i, c) * self.W(c, y), over=d_v) + self.c(y)
        )
        self.mass = Tensor("Z'", (n,), "positive", lambda i: total(lambda d: exp(self.z(i, d)), over=C))
        self.p = Tensor("p", (n, C), "positive", lambda i, y: exp(self.z(i, y)) * inv(self.mass(i)))
        self.tau = Tensor("tau", (n,), body=lambda i: total(lambda y: self.t(i, y), over=C), tex=r"\tau")
        self.r = Tensor("r", (n, C), body=lambda i, y: self.tau(i) * self.p(i, y) - self.t(i, y))
        self.u = Tensor("u", (n, d_v), body=lambda i, c: total(lambda y: self.r(i, y) * self.W(c, y), over=C))
        self.b = Tensor("b", (n, m), body=lambda i, j: total(lambda c: self.u(i, c) * self.v(j, c), over=d_v))
        self.dz = Tensor(
            "dz",
            (n, C),
            body=lambda i, y: (
                total(lambda c: self.dg(i, c) * self.W(c, y) + self.g(i, c) * self.dW(c, y), over=d_v) + self.dc(y)
            ),
            tex=r"{\dot z}",
        )


@RESULT.proof
def proof() -> list[Part]:
    it = Moving()
    y = Index("y", C)
    jacobian = instance_of("softmax.jacobian", *Softmax(it.p, it.z, it.mass).jacobian())
    logits = Equation(Diff(it.z(i, y), h()), it.dz(i, y))
    read_out = total(lambda c: it.g(i, c) * it.W(c, y), over=d_v) + it.c(y)
    moved = total(lambda c: (it.g0(i, c) + h() * it.dg(i, c)) * (it.W0(c, y) + h() * it.dW(c, y)), over=d_v)
    moved = moved + it.c0(y) + h() * it.dc(y)
    logits_proof = (
        Chain(logits.lhs)
        .definition(Diff(read_out, h()), "the read-out is linear", it.z)
        .definition(Diff(moved, h()), "and all of it moves", it.g, it.W, it.c)
        .differentiate(
            total(
                lambda c: (
                    it.dg(i, c) * (it.W0(c, y) + h() * it.dW(c, y)) + (it.g0(i, c) + h() * it.dg(i, c)) * it.dW(c, y)
                ),
                over=d_v,
            )
            + it.dc(y),
            "product rule",
        )
        .definition(logits.rhs, "the change of the logits", it.dz, it.g, it.W)
    )
    logits = instance_of("dynamics.feedback-full", logits, logits_proof)
    flow = lambda at: total(
        lambda d: it.dz(i, d) * it.tau(i) * (delta(d, at) * it.p(i, at) - it.p(i, d) * it.p(i, at)), over=C
    )
    probabilities = Equation(
        Diff(it.p(i, y), h()),
        total(lambda d: it.dz(i, d) * (delta(d, y) * it.p(i, y) - it.p(i, d) * it.p(i, y)), over=C),
    )
    p_proof = (
        Chain(probabilities.lhs)
        .through(
            total(lambda r, d: Diff(it.p(i, y), it.z(r, d)) * Diff(it.z(r, d), h()), over=(n, C)),
            "probabilities move with the logits alone",
            it.z,
        )
        .rewrite(
            total(
                lambda r, d: delta(i, r) * it.p(i, y) * (delta(y, d) - it.p(i, d)) * Diff(it.z(r, d), h()),
                over=(n, C),
            ),
            "the softmax Jacobian",
            jacobian,
        )
        .rewrite(
            total(lambda r, d: delta(i, r) * it.p(i, y) * (delta(y, d) - it.p(i, d)) * it.dz(r, d), over=(n, C)),
            "the change of the logits",
            logits,
        )
        .algebra(probabilities.rhs, "only row i is left")
    )
    probabilities = instance_of("dynamics.feedback-full", probabilities, p_proof)
    upstream = Equation(
        Diff(it.u(i, c), h()),
        total(lambda y: flow(y) * it.W(c, y) + it.r(i, y) * it.dW(c, y), over=C),
    )
    u_proof = (
        Chain(upstream.lhs)
        .definition(
            Diff(
                total(lambda y: (it.tau(i) * it.p(i, y) - it.t(i, y)) * (it.W0(c, y) + h() * it.dW(c, y)), over=C),
                h(),
            ),
            "residual times read-out, and both move",
            it.u,
            it.r,
            it.W,
        )
        .differentiate(
            total(
                lambda y: (
                    it.tau(i) * Diff(it.p(i, y), h()) * (it.W0(c, y) + h() * it.dW(c, y))
                    + (it.tau(i) * it.p(i, y) - it.t(i, y)) * it.dW(c, y)
                ),
                over=C,
            ),
            "product rule; targets stay",
        )
        .rewrite(
            total(
                lambda y: (
                    flow(y) * (it.W0(c, y) + h() * it.dW(c, y)) + (it.tau(i) * it.p(i, y) - it.t(i, y)) * it.dW(c, y)
                ),
                over=C,
            ),
            "the change of the probabilities",
            probabilities,
        )
        .definition(upstream.rhs, "read-out and residual again", it.W, it.r)
    )
    upstream = instance_of("dynamics.feedback-full", upstream, u_proof)
    compatibility = Equation(
        Diff(it.b(i, j), h()),
        total(lambda c: it.u(i, c) * it.dv(j, c) + Diff(it.u(i, c), h()) * it.v(j, c), over=d_v),
    )
    b_proof = (
        Chain(compatibility.lhs)
        .definition(
            Diff(total(lambda c: it.u(i, c) * (it.v0(j, c) + h() * it.dv(j, c)), over=d_v), h()),
            "an inner product, and both sides move",
            it.b,
            it.v,
        )
        .differentiate(
            total(
                lambda c: it.u(i, c) * it.dv(j, c) + Diff(it.u(i, c), h()) * (it.v0(j, c) + h() * it.dv(j, c)), over=d_v
            ),
            "product rule",
        )
        .definition(compatibility.rhs, "the values again", it.v)
    )
    return [
        Part("upstream", upstream, u_proof, "The upstream gradient moves at the same order as the values."),
        Part("compatibility", compatibility, b_proof),
        Part("logits", logits, logits_proof),
        Part("probabilities", probabilities, p_proof),
        *_frozen_sign(),
    ]


def _frozen_sign() -> list[Part]:
    """One query, a = (2/3, 1/3), v = (-1, 2), W_O = (-1, 1), label 1: frozen dA_11 = eta/9, true -4 eta/9."""
    it = Moving()
    row, key = Index("i", n), Index("j", m)
    a = Tensor("a", (n, m))
    mean = lambda of: total(lambda k: a(row, k) * of(row, k), over=m) - of(row, key)
    flow = lambda r, d: total(
        lambda f: it.dz(r, f) * it.tau(r) * (delta(f, d) * it.p(r, d) - it.p(r, f) * it.p(r, d)), over=C
    )
    du = lambda r, c: total(lambda d: flow(r, d) * it.W(c, d) + it.r(r, d) * it.dW(c, d), over=C)
    frozen = lambda r, k: total(lambda c: it.u(r, c) * it.dv(k, c), over=d_v)
    full = lambda r, k: total(lambda c: it.u(r, c) * it.dv(k, c) + du(r, c) * it.v(k, c), over=d_v)
    weights = (Fraction(2, 3), Fraction(1, 3))
    values = {
        a: (weights,),
        it.g0: ((0,),),
        it.dg: ((-(weights[0] ** 2 + weights[1] ** 2),),),
        it.W0: ((-1, 1),),
        it.dW: ((0, 0),),
        it.c0: (0, 0),
        it.dc: (0, 0),
        it.v0: ((-1,), (2,)),
        it.dv: ((-weights[0],), (-weights[1],)),
        it.t: ((1, 0),),
        h: 0,
    }
    sizes = {n: 1, m: 2, d_v: 1, C: 2}
    at = {row: 0, key: 0}
    held = Witness(mean(frozen), lift(Fraction(1, 9)), sizes=sizes, values=values, at=at)
    true = Witness(mean(full), lift(Fraction(-4, 9)), sizes=sizes, values=values, at=at)
    return [
        Part("frozen", held, Chain(held.lhs), "With u frozen the favourite key gains advantage (eta = 1) ..."),
        Part("true-sign", true, Chain(true.lhs), "... and in truth it loses: frozen u is an assumption, not a limit."),
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    part = part_of("dynamics.feedback-full", "compatibility")
    u, dv = tensor_of(part, "u"), tensor_of(part, "dv")
    frozen = total(lambda c: u(i, c) * dv(j, c), over=d_v)
    yield "compatibility", "frozen", "u frozen", frozen, "u moves at the same order"
    yield "compatibility", "values-frozen", "values frozen", part.claim.rhs - frozen, "values move too"
    yield "compatibility", "sign", "sign flipped", -part.claim.rhs, "both sides grow alike"


def stepping(named: Named) -> Bodies:
    """At the start of the step (h = 0): g = a v, values stepping down their gradient, read-out steps free."""
    N, a, eta = named, Tensor("a", (n, HEAD.columns)), Tensor("eta")
    u = _at_start(N, a)

    def dv(j: Any, c: Any) -> Term:
        return -(eta() * total(lambda l: a(l, j) * u(l, c), over=n))

    return {
        N["h"]: lambda: lift(0),
        N["g0"]: lambda i, c: total(lambda j: a(i, j) * N["v0"](j, c), over=HEAD.columns),
        N["dg"]: lambda i, c: total(lambda j: a(i, j) * dv(j, c), over=HEAD.columns),
        N["dv"]: dv,
    }


def _at_start(N: Named, a: Tensor) -> Tensor:
    """The upstream gradient at the start, as a tensor that no later time enters."""

    def logit(i: Any, y: Any) -> Term:
        context = lambda c: total(lambda j: a(i, j) * N["v0"](j, c), over=HEAD.columns)
        return total(lambda c: context(c) * N["W0"](c, y), over=d_v) + N["c0"](y)

    def residual(i: Any, y: Any) -> Term:
        mass = total(lambda d: exp(logit(i, d)), over=C)
        return total(lambda d: N["t"](i, d), over=C) * exp(logit(i, y)) * inv(mass) - N["t"](i, y)

    return Tensor("u0", (n, d_v), body=lambda i, c: total(lambda y: residual(i, y) * N["W0"](c, y), over=C))


@RESULT.code("compatibility", "bayesgrad.dynamics.feedback_full", bodies=stepping)
def _(shipped, t):
    got = shipped.dynamics.feedback_full(
        t.a, t.v0, t.r, t.p, t.W0, totals=t.tau, eta=t.eta, W_O_step=t.dW, c_O_step=t.dc
    )
    return got.compatibility
