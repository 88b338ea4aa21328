"""What rests on what, and what is only read with it: a drawing whose nodes are links, with a legend."""

from __future__ import annotations

from collections.abc import Sequence

from report.context import TONES, Context
from report.document import Line, Msg, Para, Raw, Ref, Section, Table, Text, text
from report.filters import escape_html
from report.layered import Layout, Point, layout
from report.render_html import mark

COLUMN, ROW, WIDTH, HEIGHT = 200, 54, 164, 42
STATUSES = ("fully-proved", "partial", "open", "failed")


def build(context: Context) -> Section:
    """The section: the drawing, and a table that says the same for the paper."""
    rests_on = context.rests_on
    beside = {label: tuple(result["read_with"]) for label, result in context.results.items()}
    rows = (((Ref(label),), _names(rests_on[label]), _names(beside[label])) for label in rests_on)
    header = tuple((Msg(f"column.{name}"),) for name in ("result", "uses", "read_with"))
    paper = Table(header, tuple(rows), "lll", name="uses", widths=(1, 2, 1))
    placed = layout({label: (*rests_on[label], *beside[label]) for label in rests_on})
    drawing = Raw(html(context, placed), (paper,))
    return Section("graph", (Msg("heading.graph"),), (Para((Msg("summary.graph"),), kind="lead"), drawing))


def _names(labels: tuple[str, ...]) -> Line:
    return tuple(part for label in labels for part in (Text(", "), Ref(label)))[1:] or text("–")


def _message(context: Context, id: str) -> str:
    return f'<span data-m="{id}">{escape_html(context.messages.english(id))}</span>'


MESSAGES = ("ui.zoom_in", "ui.zoom_out", "ui.legend", *(f"verdict.{status}" for status in STATUSES))


def html(context: Context, placed: Layout) -> str:
    """The drawing with its legend and its buttons."""
    width = (placed.columns - 1) * COLUMN + WIDTH + 24
    height = (placed.rows - 1) * ROW + HEIGHT + 24
    edges = "".join(
        edge(parent, child, points, "solid" if parent in context.rests_on[child] else "dashed")
        for (parent, child), points in placed.paths.items()
    )
    nodes = "".join(_node(context, label, place) for label, place in placed.places.items())
    legend = "".join(
        f'<li><svg viewBox="0 0 34 22" width="34" height="22" aria-hidden="true"><g class="node {status}">'
        '<rect x="2" y="2" width="30" height="18" rx="5"/>'
        f'<text x="17" y="15" text-anchor="middle">{mark(status, TONES)}</text>'
        f"</g></svg> {_message(context, f'verdict.{status}')}</li>"
        for status in STATUSES
    )
    return (
        '<div class="graph-tools play-controls">'
        f'<button type="button" id="graph-larger">{_message(context, "ui.zoom_in")}</button> '
        f'<button type="button" id="graph-smaller">{_message(context, "ui.zoom_out")}</button>'
        f'<ul class="legend" aria-label="legend">{legend}</ul></div>'
        '<div class="graph" tabindex="0" role="group" aria-label="dependency graph">'
        f'<svg id="dependency-graph" viewBox="0 0 {width:g} {height:.1f}" role="group" '
        f'aria-label="{escape_html(context.messages.english("heading.graph"))}">'
        '<defs><marker id="graph-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto">'
        '<path d="M0 0.6 7.4 4 0 7.4z"/></marker></defs>'
        f'<g class="edges">{edges}</g>{nodes}</svg></div>'
    )


def _at(place: Point) -> Point:
    return 12 + place[0] * COLUMN, 12 + place[1] * ROW


def edge(parent: str, child: str, points: Sequence[Point], line: str) -> str:
    """An arrow from a parent to the child that rests on it, bent where it passes other columns."""
    path: list[Point] = [_at(point) for point in points]
    x, y = path[0][0] + WIDTH, path[0][1] + HEIGHT / 2
    parts = [f"M{x:.0f} {y:.1f}"]
    for n, (left, top) in enumerate(path[1:], 1):
        last = n == len(path) - 1
        entry, level = left - (2 if last else 0), top + HEIGHT / 2
        bend = (entry - x) / 2
        parts.append(f"C{x + bend:.0f} {y:.1f} {entry - bend:.0f} {level:.1f} {entry:.0f} {level:.1f}")
        x, y = entry, level
        if not last:
            x += WIDTH
            parts.append(f"H{x:.0f}")
    ends = f'data-from="{escape_html(parent)}" data-to="{escape_html(child)}"'
    return f'<path class="{line}" d="{"".join(parts)}" {ends} marker-end="url(#graph-arrow)"/>'


def _node(context: Context, label: str, place: Point) -> str:
    x, y = _at(place)
    family, _, name = label.partition(".")
    status = context.status(label)
    if status == "refuted":
        status = "failed"
    told = f"{label}: {context.messages.english(f'verdict.{status}')}"
    return (
        f'<a href="#{escape_html(label)}" class="node {status}" data-label="{escape_html(label)}">'
        f'<rect x="{x:.0f}" y="{y:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="7">'
        f"<title>{escape_html(told)}</title></rect> "
        f'<text class="mark" x="{x + 13:.0f}" y="{y + 26:.1f}" text-anchor="middle">{mark(status, TONES)}</text> '
        f'<text class="family" x="{x + 26:.0f}" y="{y + 15:.1f}">{escape_html(family)}</text> '
        f'<text class="name" x="{x + 26:.0f}" y="{y + 31:.1f}">{escape_html(name)}</text></a>'
    )
