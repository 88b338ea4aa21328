"""A position is there only if the claim names it: sizes may be 0, so what only a proof names need not exist.

Each false claim would be proved if one position were taken for granted; each honest sibling names it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Minimum, check
from bayesgrad.symbolic.terms import Count, Index, Lookup, Size, Tensor, delta, lift, log, total
from tests._attacks import built

n, m, full = Size("n"), Size("m"), Size("f", nonempty=True)
i, l, j, p = Index("i", n), Index("l", n), Index("j", m), Index("p", full)
c, d, x, y, w = Tensor("c"), Tensor("d"), Tensor("x", (n,)), Tensor("y", (m,)), Tensor("w", (full,))
one, many, sure = Lookup("z", (), n), Lookup("z", (m,), n), Lookup("z", (n,), full)
same = Equation(c(), d(), (i,), says="c = d, for every i", sample={c: lambda: d()})
STRAY = "lookup z is no lookup of the claim and leads into a size that may be empty"


def one_is_at_most_n(place, extra=0, over=()):
    """1 <= n, since n - 1 counts the positions other than this one."""
    others = Tensor("o", (*over, n), "indicator", lambda *at: 1 - delta(at[-1], place(*at[:-1])))
    claim = AtMost(lift(1) + extra, Count(n))
    at = tuple({m: j}[size] for size in over)
    return claim, Chain(Count(n) - 1).definition(total(lambda k: others(*at, k), over=n), "count the others", others)


def told(claim, chain):
    found = check(claim, chain)
    return found.word, found.reason


@pytest.mark.parametrize(
    "made",
    [
        one_is_at_most_n(one),
        one_is_at_most_n(many, 0 * y(j), (m,)),
        (
            Equation(2 * c(), 2 * d(), given=(same,)),
            Chain(2 * c()).rewrite(2 * d(), "", same, lambda hole: 2 * hole(one())),
        ),
    ],
    ids=["a lookup of no arguments", "a lookup from another size", "a hypothesis at a lookup"],
)
def test_a_lookup_of_the_proof_alone_need_not_exist(made):
    word, reason = told(*made)
    assert word != "proved"
    assert STRAY in reason


def test_a_lookup_in_a_context_or_a_lemma_need_not_exist():
    lemma = built(Equation(c() + 0 * x(one()), c()))
    claim = Equation(2 * c(), 2 * c())
    chain = Chain(2 * c()).rewrite(2 * c(), "", lemma, lambda hole: 2 * hole())
    assert STRAY in told(claim, chain)[1]
    other = built(Equation(c() + c(), 2 * c()))
    chain = Chain(2 * c()).rewrite(2 * c(), "", other, lambda hole: hole() + 0 * x(one()))
    assert STRAY in told(claim, chain)[1]


def test_a_lookup_in_a_fact_need_not_exist():
    """1 <= n holds where z does, which the fact names and the claim does not."""
    fact_claim, chain = one_is_at_most_n(one, 0 * x(one()))
    fact = built(fact_claim, chain)
    gap = Tensor("D", (), "nonnegative", lambda: Count(n) - 1, fact=fact)
    claim = AtMost(lift(1), Count(n))
    word, reason = told(claim, Chain(Count(n) - 1).definition(gap(), "by the fact", gap))
    assert word == "refuted"
    assert STRAY in reason


def test_a_minimum_with_an_index_is_no_fact():
    t = Tensor("t", kind="positive")
    minimum = built(Minimum(t() - 1 - log(t()) + 0 * x(i), lift(0), at=t), Chain(t() - 1 - log(t())))
    phi = Tensor(
        "phi", (), "nonnegative", lambda: c() ** 2 + 1 - 1 - log(c() ** 2 + 1), fact=(minimum, lambda: c() ** 2 + 1)
    )
    claim = AtMost(log(c() ** 2 + 1), c() ** 2)
    word, reason = told(claim, Chain(claim.rhs - claim.lhs).definition(phi(), "by the fact", phi))
    assert (word, reason) == ("undecided", "tensor phi: its definition is not seen to be nonnegative")


def test_a_lookup_that_the_claim_names_exists():
    claim, chain = one_is_at_most_n(one, 0 * x(one()))
    assert check(claim, chain).word == "proved"
    given = Equation(x(one()), c(), says="x at z is c", sample={x: lambda k: c()})
    claim, chain = one_is_at_most_n(one)
    assert check(replace(claim, given=(given,)), chain).word == "proved"  # a hypothesis names it too


def test_a_lookup_into_what_is_never_empty_exists():
    lemma = built(Equation(w(p) + 0 * c(), w(p), (p,)))
    term = total(lambda k: w(sure(k)), over=n)
    claim = Equation(2 * c(), 2 * c() + 0 * c())
    chain = (
        Chain(2 * c())
        .algebra(2 * c() + term - term, "add nothing")
        .rewrite(2 * c() + 0 * c(), "", lemma, lambda hole: 2 * c() + term - total(lambda k: hole(sure(k)), over=n))
    )
    assert told(claim, chain) == ("proved", "")


# -- hypotheses --------------------------------------------------------------------------------------------------------


def test_a_hypothesis_for_every_i_says_nothing_where_there_is_none():
    claim = Equation(2 * c(), 2 * d(), given=(same,))
    word, reason = told(claim, Chain(2 * c()).rewrite(2 * d(), "", same))
    assert word == "undecided"
    assert reason == "rewrite: no position is given for the index i of the hypothesis 'c = d, for every i'"


def test_a_hypothesis_for_every_i_is_used_where_there_is_one():
    claim = Equation(2 * c() + 0 * x(l), 2 * d(), given=(same,))
    chain = Chain(claim.lhs).rewrite(2 * d(), "", same, lambda hole: 2 * hole(l) + 0 * x(l))
    assert told(claim, chain) == ("proved", "")
    own = Equation(2 * c() + 0 * x(i), 2 * d(), given=(same,))
    assert told(own, Chain(own.lhs).rewrite(2 * d(), "", same)) == ("proved", "")


@pytest.mark.parametrize("seed", range(12))
def test_an_index_in_hypotheses_alone_is_a_variable_of_the_claim(seed):
    """c = d wherever x_i is both: for every i, so nothing is said where n is 0; for kernel and evaluator alike."""
    first, second = Equation(c(), x(i), says="c = x_i"), Equation(d(), x(i), says="d = x_i")
    claim = Equation(c(), d(), given=(first, second))
    chain = Chain(c()).rewrite(x(i), "first", first).rewrite(d(), "second", second, lambda hole: hole())
    found = check(claim, chain, seed=seed)
    assert (found.word, found.reason) == ("proved", "")
    wrong = check(replace(claim, rhs=2 * d()), chain, seed=seed)
    assert wrong.word == "refuted"
    assert wrong.counterexample is not None
    assert wrong.counterexample.position.keys() == {"i"}
