"""The table of the code route, second part: projections, inputs, grouped heads, the whole block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayesgrad.symbolic.terms import Tensor, Term, exp, inv, total
from derivations.grouped_heads import HEADS
from derivations.notation import HEAD, C, d_k, d_v, d_x, n
from derivations.routes.code_route import ships
from derivations.routes.shipped import CROSS_ENTROPY, Bodies, Named, whole_head


def projections(shipped: Any, t: Any) -> Any:
    """The gradients of W_Q, W_K, W_V and their biases, through the head's own."""
    got = whole_head(shipped, t)
    return shipped.projections.projection_gradients(t.x, got.queries, got.keys, got.values, y=t["x'"])


PROJECTIONS = ("bayesgrad.projection_gradients", "bayesgrad.attention_gradients")


@ships("attention.projection-laws", "W_Q", *PROJECTIONS)
def _(shipped, t):
    return projections(shipped, t).W_Q


@ships("attention.projection-laws", "W_K", *PROJECTIONS)
def _(shipped, t):
    return projections(shipped, t).W_K


@ships("attention.projection-laws", "W_V", *PROJECTIONS)
def _(shipped, t):
    return projections(shipped, t).W_V


@ships("attention.projection-laws", "value-bias", *PROJECTIONS)
def _(shipped, t):
    return projections(shipped, t).c_V


def read_out(shipped: Any, t: Any) -> Any:
    """The gradients of the read-out; the head's own gradients are not asked for and stand for themselves."""
    z = t.xp.matmul(t.g, t.W_O) + t.c_O
    r = shipped.cross_entropy(z, t.t, reduction="sum").logit_gradient
    return shipped.projections.read_out_gradients(t.g, r)


READ_OUT = ("bayesgrad.read_out_gradients", CROSS_ENTROPY)


@ships("attention.projection-laws", "W_O", *READ_OUT)
def _(shipped, t):
    return read_out(shipped, t).W_O


@ships("attention.projection-laws", "c_O", *READ_OUT)
def _(shipped, t):
    return read_out(shipped, t).c_O


BLOCK = "bayesgrad.attention_block_gradients"
BLOCK_SIZES = (("d_x", 1), ("d_k", 5), ("d_v", 4), ("C", 6))


class ReadOut:
    """What stands behind a head in a block: z = g W_O + c_O, cross-entropy with soft targets t."""

    W, c, t = Tensor("W_O", (d_v, C)), Tensor("c_O", (C,)), Tensor("t", (n, C))

    def __init__(self, context: Callable[[Any, Any], Term]):
        self.z = Tensor(
            "z", (n, C), body=lambda i, y: total(lambda c: context(i, c) * self.W(c, y), over=d_v) + self.c(y)
        )
        self.mass = Tensor("Z'", (n,), body=lambda i: total(lambda y: exp(self.z(i, y)), over=C))
        self.r = Tensor(
            "r",
            (n, C),
            body=lambda i, y: (
                total(lambda d: self.t(i, d), over=C) * exp(self.z(i, y)) * inv(self.mass(i)) - self.t(i, y)
            ),
        )

    def upstream(self, i: Any, c: Any) -> Term:
        """u_i = r_i W_O^T."""
        return total(lambda y: self.r(i, y) * self.W(c, y), over=C)


def in_block(named: Named) -> Bodies:
    """The upstream gradient of the head is that of its read-out."""
    return {named["u"]: ReadOut(named["g"]).upstream}


def block(shipped: Any, t: Any, **options: Any) -> Any:
    """Every gradient of the whole block; ``options`` says whether keys and values have an input of their own."""
    return shipped.block.attention_block_gradients(
        t.x,
        t.W_Q,
        t.W_K,
        t.W_V,
        t.W_O,
        t.t,
        c_Q=t.b_Q,
        c_K=t.b_K,
        c_V=t.b_V,
        c_O=t.c_O,
        mask=t.mask(),
        bias=t.beta,
        scale=t.scale,
        reduction="sum",
        intermediates=True,
        **options,
    )


def _of_block(field: str) -> Callable[[Any, Any], Any]:
    return lambda shipped, t: getattr(block(shipped, t, y=t["x'"]), field)


