"""The questions: a covering design over what is claimed, corners, and calls that a kernel may not remember.

Factors are lengths beside the edges of tiles, widths, heads, masks, sizes of scores, values and upstream gradients,
scales, memory, and every claimed feature; each pair of their levels meets in some block (allpairspy makes the table),
so that a fault that needs two things at once is met without luck.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from allpairspy import AllPairs

from bayesgrad.testing.kernels.claims import Claims
from bayesgrad.testing.kernels.formats import FORMATS, Format
from bayesgrad.testing.kernels.recipes import SUBNORMAL, Recipe

EDGES = (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 130)
WIDTHS = ((1, 1), (2, 7), (8, 8), (9, 31), (32, 63), (64, 64), (65, 127), (128, 128), (129, 255), (256, 256))
HEADS = {
    "one head": (1, 1, 1),
    "batch 2": (2, 1, 1),
    "3 heads": (1, 3, 3),
    "batch 2, 2 heads": (2, 2, 2),
    "batch 3, 2 heads": (3, 2, 2),
    "4 heads on 2": (1, 4, 2),
    "batch 2, 6 heads on 2": (2, 6, 2),
    "3 heads on 1": (1, 3, 1),
}
MASKS = {
    "none": ("none",),
    "keys": ("none", "left", "right", "holes"),
    "any": ("none", "random", "causal", "tile", "left", "holes"),
}
SCALES = {"1/sqrt(d_k)": None, "1": 1.0, "above 1": 2.718281828459045, "below 1": 0.0421, "negative": -0.7548776662}
CAPS = (0.9, 5.0, 50.0)


@dataclass(frozen=True)
class Plan:
    """One case: its name, its format, the blocks, with the level of each factor that they stand for."""

    name: str
    format: Format
    recipes: tuple[Recipe, ...]
    levels: tuple[Mapping[str, str], ...] = ()
    kind: str = "blocks"
    further: str = ""


def lengths(can: Claims) -> list[int]:
    """Lengths beside the edges of tiles and up to the largest, in multiples of the claimed block."""
    unit = can.lengths
    edges = [*EDGES, *(2**p + 1 for p in range(8, can.largest.bit_length())), can.largest]
    return sorted({min(-(-edge // unit), can.largest // unit) * unit for edge in edges})


def widths(can: Claims) -> dict[str, tuple[int, int]]:
    """Name -> least and largest width that are multiples of the claimed block."""
    found = {}
    for low, high in (*WIDTHS, (can.widest, can.widest)):
        low, high = -(-low // can.widths) * can.widths, min(high, can.widest) // can.widths * can.widths
        if low <= high:
            found[f"{low}" if low == high else f"{low}-{high}"] = (low, high)
    return found


def _shapes(can: Claims) -> dict[str, tuple[int, ...]]:
    """The few shapes of a kernel whose compiler makes a program for each: small, beside tiles, and the largest."""
    ns, ds = lengths(can), [high for _, high in widths(can).values()]
    fits = lambda n, m, d, e: (n, n if can.square else m, d, d if can.equal_widths else e)
    picked = {
        fits(ns[0], ns[min(1, len(ns) - 1)], ds[min(1, len(ds) - 1)], ds[0]),
        fits(ns[len(ns) // 3], ns[len(ns) // 2], ds[len(ds) // 2], ds[len(ds) // 3]),
        fits(ns[-2 if len(ns) > 1 else -1], ns[-1], ds[-1], ds[len(ds) // 2]),
    }
    return {"x".join(map(str, shape)): shape for shape in sorted(picked)}


def factors(can: Claims, format: Format, mutable: bool) -> dict[str, dict[str, Any]]:
    """Factor -> level in words -> what it is. Only what is claimed, and the format holds, has more than one level."""
    few = {str(x): x for x in lengths(can)}
    made: dict[str, dict[str, Any]] = {}
    if can.fixed_shapes:
        made["shape"] = _shapes(can)
    else:
        made |= {"n": few, **({} if can.square else {"m": few}), "d_k": widths(can)}
        if not can.equal_widths:
            made["d_v"] = widths(can)
    heads = {
        name: sizes
        for name, sizes in HEADS.items()
        if (can.layout != "nd" or sizes == (1, 1, 1))
        and (can.heads or sizes[1] == 1)
        and (can.groups or sizes[1] == sizes[2])
    }
    masks = {"none": "none"} if can.handed == "none" else {name: name for name in MASKS[can.handed]}
    levels = {f"level {level:g}": f"level {level:g}" for level in format.levels}
    sizes = {f"2^{exponent}": exponent for exponent in (-format.reach, 0, format.reach)}
    made |= {
        "heads": heads,
        "mask": masks,
        "scores": {"plain": "plain", **levels, "spread": "spread"},
        "values": sizes,
        "upstream": sizes,
        "scale": SCALES if can.scale else {"1/sqrt(d_k)": None},
    }
    if can.strided and mutable:
        made["memory"] = {word: word for word in ("plain", "transposed", "sliced", "every", "expanded")}
    if can.bias != "no":
        made["bias"] = {word: word for word in ("pairs", "keys", "heads", "whole")[: 2 if can.layout == "nd" else 4]}
    if can.softcap:
        made["cap"] = {f"{cap:g}": cap for cap in CAPS}
    if can.sink != "no":
        made["sink"] = {f"{sink:g}": sink for sink in (-4.0, 0.0, 6.0)}
    if can.dropout:
        made["dropout"] = {f"{rate:g}": rate for rate in (0.0, 0.1, 0.3, 0.9)}
    return made


def _recipe(can: Claims, row: Mapping[str, Any], seed: int) -> Recipe:
    rng = np.random.Generator(np.random.PCG64(seed))

    def width(name: str) -> int:
        low, high = row[name]
        return int(rng.integers(low // can.widths, high // can.widths + 1)) * can.widths

    if "shape" in row:
        n, m, d_k, d_v = row["shape"]
    else:
        n, d_k = row["n"], width("d_k")
        m, d_v = row.get("m", n), d_k if can.equal_widths else width("d_v")
    B, H, G = row["heads"]
    return Recipe(
        n, m, d_k, d_v, B, H, G,
        mask=row["mask"],
        score=row["scores"],
        value=row["values"],
        upstream=row["upstream"],
        scale=row["scale"],
        memory=row.get("memory", "plain"),
        seed=seed,
        **_features(can, row),
    )  # fmt: skip


def _features(can: Claims, row: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What every block of a kernel with these claims has; without a row, as little of it as there can be."""
    row = row or {}
    made: dict[str, Any] = {"bias": "none" if can.bias == "no" else row.get("bias", "zero")}
    made["slopes"] = can.alibi != "no"
    made["cap"] = row.get("cap", 50.0) if can.softcap else None
    made["sink"] = row.get("sink", 0.0) if can.sink != "no" else None
    made["dropout"] = row.get("dropout", 0.0) if can.dropout else 0.0
    made["dlse"] = can.lse == "gradient"
    return made


