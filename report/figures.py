"""Figures of the experiments, drawn with the report's own pen: inline SVG that follows the page, TikZ in the paper.

A curve differs from its neighbours by colour (Okabe and Ito's, which all kinds of colour vision tell apart), by dashes
and by marker. Axes name their unit. The same data is the same drawing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from report.draw import Canvas, Point
from report.filters import clean

COLOURS = ("c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
SHAPES = ("round", "square", "triangle", "diamond", "hollow", "cross", "round", "square")


@dataclass(frozen=True)
class Curve:
    """A line of a plot with its interval (``low``, ``high``), all of one length."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def plain(text: str, room: int = 34) -> str:
    """Data as a label: never a formula, and never longer than there is room for."""
    shown = clean(text).replace("$", "＄")
    return shown if len(shown) <= room else shown[: room - 1] + "…"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between ``low`` and ``high``, about ``count`` of them."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    step = 10 ** math.floor(math.log10(rough))
    step *= next((factor for factor in (1, 2, 5) if factor * step >= rough), 10)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    return [10.0**n for n in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]


def _shown(value: float, step: float) -> str:
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value:.{digits}f}".replace("-", "−")


def _power(value: float) -> str:
    return f"$10^{{{round(math.log10(value))}}}$"


class Frame:
    """A canvas with scales: linear or logarithmic, ticks, grid, names of the axes."""

    def __init__(self, x: Point, y: Point, *, log: str, names: Point | tuple[str, str], rows: int) -> None:
        self.logx, self.logy = "x" in log, "y" in log
        low, high = self._across(x[0]), self._across(x[1])
        bottom, top = self._up(y[0]), self._up(y[1])
        pad = 0.04 * (top - bottom) or 0.5
        self.canvas = Canvas(
            (low, high if high > low else low + 1),
            (bottom - pad, top + pad),
            width=440,
            height=236 + 17 * rows,
            margin=(52, 14, 22, 40 + 17 * rows),
        )
        self._grid(x, y)
        left, floor = self.canvas.x[0], self.canvas.y[0]
        self.canvas.line([(left, floor), (self.canvas.x[1], floor)], "faint", width=1)
        self.canvas.line([(left, floor), (left, self.canvas.y[1])], "faint", width=1)
        self.canvas.text((left + self.canvas.x[1]) / 2, floor, str(names[0]), shift=(0, -28), size=11)
        self.canvas.text(left, self.canvas.y[1], str(names[1]), anchor="start", shift=(-46, 13), size=11)

    def _across(self, value: float) -> float:
        return math.log10(value) if self.logx else value

    def _up(self, value: float) -> float:
        return math.log10(value) if self.logy else value

    def place(self, x: float, y: float) -> Point:
        return self._across(x), self._up(y)

    def _grid(self, x: Point, y: Point) -> None:
        canvas = self.canvas
        across = _decades(*x) if self.logx else ticks(*x, 6)
        up = _decades(*y) if self.logy else ticks(*y)
        for value in across:
            at = self._across(value)
            canvas.line([(at, canvas.y[0]), (at, canvas.y[1])], "grid", width=0.6)
            label = _power(value) if self.logx else _shown(value, across[1] - across[0] if len(across) > 1 else value)
            canvas.text(at, canvas.y[0], label, shift=(0, -11), size=10)
        for value in up:
            at = self._up(value)
            canvas.line([(canvas.x[0], at), (canvas.x[1], at)], "grid", width=0.6)
            label = _power(value) if self.logy else _shown(value, up[1] - up[0] if len(up) > 1 else value)
            canvas.text(canvas.x[0], at, label, anchor="end", shift=(-6, 0), size=10)


