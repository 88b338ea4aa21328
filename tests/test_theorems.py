"""The catalogue is complete; what rests on what is computed, and tests/test_proof_graph.py looks at it."""

from __future__ import annotations

import pytest

from bayesgrad.theorems import ROUTES, THEOREMS, theorem


def test_every_label_once():
    labels = [t.label for t in THEOREMS]
    assert len(labels) == len(set(labels)) > 0


@pytest.mark.parametrize("t", THEOREMS, ids=lambda t: t.label)
def test_each_row_is_complete(t):
    assert t.title
    assert t.statement
    assert t.source
    assert isinstance(t.assumptions, tuple)
    assert tuple(t.routes) == ROUTES
    assert all(t.routes.values())
    assert "required" in t.routes.values()
    assert t.statement.count("{") == t.statement.count("}")
    with pytest.raises(AttributeError):
        t.label = "other"


def test_the_identities_of_the_head_take_every_route_but_the_formal_one():
    exempt = {"softmax.fisher", "attention.saturation-bound"}
    for t in [t for t in THEOREMS if t.label.split(".")[0] in ("softmax", "loss", "attention")]:
        wanted = {"proof", "check"} if t.label in exempt else {"proof", "exact", "code", "check", "wrong_laws"}
        assert wanted <= set(t.required()), t.label


def test_an_unknown_label_names_the_nearest():
    with pytest.raises(ValueError, match=r"attention\.routing-law"):
        theorem("attention.routing")


@pytest.mark.parametrize("t", THEOREMS, ids=lambda t: t.label)
def test_what_implements_it_exists_and_names_the_label(t):
    for function in t.functions():
        assert callable(function)
        assert function.__doc__
