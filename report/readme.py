"""The status table of README.md, written between two markers, and the check that it is not stale.

It holds verdicts and counts of wrong laws, nothing that depends on the machine or the clock, so that a comparison means
something everywhere. A route that has not run here cannot be compared and is said to be so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from derivations.evidence import ROOT
from report.context import Context
from report.merge import SYMBOLIC

README = ROOT / "README.md"
BEGIN, END = "<!-- status: written by `make readme` -->", "<!-- end of status -->"
HEADER = ("result", "fully proved", *SYMBOLIC, "numbers", "wrong laws rejected")
_WORDS = {"proved": "✓", "passed": "✓", "refuted": "✗", "failed": "✗", "not run": "–", "not applicable": "·"}
LEGEND = "✓ proved or passed, ✗ refuted or failed, ? undecided, – not run, · does not apply"


class BadReadme(ValueError):
    """README.md cannot be written or compared; the message says why."""


def rows(context: Context) -> list[tuple[str, ...]]:
    """The table's cells, header left out."""
    out = []
    for label, result in context.results.items():
        mutants = result["mutants"]
        cells = [_WORDS.get(result[route]["verdict"], "?") for route in (*SYMBOLIC, "check")]
        rejected = f"{mutants['rejected']}/{mutants['total']}" if mutants["total"] else "–"
        out.append((f"`{label}`", "**yes**" if result["fully_proved"] else "no", *cells, rejected))
    return out


def table(context: Context) -> str:
    lines = [f"| {' | '.join(HEADER)} |", "|:--|:--|" + ":-:|" * (len(HEADER) - 2)]
    lines += [f"| {' | '.join(row)} |" for row in rows(context)]
    return "\n".join([BEGIN, *lines, "", LEGEND + ".", END])


def _parts(text: str, path: Path) -> tuple[str, str, str]:
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise BadReadme(f"{path}: expected the markers {BEGIN!r} and {END!r} once each, in this order")
    before, rest = text.split(BEGIN)
    inside, after = rest.split(END)
    return before, inside, after


def write(context: Context, path: Path = README) -> bool:
    """Write the table; true if the file changed."""
    text = path.read_text(encoding="utf-8")
    before, _, after = _parts(text, path)
    new = before + table(context) + after
    if new == text:
        return False
    path.write_text(new, encoding="utf-8")
    return True


def differences(context: Context, not_run: Mapping[str, Any] | Sequence[str], path: Path = README) -> list[str]:
    """Where README.md differs from the evidence, as sentences; columns of routes that did not run here are left out."""
    _, inside, _ = _parts(path.read_text(encoding="utf-8"), path)
    found = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in inside.splitlines()
        if line.startswith("| ")
    ]
    wanted = [HEADER, *rows(context)]
    if [row[0] for row in found] != [row[0] for row in wanted]:
        return ["its rows are not the results of the theorem table"]
    column = {**{route: n for n, route in enumerate(SYMBOLIC, 2)}, "check": 6}
    skipped = {column[route] for route in not_run if route in column}
    if skipped:
        skipped |= {1}  # the status needs every route
    if column["check"] in skipped:
        skipped |= {7}
    return [
        f"{new[0]}, {HEADER[n]}: README.md says {old[n]}, the evidence says {new[n]}"
        for old, new in zip(found, wanted, strict=True)
        for n in range(1, len(HEADER))
        if n not in skipped and (len(old) != len(new) or old[n] != new[n])
    ]
