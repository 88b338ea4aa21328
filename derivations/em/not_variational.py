"""The attention pair is no EM: it can raise its own loss."""

from __future__ import annotations

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Witness
from bayesgrad.symbolic.terms import Index, Size, Tensor, Term, exp, inv, lift, log, total
from derivations.common.lemmas import full_divergence
from derivations.common.notation import C
from derivations.common.one_step import eta, n
from derivations.laws import instance_of
from derivations.result import NO_RUN, WITNESS, Part, Result, routes

RESULT = Result(
    "em.not-variational",
    title="The attention pair is no EM: it can raise its own loss",
    means="""EM never goes up, because its surrogate lies above the loss. The frozen-gradient surrogate of
    attention is a tangent plane of a convex function and lies *below* it: stepping along it may overshoot.""",
    fails="""For one fixed instance a small enough step lowers the loss. The statement is that no step size is
    small enough for all instances, as it is for EM.""",
    source="arXiv 2512.22473 calls the reading structural; the witness is ours",
    routes=routes(proof="required", exact=WITNESS, code=WITNESS, check="required", observed=NO_RUN),
    implements=("bayesgrad.em.not_variational_witness",),
    read_with=(
        "attention.upstream",
        "attention.value-law",
        "attention.routing-law",
        "dynamics.natural-routing",
        "lemma.em-identity",
    ),
    naive=("alternating routing and value steps lower the loss as EM does",),
    headline=("minorant", "values-lower", "natural-raises", "plain-raises"),
)


@RESULT.proof
def proof() -> list[Part]:
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
