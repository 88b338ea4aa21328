"""What a record has to show, piece by piece: a figure or a table with the drawing that belongs to it.

    Piece((Figure(...),), {"experiment-bijection-entropy": canvas})

A function here returns None where the record lacks the data; the section then skips the piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayesgrad.evidence import BadEvidence
from report import document as doc
from report.draw import Canvas
from report.frames import NARROW, WIDE, plain
from report.panels import Strip

Record = Mapping[str, Any]
Rows = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Piece:
    """Blocks of the report, and the drawings that its figures name."""

    blocks: tuple[doc.Block, ...]
    drawings: Mapping[str, Canvas | Strip] = field(default_factory=dict)


def together(pieces: Sequence[Piece | None]) -> Piece | None:
    """Several pieces as one, None if there are none."""
    told = [piece for piece in pieces if piece is not None]
    if not told:
        return None
    drawings: dict[str, Canvas | Strip] = {}
    for piece in told:
        drawings |= piece.drawings
    return Piece(tuple(block for piece in told for block in piece.blocks), drawings)


def slot(record: Record, arm: str) -> int:
    """The place of an arm among the arms: its colour and marker in every figure of the record."""
    names = list(record["arms"])
    return names.index(arm) if arm in names else len(names)


def trained(record: Record, arm: str) -> bool:
    """Whether an arm beat the floors that need no learning; what says nothing about that counts as trained."""
    found = (record.get("trained") or {}).get(arm)
    return found is None or bool(found.get("trained"))


def named(record: Record, arm: str) -> str:
    """An arm as figures and tables call it: what did not train says so wherever it is shown."""
    return arm if trained(record, arm) else f"{arm} (not trained)"


def rows_with(record: Record, key: str, needed: str) -> dict[str, Mapping[str, Any]]:
    """The arms' entries of an optional key that have ``needed``; other forms of the key belong to other pieces."""
    found = record.get(key)
    if not isinstance(found, Mapping):
        return {}
    return {arm: row for arm, row in found.items() if isinstance(row, Mapping) and row.get(needed)}


def agree(record: Record, what: str, base: Sequence[Any], **lists: Sequence[Any]) -> None:
    """Raise BadEvidence unless each list is as long as ``base``."""
    for name, values in lists.items():
        if len(values) != len(base):
            raise BadEvidence(
                f"record of {record['experiment']}: {what} has {len(values)} values of {name}, expected {len(base)}; "
                f"run the experiment again"
            )


def alike(rows: Rows, near: Sequence[str], *, tolerance: float = 0.02) -> list[list[str]]:
    """Arms in groups whose numbers under the keys ``near`` are the same but for ``tolerance`` of the largest: what a
    common axis may show."""
    groups: list[list[str]] = []
    for arm, row in rows.items():
        for group in groups:
            if all(_near(row[key], rows[group[0]][key], tolerance) for key in near):
                group.append(arm)
                break
        else:
            groups.append([arm])
    return groups


def _near(left: Sequence[float], right: Sequence[float], tolerance: float) -> bool:
    if len(left) != len(right):
        return False
    largest = max((abs(value) for value in (*left, *right)), default=0.0)
    return all(abs(a - b) <= tolerance * largest for a, b in zip(left, right, strict=True))


def task_of(record: Record, arm: str) -> str:
    """The task of an arm without the sizes of its samples: arms of one task may share floors and axes."""
    task = (record["arms"].get(arm, {}).get("config") or {}).get("task") or {}
    return repr(sorted((key, value) for key, value in task.items() if key not in ("batch", "held_out", "test_steps")))


def by_task(record: Record, arms: Sequence[str]) -> list[list[str]]:
    """Arms in groups of one task."""
    found: dict[str, list[str]] = {}
    for arm in arms:
        found.setdefault(task_of(record, arm), []).append(arm)
    return list(found.values())


def floors_of(record: Record, arm: str) -> Rows:
    """The floors of an arm's task: its own, those of its task, or the record's where it has the task of the first."""
    facts, own = record.get("facts") or {}, record.get("floors") or {}
    if own.get(arm):
        return dict(own[arm])
    inner = facts.get(arm)
    if isinstance(inner, Mapping) and inner.get("floors"):
        return dict(inner["floors"])
    first = next(iter(record["arms"]), arm)
    return dict(facts.get("floors") or {}) if task_of(record, arm) == task_of(record, first) else {}


def panel(record: Record, arms: Sequence[str], narrow: bool) -> dict[str, Any]:
    """Options of :func:`report.figures.lines` for a wide figure, or for a small one whose title is its arm."""
    return {"width": NARROW, "title": plain(named(record, arms[0]), 38)} if narrow else {"width": WIDE}


Draw = Callable[[Sequence[str], bool], Canvas]


def plates(
    name: str,
    groups: Sequence[Sequence[str]],
    draw: Draw,
    *,
    caption: doc.Line,
    alternative: Callable[[Sequence[str]], str],
    data: Callable[[Sequence[str]], Mapping[str, Any]],
) -> Piece | None:
    """A figure for each group of arms that share axes; arms that stand alone share a figure of small panels.

    ``draw(arms, narrow)`` draws one group; the caption stands in full under the first group alone.
    """
    wide = [group for group in groups if len(group) > 1]
    alone = [group for group in groups if len(group) == 1]
    if not wide and len(alone) == 1:
        wide, alone = alone, []
    told: list[list[Sequence[str]]] = [[group] for group in wide] + ([alone] if alone else [])
    found: list[Piece] = []
    for n, (own, plate) in enumerate(zip(numbered(name, len(told)), told, strict=True)):
        arms = [arm for group in plate for arm in group]
        drawing = draw(plate[0], False) if n < len(wide) else Strip(tuple(draw(group, True) for group in plate))
        words = caption if n == 0 else doc.prose("The same for {arms}.", arms="; ".join(arms))
        found.append(Piece((doc.Figure(own, words, alternative(arms), rounded(data(arms))),), {own: drawing}))
    return together(found)


def rounded(value: Any, digits: int = 5) -> Any:
    """Data for a reader to take along: ``digits`` significant digits are more than a drawing shows."""
    if isinstance(value, Mapping):
        return {str(key): rounded(inner, digits) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner, digits) for inner in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{digits}g}")
    return value


def numbered(base: str, count: int) -> list[str]:
    """Names of several figures of one kind: the first has the plain name."""
    return [base if n == 0 else f"{base}-{n + 1}" for n in range(count)]
