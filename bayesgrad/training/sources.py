"""Which files decide a result: the transitive imports of a module inside this package, found without importing it.

A finished run stays fresh as long as the program in exactly these files (without comments and docstrings), the versions
of numpy and torch, and the thread count stay what they were.
"""

from __future__ import annotations

import ast
import hashlib
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


def _reached(*modules: str) -> list[Path]:
    """The files of ``modules`` and of all they import from this package, in the order of their names."""
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
    return sorted(seen)


def closure(*modules: str) -> dict[str, str]:
    """``{path relative to the checkout: sha256}`` of ``modules`` and of all they import from this package."""
    return {path.relative_to(CHECKOUT).as_posix(): evidence.sha256(path) for path in _reached(*modules)}


@cache
def _program(path: Path, sha: str) -> str:
    """The SHA-256 of what a file executes: its syntax tree without docstrings, positions and comments."""
    tree = ast.parse(path.read_bytes(), str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = node.body[ast.get_docstring(node, clean=False) is not None :]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def programs(*modules: str) -> dict[str, str]:
    """Like :func:`closure`, of what the files execute: another comment or docstring makes no other run."""
    return {path.relative_to(CHECKOUT).as_posix(): _program(path, evidence.sha256(path)) for path in _reached(*modules)}


def versions() -> dict[str, str]:
    """Python and the numerical libraries, without importing them."""
    return evidence.versions("numpy", "torch")


def fingerprint(files: dict[str, str], threads: int) -> str:
    """What a finished run must match to count as done."""
    return digest({"files": files, "versions": versions(), "threads": threads})
