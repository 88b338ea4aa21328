"""Harmless rewritings: a law written otherwise is the same law, and its proof must still go through.

The converse of the wrong laws. A seeded generator changes both sides of a claim by

    renaming       sum_j f(j) = sum_k f(k)                      reordering   x y = y x, sum_i sum_j = sum_j sum_i
    distribution   x (y + z) = x y + x z                        splitting    sum_j (f + g) = sum_j f + sum_j g
    moving         x sum_j f(j) = sum_j x f(j)                  spreading    f(i) = sum_r delta(i, r) f(r)
    padding        x = x + 0 = 1 x = x/2 + x/2

and the kernel is asked for its verdict on the changed claim with the old proof.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from bayesgrad.symbolic import proof
from bayesgrad.symbolic.proof import Equation, Verdict
from bayesgrad.symbolic.terms import (
    Add,
    Diff,
    Entry,
    Fn,
    Index,
    Mul,
    Pow,
    Sum,
    Term,
    children,
    delta,
    exp,
    indices_of,
    rename,
)
from derivations.laws import Law
from derivations.result import Part

Move = Callable[[Term, random.Random], Term | None]


def _rename(term: Term, rng: random.Random) -> Term | None:
    if not isinstance(term, Sum):
        return None
    new = Index(rng.choice("abcdefghijklmnopqrstuvwxyz"), term.index.size)
    return Sum(new, rename(term.body, {term.index: new}))


def _reorder(term: Term, rng: random.Random) -> Term | None:
    match term:
        case Add(parts):
            return Add(tuple(rng.sample(parts, len(parts))))
        case Mul(parts):
            return Mul(tuple(rng.sample(parts, len(parts))))
        case Sum(i, Sum(j, body)):
            return Sum(j, Sum(i, body))
    return None


def _distribute(term: Term, rng: random.Random) -> Term | None:
    if not isinstance(term, Mul):
        return None
    sums = [n for n, f in enumerate(term.factors) if isinstance(f, Add)]
    if not sums:
        return None
    at = rng.choice(sums)
    inner = term.factors[at]
    assert isinstance(inner, Add)
    return Add(tuple(Mul((*term.factors[:at], t, *term.factors[at + 1 :])) for t in inner.terms))


def _split(term: Term, rng: random.Random) -> Term | None:
    match term:
        case Sum(i, Add(parts)):
            return Add(tuple(rename(Sum(i, t), {}) for t in parts))
        case Fn("exp", Add(parts)):
            return Mul(tuple(exp(t) for t in parts))
        case Pow(base, exponent):
            return Mul((base,) * exponent)
    return None


def _move(term: Term, rng: random.Random) -> Term | None:
    match term:
        case Mul(factors):
            sums = [n for n, f in enumerate(factors) if isinstance(f, Sum)]
            if not sums:
                return None
            at = rng.choice(sums)
            moved = rename(factors[at], {})
            assert isinstance(moved, Sum)
            return Sum(moved.index, Mul((*factors[:at], moved.body, *factors[at + 1 :])))
        case Sum(i, Mul(factors)):
            out = [f for f in factors if i not in indices_of(f)[0]]
            if not out:
                return None
            return Mul((*out, Sum(i, Mul(tuple(f for f in factors if i in indices_of(f)[0])))))
    return None


def _spread(term: Term, rng: random.Random) -> Term | None:
    free = sorted(indices_of(term)[0], key=lambda i: i.uid)
    if not free or not isinstance(term, (Entry, Mul, Diff, Fn)):
        return None
    old = rng.choice(free)
    new = Index("r", old.size)
    return Sum(new, delta(old, new) * rename(term, {old: new}))


def _pad(term: Term, rng: random.Random) -> Term | None:
    return rng.choice((term + 0, 1 * term, -1 * (-1 * term), term * Fraction(1, 2) + term * Fraction(1, 2)))


MOVES: dict[str, Move] = {
    "renaming": _rename,
    "reordering": _reorder,
    "distribution": _distribute,
    "splitting": _split,
    "moving": _move,
    "spreading": _spread,
    "padding": _pad,
}


def nodes(term: Term) -> int:
    """How many places a term has at which it can be changed; variables of derivatives are none."""
    return 1 + sum(nodes(c) for c in _open(term))


def _open(term: Term) -> tuple[Term, ...]:
    return children(term)[:1] if isinstance(term, Diff) else children(term)


def _at(term: Term, place: int, change: Callable[[Term], Term | None]) -> Term | None:
    """``change`` at one place of a term, counted from the outside in; None where it does not apply."""
    if place == 0:
        return change(term)
    place -= 1
    inner = list(_open(term))
    for n, child in enumerate(inner):
        if place < (size := nodes(child)):
            changed = _at(child, place, change)
            if changed is None:
                return None
            inner[n] = changed
            return _with(term, tuple(inner))
        place -= size
    raise IndexError(place)


def _with(term: Term, inner: tuple[Term, ...]) -> Term:
    match term:
        case Add():
            return Add(inner)
        case Mul():
            return Mul(inner)
        case Pow(_, exponent):
            return Pow(inner[0], exponent)
        case Fn(name, _):
            return Fn(name, inner[0])
        case Sum(index, _):
            return Sum(index, inner[0])
        case Diff(_, wrt):
            return Diff(inner[0], wrt)
    raise TypeError(type(term).__name__)


def changed(term: Term, rng: random.Random, moves: int) -> tuple[Term, list[str]]:
    """``term`` after so many moves at random places, and which they were."""
    done: list[str] = []
    for _ in range(60 * moves):
        if len(done) == moves:
            break
        name = rng.choice(list(MOVES))
        new = _at(term, rng.randrange(nodes(term)), lambda t, name=name: MOVES[name](t, rng))  # type: ignore[misc]
        if new is not None and nodes(new) < 400:
            term = new
            done.append(name)
    return term, done


def rewritings(part: Part, count: int, seed: int = 0) -> Iterator[tuple[Equation, list[str]]]:
    """``count`` claims that say the same as that of ``part``, and the moves that made them."""
    for number in range(count):
        rng = random.Random(f"{part.name} {seed} {number}")
        left, one = changed(part.claim.lhs, rng, 1 + rng.randrange(3))
        right, other = changed(part.claim.rhs, rng, 1 + rng.randrange(4))
        yield replace(part.claim, lhs=left, rhs=right), one + other


def verdicts(law: Law, count: int, seed: int = 0) -> list[tuple[Part, Equation, list[str], Verdict]]:
    """What the kernel says of ``count`` rewritings of a result, dealt out over its parts."""
    out = []
    for number, part in enumerate(law.parts):
        share = count // len(law.parts) + (number < count % len(law.parts))
        for claim, moves in rewritings(part, share, seed):
            out.append((part, claim, moves, proof.check(claim, part.proof)))
    return out


def counted(law: Law, count: int) -> dict[str, int]:
    """How many of ``count`` rewritings the kernel proves."""
    found = verdicts(law, count)
    return {"proved": sum(verdict.word == "proved" for *_, verdict in found), "total": len(found)}
