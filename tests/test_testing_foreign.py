"""Checking somebody else's backward function: every way to be wrong is reported as such, and none ends the run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bayesgrad
import bayesgrad.testing as testing
from bayesgrad.evidence import ROOT
from bayesgrad.testing.capabilities import Capabilities
from bayesgrad.testing.cases import Finding, Ledger
from bayesgrad.testing.demonstrations import DEMONSTRATIONS, numpy_right, numpy_wrong, torch_at_the_edge
from bayesgrad.testing.foreign import check, judge, load
from bayesgrad.testing.large import Recipe
from bayesgrad.testing.oracles import forward, textbook
from bayesgrad.testing.strategies import example_of, heads

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
    assert verdicts(ledger)["float32: empty rows"] == "not claimed"
    edge = torch_at_the_edge()
    assert len(edge) == 5
    # Should PyTorch mend this, docs/checks.md must no longer say it.
    assert edge[-1].endswith("dv [1.0, 1.0]")
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
    assert lines[-2].startswith("not ok: float64: random blocks (wrong)")
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


def _leave(*_: Any) -> Any:
    raise SystemExit("enough")


def _raise(*_: Any) -> Any:
    raise ZeroDivisionError("no answer")


WAYS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "raises": (_raise, "raised", "ZeroDivisionError: no answer"),
    "leaves": (_leave, "raised", "SystemExit: enough"),
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
    assert verdicts(ledger)["float64: random blocks, masks"] == "wrote"


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
    assert asked
    assert all(dtype == np.float32 and not masked for _, _, masked, _, dtype in asked)
    assert all(q[1] == v[1] and np.isclose(scale, q[1] ** -0.5) for q, v, _, scale, _ in asked)
    assert not [case.name for case in ledger.cases if not case.name.startswith("float32: ")]
    assert verdicts(ledger)["float32: an unseen key that is NaN"] == "not claimed"


def test_widths_that_are_not_claimed_are_filled_with_zeros() -> None:
    asked: list[tuple[int, int, float]] = []

    def spy(q: Any, k: Any, v: Any, u: Any, *, mask: Any, scale: float) -> Any:
        asked.append((q.shape[1], v.shape[1], scale))
        return numpy_right(q, k, v, u, mask=mask, scale=scale)

    claims = Capabilities(widths=8, scale=False, dtypes=("float64",))
    assert check(spy, claims, **FAST).good
    assert all(d_k % 8 == 0 and d_v % 8 == 0 and np.isclose(scale, d_k**-0.5) for d_k, d_v, scale in asked)

    def leaks(q: Any, k: Any, v: Any, u: Any, *, mask: Any, scale: float) -> Any:
        dq, dk, dv = numpy_right(q, k, v, u, mask=mask, scale=scale)
        return dq, dk, dv + (np.arange(v.shape[1]) == v.shape[1] - 1) * 1e-9

    found = check(leaks, claims, **FAST).cases[0]
    assert (found.verdict, "columns of zeros" in found.detail) == ("wrong", True)


def test_a_mistake_at_the_edge_of_a_tile_is_found_at_its_first_key() -> None:
    def tiled(q: Any, k: Any, v: Any, u: Any, *, mask: Any, scale: float) -> Any:
        dq, dk, dv = numpy_right(q, k, v, u, mask=mask, scale=scale)
        dv[64:] *= 1.001
        return dq, dk, dv

    ledger = check(tiled, Capabilities(dtypes=("float32",)), only=["blocks"], examples=64)
    assert [case.verdict for case in ledger.cases] == ["ok", "ok", "wrong"]
    found = ledger.cases[2]
    assert found.detail.startswith("dv[64, ")
    recipe = eval(found.example, {"Recipe": Recipe})
    assert recipe.m == 65
    with pytest.raises(Finding, match="expected") as again:
        judge(tiled, recipe, "float32")
    assert again.value.detail == found.detail


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits_find_the_wrong_mean_and_accept_rounding_where_it_is_stored(dtype: str) -> None:
    def rounded(x: np.ndarray) -> np.ndarray:
        wide = torch.from_numpy(np.asarray(x, dtype=np.float32))
        return wide.to(getattr(torch, dtype)).to(torch.float32).numpy()

    def coarse(q: Any, k: Any, v: Any, u: Any, *, mask: Any, scale: float) -> Any:
        q, k, v, u = (x.astype(np.float32) for x in (q, k, v, u))
        seen = np.ones((len(q), len(k)), dtype=bool) if mask is None else mask
        s = np.where(seen, rounded(np.float32(scale) * (q @ k.T)), -np.inf)
        a = rounded(np.exp(s - s.max(1, keepdims=True)) / np.exp(s - s.max(1, keepdims=True)).sum(1, keepdims=True))
        b = rounded(u @ v.T)
        ds = rounded(a * (b - rounded((a * b).sum(1, keepdims=True))))
        return rounded(scale * (ds @ k)), rounded(scale * (ds.T @ q)), rounded(a.T @ u)

    def wrong(q: Any, k: Any, v: Any, u: Any, *, mask: Any, scale: float) -> Any:
        return numpy_wrong(*(x.astype(np.float32) for x in (q, k, v, u)), mask=mask, scale=scale)

    claims = Capabilities(dtypes=(dtype,), masks="rows", empty=False, unseen_nan=False)
    ledger = check(coarse, claims, examples=64)
    assert ledger.good, "\n".join(ledger.lines())
    assert max(case.worst for case in ledger.cases) > 0.02  # rounding is seen, so a tolerance of u32 would refuse it
    assert check(wrong, claims, examples=64, only=["random blocks"]).cases[0].verdict == "wrong"


def test_our_own_functions_claim_everything() -> None:
    def dense(q: Any, k: Any, v: Any, u: Any, *, mask: Any, scale: float) -> Any:
        got = bayesgrad.attention_gradients(q, k, v, u, mask=mask, scale=scale)
        return got.queries, got.keys, got.values

    everything = Capabilities(dtypes=("float64", "float32", "float16"))
    for function in (dense, DEMONSTRATIONS["bayesgrad"][0]):
        ledger = check(function, everything, **FAST)
        assert set(verdicts(ledger).values()) == {"ok"}, "\n".join(ledger.lines())


def test_bounds_of_the_textbook_pass_are_not_looser_than_those_of_the_jets() -> None:
    for head in example_of(heads(biases=False, dropout=False), 40):
        jets, book = forward.gradients(head, "q", "k", "v"), textbook.gradients(head)
        for name in ("q", "k", "v"):
            np.testing.assert_allclose(book[name][0], jets[name][0], rtol=1e-12, atol=1e-14)
            assert np.all(book[name][1] <= 3 * jets[name][1] + 1e-300)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed", "expected one of equal_widths"),
        ("largest=many", "expected a whole number"),
        ("largest=1", "at least 2"),
        ("widths=0", "at least 1"),
        ("huge=perhaps", "expected huge=yes or huge=no"),
        ("masks=some", "expected any, rows or none"),
        ("dtypes=float8", "expected some of float64"),
        ("dtypes=float32+bfloat16", "claim it alone"),
    ],
)
def test_claims_that_make_no_sense_are_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Capabilities.parse(text)


def test_claims_in_words() -> None:
    text = "equal_widths, masks=rows,empty=no,unseen_nan=no,dtypes=float32+float16,largest=300,widths=8"
    claims = Capabilities.parse(text)
    assert claims == Capabilities(True, 8, "rows", True, ("float32", "float16"), 300, False, False, True)
    assert claims.sentence().startswith("masks that leave each query a key, any scale, values as wide as keys only")
    assert claims.padded(3, 9) == (16, 16)


def test_one_case_alone() -> None:
    ledger = check(numpy_right, only=["float64: no keys"], **FAST)
    assert list(verdicts(ledger)) == ["float64: no keys"]
    with pytest.raises(ValueError, match="no case has 'nothing'"):
        check(numpy_right, only=["nothing"])
    with pytest.raises(ValueError, match="at least 1"):
        check(numpy_right, examples=0)


@pytest.mark.parametrize(
    "claims", [{"masks": "some"}, {"dtypes": ("float8",)}, {"dtypes": ()}, {"dtypes": "float64"}, {"huge": 1}]
)
def test_impossible_capabilities_are_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Capabilities(**claims)


def test_functions_are_found_by_module_and_by_file(tmp_path: Path) -> None:
    assert load("bayesgrad.testing.demonstrations:numpy_right") is numpy_right
    file = tmp_path / "mine.py"
    file.write_text("def back(q, k, v, u, *, mask, scale): return q, k, v\n", encoding="utf-8")
    assert load(f"{file}:back").__name__ == "back"
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n", encoding="utf-8")
    for path, said in (
        ("bayesgrad", "module:name"),
        ("no_such_module:f", "cannot be imported"),
        (f"{tmp_path}/none.py:f", "cannot be imported .FileNotFoundError"),
        (f"{broken}:f", "cannot be imported .ZeroDivisionError"),
        ("math:f", "has no function"),
        ("math:pi", "has no function"),
    ):
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
    for arguments in (
        (),
        ("nothing",),
        ("a:b", "--demo", "right"),
        ("--demo", "right", "--examples", "0"),
        ("--demo", "right", "--claims", "speed"),
        ("--demo", "right", "--only", "nothing"),
    ):
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
    beside = run(*there, "-n", "2", "--backward", "bayesgrad.testing.demonstrations:numpy_right")
    assert "backward function mine" in beside.stdout, beside.stdout + beside.stderr
    for arguments, said in (
        (("--backward-claims", "speed"), "expected one of equal_widths"),
        (("--backward-claims", "largest=x"), "expected a whole number"),
        (("--backward", "math:nothing"), "has no function"),
        (("--backward-examples", "0"), "at least 1"),
    ):
        refused = run(*there, *arguments)
        assert refused.returncode == 4, refused.stdout
        assert said in refused.stdout + refused.stderr
        assert "passed" not in refused.stdout
