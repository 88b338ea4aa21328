"""Wrong laws: every row of the registry is refuted by the kernel with an instance, and evaluates to something else."""

from __future__ import annotations

import collections

import pytest

from bayesgrad.symbolic.proof import AtMost, Equation
from bayesgrad.symbolic.terms import indices_of
from derivations import laws
from derivations.wrong_laws import all_wrong_laws, wrong_laws, wrong_names

ROWS = all_wrong_laws()


def test_rows_are_named_once_and_belong_to_a_label_of_the_book():
    names = collections.Counter(row.id for row in ROWS)
    assert [name for name, count in names.items() if count > 1] == []
    assert all(row.id.startswith(row.label + "/") for row in ROWS)
    for label in {row.label for row in ROWS}:
        assert wrong_names(label) == [row.name for row in ROWS if row.label == label]
    assert {row.label for row in ROWS} <= set(laws.labels())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_wrong_law_is_refuted_by_an_instance(row):
    found = row.refute()
    assert found.word == "refuted", found.reason
    assert found.counterexample is not None
    assert found.counterexample.left != found.counterexample.right


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_wrong_law_speaks_of_the_same_positions_as_the_law(row):
    """Of the claim's own indices: a row that compares other positions is refuted for no good reason."""
    mine = set(row.part.order)
    assert indices_of(row.right)[0] <= mine


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_wrong_law_is_refuted_for_what_it_changes(row):
    """The claim that was proved is not refuted in the same way: the proof of the law goes through as it stands."""
    part = row.part
    assert type(part.claim) in (Equation, AtMost), "a wrong law of something else needs its own refutation"
    verdict = dict(zip((p.name for p in laws.law(row.label).parts), laws.law(row.label).verdicts, strict=True))
    assert verdict[part.name].word == "proved"


@pytest.mark.parametrize("label", sorted({row.label for row in ROWS}))
def test_at_least_three_wrong_laws_each(label):
    assert len(wrong_laws(label)) >= 3
