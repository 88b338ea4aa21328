"""Family B, the outer layers: read-out, projections, inputs, and many heads.

z_i = g_i W_O + c_O     r_i = dL/dz_i = tau_i p_i - t_i     q_i = x_i W_Q + b_Q, k_j and v_j likewise from x'
"""

from __future__ import annotations

from collections.abc import Callable

from derivations.attention import Laws, Proved
from derivations.cross_entropy import SOFT, Loss, tau_of
from derivations.laws import Part, axes, equation, instance_of, proves
from derivations.notation import HEAD, C, Head, d_k, d_v, d_x, n
from derivations.proof import Chain, Equation
from derivations.softmax import Softmax
from derivations.terms import Diff, Entry, Index, Lookup, Size, Tensor, Term, delta, exp, inv, rename, total

f, e, c = Index("f", d_x), Index("e", d_k), Index("c", d_v)
i = HEAD.i
y = Index("y", C)


class ReadOut:
    """A linear read-out with cross-entropy: logits z = g W_O + c_O, any soft targets t."""

    def __init__(self) -> None:
        self.g, self.W, self.c = (
            Tensor("g", (n, d_v)),
            Tensor("W_O", (d_v, C), tex="W^O"),
            Tensor("c_O", (C,), tex="c^O"),
        )
        self.t = SOFT
        self.z = Tensor(
            "z", (n, C), body=lambda i, y: total(lambda c: self.g(i, c) * self.W(c, y), over=d_v) + self.c(y)
        )
        self.mass = Tensor("Z'", (n,), "positive", lambda i: total(lambda d: exp(self.z(i, d)), over=C))
        self.p = Tensor("p", (n, C), "positive", lambda i, d: exp(self.z(i, d)) * inv(self.mass(i)))
        self.loss = Loss(self.t, Softmax(self.p, self.z, self.mass))
        claim, proof = self.loss.gradient()
        self.law = instance_of("loss.logit-gradient", claim, proof)
        self.L = self.loss.value
        self.tau = tau_of(claim)
        self.r = Tensor("r", (n, C), body=lambda i, y: self.tau(i) * self.p(i, y) - self.t(i, y))

    def by(self, variable: Entry, slope: Callable[[Index, Index], Term], right: Term, why: str) -> Proved:
        """dL/dX for anything that acts through the logits; ``slope(i, y)`` is dz_iy/dX."""
        claim = Equation(Diff(self.L(), variable), right)

        def onto(at: Callable[[Index, Index], Term]) -> Term:
            return total(lambda r, d: Diff(self.L(), self.z(r, d)) * at(r, d), over=(n, C))

        written = lambda r, d: total(lambda k: self.g(r, k) * self.W(k, d), over=d_v) + self.c(d)
        proof = (
            Chain(claim.lhs)
            .through(onto(lambda r, d: Diff(self.z(r, d), variable)), "it acts through the logits alone", self.z)
            .definition(onto(lambda r, d: Diff(written(r, d), variable)), "the read-out is linear", self.z)
            .differentiate(onto(slope), "so its slope is what it is multiplied by", variable.tensor)
            .rewrite(
                total(lambda r, d: (self.tau(r) * self.p(r, d) - self.t(r, d)) * slope(r, d), over=(n, C)),
                "the logit gradient",
                self.law,
            )
            .definition(right, why, self.r)
        )
        return claim, proof


READ_OUT = ReadOut()


@proves("attention.upstream")
def upstream() -> list[Part]:
    it = READ_OUT
    right = total(lambda y: it.r(i, y) * it.W(c, y), over=C)
    claim, proof = it.by(
        it.g(i, c), lambda r, d: delta(r, i) * it.W(c, d), right, "the residual of row i, sent back through W_O"
    )
    return [Part("upstream", claim, proof, "r_i is the logit gradient, u_i the upstream gradient.")]


