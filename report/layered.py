"""A layered drawing of a directed graph without circles: who uses what, from left to right.

    layer(v) = 1 + max layer(parent);  long edges pass through invisible nodes;  order by medians, then straighten

No outside program and no randomness: the same graph is the same drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Positions in units of one column and one row; ``paths`` run from parent to child through their bends."""

    places: Mapping[str, Point]
    paths: Mapping[tuple[str, str], Sequence[Point]]
    columns: int
    rows: float


def layers(uses: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many steps each node stands away from a node that uses nothing. Raises ValueError on a circle."""
    found: dict[str, int] = {}

    def depth(node: str, above: frozenset[str]) -> int:
        if node in above:
            raise ValueError(f"uses: {node} uses itself through {', '.join(sorted(above))}, expected no circle")
        if node not in found:
            found[node] = 1 + max(
                (depth(parent, above | {node}) for parent in uses[node] if parent in uses), default=-1
            )
        return found[node]

    for node in uses:
        depth(node, frozenset())
    # A node without parents moves next to the first that uses it: shorter edges.
    children: dict[str, list[str]] = {node: [] for node in uses}
    for node, parents in uses.items():
        for parent in parents:
            if parent in children:
                children[parent].append(node)
    for node, parents in uses.items():
        if not parents and children[node]:
            found[node] = min(found[child] for child in children[node]) - 1
    return found


def layout(uses: Mapping[str, Sequence[str]], sweeps: int = 24) -> Layout:
    """Place every node and route every edge; nodes without any edge stand in rows of their own below."""
    tied = {node for child, parents in uses.items() for parent in parents if parent in uses for node in (child, parent)}
    if alone := [node for node in uses if node not in tied]:
        main = layout({node: uses[node] for node in uses if node in tied}, sweeps)
        width = max(main.columns, 1)
        below = {node: (float(n % width), main.rows + 0.2 + n // width) for n, node in enumerate(alone)}
        return Layout(
            {node: below[node] if node in below else main.places[node] for node in uses},
            main.paths,
            width,
            main.rows + 0.2 + (len(alone) - 1) // width + 1,
        )
    depth = layers(uses)
    columns: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for node in uses:
        columns[depth[node]].append(node)
    chains: dict[tuple[str, str], list[str]] = {}
    left: dict[str, list[str]] = {node: [] for node in uses}
    right: dict[str, list[str]] = {node: [] for node in uses}
    for child, parents in uses.items():
        for parent in parents:
            if parent not in uses:
                continue
            chain = [parent]
            for column in range(depth[parent] + 1, depth[child]):
                bend = f"{parent}>{child}@{column}"
                columns[column].append(bend)
                left[bend], right[bend] = [], []
                chain.append(bend)
            chain.append(child)
            for a, b in pairwise(chain):
                right[a].append(b)
                left[b].append(a)
            chains[parent, child] = chain
    best, fewest = [list(column) for column in columns], _crossings(columns, right)
    for sweep in range(sweeps):
        forward = sweep % 2 == 0
        for level in columns[1:] if forward else columns[-2::-1]:
            neighbours = left if forward else right
            place = {node: n for other in columns for n, node in enumerate(other)}
            rank = {node: n for n, node in enumerate(level)}
            level.sort(key=lambda node: (_mean([place[m] for m in neighbours[node]], place[node]), rank[node]))
        if (count := _crossings(columns, right)) < fewest:
            best, fewest = [list(column) for column in columns], count
    rows = _straighten(best, left, right)
    low = min(rows.values(), default=0.0)
    places = {node: (float(n), rows[node] - low) for n, column in enumerate(best) for node in column}
    return Layout(
        {node: places[node] for node in uses},
        {edge: [places[node] for node in chain] for edge, chain in chains.items()},
        len(columns),
        max((y for _, y in places.values()), default=-1.0) + 1,
    )


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(columns: Sequence[Sequence[str]], right: Mapping[str, Sequence[str]]) -> int:
    total = 0
    for column, following in pairwise(columns):
        place = {node: n for n, node in enumerate(following)}
        ends = [sorted(place[child] for child in right[node]) for node in column]
        flat = [end for group in ends for end in group]
        total += sum(a > b for n, a in enumerate(flat) for b in flat[n + 1 :])
    return total


def _straighten(
    columns: Sequence[Sequence[str]], left: Mapping[str, Sequence[str]], right: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Rows that follow the neighbours, with a distance of one between nodes (less between bends)."""
    tallest = max((len(column) for column in columns), default=0)
    rows = {node: n + (tallest - len(column)) / 2 for column in columns for n, node in enumerate(column)}

    def gap(a: str, b: str) -> float:
        return 0.45 if "@" in a and "@" in b else 0.7 if "@" in a or "@" in b else 1.0

    for step in range(40):
        for column in columns if step % 2 == 0 else columns[::-1]:
            wanted = [_mean([rows[m] for m in (*left[node], *right[node])], rows[node]) for node in column]
            # push down so that the order and the gaps hold, then up again by half of what that moved on the whole
            placed: list[float] = []
            for n, (node, row) in enumerate(zip(column, wanted, strict=True)):
                placed.append(max(row, placed[-1] + gap(column[n - 1], node)) if placed else row)
            shift = _mean([row - place for row, place in zip(wanted, placed, strict=True)], 0.0)
            for node, place in zip(column, placed, strict=True):
                rows[node] = place + shift
    return rows
