"""A small picture for every result, drawn from the formulas by the shipped functions where these exist.

``@picture(label, caption)`` enters a function that returns a :class:`report.draw.Canvas`. The examples are made up to
show a shape; no experiment stands behind them, and each caption says what is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from report.draw import Canvas


class Picture(NamedTuple):
    caption: str
    draw: Callable[[], Canvas]


PICTURES: dict[str, Picture] = {}


def picture(label: str, caption: str) -> Callable[[Callable[[], Canvas]], Callable[[], Canvas]]:
    """Enter a picture for ``label``; the caption is our own prose and its alternative text as well."""

    def enter(draw: Callable[[], Canvas]) -> Callable[[], Canvas]:
        PICTURES[label] = Picture(caption, draw)
        return draw

    return enter


from report.pictures import bayes, dynamics, em, head, projections  # noqa: E402  (they fill the table)

__all__ = ["PICTURES", "Picture", "bayes", "dynamics", "em", "head", "picture", "projections"]
