"""A statement changed in its source: the command says refuted, with a counterexample, and what rests on it is open."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RIGHT = "right = a[i, j] * (b[i, j] - bbar[i])\n"
WRONG = "right = a[i, j] * (b[i, j] + bbar[i])\n"


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("checkout")
    for package in ("bayesgrad", "derivations"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__", "build"))
    source = copy / "derivations" / "attention" / "routing_law.py"
    text = source.read_text(encoding="utf-8")
    assert text.count(RIGHT) == 1
    source.write_text(text.replace(RIGHT, WRONG), encoding="utf-8")
    return copy


def told(checkout: Path, label: str) -> tuple[int, dict]:
    command = [sys.executable, "-B", "-m", "derivations", label, "--format", "json"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, env={"PYTHONPATH": str(checkout)})
    return done.returncode, json.loads(done.stdout)


def test_the_changed_law_is_refuted_with_a_counterexample(changed: Path) -> None:
    status, result = told(changed, "attention.routing-law")
    assert (status, result["verdict"]) == (1, "refuted")
    assert "left" in result["detail"]["counterexample"]


def test_what_rests_on_it_is_undecided_and_says_why(changed: Path) -> None:
    status, result = told(changed, "attention.query-law")
    assert (status, result["verdict"]) == (1, "undecided")
    assert "attention.routing-law: not proved" in result["reason"]
