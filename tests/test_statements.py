"""What the pages show is what was proved: statement, TeX and catalogue come from one term."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayesgrad.symbolic.proof import Minimum
from bayesgrad.symbolic.terms import indices_of, tensors_of
from bayesgrad.symbolic.tex import statement
from bayesgrad.theorems import THEOREMS, theorem
from derivations import laws
from derivations.present import statement_tex

LABELS = laws.labels()


def test_the_book_holds_labels_of_the_catalogue_alone():
    assert set(LABELS) <= {t.label for t in THEOREMS}


@pytest.mark.parametrize("label", LABELS)
def test_the_catalogue_shows_the_statement_that_was_proved(label):
    assert theorem(label).statement == statement_tex(label)


@pytest.mark.parametrize("label", LABELS)
def test_the_headline_is_made_of_claims_that_were_proved(label):
    found = laws.law(label)
    proved = {p.tex for p, verdict in zip(found.parts, found.verdicts, strict=True) if verdict.word == "proved"}
    assert set(statement_tex(label).split(r" \qquad ")) <= proved


@pytest.mark.parametrize("label", LABELS)
def test_a_changed_side_changes_the_statement(label):
    for part in laws.law(label).parts:
        claim = part.claim
        shown = statement(claim)
        assert statement(replace(claim, lhs=claim.lhs + 1)) != shown
        if not isinstance(claim, Minimum):  # which has no right side but 0
            assert statement(replace(claim, rhs=claim.rhs + 1)) != shown


@pytest.mark.parametrize("label", LABELS)
def test_no_two_letters_of_a_statement_look_alike(label):
    """Two tensors that are shown in one way, or an index shown like a tensor, would make a page ambiguous."""
    for part in laws.law(label).parts:
        claim = part.claim
        shown: dict[str, object] = {}
        for tensor in tensors_of(claim.lhs) | tensors_of(claim.rhs):
            letter = tensor.tex or tensor.name
            assert shown.setdefault(letter, tensor) is tensor, (
                f"{label}, {part.name}: two tensors are shown as {letter}"
            )
        names = [i.name for i in indices_of(claim.lhs)[0] | indices_of(claim.rhs)[0]]
        assert len(set(names)) == len(names)
