"""What a file of evidence must look like, and the sentence about the first place where it does not.

A shape is a type (``str``, ``int`` for a count, ``float`` for any number), a :class:`Word`, a :class:`Maybe`,
``[shape]`` for a list, ``(shape, shape)`` for a list of that length, or a dict: ``"key"`` must be there, ``"key?"``
may, ``"*"`` is the shape of every other key, and without it there is no other. :data:`ANY` is any JSON of decent size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """One of a few words; ``pattern`` instead of them where there are too many to list."""

    words: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True)
class Maybe:
    """The shape or null."""

    shape: Any


ANY = object()
LARGEST, DEEPEST = 1e300, 40  # what a report can still print, and nest
HASH = Word(pattern="[0-9a-f]{64}")
LABEL = Word(pattern=r"[a-z0-9-]+(\.[a-z0-9-]+)+")
SYMBOLIC = Word(("proved", "refuted", "undecided", "not run", "not applicable"))
NUMERIC = Word(("passed", "failed", "not run", "not applicable"))
CELL = Word(("supported", "conditional", "not supported", "not trained", "not tested"))

WRONG_LAW = {"id": str, "verdict": str, "kind?": str, "why?": str, "counterexample?": Maybe(str), "*": ANY}
STEP = {"rule": str, "why?": str, "tex?": str, "text?": str}
PART = {"name": str, "statement_tex?": str, "says?": str, "assumptions?": [str], "steps?": [STEP], "*": ANY}
DETAIL = {
    "parts?": [PART], "statement_tex?": str, "where?": [str], "primitives?": [str], "definitions?": [str],
    "rewritings?": {"proved": int, "total": int}, "wrong_laws?": [WRONG_LAW], "cases?": [str], "naive?": [str],
    "counterexample?": Maybe(str), "*": ANY,
}  # fmt: skip
_COQ = {
    "theorem": str, "statement": str, "words?": str, "hypotheses?": [str], "axioms": [str], "file?": str, "line?": int,
    "verdict?": SYMBOLIC, "*": ANY,
}  # fmt: skip
FORMAL_DETAIL = {
    **{f"{key.rstrip('?')}?" if key != "*" else key: shape for key, shape in _COQ.items()},
    "corollaries?": [_COQ], "refutations?": [_COQ],
}  # fmt: skip
ENTRY = {"verdict": SYMBOLIC, "reason?": str, "detail?": DETAIL, "seconds?": float}
CHECKED = {
    "verdict": NUMERIC, "reason?": str, "oracles?": [str], "examples?": int, "vacuous?": int,
    "worst_error?": Maybe(float), "worst_in_tolerance?": Maybe(float), "tolerance?": Maybe(float), "statement?": str,
    "cells?": ANY, "seconds?": float,
}  # fmt: skip
REJECTION = {"verdict": str, "kind?": str, "why?": str, "counterexample?": Maybe(str), "*": ANY}
REJECTED = {"rejected": int, "total": int, "survivors": [str], "laws?": {"*": REJECTION}}
MUTANTS = {
    "killed": int, "total": int, "explained": int, "operators": {"*": {"killed": int, "total": int}},
    "survivors": [
        {"mutant": str, "function": str, "operator": str, "nth": int, "line": int, "checks": int, "equivalent": str}
    ],
    "refuted": [str],
    "*": ANY,
}  # fmt: skip
OBSERVED = {"verdict": Word(("confirmed", "not confirmed")), "record": Maybe(str), "*": ANY}
JUDGED = {
    "verdict": CELL, "criterion?": str, "criterion_sha?": str, "effect?": Maybe(float),
    "interval?": Maybe((float, float)), "unit?": Maybe(str), "record?": Maybe(str), "*": ANY,
}  # fmt: skip
CLAIM = {"id": str, "cells": [JUDGED]}
BASE = {"files": [str], "lines": int}


def _fragment(results: Any, **more: Any) -> dict[str, Any]:
    return {
        "schema": int, "route": str, "versions": {"*": str}, "sources": {"*": HASH}, "patterns": [str],
        "configuration": {"*": ANY}, "results": results, "seconds": float, **more,
    }  # fmt: skip


RESTS = {"proof": [str], "formal": [str]}
FRAGMENTS: dict[str, Any] = {
    "proof": _fragment({"*": {**ENTRY, "rests_on": RESTS, "checker?": ENTRY}}, **{"trusted_base?": BASE}),
    "exact": _fragment({"*": ENTRY}),
    "code": _fragment({"*": ENTRY}),
    "sympy": _fragment({"*": ENTRY}),
    "formal": _fragment({"*": {**ENTRY, "rests_on": [str], "detail?": FORMAL_DETAIL}}),
    "check": _fragment({"*": CHECKED}, **{"wrong_laws?": {"*": REJECTED}, "failed?": [str], "*": ANY}),
    "code_mutants": _fragment(MUTANTS),
    "observed": _fragment({"*": OBSERVED}, **{"claims": [CLAIM], "records?": [str]}),
}
_HEAD = {key: FRAGMENTS["exact"][key] for key in ("versions", "sources", "patterns", "configuration", "seconds")}
MERGED_PART = {
    "name": str, "statement": str, "assumptions": [str], "steps": int, "theorem": Maybe(str), "axioms": [str],
}  # fmt: skip
MERGED = {
    "schema": int, "versions": {"*": str}, "sources": {"*": HASH}, "trusted_base": BASE, "failed": [str],
    "routes": {f"{route}?": _HEAD for route in FRAGMENTS}, "code_mutants": Maybe(MUTANTS), "records": [str],
    "results": {
        "*": {
            "title": str, "source": str, "parts": [MERGED_PART], "rests_on": RESTS,
            "read_with": [str], "checker": ENTRY, "check": CHECKED, "observed": Maybe(OBSERVED),
            **{route: {**ENTRY, "detail": DETAIL} for route in ("proof", "exact", "code", "sympy")},
            "formal": {**ENTRY, "detail": FORMAL_DETAIL},
            "wrong_laws": {f"{route}?": REJECTED for route in FRAGMENTS},
        }
    },
    "claims": [
        {"id": str, "statement": str, "source": str, "settled_by": [str], "labels": [str],
         "cells": [{**JUDGED, "labels?": [str]}]}
    ],
}  # fmt: skip


def short(value: Any) -> str:
    """A value as a sentence can hold it."""
    text = ascii(value) if not isinstance(value, str) else ascii(value[:60])
    return text if len(text) <= 60 else f"{text[:57]}..."


def fault(data: Any, shape: Any = ANY) -> str:
    """Where ``data`` is not of the ``shape``, as a clause; "" if it is."""
    found = _fault(data, shape, (), 0)
    return f"{'/'.join(found[0]) or 'the top level'}: {found[1]}" if found else ""


Fault = tuple[tuple[str, ...], str]


def _fault(data: Any, shape: Any, path: tuple[str, ...], depth: int) -> Fault | None:
    if depth > DEEPEST:
        return path, f"nested more than {DEEPEST} deep"
    if isinstance(shape, Maybe):
        return None if data is None else _fault(data, shape.shape, path, depth)
    if shape is ANY:
        shape = {"*": ANY} if isinstance(data, dict) else [ANY] if isinstance(data, list) else type(data)
        shape = float if shape is int else shape
    if isinstance(shape, dict):
        return _object(data, shape, path, depth) if isinstance(data, dict) else _expected(data, "an object", path)
    if isinstance(shape, list | tuple):
        if not isinstance(data, list) or (isinstance(shape, tuple) and len(data) != len(shape)):
            return _expected(data, f"a list{f' of {len(shape)}' if isinstance(shape, tuple) else ''}", path)
        faults = (_fault(item, shape[0], (*path, str(n)), depth + 1) for n, item in enumerate(data))
        return next(filter(None, faults), None)
    return _scalar(data, shape, path)


def _expected(data: Any, what: str, path: tuple[str, ...]) -> Fault:
    return path, f"got {short(data)}, expected {what}"


def _object(data: dict[str, Any], shape: dict[str, Any], path: tuple[str, ...], depth: int) -> Fault | None:
    known = {key.rstrip("?"): inner for key, inner in shape.items() if key != "*"}
    for key in shape:
        if key != "*" and not key.endswith("?") and key not in data:
            return path, f"{key} is missing"
    for key, value in data.items():
        if found := _scalar(key, str, path):
            return found
        if key not in known and "*" not in shape:
            return path, f"{short(key)} is no key here, only {', '.join(known)}"
        if found := _fault(value, known.get(key, shape.get("*")), (*path, ascii(key)[1:-1][:60]), depth + 1):
            return found
    return None


def _scalar(data: Any, shape: Any, path: tuple[str, ...]) -> Fault | None:
    if isinstance(shape, Word):
        if shape.words and data not in shape.words:
            return _expected(data, f"one of {', '.join(shape.words)}", path)
        if shape.pattern and not (isinstance(data, str) and re.fullmatch(shape.pattern, data)):
            return _expected(data, f"text that matches {shape.pattern}", path)
        return None
    if shape in (int, float):
        number = isinstance(data, int if shape is int else int | float) and not isinstance(data, bool)
        if not number or not -LARGEST < data < LARGEST or (shape is int and data < 0):
            return _expected(data, "a count" if shape is int else "a finite number", path)
        return None
    if not isinstance(data, shape):
        return _expected(data, {str: "text", bool: "true or false"}.get(shape, shape.__name__), path)
    if shape is str and any("\ud800" <= char <= "\udfff" for char in data):
        return _expected(data, "text without halves of surrogate pairs", path)
    return None
