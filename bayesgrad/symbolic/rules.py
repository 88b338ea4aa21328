"""What the kernel runs: differentiation, unfolding, replacement, signs, written-out instances.

Each function looks at terms only: it knows no law, no label and no layer. ``bayesgrad.symbolic.primitives``
lists the rules in words and formulas.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import flint

from bayesgrad.symbolic.index_calculus import flatten, positive, settled
from bayesgrad.symbolic.terms import (
    Add,
    AnyIndex,
    Count,
    Delta,
    Diff,
    Entry,
    Fn,
    Index,
    Lookup,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    Term,
    children,
    delta,
    inv,
    meaning,
    move,
    rebuild,
    rename,
    tensors_of,
)

LARGEST = 200_000  # terms of a written-out instance: work has an end


@cache
def mentions(tensor: Tensor, other: Tensor) -> bool:
    """Whether ``tensor`` depends on ``other``, through definitions and declared dependence too."""
    return other in tensors_of(tensor(*(Index("r", size) for size in tensor.sizes)))


def derivative(term: Term, wrt: Entry, used: set[str]) -> Term:
    """The partial derivative of a term, entry by entry; the names of the rules go into ``used``.

    Entries of defined tensors stay as formal derivatives: unfold them first, or rewrite by a result about them.
    """

    def d(t: Term) -> Term:
        match t:
            case Num() | Count() | Delta():
                used.add("d-independent")
                return Num(Fraction(0))
            case Entry(tensor, indices) if tensor is wrt.tensor:
                used.add("d-entry")
                out: Term = Num(Fraction(1))
                for mine, theirs in zip(indices, wrt.indices, strict=True):
                    out = out * delta(mine, theirs)
                return out
            case Entry(tensor, _) if not mentions(tensor, wrt.tensor):
                used.add("d-independent")
                return Num(Fraction(0))
            case Entry(tensor, ()) if tensor.through is not None:
                used.add("d-chain")
                g, u = tensor.through
                return _over(g, lambda *r: u(*r) * Diff(g(*r), wrt))
            case Entry(tensor, indices) if tensor.through is not None:
                used.add("d-chain")
                g, u = tensor.through
                return u(*indices) * Diff(g(*indices), wrt)
            case Entry() | Diff():
                return Diff(t, wrt)
            case Add(terms):
                used.add("d-sum")
                return Add(tuple(d(x) for x in terms))
            case Mul(factors):
                used.add("d-product")
                return Add(tuple(Mul((*factors[:n], d(x), *factors[n + 1 :])) for n, x in enumerate(factors)))
            case Pow(base, exponent):
                used.add("d-product")
                return exponent * (base ** (exponent - 1) if exponent > 1 else 1) * d(base)
            case Sum(index, body):
                used.add("d-sum")
                new = Index(index.name, index.size)  # the variable may hold an index of the same name, or this very one
                return Sum(new, d(rename(body, {index: new})))
            case Fn("exp", arg):
                used.add("d-exp")
                return t * d(arg)
            case Fn("log", arg):
                if not (
                    positive(flatten(arg)) or positive(flatten(expanded(arg)))
                ):  # letters first: bodies may be long
                    raise ValueError("d-log: the argument is not positive by the kinds of its parts")
                used.add("d-log")
                return inv(arg) * d(arg)
            case Fn("inv", arg):
                if not (positive(flatten(arg)) or settled(flatten(expanded(arg, wrt.tensor)))):
                    raise ValueError("d-inv: the argument is neither positive nor identically zero by its kinds")
                used.add("d-inv")
                return -(t * t * d(arg))
            case Fn():
                return d(meaning(t))
        raise ValueError(f"differentiate: no rule for {type(t).__name__}")

    return d(term)


def _over(tensor: Tensor, body: Callable[..., Term]) -> Term:
    """The sum of ``body`` over all entries of ``tensor``."""
    indices = tuple(Index("r", size) for size in tensor.sizes)
    out = body(*indices)
    for index in reversed(indices):
        out = Sum(index, out)
    return out


def carry_out(term: Term, variables: tuple[Tensor, ...], used: set[str]) -> Term:
    """The formal derivatives by entries of ``variables`` (by anything, if there are none) carried out, one pass."""
    if isinstance(term, Diff):
        body, wrt = carry_out(term.body, variables, used), term.wrt
        return derivative(body, wrt, used) if not variables or wrt.tensor in variables else Diff(body, wrt)
    return rebuild(term, lambda t: carry_out(t, variables, used))


def through(term: Term, middles: tuple[Tensor, ...]) -> Term:
    """Every derivative of a term that depends on its variable through ``middles`` alone, split there."""
    if any(mentions(one, other) for one, other in itertools.permutations(middles, 2)):
        raise ValueError("d-through: the tensors in the middle depend on one another")

    def visit(t: Term) -> Term:
        if not isinstance(t, Diff):
            return rebuild(t, visit)
        if t.wrt.tensor in middles or (isinstance(t.body, Entry) and t.body.tensor in middles):
            return t
        if t.wrt.tensor in tensors_of(t.body, cut=middles):
            names = ", ".join(m.name for m in middles)
            raise ValueError(f"d-through: the term depends on {t.wrt.tensor.name} beside {names}")
        return Add(tuple(_over(m, lambda *r, m=m: Diff(t.body, m(*r)) * Diff(m(*r), t.wrt)) for m in middles))

    return visit(term)


def unfold(term: Term, chosen: tuple[Tensor, ...]) -> Term:
    """Every entry of the ``chosen`` tensors replaced by its definition, except where it is the variable."""
    match term:
        case Entry(tensor, indices) if tensor in chosen:
            return unfold(tensor.unfold(indices), chosen)
        case Diff(body, wrt):
            return Diff(unfold(body, tuple(t for t in chosen if t is not wrt.tensor)), wrt)
    return rebuild(term, lambda t: unfold(t, chosen))


def explicit(term: Term, sizes: Mapping[Size, int], values: Mapping[Any, Any], at: Mapping[Index, int]) -> Term:
    """A term written out at explicit sizes and values: no index, sum, tensor or delta is left.

    ``values`` maps tensors without a definition (and lookups' positions, from 0) to nested tuples of exact numbers.
    An entry of a defined tensor is written out once, and its term is shared.
    """
    known: dict[tuple[Tensor, tuple[int, ...]], Term] = {}
    work = itertools.count()

    def place(index: AnyIndex, here: Mapping[Index, int]) -> int:
        if isinstance(index, Index):
            if index not in here:
                raise ValueError(f"witness: no position is given for the index {index.name}")
            where = here[index]
        else:
            if index.lookup not in values:
                raise ValueError(f"witness: no values are given for the lookup {index.lookup.name}")
            where = _pick(values[index.lookup], [place(x, here) for x in index.indices])
        if not 0 <= where < length(index.size):
            raise ValueError(f"witness: position {where} is not in 0 to {sizes[index.size] - 1}")
        return where

    def length(size: Size) -> int:
        if size not in sizes:
            raise ValueError(f"witness: the size {size.name} is not given")
        return sizes[size]

    def visit(t: Term, here: Mapping[Index, int]) -> Term:
        if next(work) > LARGEST:
            raise ValueError(f"witness: it has more than {LARGEST} terms when it is written out")
        match t:
            case Count(size):
                return Num(Fraction(length(size)))
            case Delta(left, right):
                return Num(Fraction(place(left, here) == place(right, here)))
            case Entry(tensor, indices):
                where = tuple(place(x, here) for x in indices)
                if tensor in values:
                    return Num(Fraction(_pick(values[tensor], list(where))))
                if tensor.body is None:
                    raise ValueError(f"witness: no values are given for {tensor.name}")
                if (tensor, where) not in known:
                    slots = tuple(Index("r", size) for size in tensor.sizes)
                    known[tensor, where] = visit(tensor.unfold(slots), dict(zip(slots, where, strict=True)))
                return known[tensor, where]
            case Sum(index, body):
                return Add(tuple(visit(body, {**here, index: x}) for x in range(length(index.size))))
            case Diff():
                raise ValueError("witness: a derivative must be carried out before it is evaluated")
        return rebuild(t, lambda x: visit(x, here))

    return visit(term, at)


def complete(sizes: Mapping[Size, int], values: Mapping[Any, Any]) -> None:
    """Raise unless each size is one, and each table has the shape and the numbers that its tensor or lookup says."""
    for size, count in sizes.items():
        if count < size.nonempty:
            raise ValueError(f"witness: the size {size.name} is {count}, expected at least {int(size.nonempty)}")

    def visit(thing: Any, table: Any, left: tuple[Size, ...]) -> None:
        if not left:
            wanted = (0 <= table < sizes.get(thing.size, 0)) if isinstance(thing, Lookup) else fits(table, thing.kind)
            if not wanted:
                what = f"a position of {thing.size.name}" if isinstance(thing, Lookup) else thing.kind
                raise ValueError(f"witness: {thing.name}: got {table}, expected {what}")
        elif len(table) != sizes.get(left[0]):
            given = sizes.get(left[0], "not given")
            raise ValueError(f"witness: {thing.name} has {len(table)} entries along {left[0].name}, which is {given}")
        else:
            for inner in table:
                visit(thing, inner, left[1:])

    for thing, table in values.items():
        visit(thing, table, thing.sizes)


def fits(value: Any, kind: str) -> bool:
    """Whether a number is of a kind."""
    if kind == "indicator":
        return bool(value == 0 or value == 1)
    return kind == "real" or bool(value > 0 if kind == "positive" else value >= 0)


def _pick(table: Any, where: list[int]) -> Any:
    for n in where:
        table = table[n]
    return table


def ball(term: Term) -> Any:
    """A closed term as a certified ball (arb) that contains its value; shared parts are computed once."""
    known: dict[int, Any] = {}

    def visit(t: Term) -> Any:
        if id(t) not in known:
            known[id(t)] = compute(t)
        return known[id(t)]

    def compute(t: Term) -> Any:
        match t:
            case Num(value):
                return flint.arb(flint.fmpq(value.numerator, value.denominator))
            case Add(terms):
                return sum((visit(x) for x in terms), flint.arb(0))
            case Mul(factors):
                return math.prod((visit(x) for x in factors), start=flint.arb(1))
            case Pow(base, exponent):
                return visit(base) ** exponent
            case Fn("inv", arg):
                return 1 / visit(arg)
            case Fn("exp", arg):
                return visit(arg).exp()
            case Fn("log", arg):
                return visit(arg).log()
            case Fn():
                return visit(meaning(t))
        raise ValueError(f"ball: {type(t).__name__} is not closed")

    return visit(term)


def expanded(term: Term, variable: Tensor | None = None) -> Term:
    """A term with every definition in it unfolded, but not that of ``variable``."""
    return unfold(term, tuple(t for t in tensors_of(term) if t.body is not None and t is not variable))


def fill(term: Term, values: Mapping[Tensor, Callable[..., Term]]) -> Term:
    """Every entry of some tensors replaced by the ``values`` at its indices."""
    match term:
        case Entry(tensor, indices) if tensor in values:
            return values[tensor](*indices)
        case Diff(body, wrt):
            return Diff(fill(body, values), wrt)
    return rebuild(term, lambda t: fill(t, values))


def replace(term: Term, lhs: Term, rhs: Term, free: tuple[Index, ...], under_diff: bool) -> tuple[Term, int]:
    """Every instance of an atomic left side (an entry, or the derivative of one by one) replaced; and how many.

    ``under_diff`` False leaves the inside of derivatives alone: an equation that holds at one point says nothing there,
    and neither does one about a tensor whose definition the derivative ignores.
    """
    count = 0

    def visit(t: Term) -> Term:
        nonlocal count
        where = instance(lhs, t, free)
        if where is not None:
            count += 1
            return rename(rhs, where)
        if isinstance(t, Diff):
            return Diff(visit(t.body), t.wrt) if under_diff and t.wrt.tensor.body is None else t
        return rebuild(t, visit)

    return visit(term), count


def instance(pattern: Term, term: Term, free: tuple[Index, ...]) -> dict[Index, AnyIndex] | None:
    """The positions at which an atomic pattern is this very term, or None."""
    match pattern, term:
        case Entry(left, names), Entry(right, indices) if left is right:
            pairs = list(zip(names, indices, strict=True))
        case Diff(Entry(left, names), Entry(lw, more)), Diff(Entry(right, indices), Entry(rw, others)) if (
            left is right and lw is rw
        ):
            pairs = [*zip(names, indices, strict=True), *zip(more, others, strict=True)]
        case _:
            return None
    where: dict[Index, AnyIndex] = {}
    for name, index in pairs:
        if name in free and isinstance(name, Index):
            where.setdefault(name, index)
    return where if all(move(name, where) == index for name, index in pairs) else None


def nonnegative(term: Term) -> bool:
    """Whether a term is at least 0 by its form: sums and products of squares, exps and declared nonnegatives."""
    match term:
        case Num(value):
            return value >= 0
        case Count() | Delta() | Fn("exp" | "sqrt", _):
            return True
        case Entry(tensor, _):
            return tensor.kind != "real"
        case Add(inner) | Mul(inner):
            return all(nonnegative(t) for t in inner)
        case Pow(base, exponent):
            return exponent % 2 == 0 or nonnegative(base)
        case Sum(_, body):
            return nonnegative(body)
        case Fn("inv", arg):
            return nonnegative(arg)
    return False


def curvature(term: Term) -> bool:
    """Whether a derivative is taken of a derivative of a function of which only the gradient is known."""
    if isinstance(term, Diff) and _has_slope(term.body):
        return True
    return any(curvature(t) for t in children(term))


def _has_slope(term: Term) -> bool:
    match term:
        case Diff(body, _) if any(t.through for t in tensors_of(body)):
            return True
        case Entry(tensor, _) if tensor.body is not None:
            return _has_slope(tensor.definition[1])
    return any(_has_slope(t) for t in children(term))


def under_derivative(term: Term, tensor: Tensor) -> bool:
    """Whether an entry of ``tensor`` stands inside a derivative."""
    if isinstance(term, Diff):
        return tensor in tensors_of(term)
    return any(under_derivative(t, tensor) for t in children(term))


def vanishes_with(term: Term, entries: set[tuple[Tensor, tuple[Index | None, ...]]]) -> bool:
    """Whether a term is a sum of positive multiples of the named entries: at each slot the position of a free index or,
    where it is None, every position; all of them are met, and no others."""
    met: set[tuple[Tensor, tuple[Index | None, ...]]] = set()

    def summand(t: Term, bound: frozenset[Index]) -> bool:
        match t:
            case Add(inner):
                return all(summand(x, bound) for x in inner)
            case Sum(index, body):
                return summand(body, bound | {index})
            case Entry(tensor, indices) if tensor.kind == "nonnegative":
                plain = [i for i in indices if isinstance(i, Index)]
                summed = [i for i in plain if i in bound]
                met.add((tensor, tuple(None if i in bound else i for i in plain)))
                return len(plain) == len(indices) and len(set(summed)) == len(summed) and set(summed) == bound
            case Mul():
                factors = _factors(t)
                carriers = [f for f in factors if not positive(flatten(expanded(f)))]
                return len(carriers) == 1 and summand(carriers[0], bound)
        return False

    return summand(term, frozenset()) and met == entries


def _factors(term: Term) -> list[Term]:
    return [f for inner in term.factors for f in _factors(inner)] if isinstance(term, Mul) else [term]
