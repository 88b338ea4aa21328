"""Small pictures of what a result means, drawn from the formulas themselves; one entry for each label that has one."""

from __future__ import annotations

from collections.abc import Callable

from report import document as doc

PICTURES: dict[str, Callable[[], dict[str, bytes]]] = {}


def picture(label: str) -> doc.Figure:
    """The figure block of a label's picture."""
    raise KeyError(label)
