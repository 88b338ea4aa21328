"""A veto on what cannot be read: in one proof, one name stands for one thing.

It guards the page, not the truth: to the canonical form a name is nothing. It can only object.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayesgrad.symbolic.terms import (
    AnyIndex,
    At,
    Count,
    Delta,
    Entry,
    Index,
    Lookup,
    Size,
    Sum,
    Term,
    children,
    tensors_of,
)


def things_of(term: Term) -> set[Size | Lookup]:
    """The sizes and lookups that a term names outside tensors."""
    found: set[Size | Lookup] = set()

    def place(index: AnyIndex) -> None:
        found.add(index.size)
        if isinstance(index, At):
            found.update((index.lookup, *index.lookup.sizes))
            for inner in index.indices:
                place(inner)

    def visit(t: Term) -> None:
        match t:
            case Count(size):
                found.add(size)
            case Entry(_, indices):
                for index in indices:
                    place(index)
            case Delta(left, right):
                place(left)
                place(right)
            case Sum(index, _):
                place(index)
        for child in children(t):
            visit(child)

    visit(term)
    return found


def everything(terms: Iterable[Term]) -> list[Any]:
    """The tensors, sizes and lookups that terms name, inside definitions too."""
    out: list[Any] = []
    for term in terms:
        out += things_of(term)
        for tensor in tensors_of(term):
            out += [tensor, *tensor.sizes]
            if tensor.body is not None:
                out += things_of(tensor.definition[1])
    return out


def clash(terms: Iterable[Term], indices: Iterable[Index]) -> str:
    """The objection that two things have one name, or an empty string."""
    named: dict[str, Any] = {}
    for thing in [*indices, *everything(terms)]:
        if named.setdefault(f"{type(thing).__name__} {thing.name}", thing) != thing:
            return f"two different things are called {thing.name}"
    return ""
