"""dL/ds_ij = a_ij (b_ij - bbar_i) = -a_ij A_ij: the routing law, scores move by advantage."""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Eq, Integer, Mul, Sum

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import At, Diff, Index, Lookup, delta, exp, inv, lift, total
from derivations.common.any_head import by_scores, scores
from derivations.common.calls_of_heads import head_drawn, whole_head
from derivations.common.head_in_sympy import BOOK, A, L, M, a, b, bbar, g, i, j, k, l, m, n, s, v
from derivations.common.notation import HEAD as H
from derivations.common.softmax import SEES, fisher_entry
from derivations.free_axes import axes
from derivations.laws import equation, instance_of
from derivations.result import IDENTITY_RUN, P2, Part, Result, WrongRow, becomes, stated, uses

RESULT = Result(
    "attention.routing-law",
    title="The routing law: scores move by advantage",
    means="""A score moves by its weight times how much *better than the row's average* its value is. Average keys
    stay, however large their own compatibility; unseen keys stay at zero.""",
    fails="""It holds for any loss and any network downstream. It says nothing about a key of weight zero, which
    gets no gradient however good its value would be.""",
    source=P2,
    routes=IDENTITY_RUN,
    implements=("bayesgrad.score_gradient", "bayesgrad.advantage"),
    headline=("scores", "advantage", "fisher"),
)


GRADIENT = Derivative(L(g), s[i, j])
DRAWN = {s: None, v: None}


@RESULT.proof
def proof() -> list[Part]:
    chain = scores(H, equation("attention.weight-gradient"), equation("softmax.jacobian"))[1]
    right = a[i, j] * (b[i, j] - bbar[i])
    minus = Mul(-1, a[i, j], A[i, j], evaluate=False)  # in the order in which one reads it
    first = stated(BOOK, "scores", Eq(GRADIENT, right), sample=DRAWN, by=chain)
    law = instance_of("attention.routing-law", first.claim, first.proof)
    return [
        first,
        stated(
            BOOK,
            "advantage",
            Eq(GRADIENT, minus),
            uses("the law", law, right),
            becomes("the advantage is bbar - b", minus, A),
            sample=DRAWN,
            says="Descent raises a score where the compatibility is below its mean.",
        ),
        _by_fisher(law),
        _rows_sum_to_zero(law),
        stated(
            BOOK,
            "masked",
            Eq((1 - M[i, j]) * GRADIENT, 0),
            uses("the law", law, (1 - M[i, j]) * right),
            becomes("a masked pair has weight 0", Integer(0), a),
            sample=DRAWN,
            says="Masked pairs have gradient exactly 0.",
        ),
        _single_key(law),
        _bias(law),
    ]


def _by_fisher(law: Equation) -> Part:
    i, j, m = H.i, H.j, H.columns
    is_jacobian = equation("softmax.fisher", "jacobian")
    claim = Equation(law.lhs, total(lambda k: Diff(H.a(i, j), H.s(i, k)) * H.b(i, k), over=m), sample=law.sample)
    proof = (
        Chain(law.lhs)
        .rewrite(law.rhs, "the law", law)
        .definition(
            total(lambda k: fisher_entry(i, j, k) * H.b(i, k), over=m), "diag(a) b minus a times the mean", H.bbar
        )
        .rewrite(
            claim.rhs,
            "F_i is the Jacobian of row i",
            is_jacobian,
            lambda hole: total(lambda k: hole(*_as(is_jacobian, i, j, k)) * H.b(i, k), over=m),
        )
    )
    return Part("fisher", claim, proof, "The score gradient is (F_i b_i)_j.")


def _as(eq: Equation, row: Index, left: Index, right: Index) -> tuple[Index, ...]:
    """The hole's indices in the order in which the equation's free indices were made."""
    given = {"i": row, "j": left, "k": right}
    return tuple(given[x.name] for x in sorted(axes(eq.lhs, eq.rhs), key=lambda x: x.uid))


def _rows_sum_to_zero(law: Equation) -> Part:
    i, m = H.i, H.columns
    normalised = equation("softmax.jacobian", "normalisation")
    claim = Equation(total(lambda j: Diff(H.L(), H.s(i, j)), over=m), lift(0), given=(SEES,), sample=law.sample)
    proof = (
        Chain(claim.lhs)
        .rewrite(total(lambda j: H.a(i, j) * (H.b(i, j) - H.bbar(i)), over=m), "the law", law)
        .definition(
            H.bbar(i) - H.bbar(i) * total(lambda j: H.a(i, j), over=m), "the first sum is the mean itself", H.bbar
        )
        .rewrite(lift(0), "the weights sum to one", normalised, lambda h: H.bbar(i) - H.bbar(i) * h(i))
    )
    return Part("row-sum", claim, proof, "In a row that sees nothing every term is 0.")


