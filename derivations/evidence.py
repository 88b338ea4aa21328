"""Evidence on disk: one JSON fragment a route, written atomically, stale as soon as a source changes.

A fragment is ``{"schema": 1, "route": ..., "versions": {...}, "sources": {file: sha256}, "results": {label: {...}},
"seconds": ...}``. Nobody edits one: a route that ran writes it, everybody else reads it through :func:`read`, which
answers None (that is, "not run") when any recorded source has another content today.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

SCHEMA = 1
ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "report" / "build" / "evidence"
ROUTES = ("proof", "exact", "code", "formal", "check", "mutants", "observed")


class DamagedEvidence(ValueError):
    """A fragment that is not what a route writes: its message says which file and what to do."""


@cache
def _sha256(path: Path, mtime_ns: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, as hexadecimal digits."""
    stat = path.stat()
    return _sha256(path, stat.st_mtime_ns, stat.st_size)


def sources(patterns: Iterable[str]) -> dict[str, str]:
    """``{path relative to the checkout: sha256}`` of every file that matches one of the glob ``patterns``."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return {path.relative_to(ROOT).as_posix(): sha256(path) for path in sorted(found)}


def versions(*packages: str) -> dict[str, str]:
    """Python's version and those of the named distributions that are installed."""
    out = {"python": platform.python_version()}
    for name in packages:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return out


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` so that a reader sees the old file or the whole new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(data, out, indent=1, ensure_ascii=False, allow_nan=False)
            out.write("\n")
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write(
    route: str,
    results: Mapping[str, Any],
    *,
    sources: Mapping[str, str],
    versions: Mapping[str, str],
    seconds: float,
    folder: Path = FOLDER,
    **extra: Any,
) -> Path:
    """Write the fragment of one ``route`` and return its path. ``extra`` keys stand beside ``results``."""
    if route not in ROUTES:
        raise ValueError(f"route: got {route!r}, expected one of {', '.join(ROUTES)}")
    path = folder / f"{route}.json"
    fragment = {
        "schema": SCHEMA,
        "route": route,
        "versions": dict(versions),
        "sources": dict(sources),
        "results": dict(results),
        "seconds": round(seconds, 3),
        **extra,
    }
    write_json(path, fragment)
    return path


def load(route: str, folder: Path = FOLDER) -> dict[str, Any] | None:
    """The fragment as it was written, stale or not; None where there is none. Raises DamagedEvidence."""
    path = folder / f"{route}.json"
    if not path.exists():
        return None
    try:
        fragment = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DamagedEvidence(f"{path}: not readable as JSON ({error}); delete it and run the route again") from error
    if not isinstance(fragment, dict) or fragment.get("schema") != SCHEMA:
        found = fragment.get("schema") if isinstance(fragment, dict) else type(fragment).__name__
        raise DamagedEvidence(f"{path}: schema {found!r}, expected {SCHEMA}; delete it and run the route again")
    if fragment.get("route") != route or not isinstance(fragment.get("results"), dict):
        raise DamagedEvidence(f"{path}: not the evidence of route {route!r}; delete it and run the route again")
    return fragment


def is_fresh(fragment: Mapping[str, Any]) -> bool:
    """Whether every recorded source still has the recorded content."""
    recorded = fragment.get("sources", {})
    return bool(recorded) and all(
        (ROOT / name).is_file() and sha256(ROOT / name) == digest for name, digest in recorded.items()
    )


def read(route: str, folder: Path = FOLDER) -> dict[str, Any] | None:
    """The fragment if it is fresh, otherwise None: stale evidence counts as not run. Raises DamagedEvidence."""
    fragment = load(route, folder)
    return fragment if fragment is not None and is_fresh(fragment) else None