def possible(can: Claims, n: int, m: int) -> bool:
    """Whether every query of such a block has a key, or need not: a band ends before the first or the last query."""
    banded = can.band.get("right") is not None or can.band.get("left") is not None
    return n <= m or can.empty_rows or not banded or not (can.align == "lower-right" or can.window)


Row = tuple[Recipe, dict[str, str]]


def covering(can: Claims, format: Format, mutable: bool, seed: int = 0) -> tuple[list[Row], str]:
    """Rows (recipe, level by factor) that cover each pair of levels, cheapest first; and the coverage in words."""
    made = factors(can, format, mutable)
    names, free = list(made), {name: next(iter(levels.items())) for name, levels in made.items() if len(levels) == 1}
    names = [name for name in names if name not in free]

    def fits(row: list[tuple[str, Any]]) -> bool:
        return names[:2] != ["n", "m"] or len(row) < 2 or possible(can, row[0][1], row[1][1])

    levels = [list(made[name].items()) for name in names]
    table: Levels = [[]]
    if len(names) == 1:
        table = [[level] for level in levels[0]]
    elif names:
        table = _completed([list(row) for row in AllPairs(levels, filter_func=fits)], levels, names, fits)
    rows = []
    for number, picked in enumerate(table):
        row = {**free, **dict(zip(names, picked, strict=True))}
        values = {name: value for name, (_, value) in row.items()}
        for attempt in range(6):  # a draw in which each query sees one key has no gradient
            recipe = _recipe(can, values, seed * 1_000_003 + number + 7919 * attempt)
            handed = recipe.handed() if recipe.m > 1 else None
            if handed is None or (handed.sum(-1) > 1).any():
                break
        rows.append((recipe, {name: row[name][0] for name in names}))
    possible_pairs = _pairs_of(levels, fits)
    met = {pair for row in table for pair in combinations(enumerate(name for name, _ in row), 2)}
    words = f"{len(possible_pairs & met)} of {len(possible_pairs)} pairs of levels in {len(rows)} blocks"
    rows.sort(key=lambda row: row[0].n * row[0].m * row[0].batch * row[0].heads * (row[0].d_k + row[0].d_v))
    return rows, words