def lines(
    curves: Sequence[Curve],
    *,
    x: str,
    y: str,
    floors: Sequence[tuple[str, float]] = (),
    log: str = "",
) -> Canvas:
    """Curves with intervals and a legend, named floors as thin lines; ``log`` is "", "x", "y" or "xy"."""

    def finite(values: Sequence[float], positive: bool) -> list[float]:
        return [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not positive)]

    xs = finite([value for curve in curves for value in curve.x], "x" in log)
    ys = finite([value for curve in curves for part in (curve.y, curve.low, curve.high) for value in part], "y" in log)
    ys += finite([value for _, value in floors], "y" in log)
    columns = 2
    frame = Frame((min(xs), max(xs)), (min(ys), max(ys)), log=log, names=(x, y), rows=-(-len(curves) // columns))
    canvas = frame.canvas

    def path(across: Sequence[float], up: Sequence[float]) -> list[Point]:
        kept = [(a, b) for a, b in zip(across, up, strict=True) if finite([b], "y" in log) and finite([a], "x" in log)]
        return [frame.place(a, b) for a, b in kept]

    for n, curve in enumerate(curves):
        if len(curve.low):
            canvas.area(
                [*path(curve.x, curve.low), *reversed(path(curve.x, curve.high))], COLOURS[n % 8], strength=0.13
            )
    for name, value in floors:
        at = frame.place(max(xs), value)[1]
        canvas.line([(canvas.x[0], at), (canvas.x[1], at)], "ink", width=1, dash="1 3")
        canvas.text(canvas.x[0], at, plain(name), anchor="start", shift=(6, 7), size=10)
    for n, curve in enumerate(curves):
        colour, shape = COLOURS[n % 8], SHAPES[n % 8]
        points = path(curve.x, curve.y)
        canvas.line(points, colour, width=1.8)
        for point in points[:: max(len(points) // 8, 1)]:
            canvas.dot(point, colour, size=3, shape=shape)
        row, column = divmod(n, columns)
        _legend(canvas, plain(curve.name), colour, shape, column, row)
    return canvas


def _legend(canvas: Canvas, name: str, colour: str, shape: str, column: int, row: int) -> None:
    """A sample of a curve and its name, below the axes."""
    wide, high = canvas.x[1] - canvas.x[0], canvas.y[1] - canvas.y[0]
    inner = canvas.width - canvas.left - canvas.right
    down = canvas.y[0] - (46 + 17 * row) * high / (canvas.height - canvas.top - canvas.bottom)
    start = canvas.x[0] + column * wide / 2
    end = start + 26 * wide / inner
    canvas.line([(start, down), (end, down)], colour, width=1.8)
    canvas.dot(((start + end) / 2, down), colour, size=3, shape=shape)
    canvas.text(end, down, name, anchor="start", shift=(7, 0), size=10.5)


def heat(panels: Sequence[tuple[str, Sequence[Sequence[float]]]], *, x: str, y: str, unit: str) -> Canvas:
    """Lower triangles side by side: colour is the sign, strength the size, each panel on its own scale."""
    size = max(len(rows) for _, rows in panels)
    wide = size * 1.5
    canvas = Canvas(
        (0, wide * len(panels)), (-0.22 * size, size), width=212 * len(panels), height=196, margin=(24, 4, 22, 26)
    )
    for n, (title, rows) in enumerate(panels):
        left = n * wide
        limit = max((abs(value) for row in rows for value in row), default=0.0) or 1.0
        canvas.data.setdefault("matrices", []).append([list(row) for row in rows])
        canvas.text(left + size / 2, size, plain(title), shift=(0, 10), size=10.5)
        for i, row in enumerate(rows):
            top = size - i
            for j, value in enumerate(row[: i + 1]):
                strength = round(abs(value) / limit, 2)
                if strength:
                    corners = [(left + j, top), (left + j + 1, top), (left + j + 1, top - 1), (left + j, top - 1)]
                    canvas.area(corners, "c1" if value > 0 else "c2", strength=strength)
        corner = (left, size - len(rows))
        canvas.line([(left, size), corner, (left + len(rows), size - len(rows)), (left, size)], "faint", width=0.8)
        canvas.text(left + len(rows) / 2, corner[1], x, shift=(0, -11), size=10)
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
