"""Family B, the outer layers: read-out, projections and inputs.

z_i = g_i W_O + c_O     r_i = dL/dz_i = tau_i p_i - t_i     q_i = x_i W_Q + b_Q, k_j and v_j likewise from x'
"""

from __future__ import annotations

from collections.abc import Callable

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Entry, Index, Size, Tensor, Term, delta, exp, inv, rename, total
from derivations.attention import Laws, Proved
from derivations.cross_entropy import SOFT, Loss, tau_of
from derivations.laws import Part, axes, equation, instance_of, proves
from derivations.notation import HEAD, C, Head, d_k, d_v, d_x, n
from derivations.softmax import Softmax

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
        self.claim, self.proof = claim, proof
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
                instance_of("loss.logit-gradient", self.claim, self.proof),
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
