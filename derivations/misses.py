"""The tables of near misses, family by family: what people get wrong, written as terms."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from bayesgrad.symbolic.terms import Count, Index, Lookup, Term, delta, exp, inv, lift, log, rename, tensors_of, total
from derivations import bayes, cross_entropy, grouped_heads, projections
from derivations.laws import law
from derivations.notation import (
    HEAD,
    C,
    M,
    Z,
    a,
    b,
    bbar,
    c,
    d_k,
    d_v,
    d_x,
    e,
    f,
    g,
    i,
    j,
    k,
    l,
    m,
    n,
    p,
    s,
    scale,
    u,
    v,
)
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
    t = lambda *at: cross_entropy.SOFT(*at)
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
    yield "values", "averaged", "divided by the effective count", mean, "that is the mean pull, not the gradient"
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
    mixed = lambda weight: total(lambda t: weight(t) * J.f(t, x, y), over=J.Theta)
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


@misses("softmax.shift-invariance")
def _shift() -> Iterator[Row]:
    shift = next(t for t in tensors_of(law("softmax.shift-invariance").parts[0].claim.lhs) if t.name == "c")
    common = exp(shift(i))
    yield "shift", "scaled", "shift left in", a(i, j) * common, "numerator and mass both carry it"
    yield "shift", "divided", "shift divided out twice", a(i, j) * inv(common), "numerator and mass both carry it"
    yield "shift", "unnormalised", "mass dropped", M(i, j) * exp(s(i, j)), "weights sum to one"
    yield "shift", "unmasked", "mask dropped", exp(s(i, j)) * inv(Z(i)), "a masked key has weight 0"


@misses("softmax.fisher")
def _fisher() -> Iterator[Row]:
    plus = delta(j, k) * a(i, j) + a(i, j) * a(i, k)
    yield "jacobian", "plus", "sign flipped", plus, "the outer product is taken away"
    yield "jacobian", "diagonal", "diagonal only", delta(j, k) * a(i, j), "weights share one total"
    yield (
        "jacobian",
        "bernoulli",
        "diagonal of a(1-a)",
        delta(j, k) * a(i, j) * (1 - a(i, j)),
        "off the diagonal as well",
    )
    yield "jacobian", "unweighted", "weights dropped", delta(j, k) - a(i, k), "each entry carries a_ij"


@misses("attention.upstream")
def _upstream() -> Iterator[Row]:
    it = projections.READ_OUT
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


@misses("attention.delta-identity")
def _delta() -> Iterator[Row]:
    yield "delta", "sign", "sign flipped", -total(lambda c: u(i, c) * g(i, c), over=d_v), "the same sign on both sides"
    unweighted = total(lambda c: u(i, c) * total(lambda k: v(k, c), over=m), over=d_v)
    yield "delta", "unweighted", "weights dropped", unweighted, "the context is weighted"
    column = total(lambda r, c: u(r, c) * g(r, c), over=(n, d_v))
    yield "delta", "summed", "query summed out", column, "each query has its own mean"


@misses("attention.query-law")
def _queries() -> Iterator[Row]:
    key = HEAD.key
    term = lambda gap: total(lambda j: a(i, j) * gap(j) * key(j, e), over=m)
    right = lambda j: b(i, j) - bbar(i)
    yield "queries", "sign", "sign flipped", -(scale() * term(right)), "the gradient, not the step"
    yield "queries", "no-scale", "scale missing", term(right), "scores carry the scale"
    yield "queries", "no-mean", "mean dropped", scale() * term(lambda j: b(i, j)), "the normaliser takes the mean away"
    bare = scale() * total(lambda j: right(j) * key(j, e), over=m)
    yield "queries", "unweighted", "weights dropped", bare, "an unattended key pulls on nothing"
    yield "queries", "scale-twice", "scale squared", scale() ** 2 * term(right), "the scale enters once"


@misses("attention.key-law")
def _keys() -> Iterator[Row]:
    q = HEAD.q
    term = lambda gap: total(lambda i: a(i, j) * gap(i) * q(i, e), over=n)
    right = lambda i: b(i, j) - bbar(i)
    yield "keys", "sign", "sign flipped", -(scale() * term(right)), "the gradient, not the step"
    yield "keys", "no-scale", "scale missing", term(right), "scores carry the scale"
    yield "keys", "no-mean", "mean dropped", scale() * term(lambda i: b(i, j)), "the normaliser takes the mean away"
    column = total(lambda r: a(r, j) * b(r, j), over=n)
    yield (
        "keys",
        "column-mean",
        "column mean",
        scale() * term(lambda i: b(i, j) - column),
        "each query has its own mean",
    )


@misses("attention.projection-laws")
def _projections() -> Iterator[Row]:
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


@misses("attention.input-law")
def _inputs() -> Iterator[Row]:
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


@misses("attention.multi-head")
def _heads() -> Iterator[Row]:
    parts = {p.name: p for p in law("attention.multi-head").parts}
    it = grouped_heads.HEADS
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


@misses("attention.saturation-bound")
def _saturation() -> Iterator[Row]:
    R = next(t for t in tensors_of(law("attention.saturation-bound").parts[0].claim.rhs) if t.name == "R")
    weight = a(i, j)
    tight = Fraction(1, 2) * weight * (1 - weight) * R(i)
    pair = law("attention.saturation-bound").parts[2].claim.rhs
    yield "upper", "half", "bound halved", tight, "two keys reach the whole bound"
    yield "upper", "square", "weight squared", weight**2 * (1 - weight) * R(i), "one factor of the weight"
    yield "two-keys", "no-complement", "(1 - a) dropped", _without_complement(pair), "the other key has the rest"
    yield "two-keys", "sign", "sign flipped", -pair, "the key that is more compatible gets the positive gradient"


def _without_complement(pair: Term) -> Term:
    one = Lookup("j", (), m)()
    two = Lookup("k", (), m)()
    return a(i, one) * (b(i, one) - b(i, two))


@misses("lemma.variance-form")
def _variance() -> Iterator[Row]:
    part = law("lemma.variance-form").parts[0]
    yield "variance", "no-half", "half dropped", 2 * part.claim.rhs, "each pair comes twice"
    yield "variance", "sign", "sign flipped", -part.claim.rhs, "a variance is not negative"
    yield "variance", "zero", "nothing left", lift(0), "only where h is constant"


@misses("lemma.em-identity")
def _em_identity() -> Iterator[Row]:
    part = law("lemma.em-identity").parts[0]
    surrogate = law("lemma.em-identity").parts[1].claim.rhs
    yield "identity", "no-divergence", "divergence dropped", surrogate, "that is only a bound"
    yield "identity", "added", "divergence added", 2 * surrogate - part.claim.rhs, "the divergence is taken away"
    yield "identity", "sign", "sign flipped", -part.claim.rhs, "new minus old on both sides"


@misses("lemma.gibbs")
def _gibbs() -> Iterator[Row]:
    part = law("lemma.gibbs").parts[0]
    yield "gibbs", "reversed", "bound reversed", -part.claim.rhs, "a divergence is not negative"
    yield "gibbs", "shifted", "one taken away", part.claim.rhs - 1, "it can be 0"
    yield "gibbs", "halved-support", "log of p dropped", _cross_only(part.claim.rhs), "not a divergence"


def _cross_only(term: Term) -> Term:
    tensors = {t.name: t for t in tensors_of(term)}
    S, p_, q_ = tensors["S"], tensors["p"], tensors["q"]
    return total(lambda y: S(y) * p_(y) * log(q_(y)), over=m)
