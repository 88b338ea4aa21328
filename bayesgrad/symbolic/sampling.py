"""How hypotheses are met: which letters are drawn, and which are computed from others so that a hypothesis holds.

A hypothesis may say so itself (``sample``). Where it does not and reads T(i, j) = ..., with a letter T that has no
definition and is not used on the other side, T is computed from the other side; where it says that the entries of T
along one slot sum to 1, T is a share of positive numbers. Nothing here is trusted: whether the hypotheses hold is
evaluated on every instance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayesgrad.symbolic.claims import Equation
from bayesgrad.symbolic.evaluation import Bodies, opened
from bayesgrad.symbolic.terms import Entry, Index, Num, Sum, Tensor, Term, inv, rename, tensors_of


def bodies(claim: Equation, *, overriding: bool = True) -> Bodies:
    """What the evaluator puts in the place of letters; without ``overriding`` every definition stays as it is."""
    told = {t: body for g in (*claim.given, claim) for t, body in g.sample.items()}
    out: dict[Tensor, Callable[..., Any] | None] = {t: body for t, body in told.items() if overriding or t.body is None}
    for g in claim.given:
        if not g.sample and not g.at_most:
            for left, right in ((g.lhs, g.rhs), (g.rhs, g.lhs)):
                if found := _solved(left, right, g.free, out):
                    out[found[0]] = found[1]
                    break
    return out


def _solved(
    left: Term, right: Term, free: tuple[Index, ...], known: Bodies
) -> tuple[Tensor, Callable[..., Term]] | None:
    """A letter and what it must be for an equation to hold, if that can be read off."""
    match left, right:
        case Entry(tensor, indices), _ if _drawn(tensor, known) and not _reaches(right, tensor, known):
            if not all(isinstance(i, Index) and i in free for i in indices) or len(set(indices)) != len(indices):
                # at one position the whole letter is given this value, which is narrower than need be
                if not all(isinstance(i, Index) for i in indices) or any(i in free for i in indices):
                    return None
                return tensor, lambda *at: right
            return tensor, lambda *at: rename(right, dict(zip(indices, at, strict=True)))  # type: ignore[arg-type]
        case Sum(bound, Entry(tensor, indices)), Num(value) if value == 1 and _drawn(tensor, known):
            if indices.count(bound) != 1 or not all(isinstance(i, Index) for i in indices):
                return None
            slot = indices.index(bound)
            weight = Tensor(f"{tensor.name}0", tensor.sizes, "positive")

            def share(*at: Index) -> Term:
                return weight(*at) * inv(Sum(bound, weight(*at[:slot], bound, *at[slot + 1 :])))

            return tensor, share
    return None


def _drawn(tensor: Tensor, known: Bodies) -> bool:
    return tensor.body is None and tensor.through is None and tensor not in known


def _reaches(term: Term, tensor: Tensor, known: Bodies) -> bool:
    """Whether a value of ``tensor`` is needed for the value of a term, samples followed."""
    todo, seen = set(tensors_of(term)), set[Tensor]()
    while todo:
        one = todo.pop()
        if one is tensor:
            return True
        if one not in seen:
            seen.add(one)
            if body := known.get(one):
                todo |= tensors_of(opened(one, body)[1])
    return False
