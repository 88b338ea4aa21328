"""The gradient of the input through queries, keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Diff, Entry, Index, Size, Tensor, Term, delta, rename, total
from derivations.common.any_head import Proved, keys, queries, scores, values, weights
from derivations.common.calls_of_heads import whole_head
from derivations.common.calls_of_layers import BLOCK, BLOCK_SIZES, PROJECTIONS, _of_block, block, in_block
from derivations.common.linear_read_out import _at, f
from derivations.common.notation import HEAD, Head, a, b, bbar, d_k, d_v, d_x, i, m, n, scale
from derivations.common.softmax import Softmax
from derivations.laws import equation, instance_of, law
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow

RESULT = Result(
    "attention.input-law",
    title="The gradient of the input through queries, keys and values",
    means="""An input is pulled three times: as a query, as a key and as a value; the gradient is the sum.""",
    fails="""A residual path adds its own term. In cross-attention the query part belongs to one input, the key and
    value parts to the other.""",
    source=OURS,
    routes=IDENTITY,
    implements=("bayesgrad.input_gradients",),
)


@RESULT.proof
def proof() -> list[Part]:
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
        (H.q, H.W_Q, H.c_Q, laws.queries),
        (H.key, H.W_K, H.c_K, laws.keys),
        (H.v, H.W_V, H.c_V, laws.values),
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
        x, branches = H.x, [(H.q, H.W_Q, H.c_Q, query)]
        right = _pullback(H, query, H.W_Q, d_k, row)
    else:
        row = Index("j", H.columns)
        x, branches = H.memory, [(H.key, H.W_K, H.c_K, key), (H.v, H.W_V, H.c_V, value)]
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
    for out, _, _, known in branches:
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
        chain = chain.rewrite(first, f"the law of {out.name}", known)
    return claim, chain


class Laws:
    """The four laws of a head other than the standard one, proved again for it."""

    def __init__(self, H: Head):
        self.jacobian = instance_of("softmax.jacobian", *Softmax(H.a, H.s, H.Z, H.M).jacobian())
        onto_weights = instance_of("attention.weight-gradient", *weights(H))
        self.routing = instance_of("attention.routing-law", *scores(H, onto_weights, self.jacobian))
        self.values = instance_of("attention.value-law", *values(H))
        self.queries = instance_of("attention.query-law", *queries(H, self.routing))
        self.keys = instance_of("attention.key-law", *keys(H, self.routing))


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    H = HEAD
    query = lambda h: scale() * total(lambda j: a(i, j) * (b(i, j) - bbar(i)) * H.key(j, h), over=m)
    row = Index("i", n)
    at = lambda t: rename(t, {i: row})
    right = at(total(lambda h: query(h) * H.W_Q(f, h), over=d_k))
    part = law("attention.input-law").parts[1]
    own = next(x for x in part.order if x.size == n)
    place = lambda t: rename(t, {row: own, f: next(x for x in part.order if x.size == d_x)})
    yield part.name, "sign", "sign flipped", place(-right), "the gradient, not the step"
    crossed = at(total(lambda h: query(h) * H.W_K(f, h), over=d_k))
    yield part.name, "wrong-matrix", "W_K for W_Q", place(crossed), "queries come back through W_Q"
    yield part.name, "twice", "counted twice", place(2 * right), "one path from input to query"
    flat = at(total(lambda h: query(h) * total(lambda r: H.W_Q(r, h), over=d_x), over=d_k))
    yield part.name, "components-mixed", "component summed out", place(flat), "each component has its own row"


for _part, _field in (("queries' input", "x"), ("keys' input", "y")):
    RESULT.code(_part, BLOCK, bodies=in_block, sizes=BLOCK_SIZES, shapes=1)(_of_block(_field))


@RESULT.code("self-attention", BLOCK, bodies=in_block, sizes=BLOCK_SIZES, shapes=1)
def _(shipped, t):
    return block(shipped, t).x


@RESULT.code("queries' input", "bayesgrad.input_gradients", PROJECTIONS[1])
def _(shipped, t):
    got = whole_head(shipped, t)
    back = shipped.projections.input_gradients(got.queries, got.keys, got.values, t.W_Q, t.W_K, t.W_V, cross=True)
    return back.x


@RESULT.code("keys' input", "bayesgrad.input_gradients", PROJECTIONS[1])
def _(shipped, t):
    got = whole_head(shipped, t)
    back = shipped.projections.input_gradients(got.queries, got.keys, got.values, t.W_Q, t.W_K, t.W_V, cross=True)
    return back.y


@RESULT.code("self-attention", "bayesgrad.input_gradients", PROJECTIONS[1])
def _(shipped, t):
    got = whole_head(shipped, t)
    return shipped.projections.input_gradients(got.queries, got.keys, got.values, t.W_Q, t.W_K, t.W_V).x
