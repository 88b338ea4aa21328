"""Evidence on disk: one JSON fragment a route, whole or absent, stale as soon as anything it rests on moves.

A fragment is ``{"schema": 2, "route", "versions", "sources": {file: sha256}, "patterns": [glob], "configuration",
"results": {label: {...}}, "seconds"}``. The route that ran writes it, every other command reads it through
:func:`read`, which returns None (that is, "not run") where :func:`why_stale` gives a reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from bayesgrad.evidence import shape

SCHEMA = 2
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "report" / "build" / "evidence"
HOW = {  # route -> the command that writes its fragment
    "proof": "python -m derivations --evidence",
    "exact": "python -m derivations --evidence",
    "code": "python -m derivations --evidence",
    "sympy": "python -m derivations --evidence",
    "formal": "make formal",
    "check": "python -m checks",
    "code_mutants": "python -m checks --mutants",
    "observed": "python -m bayesgrad.training run --size quick",
}
ROUTES = tuple(HOW)
TOOLS = {"formal": "coqc"}  # route -> the program without which it cannot run


class BadEvidence(ValueError):
    """A file that cannot be used; the message is one sentence that names the file, the field and what to do."""


@cache
def _sha256(path: Path, mtime_ns: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, as hexadecimal digits."""
    stat = path.stat()
    return _sha256(path, stat.st_mtime_ns, stat.st_size)


def _matching(patterns: Iterable[str]) -> dict[str, Path]:
    """The files of the checkout that match one of the glob ``patterns``, by their relative path."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return {path.relative_to(ROOT).as_posix(): path for path in sorted(found)}


def sources(patterns: Iterable[str]) -> dict[str, str]:
    """``{path relative to the checkout: sha256}`` of every file that matches one of the glob ``patterns``."""
    return {name: sha256(path) for name, path in _matching(patterns).items()}


@cache
def _coq() -> str | None:
    """The version of the Coq that is installed, None where there is none."""
    path = shutil.which("coqc")
    if path is None:
        return None
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"\d+\.\d+(?:\.\d+)?", said)
    return number[0] if number else None


def can_run(route: str) -> bool:
    """Whether the tool that a route needs is installed."""
    return route not in TOOLS or shutil.which(TOOLS[route]) is not None


def _version(name: str) -> str | None:
    """The version of Python, Coq or a distribution as it is here, None if it is not here."""
    if name == "python":
        return platform.python_version()
    if name == "coq":
        return _coq()
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, ValueError, OSError):  # a name that no distribution can have
        return None


def versions(*names: str) -> dict[str, str]:
    """Python's version and those of the named distributions (or "coq") that are installed; nothing is imported."""
    found = {name: _version(name) for name in ("python", *names)}
    return {name: version for name, version in found.items() if version is not None}


def write_whole(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    """Let ``fill`` write the file that ``path`` becomes in one move, on disk before it is visible. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            fill(out)
            out.flush()
            os.fsync(out.fileno())  # a machine that loses power keeps the old file or the new one
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Make ``path`` hold ``data``, whole or not at all. Raises OSError."""

    def fill(out: BinaryIO) -> None:
        out.write(data)

    write_whole(path, fill)


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` as indented JSON, whole or not at all. Raises OSError, and ValueError for NaN and infinities."""
    write_bytes(path, (json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write(
    route: str,
    results: Mapping[str, Any],
    *,
    sources: Mapping[str, str],
    versions: Mapping[str, str],
    seconds: float,
    patterns: Iterable[str] = (),
    configuration: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    **extra: Any,
) -> Path:
    """Write the fragment of one ``route`` and return its path. ``extra`` keys stand beside ``results``.

    ``sources`` are the hashes from before the run; ``patterns`` found them, and a file that is new makes stale.

    Raises:
        BadEvidence: an unknown route, data that no reader would accept, or a disk that cannot be written.
    """
    if route not in ROUTES:
        raise BadEvidence(f"route: got {route!r}, expected one of {', '.join(ROUTES)}")
    path = (folder or FOLDER) / f"{route}.json"
    fragment = {
        "schema": SCHEMA,
        "route": route,
        "versions": dict(versions),
        "sources": dict(sources),
        "patterns": list(patterns),
        "configuration": dict(configuration or {}),
        "results": dict(results),
        "seconds": round(seconds, 3),
        **extra,
    }
    wrong = shape.fault(json.loads(json.dumps(fragment)), shape.FRAGMENTS[route])
    if wrong:
        raise BadEvidence(f"{path}: not written, {wrong}")
    try:
        write_json(path, fragment)
    except OSError as error:
        raise BadEvidence(f"{path}: cannot write ({error.strerror}); make room, then run again") from error
    return path


def parse(path: Path) -> Any:
    """The JSON in a file. Raises :class:`BadEvidence` for what is no JSON, and for values that JSON does not have."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            keys = [key for key, _ in pairs]
            raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} stands twice in one object")
        return found

    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse, object_pairs_hook=once)
    except (OSError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise BadEvidence(f"{path}: not readable as JSON ({said}); delete it and run the route again") from error


def load(route: str, folder: Path | None = None) -> dict[str, Any] | None:
    """The fragment as it was written, stale or not; None where there is none. Raises :class:`BadEvidence`."""
    path = (folder or FOLDER) / f"{route}.json"
    if not path.exists():
        return None
    fragment = parse(path)
    found = fragment.get("schema") if isinstance(fragment, dict) else None
    if type(found) is not int or found > SCHEMA or found < 1:
        raise BadEvidence(f"{path}: schema {shape.short(found)}, expected {SCHEMA}; delete it and run {HOW[route]}")
    if found < SCHEMA:
        return {"schema": found, "route": route, "results": {}}
    wrong = shape.fault(fragment, shape.FRAGMENTS[route])
    if wrong:
        raise BadEvidence(f"{path}: {wrong}; delete it and run {HOW[route]}")
    return dict(fragment)


def why_stale(fragment: Mapping[str, Any], configuration: Mapping[str, Any] | None = None) -> str:
    """Why a fragment no longer counts, "" if it does: a source, the set of files, a version or the configuration."""
    if fragment["schema"] != SCHEMA:
        return f"it has schema {fragment['schema']} of an older version"
    recorded = fragment["sources"]
    if not recorded:
        return "the list of its sources is empty"
    try:
        new = [name for name in _matching(fragment["patterns"]) if name not in recorded]
    except (ValueError, NotImplementedError, OSError) as error:
        return f"its patterns cannot be matched ({error})"
    gone = [name for name in recorded if not os.path.isfile(ROOT / name)]
    moved = [name for name, digest in recorded.items() if name not in gone and sha256(ROOT / name) != digest]
    for names, what in ((moved, "changed since"), (gone, "is gone"), (new, "is new")):
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            return f"{names[0]}{more} {what}"
    for name, version in fragment["versions"].items():
        here = _version(name)
        if here != version and (name, here) != ("coq", None):  # without Coq there is nothing to compare with
            return f"{name} was {version}, is {here or 'absent'}"
    for name, value in (configuration or {}).items():
        if fragment["configuration"].get(name) != value:
            return f"{name} was {fragment['configuration'].get(name)!r}, is {value!r}"
    return ""


def read(
    route: str, folder: Path | None = None, *, configuration: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """The fragment if it is fresh, otherwise None: stale evidence counts as not run. Raises :class:`BadEvidence`."""
    fragment = load(route, folder)
    return None if fragment is None or why_stale(fragment, configuration) else fragment