def _single_key(law: Equation) -> Part:
    i, k, m = H.i, H.k, H.columns
    only: At = Lookup("j", (), m)()
    alone = Equation(
        H.M(i, k),
        delta(k, only),
        (k,),
        says="query i sees one key only",
        sample={H.M: lambda r, k: delta(k, only)},
    )
    claim = Equation(Diff(H.L(), H.s(i, k)), lift(0), given=(alone,), sample=law.sample)
    visible = H.M(i, k) * exp(H.s(i, k)) * inv(total(lambda r: H.M(i, r) * exp(H.s(i, r)), over=m))
    mean = total(lambda r: H.M(i, r) * exp(H.s(i, r)) * H.b(i, r), over=m) * inv(
        total(lambda r: H.M(i, r) * exp(H.s(i, r)), over=m)
    )
    proof = (
        Chain(claim.lhs)
        .rewrite(H.a(i, k) * (H.b(i, k) - H.bbar(i)), "the law", law)
        .definition(visible * (H.b(i, k) - mean), "write the weights out", H.a, H.Z, H.bbar)
        .rewrite(lift(0), "the mean is the compatibility of that key", alone)
    )
    return Part("single-key", claim, proof, "A single visible key gets no routing gradient.")


def _bias(law: Equation) -> Part:
    i, j = H.i, H.j
    claim, proof = by_scores(
        H, H.bias(i, j), lambda r, k: delta(r, i) * delta(k, j), law.rhs, law, "only the pair (i, j) is left"
    )
    return Part("bias", claim, proof, "The gradient in an additive bias is the score gradient.")


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    read, weight, gap = BOOK.read, a[i, j], b[i, j] - bbar[i]
    uniform = Sum(b[i, k], (k, 0, m - 1)) / m
    column = Sum(a[l, j] * b[l, j], (l, 0, n - 1))
    yield "scores", "sign", "sign flipped", read(-weight * gap), "that is the step of descent, not the gradient"
    yield "scores", "no-mean", "mean dropped", read(weight * b[i, j]), "the normaliser takes the mean away"
    yield "scores", "plus-mean", "mean added", read(weight * (b[i, j] + bbar[i])), "the mean is subtracted"
    yield "scores", "uniform-mean", "uniform mean", read(weight * (b[i, j] - uniform)), "the mean is under the weights"
    yield "scores", "column-mean", "column mean", read(weight * (b[i, j] - column)), "each query has its own mean"
    yield "scores", "diagonal", "diagonal only", read(weight * (1 - weight) * b[i, j]), "the other weights move too"
    yield "scores", "no-weight", "weight dropped", read(gap), "an unattended key gets no gradient"


@RESULT.code("scores", "bayesgrad.score_gradient", "bayesgrad.compatibility")
def _(shipped, t):
    return shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v))


@RESULT.code("scores", "bayesgrad.attention_gradients", bodies=head_drawn)
def _(shipped, t):
    return whole_head(shipped, t).scores


@RESULT.code("advantage", "bayesgrad.advantage")
def _(shipped, t):
    return -t.a * shipped.gradients.advantage(t.a, shipped.gradients.compatibility(t.u, t.v))


@RESULT.code("fisher", "bayesgrad.fisher", "bayesgrad.compatibility")
def _(shipped, t):
    b = t.xp.expand_dims(shipped.gradients.compatibility(t.u, t.v), axis=-1)
    return t.xp.matmul(shipped.fisher(t.a), b)[..., 0]


@RESULT.code("row-sum", "bayesgrad.score_gradient")
def _(shipped, t):
    return t.xp.sum(shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v)), axis=-1)


@RESULT.code("masked", "bayesgrad.attention_gradients", bodies=head_drawn)
def _(shipped, t):
    return (1 - t.M) * whole_head(shipped, t).scores


@RESULT.code("single-key", "bayesgrad.score_gradient")
def _(shipped, t):
    return shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v))


@RESULT.code("bias", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).bias
