"""Which files decide a result: the transitive imports of a module inside this package, found without importing it.

A finished run stays fresh as long as the content of exactly these files, the versions of numpy and torch, and the
thread count stay what they were.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from bayesgrad import evidence
from bayesgrad.training.config import digest

CHECKOUT = evidence.ROOT
PACKAGE = CHECKOUT / "bayesgrad"
HOME = CHECKOUT if (CHECKOUT / "derivations").is_dir() else Path.cwd()
"""Where records live: the checkout, or the current folder of somebody who installed the package."""


def _file(module: str) -> Path | None:
    """The file of a module of this package, if there is one by that name."""
    base = CHECKOUT.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def _imports(path: Path) -> frozenset[Path]:
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # `from package import module` names a module; `from module import thing` needs the module itself
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name for name in inner if _file(name)]
            if len(names) < len(inner):
                names.append(node.module)
        for name in names:
            if name.split(".")[0] == PACKAGE.name and (path_of_name := _file(name)):
                found.add(path_of_name)
    return frozenset(found)


def closure(*modules: str) -> dict[str, str]:
    """``{path relative to the checkout: sha256}`` of ``modules`` and of all they import from this package."""
    waiting: list[Path] = []
    for module in modules:
        path = _file(module)
        if path is None:
            raise ValueError(f"module: got {module!r}, expected a module of {PACKAGE.name}")
        waiting.append(path)
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting.extend(_imports(path))
    return {path.relative_to(CHECKOUT).as_posix(): evidence.sha256(path) for path in sorted(seen)}


def versions() -> dict[str, str]:
    """Python and the numerical libraries, without importing them."""
    return evidence.versions("numpy", "torch")


def fingerprint(files: dict[str, str], threads: int) -> str:
    """What a finished run must match to count as done."""
    return digest({"files": files, "versions": versions(), "threads": threads})
