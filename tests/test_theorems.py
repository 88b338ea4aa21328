"""The catalogue is complete, its graph is the one of the theory, and nothing uses what comes later."""

from __future__ import annotations

import pytest

from bayesgrad import theorems
from bayesgrad.theorems import ROUTES, THEOREMS, theorem

# Retyped from the theory's text, not from the table: label <- what it uses.
GRAPH = """
lemma.log-bound
lemma.gibbs <- lemma.log-bound
lemma.variance-form
lemma.em-identity <- lemma.gibbs
bayes.risk-decomposition
bayes.posterior-predictive <- bayes.risk-decomposition lemma.gibbs
bayes.chain-rule
bayes.entropy-is-blind
bayes.bijection <- bayes.posterior-predictive
bayes.hmm-filter <- bayes.posterior-predictive bayes.chain-rule
bayes.sticky-markov <- bayes.hmm-filter lemma.gibbs
softmax.shift-invariance
softmax.jacobian
softmax.fisher <- softmax.jacobian lemma.variance-form
loss.logit-gradient <- softmax.jacobian
attention.upstream <- loss.logit-gradient
attention.weight-gradient
attention.routing-law <- attention.weight-gradient softmax.jacobian softmax.fisher
attention.delta-identity
attention.value-law
attention.query-law <- attention.routing-law
attention.key-law <- attention.routing-law
attention.projection-laws <- attention.query-law attention.key-law attention.value-law loss.logit-gradient
attention.input-law <- attention.query-law attention.key-law attention.value-law
attention.multi-head <- attention.upstream attention.projection-laws attention.input-law
attention.saturation-bound <- attention.routing-law
dynamics.loss-decrease
dynamics.value-step <- attention.value-law dynamics.loss-decrease
dynamics.score-step <- attention.routing-law softmax.jacobian dynamics.loss-decrease
dynamics.feedback <- dynamics.value-step
dynamics.feedback-full <- dynamics.feedback attention.upstream softmax.jacobian
dynamics.weight-space <- attention.projection-laws
dynamics.natural-routing <- softmax.fisher attention.routing-law lemma.variance-form
dynamics.frame-precision <- attention.saturation-bound attention.value-law
em.fisher-identity
em.proximal-e-step <- lemma.gibbs
em.proximal-m-step
em.gaussian-mixture <- softmax.shift-invariance
em.not-variational <- attention.upstream attention.value-law attention.routing-law dynamics.natural-routing \
lemma.em-identity
"""


def _graph():
    rows = [line.split("<-") for line in GRAPH.strip().splitlines()]
    return {row[0].strip(): set(row[1].split()) if len(row) > 1 else set() for row in rows}


def test_every_label_once_and_the_graph_as_in_the_theory():
    labels = [t.label for t in THEOREMS]
    assert len(labels) == len(set(labels)) == 39
    assert {t.label: set(t.uses) for t in THEOREMS} == _graph()


def test_nothing_uses_what_comes_later():
    seen = set()
    for t in THEOREMS:
        assert set(t.uses) <= seen, f"{t.label} uses {set(t.uses) - seen} before they stand"
        seen.add(t.label)


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
    for t in theorems.HEAD:
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
