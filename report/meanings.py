"""What a result means geometrically and where it stops being true: the words of ``meanings.toml``, by label."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple


class Meaning(NamedTuple):
    """``says`` is the picture in words; ``fails`` the limit that a reader must know."""

    says: str
    fails: str = ""


MEANINGS: dict[str, Meaning] = {
    label: Meaning(**entry)
    for label, entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
