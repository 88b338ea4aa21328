"""Inductions and witnesses are looked at like everything else: kinds, names, hypotheses, positions, evaluation.

Each attack has base and step that are proved; what is wrong is the claim around them, and the reason names it.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from fractions import Fraction

import pytest

from bayesgrad.symbolic import refutation
from bayesgrad.symbolic.proof import Chain, Equation, Induction, Witness, check
from bayesgrad.symbolic.terms import (
    Count,
    Index,
    Lookup,
    Size,
    Tensor,
    TermError,
    delta,
    exp,
    inv,
    lift,
    log,
    total,
)
from tests._attacks import built

n, m = Size("n"), Size("m")
i, l, j = Index("i", n), Index("l", n), Index("j", m)
x, c = Tensor("x", (n,)), Tensor("c")


def induction(left, right, sizes=(), at=(), given=()):
    """left(s) = right(s) at every time, from a base and a step that say s = s."""
    now, one, later = (Tensor(name, sizes) for name in ("s", "s_1", "s'"))
    base = built(Equation(one(*at), one(*at)))
    step = built(Equation(later(*at), later(*at), given=(Equation(now(*at), now(*at), at, says="the claim"),)))
    return Induction(left(now), right(now), given=given, base=base, step=step, first={now: one}, later={now: later})


def told(claim) -> tuple[str, str]:
    found = check(claim, Chain(claim.lhs))
    return found.word, found.reason


def test_the_helper_is_honest():
    """Where nothing is wrong around them, base and step carry the claim, and it is evaluated."""
    later = Tensor("s'")
    honest = induction(lambda s: s(), lambda s: s())
    keeps = Equation(next(iter(honest.later.values()))(), next(iter(honest.first))(), says="it keeps its value")
    del later
    found = check(replace(honest, given=(replace(keeps, sample={keeps.lhs.tensor: lambda: keeps.rhs}),)), Chain(c()))
    assert found.word == "proved", found.reason
    assert found.compared > 0


def test_a_false_kind_in_an_induction_is_seen():
    w = Tensor("w", (), "positive", lambda: lift(0))
    word, reason = told(induction(lambda s: s(), lambda s: s() * w() * inv(w())))
    assert (word, reason) == ("undecided", "tensor w: its definition is not seen to be positive")


def test_an_induction_from_what_nothing_satisfies_proves_nothing():
    absurd = Equation(lift(1), lift(2), says="absurd")
    word, reason = told(induction(lambda s: s(), lambda s: s(), given=(absurd,)))
    assert word == "undecided"
    assert reason.startswith("no instance satisfies the hypotheses")


def test_two_letters_of_one_name_in_an_induction_are_seen():
    twins = Tensor("T"), Tensor("T")
    word, reason = told(induction(lambda s: s() + twins[0]() - twins[1](), lambda s: s()))
    assert (word, reason) == ("undecided", "two different things are called T")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda at: pickle.loads(pickle.dumps(at))])
def test_a_copied_index_is_a_new_one(copied):
    k = copied(i)
    assert k is not i
    assert (k.name, k.size) == (i.name, i.size)
    assert k.uid != i.uid
    word, reason = told(induction(lambda s: s(i), lambda s: s(k), (n,), (i,)))
    assert (word, reason) == ("undecided", "two different things are called i")
    assert check(Equation(x(i), x(k)), Chain(x(i))).word != "proved"


def test_a_copied_term_keeps_its_indices_together():
    term = copy.deepcopy(total(lambda r: x(r), over=n) * delta(i, l))
    assert check(Equation(term, term), Chain(term)).word == "proved"


def by_start(start, base_lhs, base_chain):
    """S = 0 at every time, from a base that may be about more than the claim."""
    s, later = Tensor("S"), Tensor("S'")
    now = Equation(s(), lift(0), says="S = 0", sample={s: lambda: lift(0)})
    stays = Equation(later(), s(), says="S' = S", sample={later: lambda: s()})
    base = built(Equation(base_lhs, lift(0), given=(start,)), base_chain)
    step = built(
        Equation(later(), lift(0), given=(now, stays)), Chain(later()).rewrite(s(), "", stays).rewrite(0, "", now)
    )
    first = {s: base_first}
    return Induction(s(), lift(0), given=(start, stays), base=base, step=step, first=first, later={s: later})


base_first = Tensor("S_1")
half = lambda hole: hole() / 2


def test_the_base_holds_at_no_position_of_its_own():
    """S_1 = 0 "for every i", used at a position that the claim does not have: n may be 0."""
    start = Equation(2 * base_first(), lift(0), (i,), says="S_1 = 0, for every i", sample={base_first: lambda: lift(0)})
    lhs = base_first() + 0 * x(i)
    chain = Chain(lhs).rewrite(0, "", start, lambda hole: hole(i) / 2 + 0 * x(i))
    assert told(by_start(start, lhs, chain)) == ("undecided", "index i of a step is no index of the claim")


def test_the_base_uses_no_lookup_of_its_own():
    one = Lookup("z", (), n)
    start = Equation(2 * base_first(), lift(0), (i,), says="S_1 = 0, for every i", sample={base_first: lambda: lift(0)})
    lhs = base_first() + 0 * x(one())
    chain = Chain(lhs).rewrite(0, "", start, lambda hole: hole(one()) / 2 + 0 * x(one()))
    word, reason = told(by_start(start, lhs, chain))
    assert word == "undecided"
    assert reason == "lookup z is no lookup of the claim and leads into a size that may be empty"


def test_the_honest_base_carries():
    start = Equation(2 * base_first(), lift(0), says="S_1 = 0", sample={base_first: lambda: lift(0)})
    claim = by_start(start, base_first(), Chain(base_first()).rewrite(0, "", start, half))
    found = check(claim, Chain(claim.lhs))
    assert found.word == "proved", found.reason
    assert found.compared > 0


def test_an_induction_is_evaluated_at_the_first_two_times(monkeypatch):
    """With the kernel's own look at base and step switched off, evaluation still objects."""
    start = Equation(2 * base_first(), lift(0), says="S_1 = 0", sample={base_first: lambda: lift(0)})
    claim = by_start(start, base_first(), Chain(base_first()).rewrite(0, "", start, half))
    wrong = replace(claim, rhs=lift(1))
    monkeypatch.setattr("bayesgrad.symbolic.proof.same", lambda left, right: True)
    found = check(wrong, Chain(wrong.lhs))
    assert found.word == "refuted"
    assert "evaluation denies" in found.reason
    assert refutation.veto_induction(wrong, 0)[0] is not None


