"""Family C, feedback: how a value step moves the advantages that made it.

    db_ij = -eta sum_l a_lj u_i.u_l        dA_ij = sum_k a_ik db_ik - db_ij        (a and u held fixed)

The published reading, that a key with positive advantage attracts more and more, holds under conditions. The witnesses
below show that it can fail with a mask, with other queries, and when u moves, as it does at the same order.
"""

from __future__ import annotations

from fractions import Fraction

from derivations.dynamics import DRAWN, H, c, eta, h, i, j, l, m, n, pull
from derivations.laws import Part, equation, instance_of, proves, whole
from derivations.notation import C, d_v
from derivations.proof import Chain, Equation, Witness
from derivations.softmax import Softmax
from derivations.terms import Count, Diff, Index, Tensor, Term, delta, exp, inv, lift, total


def inner(one: Index, other: Index) -> Term:
    """u_i . u_l."""
    return total(lambda c: H.u(one, c) * H.u(other, c), over=d_v)


moved_v = Tensor("v'", (m, d_v), body=lambda j, c: H.v(j, c) - eta() * pull(j, c))
moved_b = Tensor("b'", (n, m), body=lambda i, j: total(lambda c: H.u(i, c) * moved_v(j, c), over=d_v))
moved_A = Tensor("A'", (n, m), body=lambda i, j: total(lambda k: H.a(i, k) * moved_b(i, k), over=m) - moved_b(i, j))


def echo(row: Index, key: Index) -> Term:
    """sum_l a_lj u_i . u_l: how much key j is asked for by queries that pull the way query i does."""
    return total(lambda l: H.a(l, key) * inner(row, l), over=n)


def advantage_change() -> tuple[Equation, Chain]:
    """dA_ij = eta (echo_ij - sum_k a_ik echo_ik), exactly, at fixed weights and upstream gradients."""
    claim = Equation(
        moved_A(i, j) - H.A(i, j),
        eta() * (echo(i, j) - total(lambda k: H.a(i, k) * echo(i, k), over=m)),
        sample=DRAWN,
    )
    change = lambda i, j: total(lambda c: H.u(i, c) * -(eta() * pull(j, c)), over=d_v)
    proof = (
        Chain(claim.lhs)
        .definition(
            total(lambda k: H.a(i, k) * (moved_b(i, k) - H.b(i, k)), over=m) - (moved_b(i, j) - H.b(i, j)),
            "an advantage is the mean minus the compatibility",
            moved_A,
            H.A,
            H.bbar,
        )
        .definition(
            total(lambda k: H.a(i, k) * change(i, k), over=m) - change(i, j),
            "compatibilities move with the values",
            moved_b,
            moved_v,
            H.b,
        )
        .algebra(claim.rhs, "collect the inner products of upstream gradients")
    )
    return claim, proof


@proves("dynamics.feedback")
def feedback() -> list[Part]:
    b_change = Equation(moved_b(i, j) - H.b(i, j), -(eta() * echo(i, j)), sample=DRAWN)
    b_proof = (
        Chain(b_change.lhs)
        .definition(
            total(lambda c: H.u(i, c) * -(eta() * pull(j, c)), over=d_v),
            "compatibilities move with the values",
            moved_b,
            moved_v,
            H.b,
        )
        .algebra(b_change.rhs, "collect the inner products of upstream gradients")
    )
    claim, proof = advantage_change()
    law = instance_of("dynamics.feedback", claim, proof)
    return [
        Part("compatibility", b_change, b_proof, "a and u held fixed, values stepped; exact."),
        Part("advantage", law, proof, "A_ij grows exactly where the echo of key j exceeds its mean under a_i."),
        _orthogonal(law),
        _uniform(law),
        _score_part(),
        *_witnesses(),
    ]


raw_u, lone = Tensor("u0", (n, d_v)), Tensor("one", (n,), "indicator")  # for drawing: mostly one query pulls


def _orthogonal(law: Equation) -> Part:
    apart = Equation(
        inner(i, l),
        delta(i, l) * inner(i, i),
        (l,),
        says="u_i is orthogonal to the upstream gradients of all other queries (or there is one query)",
        sample={H.u: lambda r, c: raw_u(r, c) * lone(r)},
    )
    claim = Equation(
        law.lhs,
        eta() * inner(i, i) * (H.a(i, j) - total(lambda k: H.a(i, k) ** 2, over=m)),
        given=(apart,),
        sample=DRAWN,
    )

    def spread(hole: Tensor) -> Term:
        per_key = lambda k: total(lambda l: H.a(l, k) * hole(l), over=n)
        return eta() * (per_key(j) - total(lambda k: H.a(i, k) * per_key(k), over=m))

    proof = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the change of an advantage", law, whole(law))
        .rewrite(claim.rhs, "only the query's own pull echoes", apart, spread)
    )
    return Part("one-query", claim, proof, "Keys with a weight below the sum of squared weights lose advantage.")


