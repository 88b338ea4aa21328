"""The catalogue, computed: ``bayesgrad/catalogue.json``, which the wheel carries, and the page ``docs/catalogue.md``.

Statements are written from the claims that the kernel proved, so nobody reads a formula that nobody proved; what is
assumed comes from those claims as well, and the order from what rests on what. The words come from the modules.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bayesgrad.evidence import ROOT
from derivations import laws, present
from derivations.result import families, results

DATA = ROOT / "bayesgrad" / "catalogue.json"
PAGE = ROOT / "docs" / "catalogue.md"


class Cycle(ValueError):
    """Results, or families, that rest on one another in a circle."""


def ordered(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Each name after all that it points to, otherwise by the alphabet. Raises Cycle."""
    waiting = {name: {other for other in below if other in graph and other != name} for name, below in graph.items()}
    out: list[str] = []
    while waiting:
        free = sorted(name for name, below in waiting.items() if below <= set(out))
        if not free:
            raise Cycle(f"these rest on one another in a circle: {', '.join(sorted(waiting))}")
        out.append(free[0])
        del waiting[free[0]]
    return out


def order() -> list[str]:
    """Every label: family by family, nothing before what it rests on or is read with."""
    below = {label: {*(links := present.graph(label)).rests_on, *links.read_with} for label in results()}
    family = {label: label.split(".")[0] for label in below}
    between: dict[str, set[str]] = {name: set() for name in families()}
    for label, on in below.items():
        between[family[label]] |= {family[other] for other in on}
    return [
        label
        for name in ordered(between)
        for label in ordered({label: set(on) for label, on in below.items() if family[label] == name})
    ]


def entry(label: str) -> dict[str, Any]:
    """A result as the wheel carries it."""
    record = results()[label]
    parts = present.headline(laws.law(label))
    return {
        "label": label,
        "family": families()[label.split(".")[0]],
        "title": record.title,
        "statement": present.statement_tex(label),
        "assumptions": list(dict.fromkeys(line for part in parts for line in present.assumptions(part))),
        "read_with": list(record.read_with),
        "source": record.source,
        "implements": list(record.implements),
        "routes": dict(record.routes),
        "naive": list(record.naive),
        "means": " ".join(record.means.split()),
        "fails": " ".join(record.fails.split()),
    }


def data() -> str:
    """The text of ``bayesgrad/catalogue.json``."""
    return json.dumps([entry(label) for label in order()], indent=1, ensure_ascii=False) + "\n"


def source() -> str:
    """The page as Markdown."""
    lines = [
        "# Catalogue of results",
        "",
        "Written by `make docs` from the modules under `derivations/`; the statements are those that were proved.",
        "A result is cited by its label, never by a number. `python -m derivations LABEL` prints its derivation.",
        "*Assumes* and *rests on* are computed from what was proved. *Read with* carries no status.",
    ]
    family = ""
    for label in order():
        found = entry(label)
        if found["family"] != family:
            family = found["family"]
            lines += ["", f"## {family}"]
        lines += _section(found)
    return "\n".join(lines) + "\n"


def _section(found: Mapping[str, Any]) -> list[str]:
    required = [route for route, word in found["routes"].items() if word == "required"]
    lines = ["", f"### {found['label']}", "", f"{found['title']}.", "", f"$${found['statement']}$$", ""]
    lines += [f"- assumes: {'; '.join(found['assumptions'])}"] if found["assumptions"] else []
    links = present.graph(found["label"])
    rests = [f"`{label}`{' (in Coq)' if by == 'Coq' else ''}" for label, by in links.rests_on.items()]
    lines += [f"- rests on: {', '.join(rests)}"] if rests else []
    lines += [f"- read with: {', '.join(f'`{label}`' for label in links.read_with)}"] if links.read_with else []
    lines += [f"- source: {found['source']}"]
    lines += [f"- shipped as: {', '.join(f'`{f}`' for f in found['implements'])}"] if found["implements"] else []
    lines += [f"- established by: {', '.join(r.replace('_', ' ') for r in required)}"]
    lines += [f"- refutes the naive claim: {claim}" for claim in found["naive"]]
    return lines
