"""The committed statements, read from ``Statements.v``: label, theorem name, words and the Coq text of each.

A label's theorem is the label with dots and hyphens as underscores; ``<theorem>_<suffix>`` is a corollary of it,
``wrong_<theorem>_<suffix>`` the refutation of a wrong variant. The longest label that fits owns a name, so that
``dynamics_feedback_orthogonal`` belongs to dynamics.feedback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
STATEMENTS = FOLDER / "Statements.v"

_ENTRY = re.compile(
    r"\(\*\*\s+(?P<words>(?:(?!\*\)).)*?)\s*\*\)\s*\nDefinition (?P<name>\w+) : Prop :=\n(?P<text>.*?)\.\n(?=\n)", re.S
)
_LABEL = re.compile(r"\[([a-z0-9-]+\.[a-z0-9-]+)\]\s*")
_THEOREM = re.compile(r"^Theorem (\w+)\b", re.M)


@dataclass(frozen=True)
class Statement:
    """One proposition. ``kind`` is "theorem", "corollary" or "refutation"; ``text`` is the Coq source."""

    name: str
    label: str
    kind: str
    words: str
    text: str
    line: int


def theorem_name(label: str) -> str:
    """attention.routing-law -> attention_routing_law"""
    return label.replace(".", "_").replace("-", "_")


def owner(name: str, labels: Iterable[str]) -> str | None:
    """The label that a theorem's name belongs to: the longest one that is a prefix of it."""
    bare = name.removeprefix("wrong_")
    fits = [label for label in labels if f"{bare}_".startswith(f"{theorem_name(label)}_")]
    return max(fits, key=len, default=None)


def read(path: Path = STATEMENTS) -> tuple[Statement, ...]:
    """All statements in order. Raises ValueError for a definition without its comment, or with a name of no label."""
    source = path.read_text(encoding="utf-8")
    found = list(_ENTRY.finditer(source))
    declared = re.findall(r"^\s*Definition (\w+)", source, re.M)
    missed = sorted(set(declared) - {entry["name"] for entry in found})
    if missed:
        raise ValueError(f"{path.name}: {', '.join(missed)}: no comment stands directly before the definition")
    labels = [label for entry in found for label in _LABEL.findall(entry["words"])]
    out = []
    for entry in found:
        name, words = entry["name"], " ".join(entry["words"].split())
        own = _LABEL.match(words)
        label = owner(name, labels)
        if label is None or (own and theorem_name(own[1]) != name):
            raise ValueError(f"{path.name}: {name}: its name belongs to no label of the file")
        kind = "theorem" if own else "refutation" if name.startswith("wrong_") else "corollary"
        text = "\n".join(line.rstrip() for line in entry["text"].splitlines())
        line = source.count("\n", 0, entry.start("name")) + 1
        out.append(Statement(name, label, kind, _LABEL.sub("", words), text, line))
    return tuple(out)


def theorems(folder: Path = FOLDER) -> dict[str, tuple[str, int]]:
    """``{theorem: (file, line)}`` of every ``Theorem`` in the proof files. Raises ValueError for a name used twice."""
    where: dict[str, tuple[str, int]] = {}
    for path in sorted(folder.glob("*.v")):
        source = path.read_text(encoding="utf-8")
        for match in _THEOREM.finditer(source):
            if match[1] in where:
                raise ValueError(f"{path.name}: theorem {match[1]} is also in {where[match[1]][0]}")
            where[match[1]] = (path.name, source.count("\n", 0, match.start()) + 1)
    return where
