"""Canonical form: two terms that the laws of finite sums make equal get the same key.

A term becomes a polynomial, a list of monomials

    coefficient * sum over bound indices of (product of atoms to integer or rational powers),

where an atom is an entry, a delta, a count, an exp, a log, an inv or a derivative that was not carried out. Every time
a sum is opened its index is made new. What is used, and nothing else:

    ring laws; linearity and order of finite sums; sum_j delta(i,j) f(j) = f(i) for j over the size of i;
    delta and indicators are their own squares; exp(x + y) = exp(x) exp(y);
    tanh x = 1 - 2/(e^2x + 1) and sqrt x = e^(log(x)/2), by which they are defined;
    log and inv of products of factors that are positive by their kind; inv(x y) = inv(x) inv(y), inv(inv(x)) = x.

The key of a monomial does not depend on the names or the order of its bound indices: it is built component by component
(indices are in one component when they share an atom), by colour refinement, and only real ties are tried one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import flint

from bayesgrad.symbolic.terms import (
    Add,
    AnyIndex,
    At,
    Count,
    Delta,
    Diff,
    Entry,
    Fn,
    Index,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    Term,
    meaning,
    move,
    parts,
)

ONE = Fraction(1)
_NUMBERS: dict[Any, int] = {}


@dataclass(frozen=True)
class Naming:
    """What keys call an index: a bound one by its colour, a free one by its number; ``depth`` counts open sums.

    Colours carry their depth, so that a sum inside an exp and the sum around it never share a name.
    """

    colour: tuple[tuple[Index, str], ...] = ()
    depth: int = 1

    def __call__(self, index: Index) -> str:
        return dict(self.colour).get(index) or f"#{index.uid}"

    def under(self, colour: dict[Index, str]) -> Naming:
        return Naming((*self.colour, *colour.items()), self.depth + 1)


FREE = Naming()


class Atom(NamedTuple):
    """One factor; which fields count depends on ``kind``: entry, delta, count, exp, log, inv or diff."""

    kind: str
    indices: tuple[AnyIndex, ...] = ()
    head: Tensor | Size | None = None
    arg: tuple[Mono, ...] = ()  # exp: one monomial of coefficient 1; log, inv, diff: a polynomial


@dataclass(frozen=True, eq=False)
class Mono:
    coefficient: Fraction
    bound: tuple[Index, ...]
    factors: tuple[tuple[Atom, Fraction], ...]


Poly = tuple[Mono, ...]


# -- from a term to a polynomial ---------------------------------------------------------------------------------


def flatten(term: Term, where: dict[Index, AnyIndex] | None = None) -> Poly:
    """The polynomial of a term, deltas contracted."""
    where = where or {}
    match term:
        case Num(value):
            return (Mono(value, (), ()),) if value else ()
        case Count(size):
            return (Mono(ONE, (), ((Atom("count", head=size), ONE),)),)
        case Entry(tensor, indices):
            return (Mono(ONE, (), ((Atom("entry", tuple(move(i, where) for i in indices), tensor), ONE),)),)
        case Delta(left, right):
            return tuple(contract(Mono(ONE, (), ((Atom("delta", (move(left, where), move(right, where))), ONE),))))
        case Add(terms):
            return tuple(mono for t in terms for mono in flatten(t, where))
        case Mul(factors):
            return multiply([flatten(t, where) for t in factors])
        case Pow(base, exponent):
            return multiply([flatten(base, where) for _ in range(exponent)])
        case Sum(index, body):
            new = Index(index.name, index.size)
            inner = flatten(body, {**where, index: new})
            return tuple(c for m in inner for c in contract(Mono(m.coefficient, (new, *m.bound), m.factors)))
        case Fn("exp", arg):
            return multiply([_exp(m) for m in collect(flatten(arg, where))])
        case Fn("inv", arg):
            return _inv(collect(flatten(arg, where)))
        case Fn("log", arg):
            return _log(collect(flatten(arg, where)))
        case Fn():
            return flatten(meaning(term), where)
        case Diff(body, Entry(tensor, indices)):
            moved = tuple(move(i, where) for i in indices)
            return (Mono(ONE, (), ((Atom("diff", moved, tensor, collect(flatten(body, where))), ONE),)),)
    raise TypeError(f"term: {type(term).__name__} is no term of the index calculus")


def multiply(polys: Iterable[Poly]) -> Poly:
    """The product; the bound indices of every factor are already different objects."""
    out: Poly = (Mono(ONE, (), ()),)
    for poly in polys:
        out = tuple(
            c
            for x in out
            for y in map(_refresh, poly)
            for c in contract(Mono(x.coefficient * y.coefficient, x.bound + y.bound, x.factors + y.factors))
        )
    return out


def _refresh(mono: Mono) -> Mono:
    new: dict[Index, AnyIndex] = {b: Index(b.name, b.size) for b in mono.bound}
    return Mono(mono.coefficient, tuple(new[b] for b in mono.bound), _moved(mono.factors, new))  # type: ignore[misc]


def _moved(factors: tuple[tuple[Atom, Fraction], ...], where: dict[Index, AnyIndex]):
    return tuple((_move_atom(atom, where), power) for atom, power in factors)


def _move_atom(atom: Atom, where: dict[Index, AnyIndex]) -> Atom:
    arg = tuple(c for m in atom.arg for c in contract(Mono(m.coefficient, m.bound, _moved(m.factors, where))))
    return Atom(atom.kind, tuple(move(i, where) for i in atom.indices), atom.head, arg)


def contract(mono: Mono) -> list[Mono]:
    """Use every delta: a bound index that it ties is replaced and its sum goes; a free one gets one representative."""
    bound, factors = list(mono.bound), list(mono.factors)
    done = 0
    while done < len(factors):
        atom, _ = factors[done]
        done += 1
        if atom.kind != "delta":
            continue
        left, right = atom.indices
        if left == right:
            factors.pop(done - 1)
        elif old_new := _tie(left, right, bound):
            old, new = old_new
            if old in bound:
                bound.remove(old)
                factors.pop(done - 1)
                factors = list(_moved(tuple(factors), {old: new}))
            elif any(old in _inside(a) for n, (a, _) in enumerate(factors) if n != done - 1):
                kept = factors.pop(done - 1)
                factors = [kept, *_moved(tuple(factors), {old: new})]
            else:
                continue
        else:
            continue
        done = 0
    return [Mono(mono.coefficient, tuple(bound), tuple(factors))]


def _tie(left: AnyIndex, right: AnyIndex, bound: list[Index]) -> tuple[Index, AnyIndex] | None:
    """Which index a delta replaces by which: a bound one if there is one, else the younger free one."""
    ways = [(o, n) for o, n in ((left, right), (right, left)) if isinstance(o, Index) and o not in parts(n)]
    for old, new in ways:
        if old in bound:
            return old, new
    plain = [(o, n) for o, n in ways if not isinstance(n, Index) or n.uid < o.uid]
    return plain[0] if plain and not any(p in bound for i in (left, right) for p in parts(i)) else None


def _inside(atom: Atom) -> set[Index]:
    """The indices that an atom depends on, without those that its own sums bind."""
    found = {p for i in atom.indices for p in parts(i)}
    for mono in atom.arg:
        found |= {i for a, _ in mono.factors for i in _inside(a)} - set(mono.bound)
    return found


# -- functions of polynomials ------------------------------------------------------------------------------------


def _exp(mono: Mono) -> Poly:
    """exp of one monomial c * m is the atom exp(m) to the power c, and exp(log x) = x; exp of a sum is a product."""
    match mono.factors:
        case ((Atom("log", _, _, arg), power),) if power == mono.coefficient == 1 and not mono.bound and positive(arg):
            return arg
    return (Mono(ONE, (), ((Atom("exp", arg=(Mono(ONE, mono.bound, mono.factors),)), mono.coefficient),)),)


def positive(poly: Poly) -> bool:
    """Whether a polynomial is positive by the kinds of its parts alone, for all sizes and all values."""
    return bool(poly) and all(
        m.coefficient > 0 and all(b.size.nonempty for b in m.bound) and all(_positive(a) for a, _ in m.factors)
        for m in poly
    )


def _positive(atom: Atom) -> bool:
    match atom.kind:
        case "exp":
            return True
        case "entry":
            return isinstance(atom.head, Tensor) and atom.head.kind == "positive"
        case "count":
            return isinstance(atom.head, Size) and atom.head.nonempty
        case "inv":
            return positive(atom.arg)
    return False


def settled(poly: Poly) -> bool:
    """Whether a polynomial is positive for all values, or zero for all values, by the kinds of its parts."""
    return all(
        m.coefficient > 0 and all(_positive(a) or a.kind in ("delta", "count") or _indicator(a) for a, _ in m.factors)
        for m in poly
    )


def _pieces(mono: Mono) -> tuple[list[tuple[Atom, Fraction]], list[Mono]]:
    """The factors free of bound indices, and one monomial for each connected component of bound ones."""
    rest = list(mono.factors)
    groups: list[tuple[set[Index], list[tuple[Atom, Fraction]]]] = [({b}, []) for b in mono.bound]
    free = []
    for factor in rest:
        touched = _inside(factor[0])
        hit = [g for g in groups if g[0] & touched]
        if not hit:
            free.append(factor)
            continue
        merged: tuple[set[Index], list[tuple[Atom, Fraction]]] = (set(), [factor])
        for group in hit:
            groups.remove(group)
            merged[0].update(group[0])
            merged[1].extend(group[1])
        groups.append(merged)
    order = {b: n for n, b in enumerate(mono.bound)}
    return free, [Mono(ONE, tuple(sorted(g[0], key=order.__getitem__)), tuple(g[1])) for g in groups]


def _single(kind: str, poly: Poly, power: Fraction = ONE) -> Poly:
    return (Mono(ONE, (), ((Atom(kind, arg=poly), power),)),)


def _inv(poly: Poly) -> Poly:
    """inv of one monomial is the product of the invs of its factors (inv(0) = 0 throughout); of a sum, an atom."""
    if len(poly) != 1:
        return _single("inv", poly) if poly else ()
    mono = poly[0]
    free, components = _pieces(mono)
    out: list[Poly] = [(Mono(1 / mono.coefficient, (), ()),)]
    for atom, power in free:
        if atom.kind == "exp" or _positive(atom):
            out.append((Mono(ONE, (), ((atom, -power),)),))
        elif atom.kind == "delta" or _indicator(atom):
            out.append((Mono(ONE, (), ((atom, power),)),))
        elif atom.kind == "inv":
            out.extend([atom.arg] * int(power))
        else:
            out.append(_single("inv", (Mono(ONE, (), ((atom, ONE),)),), power))
    out.extend(_single("inv", (component,)) for component in components)
    return multiply(out)


def _log(poly: Poly) -> Poly:
    """log of one monomial of positive factors is the sum of their logs; log exp(x) = x; anything else is an atom."""
    if len(poly) != 1 or not positive(poly):
        return _single("log", poly)
    mono = poly[0]
    free, components = _pieces(mono)
    out: list[Mono] = []
    for number, sign in ((mono.coefficient.numerator, ONE), (mono.coefficient.denominator, -ONE)):
        for prime, times in flint.fmpz(number).factor():
            (one,) = _single("log", (Mono(Fraction(int(prime)), (), ()),))
            out.append(Mono(sign * int(times), one.bound, one.factors))
    for atom, power in free:
        match atom.kind:
            case "exp":
                inner: Poly = atom.arg
            case "inv":
                inner = tuple(Mono(-m.coefficient, m.bound, m.factors) for m in _log(atom.arg))
            case _:
                inner = _single("log", (Mono(ONE, (), ((atom, ONE),)),))
        out.extend(Mono(power * m.coefficient, m.bound, m.factors) for m in map(_refresh, inner))
    out.extend(m for component in components for m in _single("log", (component,)))
    return tuple(out)


# -- keys --------------------------------------------------------------------------------------------------------


def _indicator(atom: Atom) -> bool:
    return atom.kind == "entry" and isinstance(atom.head, Tensor) and atom.head.kind == "indicator"


def _number(thing: Any) -> int:
    """Keys hold numbers where things have names: a name may be anything, even a piece of a key."""
    return _NUMBERS.setdefault(thing, len(_NUMBERS))


def _index_key(index: AnyIndex, label: Naming) -> str:
    if isinstance(index, At):
        inner = ",".join(_index_key(i, label) for i in index.indices)
        return f"{_number(index.lookup)}({inner})"
    return label(index)


def _atom_key(atom: Atom, label: Naming) -> str:
    names = [_index_key(i, label) for i in atom.indices]
    if atom.kind == "delta":
        names.sort()
    head = "" if atom.head is None else _number(atom.head)
    return f"{atom.kind} {head}[{','.join(names)}]{poly_key(atom.arg, label) if atom.arg else ''}"


def _product_key(factors: Iterable[tuple[Atom, Fraction]], label: Naming, extra: Iterable[str] = ()) -> str:
    powers: dict[str, Fraction] = {}
    flat: set[str] = set()
    for atom, power in factors:
        key = _atom_key(atom, label)
        powers[key] = powers.get(key, Fraction(0)) + power
        if atom.kind == "delta" or _indicator(atom):
            flat.add(key)
    for key in extra:
        powers[key] = powers.get(key, Fraction(0)) + 1
    return "·".join(f"{k}^{1 if k in flat else p}" for k, p in sorted(powers.items()) if p)


def _mono_key(mono: Mono, label: Naming) -> str:
    free, components = _pieces(mono)
    return _product_key(free, label, [_component_key(c, label) for c in components])


def _component_key(mono: Mono, label: Naming) -> str:
    if not mono.factors:
        return _atom_key(Atom("count", head=mono.bound[0].size), label)
    mark = "?" * label.depth
    return _search(mono, label, {b: f"{mark}{_number(b.size)}" for b in mono.bound})


def _search(mono: Mono, label: Naming, colour: dict[Index, str]) -> str:
    """Refine colours until they are stable; where a tie is left, single out each member and take the least key."""
    colour = _refine(mono, label, colour)
    classes: dict[str, list[Index]] = {}
    for b in mono.bound:
        classes.setdefault(colour[b], []).append(b)
    ties = sorted(c for c, members in classes.items() if len(members) > 1)
    if not ties:
        sizes = ",".join(sorted(f"{colour[b]}:{_number(b.size)}" for b in mono.bound))
        return f"Σ[{sizes}]({_product_key(mono.factors, label.under(colour))})"
    members = classes[ties[0]]
    # swapping twins changes nothing, so the branch of one of them is enough
    branches = [b for n, b in enumerate(members) if not any(_twins(mono, label, b, o) for o in members[:n])]
    return min(_search(mono, label, {**colour, b: colour[b] + "!"}) for b in branches)


def _refine(mono: Mono, label: Naming, colour: dict[Index, str]) -> dict[Index, str]:
    """Split colours by what the atoms around an index look like, until nothing splits; names play no part."""
    touched = [(factor, _inside(factor[0])) for factor in mono.factors]
    mark = "?" * label.depth
    while True:
        signs: dict[Index, tuple[str, tuple[str, ...]]] = {}
        for b in mono.bound:
            seen = label.under({**colour, b: mark + "*"})
            signs[b] = (colour[b], tuple(sorted(f"{_atom_key(f[0], seen)}^{f[1]}" for f, t in touched if b in t)))
        order = {sign: f"{mark}{n}" for n, sign in enumerate(sorted(set(signs.values())))}
        stable = len(order) == len(set(colour.values()))
        colour = {b: order[signs[b]] for b in mono.bound}
        if stable:
            return colour


def _twins(mono: Mono, label: Naming, one: Index, other: Index) -> bool:
    names = {b: f"{'?' * label.depth}{n}" for n, b in enumerate(mono.bound)}
    swapped = {**names, one: names[other], other: names[one]}
    return _product_key(mono.factors, label.under(names)) == _product_key(mono.factors, label.under(swapped))


def _tally(poly: Poly, label: Naming) -> dict[str, tuple[Fraction, Mono]]:
    sums: dict[str, tuple[Fraction, Mono]] = {}
    for mono in poly:
        key = _mono_key(mono, label)
        sums[key] = (sums.get(key, (Fraction(0), mono))[0] + mono.coefficient, mono)
    return {k: v for k, v in sums.items() if v[0]}


def collect(poly: Poly) -> Poly:
    """Like monomials added up, zeros gone."""
    return tuple(Mono(c, m.bound, m.factors) for c, m in _tally(poly, FREE).values())


def poly_key(poly: Poly, label: Naming = FREE) -> str:
    """Equal keys mean equal polynomials."""
    return "{" + " + ".join(f"{c}*{k}" for k, (c, _) in sorted(_tally(poly, label).items())) + "}"


def key(term: Term) -> str:
    """The canonical key of a term: equal keys, equal terms, for all sizes and values."""
    return poly_key(flatten(term))


def same(left: Term, right: Term) -> bool:
    """Whether the laws listed above make two terms equal. False does not mean that they differ."""
    return not _tally(flatten(left - right), FREE)
