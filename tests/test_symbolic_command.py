"""python -m bayesgrad.symbolic FILE.py: what it prints for a user's file, and with which status it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bayesgrad.evidence import ROOT
from bayesgrad.symbolic.__main__ import main

EXAMPLES = sorted((ROOT / "bayesgrad" / "symbolic" / "examples").glob("*.py"))
SOFT_CAP = (ROOT / "bayesgrad" / "symbolic" / "examples" / "soft_cap.py").read_text()
ASKS = SOFT_CAP[SOFT_CAP.rindex("for x in") :]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command on a text; gives status, output and errors."""

    def it(text: str | Path, *options: str) -> tuple[int, str, str]:
        file = text if isinstance(text, Path) else tmp_path / "mine.py"
        if not isinstance(text, Path):
            file.write_text(text)
        status = main([str(file), *options])
        said = capsys.readouterr()
        return status, said.out, said.err

    return it


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_derived_proved_generated_and_equals_autograd(run: Run, file: Path) -> None:
    status, out, err = run(file, "--source")
    assert (status, err) == (0, "")
    laws = [line for line in out.splitlines() if line.startswith("∂L/∂")]
    assert laws
    assert out.count("\n  proved\n") >= len(laws)
    assert "refuted" not in out
    assert "undecided" not in out
    assert "def gradients(" in out
    assert "gradients compared with autograd" in out


def test_there_are_three_examples_and_one_has_cap_sink_and_slope() -> None:
    assert len(EXAMPLES) == 3
    assert all(word in SOFT_CAP for word in ("tanh", "exp(sigma)", "slope * dist"))


@pytest.mark.parametrize(("shape", "mark"), [("tex", r"\frac{\partial"), ("html", "<math")])
def test_the_same_for_a_paper_and_a_browser(run: Run, shape: str, mark: str) -> None:
    status, out, err = run(SOFT_CAP.replace(ASKS, "derive(L(g), s[i, j])\n"), "--format", shape)
    assert (status, err) == (0, "")
    assert mark in out


def asked(statement: str) -> str:
    """The example with a claim of somebody instead of its questions."""
    return SOFT_CAP.replace(ASKS, f"from sympy import Eq, Le\nfrom bayesgrad.symbolic import prove\n\n{statement}\n")


def test_a_wrong_sign_is_refuted_by_numbers_that_a_hand_can_follow(run: Run) -> None:
    status, out, _ = run(asked("prove(Eq(Derivative(L(g), sigma), Sum(a_0[i] * bbar[i], (i, 0, n - 1))))"))
    assert status == 1
    assert "refuted" in out
    for letter in ("n=1", "m=1", "M[1,1]=1", "u[1,1]=", "v[1,1]=", "cap="):
        assert letter in out
    right = asked("prove(Eq(Derivative(L(g), sigma), -Sum(a_0[i] * bbar[i], (i, 0, n - 1))))")
    assert run(right)[0] == 0


def test_one_refuted_claim_decides_the_status_and_an_undecided_one_is_no_proof(run: Run) -> None:
    right = "prove(Eq(Derivative(L(g), v[j, c]), Sum(a[i, j] * u[i, c], (i, 0, n - 1))))"
    undecided = "prove(Le(2 * Sum(slope * dist[i, j], (i, 0, n - 1), (j, 0, m - 1)), "
    undecided += "Sum((slope * dist[i, j])**2, (i, 0, n - 1), (j, 0, m - 1)) + n * m))"
    wrong = "prove(Eq(bbar[i], 0))"
    status, out, _ = run(asked(f"{right}\n{undecided}"))
    assert status == 3
    assert "undecided" in out
    assert run(asked(f"{right}\n{undecided}\n{wrong}"))[0] == 1


BAD = {
    "no questions": ("x = 1\n", "it asks for nothing"),
    "syntax": ("let(\n", "line 1"),
    "a float": (asked("prove(Eq(bbar[i], 0.5 * bbar[i]))"), "only exact numbers are read"),
    "a Boolean": (asked("prove(Eq(bbar[i], bbar[i]))"), "Eq(left, right, evaluate=False)"),
    "sizes that do not fit": (asked("prove(Eq(v[i, c], v[i, c] + q[i, e]))"), "over"),
    "a name for two things": (asked("let(M[i, j], 2 * a[i, j])"), "M"),
    "a circle": (asked("let(q[i, e], q[i, e] + 1)"), "q"),
    "an exception of the file": ("raise RuntimeError('no data')\n", "line 1: RuntimeError: no data"),
    "an exit": ("raise SystemExit(0)\n", "it ends the program"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read_is_one_sentence_and_status_2(run: Run, name: str) -> None:
    text, sentence = BAD[name]
    status, out, err = run(text)
    assert (status, out) == (2, "")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1, err


def test_no_such_file(run: Run) -> None:
    status, _, err = run(Path("nowhere.py"))
    assert status == 2
    assert "no such file" in err
