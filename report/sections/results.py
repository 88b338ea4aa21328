"""Every result: what it says, why it is true, how we know, and where it stops being true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayesgrad.evidence import HOW
from bayesgrad.evidence.status import SYMBOLIC
from bayesgrad.theorems import Theorem
from report import document as doc
from report.context import Context, shipped, verdict_id
from report.document import (
    Badge,
    Code,
    Details,
    Display,
    Items,
    Line,
    Listing,
    Math,
    Msg,
    Note,
    Para,
    Ref,
    Section,
    Table,
    Text,
    prose,
    text,
)  # fmt: skip
from report.filters import number
from report.lettering import lettered, rich
from report.linebreak import width
from report.meanings import MEANINGS
from report.pictures import PICTURES
from report.sections.proofs import derivation, formal, wrong_laws


def build(context: Context) -> list[Section]:
    """A section for every family, with one for each of its results."""
    sections = []
    for family, theorems in context.families.items():
        told = [result(context, theorem) for theorem in theorems if theorem.label in context.labels]
        if told:
            lead = Para((Msg(f"summary.{family}"),), kind="lead")
            sections.append(Section(family, (Msg(f"family.{family}"),), (lead, *told)))
    return sections


def title(context: Context, theorem: Theorem) -> Line:
    """The title of a result, from the catalogue where it has one."""
    id = f"title.{theorem.label}"
    known = id in context.messages and context.messages.english(id) == theorem.title
    return (Msg(id),) if known else text(theorem.title)


def result(context: Context, theorem: Theorem) -> Section:
    """The section of one result."""
    entry = context.results[theorem.label]
    meaning = MEANINGS.get(theorem.label)
    blocks: list[doc.Block] = [Display(context.statement(theorem.label))]
    blocks += _where(entry["proof"]["detail"] or {})
    if meaning:
        blocks.append(Para(prose(meaning.says)))
    if theorem.label in PICTURES:
        blocks.append(_picture(theorem.label))
    if theorem.assumptions:
        blocks.append(Para((doc.Emph((Msg("ui.assumptions"),), strong=True),)))
        blocks.append(Items(tuple((Para(lettered(item)),) for item in theorem.assumptions)))
    if meaning and meaning.fails:
        blocks.append(
            Note("limit", (Para((doc.Emph((Msg("ui.fails"),), strong=True), Text(" "), *prose(meaning.fails))),))
        )
    if theorem.naive:
        blocks.append(Para((doc.Emph((Msg("ui.naive"),), strong=True),)))
        blocks.append(Items(tuple((Para(lettered(claim)),) for claim in theorem.naive)))
    blocks += derivation(entry, theorem.label)
    blocks.append(_routes(context, theorem, entry))
    blocks += wrong_laws(context.rejections[theorem.label])
    blocks += formal(entry["formal"])
    blocks += _code(theorem)
    blocks.append(_links(context, theorem))
    return Section(theorem.label, title(context, theorem), tuple(blocks), theorem.label, context.status(theorem.label))


def _where(detail: Mapping[str, Any]) -> list[doc.Block]:
    """What the letters of the statement stand for, as the proof defines them."""
    letters = [tex for tex in detail.get("where") or [] if isinstance(tex, str)]
    if not letters:
        return []
    blocks: list[doc.Block] = []
    parts: list[doc.Inline] = [part for tex in letters if width(tex) <= 48 for part in (Text(", "), Math(tex))]
    if parts:
        blocks.append(Para((Msg("ui.where"), Text(" "), *parts[1:], Text(".")), kind="where"))
    return [*blocks, *(Display(tex) for tex in letters if width(tex) > 48)]


def _picture(label: str) -> doc.Figure:
    caption, canvas = PICTURES[label].caption, PICTURES[label].draw()
    data = {kind: values for kind, values in canvas.data.items() if values}
    return doc.Figure(f"picture-{label}", prose(caption), caption, data)


def pictures(context: Context) -> dict[str, dict[str, bytes]]:
    """The pictures of the results that are printed: figure name -> its SVG and its TikZ."""
    found = {}
    for label in context.by_label:
        if label in PICTURES and label in context.labels:
            canvas = PICTURES[label].draw()
            found[f"picture-{label}"] = {"svg": canvas.svg().encode(), "tikz": canvas.tikz().encode()}
    return found


def _routes(context: Context, theorem: Theorem, entry: Mapping[str, Any]) -> doc.Block:
    rows: list[tuple[Line, ...]] = []
    for route in SYMBOLIC:
        verdict = entry[route]
        rows.append(
            (
                _need(theorem, route),
                (Badge(verdict_id(verdict["verdict"])),),
                _symbolic(verdict),
                _command(theorem, route),
            )
        )
    check = entry["check"]
    rows.append(
        (_need(theorem, "check"), (Badge(verdict_id(check["verdict"])),), _check(check), _command(theorem, "check"))
    )
    laws = context.rejections[theorem.label]
    if laws["total"]:
        word = "survived" if laws["survivors"] else "all-rejected"
        names = f"; surviving: {', '.join(laws['survivors'])}" if laws["survivors"] else ""
        told = text(f"{laws['rejected']} of {laws['total']} wrong laws rejected{names}")
        rows.append((_need(theorem, "wrong_laws"), (Badge(word),), told, _command(theorem, "check")))
    if entry["observed"] or theorem.routes.get("observed") in ("required", "optional"):
        seen = entry["observed"] or {"verdict": "not run"}
        word = verdict_id(seen["verdict"])
        shown: Line = (Badge(word),) if f"verdict.{word}" in context.messages else text(seen["verdict"])
        rows.append((_need(theorem, "observed"), shown, _observed(seen), _command(theorem, "observed")))
    header = tuple((Msg(f"column.{name}"),) for name in ("route", "verdict", "evidence", "again"))
    return Table(header, tuple(rows), "llll", name="routes", widths=(1.0, 1.0, 2.7, 1.7))


def _need(theorem: Theorem, route: str) -> Line:
    need = theorem.routes.get(route, "")
    name: Line = (Msg(f"route.{route}"),)
    return (*name, Text(" "), Msg("ui.required")) if need == "required" else name


def _symbolic(verdict: Mapping[str, Any]) -> Line:
    detail = verdict["detail"] if isinstance(verdict["detail"], dict) else {}
    parts = [verdict["reason"]] if verdict["reason"] else []
    if detail.get("words"):
        parts.append(f"{detail['theorem']}: {detail['words']}" if detail.get("theorem") else detail["words"])
    if detail.get("rewritings"):
        parts.append(f"{detail['rewritings']['proved']} of {detail['rewritings']['total']} rewritings proved")
    for key, one in (
        ("parts", "statement"),
        ("primitives", "primitive rule"),
        ("corollaries", "corollary"),
        ("cases", "case"),
    ):
        if detail.get(key):
            many = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
            parts.append(f"{len(detail[key])} {one if len(detail[key]) == 1 else many}")
    parts += [f"{key}: {plain(value)}" for key, value in sorted(detail.items()) if key not in _TOLD and plain(value)]
    return rich("; ".join(parts)) if parts else text("–")


_TOLD = {
    "statement_tex", "primitives", "definitions", "rewritings", "statement", "axioms", "file", "parts", "words",
    "theorem", "line", "seconds", "corollaries", "refutations", "where", "cases", "naive",
}  # fmt: skip


def plain(value: Any) -> str:
    """A short datum as words; nested data is left to evidence.json."""
    if isinstance(value, bool | int | float | str):
        return number(value) if not isinstance(value, str) else value if len(value) <= 160 else ""
    if isinstance(value, list) and all(isinstance(item, int | float | str) for item in value) and len(value) <= 12:
        return ", ".join(plain(item) for item in value)
    if (
        isinstance(value, dict)
        and all(isinstance(item, int | float | str) for item in value.values())
        and len(value) <= 12
    ):
        return ", ".join(f"{key} = {plain(item)}" for key, item in value.items())
    return ""


def _check(check: Mapping[str, Any]) -> Line:
    parts = [check["reason"]] if check["reason"] else []
    if check["examples"]:
        parts.append(f"{number(check['examples'])} examples, {number(check['vacuous'])} vacuous")
    if check["worst_error"] is not None:
        parts.append(f"worst error {number(check['worst_error'], 2)} at tolerance {number(check['tolerance'], 2)}")
    if check["oracles"]:
        parts.append("against " + ", ".join(check["oracles"]))
    return rich("; ".join(parts)) if parts else text("–")


def _observed(seen: Mapping[str, Any]) -> Line:
    told = [
        f"{key.replace('_', ' ')} {plain(value)}"
        for key, value in seen.items()
        if key not in ("verdict", "record") and plain(value)
    ]
    record = (Code(seen["record"]),) if seen.get("record") else ()
    return (*rich("; ".join(told)), *((Text("; "), *record) if told and record else record)) or text("–")


def _command(theorem: Theorem, route: str) -> Line:
    if route == "proof":
        return (Code(f"python -m derivations {theorem.label}"),)
    return (Code(HOW[route]),)


def _code(theorem: Theorem) -> list[doc.Block]:
    listings: list[doc.Block] = []
    for item in shipped(theorem):
        listings.append(Listing(item.source, "python", (Code(item.name),)) if item.source else Para((Code(item.name),)))
    return [Details((Msg("ui.source"),), tuple(listings), page_only=True)] if listings else []


def _links(context: Context, theorem: Theorem) -> doc.Block:
    def names(labels: tuple[str, ...]) -> Line:
        return tuple(part for label in labels for part in (Text(", "), Ref(label)))[1:]

    parts: list[doc.Inline] = []
    carried = (("ui.uses", context.rests_on[theorem.label]), ("ui.used_by", context.used_by[theorem.label]))
    for id, labels in (*carried, ("ui.read_with", tuple(context.results[theorem.label]["read_with"]))):
        if labels:
            parts += [Msg(id), Text(" "), *names(labels), Text(". ")]
    missing = context.missing(theorem.label)
    if missing:
        parts += [Msg("ui.missing"), Text(f" {'; '.join(missing)}. ")]
    parts += [Msg("ui.from"), Text(f" {theorem.source}.")]
    return Para(tuple(parts), kind="links")
