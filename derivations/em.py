"""Family D: what "EM" means exactly, and what it does not.

    argmin_a sum_j a_j b_j + KL(a||a0)/eta  =  a0_j exp(-eta b_j) / Z
    argmin_v sum_ij a_ij u_i.v_j + |v - v0|^2 / (2 eta)  =  v0_j - eta sum_i a_ij u_i

The two steps of attention are proximal steps of one surrogate at frozen u. That surrogate lies below the loss, where EM
needs one that lies above it; so the pair of steps can raise the loss, and a witness does.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Witness, every
from bayesgrad.symbolic.terms import Diff, Index, Size, Tensor, Term, exp, inv, lift, log, total
from derivations.dynamics import eta, h, m, n
from derivations.laws import Part, instance_of, proves
from derivations.lemmas import Divergence, Mixture, full_divergence
from derivations.notation import C, d_k, d_v

c = Index("c", d_v)


@proves("em.fisher-identity")
def fisher_identity() -> list[Part]:
    it = Mixture()
    size = it.size
    pi, cost = it.prior, it.cost[0]
    (mass, loss, r) = it.mass[0], it.loss[0], it.r[0]
    key = Index("j", size)
    claim = Equation(Diff(loss(), cost(key)), r(key))
    written = total(lambda j: pi(j) * exp(-cost(j)), over=size)
    proof = (
        Chain(claim.lhs)
        .definition(Diff(-log(written), cost(key)), "minus the log of the mass", loss, mass)
        .differentiate(inv(written) * pi(key) * exp(-cost(key)), "one term of the mass depends on c_j")
        .definition(claim.rhs, "which is the responsibility", r, mass)
    )
    claim = instance_of("em.fisher-identity", claim, proof)
    slope = Tensor("dc", (size,), tex=r"{\dot c}")
    moving = Tensor("c", (size,), body=lambda j: pi0(j) + h() * slope(j))
    pi0 = Tensor("c0", (size,), tex="c^0")
    mass_m = Tensor("Z", (), "positive", lambda: total(lambda j: pi(j) * exp(-moving(j)), over=size))
    loss_m = Tensor("l", (), body=lambda: -log(mass_m()))
    r_m = Tensor("r", (size,), "positive", lambda j: pi(j) * exp(-moving(j)) * inv(mass_m()))
    along = Equation(Diff(loss_m(), h()), total(lambda j: r_m(j) * slope(j), over=size))
    path = total(lambda j: pi(j) * exp(-(pi0(j) + h() * slope(j))), over=size)
    steps = (
        Chain(along.lhs)
        .definition(Diff(-log(path), h()), "minus the log of the mass, with moving costs", loss_m, mass_m, moving)
        .differentiate(
            inv(path) * total(lambda j: pi(j) * exp(-(pi0(j) + h() * slope(j))) * slope(j), over=size), "chain rule"
        )
        .definition(along.rhs, "the mean slope under the responsibilities", r_m, mass_m, moving)
    )
    return [
        Part("cost", claim, proof, "Exact EM at the level of the loss: its gradient in a cost is a responsibility."),
        Part("along", along, steps, "Along any change of the costs, dl = sum_j r_j dc_j, priors fixed."),
    ]


@proves("em.proximal-e-step")
def proximal_e_step() -> list[Part]:
    D = Divergence(m, (), p="a", q="a*")
    gibbs = instance_of("lemma.gibbs", D.claim, D.proof())
    b, Z = Tensor("b", (m,)), Tensor("Z", kind="positive")
    prior = Tensor("a0", (m,), "positive", tex="a^0")
    key = Index("j", m)
    target = Equation(
        D.q(key),
        prior(key) * exp(-(eta() * b(key))) * inv(Z()),
        (key,),
        says="a* = a0 exp(-eta b)/Z, where Z makes it sum to one (outside S likewise)",
        sample={prior: lambda j: D.q(j) * Z() * exp(eta() * b(j))},
    )
    mean = total(lambda j: D.S(j) * D.p(j) * b(j), over=m)
    pull = total(lambda j: D.S(j) * D.p(j) * (log(D.p(j)) - log(prior(j))), over=m)
    kl = Tensor("D", (), "nonnegative", lambda: D.value, fact=gibbs, tex=r"\mathrm{KL}")
    mass = total(lambda j: D.S(j) * D.p(j), over=m)
    claim = AtMost(
        -(inv(eta()) * log(Z())),
        mean + inv(eta()) * pull,
        (),
        (D.p_sums, D.q_sums, target),
        tight=(every(kl),),
    )
    inside = total(lambda j: D.S(j) * D.p(j) * (log(D.p(j)) - log(prior(j)) + eta() * b(j) + log(Z())), over=m)
    proof = (
        Chain(claim.rhs - claim.lhs)
        .rewrite(
            mean + inv(eta()) * pull + inv(eta()) * log(Z()) * mass,
            "a sums to one",
            D.p_sums,
            lambda hole: mean + inv(eta()) * pull + inv(eta()) * log(Z()) * hole(),
        )
        .algebra(inv(eta()) * inside, "collect the logarithms")
        .algebra(
            inv(eta())
            * total(
                lambda j: D.S(j) * D.p(j) * (log(D.p(j)) - log(prior(j) * exp(-(eta() * b(j))) * inv(Z()))), over=m
            ),
            "the log of a0 exp(-eta b)/Z",
        )
        .rewrite(
            inv(eta()) * D.value,
            "which is a*",
            target,
            lambda hole: inv(eta()) * total(lambda j: D.S(j) * D.p(j) * (log(D.p(j)) - log(hole(j))), over=m),
        )
        .definition(inv(eta()) * kl(), "so the objective exceeds its least value by KL(a||a*)/eta", kl)
    )
    says = "The minimum over the simplex is reached exactly at a = a*; the prior a0 may miss keys."
    return [Part("minimum", claim, proof, says)]


@proves("em.proximal-m-step")
def proximal_m_step() -> list[Part]:
    a, u = Tensor("a", (n, m)), Tensor("u", (n, d_v))
    v, v0 = Tensor("v", (m, d_v)), Tensor("v0", (m, d_v), tex="v^0")
    best = Tensor("v*", (m, d_v), body=lambda j, c: v0(j, c) - eta() * total(lambda i: a(i, j) * u(i, c), over=n))

    def surrogate(values: Tensor) -> Term:
        work = total(lambda i, j: a(i, j) * total(lambda c: u(i, c) * values(j, c), over=d_v), over=(n, m))
        stray = total(lambda j, c: (values(j, c) - v0(j, c)) ** 2, over=(m, d_v))
        return work + inv(2 * eta()) * stray

    square = Tensor("Delta", (m, d_v), "nonnegative", lambda j, c: (v(j, c) - best(j, c)) ** 2, tex=r"\Delta")
    claim = AtMost(surrogate(best), surrogate(v), tight=(every(square),))
    proof = (
        Chain(claim.rhs - claim.lhs)
        .definition(
            inv(2 * eta()) * total(lambda j, c: (v(j, c) - best(j, c)) ** 2, over=(m, d_v)),
            "complete the square around v* = v0 - eta sum_i a_ij u_i",
            best,
        )
        .definition(total(lambda j, c: inv(2 * eta()) * square(j, c), over=(m, d_v)), "0 only at v = v*", square)
    )
    return [Part("minimum", claim, proof, "The value step is the unique minimiser.")]


class Gaussian:
    """Scores with per-key prior weights, and the Gaussian mixture that they are the responsibilities of."""

    def __init__(self) -> None:
        self.q, self.key = Tensor("q", (d_k,)), Tensor("k", (m, d_k))
        self.scale = Tensor("scale", kind="positive", tex=r"\varsigma")
        self.pi, self.M = Tensor("pi", (m,), "positive"), Tensor("M", (m,), "indicator")
        self.at = Index("j", m)
        self.half = Fraction(1, 2)

    def score(self, j: Index) -> Term:
        return self.scale() * total(lambda e: self.q(e) * self.key(j, e), over=d_k) + log(self.pi(j))

    def norm(self, j: Index) -> Term:
        return total(lambda e: self.key(j, e) ** 2, over=d_k)

    def distance(self, j: Index) -> Term:
        return total(lambda e: (self.q(e) - self.key(j, e)) ** 2, over=d_k)

    def component(self, j: Index) -> Term:
        """Prior weight times density: pi_j exp(scale |k_j|^2 / 2) exp(-scale |q - k_j|^2 / 2)."""
        prior = self.pi(j) * exp(self.half * self.scale() * self.norm(j))
        return prior * exp(-(self.half * self.scale() * self.distance(j)))

    def normalised(self, weight: Callable[[Index], Term]) -> Term:
        """One visible key's share."""
        mass = total(lambda j: self.M(j) * weight(j), over=m)
        return self.M(self.at) * weight(self.at) * inv(mass)