Levels = list[list[tuple[str, Any]]]
Pair = tuple[tuple[int, str], tuple[int, str]]


def _pairs_of(levels: Levels, fits: Callable[[list[Any]], bool]) -> set[Pair]:
    """Pairs of levels, as (factor, name), that can stand together."""
    return {
        ((a, x[0]), (b, y[0]))
        for a, b in combinations(range(len(levels)), 2)
        for x in levels[a]
        for y in levels[b]
        if b > 1 or fits([x, y])
    }


def _telling(row: list[tuple[str, Any]], names: list[str]) -> set[Pair]:
    """The pairs of a row that it speaks about: scores of one key have no gradient, and far apart hardly any.

    Where such a level stands, the row tells about pairs with it, and not about the others.
    """
    here = [(at, name) for at, (name, _) in enumerate(row)]
    words = {names[at]: name for at, name in here}
    weak = {level for level in here if (names[level[0]], level[1]) in (("m", "1"), ("scores", "spread"))}
    if words.get("cap") and words.get("scores", "").startswith("level"):  # a soft cap that is reached has no slope
        reached = float(words["scores"].split()[1]) > 6 * float(words["cap"])
        weak |= {level for level in here if reached and names[level[0]] in ("scores", "cap")}
    return {pair for pair in combinations(here, 2) if not weak or weak & set(pair)}


def _completed(table: Levels, levels: Levels, names: list[str], fits: Callable[[list[Any]], bool]) -> Levels:
    """More rows, for pairs of levels that a table has in none that tells about them."""
    of = [dict(factor) for factor in levels]
    missing = _pairs_of(levels, fits).difference(*(_telling(row, names) for row in table))
    while missing:
        row = dict(min(missing))
        for factor in (f for f in range(len(levels)) if f not in row):
            gains = []
            for name, _ in levels[factor]:
                new = {**row, factor: name}
                first = [(word, of[at][word]) for at, word in sorted(new.items()) if at < 2]
                told = _telling([(new.get(at, ""), None) for at in range(len(levels))], names)
                fine = len(first) < 2 or fits(first)
                gains.append(len(told & missing) if fine else -1)
            row[factor] = levels[factor][gains.index(max(gains))][0]
        made = [(row[at], of[at][row[at]]) for at in range(len(levels))]
        table.append(made)
        missing -= _telling(made, names) | {min(missing)}
    return table


def cells(can: Claims, mutable: bool) -> Iterator[str]:
    """The factors with their levels, a line each; the sizes are those of the first format."""
    for name, levels in factors(can, FORMATS[can.dtypes[0]], mutable).items():
        if len(levels) > 1:
            yield f"{name}: {', '.join(levels)}"


