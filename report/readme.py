"""The two tables of README.md, each written between two markers, its picture, and the check that they are not stale.

The status of every result: verdicts and counts of wrong laws, nothing that depends on the machine or the clock, so that
a comparison means something everywhere. What the published claims came to: verdicts and effects of the committed
records. A route that has not run here cannot be compared and is said to be so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesgrad.evidence import ROOT, BadEvidence, write_bytes
from bayesgrad.evidence.status import RESTS, SYMBOLIC
from report import cover
from report.context import Context
from report.sections.summary import effect

README = ROOT / "README.md"
BEGIN, END = "<!-- status: written by `make readme` -->", "<!-- end of status -->"
CLAIMS_BEGIN, CLAIMS_END = "<!-- claims: written by `make readme` -->", "<!-- end of claims -->"
MARKERS = ((BEGIN, END), (CLAIMS_BEGIN, CLAIMS_END))
CLAIMS_HEADER = ("claim", "source", "by", "verdict", "effect [95%], or the results that decide")
HEADER = ("result", "fully proved", *SYMBOLIC, "numbers", "wrong laws rejected")
_WORDS = {"proved": "✓", "passed": "✓", "refuted": "✗", "failed": "✗", "not run": "–", "not applicable": "·"}
LEGEND = "✓ proved or passed, ✗ refuted or failed, ? undecided, – not run, · does not apply"


def rows(context: Context) -> list[tuple[str, ...]]:
    """The table's cells, header left out."""
    out = []
    for label, result in context.results.items():
        laws = context.rejections[label]
        cells = [_WORDS.get(result[route]["verdict"], "?") for route in (*SYMBOLIC, "check")]
        rejected = f"{laws['rejected']}/{laws['total']}" if laws["total"] else "–"
        out.append((f"`{label}`", "**yes**" if context.proved[label] else "no", *cells, rejected))
    return out


def table(context: Context) -> str:
    """The table of statuses with its markers, as it stands in README.md."""
    lines = [f"| {' | '.join(HEADER)} |", "|:--|:--|" + ":-:|" * (len(HEADER) - 2)]
    lines += [f"| {' | '.join(row)} |" for row in rows(context)]
    return "\n".join([BEGIN, *lines, "", LEGEND + ".", END])


def claim_rows(context: Context) -> list[tuple[str, ...]]:
    """What each claim came to, by theorem and by experiment; what nothing decided yet is not tested."""
    out: list[tuple[str, ...]] = []
    for claim in context.evidence["claims"]:
        for cell in claim["cells"] or [{"verdict": "not tested"}]:
            by = "theorem" if cell.get("labels") else cell.get("task", "–")
            told = (
                ", ".join(f"`{label}`" for label in cell.get("labels", ()))
                or effect(cell).replace("\u00a0", " ")
                or "–"
            )
            row = (claim["statement"], claim["source"], by, f"**{cell['verdict']}**", told)
            out.append(tuple(part.replace("||", "‖").replace("|", "¦") for part in row))  # a bar would end the cell
    return out


def claims(context: Context) -> str:
    """The table of claims with its markers, as it stands in README.md."""
    lines = [f"| {' | '.join(CLAIMS_HEADER)} |", "|:--|:--|:--|:--|:--|"]
    lines += [f"| {' | '.join(row)} |" for row in claim_rows(context)]
    return "\n".join([CLAIMS_BEGIN, *lines, CLAIMS_END])


def _parts(text: str, path: Path, markers: tuple[str, str]) -> tuple[str, str, str]:
    begin, end = markers
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise BadEvidence(f"{path}: expected the markers {begin!r} and {end!r} once each, in this order")
    before, rest = text.split(begin)
    inside, after = rest.split(end)
    return before, inside, after


def cells(text: str, path: Path, markers: tuple[str, str]) -> list[tuple[str, ...]]:
    """The cells of the table that is there."""
    _, inside, _ = _parts(text, path, markers)
    lines = (line for line in inside.splitlines() if line.startswith("| "))
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def graph(context: Context) -> cover.Graph:
    """What the picture draws: the arrows that carry a status, and those that do not."""
    beside = {label: result["read_with"] for label, result in context.results.items()}
    return {"rests": context.rests_on, "beside": beside}


def write(context: Context, path: Path = README, picture: Path = cover.PATH) -> bool:
    """Write the tables and the picture; true if a file changed."""
    text = new = path.read_text(encoding="utf-8")
    for markers, made in zip(MARKERS, (table(context), claims(context)), strict=True):
        before, _, after = _parts(new, path, markers)
        new = before + made + after
    svg = cover.drawn(HEADER, rows(context), claim_rows(context), graph(context))
    changed = False
    for file, old, made in ((path, text, new), (picture, _text(picture), svg)):
        if made != old:
            write_bytes(file, made.encode())
            changed = True
    return changed


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def differences(
    context: Context, not_run: Mapping[str, Any] | Sequence[str], path: Path = README, picture: Path = cover.PATH
) -> list[str]:
    """Where README.md differs from the evidence, as sentences; columns of routes that did not run here are left out.

    The picture is compared with README.md's own tables, which are always there, and its graph with the evidence.
    """
    text = path.read_text(encoding="utf-8")
    found, wanted = cells(text, path, MARKERS[0]), [HEADER, *rows(context)]
    if [row[0] for row in found] != [row[0] for row in wanted]:
        return ["its rows are not the results of the theorem table"]
    there = cells(text, path, MARKERS[1])
    for rows_, header in ((found, HEADER), (there, CLAIMS_HEADER)):
        if odd := [row for row in rows_ if len(row) != len(header)]:
            return [f"the row {' | '.join(odd[0])} has {len(odd[0])} cells, expected {len(header)}"]
    column = {route: n for n, route in enumerate((*SYMBOLIC, "check"), 2)}
    skipped = {column[route] for route in not_run if route in column}
    if skipped:
        skipped |= {1}  # the status needs every route
    if column["check"] in skipped:
        skipped |= {column["check"] + 1}
    out = [
        f"{new[0]}, {HEADER[n]}: README.md says {old[n]}, the evidence says {new[n]}"
        for old, new in zip(found, wanted, strict=True)
        for n in range(1, len(HEADER))
        if n not in skipped and old[n] != new[n]
    ]
    if "observed" not in not_run:
        said, made = there, [CLAIMS_HEADER, *claim_rows(context)]
        if skipped:  # what is decided by theorem needs every route
            said, made = ([row for row in rows if row[2] not in ("theorem", "–")] for rows in (said, made))
        out += [f"claims: {' | '.join(row)} is not what the records say" for row in said if row not in made]
        out += [f"claims: {' | '.join(row)} is missing" for row in made if row not in said]
    arrows = None if any(route in not_run for route in RESTS) else graph(context)
    told = cover.difference(HEADER, found[1:], there[1:], arrows, picture)
    return [*out, told] if told else out