GAUSSIAN = Gaussian()


@proves("em.gaussian-mixture")
def gaussian_mixture() -> list[Part]:
    it = GAUSSIAN
    claim = Equation(it.normalised(lambda j: exp(it.score(j))), it.normalised(it.component))
    near = exp(-(it.half * it.scale() * total(lambda e: it.q(e) ** 2, over=d_k)))
    product = lambda j: exp(it.scale() * total(lambda e: it.q(e) * it.key(j, e), over=d_k))
    proof = (
        Chain(claim.lhs)
        .algebra(it.normalised(lambda j: it.pi(j) * product(j)), "exp(log pi) = pi")
        .algebra(
            it.normalised(lambda j: it.pi(j) * product(j) * near),
            "a factor that depends on the query alone cancels (shift invariance)",
        )
        .algebra(claim.rhs, "complete the square: |q - k|^2 = |q|^2 - 2 q.k + |k|^2")
    )
    says = (
        "Responsibilities of a Gaussian mixture with means k_j, covariance I/scale and prior weights proportional to "
        "pi_j exp(scale |k_j|^2 / 2); M marks the keys with pi_j > 0."
    )
    return [Part("responsibilities", claim, proof, says)]


# -- not variational -----------------------------------------------------------------------------------------------


@proves("em.not-variational")
def not_variational() -> list[Part]:
    return [_minorant(), *_ascent()]


