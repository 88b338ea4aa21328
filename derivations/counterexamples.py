"""A counterexample as a reader can take it in: one assignment a letter, not one an entry.

    M[1,1]=0, M[1,2]=1, u[2]=1/2   ->   M = (0, 1), u = (·, 1/2)

Entries that the instance never needed are shown as dots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_ENTRY = re.compile(r"(?P<name>[^\s,;\[]+)\[(?P<at>\d+(?:,\d+)*)\](?P<end>\)?) ?= ?(?P<value>[^\s,;]+)")


def gathered(text: str) -> str:
    """The text with the entries of each letter gathered in one table."""
    tables: dict[str, dict[tuple[int, ...], str]] = {}
    for entry in _ENTRY.finditer(text):
        place = tuple(int(n) for n in entry["at"].split(","))
        tables.setdefault(f"{entry['name']}{entry['end']}", {})[place] = entry["value"]
    told: set[str] = set()

    def once(entry: re.Match[str]) -> str:
        name = f"{entry['name']}{entry['end']}"
        if name in told:
            return "\0"
        told.add(name)
        return f"{name} = {_table(tables[name])}"

    return re.sub(r"(, )?\0", "", _ENTRY.sub(once, text))


def _table(values: Mapping[tuple[int, ...], str], at: tuple[int, ...] = ()) -> str:
    depth = len(next(iter(values)))
    if len(at) == depth:
        return values.get(at, "·")
    rows = range(1, max(place[len(at)] for place in values) + 1)
    inner = [_table(values, (*at, n)) for n in rows]
    return inner[0] if len(inner) == 1 else f"({', '.join(inner)})"
