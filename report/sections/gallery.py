"""Public attention kernels before the judge: what each promises, and what is not so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from report import document as doc
from report.context import Context
from report.document import Code, Details, Items, Line, Listing, Msg, Para, Section, Table, Text, prose, text
from report.filters import number


def build(context: Context) -> list[Section]:
    """One section; none without a record."""
    record = context.gallery
    if not record:
        return []
    good = sum(found["verdict"] == "ok" for found in record.values())
    told = prose(
        """{all} public attention kernels, judged against the definition with the claims that their packages document:
        {good} do what they say in every case.""",
        all=number(len(record)),
        good=number(good),
    )
    rows: list[tuple[Line, ...]] = []
    for name, found in record.items():
        cases = found.get("cases", [])
        bad = [case for case in cases if case["verdict"] != "ok"]
        versions = ", ".join(f"{package} {version}" for package, version in found.get("versions", {}).items())
        first = f"{bad[0]['name']}: {bad[0]['detail']}" if bad else found.get("why", "")
        share = f"{len(cases) - len(bad)} of {len(cases)}" if cases else found["verdict"]
        rows.append((text(name), text(versions), text(share), text(first or "–")))
    header = tuple(text(word) for word in ("kernel", "versions", "cases ok", "the first that is not"))
    blocks: list[doc.Block] = [
        Para((Msg("summary.gallery"),), kind="lead"),
        Para(told),
        Table(header, tuple(rows), "llrl", name="gallery", widths=(1.8, 1.3, 0.6, 1.8)),
        *_smallest(record),
        Para((Text("Again: "), Code("python -m checks.gallery"))),
    ]
    return [Section("gallery", (Msg("heading.gallery"),), tuple(blocks))]


def _smallest(record: Mapping[str, Any]) -> list[doc.Block]:
    """The smallest input of each kernel that has one."""
    made = []
    for name, found in record.items():
        bad = [case for case in found.get("cases", []) if case["verdict"] != "ok" and case["example"]]
        if bad:
            case = bad[0]
            said = f"{name}, {case['name']}: {case['detail']}" + (
                f"; likely: {case['likely']}" if case["likely"] else ""
            )
            made.append((Para(text(said)), Listing(case["example"], "python")))
    if not made:
        return []
    return [Details(text("smallest inputs"), (Items(tuple(made)),), name="gallery-inputs")]