def _projection(
    H: Head, W: Tensor, out: Tensor, x: Tensor, law: Equation, name: str, component: Index
) -> tuple[Equation, Chain, Part]:
    """dL/dW = sum over rows of x^T dL/d(out), for out = x W + b."""
    row = Index("r", out.sizes[0])
    gradient = lambda at, comp: _at(law, at, comp)
    variable = W(f, component)
    claim = Equation(
        Diff(H.L(), variable),
        total(lambda r: x(r, f) * gradient(r, component), over=row.size),
    )
    over = (out.sizes[0], out.sizes[1])
    offset = {"W_Q": H.b_Q, "W_K": H.b_K, "W_V": H.b_V}[W.name]
    proof = (
        Chain(claim.lhs)
        .through(
            total(lambda r, h: Diff(H.L(), out(r, h)) * Diff(out(r, h), variable), over=over),
            f"it acts through {out.name} alone",
            out,
        )
        .definition(
            total(lambda r, h: Diff(H.L(), out(r, h)) * Diff(H.projected(x, W, r, h) + offset(h), variable), over=over),
            "a projection is linear",
            out,
        )
        .differentiate(
            total(lambda r, h: Diff(H.L(), out(r, h)) * (x(r, f) * delta(h, component)), over=over),
            "so its slope is the input",
            W,
        )
        .rewrite(total(lambda r: x(r, f) * gradient(r, component), over=row.size), "the law of the head", law)
    )
    return claim, proof, Part(name, claim, proof)


def _at(law: Equation, row: Index, component: Index) -> Term:
    """The right side of a law at other free indices."""
    own = axes(law.lhs)
    return rename(law.rhs, dict(zip(own, (row, component), strict=True)))


@proves("attention.projection-laws")
def projection_laws() -> list[Part]:
    H = HEAD
    query, key, value = (equation(f"attention.{x}-law") for x in ("query", "key", "value"))
    parts = [
        _projection(H, H.W_Q, H.q, H.x, query, "W_Q", e)[2],
        _projection(H, H.W_K, H.key, H.memory, key, "W_K", e)[2],
        _projection(H, H.W_V, H.v, H.memory, value, "W_V", c)[2],
        _value_bias(H, value),
    ]
    it = READ_OUT
    out, out_proof = it.by(
        it.W(c, y),
        lambda r, d: it.g(r, c) * delta(d, y),
        total(lambda i: it.g(i, c) * it.r(i, y), over=n),
        "every row adds its context times its residual",
    )
    shift, shift_proof = it.by(
        it.c(y), lambda r, d: delta(d, y), total(lambda i: it.r(i, y), over=n), "every row adds its residual"
    )
    return [*parts, Part("W_O", out, out_proof), Part("c_O", shift, shift_proof, "r_i is the logit gradient.")]


def _value_bias(H: Head, law: Equation) -> Part:
    """A value bias gets the upstream gradient of every row that attends to something, weighted by its total weight."""
    claim = Equation(
        Diff(H.L(), H.b_V(c)),
        total(lambda i: total(lambda j: H.a(i, j), over=H.columns) * H.u(i, c), over=H.rows),
    )
    over = (H.columns, d_v)
    proof = (
        Chain(claim.lhs)
        .through(
            total(lambda r, h: Diff(H.L(), H.v(r, h)) * Diff(H.v(r, h), H.b_V(c)), over=over),
            "it acts through the values alone",
            H.v,
        )
        .definition(
            total(
                lambda r, h: Diff(H.L(), H.v(r, h)) * Diff(H.projected(H.memory, H.W_V, r, h) + H.b_V(h), H.b_V(c)),
                over=over,
            ),
            "it is added to every value",
            H.v,
        )
        .differentiate(total(lambda r, h: Diff(H.L(), H.v(r, h)) * delta(h, c), over=over), "with slope one", H.b_V)
        .rewrite(total(lambda r: _at(law, r, c), over=H.columns), "the value law", law)
        .algebra(claim.rhs, "sum over keys first")
    )
    return Part("value-bias", claim, proof, "The total weight is 1 in rows that see a key and 0 in empty rows.")


