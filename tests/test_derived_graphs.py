"""Fifty random graphs of definitions: every derived gradient is proved, and its generated source equals autograd."""

from __future__ import annotations

import pytest

from bayesgrad.symbolic.agreement import agrees
from bayesgrad.symbolic.deriving import Deriver
from tests._graphs import Graph

GRAPHS = 50


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_a_gradient_of_a_random_graph_equals_autograd(seed: int) -> None:
    graph = Graph(seed)
    deriver = Deriver(graph.loss)
    laws = [deriver.law(x) for x in graph.inputs if x in deriver.everything]
    assert laws, "the loss depends on no input"
    for law in laws:
        assert law.verdict.word == "proved", law.verdict.reason
    found = agrees([law.claim for law in laws], examples=4)
    assert found.holds, found.wrong
    assert found.examples >= len(laws)
