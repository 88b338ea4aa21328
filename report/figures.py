"""Figures of the experiments, drawn with the report's own pen: inline SVG that follows the page, TikZ in the paper.

A curve differs from its neighbours by colour (Okabe and Ito's, which all kinds of colour vision tell apart), by dashes
and by marker. What is exact is a broad pale line, so that what lies on it stays visible; floors are thin and dotted.
Axes name their unit. The same data is the same drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from report.draw import Canvas, Point
from report.frames import COLOURS, SHAPES, WIDE, Frame, Key, finite, plain, rows, ticks

__all__ = ["Curve", "heat", "lines", "plain", "ticks"]

FLOOR_DASHES = ("1 3", "4 3", "8 3", "1 2 5 2", "2 2", "10 2 2 2")


@dataclass(frozen=True)
class Curve:
    """A line of a plot with its interval (``low``, ``high``), all of one length.

    ``slot`` fixes colour and marker, so that an arm looks the same in every figure; otherwise the order decides.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    kind: Literal["arm", "exact", "floor"] = "arm"
    slot: int | None = None


def keys(curves: Sequence[Curve]) -> list[Key]:
    """How each curve is drawn: the exact ones broad and pale, arms in colour, floors thin."""
    found: list[Key] = []
    arms = floors = 0
    for curve in curves:
        if curve.kind == "exact":
            found.append(Key(curve.name, "ink", dash="", width=5.5, opacity=0.28))
        elif curve.kind == "floor":
            found.append(Key(curve.name, "ink", dash=FLOOR_DASHES[floors % len(FLOOR_DASHES)], width=1.1))
            floors += 1
        else:
            slot = (arms if curve.slot is None else curve.slot) % len(COLOURS)
            found.append(Key(curve.name, COLOURS[slot], SHAPES[slot]))
            arms += 1
    return found


def lines(
    curves: Sequence[Curve],
    *,
    x: str,
    y: str,
    floors: Sequence[tuple[str, float]] = (),
    marks: Sequence[tuple[str, str, float]] = (),
    log: str = "",
    width: float = WIDE,
    title: str = "",
    y_range: tuple[float, float] | None = None,
    legend: bool = True,
) -> Canvas:
    """Curves with intervals, the arms in a legend, floors named at their right end; ``floors``: named lines across;
    ``marks``: upright lines (what lies before, what after, where); ``log`` is "", "x", "y" or "xy"."""
    xs = finite([value for curve in curves for value in curve.x], "x" in log)
    ys = finite([value for curve in curves for part in (curve.y, curve.low, curve.high) for value in part], "y" in log)
    ys += finite([value for _, value in floors], "y" in log)
    styles = keys(curves)
    named = [curve.name for curve in curves if curve.kind != "floor"]
    beside = [(curve.name, shown[-1]) for curve in curves if curve.kind == "floor" and (shown := finite(curve.y))]
    frame = Frame(
        (min(xs), max(xs)),
        y_range or (min(ys), max(ys)),
        names=(x, y),
        log=log,
        rows=rows(named, width) if legend else 0,
        width=width,
        high=174 if width > 300 else 150,
        right=14 + 5.2 * min(22, max((len(name) for name, _ in beside), default=0)),
        title=title,
        head=0.08 if marks or any(value is max(ys) for _, value in floors) else 0.0,
    )
    canvas = frame.canvas
    for curve, style in zip(curves, styles, strict=True):
        if len(curve.low):
            band = [*frame.path(curve.x, curve.low), *reversed(frame.path(curve.x, curve.high))]
            canvas.area(band, style.colour, strength=0.13)
    for before, after, value in marks:
        frame.upright(value, before, after)
    taken = [point for curve in curves for point in frame.path(curve.x, curve.y)]
    unit = (canvas.x[1] - canvas.x[0]) / (canvas.width - canvas.left - canvas.right)
    for *_, value in marks:  # and the words beside the upper end of a mark
        taken += [(frame.place(value, 1.0)[0] + move * unit, canvas.y[1]) for move in range(-40, 41, 4)]
    for name, value in floors:
        frame.level(name, value, taken)
    for curve, style in zip(curves, styles, strict=True):
        points = frame.path(curve.x, curve.y)
        canvas.line(points, style.colour, width=style.width, dash=style.dash, opacity=style.opacity)
        if style.shape:
            canvas.dots(points[:: max(len(points) // 8, 1)], style.colour, size=3, shape=style.shape)
    frame.beside(beside)
    if legend:
        frame.legend([style for curve, style in zip(curves, styles, strict=True) if curve.kind != "floor"])
    return canvas


def heat(panels: Sequence[tuple[str, Sequence[Sequence[float]]]], *, x: str, y: str, unit: str) -> Canvas:
    """Lower triangles side by side: colour is the sign, strength the size, each panel on its own scale."""
    size = max(len(matrix) for _, matrix in panels)
    wide = size * 1.5
    canvas = Canvas(
        (0, wide * len(panels)), (-0.22 * size, size), width=212 * len(panels), height=196, margin=(24, 4, 22, 26)
    )
    for n, (title, matrix) in enumerate(panels):
        left = n * wide
        limit = max((abs(value) for row in matrix for value in row), default=0.0) or 1.0
        canvas.data.setdefault("matrices", []).append([list(row) for row in matrix])
        canvas.text(left + size / 2, size, plain(title), shift=(0, 10), size=10.5)
        cells: dict[tuple[str, float], list[tuple[Point, Point]]] = {}
        for i, row in enumerate(matrix):
            top = size - i
            for j, value in enumerate(row[: i + 1]):
                strength = round(abs(value) / limit, 2)
                if strength:
                    box = ((left + j, top - 1), (left + j + 1, top))
                    cells.setdefault(("c1" if value > 0 else "c2", strength), []).append(box)
        for (colour, strength), squares in cells.items():
            canvas.cells(squares, colour, strength=strength)
        corner = (left, size - len(matrix))
        canvas.line([(left, size), corner, (left + len(matrix), size - len(matrix)), (left, size)], "faint", width=0.8)
        canvas.text(left + len(matrix) / 2, corner[1], x, shift=(0, -11), size=10)
        if n == 0:
            canvas.text(left, size / 2, y, anchor="end", shift=(-5, 0), size=10)
        _scale(canvas, left + 0.62 * size, size * 0.97, size, limit, unit)
    return canvas


def _scale(canvas: Canvas, left: float, top: float, size: int, limit: float, unit: str) -> None:
    """What the strengths of a panel mean, lowest to highest value, in the empty half above the diagonal."""
    step = 0.055 * size
    for n in range(-4, 5):
        low = left + (n + 4) * step
        corners = [(low, top), (low + step, top), (low + step, top - step), (low, top - step)]
        if n:
            canvas.area(corners, "c1" if n > 0 else "c2", strength=abs(n) / 4)
    outline = [(left, top), (left + 9 * step, top), (left + 9 * step, top - step), (left, top - step), (left, top)]
    canvas.line(outline, "faint", width=0.6)
    shown = f"{limit:.2g}"
    for at, label in ((0.5, f"−{shown}"), (4.5, "0"), (8.5, shown)):
        canvas.text(left + at * step, top - step, label, shift=(0, -8), size=9)
    canvas.text(left + 4.5 * step, top - step, unit, shift=(0, -19), size=9)
