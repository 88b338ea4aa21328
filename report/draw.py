r"""A pen for small pictures: the same strokes as inline SVG for the page and as TikZ for the paper.

    canvas = Canvas((0, 3), (-1, 2));  canvas.line([(0, -1), (3, 2)], "c1");  canvas.text(3, 2, r"$t - 1$")

Coordinates are the picture's own. Colours are names (``ink``, ``faint``, ``grid``, ``c1`` to ``c8``) that page and
paper map to theirs; every kind has dashes or a shape of its own as well, so that no difference rests on colour alone.
A label between dollars is a formula of letters with scripts; anything else is text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from report.filters import escape_html, escape_tex
from report.symbols import SYMBOLS

Point = tuple[float, float]
DASH = {
    "c1": "", "c2": "6 3", "c3": "2 3", "c4": "8 3 2 3", "c5": "10 4", "c6": "4 2 1 2", "c7": "1 2", "c8": "12 3 2 3",
    "ink": "", "faint": "", "grid": "",
}  # fmt: skip
_CORNERS = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((0, -1.25), (1.15, 0.9), (-1.15, 0.9)),
    "diamond": ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
    "cross": ((-1.1, -0.4), (-0.4, -0.4), (-0.4, -1.1), (0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4),
              (0.4, 1.1), (-0.4, 1.1), (-0.4, 0.4), (-1.1, 0.4)),
}  # fmt: skip
_MATH = re.compile(r"\\([a-zA-Z]+)|_\{([^}]*)\}|_(.)|\^\{([^}]*)\}|\^(.)|(.)")
MANY = 12
_ANCHORS = {"start": "west", "middle": "center", "end": "east"}


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) > 0.004 else "0"


def _path(places: Sequence[Point]) -> str:
    """A stroke through places; of many points a tenth of a point is as near as anybody can see."""
    shown = (lambda value: f"{value:.1f}".removesuffix(".0")) if len(places) > MANY else _number
    return "M" + "L".join(f"{shown(x)} {shown(y)}" for x, y in places)


def _short(point: Point) -> list[float]:
    return [round(float(value), 5) + 0.0 for value in point]


class Canvas:
    """A picture of ``width`` by ``height`` points showing the ranges ``x`` and ``y``."""

    def __init__(
        self,
        x: Point,
        y: Point,
        *,
        width: float = 320,
        height: float = 170,
        margin: tuple[float, float, float, float] = (14, 14, 12, 26),
    ) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self.left, self.right, self.top, self.bottom = margin
        self._svg: list[str] = []
        self._tikz: list[str] = []
        self.data: dict[str, list[object]] = {"lines": [], "bars": [], "dots": []}

    def at(self, point: Point) -> Point:
        """The place of a point on the paper: to the right and down, in points."""
        across = (point[0] - self.x[0]) / (self.x[1] - self.x[0])
        up = (point[1] - self.y[0]) / (self.y[1] - self.y[0])
        wide, high = self.width - self.left - self.right, self.height - self.top - self.bottom
        return self.left + across * wide, self.top + (1 - up) * high

    def _down(self, place: Point) -> str:
        return f"({_number(place[0])},{_number(self.height - place[1])})"

    # ---- strokes

    def line(
        self,
        points: Sequence[Point],
        colour: str = "ink",
        *,
        width: float = 1.6,
        arrow: bool = False,
        dash: str | None = None,
        opacity: float = 1.0,
    ) -> None:
        """A stroke through ``points``, with a tip at its end if ``arrow``."""
        if colour not in ("faint", "grid"):
            self.data["lines"].append([_short(point) for point in points])
        places = [self.at(point) for point in points]
        pattern = DASH[colour] if dash is None else dash
        dashes = f' stroke-dasharray="{pattern}"' if pattern else ""
        dashes += f' stroke-opacity="{opacity}"' if opacity < 1 else ""
        self._svg.append(f'<path class="s-{colour}" d="{_path(places)}" stroke-width="{_number(width)}"{dashes}/>')
        options = [f"draw={colour}", f"line width={_number(width * 0.75)}pt"]
        if pattern:
            lengths = pattern.split()
            pairs = [f"on {on}pt off {off}pt" for on, off in zip(lengths[::2], lengths[1::2], strict=True)]
            options.append(f"dash pattern={' '.join(pairs)}")
        if opacity < 1:
            options.append(f"draw opacity={opacity}")
        if arrow:
            self._tip(places, colour)
            options.append("-{Stealth[length=5pt]}")
        self._tikz.append(rf"\draw[{','.join(options)}] {' -- '.join(self._down(place) for place in places)};")

    def _tip(self, places: Sequence[Point], colour: str) -> None:
        (x0, y0), (x1, y1) = places[-2], places[-1]
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        corners = [(x1 + 2 * dx, y1 + 2 * dy)]
        corners += [(x1 - 6 * dx - side * 3.4 * dy, y1 - 6 * dy + side * 3.4 * dx) for side in (1, -1)]
        path = "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in corners) + "Z"
        self._svg.append(f'<path class="f-{colour}" d="{path}"/>')

    def area(self, points: Sequence[Point], colour: str, *, strength: float = 0.2) -> None:
        """A filled polygon."""
        places = [self.at(point) for point in points]
        self._svg.append(f'<path class="f-{colour}" d="{_path(places)}Z" fill-opacity="{strength}"/>')
        corners = " -- ".join(self._down(place) for place in places)
        self._tikz.append(rf"\fill[{colour},fill opacity={strength}] {corners} -- cycle;")

    def cells(self, boxes: Sequence[tuple[Point, Point]], colour: str, *, strength: float = 0.2) -> None:
        """Filled upright boxes, each from its lower left to its upper right corner, as one shape."""
        placed = [(self.at(low), self.at(high)) for low, high in boxes]
        path = "".join(
            f"M{_number(x0)} {_number(y0)}h{_number(x1 - x0)}v{_number(y1 - y0)}h{_number(x0 - x1)}Z"
            for (x0, y0), (x1, y1) in placed
        )
        self._svg.append(f'<path class="f-{colour}" d="{path}" fill-opacity="{strength}"/>')
        corners = " ".join(f"{self._down(low)} rectangle {self._down(high)}" for low, high in placed)
        self._tikz.append(rf"\fill[{colour},fill opacity={strength}] {corners};")

    def bar(self, x: float, low: float, high: float, colour: str, *, wide: float = 0.6) -> None:
        """An upright bar with an outline."""
        self.data["bars"].append([_short((x, low)), _short((x, high))])
        corners = [(x - wide / 2, low), (x + wide / 2, low), (x + wide / 2, high), (x - wide / 2, high)]
        self.area(corners, colour, strength=0.28)
        self.line([*corners, corners[0]], colour, width=1.2)

    def dot(self, point: Point, colour: str = "ink", *, size: float = 4.0, shape: str = "round") -> None:
        """A mark: round, square, triangle, diamond, cross or hollow."""
        self.dots([point], colour, size=size, shape=shape)

    def dots(self, points: Sequence[Point], colour: str = "ink", *, size: float = 4.0, shape: str = "round") -> None:
        """Marks of one kind, as one shape."""
        if not points:
            return
        self.data["dots"] += [_short(point) for point in points]
        places = [self.at(point) for point in points]
        s = _number(size)
        if shape in _CORNERS:
            marks = [[(x + size * dx, y + size * dy) for dx, dy in _CORNERS[shape]] for x, y in places]
            path = "".join(f"{_path(corners)}Z" for corners in marks)
            if len(marks) > 1:
                steps = zip(_CORNERS[shape], _CORNERS[shape][1:], strict=False)
                outline = "".join(f"l{_number(size * (c - a))} {_number(size * (d - b))}" for (a, b), (c, d) in steps)
                path = "".join(f"M{_number(x)} {_number(y)}{outline}Z" for (x, y), *_ in marks)
            self._svg.append(f'<path class="f-{colour}" d="{path}"/>')
            outline = " ".join(f"{' -- '.join(self._down(corner) for corner in corners)} -- cycle" for corners in marks)
            self._tikz.append(rf"\fill[{colour}] {outline};")
            return
        circles = " ".join(f"{self._down(place)} circle ({s}pt)" for place in places)
        rim = ' stroke-width="1.6"' if shape == "hollow" else ""
        kind = f"o s-{colour}" if shape == "hollow" else f"f-{colour}"
        if len(places) == 1:
            x, y = places[0]
            self._svg.append(f'<circle class="{kind}" cx="{_number(x)}" cy="{_number(y)}" r="{s}"{rim}/>')
        else:
            arcs = f"a{s} {s} 0 1 0 {_number(2 * size)} 0a{s} {s} 0 1 0 {_number(-2 * size)} 0Z"
            path = "".join(f"M{_number(x - size)} {_number(y)}{arcs}" for x, y in places)
            self._svg.append(f'<path class="{kind}" d="{path}"{rim}/>')
        pen = rf"\draw[{colour},fill=white,line width=1.2pt]" if shape == "hollow" else rf"\fill[{colour}]"
        self._tikz.append(f"{pen} {circles};")

    def text(
        self,
        x: float,
        y: float,
        label: str,
        colour: str = "ink",
        *,
        anchor: str = "middle",
        shift: Point = (0, 0),
        size: float = 11,
        bold: bool = False,
    ) -> None:
        """A label at (x, y), moved by ``shift`` points to the right and up."""
        px, py = self.at((x, y))
        px, py = px + shift[0], py - shift[1]
        inner, tex = _label(label)
        weight = ' font-weight="700"' if bold else ""
        self._svg.append(
            f'<text class="t-{colour}" x="{_number(px)}" y="{_number(py + 0.35 * size)}" text-anchor="{anchor}" '
            f'font-size="{_number(size)}"{weight}>{inner}</text>'
        )
        font = rf"\fontsize{{{size * 0.8:.1f}}}{{10}}\selectfont" + (r"\bfseries" if bold else "")
        options = f"anchor={_ANCHORS[anchor]},inner sep=0pt,text={colour},font={font}"
        self._tikz.append(rf"\node[{options}] at {self._down((px, py))} {{{tex}}};")

    def axes(
        self,
        x: str = "",
        y: str = "",
        *,
        at: Point | None = None,
        xticks: Sequence[tuple[float, str]] = (),
        yticks: Sequence[tuple[float, str]] = (),
    ) -> None:
        """Axes through ``at`` (the lower left corner if not given), with names and ticks."""
        cx, cy = at if at is not None else (self.x[0], self.y[0])
        self.line([(self.x[0], cy), (self.x[1], cy)], "faint", width=1, arrow=True)
        self.line([(cx, self.y[0]), (cx, self.y[1])], "faint", width=1, arrow=True)
        if x:
            self.text(self.x[1], cy, x, anchor="end", shift=(0, -11))
        if y:
            self.text(cx, self.y[1], y, anchor="start", shift=(6, 0))
        for value, label in xticks:
            self.text(value, cy, label, shift=(0, -9), size=9)
        for value, label in yticks:
            self.text(cx, value, label, anchor="end", shift=(-4, 0), size=9)

    # ---- results

    def svg(self) -> str:
        """The picture as an element of the page."""
        wide = " wide" if self.width >= 400 else ""
        return (
            f'<svg class="picture{wide}" viewBox="0 0 {_number(self.width)} {_number(self.height)}" aria-hidden="true">'
            f"{''.join(self._svg)}</svg>"
        )

    def tikz(self) -> str:
        """The picture as TikZ."""
        return "\\begin{tikzpicture}[x=0.8pt,y=0.8pt]\n" + "\n".join(self._tikz) + "\n\\end{tikzpicture}"


def _label(label: str) -> tuple[str, str]:
    """A label as SVG and as TeX: parts between dollars are letters with scripts."""
    svg, tex = [], []
    for n, part in enumerate(label.split("$")):
        if n % 2 == 0:
            svg.append(escape_html(part))
            tex.append(escape_tex(part))
            continue
        tex.append(f"${part}$")
        part = re.sub(r"\\bar ?(.)", "\\1\u0304", part)  # a combining macron
        down = 0.0
        for command, group, letter, raised, power, plain in _MATH.findall(part):
            script = group or letter or raised or power
            if script:
                level = 3.0 if group or letter else -4.0
                script = re.sub(r"\\([a-zA-Z]+)", lambda found: SYMBOLS[found[1]][0], script)
                script = script.replace("-", "−")
                slope = ' class="i"' if re.search("[^\\W\\d]", script) else ""
                svg.append(f'<tspan{slope} dy="{_number(level - down)}" font-size="75%">{escape_html(script)}</tspan>')
                down = level
                continue
            upright = command in ("log", "max", "min", "exp")
            char = command if upright else SYMBOLS[command][0] if command in SYMBOLS else plain.replace("-", "−")
            if not char:
                continue
            kind = ' class="i"' if char.isalpha() and not upright else ""
            move = f' dy="{_number(-down)}"' if down else ""
            svg.append(f"<tspan{kind}{move}>{escape_html(char)}</tspan>" if kind or move else escape_html(char))
            down = 0.0
        if down:  # whatever follows stands on the line again
            svg.append(f'<tspan dy="{_number(-down)}">\u200b</tspan>')
    return "".join(svg), "".join(tex)
