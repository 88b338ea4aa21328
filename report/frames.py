"""Axes with scales for figures from records: ticks, grid, names with units, a legend below, marks along an axis.

    frame = Frame((1, 8), (1e-4, 1), log="y", names=("position $t$", "KL (bits)"))
    frame.canvas.line(frame.path(x, y), "c1");  frame.legend([Key("an arm", "c1", "round")])

Sizes are chosen so that the smallest letters stay legible when a phone shows the whole width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from report.draw import Canvas, Point
from report.filters import clean

COLOURS = ("c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
SHAPES = ("round", "square", "triangle", "diamond", "hollow", "cross", "round", "square")
WIDE, NARROW = 400, 264
LINE = 17


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a sample of the stroke, its mark if it has one, and a name that is plain text."""

    name: str
    colour: str
    shape: str = ""
    dash: str | None = None
    width: float = 1.8
    opacity: float = 1.0


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


def decades(low: float, high: float, most: int = 7) -> list[float]:
    """Powers of ten in a range, every second or third of them when there are more than ``most``."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = max(1, -(-(last - first + 1) // most))
    return [10.0**n for n in range(first, last + 1) if n % every == 0]


def _between(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten, a few more, or any round numbers: for a range that holds few of these."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))

    def multiples(*factors: int) -> list[float]:
        found = [factor * 10.0**n for n in range(first, last + 1) for factor in factors]
        return [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]

    for found in (multiples(1, 2, 5), multiples(1, 2, 3, 5, 7)):
        if len(found) > 2:
            return found
    return ticks(low, high)


def _shown(value: float, step: float) -> str:
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value:.{digits}f}".replace("-", "−")


def _power(value: float) -> str:
    exponent = math.floor(math.log10(value) + 1e-9)
    factor = value / 10.0**exponent
    if abs(factor - 1) < 1e-6:
        return f"$10^{{{exponent}}}$"
    return f"{value:.3g}" if -4 < exponent < 4 else rf"${factor:.3g}\cdot10^{{{exponent}}}$"


def finite(values: Sequence[float | None], positive: bool = False) -> list[float]:
    """The values that an axis can show."""
    return [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not positive)]


class Frame:
    """A canvas with scales: linear or logarithmic (``log`` is "", "x", "y" or "xy"), ticks, grid, names of the axes."""

    def __init__(
        self,
        x: Point,
        y: Point,
        *,
        names: tuple[str, str],
        log: str = "",
        rows: int = 0,
        width: float = WIDE,
        high: float = 174,
        right: float = 14,
        title: str = "",
        pad: float = 0.04,
        head: float = 0.0,
    ) -> None:
        self.logx, self.logy = "x" in log, "y" in log
        low, upper = self._across(x[0]), self._across(x[1])
        bottom, top = self._up(y[0]), self._up(y[1])
        room = pad * (top - bottom) if top > bottom else 0.5
        above = 38.0 if title else 24.0
        below = 40.0 + LINE * rows
        self.canvas = Canvas(
            (low, upper if upper > low else low + 1),
            (bottom - room, top + room + head * (top - bottom)),
            width=width,
            height=high + above + below,
            margin=(50, right, above, below),
        )
        self._grid(x, y)
        left, floor = self.canvas.x[0], self.canvas.y[0]
        self.canvas.line([(left, floor), (self.canvas.x[1], floor)], "faint", width=1)
        self.canvas.line([(left, floor), (left, self.canvas.y[1])], "faint", width=1)
        self.canvas.text((left + self.canvas.x[1]) / 2, floor, names[0], shift=(0, -29), size=11.5)
        self.canvas.text(left, self.canvas.y[1], names[1], anchor="start", shift=(-46, 13), size=11.5)
        if title:
            self.canvas.text(left, self.canvas.y[1], title, anchor="start", shift=(-46, 29), size=12, bold=True)

    def _across(self, value: float) -> float:
        return math.log10(value) if self.logx else value

    def _up(self, value: float) -> float:
        return math.log10(value) if self.logy else value

    def place(self, x: float, y: float) -> Point:
        return self._across(x), self._up(y)

    def path(self, x: Sequence[float], y: Sequence[float | None]) -> list[Point]:
        """The points that the scales can show, in order."""
        return [
            self.place(a, b)
            for a, b in zip(x, y, strict=True)
            if b is not None and math.isfinite(b) and (b > 0 or not self.logy) and (a > 0 or not self.logx)
        ]

    def _grid(self, x: Point, y: Point) -> None:
        canvas = self.canvas

        def chosen(ends: Point, log: bool, count: int) -> list[float]:
            if not log:
                return ticks(*ends, count)
            return found if len(found := decades(*ends)) > 1 else _between(*ends)

        across, up = chosen(x, self.logx, 6 if canvas.width > 300 else 4), chosen(y, self.logy, 5)
        for value in across:
            at = self._across(value)
            canvas.line([(at, canvas.y[0]), (at, canvas.y[1])], "grid", width=0.6)
            label = _power(value) if self.logx else _shown(value, across[1] - across[0] if len(across) > 1 else value)
            canvas.text(at, canvas.y[0], label, shift=(0, -11), size=11)
        for value in up:
            at = self._up(value)
            canvas.line([(canvas.x[0], at), (canvas.x[1], at)], "grid", width=0.6)
            label = _power(value) if self.logy else _shown(value, up[1] - up[0] if len(up) > 1 else value)
            canvas.text(canvas.x[0], at, label, anchor="end", shift=(-6, 0), size=11)

    def level(self, name: str, value: float, taken: Sequence[Point] = ()) -> None:
        """A named dotted line across the whole width; its name stands at the end where fewer ``taken`` points are."""
        canvas, at = self.canvas, self._up(value)
        canvas.line([(canvas.x[0], at), (canvas.x[1], at)], "ink", width=1, dash="1 3")
        shown = plain(name)
        left, line = canvas.at((canvas.x[0], at))
        right, wide = canvas.width - canvas.right, 6 * len(shown) + 10

        def crowd(low: float, high: float) -> int:
            places = [canvas.at(point) for point in taken]
            return sum(low <= x <= high and -16 < y - line < 4 for x, y in places)

        if crowd(right - wide, right) < crowd(left, left + wide):
            canvas.text(canvas.x[1], at, shown, anchor="end", shift=(-4, 7), size=11)
        else:
            canvas.text(canvas.x[0], at, shown, anchor="start", shift=(6, 7), size=11)

    def upright(self, x: float, before: str = "", after: str = "") -> None:
        """A dashed line from the axis to the top, with what lies before it and after it."""
        at = self._across(x)
        self.canvas.line([(at, self.canvas.y[0]), (at, self.canvas.y[1])], "ink", width=1, dash="5 3")
        if before:
            self.canvas.text(at, self.canvas.y[1], before, anchor="end", shift=(-5, -6), size=11)
        if after:
            self.canvas.text(at, self.canvas.y[1], after, anchor="start", shift=(5, -6), size=11)

    def beside(self, names: Sequence[tuple[str, float]], gap: float = 11.5) -> None:
        """Names to the right of the frame, each beside its value at the right end, moved apart where they are close."""
        canvas = self.canvas
        top, floor = canvas.at((0, canvas.y[1]))[1], canvas.at((0, canvas.y[0]))[1]
        wanted = sorted((canvas.at((0, self._up(value)))[1], name) for name, value in names)
        places: list[float] = []
        for y, _ in wanted:
            places.append(max(y, places[-1] + gap) if places else y)
        down = floor  # those that were pushed out below move up again
        for n in range(len(places) - 1, -1, -1):
            places[n] = max(min(places[n], down), top)
            down = places[n] - gap
        for (y, name), place in zip(wanted, places, strict=True):
            start, x = canvas.width - canvas.right, canvas.x[1]
            unit = (canvas.x[1] - canvas.x[0]) / (start - canvas.left)
            high = (canvas.y[1] - canvas.y[0]) / (floor - top)
            ends = [(x, canvas.y[0] + (floor - y) * high), (x + 7 * unit, canvas.y[0] + (floor - place) * high)]
            canvas.line(ends, "faint", width=0.6)
            canvas.text(x, canvas.y[0] + (floor - place) * high, plain(name, 22), anchor="start", shift=(9, 0), size=10)

    def legend(self, keys: Sequence[Key]) -> None:
        """Samples and names below the axes, in two columns if there is room for the longest name."""
        canvas, columns = self.canvas, _columns([key.name for key in keys], self.canvas.width)
        wide, high = canvas.x[1] - canvas.x[0], canvas.y[1] - canvas.y[0]
        inner = canvas.width - canvas.left - canvas.right
        for n, key in enumerate(keys):
            row, column = divmod(n, columns)
            down = canvas.y[0] - (46 + LINE * row) * high / (canvas.height - canvas.top - canvas.bottom)
            start = canvas.x[0] + (column * (inner + 40) / columns - 40) * wide / inner
            end = start + 26 * wide / inner
            canvas.line([(start, down), (end, down)], key.colour, width=key.width, dash=key.dash, opacity=key.opacity)
            if key.shape:
                canvas.dot(((start + end) / 2, down), key.colour, size=3, shape=key.shape)
            canvas.text(end, down, plain(key.name, 38), anchor="start", shift=(7, 0), size=11)


def _columns(names: Sequence[str], width: float) -> int:
    return 1 if max(map(len, names), default=0) > (29 if width >= WIDE else 10) else 2


def rows(names: Sequence[str], width: float = WIDE) -> int:
    """Lines that a legend takes."""
    return -(-len(names) // _columns(names, width))
