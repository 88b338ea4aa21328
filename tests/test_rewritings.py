"""The converse of the wrong laws: a law written otherwise is proved by the same proof, and a harmed one is not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bayesgrad.symbolic import proof
from bayesgrad.symbolic.comparison import differs
from bayesgrad.symbolic.evaluation import Formal
from bayesgrad.symbolic.proof import Equation
from bayesgrad.symbolic.terms import Add, Entry, Mul, Term, rebuild
from derivations import laws
from derivations.rewritings import MOVES, changed, nodes, rewritings, verdicts

FAMILY = {"lemma": "lemmas", "bayes": "A", "softmax": "B", "loss": "B", "attention": "B", "dynamics": "C", "em": "D"}
FAMILIES = sorted(set(FAMILY.values()))
EACH = 24


def members(family: str) -> list[str]:
    return [label for label in laws.labels() if FAMILY[label.split(".")[0]] == family]


def shares(labels: list[str], count: int) -> list[int]:
    return [count // len(labels) + (n < count % len(labels)) for n in range(len(labels))]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_harmless_rewriting_is_proved(family):
    labels = members(family)
    told: list[str] = []
    count = 0
    for label, share in zip(labels, shares(labels, EACH), strict=True):
        for part, claim, moves, found in verdicts(laws.law(label), share):
            count += 1
            assert moves
            told += moves
            assert found.word == "proved", f"{label}, {part.name}, {moves}: {found.reason}\n{claim.lhs}\n{claim.rhs}"
    assert count == EACH >= 20
    assert {"renaming", "reordering", "splitting", "spreading", "padding"} & set(told)


def test_every_kind_of_move_is_made():
    told: set[str] = set()
    for label in laws.labels():
        for part in laws.law(label).parts:
            for _, moves in rewritings(part, 6):
                told |= set(moves)
    assert told == set(MOVES)


def test_rewritings_are_the_same_every_time():
    part = laws.law("attention.routing-law").parts[0]
    one, two = ([moves for _, moves in rewritings(part, 5)] for _ in range(2))
    assert one == two
    assert [moves for _, moves in rewritings(part, 5, seed=1)] != one


def harmed(term: Term, rng: random.Random) -> Term:
    """One factor or summand lost, one sign turned or one pair of indices exchanged, at a random place."""
    at = rng.randrange(nodes(term))
    seen = iter(range(10**6))

    def visit(old: Term) -> Term:
        here = next(seen) == at
        new = rebuild(old, visit)
        if not here:
            return new
        match new:
            case Mul(factors) if len(factors) > 1:
                return Mul(factors[1:])
            case Add(terms) if len(terms) > 1:
                return Add(terms[:-1])
            case Entry(tensor, indices) if len(indices) == 2 and indices[0].size == indices[1].size:
                return Entry(tensor, indices[::-1])
        return -new

    return visit(term)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_harmful_change_is_never_proved_where_evaluation_sees_it(family):
    """And the kernel's refutation is an instance; what evaluation cannot see may still be true."""
    rng = random.Random(family)
    refuted = 0
    for label in members(family):
        for part in laws.law(label).parts:
            if type(part.claim) is not Equation:
                continue
            claim = replace(part.claim, rhs=harmed(part.claim.rhs, rng))
            found = proof.check(claim, part.proof)
            unlike = differs(part.claim.rhs, claim.rhs, claim.given, kind=Formal, seed=5, tries=6, spread=9)[0]
            if unlike is not None:
                assert found.word != "proved", f"{label}, {part.name}"
            refuted += found.word == "refuted"
    assert refuted >= 2


def test_a_rewriting_changes_the_term():
    part = laws.law("attention.value-law").parts[0]
    new, moves = changed(part.claim.rhs, random.Random(3), 4)
    assert len(moves) == 4
    assert repr(new) != repr(part.claim.rhs)
