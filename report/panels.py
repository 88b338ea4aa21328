"""Small multiples: drawings that share their scales, side by side where there is room, one below another on a phone.

Strip((sequences(...), sequences(...))).svg()  ->  <div class="panels"><svg ...><svg ...></div>
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from report.draw import Canvas, Point
from report.frames import COLOURS, NARROW, SHAPES, WIDE, Frame, Key, decades, finite, plain, rows

LEVELS = 8


@dataclass(frozen=True)
class Strip:
    """Drawings that stand in one figure, under one caption."""

    panels: tuple[Canvas, ...]

    def svg(self) -> str:
        return f'<div class="panels">{"".join(panel.svg() for panel in self.panels)}</div>'

    def tikz(self) -> str:
        """Two in a line; a last one that is alone stands on the left."""
        drawn = [panel.tikz() for panel in self.panels]
        if len(drawn) > 2 and len(drawn) % 2:
            drawn.append(rf"\rule{{{0.8 * self.panels[-1].width:.1f}pt}}{{0pt}}")
        pairs = ["\n\\quad\n".join(drawn[n : n + 2]) for n in range(0, len(drawn), 2)]
        return "\n\\par\\medskip\n".join(pairs)


def sequence(
    title: str,
    position: Sequence[float],
    exact: Sequence[float],
    model: Sequence[float | None],
    *,
    slot: int,
    y: str,
    top: float,
    marks: Sequence[float] = (),
    every: int = 1,
) -> Canvas:
    """One sequence: marks of the model (at ``every`` n-th position) on the line of what is exact, from 0 to ``top``."""
    frame = Frame(
        (min(position), max(position)),
        (0.0, top),
        names=("position $t$", y),
        rows=1,
        width=NARROW,
        high=126,
        title=plain(title, 38),
    )
    canvas, colour, shape = frame.canvas, COLOURS[slot % 8], SHAPES[slot % 8]
    for at in marks:
        frame.upright(at)
    canvas.line(frame.path(position, exact), "ink", width=1.2)
    canvas.dots(frame.path(position[::every], model[::every]), colour, size=2.6, shape=shape)
    frame.legend([Key("exact", "ink", width=1.2), Key("model", colour, shape, width=0.01)])
    return canvas


def counts_limit(counts: Sequence[Sequence[float]]) -> float:
    """The largest count of a histogram, at least 1."""
    return max(max((value for row in counts for value in row), default=1.0), 1.0)


def calibration(
    title: str, edges: Sequence[float], counts: Sequence[Sequence[float]], *, limit: float, x: str, y: str
) -> Canvas:
    """A histogram in two dimensions: strength is the logarithm of a count; ``counts[i][j]`` is row i up, column j
    across; the diagonal is agreement."""
    frame = Frame(
        (edges[0], edges[-1]),
        (edges[0], edges[-1]),
        names=(x, y),
        width=NARROW,
        high=NARROW - 50 - 44,
        right=44,
        title=plain(title, 38),
        pad=0.0,
    )
    canvas = frame.canvas
    canvas.data.setdefault("matrices", []).append([list(row) for row in counts])
    cells: dict[int, list[tuple[Point, Point]]] = {}
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            if count > 0:
                box = ((edges[j], edges[i]), (edges[j + 1], edges[i + 1]))
                cells.setdefault(_level(count, limit), []).append(box)
    for level in sorted(cells):
        canvas.cells(cells[level], "c1", strength=_strength(level))
    canvas.line([(edges[0], edges[0]), (edges[-1], edges[-1])], "ink", width=1, dash="4 3")
    _strengths(canvas, limit)
    return canvas


def _level(count: float, limit: float) -> int:
    share = math.log(max(count, 1.0)) / math.log(limit) if limit > 1 else 1.0
    return min(LEVELS, 1 + math.floor(share * LEVELS))


def _strength(level: int) -> float:
    return round(0.1 + 0.9 * level / LEVELS, 2)


def _strengths(canvas: Canvas, limit: float) -> None:
    """The scale of a histogram beside it: what its strengths count."""
    wide, high = canvas.x[1] - canvas.x[0], canvas.y[1] - canvas.y[0]
    inner = canvas.width - canvas.left - canvas.right
    left, right = (canvas.x[1] + move * wide / inner for move in (8, 18))
    for level in range(1, LEVELS + 1):
        low, top = (canvas.y[0] + high * (0.05 + 0.8 * n / LEVELS) for n in (level - 1, level))
        canvas.area([(left, low), (right, low), (right, top), (left, top)], "c1", strength=_strength(level))
    for value in decades(1.0, limit, 3):
        share = 0.05 + 0.8 * (math.log(value) / math.log(limit) if limit > 1 else 0.0)
        canvas.text(right, canvas.y[0] + share * high, _rounded(value), anchor="start", shift=(3, 0), size=10)
    canvas.text(left, canvas.y[0] + 0.93 * high, "pairs", anchor="start", size=10)


def _rounded(value: float) -> str:
    if value < 1000:
        return f"{value:.0f}"
    exponent = math.floor(math.log10(value))
    if exponent < 6:
        return f"{value / 1000:.0f}k"
    return f"{value / 1e6:.0f}M"


def memory(
    windows: Sequence[float],
    window_kl: Sequence[float | None],
    models: Sequence[tuple[str, int, float, float | None]],
    *,
    x: str,
    y: str,
    reference: str,
    width: float = WIDE,
    title: str = "",
) -> Canvas:
    """KL of window filters against the length of their window, and of each model (name, slot, KL, equivalent memory)
    as a line that meets it and drops to the length that it is worth; without a length it runs across."""
    values = finite([*window_kl, *(kl for _, _, kl, _ in models)], positive=True)
    low, high = min(values) / 1.5, max(values) * 1.3
    lengths = [*windows, *(memory for *_, memory in models if memory is not None)]
    frame = Frame(
        (min(0.0, *lengths), max(lengths)),
        (low, high),
        names=(x, y),
        log="y",
        rows=rows([reference, *(name for name, *_ in models)], width),
        width=width,
        high=174 if width >= WIDE else 150,
        title=title,
        pad=0.0,
    )
    canvas = frame.canvas
    keys = [Key(reference, "ink", "round", dash="", width=1.6)]
    for name, slot, kl, length in models:
        colour, shape = COLOURS[slot % 8], SHAPES[slot % 8]
        keys.append(Key(name, colour, shape))
        if not kl > 0:
            continue
        start = canvas.x[0]
        end = canvas.x[1] if length is None else length
        path = [frame.place(start, kl), frame.place(end, kl)]
        if length is not None:
            path.append(frame.place(length, low))
        canvas.line(path, colour, width=1.8)
        canvas.dot(path[1], colour, size=3.4, shape=shape)
    points = frame.path(windows, window_kl)
    canvas.line(points, "ink", width=1.6)
    canvas.dots(points, "ink", size=2.6)
    frame.legend(keys)
    return canvas
