"""Near misses of families A (over time), C and D: signs, dropped conditions, wrong means, the wrong object frozen."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from bayesgrad.symbolic.terms import Count, Tensor, Term, exp, inv, lift, tensors_of, total
from derivations import dynamics, em, feedback
from derivations.laws import Part, law
from derivations.misses import Row
from derivations.notation import HEAD, d_v
from derivations.wrong_laws import misses

H = HEAD
n, m = H.rows, H.columns
i, j, k, l, c = H.i, H.j, H.k, H.l, dynamics.c
eta = dynamics.eta


def part_of(label: str, name: str) -> Part:
    """One part of a law by name."""
    return next(p for p in law(label).parts if p.name == name)


def tensor_of(part: Part, name: str) -> Tensor:
    """A tensor that a claim mentions, by name."""
    return next(t for t in tensors_of(part.claim.lhs) | tensors_of(part.claim.rhs) if t.name == name)


@misses("dynamics.loss-decrease")
def _loss() -> Iterator[Row]:
    right = part_of("dynamics.loss-decrease", "gradient-step").claim.rhs
    yield "gradient-step", "sign", "sign flipped", -right, "a small step down lowers the loss"
    yield "gradient-step", "half", "half of it", Fraction(1, 2) * right, "the half belongs to the second order"
    yield "gradient-step", "nothing", "no change", lift(0), "only where the gradient is 0"


@misses("dynamics.value-step")
def _value_step() -> Iterator[Row]:
    right = part_of("dynamics.value-step", "context").claim.rhs
    yield "context", "sign", "sign flipped", -right, "the step goes down"
    alone = -(eta() * total(lambda j: H.a(i, j) ** 2, over=m) * H.u(i, c))
    yield "context", "diagonal", "diagonal only", alone, "other queries move the same values"
    summed = -(eta() * total(lambda l: H.u(l, c), over=n))
    yield "context", "unweighted", "weights dropped", summed, "queries meet in the keys that both attend to"
    yield "context", "no-rate", "step size missing", right * inv(eta()), "the step carries eta"


@misses("dynamics.score-step")
def _score_step() -> Iterator[Row]:
    weight, gap = H.a(i, j), H.A(i, j)
    yield "step", "sign", "sign flipped", -(eta() * weight * gap), "descent raises what has positive advantage"
    yield "step", "no-weight", "weight dropped", eta() * gap, "that is the natural direction"
    yield "step", "compatibility", "compatibility for advantage", -(eta() * weight * H.b(i, j)), "the mean is missing"
    ds = tensor_of(part_of("dynamics.score-step", "context"), "ds")
    flat = total(lambda j: H.a(i, j) * ds(i, j) * H.v(j, c), over=m)
    yield "context", "no-mean", "mean dropped", flat, "a common change of the scores does nothing"


@misses("dynamics.feedback")
def _feedback() -> Iterator[Row]:
    right = part_of("dynamics.feedback", "advantage").claim.rhs
    own = eta() * feedback.inner(i, i) * (H.a(i, j) - total(lambda k: H.a(i, k) ** 2, over=m))
    yield "advantage", "sign", "sign flipped", -right, "the step goes down"
    yield "advantage", "one-query", "other queries dropped", own, "holds for one query, or orthogonal pulls"
    yield "advantage", "no-mean", "mean dropped", eta() * feedback.echo(i, j), "the mean compatibility moves too"
    yield "compatibility", "compatibility-sign", "sign flipped", eta() * feedback.echo(i, j), "the step goes down"
    grows = eta() * feedback.inner(i, i) * H.a(i, j)
    yield "uniform", "uniform-grows", "uniform attention reinforces", grows, "it is neutral"


@misses("dynamics.feedback-full")
def _feedback_full() -> Iterator[Row]:
    part = part_of("dynamics.feedback-full", "compatibility")
    u, dv = tensor_of(part, "u"), tensor_of(part, "dv")
    frozen = total(lambda c: u(i, c) * dv(j, c), over=d_v)
    yield "compatibility", "frozen", "u frozen", frozen, "u moves at the same order"
    yield "compatibility", "values-frozen", "values frozen", part.claim.rhs - frozen, "values move too"
    yield "compatibility", "sign", "sign flipped", -part.claim.rhs, "both sides grow alike"


@misses("dynamics.weight-space")
def _weight_space() -> Iterator[Row]:
    right = part_of("dynamics.weight-space", "matrix").claim.rhs
    token = -(eta() * dynamics.pull(j, c))
    yield "matrix", "per-token", "the law per token", token, "needs orthonormal inputs"
    yield "matrix", "sign", "sign flipped", -right, "the step goes down"
    yield "matrix", "with-bias", "a bias that is not there", right + token, "without a bias nothing is shared"


@misses("dynamics.natural-routing")
def _natural() -> Iterator[Row]:
    part = part_of("dynamics.natural-routing", "replicator")
    a, b, mean = (tensor_of(part, x) for x in ("a", "b", "bbar"))
    yield "replicator", "sign", "sign flipped", a(j) * (b(j) - mean()), "costs drive weights down"
    yield "replicator", "no-mean", "mean dropped", -(a(j) * b(j)), "weights keep their total"
    yield "replicator", "plain", "weight squared", -(a(j) ** 2 * (b(j) - mean())), "that is the plain score gradient"
    uniform = inv(Count(m)) * total(lambda k: b(k), over=m)
    yield "replicator", "uniform-mean", "uniform mean", -(a(j) * (b(j) - uniform)), "the mean is under the weights"


@misses("dynamics.frame-precision")
def _frame() -> Iterator[Row]:
    others = total(lambda l: H.a(l, j) * H.u(l, c), over=n) - H.a(i, j) * H.u(i, c)
    yield "value-limit", "vanishes", "value gradient vanishes", lift(0), "saturated rows go on moving values"
    yield "value-limit", "alone", "other queries dropped", H.u(i, c), "other queries attend to the key too"
    yield "value-limit", "too-early", "limit taken", H.u(i, c) + others, "only at a_ij = 1"


@misses("em.fisher-identity")
def _fisher_identity() -> Iterator[Row]:
    part = part_of("em.fisher-identity", "cost")
    pi, r = tensor_of(part, "pi"), tensor_of(part, "r")
    key = part.order[0]
    yield "cost", "sign", "sign flipped", -r(key), "a cost that rises raises the loss"
    yield "cost", "prior", "prior for posterior", pi(key), "responsibilities weigh the priors by the likelihoods"
    yield "cost", "squared", "squared", r(key) ** 2, "one responsibility"


@misses("em.proximal-e-step")
def _e_step() -> Iterator[Row]:
    claim = part_of("em.proximal-e-step", "minimum").claim
    mean = next(t for t in tensors_of(claim.rhs) if t.name == "b")
    S, a = (next(t for t in tensors_of(claim.rhs) if t.name == x) for x in ("S", "a"))
    cost = total(lambda j: S(j) * a(j) * mean(j), over=m)
    yield "minimum", "no-prox", "distance dropped", cost, "without the distance to a0 the objective can be lower"
    yield "minimum", "reversed", "distance subtracted", 2 * cost - claim.rhs, "the distance is a penalty"
    yield "minimum", "shifted", "one taken away", claim.rhs - 1, "the minimum is reached"


@misses("em.proximal-m-step")
def _m_step() -> Iterator[Row]:
    claim = part_of("em.proximal-m-step", "minimum").claim
    a, u, v = (next(t for t in tensors_of(claim.rhs) if t.name == x) for x in ("a", "u", "v"))
    work = total(lambda i, j: a(i, j) * total(lambda c: u(i, c) * v(j, c), over=d_v), over=(n, m))
    yield "minimum", "no-prox", "distance dropped", work, "a linear objective has no minimum"
    yield "minimum", "reversed", "distance subtracted", 2 * work - claim.rhs, "the distance is a penalty"
    yield "minimum", "shifted", "one taken away", claim.rhs - 1, "the minimum is reached"


@misses("em.gaussian-mixture")
def _mixture() -> Iterator[Row]:
    it = em.GAUSSIAN
    near = lambda j: exp(-(it.half * it.scale() * it.distance(j)))
    far = lambda j: exp(-(it.scale() * it.distance(j)))
    tall = lambda j: exp(it.half * it.scale() * it.norm(j))
    row = "responsibilities"
    yield row, "no-prior", "norms forgotten", it.normalised(lambda j: it.pi(j) * near(j)), "long keys have more prior"
    yield row, "uniform", "priors dropped", it.normalised(lambda j: tall(j) * near(j)), "pi_j weighs the keys"
    yield row, "no-half", "half dropped", it.normalised(lambda j: it.pi(j) * tall(j) * far(j)), "the half is Gaussian"


@misses("bayes.hmm-filter")
def _filter() -> Iterator[Row]:
    part = part_of("bayes.hmm-filter", "next-observation")
    alpha, T, E = (tensor_of(part, x) for x in ("alpha", "T", "E"))
    (o,) = part.order
    S = alpha.sizes[0]
    mass = inv(total(lambda s: alpha(s), over=S))
    stay = total(lambda s: alpha(s) * mass * E(s, o), over=S)
    yield "next-observation", "no-transition", "transition dropped", stay, "the state moves before it emits"
    back = total(lambda r: total(lambda s: alpha(s) * mass * T(r, s), over=S) * E(r, o), over=S)
    yield "next-observation", "transposed", "T transposed", back, "rows of T are where a state goes"
    yield "next-observation", "unnormalised", "normaliser dropped", _unnormalised(part), "alpha is a joint probability"


def _unnormalised(part: Part) -> Term:
    alpha, T, E = (tensor_of(part, x) for x in ("alpha", "T", "E"))
    (o,) = part.order
    S = alpha.sizes[0]
    return total(lambda r: total(lambda s: alpha(s) * T(s, r), over=S) * E(r, o), over=S)


@misses("bayes.sticky-markov")
def _sticky() -> Iterator[Row]:
    part = part_of("bayes.sticky-markov", "predictive")
    alpha, T = (tensor_of(part, x) for x in ("alpha", "T"))
    (r,) = part.order
    S = alpha.sizes[0]
    mass = inv(total(lambda s: alpha(s), over=S))
    yield "predictive", "no-transition", "transition dropped", alpha(r) * mass, "y_t is one step after what was seen"
    back = total(lambda s: alpha(s) * mass * T(r, s), over=S)
    yield "predictive", "transposed", "P transposed", back, "rows of P are where a state goes"
    plain = total(lambda s: alpha(s) * T(s, r), over=S)
    yield "predictive", "unnormalised", "normaliser dropped", plain, "the filter is a joint probability"


@misses("bayes.bijection")
def _bijection() -> Iterator[Row]:
    part = part_of("bayes.bijection", "count")
    V = part.claim.rhs
    sizes = {s.name: s for t in tensors_of(part_of("bayes.bijection", "new-key").claim.lhs) for s in t.sizes}
    values = sizes["V"]
    yield "count", "all", "pairs forgotten", Count(values), "each pair takes one value out"
    yield "count", "one-less", "one less", V - 1, "m pairs take m values out"
    yield "count", "sign", "sign flipped", -V, "a count is not negative"