class _Logits:
    """Softmax probabilities of logits z, as the two ends of a step have them."""

    def __init__(self, tick: str):
        self.z = Tensor(f"z{tick}", (n, C))
        self.mass = Tensor(f"Z{tick}", (n,), "positive", lambda i: total(lambda y: exp(self.z(i, y)), over=C))
        self.p = Tensor(f"p{tick}", (n, C), "positive", lambda i, y: exp(self.z(i, y)) * inv(self.mass(i)))

    def sums(self) -> Equation:
        row = Index("i", n)
        claim = Equation(total(lambda y: self.p(row, y), over=C), lift(1), (row,))
        proof = (
            Chain(claim.lhs)
            .definition(total(lambda y: exp(self.z(row, y)), over=C) * inv(self.mass(row)), "one denominator", self.p)
            .definition(self.mass(row) * inv(self.mass(row)), "which is the mass", self.mass)
            .algebra(claim.rhs, "and positive")
        )
        return instance_of("softmax.jacobian", claim, proof)


def _minorant() -> Part:
    """L(z') >= L(z) + sum r (z' - z): the loss lies above its tangent, so the frozen surrogate lies below it."""
    old, new = _Logits(""), _Logits("'")
    t, tau = Tensor("t", (n, C), "nonnegative"), Tensor("tau", (n,), "nonnegative", tex=r"\tau")
    row = Index("i", n)
    whole_target = Equation(
        total(lambda y: t(row, y), over=C),
        tau(row),
        (row,),
        says="tau_i is the total target of row i",
        sample={tau: lambda i: total(lambda y: t(i, y), over=C)},
    )
    gibbs, gibbs_proof = full_divergence(old.p, new.p, C, (row,), old.sums(), new.sums())
    gibbs = instance_of("lemma.gibbs", gibbs, gibbs_proof)  # type: ignore[assignment]
    kl = Tensor(
        "D",
        (n,),
        "nonnegative",
        lambda i: total(lambda y: old.p(i, y) * (log(old.p(i, y)) - log(new.p(i, y))), over=C),
        fact=gibbs,
        tex=r"\mathrm{KL}",
    )

    def loss(end: _Logits) -> Term:
        return total(lambda i, y: t(i, y) * -log(end.p(i, y)), over=(n, C))

    tangent = total(lambda i, y: (tau(i) * old.p(i, y) - t(i, y)) * (new.z(i, y) - old.z(i, y)), over=(n, C))
    claim = AtMost(loss(old) + tangent, loss(new), (), (whole_target,))
    gain = lambda i: log(new.mass(i)) - log(old.mass(i))
    move = total(lambda i: tau(i) * total(lambda y: old.p(i, y) * (new.z(i, y) - old.z(i, y)), over=C), over=n)
    proof = (
        Chain(claim.rhs - claim.lhs)
        .definition(
            total(lambda i: total(lambda y: t(i, y), over=C) * gain(i), over=n) - move,
            "log p = z - log Z: the targets meet the logits in both ends alike",
            *_unfolded(old, new),
        )
        .rewrite(
            total(lambda i: tau(i) * gain(i), over=n) - move,
            "the total target",
            whole_target,
            lambda hole: total(lambda i: hole(i) * gain(i), over=n) - move,
        )
        .rewrite(
            total(lambda i: tau(i) * gain(i) * total(lambda y: old.p(i, y), over=C), over=n) - move,
            "probabilities sum to one",
            old.sums(),
            lambda hole: total(lambda i: tau(i) * gain(i) * hole(i), over=n) - move,
        )
        .definition(
            total(lambda i: tau(i) * kl(i), over=n),
            "a divergence for each row, at least 0 (Gibbs)",
            kl,
            *_unfolded(old, new),
        )
    )
    return Part("minorant", claim, proof, "EM needs a surrogate above the loss; the frozen-u surrogate is below it.")


