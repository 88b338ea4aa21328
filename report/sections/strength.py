"""Whether the checks can fail: the wrong laws that they reject, and the code mutants that they kill."""

from __future__ import annotations

from typing import Any

from bayesgrad.evidence import HOW
from report import document as doc
from report.context import Context
from report.document import Code, Details, Line, Msg, Note, Para, Section, Table, Text, prose, text
from report.filters import number


def build(context: Context) -> list[Section]:
    """The section, between the experiments and what has to be trusted."""
    counts = context.counts
    blocks: list[doc.Block] = [Para((Msg("summary.strength"),), kind="lead")]
    told = "{rejected} of {total} wrong laws are rejected by a counterexample."
    blocks.append(Para(prose(told, rejected=number(counts["rejected"]), total=number(counts["wrong_laws"]))))
    mutants = context.evidence["code_mutants"]
    if mutants is None:
        absent = (*prose("Code mutants: not run. "), Code(HOW["code_mutants"]), Text("."))
        blocks.append(Note("warn", (Para(absent),)))
    else:
        blocks += _mutants(mutants)
    return [Section("strength", (Msg("heading.strength"),), tuple(blocks))]


def _share(killed: int, total: int) -> str:
    return f"{100 * killed / total:.1f} %" if total else "–"


def _mutants(found: dict[str, Any]) -> list[doc.Block]:
    told = prose(
        """Of {total} code mutants of the package's core {killed} are killed by a check ({share}); {left} survive, of
        which {explained} are explained.""",
        total=number(found["total"]),
        killed=number(found["killed"]),
        share=_share(found["killed"], found["total"]),
        left=number(len(found["survivors"])),
        explained=number(found["explained"]),
    )
    rows: tuple[tuple[Line, ...], ...] = tuple(
        (text(name), text(number(row["killed"])), text(number(row["total"])), text(_share(row["killed"], row["total"])))
        for name, row in found["operators"].items()
    )
    header = tuple(text(name) for name in ("operator", "killed", "mutants", "share"))
    operators = Table(header, rows, "lrrr", name="operators", widths=(2, 1, 1, 1))
    return [Para(told), operators, *_survivors(found["survivors"])]


def _survivors(survivors: list[dict[str, Any]]) -> list[doc.Block]:
    if not survivors:
        return []
    rows: list[tuple[Line, ...]] = []
    for row in survivors:
        why = row["equivalent"] or ("no check runs through it" if not row["checks"] else "NOT EXPLAINED")
        rows.append(((Code(row["mutant"]),), text(why)))
    header = (text("code mutant"), text("why it changes nothing"))
    table = Table(header, tuple(rows), "ll", name="survivors", widths=(1.4, 1))
    return [Details(text("The code mutants that survive"), (table,), name="survivors")]