@proves("attention.input-law")
def input_law() -> list[Part]:
    return [_self_attention(), _cross_attention("x"), _cross_attention("x'")]


def _pullback(H: Head, law: Equation, W: Tensor, size: Size, row: Index) -> Term:
    return total(lambda h: _at(law, row, h) * W(f, h), over=size)


def _self_attention() -> Part:
    H = Head(n, n, shared=True)
    laws = Laws(H)
    row = Index("i", n)
    right = (
        _pullback(H, laws.queries, H.W_Q, d_k, row)
        + _pullback(H, laws.keys, H.W_K, d_k, row)
        + _pullback(H, laws.values, H.W_V, d_v, row)
    )
    branches = [
        (H.q, H.W_Q, H.b_Q, laws.queries),
        (H.key, H.W_K, H.b_K, laws.keys),
        (H.v, H.W_V, H.b_V, laws.values),
    ]
    claim, proof = _inputs(H, H.x(row, f), H.x, branches, right, row)
    return Part(
        "self-attention", claim, proof, "The part through queries, keys and values; a residual path adds its own."
    )


def _cross_attention(which: str) -> Part:
    H = HEAD
    query, key, value = (equation(f"attention.{x}-law") for x in ("query", "key", "value"))
    if which == "x":
        row = Index("i", H.rows)
        x, branches = H.x, [(H.q, H.W_Q, H.b_Q, query)]
        right = _pullback(H, query, H.W_Q, d_k, row)
    else:
        row = Index("j", H.columns)
        x, branches = H.memory, [(H.key, H.W_K, H.b_K, key), (H.v, H.W_V, H.b_V, value)]
        right = _pullback(H, key, H.W_K, d_k, row) + _pullback(H, value, H.W_V, d_v, row)
    claim, proof = _inputs(H, x(row, f), x, branches, right, row)
    says = "The input of the queries." if which == "x" else "The input of keys and values, in cross-attention."
    return Part("queries' input" if which == "x" else "keys' input", claim, proof, says)


def _inputs(
    H: Head,
    variable: Entry,
    x: Tensor,
    branches: list[tuple[Tensor, Tensor, Tensor, Equation]],
    right: Term,
    row: Index,
) -> Proved:
    """dL/dx as the sum over what is projected from x."""
    claim = Equation(Diff(H.L(), variable), right)

    def over(out: Tensor, slope: Callable[[Index, Index], Term]) -> Term:
        return total(lambda r, h: Diff(H.L(), out(r, h)) * slope(r, h), over=out.sizes)  # type: ignore[arg-type]

    def summed(make: Callable[[Tensor, Tensor, Tensor], Term]) -> Term:
        terms = [make(out, W, b) for out, W, b, _ in branches]
        first = terms[0]
        for term in terms[1:]:
            first = first + term
        return first

    chain = (
        Chain(claim.lhs)
        .through(
            summed(lambda out, W, b: over(out, lambda r, h: Diff(out(r, h), variable))),
            "an input acts through its projections alone",
            *(out for out, *_ in branches),
        )
        .definition(
            summed(lambda out, W, b: over(out, lambda r, h: Diff(H.projected(x, W, r, h) + b(h), variable))),
            "projections are linear",
            *(out for out, *_ in branches),
        )
        .differentiate(
            summed(lambda out, W, b: over(out, lambda r, h: delta(r, row) * W(f, h))),
            "so their slope is the projection matrix",
            x,
        )
    )
    done: list[Tensor] = []
    for out, _, _, law in branches:
        done.append(out)
        terms = [
            _pullback(H, other_law, W, other.sizes[1], row)
            if other in done
            else over(other, lambda r, h, W=W: delta(r, row) * W(f, h))  # type: ignore[misc]
            for other, W, _, other_law in branches
        ]
        first = terms[0]
        for term in terms[1:]:
            first = first + term
        chain = chain.rewrite(first, f"the law of {out.name}", law)
    return claim, chain


# -- many heads ----------------------------------------------------------------------------------------------------


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


@proves("attention.multi-head")
def multi_head() -> list[Part]:
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
