"""``python -m checks.gallery``: every kernel of the gallery before the judge, in a virtual environment of its own.

Makes the environment in ``build/gallery``, installs each package (one that cannot be installed is recorded with pip's
last line), judges kernel by kernel, and writes ``checks/gallery/record.json`` and ``docs/gallery.md``. What has been
judged with the same arguments, versions and judge is not judged again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayesgrad.evidence import ROOT
from checks.gallery.entries import ENTRIES, Entry
from checks.gallery.page import page, wrapper_of

RECORD, PAGE = ROOT / "checks" / "gallery" / "record.json", ROOT / "docs" / "gallery.md"
JUDGE = ("numpy", "array-api-compat", "allpairspy", "cloudpickle", "hypothesis", "mpmath", "pytest")
LIMIT = 1800
"""Seconds that one kernel may take."""


def python_of(folder: Path) -> Path:
    """The interpreter of an environment, which is made if there is none."""
    found = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not found.exists():
        venv.create(folder, with_pip=True)
    return found


def installed(python: Path, names: Sequence[str]) -> str:
    """Install; nothing, or pip's last line."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if "WARNING" not in line]
    return "" if done.returncode == 0 else (lines or ["pip failed"])[-1]


def versions(python: Path, names: Sequence[str]) -> dict[str, str]:
    """The versions of distributions."""
    code = "import json, sys, importlib.metadata as m; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    asked = [re.split(r"[\[=<>]", name)[0] for name in names]
    done = subprocess.run([str(python), "-c", code, *asked], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def wrapper_lines(entry: Entry) -> int:
    """Lines of code of the wrapper, without its signature and docstring; 0 if the kernel is called as it is."""
    return sum(bool(line.strip()) for line in wrapper_of(entry.kernel)[2:])


def key(entry: Entry, found: dict[str, str]) -> str:
    """What a judgement depends on: arguments, wrapper, versions, and the judge itself."""
    files = [*sorted((ROOT / "bayesgrad" / "testing").rglob("*.py")), ROOT / "checks" / "gallery" / "wrappers.py"]
    text = json.dumps([entry.arguments(), found, [hashlib.sha256(f.read_bytes()).hexdigest() for f in files]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def judged(entry: Entry, python: Path, out: Path) -> dict[str, Any]:
    """The ledger of one kernel, from a process of the environment."""
    report = out / (re.sub(r"\W+", "-", entry.name).strip("-") + ".json")
    report.unlink(missing_ok=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **entry.env}
    command = [str(python), "-m", "bayesgrad.testing", *entry.arguments(), "--json", str(report)]
    began = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, timeout=LIMIT, check=False)
        said = done.stderr.strip().splitlines()[-1:] or [""]
    except subprocess.TimeoutExpired:
        said = [f"no verdict after {LIMIT} s"]
    data = json.loads(report.read_text(encoding="utf-8") or "{}") if report.exists() else {}
    seconds = round(time.perf_counter() - began, 1)
    return {**data, "seconds": seconds} if data else {"verdict": "not run", "why": said[0], "seconds": seconds}


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the gallery; 0 if there is a record of every kernel that was asked for."""
    asked = argparse.ArgumentParser(prog="python -m checks.gallery", description="Judge public attention kernels.")
    asked.add_argument("names", nargs="*", help="kernels with this in their name (all)")
    asked.add_argument("--venv", type=Path, default=ROOT / "build" / "gallery" / "venv", help="the environment")
    asked.add_argument("--page", action="store_true", help="write the page from the record, judge nothing")
    options = asked.parse_args(arguments)
    chosen = [e for e in ENTRIES if not options.names or any(text in e.name for text in options.names)]
    if not chosen:
        asked.exit(
            2, f"{asked.prog}: error: got {options.names}, expected parts of {'; '.join(e.name for e in ENTRIES)}\n"
        )
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if not options.page:
        python = python_of(options.venv)
        if failed := installed(python, JUDGE):
            asked.exit(2, f"{asked.prog}: error: the judge cannot be installed: {failed}\n")
        out = options.venv.parent
        for entry in chosen:
            failed = installed(python, entry.requires)
            if failed:
                record[entry.name] = {"verdict": "not installed", "why": failed}
            else:
                found = versions(python, entry.requires)
                now = key(entry, found)
                if record.get(entry.name, {}).get("key") != now:
                    kept = {"key": now, "versions": found, "wrapper": wrapper_lines(entry), "note": entry.note}
                    record[entry.name] = {**kept, "arguments": entry.arguments(), **judged(entry, python, out)}
            print(f"{entry.name}: {record[entry.name]['verdict']}", flush=True)
            order = {e.name: record[e.name] for e in ENTRIES if e.name in record}
            RECORD.write_text(json.dumps(order, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(record), encoding="utf-8")
    return 0 if all(entry.name in record for entry in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
