"""Draws: the same in every run, others with a seed, and a failing example says how to repeat it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

from bayesgrad.evidence import ROOT
from checks.profiles import PROFILES, given_seed

MADE = """
from hypothesis import given, strategies as st

@given(st.integers(0, 10**6))
def test_it(n):
    with open({seen!r}, "a") as out:
        print(n, file=out)
    assert n != {unwanted}
"""
CONFTEST = """
from checks.profiles import configure as pytest_configure
from checks.profiles import header as pytest_report_header
from checks.profiles import pytest_runtest_call, pytest_runtest_makereport
"""


@pytest.fixture
def drawn(tmp_path):
    """A function that runs a test in a process of its own: (what pytest said, all that was drawn)."""

    def run(*options: str, unwanted: str = "-1", more: str = "") -> tuple[str, list[str]]:
        seen = tmp_path / "seen"
        seen.unlink(missing_ok=True)
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_made.py").write_text(more + MADE.format(seen=str(seen), unwanted=unwanted))
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir"]
        command += [str(tmp_path), "-o", f"pythonpath={ROOT}", str(tmp_path / "test_made.py"), *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert seen.exists(), done.stdout + done.stderr
        return done.stdout, seen.read_text().split()

    return run


def test_draws_are_the_same_in_every_run_whatever_else_is_loaded(drawn):
    first = drawn()[1]
    assert len(first) >= settings.default.max_examples
    assert drawn("--hypothesis-profile=ci")[1] == first
    constants = "CONSTANTS = [" + ", ".join(str(n**3) for n in range(20, 100)) + "]\n"
    assert drawn(more=constants)[1] == first


def test_a_seed_changes_them_and_repeats_them(drawn):
    seventh = drawn("--hypothesis-seed=7")[1]
    assert seventh != drawn()[1]
    assert drawn("--hypothesis-profile=fresh", "--hypothesis-seed=7")[1] == seventh


def test_a_fresh_run_says_its_seed_and_a_failure_repeats_itself(drawn):
    said, fresh = drawn("--hypothesis-profile=fresh", unwanted="n")
    seed = re.search(r"^draws: --hypothesis-profile=fresh --hypothesis-seed=(\d+)$", said, re.MULTILINE)
    assert seed, said
    again = re.search(r'pytest "(test_made.py::test_it)" (--hypothesis-profile=fresh) (--hypothesis-seed=\d+)', said)
    assert again, said
    assert again[3].endswith(f"={seed[1]}")
    assert drawn(again[2], again[3], unwanted="n")[1] == fresh
    other = drawn("--hypothesis-profile=fresh", unwanted="n")[0]
    assert seed[0] not in other
    assert 'pytest "test_made.py::test_it" --hypothesis-profile=quick' in drawn(unwanted="n")[0]


def test_this_very_run_draws_by_these_profiles(request):
    assert settings.get_current_profile_name() in PROFILES
    assert settings.default.derandomize == (given_seed(request.config) is None)
    assert settings.default.deadline is None
    assert settings.default.database is None
    for item in request.session.items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            of = item.obj._hypothesis_internal_use_settings
            assert (of.derandomize, of.deadline, of.database) == (settings.default.derandomize, None, None), item.nodeid


@pytest.mark.parametrize("folder", ["tests", "checks"])
def test_no_test_chooses_its_own_randomness(folder):
    """derandomize, database and deadline stand in the profiles alone."""
    for path in sorted(Path(ROOT / folder).glob("**/*.py")):
        if path.name == "profiles.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "settings":
                chosen = {keyword.arg for keyword in node.keywords}
                assert not chosen & {"derandomize", "deadline"}, f"{path.name}, line {node.lineno}: {chosen}"
