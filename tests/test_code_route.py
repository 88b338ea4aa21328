"""The code route runs what ships, compares it with the statements, and refutes a package that was tampered with."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import bayesgrad
from bayesgrad.theorems import THEOREMS
from derivations import laws
from derivations.routes import code_route as route
from derivations.wrong_laws import wrong_laws

REQUIRED = [t for t in THEOREMS if t.routes["code"] == "required"]
# One small change to the shipped text each, and a part that must notice it.
MUTATIONS = {
    "routing sign": (
        "_head.py",
        " above_mean(xp, a, b), a)",
        " above_mean(xp, a, b), -a)",
        "attention.routing-law",
    ),
    "weight squared": (  # the mean is taken out twice on this way, so that leaving it out once changes nothing
        "_head.py",
        " above_mean(xp, a, b), a)",
        " above_mean(xp, a, b), a * a)",
        "attention.routing-law",
    ),
    "key scale": (
        "gradients.py",
        "_arrays.transpose(xp, ds), factor * wide)",
        "_arrays.transpose(xp, ds), wide)",
        "attention.key-law",
    ),
    "mean of u.g": (
        "gradients.py",
        "xp.sum(wide_u * g, axis=-1)",
        "xp.sum(wide_u * g * 2, axis=-1)",
        "attention.delta-identity",
    ),
    "fisher sign": ("_softmax.py", "row - outer, -outer", "row - outer, outer", "softmax.jacobian"),
    "residual sign": (
        "_cross_entropy.py",
        "weights_of(xp, z, None) - t",
        "weights_of(xp, z, None) + t",
        "loss.logit-gradient",
    ),
    "value step sign": ("dynamics.py", "dv = gradient * -rate", "dv = gradient * rate", "dynamics.value-step"),
    "proximal sign": ("em.py", "v0 - rate * xp.matmul", "v0 + rate * xp.matmul", "em.proximal-m-step"),
    "visible only": ("_arrays.py", "terms = keep(xp, mask, terms)", "terms = terms", "softmax.shift-invariance"),
}


@pytest.fixture
def tampered(tmp_path, monkeypatch):
    """A copy of the package under another name, with one piece of its text replaced."""

    def make(file: str, old: str, new: str) -> route.Shipped:
        home, copy = Path(bayesgrad.__file__).parent, tmp_path / "tampered_with"
        copy.mkdir()
        for source in home.glob("*.py"):
            text = source.read_text(encoding="utf-8")
            if source.name == file:
                assert text.count(old) == 1, f"{file}: the text to change occurs {text.count(old)} times"
                text = text.replace(old, new)
            text = text.replace("from bayesgrad", "from tampered_with").replace(
                "import bayesgrad", "import tampered_with"
            )
            (copy / source.name).write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        for name in [name for name in sys.modules if name.split(".")[0] == "tampered_with"]:
            monkeypatch.delitem(sys.modules, name)
        importlib.invalidate_caches()
        return route.Shipped("tampered_with")

    yield make
    for name in [name for name in sys.modules if name.split(".")[0] == "tampered_with"]:
        del sys.modules[name]


def words(label: str, shipped: route.Shipped) -> set[str]:
    parts = {part.name: part for part in laws.law(label).parts}
    return {route.judged(row, parts, shipped)[0] for row in route.rows(label)}


def test_an_untouched_copy_passes(tampered):
    shipped = tampered(
        "gradients.py", "from __future__ import annotations\n", "from __future__ import annotations  # same\n"
    )
    assert words("attention.routing-law", shipped) == {"proved"}


@pytest.mark.parametrize("name", MUTATIONS)
def test_tampering_is_refuted(name, tampered):
    file, old, new, label = MUTATIONS[name]
    assert "refuted" in words(label, tampered(file, old, new))


@pytest.mark.parametrize("theorem", REQUIRED, ids=lambda t: t.label)
def test_every_required_label_has_rows_for_known_parts(theorem):
    table = route.rows(theorem.label)
    assert table
    parts = {part.name for part in laws.law(theorem.label).parts}
    assert {row.part for row in table} <= parts


@pytest.mark.parametrize("theorem", REQUIRED, ids=lambda t: t.label)
def test_the_functions_that_a_theorem_names_are_run(theorem):
    run = {name for row in route.rows(theorem.label) for name in row.functions}
    assert set(theorem.implements) <= run


def test_named_functions_exist():
    for row in [row for theorem in THEOREMS for row in route.rows(theorem.label)]:
        for name in row.functions:
            module, _, attribute = name.rpartition(".")
            assert callable(getattr(importlib.import_module(module), attribute))


@pytest.mark.parametrize("label", ["loss.logit-gradient", "attention.value-law", "dynamics.feedback-full"])
def test_what_ships_is_what_is_stated(label):
    found = route.entry(label, "required")
    assert found["verdict"] == "proved", found["reason"]
    assert found["detail"]["comparisons"] > 0
    assert {row["verdict"] for row in found["detail"]["wrong_laws"]} == {"refuted"}


def test_wrong_laws_are_refuted_by_what_ships():
    shipped = route.Shipped()
    for wrong in wrong_laws("attention.routing-law"):
        assert route.rejection(wrong, shipped)["verdict"] == "refuted", wrong.id


def test_a_label_without_a_row_is_open():
    found = route.entry("attention.no-such-law", "required")
    assert found["verdict"] == "not run"
    assert "open" in found["reason"]


def test_a_function_that_fails_is_undecided_not_refuted():
    row = route.Row("x", "weights", ("f",), lambda shipped, t: t.nonsense)
    parts = {part.name: part for part in laws.law("attention.weight-gradient").parts}
    word, reason, _ = route.judged(row, parts, route.Shipped())
    assert (word, "nonsense" in reason) == ("undecided", True)


def test_a_wrong_shape_is_undecided():
    row = route.Row("x", "weights", ("f",), lambda shipped, t: t.u)
    parts = {part.name: part for part in laws.law("attention.weight-gradient").parts}
    word, reason, _ = route.judged(row, parts, route.Shipped())
    assert word == "undecided"
    assert "shape" in reason
