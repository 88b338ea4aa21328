"""Checking somebody else's backward function: every way to be wrong is reported as such, and none ends the run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesgrad.testing as testing
from bayesgrad.testing.demonstrations import DEMONSTRATIONS, numpy_right, torch_at_the_edge
from bayesgrad.testing.foreign import Capabilities, Finding, Ledger, check, judge, load
from derivations.evidence import ROOT

FAST: dict[str, Any] = {"examples": 24}


def verdicts(ledger: Ledger) -> dict[str, str]:
    return {case.name: case.verdict for case in ledger.cases}


def test_a_right_function_passes_everything() -> None:
    ledger = check(numpy_right, **FAST)
    assert ledger.good, "\n".join(ledger.lines())
    assert set(verdicts(ledger).values()) == {"ok"}
    assert ledger.lines()[-1] == f"{len(ledger.cases)} of {len(ledger.cases)} claimed cases are ok"


def test_the_fused_kernel_passes_what_it_claims_and_its_edges_are_reported() -> None:
    function, claims = DEMONSTRATIONS["torch"]
    ledger = check(function, claims, **FAST)
    assert ledger.good, "\n".join(ledger.lines())
    assert verdicts(ledger)["corner: empty rows"] == "not claimed"
    edge = torch_at_the_edge()
    assert len(edge) == 3
    assert all(("context" in line) or ("raises" in line) for line in edge)


def test_the_subtly_wrong_function_fails_with_a_smallest_example() -> None:
    ledger = check(DEMONSTRATIONS["wrong"][0], **FAST)
    assert not ledger.good
    case = ledger.cases[0]
    assert case.verdict == "wrong"
    assert case.example.startswith("Head(q=np.array(")
    # One query and two keys: fewer cannot tell the two means apart.
    assert case.example.count("], [") == 2
    assert "expected" in case.detail
    lines = ledger.lines()
    assert any("smallest" in line for line in lines)
    assert lines[1].startswith("claims: any mask, any scale")
    assert lines[-2].startswith("not ok: random blocks, float64 (wrong)")
    # The command that the ledger names shows the same numbers again.
    head = eval(case.example, {"np": np, "Head": testing.Head})
    with pytest.raises(Finding, match="expected") as found:
        judge(DEMONSTRATIONS["wrong"][0], head)
    assert found.value.detail == case.detail


def altered(change: Callable[..., Any]) -> Callable[..., Any]:
    def function(q: Any, k: Any, v: Any, u: Any, *, mask: Any, scale: float) -> Any:
        return change(q, k, v, u, mask, numpy_right(q, k, v, u, mask=mask, scale=scale))

    return function


def _write(q: Any, k: Any, v: Any, u: Any, mask: Any, found: Any) -> Any:
    u *= 2
    return found


def _write_mask(q: Any, k: Any, v: Any, u: Any, mask: Any, found: Any) -> Any:
    if mask is not None:
        mask[:] = True
    return found


def _raise(*_: Any) -> Any:
    raise ZeroDivisionError("no answer")


WAYS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "raises": (_raise, "raised", "ZeroDivisionError: no answer"),
    "another shape": (lambda q, k, v, u, m, f: (f[0].T, f[1], f[2]), "shape", "dq has shape"),
    "two results": (lambda q, k, v, u, m, f: f[:2], "shape", "expected three arrays"),
    "no arrays": (lambda q, k, v, u, m, f: (f[0], None, f[2]), "shape", "dk has shape"),
    "integers": (lambda q, k, v, u, m, f: (f[0], f[1], f[2].astype(int)), "shape", "dtype int64"),
    "NaN": (lambda q, k, v, u, m, f: (f[0], f[1] * np.nan, f[2]), "nan", "dk is not finite"),
    "writes to u": (_write, "wrote", "its input u"),
    "sign of dq": (lambda q, k, v, u, m, f: (-f[0], f[1], f[2]), "wrong", "dq["),
    "dv off by a millionth": (lambda q, k, v, u, m, f: (f[0], f[1], f[2] * (1 + 1e-6)), "wrong", "dv["),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_be_wrong_has_its_verdict(way: str) -> None:
    change, verdict, said = WAYS[way]
    ledger = check(altered(change), Capabilities(dtypes=("float64",)), **FAST)
    assert not ledger.good
    first = ledger.cases[0]
    assert first.verdict == verdict, first
    assert said in first.detail
    assert "Head(" in first.example
    # The run went on to the end.
    assert len(ledger.cases) > 8


def test_a_mask_that_is_written_to_is_noticed() -> None:
    ledger = check(altered(_write_mask), Capabilities(dtypes=("float64",)), **FAST)
    assert verdicts(ledger)["random blocks, float64, masks"] == "wrote"


def test_capabilities_restrict_what_is_asked() -> None:
    asked: list[tuple[tuple[int, ...], tuple[int, ...], bool, float, Any]] = []

    def spy(q: Any, k: Any, v: Any, u: Any, *, mask: Any, scale: float) -> Any:
        asked.append((q.shape, v.shape, mask is not None, scale, q.dtype))
        return numpy_right(q, k, v, u, mask=mask, scale=scale)

    claims = Capabilities(
        equal_widths=True, masks="none", scale=False, dtypes=("float32",), largest=3, empty=False, unseen_nan=False
    )
    ledger = check(spy, claims, **FAST)
    assert ledger.good
    blocks = [call for call in asked if call[4] == np.float32]
    assert blocks
    assert all(q[1] == v[1] and max(q[0], v[0]) <= 3 and not masked for q, v, masked, _, _ in blocks)
    assert all(np.isclose(scale, q[1] ** -0.5) for q, _, _, scale, _ in blocks)
    assert verdicts(ledger)["random blocks, float64"] == "not claimed"


@pytest.mark.parametrize("claims", [{"masks": "some"}, {"dtypes": ("float16",)}, {"dtypes": ()}])
def test_impossible_capabilities_are_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Capabilities(**claims)


def test_functions_are_found_by_module_and_by_file(tmp_path: Path) -> None:
    assert load("bayesgrad.testing.demonstrations:numpy_right") is numpy_right
    file = tmp_path / "mine.py"
    file.write_text("def back(q, k, v, u, *, mask, scale): return q, k, v\n", encoding="utf-8")
    assert load(f"{file}:back").__name__ == "back"
    for path, said in (("bayesgrad", "module:name"), ("no_such_module:f", "cannot be imported"), ("math:f", "has no")):
        with pytest.raises(ValueError, match=said):
            load(path)


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def test_the_command_line() -> None:
    right = run("-m", "bayesgrad.testing", "--demo", "right", "--examples", "10")
    assert right.returncode == 0, right.stderr
    assert "claimed cases are ok" in right.stdout
    wrong = run("-m", "bayesgrad.testing", "bayesgrad.testing.demonstrations:numpy_wrong", "--examples", "10")
    assert wrong.returncode == 1
    assert "smallest: Head(" in wrong.stdout
    for arguments in ((), ("nothing",), ("a:b", "--demo", "right"), ("--demo", "right", "--examples", "0")):
        refused = run("-m", "bayesgrad.testing", *arguments)
        assert refused.returncode == 2, arguments
        assert "expected" in refused.stderr or "give module:name" in refused.stderr


def test_the_pytest_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from bayesgrad.testing.demonstrations import numpy_right, numpy_wrong\n"
        "def test_right(check_backward):\n"
        "    assert check_backward(numpy_right, name='mine').good\n"
        "def test_wrong(check_backward):\n"
        "    check_backward(numpy_wrong, masks='rows')\n",
        encoding="utf-8",
    )
    plugin = ("-m", "pytest", "-q", "-p", "bayesgrad.testing.plugin", "--rootdir", str(tmp_path))
    there = (*plugin, "-c", "/dev/null", "--backward-examples", "10", str(tmp_path))
    done = run(*there, "--backward", "bayesgrad.testing.demonstrations:numpy_right")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "1 failed" in done.stdout
    assert "backward function mine" in done.stdout
    assert "smallest: Head(" in done.stdout
    refused = run(*there, "--backward", "math:sin", "--backward-claims", "speed")
    assert refused.returncode != 0
    assert "expected one of equal_widths" in refused.stdout + refused.stderr
