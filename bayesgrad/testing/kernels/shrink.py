"""From a block that shows a fault to a small one that still does: fewer queries, fewer features, fewer digits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from bayesgrad.testing.kernels.blocks import Block
from bayesgrad.testing.kernels.claims import Claims
from bayesgrad.testing.kernels.design import possible
from bayesgrad.testing.kernels.formats import Format
from bayesgrad.testing.kernels.recipes import Recipe
from bayesgrad.testing.kernels.suspect import Finding

READABLE = 48
"""Blocks of at most so many entries are shown as arrays, and simplified entry by entry."""


def _fewer(x: int, unit: int) -> Iterator[int]:
    """Multiples of ``unit`` below x: the least first, then ever closer ones."""
    most = x // unit - 1
    yield from (unit * f for f in dict.fromkeys((1, 2, 3, most // 4, most // 2, 3 * most // 4, most)) if 0 < f <= most)


def _simpler(r: Recipe, can: Claims) -> Iterator[Recipe]:
    """Recipes that are simpler in one thing."""
    plain: dict[str, Any] = {"memory": "plain", "mask": "none", "value": 0, "upstream": 0, "dropout": 0.0}
    if not r.exact_scores and r.score not in ("tied", "zero"):
        plain["score"] = "plain"
    for name, value in plain.items():
        if getattr(r, name) != value:
            yield replace(r, **{name: value})
    if r.bias not in ("none", "zero"):
        yield replace(r, bias="zero")
    if (r.batch, r.heads, r.key_heads) != (1, 1, 1):
        share = r.heads // r.key_heads
        smaller = (
            (1, 1, 1),
            (1, r.heads, r.key_heads),
            (r.batch, 1, 1),
            (r.batch, share, 1),
            (r.batch, 2, 2),
            (2, 2, 2),
        )
        for B, H, G in smaller:
            fits = r.batch * r.heads > B * H and r.batch >= B and r.heads >= H and H // G in (1, share)
            if fits and (can.heads or H == 1):
                yield replace(r, batch=B, heads=H, key_heads=G)
    if can.fixed_shapes:
        return
    pairs = [("n", "m")] if can.square else [("n",), ("m",)]
    wide = [("d_k", "d_v")] if can.equal_widths else [("d_k",), ("d_v",)]
    for names, unit in (*((p, can.lengths) for p in pairs), *((p, can.widths) for p in wide)):
        for x in _fewer(getattr(r, names[0]), unit):
            yield replace(r, **dict.fromkeys(names, x))  # type: ignore[arg-type]
    if can.scale:
        yield from (replace(r, scale=x) for x in (None, 1.0, 2.0) if r.scale not in (None, 1.0, x))
    yield from (replace(r, digits=x) for x in (1, 3, 8) if not 0 < r.digits <= x)


def _plainer(block: Block, keep: tuple[str, ...]) -> Iterator[Block]:
    """Blocks with plainer numbers: whole arrays first, then entry by entry."""
    names = [name for name in ("q", "k", "v", "u", "bias", "sink", "slopes", "dlse") if name not in keep]
    arrays = {name: x for name in names if (x := getattr(block, name)) is not None}
    with np.errstate(invalid="ignore"):
        for name, x in arrays.items():
            for plain in (np.ones_like(x), np.sign(x) + 0.0, np.round(x) + 0.0):
                if not np.array_equal(plain, x):
                    yield replace(block, **{name: plain})
        for name, x in arrays.items():
            for at in np.ndindex(x.shape):
                for number in (1.0, 0.0, 2.0, -1.0, float(np.round(x[at])) + 0.0):
                    if _cost(number) < _cost(float(x[at])):
                        y = x.copy()
                        y[at] = number
                        yield replace(block, **{name: y})
    if block.mask is not None:
        yield replace(block, mask=None)
        for at in map(tuple, np.argwhere(~block.mask)):
            mask = block.mask.copy()
            mask[at] = True
            yield replace(block, mask=mask)


def _cost(x: float) -> tuple[int, float]:
    known = (1.0, 0.0, 2.0, -1.0, 3.0, -2.0)
    return (known.index(x), 0.0) if x in known else (6 + len(repr(x)), abs(x))


def smallest(
    fails: Callable[[Recipe | Block], Finding | None],
    recipe: Recipe,
    finding: Finding,
    can: Claims,
    format: Format,
    *,
    calls: int = 300,
    seconds: float = 8.0,
) -> tuple[Recipe | Block, Finding]:
    """A small block with the same verdict, and what is wrong there; at most so many calls and seconds."""
    end = time.monotonic() + seconds
    left = [calls]

    def walk(now: Any, finding: Finding, simpler: Callable[[Any], Iterator[Any]]) -> tuple[Any, Finding]:
        seen = {repr(now)}
        moved = True
        while moved:
            moved = False
            for candidate in simpler(now):
                if left[0] <= 0 or time.monotonic() > end:
                    return now, finding
                if (text := repr(candidate)) in seen:
                    continue
                seen.add(text)
                left[0] -= 1
                found = fails(candidate)
                if found is not None and found.verdict == finding.verdict:
                    now, finding, moved = candidate, found, True
                    break
        return now, finding

    small, finding = walk(recipe, finding, lambda r: (x for x in _simpler(r, can) if possible(can, x.n, x.m)))
    block = small.block(can, format)
    if sum(x.size for x in (block.q, block.k, block.v, block.u)) > READABLE:
        return small, finding
    keep = ("q", "k") if small.exact_scores or small.score in ("tied", "zero") else ()
    found = fails(block)
    if found is None or found.verdict != finding.verdict:
        return small, finding
    return walk(block, found, lambda b: _plainer(b, keep))
