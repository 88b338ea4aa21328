"""The list of all checks, ``checks/inventory.txt``: what a complete run must have run, so that none disappears unseen.

One line a check, "profile node id", where the profile is the smallest that runs it. It is written by
``python -m checks --inventory`` and committed: a check that is added, renamed or taken away is a changed line of
it, and ``pytest checks/`` fails until the list says the same as the files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from bayesgrad.evidence import ROOT, write_whole
from checks.profiles import Profile

PATH = ROOT / "checks" / "inventory.txt"
HOW = "python -m checks --inventory"


def runs(least: str, profile: Profile) -> bool:
    """Whether ``profile`` runs a check whose smallest profile is ``least``."""
    return {"quick": True, "ci": profile.mutants, "thorough": profile.everywhere}[least]


def read(path: Path | None = None) -> dict[str, str]:
    """node id -> the smallest profile that runs it. Raises ValueError for a line that is none."""
    found: dict[str, str] = {}
    path = path or PATH
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        least, _, node = line.partition(" ")
        if least not in ("quick", "ci", "thorough") or "::" not in node or node in found:
            raise ValueError(f"{path}: got {line!r}, expected a profile and a node id, each once; {HOW} writes it")
        found[node] = least
    return found


def write(nodes: Mapping[str, str], path: Path | None = None) -> None:
    """Write the list, in the order of the node ids."""
    lines = "".join(f"{least} {node}\n" for node, least in sorted(nodes.items()))

    def fill(out: BinaryIO) -> None:
        out.write(lines.encode())

    write_whole(path or PATH, fill)


def expected(listed: Mapping[str, str], profile: Profile) -> set[str]:
    """The node ids that a complete run of ``profile`` runs."""
    return {node for node, least in listed.items() if runs(least, profile)}


def defined(folder: Path | None = None) -> set[str]:
    """file::function of every check that stands in the files, whatever a run was told to collect."""
    root = folder or ROOT
    found = set()
    for path in sorted((root / "checks").rglob("*.py")):
        if not path.name.startswith(("check_", "test_")):
            continue
        where = path.relative_to(root).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            found |= {f"{where}::{name}" for name in _names(node) if name.startswith(("check_", "test_", "Test"))}
    return found


def _names(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def function_of(node: str) -> str:
    """The node id without parameters."""
    return node.partition("[")[0]
