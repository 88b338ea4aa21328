"""A checkout with a few instant checks, and runs of ``pytest checks/`` in it: each in a fork that has all imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesgrad.evidence import ROOT

LAWS = '''"""Stands for the checks of the laws: a tally each, nothing computed."""

import pytest

from bayesgrad.testing.engine import Tally
from bayesgrad.theorems import THEOREMS
from checks.registry import PROPERTY

LABELS = [theorem.label for theorem in THEOREMS]


def tell(record_property, label):
    record_property(PROPERTY, Tally(label, ["one", "two"], examples=3).as_record())


@pytest.mark.parametrize("label", LABELS[1:])
def check_law(label, record_property):
    tell(record_property, label)


def check_first(record_property):
    tell(record_property, LABELS[0])
'''
MORE = '''"""Stands for the checks without a label."""


def check_corner():
    assert True


def check_edge():
    assert True
'''

SERVER = """
import json, os, pathlib, sys
sys.path.insert(0, ".")
import _pytest.assertion.rewrite as pytest_rewrite
import pytest, torch, hypothesis, bayesgrad.testing.engine, derivations.laws, derivations.wrong_laws, checks.registry

# Hypothesis, a plugin of pytest, is among what is imported already; that its assertions stay as they are is no matter.
pytest_rewrite.AssertionRewritingHook._warn_already_imported = lambda *_: None
evidence = pathlib.Path("report/build/evidence/check.json")
for line in sys.stdin:
    case = json.loads(line)
    before = {name: pathlib.Path(name).read_bytes() if pathlib.Path(name).exists() else None for name in case["files"]}
    had = evidence.read_bytes() if evidence.exists() else None
    for name, text in case["files"].items():
        if text is None:
            os.remove(name)
        else:
            pathlib.Path(name).write_text(text)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        with open("said", "w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        os.environ.update(case["environment"])
        os._exit(int(pytest.main(["-p", "no:cacheprovider", *case["arguments"]])))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    now = evidence.read_bytes() if evidence.exists() else None
    for name, old in before.items():
        pathlib.Path(name).unlink(missing_ok=True) if old is None else pathlib.Path(name).write_bytes(old)
    said = pathlib.Path("said").read_text(errors="replace")
    print(json.dumps({"status": status, "said": said, "kept": now == had, "written": now is not None}), flush=True)
"""


class Checkout:
    """The copy at ``home``; :meth:`run` gives status, output, and whether the evidence stayed as it was."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for part in ("bayesgrad", "checks", "derivations"):
            ignored = shutil.ignore_patterns("__pycache__", "formal", "check_*.py")
            shutil.copytree(ROOT / part, home / part, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", home)
        names = home / "checks" / "evidence.py"  # the names of the wrong laws are not asked for here
        text = names.read_text().replace("    return {theorem.label: wrong", "    return {} and {theorem.label: wrong")
        assert text != names.read_text()
        names.write_text(text)
        (home / "checks" / "check_laws.py").write_text(LAWS)
        (home / "checks" / "check_more.py").write_text(MORE)
        (home / "said").touch()
        (home / "serve.py").write_text(SERVER)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        self.environment = clean | {"PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
        self.evidence = home / "report" / "build" / "evidence" / "check.json"
        self.server = subprocess.Popen(
            [sys.executable, "serve.py"],
            cwd=home,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, files: Mapping[str, str | None] | None = None, **environment: str) -> dict[str, Any]:
        """Run pytest with these arguments, some files changed (None: removed) while it runs."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        case = {"arguments": arguments or ("checks/",), "files": dict(files or {}), "environment": environment}
        print(json.dumps(case), file=self.server.stdin, flush=True)
        found: dict[str, Any] = json.loads(self.server.stdout.readline())
        return found

    def process(self, *arguments: str, files: Mapping[str, str] | None = None) -> dict[str, Any]:
        """As :meth:`run` in a process of its own, which may start others."""
        before = {name: (self.home / name).read_text() for name in files or {}}
        had = self.evidence.read_bytes() if self.evidence.exists() else None
        for name, text in (files or {}).items():
            (self.home / name).write_text(text)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(command, cwd=self.home, env=self.environment, capture_output=True, text=True, check=False)
        for name, text in before.items():
            (self.home / name).write_text(text)
        now = self.evidence.read_bytes() if self.evidence.exists() else None
        said = done.stdout + done.stderr
        return {"status": done.returncode, "said": said, "kept": now == had, "written": now is not None}

    def close(self) -> None:
        """End the server."""
        self.server.communicate(timeout=300)
