"""Family B, many heads: query head h reads the key/value head group(h), whose gradient sums over its group.

s^h_ij = scale * q^h_i . k^{group(h)}_j        dL/dv^gamma_j = sum_{h: group(h) = gamma} sum_i a^h_ij u^h_i
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Entry, Index, Lookup, Size, Tensor, Term, delta, exp, inv, total
from derivations.common.any_head import Proved
from derivations.common.calls_of_heads import Bodies, Named
from derivations.common.calls_of_layers import BLOCK
from derivations.common.cross_entropy import SOFT, Loss, tau_of
from derivations.common.linear_read_out import c, e, i
from derivations.common.notation import HEAD, C, d_k, d_v, d_x, n
from derivations.common.softmax import Softmax
from derivations.laws import instance_of, law
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

RESULT = Result(
    "attention.multi-head",
    title="The laws hold per head, and shared keys and values sum over their group",
    means="""Heads do not see each other except through the sum at the read-out, so every law holds head by head; a
    shared key or value adds up what its group sends.""",
    fails="""The grouping is by blocks of consecutive query heads. Reading it modulo the number of groups is a
    different, wrong network.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.grouped_attention_gradients",),
    read_with=("attention.upstream", "attention.projection-laws", "attention.input-law"),
    headline=("values", "keys", "queries"),
)


class Heads:
    """H query heads that read G key/value heads: head h reads group(h)."""

    def __init__(self) -> None:
        self.H, self.G = Size("H"), Size("G")
        self.group = Lookup("group", (self.H,), self.G)
        cols = HEAD.columns
        self.q = Tensor("q", (self.H, n, d_k))
        self.key = Tensor("k", (self.G, cols, d_k))
        self.v = Tensor("v", (self.G, cols, d_v))
        self.M, self.scale = HEAD.M, HEAD.scale
        self.s = Tensor(
            "s",
            (self.H, n, cols),
            body=lambda h, i, j: (
                self.scale() * total(lambda e: self.q(h, i, e) * self.key(self.group(h), j, e), over=d_k)
            ),
        )
        self.Z = Tensor(
            "Z",
            (self.H, n),
            "nonnegative",
            lambda h, i: total(lambda k: self.M(i, k) * exp(self.s(h, i, k)), over=cols),
        )
        self.a = Tensor(
            "a",
            (self.H, n, cols),
            "nonnegative",
            lambda h, i, j: self.M(i, j) * exp(self.s(h, i, j)) * inv(self.Z(h, i)),
        )
        self.g = Tensor(
            "g",
            (self.H, n, d_v),
            body=lambda h, i, c: total(lambda j: self.a(h, i, j) * self.v(self.group(h), j, c), over=cols),
        )
        self.u = Tensor("u", (self.H, n, d_v))
        self.L = Tensor("L", through=(self.g, self.u))
        self.b = Tensor(
            "b",
            (self.H, n, cols),
            body=lambda h, i, j: total(lambda c: self.u(h, i, c) * self.v(self.group(h), j, c), over=d_v),
        )
        self.bbar = Tensor(
            "bbar",
            (self.H, n),
            body=lambda h, i: total(lambda j: self.a(h, i, j) * self.b(h, i, j), over=cols),
            tex=r"\bar b",
        )


HEADS = Heads()


@RESULT.proof
def proof() -> list[Part]:
    it = HEADS
    jacobian = instance_of("softmax.jacobian", *_heads_jacobian(it))
    routing = _heads_scores(it, jacobian)
    return [
        Part("scores", *routing, "Each head routes by its own compatibilities."),
        Part("values", *_heads_values(it), "A shared value head collects what all the query heads of its group send."),
        Part("keys", *_heads_keys(it, instance_of("attention.multi-head", *routing))),
        Part("queries", *_heads_queries(it, instance_of("attention.multi-head", *routing))),
        Part("upstream", *_heads_upstream(), "Each head reads its own rows of W_O."),
    ]


h, l = Index("h", Size("H")), Index("l", n)

gamma = Index("gamma", Size("G"))

j, k = HEAD.j, HEAD.k


