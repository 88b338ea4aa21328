"""The mutator changes what it says, undoes it, and its mutants are caught by the checks."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import types
from typing import Any

import numpy as np
import pytest

from bayesgrad import gradients
from checks.mutation import equivalent, mutants
from checks.mutation.mutate import OPERATORS, living, mutants_of

SOURCE = '''
import numpy as xp
def f(a, b, scale=2):
    """A docstring with 3 numbers: 1 + 1."""
    if a.shape[0] < 1:
        raise ValueError(f"got {a.shape[0] + 1}")
    total = xp.sum(a * b, axis=-1, keepdims=True) - b
    return xp.where(total > 0, -total / 2, xp.exp(total)) if scale == 2 else xp.matrix_transpose(total)
'''


def module_of(source: str, tmp_path: Any) -> types.ModuleType:
    path = tmp_path / "made.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("made", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_operator_finds_its_places_and_nothing_else(tmp_path: Any) -> None:
    found = list(mutants_of(module_of(SOURCE, tmp_path)))
    changes = {(mutant.operator, mutant.before, mutant.after) for mutant in found}
    expected = {
        ("sign flipped", "-total", "total"),
        ("term dropped", "a * b", "a"),
        ("term dropped", "a * b", "b"),
        ("product inverted", "a * b", "a / b"),
        ("product inverted", "-total / 2", "-total * 2"),
        ("transposition dropped", "xp.matrix_transpose(total)", "total"),
        ("boundary moved", "total > 0", "total >= 0"),
        ("constant changed", "True", "False"),
        ("function dropped", "xp.exp(total)", "total"),
    }
    assert expected <= changes
    assert any(operator == "axis changed" for operator, _, _ in changes)
    assert any(operator == "arguments swapped" and "where" in before for operator, before, _ in changes)
    # Default values, docstrings, and tests that only guard an error are left alone.
    text = " ".join(before for _, before, _ in changes)
    assert "docstring" not in text
    assert "a.shape" not in text
    assert len(found) == len({(mutant.line, mutant.name) for mutant in found}) or len(found) > 20
    for mutant in found:
        ast.parse(mutant.before)
        ast.parse(mutant.after)


def test_a_mutant_lives_in_its_block_only(tmp_path: Any) -> None:
    module = module_of("def f(x, y):\n    return x - y\n", tmp_path)
    mutant = next(m for m in mutants_of(module) if m.after == "x + y")
    held = module.f
    assert held(5, 3) == 2
    with living(module, mutant):
        assert held(5, 3) == 8
    assert held(5, 3) == 2
    with pytest.raises(RuntimeError), living(module, mutant):
        raise RuntimeError
    assert held(5, 3) == 2


def test_the_mutants_of_the_laws_are_killed() -> None:
    verdicts = mutants.hunt(("_head",))
    assert len(verdicts) > 60
    survivors = [verdict.mutant.name for verdict in verdicts if not verdict.killed_by]
    assert len(survivors) <= 0.05 * len(verdicts), survivors
    law = [verdict for verdict in verdicts if verdict.mutant.function == "score_gradient_of"]
    assert law
    assert all(verdict.killed_by for verdict in law)
    # And the module is as it was.
    a, b = np.array([[0.5, 0.5]]), np.array([[1.0, 3.0]])
    assert gradients.score_gradient(a, b).tolist() == [[-0.5, 0.5]]


def test_each_operator_applies_in_the_core_and_each_explanation_names_a_mutant() -> None:
    core = [importlib.import_module(f"bayesgrad.{name}") for name in mutants.CORE]
    found = [mutant for module in core for mutant in mutants_of(module)]
    assert {mutant.operator for mutant in found} == set(OPERATORS)
    names = {mutant.name for mutant in found}
    assert not [row for row in equivalent.EQUIVALENT if not any(row.covers(name) for name in names)]


def test_an_explanation_covers_only_what_it_names() -> None:
    row = equivalent.Explained("heads.f", "a - 1", "-1", "because")
    assert row.covers("heads.f: a - 1 -> -1")
    assert not row.covers("heads.f: a - 2 -> -1")
    assert not row.covers("heads.g: a - 1 -> -1")
