"""The gradients of the projections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Count, Diff, Index, Tensor, delta, inv, total
from derivations.common.calls_of_heads import CROSS_ENTROPY, whole_head
from derivations.common.calls_of_layers import BLOCK, BLOCK_SIZES, PROJECTIONS, _of_block, behind_head, in_block
from derivations.common.linear_read_out import _at, c, e, f, the_read_out, y
from derivations.common.notation import HEAD, Head, a, b, bbar, d_v, m, n, scale, u
from derivations.laws import equation
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

RESULT = Result(
    "attention.projection-laws",
    title="The gradients of the projections",
    means="""Every weight matrix collects outer products: what went in times the gradient of what came out.""",
    fails="""Biases have their own laws; the value bias counts non-empty rows only.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.projection_gradients", "bayesgrad.read_out_gradients"),
    headline=("W_Q", "W_K", "W_V", "W_O"),
)


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
    offset = {"W_Q": H.c_Q, "W_K": H.c_K, "W_V": H.c_V}[W.name]
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


@RESULT.proof
def proof() -> list[Part]:
    H = HEAD
    query, key, value = (equation(f"attention.{x}-law") for x in ("query", "key", "value"))
    parts = [
        _projection(H, H.W_Q, H.q, H.x, query, "W_Q", e)[2],
        _projection(H, H.W_K, H.key, H.memory, key, "W_K", e)[2],
        _projection(H, H.W_V, H.v, H.memory, value, "W_V", c)[2],
        _value_bias(H, value),
    ]
    it = the_read_out()
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
        Diff(H.L(), H.c_V(c)),
        total(lambda i: total(lambda j: H.a(i, j), over=H.columns) * H.u(i, c), over=H.rows),
    )
    over = (H.columns, d_v)
    proof = (
        Chain(claim.lhs)
        .through(
            total(lambda r, h: Diff(H.L(), H.v(r, h)) * Diff(H.v(r, h), H.c_V(c)), over=over),
            "it acts through the values alone",
            H.v,
        )
        .definition(
            total(
                lambda r, h: Diff(H.L(), H.v(r, h)) * Diff(H.projected(H.memory, H.W_V, r, h) + H.c_V(h), H.c_V(c)),
                over=over,
            ),
            "it is added to every value",
            H.v,
        )
        .differentiate(total(lambda r, h: Diff(H.L(), H.v(r, h)) * delta(h, c), over=over), "with slope one", H.c_V)
        .rewrite(total(lambda r: _at(law, r, c), over=H.columns), "the value law", law)
        .algebra(claim.rhs, "sum over keys first")
    )
    return Part("value-bias", claim, proof, "The total weight is 1 in rows that see a key and 0 in empty rows.")


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    H = HEAD
    query = lambda i: scale() * total(lambda j: a(i, j) * (b(i, j) - bbar(i)) * H.key(j, e), over=m)
    yield "W_Q", "sign", "sign flipped", -total(lambda i: H.x(i, f) * query(i), over=n), "the gradient, not the step"
    yield "W_Q", "input-dropped", "input dropped", total(lambda i: query(i), over=n), "that is the gradient of the bias"
    pooled = total(lambda i: H.x(i, f), over=n) * total(lambda i: query(i), over=n)
    yield "W_Q", "pooled", "rows pooled first", pooled, "each row meets its own input"
    pull = lambda j: total(lambda i: a(i, j) * u(i, c), over=n)
    plain = total(lambda j: H.memory(j, f) * total(lambda i: u(i, c), over=n), over=m)
    yield "W_V", "unweighted", "weights dropped", plain, "a query moves what it attends to"
    yield "value-bias", "per-key", "mean over keys", inv(Count(m)) * total(lambda j: pull(j), over=m), "keys add up"


def projections(shipped: Any, t: Any) -> Any:
    """The gradients of W_Q, W_K, W_V and their biases, through the head's own."""
    got = whole_head(shipped, t)
    return shipped.projections.projection_gradients(t.x, got.queries, got.keys, got.values, y=t["x'"])


@RESULT.code("W_Q", *PROJECTIONS)
def _(shipped, t):
    return projections(shipped, t).W_Q


@RESULT.code("W_K", *PROJECTIONS)
def _(shipped, t):
    return projections(shipped, t).W_K


@RESULT.code("W_V", *PROJECTIONS)
def _(shipped, t):
    return projections(shipped, t).W_V


@RESULT.code("value-bias", *PROJECTIONS)
def _(shipped, t):
    return projections(shipped, t).c_V


def read_out(shipped: Any, t: Any) -> Any:
    """The gradients of the read-out; the head's own gradients are not asked for and stand for themselves."""
    z = t.xp.matmul(t.g, t.W_O) + t.c_O
    r = shipped.cross_entropy(z, t.t, reduction="sum").logit_gradient
    return shipped.projections.read_out_gradients(t.g, r)


READ_OUT = ("bayesgrad.read_out_gradients", CROSS_ENTROPY)


@RESULT.code("W_O", *READ_OUT)
def _(shipped, t):
    return read_out(shipped, t).W_O


@RESULT.code("c_O", *READ_OUT)
def _(shipped, t):
    return read_out(shipped, t).c_O


for _part, _field in (("W_Q", "W_Q"), ("W_K", "W_K"), ("W_V", "W_V"), ("value-bias", "c_V")):
    RESULT.code(_part, BLOCK, bodies=in_block, sizes=BLOCK_SIZES, shapes=1)(_of_block(_field))

for _part, _field in (("W_O", "W_O"), ("c_O", "c_O")):
    RESULT.code(_part, BLOCK, bodies=behind_head, sizes=BLOCK_SIZES, shapes=1)(_of_block(_field))