def _heads_jacobian(it: Heads) -> Proved:
    """The softmax Jacobian within each head; heads do not mix."""
    other = Index("h'", it.H)
    claim = Equation(
        Diff(it.a(h, i, j), it.s(other, l, k)),
        delta(h, other) * delta(i, l) * it.a(h, i, j) * (delta(j, k) - it.a(h, i, k)),
        sample={it.s: None},
    )
    one = lambda at: it.M(i, at) * exp(it.s(h, i, at))
    mass = lambda: total(lambda r: it.M(i, r) * exp(it.s(h, i, r)), over=HEAD.columns)
    own = delta(h, other) * delta(i, l)
    proof = (
        Chain(claim.lhs)
        .definition(Diff(one(j) * inv(mass()), it.s(other, l, k)), "write the weight out as a quotient", it.a, it.Z)
        .differentiate(own * (delta(j, k) * one(j) * inv(mass()) - one(j) * inv(mass()) ** 2 * one(k)), "product rule")
        .definition(claim.rhs, "each quotient is a weight again", it.a, it.Z)
    )
    return claim, proof


def _heads_scores(it: Heads, jacobian: Equation) -> Proved:
    claim = Equation(Diff(it.L(), it.s(h, i, j)), it.a(h, i, j) * (it.b(h, i, j) - it.bbar(h, i)), sample={it.s: None})
    over = (it.H, n, d_v)
    by = it.s(h, i, j)
    value = lambda r, x, c: it.v(it.group(r), x, c)
    cols = HEAD.columns
    proof = (
        Chain(claim.lhs)
        .differentiate(
            total(lambda r, t, c: it.u(r, t, c) * Diff(it.g(r, t, c), by), over=over),
            "the loss sees the contexts alone",
        )
        .definition(
            total(
                lambda r, t, c: it.u(r, t, c) * Diff(total(lambda x: it.a(r, t, x) * value(r, x, c), over=cols), by),
                over=over,
            ),
            "a context is the weighted sum of the values of the group",
            it.g,
        )
        .differentiate(
            total(
                lambda r, t, c: it.u(r, t, c) * total(lambda x: Diff(it.a(r, t, x), by) * value(r, x, c), over=cols),
                over=over,
            ),
            "values do not depend on scores",
        )
        .rewrite(
            total(
                lambda r, t, c: (
                    it.u(r, t, c)
                    * total(
                        lambda x: (
                            delta(r, h) * delta(t, i) * it.a(r, t, x) * (delta(x, j) - it.a(r, t, j)) * value(r, x, c)
                        ),
                        over=cols,
                    )
                ),
                over=over,
            ),
            "the softmax Jacobian of each head",
            jacobian,
        )
        .definition(claim.rhs, "compatibility and its mean, within the head", it.b, it.bbar)
    )
    return claim, proof


def _heads_values(it: Heads) -> Proved:
    by = it.v(gamma, j, c)
    claim = Equation(
        Diff(it.L(), by),
        total(lambda h: delta(it.group(h), gamma) * total(lambda i: it.a(h, i, j) * it.u(h, i, c), over=n), over=it.H),
        sample={it.a: None},
    )
    over = (it.H, n, d_v)
    cols = HEAD.columns
    proof = (
        Chain(claim.lhs)
        .differentiate(
            total(lambda r, t, y: it.u(r, t, y) * Diff(it.g(r, t, y), by), over=over),
            "the loss sees the contexts alone",
        )
        .definition(
            total(
                lambda r, t, y: (
                    it.u(r, t, y) * Diff(total(lambda x: it.a(r, t, x) * it.v(it.group(r), x, y), over=cols), by)
                ),
                over=over,
            ),
            "a context is the weighted sum of the values of the group",
            it.g,
        )
        .differentiate(
            total(
                lambda r, t, y: (
                    it.u(r, t, y)
                    * total(lambda x: it.a(r, t, x) * delta(it.group(r), gamma) * delta(x, j) * delta(y, c), over=cols)
                ),
                over=over,
            ),
            "a query head uses the values of its own group",
        )
        .algebra(claim.rhs, "the sum over the heads of the group is left")
    )
    return claim, proof