SOME_KEY = Equation(Count(m) * inv(Count(m)), lift(1), says="there is at least one key")


def _uniform(law: Equation) -> Part:
    flat = Equation(
        H.a(i, j),
        inv(Count(m)),
        (i, j),
        says="every query weighs all keys the same, and none is masked",
        sample={H.a: lambda i, j: inv(Count(m))},
    )
    claim = Equation(law.lhs, lift(0), given=(flat, SOME_KEY), sample=DRAWN)
    everything = total(lambda l: inner(i, l), over=n) * inv(Count(m))
    proof = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the change of an advantage", law, whole(law))
        .rewrite(eta() * (everything - Count(m) * inv(Count(m)) * everything), "all weights are 1/m", flat)
        .rewrite(lift(0), "the mean of a constant", SOME_KEY, lambda hole: eta() * (everything - hole() * everything))
    )
    return Part("uniform", claim, proof, "Uniform unmasked attention of all queries is neutral.")


def _score_part() -> Part:
    """A score step at the same time changes the mean compatibility, by the same amount for all keys."""
    step = lambda l, k: eta() * H.a(l, k) * H.A(l, k)
    claim = Equation(
        total(lambda k: total(lambda l, r: Diff(H.a(i, k), H.s(l, r)) * step(l, r), over=(n, m)) * H.b(i, k), over=m),
        -(eta() * total(lambda k: H.a(i, k) ** 2 * H.A(i, k) ** 2, over=m)),
        sample=DRAWN,
    )
    own = lambda k, r: H.a(i, k) * (delta(k, r) - H.a(i, r))
    proof = (
        Chain(claim.lhs)
        .rewrite(
            total(
                lambda k: (
                    total(lambda l, r: delta(i, l) * H.a(i, k) * (delta(k, r) - H.a(i, r)) * step(l, r), over=(n, m))
                    * H.b(i, k)
                ),
                over=m,
            ),
            "the softmax Jacobian",
            equation("softmax.jacobian"),
        )
        .algebra(
            total(lambda k, r: own(k, r) * eta() * H.a(i, r) * H.A(i, r) * H.b(i, k), over=(m, m)),
            "only row i is left",
        )
        .algebra(
            eta()
            * total(
                lambda r: H.a(i, r) ** 2 * H.A(i, r) * (H.b(i, r) - total(lambda k: H.a(i, k) * H.b(i, k), over=m)),
                over=m,
            ),
            "sum over k first",
        )
        .definition(claim.rhs, "the bracket is minus the advantage", H.A, H.bbar)
    )
    return Part(
        "with-scores", claim, proof, "First order; the same for every j, so it moves no advantage against another."
    )


def _witnesses() -> list[Part]:
    """A mask breaks neutrality; other queries can reverse the feedback."""
    first, second = Index("i", n), Index("j", m)
    change = moved_A(first, second) - H.A(first, second)
    causal = Witness(
        change,
        Fraction(1, 2) * lift(1),
        sizes={n: 2, m: 2, d_v: 1},
        values={
            H.a: ((1, 0), (Fraction(1, 2), Fraction(1, 2))),
            H.u: ((1,), (1,)),
            H.v: ((0,), (0,)),
            eta: 1,
        },
        at={first: 1, second: 0},
    )
    both = Witness(
        change,
        lift(Fraction(-1, 18)),
        sizes={n: 2, m: 2, d_v: 1},
        values={
            H.a: ((Fraction(2, 3), Fraction(1, 3)), (Fraction(3, 4), Fraction(1, 4))),
            H.u: ((1,), (-1,)),
            H.v: ((0,), (0,)),
            eta: 1,
        },
        at={first: 0, second: 0},
    )
    alone = Witness(
        change,
        lift(Fraction(1, 9)),
        sizes={n: 1, m: 2, d_v: 1},
        values={H.a: ((Fraction(2, 3), Fraction(1, 3)),), H.u: ((1,),), H.v: ((0,), (0,)), eta: 1},
        at={first: 0, second: 0},
    )
    return [
        Part("masked-uniform", causal, Chain(causal.lhs), "Causal 2 x 2, uniform where visible: not neutral."),
        Part("alone", alone, Chain(alone.lhs), "Query 1 alone: its favourite key gains advantage."),
        Part("reversed", both, Chain(both.lhs), "With query 2 pulling the other way, the same key loses."),
    ]


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


@proves("dynamics.feedback-full")
def feedback_full() -> list[Part]:
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
