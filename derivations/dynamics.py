"""Family C: what one plain gradient step of size eta does, to first order unless a part says exactly.

    dv_j = -eta sum_l a_lj u_l        ds_ij = eta a_ij A_ij        A_ij = bbar_i - b_ij

First order means: the derivative along the step. A step is a tensor that depends on a time h, and its effect is the
derivative by h.
"""

from __future__ import annotations

from collections.abc import Callable

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Index, Size, Tensor, Term, delta, total
from derivations.laws import Part, equation, instance_of, proves
from derivations.notation import HEAD, d_v

H = HEAD
n, m = H.rows, H.columns
i, j, k, l = H.i, H.j, H.k, H.l
c = Index("c", d_v)
eta = Tensor("eta", kind="positive", tex=r"\eta")
h = Tensor("h")
DRAWN = {H.s: None, H.v: None}


def pull(key: Index, component: Index) -> Term:
    """The value gradient: what the queries that attend to a key send it."""
    return total(lambda l: H.a(l, key) * H.u(l, component), over=n)


@proves("dynamics.loss-decrease")
def loss_decrease() -> list[Part]:
    blocks, size = Size("B"), Size("N")
    start, gradient = Tensor("theta0", (blocks, size), tex=r"\theta^0"), Tensor("G0", (blocks, size), tex="G^0")
    step = Tensor("d", (blocks, size))
    moved = Tensor("theta", (blocks, size), body=lambda b, r: start(b, r) + h() * step(b, r), tex=r"\theta")
    now = Tensor("G", (blocks, size))
    L = Tensor("L", through=(moved, now))
    block, at = Index("b", blocks), Index("r", size)
    here = Equation(
        now(block, at),
        gradient(block, at),
        (block, at),
        says="at the start of the step the gradient G is G0",
        sample={now: lambda b, r: gradient(b, r)},
    )
    over = (blocks, size)
    general = Equation(Diff(L(), h()), total(lambda b, r: gradient(b, r) * step(b, r), over=over), given=(here,))
    chain = (
        Chain(general.lhs)
        .differentiate(
            total(lambda b, r: now(b, r) * Diff(moved(b, r), h()), over=over), "the loss sees the parameters alone"
        )
        .definition(
            total(lambda b, r: now(b, r) * Diff(start(b, r) + h() * step(b, r), h()), over=over),
            "which move along the step",
            moved,
        )
        .differentiate(total(lambda b, r: now(b, r) * step(b, r), over=over), "at a constant speed")
        .rewrite(general.rhs, "the gradient at the start", here)
    )
    general = instance_of("dynamics.loss-decrease", general, chain)
    rate = Tensor("eta", (blocks,), tex=r"\eta")
    own = Equation(
        step(block, at),
        -(rate(block) * gradient(block, at)),
        (block, at),
        says="each block steps along its own gradient, with its own rate",
        sample={step: lambda b, r: -(rate(b) * gradient(b, r))},
    )
    plain = Equation(
        general.lhs,
        -total(lambda b: rate(b) * total(lambda r: gradient(b, r) ** 2, over=size), over=blocks),
        given=(here, own),
    )
    square = (
        Chain(plain.lhs)
        .rewrite(general.rhs, "the gradient times the step", general)
        .rewrite(plain.rhs, "each block steps down its own gradient; blocks add", own)
    )
    return [
        Part(
            "any-step", general, chain, "Any optimiser: the first-order change is the gradient times the actual step."
        ),
        Part(
            "gradient-step",
            plain,
            square,
            "Plain gradient steps: minus the rate times the squared norm, block by block.",
        ),
    ]


@proves("dynamics.value-step")
def value_step() -> list[Part]:
    moved = Tensor("v'", (m, d_v), body=lambda j, c: H.v(j, c) - eta() * pull(j, c))
    change = total(lambda j: H.a(i, j) * (moved(j, c) - H.v(j, c)), over=m)
    claim = Equation(
        change,
        -(eta() * total(lambda l: total(lambda j: H.a(i, j) * H.a(l, j), over=m) * H.u(l, c), over=n)),
        sample=DRAWN,
    )
    proof = (
        Chain(change)
        .definition(
            total(lambda j: H.a(i, j) * -(eta() * pull(j, c)), over=m), "each value steps down its gradient", moved
        )
        .algebra(claim.rhs, "sum over keys first: queries meet in the keys that both attend to")
    )
    descent, steps = _descent(
        lambda j, c: Diff(H.L(), H.v(j, c)),
        lambda j, c: pull(j, c),
        (m, d_v),
        equation("attention.value-law"),
        "the value law",
    )
    return [
        Part("context", claim, proof, "Exact at fixed weights, for a step of any size."),
        Part("loss", descent, steps, "First order: the gradient times the step."),
    ]