def _heads_by_scores(
    it: Heads, variable: Entry, slope: Callable[[Index, Index, Index], Term], right: Term, routing: Equation
) -> Proved:
    claim = Equation(Diff(it.L(), variable), right)
    over = (it.H, n, HEAD.columns)

    def onto(at: Callable[[Index, Index, Index], Term]) -> Term:
        return total(lambda r, t, x: Diff(it.L(), it.s(r, t, x)) * at(r, t, x), over=over)

    written = lambda r, t, x: it.scale() * total(lambda e: it.q(r, t, e) * it.key(it.group(r), x, e), over=d_k)
    proof = (
        Chain(claim.lhs)
        .through(onto(lambda r, t, x: Diff(it.s(r, t, x), variable)), "it acts through the scores alone", it.s)
        .definition(onto(lambda r, t, x: Diff(written(r, t, x), variable)), "a score is a scaled inner product", it.s)
        .differentiate(onto(slope), "which is linear in it", variable.tensor)
        .rewrite(
            total(lambda r, t, x: it.a(r, t, x) * (it.b(r, t, x) - it.bbar(r, t)) * slope(r, t, x), over=over),
            "the routing law of each head",
            routing,
        )
        .algebra(right, "the deltas pick head, position and component")
    )
    return claim, proof


def _heads_keys(it: Heads, routing: Equation) -> Proved:
    right = it.scale() * total(
        lambda h: (
            delta(it.group(h), gamma)
            * total(lambda i: it.a(h, i, j) * (it.b(h, i, j) - it.bbar(h, i)) * it.q(h, i, e), over=n)
        ),
        over=it.H,
    )
    slope = lambda r, t, x: it.scale() * delta(it.group(r), gamma) * delta(x, j) * it.q(r, t, e)
    return _heads_by_scores(it, it.key(gamma, j, e), slope, right, routing)


def _heads_queries(it: Heads, routing: Equation) -> Proved:
    right = it.scale() * total(
        lambda j: it.a(h, i, j) * (it.b(h, i, j) - it.bbar(h, i)) * it.key(it.group(h), j, e), over=HEAD.columns
    )
    slope = lambda r, t, x: it.scale() * delta(r, h) * delta(t, i) * it.key(it.group(r), x, e)
    return _heads_by_scores(it, it.q(h, i, e), slope, right, routing)


def _heads_upstream() -> Proved:
    """u^h_i = r_i (W_O^h)^T where the logits add up what each head sends through its own rows of W_O."""
    size = Size("H")
    g, W, offset = Tensor("g", (size, n, d_v)), Tensor("W_O", (size, d_v, C), tex="W^O"), Tensor("c_O", (C,), tex="c^O")
    z = Tensor(
        "z",
        (n, C),
        body=lambda i, y: total(lambda h, c: g(h, i, c) * W(h, c, y), over=(size, d_v)) + offset(y),
    )
    mass = Tensor("Z'", (n,), "positive", lambda i: total(lambda d: exp(z(i, d)), over=C))
    p = Tensor("p", (n, C), "positive", lambda i, d: exp(z(i, d)) * inv(mass(i)))
    loss = Loss(SOFT, Softmax(p, z, mass))
    law = instance_of("loss.logit-gradient", *loss.gradient())
    tau = tau_of(law)
    r = Tensor("r", (n, C), body=lambda i, y: tau(i) * p(i, y) - SOFT(i, y))
    by = g(h, i, c)
    claim = Equation(Diff(loss.value(), by), total(lambda y: r(i, y) * W(h, c, y), over=C))

    def onto(at: Callable[[Index, Index], Term]) -> Term:
        return total(lambda t, d: Diff(loss.value(), z(t, d)) * at(t, d), over=(n, C))

    proof = (
        Chain(claim.lhs)
        .through(onto(lambda t, d: Diff(z(t, d), by)), "it acts through the logits alone", z)
        .definition(
            onto(lambda t, d: Diff(total(lambda h, c: g(h, t, c) * W(h, c, d), over=(size, d_v)) + offset(d), by)),
            "the heads add up",
            z,
        )
        .differentiate(onto(lambda t, d: delta(t, i) * W(h, c, d)), "each through its own rows of W_O", g)
        .rewrite(
            total(lambda t, d: (tau(t) * p(t, d) - SOFT(t, d)) * (delta(t, i) * W(h, c, d)), over=(n, C)),
            "the logit gradient",
            law,
        )
        .definition(claim.rhs, "the residual of row i", r)
    )
    return claim, proof


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    parts = {p.name: p for p in law("attention.multi-head").parts}
    it = HEADS
    gamma, jj, cc = parts["values"].order
    sent = lambda h: total(lambda i: it.a(h, i, jj) * it.u(h, i, cc), over=n)
    mine = lambda h: delta(it.group(h), gamma)
    everyone = total(lambda h: sent(h), over=it.H)
    yield "values", "all-heads", "group dropped", everyone, "only the heads of the group read this one"
    yield "values", "sign", "sign flipped", -total(lambda h: mine(h) * sent(h), over=it.H), "u is dL/dg"
    size = total(lambda h: mine(h), over=it.H)
    averaged = total(lambda h: mine(h) * sent(h), over=it.H) * inv(size)
    yield "values", "averaged", "mean over the group", averaged, "gradients of a shared tensor add up"
    others = total(lambda h: (1 - mine(h)) * sent(h), over=it.H)
    yield "values", "wrong-group", "wrong head map", others, "head h reads group(h)"


