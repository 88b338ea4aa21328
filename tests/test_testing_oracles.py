"""The oracles are independent: of the package, of each other, and of whether JAX is there."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayesgrad.evidence import ROOT
from bayesgrad.testing import strategies
from bayesgrad.testing.engine import Check, Oracle
from bayesgrad.testing.jets import along, constant
from bayesgrad.testing.oracles import forward, reverse
from bayesgrad.testing.strategies import example_of
from bayesgrad.theorems import THEOREMS
from checks.oracles import padded, padded_layer, tangents
from checks.registry import CHECKS, load_checks
from tests._needed import needed

load_checks()
FOLDERS = (ROOT / "bayesgrad" / "testing" / "oracles", ROOT / "checks" / "oracles")
INPUTS = {
    "examples.py": {
        "multiplier",
        "visible",
        "the_scale",
        "soft_targets",
        "bias",
        "memory",
        "d_k",
        "d_v",
        "pi",
        "sizes",
    },
    "models.py": {"fractions", "floats", "values", "conditional", "tensors"},
}
"""What only says what the input is: everybody may read it. The same for the records of the engine, and conversions."""
CONVERSIONS = {
    "numbers",
    "named",
    "unbounded",
    "present",
    "of",
    "__init__",
    "<genexpr>",
    "<listcomp>",
    "<dictcomp>",
    "<lambda>",
}
GIVEN = {"softmax.shift-invariance": {"scores", "shift"}, "lemma.variance-form": {"row"}}
"""What a law takes as given: the scores and their shift, weights and numbers."""


def footprint(oracle: Oracle, example: Any) -> set[tuple[str, str]]:
    """(file, function) of everything of ours that runs when the oracle answers."""
    seen: set[tuple[str, str]] = set()

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            path = Path(frame.f_code.co_filename)
            if ".venv" not in path.parts:
                seen.add((path.relative_to(ROOT).as_posix(), frame.f_code.co_name))

    sys.setprofile(watch)
    try:
        oracle.of(example)
    finally:
        sys.setprofile(None)
    return seen


def computed(label: str, footprint: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """What of it computes something, beyond reading the input."""
    read = CONVERSIONS | GIVEN.get(label, set())
    return {
        (path, name)
        for path, name in footprint
        if name not in read and name not in INPUTS.get(Path(path).name, ()) and not path.endswith("engine.py")
    }


@cache
def footprints_of(number: int) -> dict[str, set[tuple[str, str]]]:
    """oracle -> what runs, on one example of the check of that number; oracles of one name are one."""
    check = CHECKS[number]
    example = example_of(check.given, 12)[-1]
    found: dict[str, set[tuple[str, str]]] = {}
    for oracle in check.oracles:
        found.setdefault(oracle.name, set()).update(footprint(oracle, example))
    return found


def footprints(check: Check) -> dict[str, set[tuple[str, str]]]:
    """The same for a check itself."""
    return footprints_of(next(number for number, other in enumerate(CHECKS) if other is check))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.label}-{check.name}")
def test_no_oracle_runs_anything_of_the_package_under_test(check: Check) -> None:
    for name, seen in footprints(check).items():
        core = sorted(path for path, _ in seen if path.startswith("bayesgrad/") and "/testing/" not in path)
        assert not core, (name, core)


REQUIRED = [theorem.label for theorem in THEOREMS if theorem.routes.get("check", "required") == "required"]


@pytest.mark.parametrize("label", REQUIRED)
def test_every_label_has_two_oracles_that_share_no_function(label: str) -> None:
    said: dict[str, set[tuple[str, str]]] = {}
    for check in CHECKS:
        if check.label == label:
            for name, seen in footprints(check).items():
                said.setdefault(name, set()).update(computed(label, seen))
    assert len(said) >= 2
    names = sorted(said)
    apart = [(a, b) for a in names for b in names if a < b and not said[a] & said[b]]
    assert apart, {(a, b): sorted(said[a] & said[b]) for a in names for b in names if a < b}


def test_oracle_modules_import_neither_the_package_nor_each_other() -> None:
    for folder in FOLDERS:
        for path in folder.glob("*.py"):
            if path.name == "__init__.py":
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom):
                    module = "." * node.level + (node.module or "")
                    ours = module.startswith(("bayesgrad", "."))
                    assert not ours or module.startswith(("bayesgrad.testing", "..")) or module in (".", ".padded"), (
                        path,
                        module,
                    )
                    names = {alias.name for alias in node.names}
                    # loops are the definitions, which the differences differentiate; the blocks of JAX are one oracle.
                    assert module != "." or names <= {"loops"} or module == ".padded", (path, names)
                elif isinstance(node, ast.Import):
                    assert not any(alias.name.startswith("bayesgrad") for alias in node.names), path


HEAD = ("q", "k", "v", "bias", "scale", "s", "a", "g")
LAYER = ("x", "W_Q", "W_K", "W_V", "W_O", "c_Q", "c_K", "c_V", "c_O", "q", "k", "v", "g")


def close(got: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, y in expected.items():
        np.testing.assert_allclose(got[name], y, rtol=1e-11, atol=1e-12 * (1 + np.abs(y).max(initial=0)), err_msg=name)


def test_padding_changes_no_answer() -> None:
    needed(padded.installed(), "JAX")
    for head in example_of(strategies.heads(), 30)[-20:]:
        close(padded.gradients(head, *HEAD), reverse.gradients(head, *HEAD))
    for logits in example_of(strategies.logits(), 30)[-20:]:
        close(padded_layer.cross_entropy(logits), reverse.cross_entropy(logits))
    groups = ((1, 1), (2, 1), (2, 2), (4, 2), (3, 3))
    for layer in example_of(strategies.layers(heads=groups, pairs=True), 40)[-30:]:
        names = (*LAYER, *(("y",) if layer.y is not None else ()))
        close(padded_layer.layer_gradients(layer, *names), reverse.layer_gradients(layer, *names))


def test_an_example_larger_than_the_block_gets_a_larger_block() -> None:
    needed(padded.installed(), "JAX")
    (head,) = example_of(strategies.heads(sizes=[(7, 6, 8, 9)], masks=False, dropout=False), 1)
    close(padded.gradients(head, *HEAD), reverse.gradients(head, *HEAD))


def test_forward_mode_is_the_derivative_along_the_move() -> None:
    for head in example_of(strategies.heads(), 12):
        slopes = reverse.gradients(head, "q", "v", "s")
        moves = {"q": np.cos(head.q), "v": np.sin(head.v + 1), "s": np.cos(np.arange(head.visible.size) + 1.0)}
        moves["s"] = moves["s"].reshape(head.visible.shape)
        found = tangents.head_slopes(head, moves)
        expected = sum((slopes[name] * move).sum() for name, move in moves.items())
        np.testing.assert_allclose(found["L"], expected, rtol=1e-10, atol=1e-12)
        still = tangents.head_slopes(head, moves, frozen=("a",))
        assert not still["a"].any()
        assert found["a"].any() or head.visible.sum(-1).max() == 1
    (logits,) = example_of(strategies.logits(ignored=False), 1)
    move = np.cos(logits.z)
    jet = along(logits.z, move)
    e = jet.exp()
    loss = -((e / e.sum(-1)[..., None]).log() * constant(logits.soft_targets())).sum(-2, -1)
    np.testing.assert_allclose(tangents.loss_slope(logits, move), (loss.x, loss.dx[0]), rtol=1e-12)


def test_importing_the_kit_imports_no_jax_and_without_jax_nobody_asks_it() -> None:
    script = (
        "import sys\n"
        "import bayesgrad.testing.engine, bayesgrad.testing.kernels.judging, checks.oracles.padded\n"
        "assert 'jax' not in sys.modules\n"
        "sys.modules['jax'] = None\n"  # as if it were not installed
        "from checks.oracles import heads, layers\n"
        "names = {oracle.name for oracle in (*heads.head_gradients('q'), *heads.SOFTMAX_JACOBIAN, *layers.LOSS)}\n"
        "assert not [name for name in names if 'JAX' in name], names\n"
        "assert len(names) >= 4\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_double_precision_stays_inside() -> None:
    needed(padded.installed(), "JAX")
    import jax

    before = jax.config.jax_enable_x64
    (head,) = example_of(strategies.heads(), 1)
    assert padded.gradients(head, "q")["q"].dtype == np.float64
    assert jax.config.jax_enable_x64 == before
    assert forward.gradients(head, "q")["q"][0].shape == head.q.shape
