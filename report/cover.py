"""The picture of README.md, docs/report.svg: what rests on what, with the statuses and counts of the tables beside it.

    picture = drawn(the two tables of README.md, the graph of the evidence)

A function of what README.md says already and of the graph, so that the check compares whole files, byte for byte: the
tables are compared with the evidence, the picture with the tables. No number stands in it that was not counted here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path

from bayesgrad.evidence import ROOT
from report.filters import escape_html
from report.layered import Point, layout
from report.sections.dependency_graph import COLUMN, HEIGHT, ROW, WIDTH, edge

PATH = ROOT / "docs" / "report.svg"
Rows = Sequence[Sequence[str]]
Graph = Mapping[str, Mapping[str, Sequence[str]]]
"""By kind of arrow, "rests" (solid) and "beside" (dashed: only read with it), what each label leans on."""
TOP = 76  # room for the three lines above the graph
STYLE = """
text { font-family: Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 19px; font-weight: 700 } .count { font-size: 14px } .family { font-size: 10px; fill: #57606a }
.name { font-size: 12px; font-weight: 600 } .rests { fill: none; stroke: #8c959f; stroke-width: 1.1 }
.beside { fill: none; stroke: #8c959f; stroke-width: 1.1; stroke-dasharray: 4 4 }
.yes { fill: #dafbe1; stroke: #1a7f37 } .no { fill: #fff8c5; stroke: #9a6700 }
"""


def counts(header: Sequence[str], rows: Rows, claims: Rows) -> tuple[str, str, str]:
    """The three lines above the graph, counted from the tables' cells (claims: one row for each thing that decided)."""
    fully = sum("yes" in row[1] for row in rows)
    routes = [
        f"{name} {sum(row[n] == '✓' for row in rows)}" for n, name in enumerate(header) if 2 <= n < len(header) - 1
    ]
    laws = [tuple(map(int, row[-1].split("/"))) for row in rows if re.fullmatch(r"\d+/\d+", row[-1])]
    verdicts = Counter(row[3].strip("*") for row in claims)
    told = ", ".join(f"{number} {word}" for word, number in sorted(verdicts.items(), key=lambda item: -item[1]))
    return (
        f"{fully} of {len(rows)} results fully proved",
        f"established by route: {', '.join(routes)}; wrong laws rejected: {sum(a for a, _ in laws)} of "
        f"{sum(b for _, b in laws)}",
        f"{len({row[0] for row in claims})} published claims, {len(claims)} verdicts: {told}",
    )


def drawn(header: Sequence[str], rows: Rows, claims: Rows, graph: Graph) -> str:
    """The picture. ``rows`` and ``claims`` are the cells of the tables."""
    status = {row[0].strip("`"): "yes" if "yes" in row[1] else "no" for row in rows}
    below = {
        kind: {label: [low for low in arrows.get(label, ()) if low in status] for label in status}
        for kind, arrows in graph.items()
    }
    placed = layout({label: [low for arrows in below.values() for low in arrows[label]] for label in status})
    wide = max((placed.columns - 1) * COLUMN + WIDTH + 24, 1000)
    high = (placed.rows - 1) * ROW + HEIGHT + 24 + TOP
    title, *more = counts(header, rows, claims)
    lines = [f'<text class="title" x="12" y="26">{escape_html(title)}</text>']
    lines += [f'<text class="count" x="12" y="{48 + 20 * n}">{escape_html(line)}</text>' for n, line in enumerate(more)]
    edges = (
        edge(*pair, points, next(kind for kind, arrows in below.items() if pair[0] in arrows[pair[1]]))
        for pair, points in placed.paths.items()
    )
    nodes = (_node(label, status[label], place) for label, place in placed.places.items())
    body = "\n".join([*lines, f'<g transform="translate(0 {TOP})">', *edges, *nodes, "</g>"])
    arrow = (
        '<marker id="graph-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0.6 7.4 4 0 7.4z" fill="#8c959f"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:.1f}" role="img">\n'
        f"<title>{escape_html(title)}</title>\n<style>{STYLE}</style>\n<defs>{arrow}</defs>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _node(label: str, status: str, place: Point) -> str:
    x, y = 12 + place[0] * COLUMN, 12 + place[1] * ROW
    family, _, name = label.partition(".")
    sign = "✓" if status == "yes" else "○"
    return (
        f'<g><rect class="{status}" x="{x:.0f}" y="{y:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="7"/>'
        f'<text class="name" x="{x + 13:.0f}" y="{y + 26:.1f}" text-anchor="middle">{sign}</text>'
        f'<text class="family" x="{x + 26:.0f}" y="{y + 15:.1f}">{escape_html(family)}</text>'
        f'<text class="name" x="{x + 26:.0f}" y="{y + 31:.1f}">{escape_html(name)}</text></g>'
    )


def graph_of(svg: str) -> dict[str, dict[str, list[str]]]:
    """The graph that a picture shows, for where the routes that record it have not run."""
    found: dict[str, dict[str, list[str]]] = {"rests": {}, "beside": {}}
    for kind, parent, child in re.findall(
        r'<path class="(rests|beside)"[^>]* data-from="([^"]*)" data-to="([^"]*)"', svg
    ):
        found[kind].setdefault(unescape(child), []).append(unescape(parent))
    return found


def _arrows(graph: Graph) -> set[tuple[str, str]]:
    """The arrows that carry a status; where the others lie shows in the lines."""
    return {(low, label) for label, below in graph["rests"].items() for low in below}


def difference(header: Sequence[str], rows: Rows, claims: Rows, graph: Graph | None, path: Path) -> str:
    """How the picture on disk differs from what it should be; "" if it does not. ``graph=None``: its own is kept."""
    if not path.is_file():
        return f"{path.name} is missing"
    there = path.read_text(encoding="utf-8")
    shown = graph_of(there)
    if graph is not None and _arrows(graph) != _arrows(shown):
        return f"{path.name} shows another graph than the evidence"
    wanted = drawn(header, rows, claims, shown if graph is None else graph)
    if there == wanted:
        return ""
    for old, new in zip(there.splitlines(), wanted.splitlines(), strict=False):
        if old != new:
            texts = [", ".join(re.findall(r"<text[^>]*>([^<]*)</text>", line)) or "other lines" for line in (old, new)]
            return f"{path.name} shows {texts[0]!r}, README.md's tables say {texts[1]!r}"
    return f"{path.name} has another number of lines than the picture of README.md's tables"
