"""One letter, one meaning: the letters of all proofs against the tables of docs/notation.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from bayesgrad.evidence import ROOT

BOOK = json.loads((ROOT / "bayesgrad" / "symbolic" / "book.json").read_text(encoding="utf-8"))
TEXT = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
OUTER = ("H", "G")  # query heads, key heads


def rows(heading: str) -> Iterator[tuple[list[str], str]]:
    """The letters and the second column of every row of the first table below a heading."""
    table = TEXT.partition(heading)[2].lstrip().partition("\n\n## ")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 3 and cells[0] != "letter" and not cells[0].startswith(":"):
            letters = [(re.findall(r"`(\w+)`", word) or [word.strip()])[0] for word in cells[0].split(", ")]
            yield letters, cells[1]


def general() -> dict[str, tuple[str, ...]]:
    """letter -> its shape; a row with several letters gives one shape for all, or one for each."""
    found = {}
    for letters, column in rows("# Notation"):
        shapes = [tuple(filter(None, inner.split(", "))) for inner in re.findall(r"\(([^)]*)\)", column)]
        if shapes:
            found.update(zip(letters, shapes * (len(letters) if len(shapes) == 1 else 1), strict=True))
    return found


def special() -> dict[tuple[str, str], str]:
    """(letter, result or family) -> the row that it stands in."""
    return {
        (letter, result): " ".join(letters)
        for letters, column in rows("## Letters of single results")
        for letter in letters
        for result in column.split(", ")
    }


def entries(json_term: Any) -> Iterator[str]:
    if isinstance(json_term, dict):
        json_term = list(json_term.values())
    if isinstance(json_term, list):
        if json_term[:1] in (["entry"], ["diff"]) and isinstance(json_term[1], str):
            yield json_term[1]
        for part in json_term:
            yield from entries(part)


def letters_of(label: str) -> dict[str, set[tuple[str, ...]]]:
    """letter -> the shapes that it has in the claims of a label, their hypotheses, and what these are defined by."""
    open_, seen = [], set()
    for claim in BOOK["labels"][label]:
        open_ += entries(BOOK["claims"][claim])
        for name in BOOK["claims"][claim].get("given", ()):
            open_ += entries(BOOK["hypotheses"][name])
    while open_:
        name = open_.pop()
        if name in BOOK["tensors"] and name not in seen:
            seen.add(name)
            open_ += entries(BOOK["tensors"][name].get("body"))
    found: dict[str, set[tuple[str, ...]]] = {}
    for name in seen:
        sizes = tuple(size.partition("~")[0] for size in BOOK["tensors"][name]["sizes"])
        found.setdefault(name.partition("~")[0], set()).add(sizes)
    return found


def plain(letter: str, known: set[str]) -> str:
    """Without the marks for a step, a path and the first time, unless the marked letter has a row of its own."""
    for bare in (letter, letter.rstrip("'"), re.sub(r"(0|_1)$", "", letter.rstrip("'")), re.sub("^d", "", letter)):
        if bare in known:
            return bare
    return letter


def fits(shape: tuple[str, ...], table: tuple[str, ...]) -> bool:
    """The shape of the table, for each head or not, of all rows or one; queries and keys may be the same positions."""
    inner = shape[1:] if shape[:1] and shape[0] in OUTER else shape
    one = lambda sizes: tuple("n" if size == "m" else size for size in sizes)
    return one(inner) in (one(table), one(table[1:])) or (not inner and not table[1:])


def faults(label: str) -> Iterator[str]:
    known, own = general(), special()
    mine = {letter for letter, result in own if result in (label, label.partition(".")[0])}
    for letter, shapes in sorted(letters_of(label).items()):
        bare = plain(letter, mine | set(known))
        if bare in mine:
            continue
        if bare not in known:
            yield f"{letter}: no row in docs/notation.md"
        for shape in sorted(shapes):
            if bare in known and not fits(shape, known[bare]):
                yield f"{letter}: has shape {shape}, docs/notation.md says {known[bare]}"


@pytest.mark.parametrize("label", BOOK["labels"])
def test_every_letter_of_a_proof_means_what_the_notation_says(label):
    assert list(faults(label)) == []


def test_no_row_of_a_single_result_is_left_over():
    families = {label.partition(".")[0] for label in BOOK["labels"]}
    for (letter, result), row in special().items():
        labels = [label for label in BOOK["labels"] if label == result or label.partition(".")[0] == result]
        assert labels, f"{result} in the row of {row}: neither a result nor one of {sorted(families)}"
        used = {plain(name, {letter}) for label in labels for name in letters_of(label)}
        assert letter in used, f"{letter} of {result}: no proof uses it"


def test_a_letter_that_changes_its_meaning_is_seen(monkeypatch):
    label = "attention.routing-law"
    used = letters_of(label)
    monkeypatch.setitem(globals(), "letters_of", lambda label: {**used, "N": {("m", "m", "C")}, "foo": {("n",)}})
    assert list(faults(label)) == [
        "N: has shape ('m', 'm', 'C'), docs/notation.md says ('m',)",
        "foo: no row in docs/notation.md",
    ]
