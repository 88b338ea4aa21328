"""Break a law in the shipped code, and the checks must fail and name it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bayesgrad.evidence import ROOT

LAW = re.compile(r"(def score_gradient_of\(.*?\n    return )([^\n]*)\n", re.DOTALL)
"""The routing law, as every gradient takes it."""


CHECKS = [f"checks/check_attention.py::check_{name}" for name in ("routing_law", "value_law")]


def test_the_flipped_sign_of_the_routing_law_is_found_and_named(tmp_path: Path) -> None:
    for part in ("bayesgrad", "checks", "derivations"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__", "formal"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    law = tmp_path / "bayesgrad" / "_head.py"
    text = law.read_text(encoding="utf-8")
    assert len(LAW.findall(text)) == 1, "the routing law must stand in one place"
    law.write_text(LAW.sub(r"\1-(\2)\n", text), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *CHECKS, "--part", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "attention.routing-law does not hold" in done.stdout
    assert "attention.routing-law: failed" in done.stdout
    assert "attention.value-law: passed" in done.stdout
    assert "smallest:  Head(q=np.array(" in done.stdout
    assert 'reproduce: pytest "checks/check_attention.py::check_routing_law"' in done.stdout
