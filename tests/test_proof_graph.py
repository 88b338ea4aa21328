"""What rests on what is computed, and "fully proved" follows it: two independent ways give the same losers.

For each result in turn its evidence is refuted or removed, and statuses are computed again. Who loses "fully proved"
must be who reaches the result in the recorded graph, backwards. That graph in turn must be the one that shows when a
law is broken in the book and the other proofs are made again.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache

import pytest

from bayesgrad.evidence.status import cycle, fully_proved, merge, read_all
from bayesgrad.symbolic.terms import Term
from bayesgrad.theorems import THEOREMS
from derivations import laws, present
from derivations.formal import dependencies
from tests import _report_sample as sample

TRUE = laws.law
LABELS = [theorem.label for theorem in THEOREMS]


@pytest.fixture(scope="module")
def graph():
    """label -> what its proof, and what its Coq twin, rests on."""
    return {
        label: {"proof": set(laws.law(label).uses), "formal": set(dependencies.rests_on()[label])} for label in LABELS
    }


@pytest.fixture(scope="module")
def evidence(tmp_path_factory, graph):
    def change(found):
        for label, links in graph.items():
            found["proof"]["results"][label]["rests_on"] = {route: sorted(below) for route, below in links.items()}

    return merge(THEOREMS, read_all(sample.write(tmp_path_factory.mktemp("evidence"), change)))


def losers(graph, label, route=None):
    """Who reaches a label: backwards over the edges, one at a time."""
    found, waiting = {label}, [label]
    while waiting:
        at = waiting.pop()
        for other, links in graph.items():
            if other not in found and any(at in below for kind, below in links.items() if route in (None, kind)):
                found.add(other)
                waiting.append(other)
    return found


def test_every_result_has_a_proof_and_a_twin():
    assert set(laws.labels()) == set(dependencies.rests_on()) == set(LABELS)


def test_nothing_rests_on_what_comes_later(graph):
    assert not cycle({label: links["proof"] | links["formal"] for label, links in graph.items()})
    for number, label in enumerate(LABELS):
        later = set(LABELS[number:])
        assert not graph[label]["proof"] & later
        assert not graph[label]["formal"] & later


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.label)
def test_what_is_only_read_with_a_result_carries_nothing(graph, theorem):
    for other in theorem.read_with:
        assert other in LABELS[: LABELS.index(theorem.label)]
        assert theorem.label not in losers(graph, other), f"{other} is a dependency: not only read with it"


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("how", ["refuted", "undecided", "not run"])
def test_a_broken_result_takes_exactly_those_with_it_that_rest_on_it(graph, evidence, label, how):
    results = dict(evidence["results"])
    results[label] = {**results[label], "proof": {**results[label]["proof"], "verdict": how}}
    lost = {other for other, status in fully_proved(THEOREMS, results).items() if not status}
    assert lost == losers(graph, label)


def equations(proof):
    """The claims that the steps of a chain name; some are made once, when their module is imported."""
    if isinstance(proof, laws.Equation):
        yield proof
    elif isinstance(proof, tuple | list):
        for inner in proof:
            yield from equations(inner)
    elif type(proof).__module__.startswith("bayesgrad.symbolic") and not isinstance(proof, Term):
        for inner in vars(proof).values():
            yield from equations(inner)


@pytest.fixture
def forgotten():
    """Modules keep claims that they proved once: forgotten, so that no proof of one book serves another."""

    def forget():
        for name, module in list(sys.modules.items()):
            for function in list(vars(module).values()) if name.startswith("derivations.") else ():
                if hasattr(function, "cache_clear") and function not in (TRUE, dependencies.rests_on):
                    function.cache_clear()

    forget()
    yield
    forget()


@pytest.mark.parametrize("label", LABELS)
def test_a_broken_law_stops_the_proofs_that_the_graph_says(graph, label, monkeypatch, forgotten):
    """The book with one law undecided: whoever builds a proof from it stops, and so does whoever builds on those.

    Only who asks for what matters here, so a chain that the kernel accepted once is not evaluated a second time.
    """
    accepted, owner, alive = TRUE(LABELS[0]).verdicts[0], dict(laws._OWNER), []

    def checked(claim, proof):
        alive.append(claim)  # an owner is known by the identity of its claim
        broken = label in (owner.get(id(one)) for one in (claim, *equations(proof)))
        return replace(accepted, word="undecided") if broken else accepted

    law = cache(TRUE.__wrapped__)
    monkeypatch.setattr(laws, "_checked", checked)
    monkeypatch.setattr(laws, "_OWNER", owner)
    monkeypatch.setattr(laws, "law", law)
    assert {other for other in LABELS if law(other).word != "proved"} == losers(graph, label, "proof")


def test_with_the_jacobian_refuted_the_feedback_falls(evidence):
    results = dict(evidence["results"])
    jacobian = results["softmax.jacobian"]
    results["softmax.jacobian"] = {**jacobian, "proof": {**jacobian["proof"], "verdict": "refuted"}}
    assert not fully_proved(THEOREMS, results)["dynamics.feedback"]


def test_page_catalogue_and_tree_show_the_same_graph(evidence):
    from derivations import catalogue

    text = catalogue.source()
    assert text == catalogue.PAGE.read_text(encoding="utf-8"), "docs/catalogue.md is stale: make docs"
    for theorem in THEOREMS:
        links = present.graph(theorem.label)
        result = evidence["results"][theorem.label]
        assert set(links.rests_on) == set(result["rests_on"]["proof"]) | set(result["rests_on"]["formal"])
        assert list(links.read_with) == result["read_with"]
        entry = text.partition(f"### {theorem.label}\n")[2].partition("\n### ")[0]
        lines = {line.partition(":")[0]: line for line in entry.splitlines() if line.startswith("- ")}
        assert all(f"`{other}`" in lines["- rests on"] for other in links.rests_on)
        assert all(f"`{other}`" in lines["- read with"] for other in links.read_with)
        tree = present.tree(theorem.label)
        assert all(f"\n  {other}  (" in tree for other in (*links.rests_on, *links.read_with))
