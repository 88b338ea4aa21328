"""What the read-out sends back to the context."""

from __future__ import annotations

from collections.abc import Iterator

from bayesgrad.symbolic.terms import delta, total
from derivations.common.calls_of_heads import CROSS_ENTROPY
from derivations.common.calls_of_layers import BLOCK, BLOCK_SIZES, behind_head, block
from derivations.common.linear_read_out import c, i, the_read_out
from derivations.common.notation import C, d_v
from derivations.result import IDENTITY, P2, Part, Result, WrongRow

RESULT = Result(
    "attention.upstream",
    title="What the read-out sends back to the context",
    means="""The read-out pulls the context towards the directions of under-predicted classes: the error seen
    through the transposed read-out.""",
    fails="""It needs the linear read-out. With a deeper network after the head the upstream gradient is whatever
    comes back, and the laws below still hold.""",
    source=P2,
    routes=IDENTITY,
    implements=("bayesgrad.attention_block_gradients",),
)


@RESULT.proof
def proof() -> list[Part]:
    it = the_read_out()
    right = total(lambda y: it.r(i, y) * it.W(c, y), over=C)
    claim, proof = it.by(
        it.g(i, c), lambda r, d: delta(r, i) * it.W(c, d), right, "the residual of row i, sent back through W_O"
    )
    return [Part("upstream", claim, proof, "r_i is the logit gradient, u_i the upstream gradient.")]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    it = the_read_out()
    onto = lambda left: total(lambda y: left(y) * it.W(c, y), over=C)
    yield "upstream", "sign", "sign flipped", -onto(lambda y: it.r(i, y)), "u is dL/dg, not its negative"
    yield "upstream", "prediction", "target dropped", onto(lambda y: it.tau(i) * it.p(i, y)), "the residual, not p"
    yield (
        "upstream",
        "no-total",
        "total dropped",
        onto(lambda y: it.p(i, y) - it.t(i, y)),
        "targets need not sum to one",
    )
    mixed = total(lambda y: it.r(i, y) * total(lambda d: it.W(d, y), over=d_v), over=C)
    yield "upstream", "components-mixed", "component summed out", mixed, "each component has its own row of W_O"


@RESULT.code("upstream", BLOCK, bodies=behind_head, sizes=BLOCK_SIZES, shapes=1)
def _(shipped, t):
    return block(shipped, t, y=t["x'"]).attention.upstream[0, ...]


@RESULT.code("upstream", CROSS_ENTROPY)
def _(shipped, t):
    z = t.xp.matmul(t.g, t.W_O) + t.c_O
    r = shipped.cross_entropy(z, t.t, reduction="sum").logit_gradient
    return t.xp.matmul(r, t.xp.matrix_transpose(t.W_O))
