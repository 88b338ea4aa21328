"""Figures: drawn once with matplotlib, printed as inline SVG (it follows the page's colours) and as PDF for the paper.

Deterministic: fixed hash salt, no date, ids prefixed with the figure's name. Colours are Okabe and Ito's, which readers
with any kind of colour vision tell apart; a line differs by its dashes and marker as well.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from report.filters import clean

INK, FAINT = "#111213", "#8a8b8c"  # stand-ins: the page replaces them by its own colours
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#5e3c99")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1)))
MARKERS = "os^Dv*Px"
DIVERGING = "PuOr"

STYLE: Any = {
    "svg.hashsalt": "bayesgrad", "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 9.0,
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": FAINT, "axes.labelcolor": INK, "text.color": INK,
    "xtick.color": INK, "ytick.color": INK, "axes.grid": True, "grid.color": FAINT, "grid.alpha": 0.25,
    "grid.linewidth": 0.6, "legend.frameon": False, "figure.facecolor": "none", "axes.facecolor": "none",
    "savefig.facecolor": "none", "lines.linewidth": 1.7, "mathtext.fontset": "dejavusans", "axes.unicode_minus": True,
    "path.simplify": True, "figure.autolayout": False,
}  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """A line of a plot with its interval (``low``, ``high``), all of one length."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def plain(text: str) -> str:
    """Data as a label: never a formula, and never longer than a legend has room for."""
    shown = clean(text)
    return (shown if len(shown) <= 40 else shown[:39] + "…").replace("$", r"\$")


@contextmanager
def canvas(width: float = 5.2, height: float = 3.2, columns: int = 1, **options: Any) -> Iterator[tuple[Figure, Any]]:
    """A figure in the house style; closed afterwards."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained", **options)
        try:
            yield figure, axes
        finally:
            plt.close(figure)


def export(figure: Figure, name: str) -> dict[str, bytes]:
    """``{"svg": ..., "pdf": ...}`` of a drawn figure."""
    svg, pdf = io.BytesIO(), io.BytesIO()
    with plt.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the page's fonts have what this one lacks
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return {"svg": inline(svg.getvalue().decode("utf-8"), name).encode("utf-8"), "pdf": pdf.getvalue()}


def inline(svg: str, name: str) -> str:
    """An SVG document as an element of a page: no prolog, no size, ids of its own, the page's colours and font."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg", '<svg focusable="false" aria-hidden="true"', 1)
    named = set(re.findall(r"url\(#([^)]+)\)", svg)) | set(re.findall(r'href="#([^"]+)"', svg))

    def identify(match: re.Match[str]) -> str:  # only what is referred to, and only its first occurrence
        if match[1] not in named:
            return ""
        named.discard(match[1])
        return f' id="{name}-{match[1]}"'

    svg = re.sub(r'\s+id="([^"]+)"', identify, svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = svg.replace(INK, "var(--ink)").replace(FAINT, "var(--faint)")
    svg = re.sub(r"font: ([0-9.]+px) [^;\"]+", r"font-size: \1", svg)
    svg = re.sub(r"(font-family|font):[^;\"]*'DejaVu Sans'[^;\"]*;?", "", svg)
    return re.sub(r"\n\s*", "\n", svg).strip()


def lines(
    name: str,
    curves: Sequence[Curve],
    *,
    x: str,
    y: str,
    floors: Sequence[tuple[str, float]] = (),
    log: str = "",
) -> dict[str, bytes]:
    """Curves with intervals, named floors as horizontal lines; ``log`` is "", "x", "y" or "xy"."""
    with canvas() as (figure, axes):
        for n, curve in enumerate(curves):
            colour, dash = SERIES[n % len(SERIES)], DASHES[n % len(DASHES)]
            every = max(len(curve.x) // 8, 1)
            axes.plot(
                curve.x, curve.y, color=colour, linestyle=dash, label=plain(curve.name), markersize=4,
                marker=MARKERS[n % 8],
                markevery=every,
            )  # fmt: skip
            if len(curve.low):
                axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        for floor, value in floors:
            axes.axhline(value, color=FAINT, linewidth=1.1, linestyle=(0, (2, 2)))
            axes.annotate(
                plain(floor), (1.0, value), xycoords=("axes fraction", "data"), fontsize=8, ha="right", va="bottom"
            )
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        if "x" in log:
            axes.set_xscale("log")
        if "y" in log:
            axes.set_yscale("log")
        if len(curves) > 1 or floors:
            axes.legend(fontsize=8, ncols=2 if len(curves) > 3 else 1)
        return export(figure, name)


def heat(
    name: str,
    panels: Sequence[tuple[str, Sequence[Sequence[float]]]],
    *,
    x: str,
    y: str,
    unit: str,
) -> dict[str, bytes]:
    """Matrices side by side, each on its own symmetric colour scale; what lies above the diagonal is left empty."""
    with canvas(2.95 * len(panels), 2.6, len(panels), squeeze=False) as (figure, grid):
        for axes, (title, rows) in zip(grid[0], panels, strict=True):
            values = np.asarray(rows, dtype=float)
            limit = float(np.abs(values).max()) or 1.0
            hidden = np.triu(np.ones(values.shape, dtype=bool), 1)
            mesh = axes.pcolormesh(
                np.ma.masked_array(values, hidden),
                cmap=DIVERGING,
                vmin=-limit,
                vmax=limit,
                edgecolors="none",
                rasterized=False,
            )
            axes.set_aspect("equal")
            axes.invert_yaxis()
            axes.set_title(title, fontsize=9)
            axes.set_xlabel(x)
            axes.set_ylabel(y)
            ticks = sorted({0, values.shape[0] // 2, values.shape[0] - 1})
            axes.set_xticks([t + 0.5 for t in ticks], [str(t + 1) for t in ticks])
            axes.set_yticks([t + 0.5 for t in ticks], [str(t + 1) for t in ticks])
            axes.grid(False)
            bar = figure.colorbar(mesh, ax=axes, shrink=0.8)
            bar.set_label(unit, fontsize=8.5)
            bar.outline.set_visible(False)
        return export(figure, name)