GROUPED = "bayesgrad.grouped_attention_gradients"

GROUPS = (("n", 3), ("m", 5), ("H", 4), ("G", 2), ("d_k", 1), ("d_v", 6))


def grouped(shipped: Any, t: Any) -> Any:
    return shipped.heads.grouped_attention_gradients(t.q, t.k, t.v, t.u, mask=t.mask(), scale=t.scale)


def scores_made(named: Named) -> Bodies:
    """Scores and weights by their definitions, so that the whole function is run."""
    return {named[name]: named[name].body for name in ("s", "a") if name in named}


@RESULT.code("scores", GROUPED, sizes=GROUPS, bodies=scores_made)
def _(shipped, t):
    return grouped(shipped, t).scores


@RESULT.code("values", GROUPED, sizes=GROUPS, bodies=scores_made)
def _(shipped, t):
    return grouped(shipped, t).values


@RESULT.code("keys", GROUPED, sizes=GROUPS)
def _(shipped, t):
    return grouped(shipped, t).keys


@RESULT.code("queries", GROUPED, sizes=GROUPS)
def _(shipped, t):
    return grouped(shipped, t).queries


def behind_heads(named: Named) -> Bodies:
    """The contexts that the read-out sees are those of grouped heads, made from two inputs by sliced projections."""
    it = HEADS
    x, y = Tensor("x", (n, d_x)), Tensor("x'", (HEAD.columns, d_x))
    W_Q, W_K, W_V = Tensor("W_Q", (it.H, d_x, d_k)), Tensor("W_K", (it.G, d_x, d_k)), Tensor("W_V", (it.G, d_x, d_v))
    return {
        named["g"]: lambda h, i, c: total(lambda j: it.a(h, i, j) * it.v(it.group(h), j, c), over=HEAD.columns),
        it.q: lambda h, i, e: total(lambda f: x(i, f) * W_Q(h, f, e), over=d_x),
        it.key: lambda g, j, e: total(lambda f: y(j, f) * W_K(g, f, e), over=d_x),
        it.v: lambda g, j, c: total(lambda f: y(j, f) * W_V(g, f, c), over=d_x),
    }


def side_by_side(W: Any) -> Any:
    """(heads, rows, columns) as one matrix, head by head."""
    heads, rows, columns = W.shape
    return W.xp.reshape(W.xp.permute_dims(W, (1, 0, 2)), (rows, heads * columns))


HEADS_SIZES = (("n", 3), ("m", 5), ("H", 4), ("G", 2), ("d_k", 1), ("d_v", 1), ("d_x", 1), ("C", 6))


@RESULT.code("upstream", BLOCK, bodies=behind_heads, sizes=HEADS_SIZES, patterns=("all", "holes"))
def _(shipped, t):
    heads, d_v, classes = t.W_O.shape
    got = shipped.block.attention_block_gradients(
        t.x,
        side_by_side(t.W_Q),
        side_by_side(t.W_K),
        side_by_side(t.W_V),
        t.xp.reshape(t.W_O, (heads * d_v, classes)),
        t.t,
        heads=heads,
        kv_heads=t.size("G"),
        y=t["x'"],
        c_O=t.c_O,
        mask=t.mask(),
        scale=t.scale,
        reduction="sum",
        intermediates=True,
    )
    return got.attention.upstream
