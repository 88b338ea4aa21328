"""What stands behind the word proved: the derivation, the wrong laws, the formal statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from report import document as doc
from report.context import verdict_id
from report.document import (
    Badge,
    Code,
    Details,
    Display,
    Items,
    Line,
    Listing,
    Msg,
    Para,
    Table,
    Text,
    text,
)  # fmt: skip
from report.filters import number
from report.lettering import lettered, rich


def derivation(entry: Mapping[str, Any], label: str) -> list[doc.Block]:
    """The chain of every part of a result, each under its own hypotheses; empty where there is no step."""
    detail = entry["proof"]["detail"] or {}
    parts = detail.get("parts") or []
    count = sum(len(part.get("steps") or []) for part in parts)
    if not count:
        return []
    blocks: list[doc.Block] = []
    for part, row in zip(parts, entry["parts"], strict=True):
        blocks += _part(part, len(parts) > 1)
        if row["theorem"]:
            blocks.append(Para((Msg("route.formal"), Text(" "), Code(row["theorem"]))))
    for key in ("primitives", "definitions"):
        if detail.get(key):
            names = [part for name in detail[key] for part in (Text(", "), Code(name))][1:]
            blocks.append(Para((doc.Emph((Msg(f"ui.{key}"),), strong=True), Text(" "), *names)))
    summary: Line = (Msg("ui.derivation", (("parts", number(len(parts))), ("steps", number(count)))),)
    return [Details(summary, tuple(blocks), name=f"derivation-{label}")]


def _part(part: Mapping[str, Any], several: bool) -> list[doc.Block]:
    """One statement of a proof and the chain that proves it."""
    blocks: list[doc.Block] = []
    if several:
        said = (Text(". "), *lettered(part["says"])) if part.get("says") else ()
        blocks.append(Para((doc.Emph((Text(str(part.get("name", ""))),), strong=True), *said)))
        if part.get("statement_tex"):
            blocks.append(Display(part["statement_tex"]))
    if part.get("assumptions"):
        blocks.append(Para((Msg("ui.hypotheses"),)))
        blocks.append(Items(tuple((Para(lettered(item)),) for item in part["assumptions"])))
    items = []
    for step in part.get("steps") or []:
        lines: list[doc.Block] = [Para((Code(step["rule"]), Text(": "), *rich(step.get("why", ""))))]
        if step.get("tex"):
            lines.append(Display(step["tex"]))
        items.append(tuple(lines))
    return [*blocks, Items(tuple(items), ordered=True)]


def wrong_laws(found: Mapping[str, Any]) -> list[doc.Block]:
    """The wrong laws of a result, each once, with the shortest counterexample; empty where it has none."""
    if not found["laws"]:
        return []
    rows, examples = [], []
    for name, law in found["laws"].items():
        verdict = "rejected" if law["verdict"] in ("refuted", "rejected") else verdict_id(law["verdict"])
        rows.append(((Code(name),), text(law.get("kind") or ""), rich(law.get("why") or ""), (Badge(verdict),)))
        if law.get("counterexample"):
            examples.append((Para((Code(name), Text(f": {law['counterexample']}"))),))
    header = tuple((Msg(f"column.{name}"),) for name in ("wrong_law", "kind", "why", "verdict"))
    blocks: list[doc.Block] = [Table(header, tuple(rows), "llll", name="wrong-laws", widths=(1.3, 1.3, 3, 1))]
    if examples:
        blocks.append(Details((Msg("ui.counterexamples"),), (Items(tuple(examples)),), page_only=True))
    return [Details((Msg("ui.wrong", (("total", number(found["total"])),)),), tuple(blocks))]


def formal(verdict: Mapping[str, Any]) -> list[doc.Block]:
    """What Coq proved of a result: each statement with its own hypotheses and axioms; empty where it proved nothing."""
    detail = verdict["detail"] if isinstance(verdict["detail"], dict) else {}
    if not detail.get("statement"):
        return []
    blocks: list[doc.Block] = []
    for item in (detail, *(detail.get("corollaries") or ()), *(detail.get("refutations") or ())):
        place = f"{item.get('file', '')}:{item['line']}" if item.get("line") else str(item.get("file", ""))
        words = (*rich(item["words"]), Text(". ")) if item.get("words") else ()
        blocks.append(Listing(str(item["statement"]), "coq", (*words, Code(place))))
        if item.get("hypotheses"):
            said = "; ".join(str(one) for one in item["hypotheses"])
            blocks.append(Para((doc.Emph((Msg("ui.hypotheses"),), strong=True), Text(f" {said}"))))
        if item.get("axioms") is not None:
            names = [part for name in item["axioms"] or ["none"] for part in (Text(", "), Code(str(name)))][1:]
            blocks.append(Para((doc.Emph((Msg("ui.axioms"),), strong=True), Text(" "), *names)))
    return [Details((Msg("ui.formal"),), tuple(blocks))]
