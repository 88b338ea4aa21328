"""Which explicit sizes a claim is decided at: small ones with masks, and a large one, all different from each other.

Equal sizes would let one axis pass for another, so the lengths of one case differ pairwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from bayesgrad.symbolic.proof import Equation
from bayesgrad.symbolic.terms import (
    At,
    Count,
    Delta,
    Diff,
    Entry,
    Index,
    Lookup,
    Size,
    Sum,
    Tensor,
    Term,
    children,
    lift,
)
from derivations.routes.functions import Functions
from derivations.routes.instances import Bodies, Case, Instance

# Sizes of n and m, then of the others in order of their names: pairwise different.
SHAPES = (((2, 3), (1, 4, 5, 6, 7, 8, 9)), ((3, 2), (4, 1, 5, 6, 7, 8, 9)), ((6, 7), (5, 4, 3, 2, 1, 8, 9)))
_LATE = {"d_v": -2, "d_k": -1, "d_x": 1, "H": 2, "G": 3}  # the first get the larger of the sizes that are left
_GIVEN = {"V": (5, 4, 9), "d_x": (None, None, 1)}  # more values than pairs; a large case is large in n, m and d
PATTERNS = (("all", "holes", "empty row"), ("all", "empty row"), ("all", "empty row"))


def bodies_of(claim: Equation) -> dict[Tensor, Callable[..., Any] | None]:
    """What is drawn freely or by a definition that makes the hypotheses true."""
    return {tensor: body for equation in (*claim.given, claim) for tensor, body in equation.sample.items()}


def sizes_of(terms: Iterable[Term], bodies: Bodies) -> set[Size]:
    """Every size that some terms and the definitions in them speak of."""
    found: set[Size] = set()
    seen: set[Tensor] = set()
    todo = list(terms)

    def at(index: Any) -> None:
        found.add(index.size)
        if isinstance(index, At):
            lookup: Lookup = index.lookup
            found.update(lookup.sizes)
            for inner in index.indices:
                at(inner)

    while todo:
        term = todo.pop()
        todo += children(term)
        match term:
            case Count(size):
                found.add(size)
            case Delta(left, right):
                at(left)
                at(right)
            case Sum(index, _):
                at(index)
            case Diff(_, wrt):
                todo.append(wrt)
            case Entry(tensor, indices):
                for each in indices:
                    at(each)
                if tensor in seen:
                    continue
                seen.add(tensor)
                found.update(tensor.sizes)
                slots = tuple(Index("r", size) for size in tensor.sizes)
                body = bodies.get(tensor, tensor.body)
                if body is not None:
                    todo.append(lift(body(*slots)))
                elif tensor.through is not None:
                    todo += [t(*(Index("r", size) for size in t.sizes)) for t in tensor.through]
    return found


def sides(claim: Equation) -> Iterator[Term]:
    """Every term of a claim and of its hypotheses."""
    for equation in (claim, *claim.given):
        yield equation.lhs
        yield equation.rhs


def cases_of(terms: Sequence[Term], bodies: Bodies, *, shapes: int = len(SHAPES)) -> list[Case]:
    """Small cases first; the last ones are large, 6 by 7. ``shapes`` takes the first few only."""
    found = sizes_of(terms, bodies)
    names = sorted((size.name for size in found), key=lambda name: (_LATE.get(name, 0), name))
    leading = [name for name in ("n", "m") if name in names]
    rest = [name for name in names if name not in leading]
    out = []
    for number, ((first, others), patterns) in list(enumerate(zip(SHAPES, PATTERNS, strict=True)))[:shapes]:
        given = {name: length for name, values in _GIVEN.items() if (length := values[number]) is not None}
        lengths = dict(zip(("n", "m"), first, strict=True)) | given
        free = iter([*([] if "n" in leading else first[:1]), *([] if "m" in leading else first[1:]), *others])
        free = iter([length for length in free if length not in [lengths[name] for name in rest if name in given]])
        lengths |= {name: next(free) for name in rest if name not in given}
        masked = _has_indicator(terms, bodies)
        for pattern in patterns if masked else patterns[:1]:
            out.append(Case(tuple((name, lengths[name]) for name in (*leading, *rest)), pattern))
    return out


def _has_indicator(terms: Iterable[Term], bodies: Bodies) -> bool:
    probe = Instance(Functions.probe(), Case(()), bodies)
    seen: set[Tensor] = set()
    todo = list(terms)
    while todo:
        term = todo.pop()
        todo += children(term)
        if isinstance(term, Entry):
            seen |= probe.depends(term.tensor)
    return any(tensor.kind == "indicator" for tensor in seen)


def tiny_cases(terms: Iterable[Term], bodies: Bodies) -> list[Case]:
    """Equal sizes, where an inequality is easiest to break: nothing can pass for another in a chain of numbers."""
    names = sorted(size.name for size in sizes_of(terms, bodies))
    return [Case(tuple((name, length) for name in names)) for length in (1, 2, 3)]
