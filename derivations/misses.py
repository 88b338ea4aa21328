"""The tables of near misses, family by family: what people get wrong, written as terms."""

from __future__ import annotations

from collections.abc import Iterator

from derivations import bayes, cross_entropy
from derivations.notation import C, L, a, b, bbar, c, d_v, i, j, k, l, m, n, p, u, v
from derivations.terms import Count, Term, delta, inv, log, total
from derivations.wrong_laws import misses

Row = tuple[str, str, str, Term, str]


@misses("softmax.jacobian")
def _jacobian() -> Iterator[Row]:
    same = delta(i, l)
    yield (
        "jacobian",
        "sign",
        "sign flipped",
        same * a(i, j) * (a(i, k) - delta(j, k)),
        "raising a score raises its weight",
    )
    yield (
        "jacobian",
        "diagonal",
        "diagonal only",
        same * delta(j, k) * a(i, j) * (1 - a(i, j)),
        "weights share one total",
    )
    yield "jacobian", "no-self", "mean dropped", same * delta(j, k) * a(i, j), "the normaliser moves too"
    yield (
        "jacobian",
        "wrong-weight",
        "index swapped",
        same * a(i, k) * (delta(j, k) - a(i, k)),
        "the first factor is a_ij",
    )
    yield "jacobian", "rows-mixed", "row delta dropped", a(i, j) * (delta(j, k) - a(i, k)), "rows are normalised apart"


@misses("loss.logit-gradient")
def _logits() -> Iterator[Row]:
    t = lambda *at: cross_entropy.SOFT(*at)  # noqa: E731
    at = cross_entropy.i, cross_entropy.d
    tau = total(lambda f: t(at[0], f), over=C)
    yield "soft", "sign", "sign flipped", t(*at) - tau * p(*at), "the gradient points from target to prediction"
    yield "soft", "no-total", "total dropped", p(*at) - t(*at), "only right where the targets sum to one"
    yield "soft", "scaled-target", "total on the wrong term", p(*at) - tau * t(*at), "the total weighs the prediction"
    yield (
        "soft",
        "column-total",
        "axes swapped",
        total(lambda r: t(r, at[1]), over=n) * p(*at) - t(*at),
        "rows, not columns",
    )
    w, y = cross_entropy.w, cross_entropy.y
    hit = delta(at[1], y(at[0]))
    yield "hard", "weight-once", "weight on one term", w(at[0]) * p(*at) - hit, "the weight scales the whole row"
    yield "hard", "no-weight", "weight dropped", p(*at) - hit, "the weight scales the whole row"


@misses("attention.weight-gradient")
def _weights() -> Iterator[Row]:
    yield "weights", "sign", "sign flipped", -b(i, j), "u is dL/dg, not its negative"
    yield "weights", "centred", "mean subtracted", b(i, j) - bbar(i), "weights are free here: nothing is centred"
    yield "weights", "weighted", "weight multiplied in", a(i, j) * b(i, j), "that factor comes with the scores"
    column = total(lambda r, c: u(r, c) * v(j, c), over=(n, d_v))
    yield "weights", "summed", "query summed out", column, "a_ij touches the context of query i alone"


@misses("attention.routing-law")
def _routing() -> Iterator[Row]:
    weight = a(i, j)
    uniform = inv(Count(m)) * total(lambda k: b(i, k), over=m)
    column = total(lambda r: a(r, j) * b(r, j), over=n)
    yield (
        "scores",
        "sign",
        "sign flipped",
        weight * (bbar(i) - b(i, j)),
        "that is the step of descent, not the gradient",
    )
    yield "scores", "no-mean", "mean dropped", weight * b(i, j), "the normaliser takes the mean away"
    yield "scores", "plus-mean", "mean added", weight * (b(i, j) + bbar(i)), "the mean is subtracted"
    yield "scores", "uniform-mean", "uniform mean", weight * (b(i, j) - uniform), "the mean is under the weights"
    yield "scores", "column-mean", "column mean", weight * (b(i, j) - column), "each query has its own mean"
    yield "scores", "diagonal", "diagonal only", weight * (1 - weight) * b(i, j), "the other weights move too"
    yield "scores", "no-weight", "weight dropped", b(i, j) - bbar(i), "an unattended key gets no gradient"


@misses("attention.value-law")
def _values() -> Iterator[Row]:
    yield "values", "sign", "sign flipped", -total(lambda i: a(i, j) * u(i, c), over=n), "u is dL/dg, not its negative"
    yield (
        "values",
        "unweighted",
        "weights dropped",
        total(lambda i: u(i, c), over=n),
        "a query moves what it attends to",
    )
    mean = total(lambda i: a(i, j) * u(i, c), over=n) * inv(total(lambda i: a(i, j), over=n))
    yield "values", "averaged", "divided by the responsibility", mean, "that is the mean pull, not the gradient"
    mixed = total(lambda i: a(i, j) * total(lambda f: u(i, f), over=d_v), over=n)
    yield "values", "components-mixed", "component summed out", mixed, "components do not mix"


@misses("bayes.risk-decomposition")
def _decomposition() -> Iterator[Row]:
    D, H, KL, w, X, Y = bayes.D, bayes.H, bayes.KL, bayes.w, bayes.X, bayes.Y
    yield "decomposition", "sign", "sign flipped", H() - total(lambda x: w(x) * KL(x), over=X), "a model cannot gain"
    yield (
        "decomposition",
        "unweighted",
        "context weights dropped",
        H() + total(lambda x: KL(x), over=X),
        "rare contexts count less",
    )
    back = total(lambda x, y: w(x) * D.S(x, y) * D.q(x, y) * (log(D.q(x, y)) - log(D.p(x, y))), over=(X, Y))
    yield "decomposition", "reversed", "arguments swapped", H() + back, "the mean is under the truth"


@misses("bayes.posterior-predictive")
def _mixture() -> Iterator[Row]:
    J, x, y = bayes.Joint, bayes.x, bayes.y
    mixed = lambda weight: total(lambda t: weight(t) * J.f(t, x, y), over=J.Theta)  # noqa: E731
    yield (
        "mixture",
        "uniform",
        "uniform weights",
        mixed(lambda t: inv(Count(J.Theta))),
        "the context reweighs the parameters",
    )
    yield "mixture", "unweighted", "weights dropped", mixed(lambda t: delta(t, t)), "p(theta|c) is missing"
    yield (
        "mixture",
        "squared",
        "posterior used twice",
        mixed(lambda t: J.h(t, J.c) * J.h(t, J.c)),
        "the evidence counts once",
    )
    gap = 2 * bayes.H() - bayes.R()
    yield "optimum", "below-entropy", "bound reversed", gap, "no model goes below the entropy"


__all__ = ["L", "l"]
