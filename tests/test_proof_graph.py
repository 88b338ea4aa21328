"""What the proofs rest on, against the catalogue's graph of uses."""

from __future__ import annotations

import pytest

from bayesgrad.theorems import THEOREMS
from derivations import laws

USES = {t.label: set(t.uses) for t in THEOREMS}

# A part of the result that the catalogue's arrows do not speak of: the score step that happens at the same time.
BEYOND = {"dynamics.feedback": {"softmax.jacobian"}}


def ancestors(label: str) -> set[str]:
    found: set[str] = set()
    todo = [label]
    while todo:
        for used in USES[todo.pop()] - found:
            found.add(used)
            todo.append(used)
    return found


def test_every_result_has_a_proof() -> None:
    assert set(laws.labels()) == set(USES)


@pytest.mark.parametrize("label", sorted(USES))
def test_a_proof_rests_on_nothing_that_the_catalogue_does_not_name(label: str) -> None:
    rests_on = set(laws.law(label).uses)
    assert rests_on <= ancestors(label) | BEYOND.get(label, set())


def test_an_exception_is_needed() -> None:
    for label, extra in BEYOND.items():
        assert extra <= set(laws.law(label).uses) - ancestors(label)
