"""Family A, permutations that are revealed pair by pair: a new key is uniform over what is unseen.

N(y) = number of permutations that agree with the m pairs and send the new key to y        p(y) = N(y) / sum N
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

from bayesgrad.symbolic.proof import Chain, Equation, Witness
from bayesgrad.symbolic.terms import (
    At,
    Count,
    Index,
    Lookup,
    Size,
    Tensor,
    Term,
    delta,
    inv,
    lift,
    log,
    tensors_of,
    total,
)
from derivations.common.parts import part_of
from derivations.laws import instance_of
from derivations.result import COUNTING, OURS, Part, Result, WrongRow, routes

RESULT = Result(
    "bayes.bijection",
    title="What a revealed part of a random permutation says about the rest",
    means="""Every revealed pair crosses out one value. A key that was seen is certain, a new key is uniform over
    what is left: the entropy is a staircase that falls to zero.""",
    fails="""The choice of keys must not depend on the permutation beyond the revealed pairs. A protocol that asks
    for the preimage of a given value leaks it.""",
    source=OURS,
    routes=routes(proof="required", exact="required", code=COUNTING, check="required", observed="optional"),
    implements=("bayesgrad.bayes.bijection_predictive",),
    read_with=("bayes.posterior-predictive",),
    naive=("the same for keys chosen with knowledge of the permutation (key := inverse of value 0)",),
)


@RESULT.proof
def proof() -> list[Part]:
    """N(y) counts the permutations that agree with the pairs and send the new key to y."""
    Values, Pairs = Size("V"), Size("m")
    y = Index("y", Values)
    shown = Lookup("value", (Pairs,), Values)
    N, kappa = Tensor("N", (Values,)), Tensor("kappa", tex=r"\kappa")
    seen = lambda y: total(lambda k: delta(shown(k), y), over=Pairs)
    fresh = lambda y: 1 - seen(y)
    symmetric = Equation(
        N(y),
        kappa() * fresh(y),
        (y,),
        says=(
            "N is one number kappa for all unseen values (by symmetry, below), and no permutation sends a new key to a "
            "seen value"
        ),
        sample={N: lambda y: kappa() * fresh(y)},
    )
    free = total(lambda y: fresh(y), over=Values)
    some = Equation(
        (kappa() * free) * inv(kappa() * free),
        lift(1),
        says="some permutation agrees with the pairs, and some value is unseen",
    )
    count = Equation(free, Count(Values) - Count(Pairs))
    counted = Chain(free).algebra(count.rhs, "each pair takes one value out; all are counted once")
    count = instance_of("bayes.bijection", count, counted)
    claim = Equation(
        N(y) * inv(total(lambda z: N(z), over=Values)) * (Count(Values) - Count(Pairs)),
        fresh(y),
        given=(symmetric, some),
    )
    proof = (
        Chain(claim.lhs)
        .rewrite(kappa() * fresh(y) * inv(kappa() * free) * (Count(Values) - Count(Pairs)), "symmetry", symmetric)
        .rewrite(
            kappa() * fresh(y) * inv(kappa() * free) * free,
            "what is unseen",
            count,
            lambda hole: kappa() * fresh(y) * inv(kappa() * free) * hole(),
        )
        .rewrite(claim.rhs, "which is not zero", some, lambda hole: fresh(y) * hole())
    )
    return [
        Part("new-key", claim, proof, "A new key is uniform over the V - m unseen values; a seen key is certain."),
        _exchange(Values),
        Part("count", count, counted, "m distinct pairs leave V - m values."),
        _entropy(free, fresh, Values),
        *_nonignorable(),
    ]


def _exchange(Values: Size) -> Part:
    """N(y) = N(z) for unseen y, z: exchanging the two values permutes the permutations that agree with the pairs."""
    Perms = Size("P")
    agrees, at = Tensor("agrees", (Perms,), "indicator"), Lookup("at", (Perms,), Values)
    swap = Lookup("swap", (Perms,), Perms)
    p, y, z = Index("p", Perms), Index("y", Values), Index("z", Values)

    def count(value: Index, moved: bool = False) -> Term:
        there = (lambda p: swap(p)) if moved else (lambda p: p)
        return total(lambda p: agrees(there(p)) * delta(at(there(p)), value), over=Perms)

    reindexed = Equation(
        count(y, moved=True),
        count(y),
        says="the exchange is a bijection of the permutations: a sum may run over the exchanged ones",
    )
    kept = Equation(
        agrees(swap(p)),
        agrees(p),
        (p,),
        says="an exchange of unseen values keeps every revealed pair (y, z are unseen)",
    )
    turned = Equation(
        agrees(p) * delta(at(swap(p)), y),
        agrees(p) * delta(at(p), z),
        (p,),
        says="after the exchange the new key has value y exactly where it had z",
    )
    claim = Equation(count(y), count(z), given=(reindexed, kept, turned))
    proof = (
        Chain(count(y))
        .rewrite(count(y, moved=True), "run over the exchanged permutations", reindexed, lambda hole: hole())
        .rewrite(
            total(lambda p: agrees(p) * delta(at(swap(p)), y), over=Perms),
            "they agree with the pairs as before",
            kept,
            lambda hole: total(lambda p: hole(p) * delta(at(swap(p)), y), over=Perms),
        )
        .rewrite(count(z), "and y and z have changed places", turned, lambda hole: total(lambda p: hole(p), over=Perms))
    )
    return Part("symmetry", claim, proof, "All unseen values are equally likely.")


def _entropy(free: Term, fresh: Callable[[Index], Term], Values: Size) -> Part:
    """A new key costs log(V - m) nats, the entropy of the uniform law on what is unseen."""
    K = Tensor("K", kind="positive")
    left = Equation(free, K(), says="K = V - m values are unseen, at least one", sample={K: lambda: free})
    claim = Equation(-total(lambda y: fresh(y) * inv(K()) * log(inv(K())), over=Values), log(K()), given=(left,))
    proof = (
        Chain(claim.lhs)
        .algebra(free * inv(K()) * log(K()), "every unseen value adds the same; seen ones add 0")
        .rewrite(K() * inv(K()) * log(K()), "and there are K of them", left, lambda hole: hole() * inv(K()) * log(K()))
        .algebra(claim.rhs, "which cancels")
    )
    return Part("entropy", claim, proof, "log2(V - m) bits; 0 for a seen key.")


def _nonignorable() -> list[Part]:
    """Keys chosen with knowledge of the permutation break it: key := inverse of value 0 always shows value 0."""
    Perms, Keys, Values = Size("P"), Size("V"), Size("V'")
    table = tuple(itertools.permutations(range(3)))
    at = Lookup("at", (Perms, Keys), Values)
    asked, fixed, zero = Lookup("asked", (Perms,), Keys), Lookup("k", (), Keys)(), Lookup("0", (), Values)()
    sizes = {Perms: len(table), Keys: 3, Values: 3}
    values = {
        at: table,
        asked: tuple(p.index(0) for p in table),
        fixed.lookup: 0,
        zero.lookup: 0,
    }

    def share(key: Callable[[Index], At]) -> Term:
        return total(lambda p: delta(at(p, key(p)), zero), over=Perms) * inv(Count(Perms))

    chosen = Witness(share(lambda p: asked(p)), lift(1), sizes=sizes, values=values)
    ignorant = Witness(share(lambda p: fixed), lift(Fraction(1, 3)), sizes=sizes, values=values)
    return [
        Part(
            "non-ignorable",
            chosen,
            Chain(chosen.lhs),
            "V = 3: a key that was chosen as the inverse of value 0 shows it.",
        ),
        Part("ignorable", ignorant, Chain(ignorant.lhs), "A key chosen without looking shows it once in three."),
    ]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    part = part_of("bayes.bijection", "count")
    V = part.claim.rhs
    sizes = {s.name: s for t in tensors_of(part_of("bayes.bijection", "new-key").claim.lhs) for s in t.sizes}
    values = sizes["V"]
    yield "count", "all", "pairs forgotten", Count(values), "each pair takes one value out"
    yield "count", "one-less", "one less", V - 1, "m pairs take m values out"
    yield "count", "sign", "sign flipped", -V, "a count is not negative"