def _descent(
    gradient: Callable[[Index, Index], Term],
    law_at: Callable[[Index, Index], Term],
    sizes: tuple[Size, Size],
    law: Equation,
    why: str,
) -> tuple[Equation, Chain]:
    """Sum of gradient times plain step, with the gradient written by its law."""
    claim = Equation(
        total(lambda r, t: gradient(r, t) * -(eta() * gradient(r, t)), over=sizes),
        -(eta() * total(lambda r, t: law_at(r, t) ** 2, over=sizes)),
        sample=DRAWN,
    )
    return claim, Chain(claim.lhs).rewrite(claim.rhs, why, law)


@proves("dynamics.score-step")
def score_step() -> list[Part]:
    routing = equation("attention.routing-law")
    step = Equation(-(eta() * Diff(H.L(), H.s(i, j))), eta() * H.a(i, j) * H.A(i, j), sample=DRAWN)
    by_advantage = (
        Chain(step.lhs)
        .rewrite(-(eta() * H.a(i, j) * (H.b(i, j) - H.bbar(i))), "the routing law", routing)
        .definition(step.rhs, "the advantage is the mean minus the compatibility", H.A)
    )
    fall = Equation(
        total(lambda i, j: Diff(H.L(), H.s(i, j)) * -(eta() * Diff(H.L(), H.s(i, j))), over=(n, m)),
        -(eta() * total(lambda i, j: H.a(i, j) ** 2 * H.A(i, j) ** 2, over=(n, m))),
        sample=DRAWN,
    )
    descends = (
        Chain(fall.lhs)
        .rewrite(
            -(eta() * total(lambda i, j: (H.a(i, j) * (H.b(i, j) - H.bbar(i))) ** 2, over=(n, m))),
            "the routing law",
            routing,
        )
        .definition(fall.rhs, "squared advantages", H.A)
    )
    context, moves = context_change()
    return [
        Part("step", step, by_advantage),
        Part("loss", fall, descends, "First order: the gradient times the step."),
        Part("context", context, moves, "For any small change ds of the scores, first order."),
    ]


ds = Tensor("ds", (n, m), tex=r"{\dot s}")


def context_change() -> tuple[Equation, Chain]:
    """dg_ic = sum_j a_ij (ds_ij - sum_k a_ik ds_ik) v_jc for any change of the scores."""
    mean = lambda i: total(lambda k: H.a(i, k) * ds(i, k), over=m)
    claim = Equation(
        total(lambda l, k: Diff(H.g(i, c), H.s(l, k)) * ds(l, k), over=(n, m)),
        total(lambda j: H.a(i, j) * (ds(i, j) - mean(i)) * H.v(j, c), over=m),
        sample=DRAWN,
    )
    proof = (
        Chain(claim.lhs)
        .definition(
            total(
                lambda l, k: Diff(total(lambda j: H.a(i, j) * H.v(j, c), over=m), H.s(l, k)) * ds(l, k),
                over=(n, m),
            ),
            "the context",
            H.g,
        )
        .differentiate(
            total(lambda l, k: total(lambda j: Diff(H.a(i, j), H.s(l, k)) * H.v(j, c), over=m) * ds(l, k), over=(n, m)),
            "values do not depend on scores",
        )
        .rewrite(
            total(
                lambda l, k: (
                    total(lambda j: delta(i, l) * H.a(i, j) * (delta(j, k) - H.a(i, k)) * H.v(j, c), over=m) * ds(l, k)
                ),
                over=(n, m),
            ),
            "the softmax Jacobian",
            equation("softmax.jacobian"),
        )
        .algebra(claim.rhs, "only row i is left, and each change is taken from its mean")
    )
    return claim, proof
