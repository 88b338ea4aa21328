"""What a long run found before it was interrupted: kept until it is complete, so that it goes on where it stopped.

A tally is kept for these sources, these versions, this profile and this seed, and only if nothing failed; anything else
runs again. A complete run clears the folder.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path

from bayesgrad import evidence as files
from bayesgrad.testing.engine import Tally
from checks import evidence
from checks.profiles import Profile

FOLDER = files.ROOT / "report" / "build" / "checks"


@cache
def _state() -> str:
    """Sources and versions, once a process: what runs is what was imported."""
    return json.dumps([evidence.sources(), files.versions(*evidence.VERSIONS)], sort_keys=True)


def path(where: str, profile: Profile, seed: int, folder: Path | None = None) -> Path:
    """The file of one check: its name is a hash of everything that the result depends on."""
    name = hashlib.sha256(json.dumps([where, repr(profile), seed, _state()]).encode()).hexdigest()
    return (folder or FOLDER) / f"{name[:32]}.json"


def read(where: str, profile: Profile, seed: int, folder: Path | None = None) -> Tally | None:
    """The tally of an earlier run, or None if there is none that counts."""
    try:
        return Tally(**json.loads(path(where, profile, seed, folder).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write(where: str, profile: Profile, seed: int, tally: Tally, folder: Path | None = None) -> None:
    """Keep a tally without a failure."""
    if not tally.failure:
        files.write_json(path(where, profile, seed, folder), tally.as_record())


def clear() -> None:
    """Forget everything."""
    shutil.rmtree(FOLDER, ignore_errors=True)
