"""Family C, feedback: how a value step moves the advantages that made it.

    db_ij = -eta sum_l a_lj u_i.u_l        dA_ij = sum_k a_ik db_ik - db_ij        (a and u held fixed)

The published reading, that a key with positive advantage attracts more and more, holds under conditions. The witnesses
below show that it can fail with a mask, with other queries, and when u moves, as it does at the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from bayesgrad.symbolic.proof import Chain, Equation, Witness
from bayesgrad.symbolic.terms import Count, Diff, Index, Tensor, Term, delta, inv, lift, total
from derivations.common.notation import d_v
from derivations.common.one_step import DRAWN, H, eta, i, j, l, m, n, pull
from derivations.common.parts import part_of
from derivations.laws import equation, instance_of, whole
from derivations.result import IDENTITY_RUN, Part, Result, WrongRow

RESULT = Result(
    "dynamics.feedback",
    title="When routing feeds itself, and when not",
    means="""When values move, advantages move too. Whether a strong key becomes stronger depends on which queries
    share it and whether they pull the same way.""",
    fails="""Not unconditional: two queries with opposite gradients can reverse the sign, and under a mask even
    uniform attention is not neutral.""",
    source="arXiv 2512.22473 states it unconditionally; the condition is ours",
    routes=IDENTITY_RUN,
    implements=("bayesgrad.dynamics.feedback",),
    read_with=("dynamics.value-step",),
    naive=("a value step always strengthens the keys that already have weight",),
    headline=("compatibility", "advantage", "one-query"),
)


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


@RESULT.proof
def proof() -> list[Part]:
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
        sample={
            H.a: lambda i, j: inv(Count(m)),
            H.M: lambda i, j: lift(1),
            H.scale: lambda: lift(0),
            H.bias: lambda i, j: lift(0),
        },
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


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    right = part_of("dynamics.feedback", "advantage").claim.rhs
    own = eta() * inner(i, i) * (H.a(i, j) - total(lambda k: H.a(i, k) ** 2, over=m))
    yield "advantage", "sign", "sign flipped", -right, "the step goes down"
    yield "advantage", "one-query", "other queries dropped", own, "holds for one query, or orthogonal pulls"
    yield "advantage", "no-mean", "mean dropped", eta() * echo(i, j), "the mean compatibility moves too"
    yield "compatibility", "compatibility-sign", "sign flipped", eta() * echo(i, j), "the step goes down"
    grows = eta() * inner(i, i) * H.a(i, j)
    yield "uniform", "uniform-grows", "uniform attention reinforces", grows, "it is neutral"


@RESULT.code("compatibility", "bayesgrad.dynamics.feedback")
def _(shipped, t):
    return shipped.dynamics.feedback(t.a, t.u, eta=t.eta).compatibility


def _advantage_change(shipped: Any, t: Any) -> Any:
    return shipped.dynamics.feedback(t.a, t.u, eta=t.eta).advantage


for _part in ("advantage", "one-query", "uniform"):
    RESULT.code(_part, "bayesgrad.dynamics.feedback")(_advantage_change)


@RESULT.code("with-scores", "bayesgrad.dynamics.score_step", "bayesgrad.compatibility")
def _(shipped, t):
    moved = shipped.dynamics.score_step(t.a, t.u, t.v, eta=t.eta).weights
    return t.xp.sum(moved * shipped.gradients.compatibility(t.u, t.v), axis=-1)
