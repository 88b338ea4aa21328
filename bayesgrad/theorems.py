r"""The catalogue: every result as data, in an order in which nothing rests on what comes later.

A :class:`Theorem` ties a stable label to its statement (TeX), what it assumes, what it is read with, where it comes
from, which functions of this package implement it, and by which routes it must be established. Nothing of it is typed
here: ``catalogue.json`` is generated from the modules of the results and from the claims that were proved. What a
proof rests on is not in it: the proofs say it. ``read_with`` names the results that explain this one although no proof
needs them.

- ``proof``: general in every size, by named rules; ``exact``: an identity of rational functions at small sizes;
- ``code``: the shipped function run on symbols equals the statement; ``formal``: Coq;
- ``check``: numbers against independent oracles; ``wrong_laws``: wrong variants that every route rejects;
- ``observed``: a training run with its criterion written down before the run.

``routes`` says "required", "optional", or why a route does not apply. Whether a route was *taken* is not here: it is
computed from evidence.
"""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROUTES = ("proof", "exact", "code", "formal", "check", "wrong_laws", "observed")
CATALOGUE = Path(__file__).with_name("catalogue.json")


@dataclass(frozen=True)
class Theorem:
    """One result. ``statement`` is TeX made from the claim that was proved; ``implements`` are dotted names.

    ``means`` is the picture in words, ``fails`` the limit that a reader must know.
    """

    label: str
    family: str
    title: str
    statement: str
    assumptions: tuple[str, ...]
    read_with: tuple[str, ...]
    source: str
    implements: tuple[str, ...]
    routes: Mapping[str, str]
    naive: tuple[str, ...]
    means: str
    fails: str

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The callables behind ``implements``, imported now."""
        out = []
        for name in self.implements:
            module, _, attribute = name.rpartition(".")
            out.append(getattr(importlib.import_module(module), attribute))
        return tuple(out)

    def required(self) -> tuple[str, ...]:
        """The routes that it must take."""
        return tuple(route for route in ROUTES if self.routes[route] == "required")


def _theorem(entry: Mapping[str, Any]) -> Theorem:
    """An entry of the generated file as a value that cannot change."""
    lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
    return Theorem(**{**entry, **lists, "routes": MappingProxyType(dict(entry["routes"]))})


THEOREMS: tuple[Theorem, ...] = tuple(map(_theorem, json.loads(CATALOGUE.read_text(encoding="utf-8"))))
_BY_LABEL = {theorem.label: theorem for theorem in THEOREMS}


def theorem(label: str) -> Theorem:
    """The theorem of a label.

    Raises:
        ValueError: an unknown label; the message names the nearest ones.

    >>> theorem("attention.routing-law").title
    'The routing law: scores move by advantage'
    """
    if label not in _BY_LABEL:
        near = difflib.get_close_matches(str(label), _BY_LABEL, n=3, cutoff=0.4) or list(_BY_LABEL)[:3]
        raise ValueError(f"label: got {label!r}, expected one of the catalogue, such as {', '.join(near)}")
    return _BY_LABEL[label]
