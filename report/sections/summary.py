"""What is claimed and what holds: counts, the verdict board, the claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayesgrad.evidence.status import SYMBOLIC
from report import document as doc
from report.context import Context, verdict_id
from report.document import Badge, Code, Line, Link, Msg, Para, Ref, Section, Table, Text, prose, text
from report.filters import number


def build(context: Context) -> Section:
    """The section: counts, the verdict board, the claims."""
    counts = {key: number(value) for key, value in context.counts.items()}
    blocks: list[doc.Block] = [
        Para((Msg("summary.summary"),), kind="lead"),
        Para((Msg("summary.counts", tuple(sorted(counts.items()))),)),
        Section("board", (Msg("heading.board"),), (Para((Msg("summary.board"),)), *_board(context))),
    ]
    if context.evidence["claims"]:
        blocks.append(Section("claims", (Msg("heading.claims"),), (Para((Msg("summary.claims"),)), claims(context))))
    return Section("summary", (Msg("heading.summary"),), tuple(blocks))


def cell(entry: dict[str, object] | None) -> Line:
    """A verdict as a cell of the board."""
    return (Badge(verdict_id(str(entry["verdict"])) if entry else "not-run"),)


def wrong_laws(laws: Mapping[str, Any]) -> Line:
    """How many wrong laws were rejected, of how many."""
    return text(f"{laws['rejected']}/{laws['total']}") if laws["total"] else text("–")


def _board(context: Context) -> list[doc.Block]:
    header = tuple((Msg(f"column.{name}"),) for name in ("result", "status", *SYMBOLIC, "check", "wrong"))
    tables: list[doc.Block] = []
    for family, theorems in context.families.items():
        rows: list[tuple[Line, ...]] = []
        for theorem in theorems:
            result = context.results[theorem.label]
            rows.append(
                (
                    (Ref(theorem.label),),
                    (Badge(context.status(theorem.label)),),
                    *(cell(result[route]) for route in SYMBOLIC),
                    cell(result["check"]),
                    wrong_laws(context.rejections[theorem.label]),
                )
            )
        tables.append(
            Table(
                header,
                tuple(rows),
                "llllllllc",
                (Msg(f"family.{family}"),),
                name="board",
                widths=(2.9, 1.55, 1.1, 1.1, 1.1, 1.1, 1.1, 1.15, 1.0),
            )
        )
    return tables


def claims(context: Context) -> doc.Block:
    """Every claim with a row for each thing that decided it: a theorem, an experiment, or nothing yet."""
    rows = []
    for claim in context.evidence["claims"]:
        said = prose("{statement} ({source})", statement=claim["statement"], source=claim["source"])
        for n, cell in enumerate(claim["cells"] or [{"verdict": "not tested"}]):
            name: Line = (Code(claim["id"]),) if n == 0 else ()
            by = (*(said if n == 0 else ()), *decided_by(context, cell))
            rows.append((name, by, (Badge(verdict_id(cell["verdict"])),), text(effect(cell) or "–")))
    header = tuple((Msg(f"column.{name}"),) for name in ("claim", "statement", "verdict", "effect"))
    return Table(header, tuple(rows), "lllr", (Msg("caption.claims"),), name="claims", widths=(1.6, 3.1, 1.2, 2.1))


def decided_by(context: Context, cell: Mapping[str, Any]) -> Line:
    """What decided a cell: the results of which a theorem's verdict follows, or the runs."""
    if cell.get("labels"):
        names = [part for label in cell["labels"] for part in (Text(", "), Ref(label))]
        return (Text(" By theorem: "), *names[1:], Text("."))
    record = context.records.get(cell.get("record") or "")
    if record is None or context.only:
        return ()
    return (Text(" "), Link(f"#{anchor(record)}", record["code"]))


def effect(cell: Mapping[str, Any]) -> str:
    """The figure of a verdict with its interval and unit; "" where there is none."""
    if cell.get("effect") is None:
        return ""
    return " ".join(filter(None, (number(cell["effect"]), interval(cell.get("interval")), cell.get("unit"))))


def anchor(record: Mapping[str, Any]) -> str:
    """The anchor of an experiment: the quick record of one has its plain name."""
    return f"experiment-{record['experiment']}" + ("" if record["size"] == "quick" else f"-{record['size']}")


def interval(bounds: list[float] | None) -> str:
    """The bounds of an interval in brackets; empty where there is none."""
    return f"[{number(bounds[0])},\u00a0{number(bounds[1])}]" if bounds else ""
