"""Inequalities: where equality holds is said entry by entry, and evaluation has a word in it too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayesgrad.symbolic import refutation
from bayesgrad.symbolic.proof import AtMost, Chain, Witness, check, every
from bayesgrad.symbolic.terms import Index, Size, Tensor, exp, lift, total
from derivations import laws
from derivations.common import notation
from derivations.common.softmax import h
from derivations.present import claim_text

n, m = Size("n"), Size("m")
i, l, j, k = Index("i", n), Index("l", n), Index("j", m), Index("k", m)
T, U = Tensor("T", (n,), "nonnegative"), Tensor("U", (n, m), "nonnegative")
Q = Tensor("Q", (n, n), "nonnegative")
w, c = Tensor("w", (n,), "positive"), Tensor("c")
over = lambda size, body: total(lambda r: body(r), over=size)


def bound(gap, *tight):
    """0 <= gap, with equality exactly where the named entries are 0."""
    return check(AtMost(lift(0), gap, tight=tight), Chain(gap))


TIGHT = {
    "one entry": (T(i), (every(T, i),)),
    "all entries": (over(n, lambda r: T(r)), (every(T),)),
    "one row": (over(m, lambda r: U(i, r)), (every(U, i, None),)),
    "one column": (over(n, lambda r: U(r, j)), (every(U, None, j),)),
    "one place": (U(i, j), (every(U, i, j),)),
    "two rows": (over(m, lambda r: U(i, r) + U(l, r)), (every(U, i, None), every(U, l, None))),
    "a diagonal place": (Q(i, i), (every(Q, i, i),)),
    "weighted": (over(m, lambda r: w(i) * exp(c()) * U(i, r)), (every(U, i, None),)),
    "two letters": (T(i) + over(m, lambda r: U(i, r)), (every(T, i), every(U, i, None))),
}


@pytest.mark.parametrize("name", list(TIGHT))
def test_equality_at_the_named_entries_is_proved(name):
    gap, tight = TIGHT[name]
    found = bound(gap, *tight)
    assert (found.word, found.reason) == ("proved", "")


LOOSE = {
    "all for one": (T(i), (every(T),)),
    "one for all": (over(n, lambda r: T(r)), (every(T, i),)),
    "another one": (T(i), (every(T, l),)),
    "all rows for one": (over(m, lambda r: U(i, r)), (every(U),)),
    "a column for a row": (over(m, lambda r: U(i, r)), (every(U, None, j),)),
    "one row of two": (over(m, lambda r: U(i, r) + U(l, r)), (every(U, i, None),)),
    "a row too many": (over(m, lambda r: U(i, r)), (every(U, i, None), every(U, l, None))),
    "all for the diagonal": (over(n, lambda r: Q(r, r)), (every(Q),)),
    "a row for a diagonal place": (Q(i, i), (every(Q, i, None),)),
    "the other place": (Q(i, l), (every(Q, l, i),)),
    "over an empty sum": (total(lambda a, b: T(i), over=(m, m)), (every(T, i),)),
    "nothing": (T(i), ()),
}


@pytest.mark.parametrize("name", list(LOOSE))
def test_equality_elsewhere_is_refuted_or_open(name):
    gap, tight = LOOSE[name]
    found = bound(gap, *tight)
    assert found.word in ("undecided", "refuted")
    assert found.reason.startswith("vanishing-sum")


@pytest.mark.parametrize("name", ["all for one", "one row of two", "the other place", "all for the diagonal"])
def test_a_false_equality_condition_is_refuted_by_an_instance(name):
    """Both ways: equality although an entry is not 0, or none although all named entries are 0."""
    gap, tight = LOOSE[name]
    found = bound(gap, *tight)
    assert found.word == "refuted"
    assert found.counterexample is not None


def test_evaluation_denies_a_false_condition_on_its_own():
    for gap, tight in TIGHT.values():
        assert refutation.veto_tight(AtMost(lift(0), gap, tight=tight), 0) is None
    gap, tight = LOOSE["all for one"]
    assert refutation.veto_tight(AtMost(lift(0), gap, tight=tight), 0) is not None


def test_the_fisher_form_of_one_row_is_tight_in_that_row_alone():
    """Row 1 sees key 1 alone, so its form is 0; Delta[2, 1, 2] > 0 does not matter, and the page says so."""
    part = next(p for p in laws.law("softmax.fisher").parts if p.name == "semidefinite")
    (entries,) = part.claim.tight
    values = {notation.M: ((1, 0), (1, 1)), notation.s: ((0, 0), (0, 0)), h: (1, 2)}
    case = {"sizes": {notation.n: 2, notation.m: 2}, "values": values}
    row, one, two = notation.i, notation.j, notation.k
    zero = Witness(part.claim.rhs, lift(0), at={row: 0}, **case)
    above = Witness(entries.tensor(row, one, two), lift(0), relation=">", at={row: 1, one: 0, two: 1}, **case)
    assert [check(claim, Chain(lift(0))).word for claim in (zero, above)] == ["proved", "proved"]
    assert entries.slots == (row, None, None)
    assert claim_text(part).endswith("equality exactly where every entry Delta[i,·,·] is 0")
    whole = replace(part.claim, tight=(every(entries.tensor),))
    assert check(whole, part.proof).word != "proved"


@pytest.mark.parametrize("label", list(laws.labels()))
def test_every_equality_condition_of_the_book_names_the_free_positions(label):
    """Where a gap has a free index, so have its entries: nothing is said of other rows."""
    from bayesgrad.symbolic.terms import free_of

    for part in laws.law(label).parts:
        claim = part.claim
        if isinstance(claim, AtMost) and claim.tight is not None:
            free = set(free_of(claim.lhs, claim.rhs))
            for entries in claim.tight:
                assert {slot for slot in entries.slots if slot} == free, part.name