for _part, _field in (("W_Q", "W_Q"), ("W_K", "W_K"), ("W_V", "W_V"), ("value-bias", "c_V")):
    ships("attention.projection-laws", _part, BLOCK, bodies=in_block, sizes=BLOCK_SIZES, shapes=1)(_of_block(_field))
for _part, _field in (("queries' input", "x"), ("keys' input", "y")):
    ships("attention.input-law", _part, BLOCK, bodies=in_block, sizes=BLOCK_SIZES, shapes=1)(_of_block(_field))


@ships("attention.input-law", "self-attention", BLOCK, bodies=in_block, sizes=BLOCK_SIZES, shapes=1)
def _(shipped, t):
    return block(shipped, t).x


def behind_head(named: Named) -> Bodies:
    """The context that the read-out sees is that of a head, made from its inputs."""
    return {named["g"]: lambda i, c: total(lambda j: HEAD.a(i, j) * HEAD.v(j, c), over=HEAD.columns)}


@ships("attention.upstream", "upstream", BLOCK, bodies=behind_head, sizes=BLOCK_SIZES, shapes=1)
def _(shipped, t):
    return block(shipped, t, y=t["x'"]).attention.upstream[0, ...]


for _part, _field in (("W_O", "W_O"), ("c_O", "c_O")):
    ships("attention.projection-laws", _part, BLOCK, bodies=behind_head, sizes=BLOCK_SIZES, shapes=1)(_of_block(_field))


@ships("attention.upstream", "upstream", CROSS_ENTROPY)
def _(shipped, t):
    z = t.xp.matmul(t.g, t.W_O) + t.c_O
    r = shipped.cross_entropy(z, t.t, reduction="sum").logit_gradient
    return t.xp.matmul(r, t.xp.matrix_transpose(t.W_O))


@ships("attention.input-law", "queries' input", "bayesgrad.input_gradients", PROJECTIONS[1])
def _(shipped, t):
    got = whole_head(shipped, t)
    back = shipped.projections.input_gradients(got.queries, got.keys, got.values, t.W_Q, t.W_K, t.W_V, cross=True)
    return back.x


@ships("attention.input-law", "keys' input", "bayesgrad.input_gradients", PROJECTIONS[1])
def _(shipped, t):
    got = whole_head(shipped, t)
    back = shipped.projections.input_gradients(got.queries, got.keys, got.values, t.W_Q, t.W_K, t.W_V, cross=True)
    return back.y


@ships("attention.input-law", "self-attention", "bayesgrad.input_gradients", PROJECTIONS[1])
def _(shipped, t):
    got = whole_head(shipped, t)
    return shipped.projections.input_gradients(got.queries, got.keys, got.values, t.W_Q, t.W_K, t.W_V).x


GROUPED = "bayesgrad.grouped_attention_gradients"
GROUPS = (("n", 3), ("m", 5), ("H", 4), ("G", 2), ("d_k", 1), ("d_v", 6))


def grouped(shipped: Any, t: Any) -> Any:
    return shipped.heads.grouped_attention_gradients(t.q, t.k, t.v, t.u, mask=t.mask(), scale=t.scale)


def scores_made(named: Named) -> Bodies:
    """Scores and weights by their definitions, so that the whole function is run."""
    return {named[name]: named[name].body for name in ("s", "a") if name in named}


@ships("attention.multi-head", "scores", GROUPED, sizes=GROUPS, bodies=scores_made)
def _(shipped, t):
    return grouped(shipped, t).scores


@ships("attention.multi-head", "values", GROUPED, sizes=GROUPS, bodies=scores_made)
def _(shipped, t):
    return grouped(shipped, t).values


@ships("attention.multi-head", "keys", GROUPED, sizes=GROUPS)
def _(shipped, t):
    return grouped(shipped, t).keys


@ships("attention.multi-head", "queries", GROUPED, sizes=GROUPS)
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


@ships("attention.multi-head", "upstream", BLOCK, bodies=behind_heads, sizes=HEADS_SIZES, patterns=("all", "holes"))
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
