"""The free positions of terms, in the order in which a reader meets them."""

from __future__ import annotations

from typing import Any

from bayesgrad.symbolic.terms import Diff, Index, Term, indices_of


def axes(*terms: Term) -> tuple[Index, ...]:
    """The free indices of terms in order of appearance."""
    free = set().union(*(indices_of(t)[0] for t in terms))
    seen: dict[Index, None] = {}

    def visit(t: Any) -> None:
        if isinstance(t, Index):
            if t in free:
                seen.setdefault(t)
        elif isinstance(t, (tuple, list)):
            for x in t:
                visit(x)
        elif isinstance(t, Diff):
            visit(t.body)
            visit(t.wrt)
        elif hasattr(t, "__dataclass_fields__") and type(t).__name__ not in ("Tensor", "Size", "Lookup"):
            for field in t.__dataclass_fields__:
                visit(getattr(t, field))

    for term in terms:
        visit(term)
    return tuple(seen)
