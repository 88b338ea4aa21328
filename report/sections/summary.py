"""What is claimed and what holds: counts, the verdict board, the claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from report import document as doc
from report.context import Context, verdict_id
from report.document import Badge, Code, Line, Link, Msg, Para, Ref, Section, Table, Text, prose, text
from report.filters import number
from report.merge import SYMBOLIC


def build(context: Context) -> Section:
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
    return (Badge(verdict_id(str(entry["verdict"])) if entry else "not-run"),)


def wrong_laws(result: dict[str, dict[str, int]]) -> Line:
    mutants = result["mutants"]
    return text(f"{mutants['rejected']}/{mutants['total']}") if mutants["total"] else text("–")


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
                    wrong_laws(result),
                )
            )
        tables.append(
            Table(
                header,
                tuple(rows),
                "lllllllc",
                (Msg(f"family.{family}"),),
                name="board",
                widths=(2.9, 1.55, 1.2, 1.2, 1.2, 1.2, 1.15, 1.0),
            )
        )
    return tables


def claims(context: Context) -> doc.Block:
    rows = []
    for claim in context.evidence["claims"]:
        effect = text("–")
        if claim["effect"] is not None:
            effect = text(" ".join(filter(None, (number(claim["effect"]), interval(claim["interval"]), claim["unit"]))))
        rows.append(
            (
                (Code(claim["id"]),),
                (
                    *prose("{statement} ({source})", statement=claim["statement"], source=claim["source"]),
                    *_runs(context, claim),
                ),
                (Badge(verdict_id(claim["verdict"])),),
                effect,
            )
        )
    header = tuple((Msg(f"column.{name}"),) for name in ("claim", "statement", "verdict", "effect"))
    return Table(header, tuple(rows), "lllr", (Msg("caption.claims"),), name="claims", widths=(1.6, 3.1, 1.2, 2.1))


def _runs(context: Context, claim: Mapping[str, Any]) -> Line:
    """Where the runs behind a verdict are told."""
    record = context.records.get(claim["record"] or "")
    if record is None or context.only:
        return ()
    return (Text(" "), Link(f"#{anchor(record)}", record["code"]))


def anchor(record: Mapping[str, Any]) -> str:
    """The anchor of an experiment: the quick record of one has its plain name."""
    return f"experiment-{record['experiment']}" + ("" if record["size"] == "quick" else f"-{record['size']}")


def interval(bounds: list[float] | None) -> str:
    return f"[{number(bounds[0])},\u00a0{number(bounds[1])}]" if bounds else ""