# -- witnesses ---------------------------------------------------------------------------------------------------------

everything = total(lambda r: x(r), over=n)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Witness(x(i), lift(1), sizes={n: 1}, values={x: (1,)}), "no position is given for the index i"),
        (lambda: Witness(everything, lift(1), values={x: (1,)}), "x has 1 entries along n, which is not given"),
        (lambda: Witness(Count(n), lift(1)), "the size n is not given"),
        (lambda: Witness(everything, lift(1), sizes={n: 2}, values={x: (1,)}), "x has 1 entries along n, which is 2"),
        (lambda: Witness(everything, lift(1), sizes={n: 1}), "no values are given for x"),
        (
            lambda: Witness(everything, lift(1), sizes={n: 1}, values={x: (1, 5)}),
            "x has 2 entries along n, which is 1",
        ),
        (
            lambda: Witness(x(Lookup("z", (), n)()), lift(1), sizes={n: 1}, values={x: (1,)}),
            "no values are given for the lookup z",
        ),
        (
            lambda: Witness(total(lambda r: 0, over=n), lift(0), sizes={n: 10**9}),
            "it has more than 200000 terms when it is written out",
        ),
    ],
)
def test_a_witness_that_is_not_all_there_is_undecided(make, reason):
    claim = make()
    assert told(claim) == ("undecided", f"witness: {reason}")


@pytest.mark.parametrize("value", [0.1, True, "1", 1 + 0j, (1,), None])
def test_a_witness_holds_exact_numbers(value):
    with pytest.raises(TermError, match=r"witness: value of c: got \w+, expected int or Fraction"):
        Witness(c(), lift(1), values={c: value})


def test_a_witness_vets_kinds():
    w = Tensor("w", (), "positive", lambda: lift(0))
    claim = Witness(w() * inv(w()), lift(1))
    assert told(claim) == ("undecided", "tensor w: its definition is not seen to be positive")


def test_a_witness_is_evaluated_on_its_own(monkeypatch):
    """The written-out sides are compared by the referee as well, which shares no line with them."""
    claim = Witness(c() + log(exp(c())), lift(Fraction(3, 2)), values={c: Fraction(1, 2)})
    monkeypatch.setattr("bayesgrad.symbolic.proof.same", lambda left, right: True)
    found = check(claim, Chain(claim.lhs))
    assert found.word == "refuted"
    assert "witness: evaluation denies it" in found.reason
    right = Witness(c() + log(exp(c())), lift(1), values={c: Fraction(1, 2)})
    assert check(right, Chain(right.lhs)).compared == 1


def test_endless_witnesses_end():
    tower = c()
    for _ in range(9):
        tower = exp(tower * 50)
    claim = Witness(tower, lift(2), relation=">", values={c: 1})
    assert check(claim, Chain(claim.lhs)).word == "undecided"
