"""The table of pictures, and the decorator by which a module enters one."""

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
