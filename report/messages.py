"""The message catalogue: every heading, verdict word, summary and label of the page in three languages.

    [heading.notation]      en = "Notation"      zh-Hant = "符號"      ja = "記号"

The page starts in English; the paper is in English. An entry without one of the languages, or with another set of
``{values}`` than English has, is refused when the catalogue is read: an incomplete translation cannot be rendered.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

LANGUAGES = {"en": "English", "zh-Hant": "繁體中文", "ja": "日本語"}
NAMES_OF_LIBRARIES = {"column.pytorch", "column.flash", "column.sympy"}  # the same in every language
CATALOGUE = Path(__file__).with_name("messages.toml")
_VALUE = re.compile(r"\{([a-z_]+)\}")


class Messages:
    """Entries by id; :meth:`english` fills in values."""

    def __init__(self, entries: Mapping[str, Mapping[str, str]]) -> None:
        for id, entry in entries.items():
            if set(entry) != set(LANGUAGES) or not all(entry.values()):
                raise ValueError(
                    f"messages: {id!r} has {sorted(entry)}, expected exactly {sorted(LANGUAGES)}, none empty"
                )
            wanted = set(_VALUE.findall(entry["en"]))
            for language, text in entry.items():
                if set(_VALUE.findall(text)) != wanted:
                    raise ValueError(f"messages: {id!r} in {language} uses other values than {sorted(wanted)}")
        self.entries = entries

    def __contains__(self, id: str) -> bool:
        return id in self.entries

    def english(self, id: str, values: Sequence[tuple[str, str]] = ()) -> str:
        """An entry in English with its values filled in. Raises KeyError for an unknown id."""
        if id not in self.entries:
            raise KeyError(f"messages: no entry {id!r} in {CATALOGUE.name}")
        given = dict(values)
        return _VALUE.sub(lambda match: given[match[1]], self.entries[id]["en"])

    def subset(self, ids: Iterable[str]) -> dict[str, dict[str, str]]:
        """What the page carries: ``{id: {language: text}}`` of the entries that it uses."""
        return {id: dict(self.entries[id]) for id in sorted(ids)}


def _flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values()):
            found |= _flatten(value, name)
        elif isinstance(value, dict):
            found[name] = {str(k): str(v) for k, v in value.items()}
    return found


@lru_cache(maxsize=1)
def messages() -> Messages:
    """The catalogue, read once. Raises ValueError for an entry that lacks a language."""
    return Messages(_flatten(tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))))