def _small(can: Claims, seed: int) -> list[Recipe]:
    """Blocks of a few queries and keys, every second one with few digits, which people can read."""
    unit, wide = can.lengths, can.widths
    masks = MASKS[can.handed]
    heads = list(factors(can, FORMATS["float32"], False)["heads"].values())
    rng = np.random.Generator(np.random.PCG64(seed))
    sizes = [(1, 1), (1, 2), (2, 2), (2, 3), (1, 5), (3, 4), (5, 3), (4, 5), (2, 5), (3, 3), (4, 2), (5, 5)]
    if can.fixed_shapes:
        unit = 0
    found = []
    for number in range(48):
        n, m = sizes[number // 2 % len(sizes)]
        n, m = n * unit, (n if can.square else m) * unit
        d, e = (int(x) * wide for x in rng.integers(1, 5, 2))
        if can.fixed_shapes:
            n, m, d, e = next(iter(_shapes(can).values()))
        if max(n, m) > can.largest or max(d, e) > can.widest or not possible(can, n, m):
            continue
        B, H, G = heads[number % len(heads)]
        row = {
            "bias": ("pairs", "keys")[number % 2], "cap": CAPS[number % 2], "sink": 0.5, "dropout": 0.25 * (number % 3),
        }  # fmt: skip
        scale = (None, 1.0, 0.5, -0.75, 2.0)[number % 5] if can.scale else None
        found.append(
            Recipe(
                n, m, d, d if can.equal_widths else e, B, H, G,
                mask=masks[number % len(masks)], digits=3 * (number % 2), scale=scale, seed=seed + number,
                **_features(can, row),
            )
        )  # fmt: skip
    return found


def _corners(can: Claims, small: list[Recipe]) -> Iterator[tuple[str, list[Recipe], bool]]:
    """(name, blocks, whether subnormal numbers are kept)."""
    bare = [replace(recipe, digits=3, **_features(can)) for recipe in small if recipe.m > 1][:10]
    if can.handed == "any":
        yield "one visible key", [replace(recipe, mask="single") for recipe in bare], False
        if can.empty_rows:
            yield "queries without a key", [replace(recipe, mask="empty") for recipe in bare], False
    if can.unseen_nan and can.handed != "none":
        yield "NaN at unseen keys", [replace(recipe, mask="nan") for recipe in bare], False
    plain = [replace(recipe, slopes=False) for recipe in bare]
    if can.alibi == "no":
        yield "tied scores", [replace(recipe, score="tied") for recipe in plain], False
        if can.huge and not can.softcap:
            yield "tied huge scores", [replace(recipe, score="huge") for recipe in plain], False
            yield "saturated scores", [replace(recipe, score="saturated") for recipe in plain], False
    yield "zero queries", [replace(recipe, score="zero") for recipe in bare], False
    if can.subnormal:
        yield "subnormal upstream gradients", [replace(recipe, upstream=SUBNORMAL) for recipe in bare], True
    if can.no_keys and not can.square:
        yield "no keys", [replace(recipe, m=0, mask="none") for recipe in small[:6]], False


def plans(
    can: Claims, *, mutable: bool, readonly: bool, kind: str, examples: int = 0, seed: int = 0
) -> tuple[list[Plan], str]:
    """Every case in order, and what the design covers. ``examples``: at most so many blocks of the design (0: all)."""
    made: list[Plan] = []
    for name in can.dtypes:
        rows, covered = covering(can, FORMATS[name], mutable, seed)
        if examples and examples < len(rows):
            rows = [rows[int(number * len(rows) / examples)] for number in range(examples)]
            covered = f"{len(rows)} blocks of the design only"
        format = FORMATS[name]
        small = _small(can, seed + zlib.crc32(name.encode()) % 1000)
        made.append(Plan(f"{name}: small blocks", format, tuple(small)))
        for corner, recipes, gradual in _corners(can, small):
            made.append(Plan(f"{name}: {corner}", format.gradual() if gradual else format, tuple(recipes)))
        made += [
            Plan(f"{name}: {what}", format, tuple(_remembered(can, small, rows)), kind=what)
            for what in memories(can, mutable, readonly)
        ]
        made.append(Plan(f"{name}: design", format, tuple(r for r, _ in rows), tuple(levels for _, levels in rows)))
        for claimed, what, further in (
            (can.forward_mode, "forward mode", "tangent"),
            (can.second, "second derivatives", "second"),
        ):
            if claimed and kind == "forward":
                some = (*small[:12], *(r for r, _ in rows[: len(rows) // 2 : 4]))
                made.append(Plan(f"{name}: {what}", format, some, further=further))
    if made:
        made.append(Plan("the first block again", made[0].format, made[0].recipes[:1], kind="again"))
    return made, covered


def memories(can: Claims, mutable: bool, readonly: bool) -> Iterable[str]:
    """What a kernel must not keep from one call for another."""
    yield "asked twice"
    yield "asked often"
    if mutable:
        yield "the same buffers refilled"
    yield "one number changed"
    if readonly and can.readonly:
        yield "read-only inputs"


def _remembered(can: Claims, small: list[Recipe], rows: list[Row]) -> list[Recipe]:
    """A small block and one over the edge of a tile."""
    plain = [row[0] for row in rows if min(row[0].n, row[0].m) > 16]
    return [small[-1], *(replace(r, score="plain", memory="plain", value=0, upstream=0) for r in plain[:1])]