def _unfolded(*ends: _Logits) -> tuple[Tensor, ...]:
    return tuple(e.p for e in ends)


class Ascent:
    """One query, two keys, three classes, label 1: a value step, then a routing step with the new upstream gradient."""

    K, R = Size("m"), Size("C", nonempty=True)

    def __init__(self) -> None:
        self.s, self.v, self.W = Tensor("s", (self.K,)), Tensor("v", (self.K,)), Tensor("W_O", (self.R,), tex="W^O")
        self.t, self.eta = Tensor("t", (self.R,)), eta
        self.a = self.softmax("a", self.s)
        self.start = self.loss("", self.a, self.v)
        u = self.upstream("", self.a, self.v)
        self.v1 = Tensor("v'", (self.K,), body=lambda j: self.v(j) - eta() * self.a(j) * u())
        self.after_values = self.loss("'", self.a, self.v1)
        u1 = self.upstream("'", self.a, self.v1)
        b = Tensor("b'", (self.K,), body=lambda j: u1() * self.v1(j))
        bbar = Tensor("bbar'", (), body=lambda: total(lambda k: self.a(k) * b(k), over=self.K), tex=r"\bar b'")
        natural = Tensor("s_n", (self.K,), body=lambda j: self.s(j) - eta() * b(j))
        plain = Tensor("s_p", (self.K,), body=lambda j: self.s(j) - eta() * self.a(j) * (b(j) - bbar()))
        self.after_natural = self.loss("''", self.softmax("a_n", natural), self.v1)
        self.after_plain = self.loss("'''", self.softmax("a_p", plain), self.v1)

    def softmax(self, name: str, scores: Tensor) -> Tensor:
        return Tensor(
            name,
            scores.sizes,
            body=lambda j: exp(scores(j)) * inv(total(lambda k: exp(scores(k)), over=scores.sizes[0])),
        )

    def probability(self, a: Tensor, v: Tensor, y: Index) -> Term:
        g = total(lambda k: a(k) * v(k), over=self.K)
        return exp(g * self.W(y)) * inv(total(lambda d: exp(g * self.W(d)), over=self.R))

    def loss(self, tick: str, a: Tensor, v: Tensor) -> Tensor:
        return Tensor(
            f"L{tick}", (), body=lambda: total(lambda y: self.t(y) * -log(self.probability(a, v, y)), over=self.R)
        )

    def upstream(self, tick: str, a: Tensor, v: Tensor) -> Tensor:
        return Tensor(
            f"u{tick}",
            (),
            body=lambda: total(lambda y: (self.probability(a, v, y) - self.t(y)) * self.W(y), over=self.R),
        )


def _ascent() -> list[Part]:
    it = Ascent()
    instance = {
        "sizes": {it.K: 2, it.R: 3},
        "values": {it.s: (0, 0), it.v: (5, -3), it.W: (0, 1, -1), it.t: (1, 0, 0), eta: 1},
    }
    facts = (
        ("values-lower", it.after_values, "<", "The value step lowers the loss ..."),
        ("natural-raises", it.after_natural, ">", "... the natural routing step then raises it above the start,"),
        ("plain-raises", it.after_plain, ">", "and so does the plain one."),
    )
    parts = []
    for name, loss, relation, says in facts:
        claim = Witness(loss(), it.start(), relation=relation, **instance)  # type: ignore[arg-type]
        parts.append(Part(name, claim, Chain(claim.lhs), says))
    return parts
