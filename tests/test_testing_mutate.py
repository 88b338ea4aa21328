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


def test_the_mutants_of_the_routing_law_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own checks; `python -m checks --mutants` hunts all mutants with all checks."""
    mutants.load_checks()
    own = [check for check in mutants.CHECKS if check.label == "attention.routing-law"]
    chosen = lambda module: [mutant for mutant in mutants_of(module) if mutant.function == "score_gradient_of"]
    monkeypatch.setattr(mutants, "CHECKS", own)
    monkeypatch.setattr(mutants, "mutants_of", chosen)
    for others in ("_of_corners", "_of_masks", "_of_backends", "_of_other_ways"):
        monkeypatch.setattr(mutants, others, list)
    verdicts = mutants.hunt(("_head",))
    assert len(verdicts) >= 3
    assert all(verdict.killed_by for verdict in verdicts), verdicts
    # And the module is as it was.
    a, b = np.array([[0.5, 0.5]]), np.array([[1.0, 3.0]])
    assert gradients.score_gradient(a, b).tolist() == [[-0.5, 0.5]]


def test_each_operator_applies_in_the_core_and_each_explanation_names_a_mutant() -> None:
    core = [importlib.import_module(f"bayesgrad.{name}") for name in mutants.CORE]
    found = [mutant for module in core for mutant in mutants_of(module)]
    assert {mutant.operator for mutant in found} == set(OPERATORS)
    keys = [mutant.key for mutant in found]
    assert len(keys) == len(set(keys))
    assert set(equivalent.REASONS) <= set(keys)


def test_no_mutant_is_explained_twice() -> None:
    assert sum(len(row.nth) for row in equivalent.EQUIVALENT) == len(equivalent.REASONS)
    assert all(reason.strip() for reason in equivalent.REASONS.values())


def test_an_explanation_covers_only_what_it_names() -> None:
    row = equivalent.EQUIVALENT[0]
    known = (row.function, row.operator, row.nth[0])
    assert equivalent.explanation(known) == row.reason
    assert equivalent.explanation((row.function, row.operator, 10**6)) == ""
    assert equivalent.explanation((row.function, "another operator", row.nth[0])) == ""
    assert equivalent.explanation((row.function + "x", *known[1:])) == ""


LAID_OUT_ANEW = """
import numpy as xp


def f(
    first,
    second,
    scale=2,
):
    '''Another docstring.'''
    if first.shape[0] < 1:
        raise ValueError("empty")
    # A comment, parentheses and other names.
    dot = (xp.sum((first * second), axis=-1,
                  keepdims=True)
           - second)
    return (
        xp.where(dot > 0, -dot / 2, xp.exp(dot))
        if scale == 2
        else xp.matrix_transpose(dot)
    )
"""


def test_another_layout_and_other_names_leave_every_key_as_it_was(tmp_path: Any) -> None:
    old, new = list(mutants_of(module_of(SOURCE, tmp_path))), list(mutants_of(module_of(LAID_OUT_ANEW, tmp_path)))
    assert [(m.key, m.detail) for m in old] == [(m.key, m.detail) for m in new]
    assert [m.name for m in old] != [m.name for m in new]
    assert [m.line for m in old] != [m.line for m in new]


def test_mutants_of_one_operator_are_numbered_from_1_in_each_function(tmp_path: Any) -> None:
    found = list(mutants_of(module_of(SOURCE + SOURCE.replace("def f", "def g"), tmp_path)))
    for function in ("f", "g"):
        numbers: dict[str, list[int]] = {}
        for mutant in found:
            if mutant.function == function:
                numbers.setdefault(mutant.operator, []).append(mutant.nth)
        assert numbers
        assert all(each == list(range(1, len(each) + 1)) for each in numbers.values())


def test_an_explained_mutant_that_a_check_kills_fails_the_hunt(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So an explanation that a change of its function hands on to another mutant does not excuse that one."""
    monkeypatch.setattr(mutants.files, "write", lambda *_, **__: None)
    made = list(mutants_of(module_of(SOURCE, tmp_path)))
    monkeypatch.setitem(equivalent.REASONS, made[0].key, "it changes nothing")
    survives = [mutants.Verdict(made[0], "", 3), *(mutants.Verdict(m, "some check", 3) for m in made[1:])]
    data = mutants.write(survives, 1.0, {})
    assert (data["explained"], data["refuted"]) == (1, [])
    assert mutants.enough(data)
    row = data["survivors"][0]
    assert (row["function"], row["operator"], row["nth"]) == made[0].key
    killed = mutants.write([mutants.Verdict(m, "some check", 3) for m in made], 1.0, {})
    assert killed["killed"] == killed["total"]
    assert not mutants.enough(killed)
    assert made[0].name in mutants.summary(killed)[-1]
    assert "killed by some check" in mutants.summary(killed)[-1]
