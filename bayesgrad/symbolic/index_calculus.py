"""Canonical form: two terms that the laws of finite sums make equal get the same key.

A term becomes a polynomial, a list of monomials

    coefficient * sum over bound indices of (product of atoms to integer or rational powers),

where an atom is an entry, a delta, a count, an exp, a log, an inv or a derivative that was not carried out. Every time
a sum is opened its index is made new. What is used, and nothing else:

    ring laws; linearity and order of finite sums; sum_j delta(i,j) f(j) = f(i) for j over the size of i;
    delta and indicators are their own squares; exp(x + y) = exp(x) exp(y);
    tanh x = 1 - 2/(e^2x + 1) and sqrt x = e^(log(x)/2), by which they are defined;
    log and powers of products of factors that are positive by their kind; exp(c log x) = x^c for x > 0;
    inv(x y) = inv(x) inv(y), inv(inv(x)) = x; inv(P) P = 1 for a sum P that is positive by the kinds of its parts.

The key of a monomial does not depend on the names or the order of its bound indices: it is built component by component
(indices are in one component when they share an atom), by colour refinement, and only real ties are tried one by one.
"""

from __future__ import annotations

import math
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
LARGEST, HIGHEST, ROUNDS = 50_000, 64, 40  # monomials of a product, powers, passes of cancelling: work has an end
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


def flatten(term: Term, where: dict[Index, AnyIndex] | None = None, split: bool = True) -> Poly:
    """The polynomial of a term, deltas contracted; ``split`` takes 1/(xy) apart before xy is multiplied out."""
    where = where or {}

    def inner(t: Term) -> Poly:
        return flatten(t, where, split)

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
            return tuple(mono for t in terms for mono in inner(t))
        case Mul(factors):
            return multiply([inner(t) for t in factors])
        case Pow(base, exponent):
            return _times(inner(base), exponent)
        case Sum(index, body):
            new = Index(index.name, index.size)
            polys = flatten(body, {**where, index: new}, split)
            return tuple(c for m in polys for c in contract(Mono(m.coefficient, (new, *m.bound), m.factors)))
        case Fn("exp", arg):
            return multiply([_exp(m) for m in collect(inner(arg))])
        case Fn("inv", Mul(factors)) if split:
            return multiply([inner(Fn("inv", t)) for t in factors])
        case Fn("inv", Pow(base, exponent)) if split:
            return _times(inner(Fn("inv", base)), exponent)
        case Fn("inv", arg):
            return _inv(collect(inner(arg)))
        case Fn("log", arg):
            return _log(collect(inner(arg)))
        case Fn():
            return inner(meaning(term))
        case Diff(body, Entry(tensor, indices)):
            moved = tuple(move(i, where) for i in indices)
            return (Mono(ONE, (), ((Atom("diff", moved, tensor, collect(inner(body))), ONE),)),)
    raise TypeError(f"term: {type(term).__name__} is no term of the index calculus")


def _times(poly: Poly, exponent: int) -> Poly:
    if exponent > HIGHEST:
        raise ValueError(f"algebra: got the power {exponent}, expected at most {HIGHEST}, which can be multiplied out")
    return multiply([poly] * exponent)


def multiply(polys: Iterable[Poly]) -> Poly:
    """The product; the bound indices of every factor are already different objects."""
    out: Poly = (Mono(ONE, (), ()),)
    for poly in polys:
        if len(out) * len(poly) > LARGEST:
            raise ValueError(f"algebra: a product of more than {LARGEST} monomials is not multiplied out")
        out = tuple(
            c
            for x in out
            for y in map(refreshed, poly)
            for c in contract(Mono(x.coefficient * y.coefficient, x.bound + y.bound, x.factors + y.factors))
        )
    return out


def refreshed(mono: Mono) -> Mono:
    """The same monomial with new bound indices of the same names."""
    new: dict[Index, AnyIndex] = {b: Index(b.name, b.size) for b in mono.bound}
    return Mono(mono.coefficient, tuple(new[b] for b in mono.bound), moved_factors(mono.factors, new))  # type: ignore[misc]


def moved_factors(factors: tuple[tuple[Atom, Fraction], ...], where: dict[Index, AnyIndex]):
    """Factors with other indices in the place of some."""
    return tuple((move_atom(atom, where), power) for atom, power in factors)


def move_atom(atom: Atom, where: dict[Index, AnyIndex]) -> Atom:
    """An atom with other indices in the place of some."""
    arg = tuple(c for m in atom.arg for c in contract(Mono(m.coefficient, m.bound, moved_factors(m.factors, where))))
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
                factors = list(moved_factors(tuple(factors), {old: new}))
            elif any(old in indices_inside(a) for n, (a, _) in enumerate(factors) if n != done - 1):
                kept = factors.pop(done - 1)
                factors = [kept, *moved_factors(tuple(factors), {old: new})]
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


def indices_inside(atom: Atom) -> set[Index]:
    """The indices that an atom depends on, without those that its own sums bind."""
    found = {p for i in atom.indices for p in parts(i)}
    for mono in atom.arg:
        found |= {i for a, _ in mono.factors for i in indices_inside(a)} - set(mono.bound)
    return found


# -- signs by kinds ----------------------------------------------------------------------------------------------


def positive(poly: Poly) -> bool:
    """Whether a polynomial is positive by the kinds of its parts, for all sizes and values: no summand can be negative
    and one is positive."""
    return any(map(_strict, poly)) and all(_strict(m) or _weak(m) for m in poly)


def _strict(mono: Mono) -> bool:
    return (
        mono.coefficient > 0
        and all(b.size.nonempty for b in mono.bound)
        and all(positive_atom(a) for a, _ in mono.factors)
    )


def _weak(mono: Mono) -> bool:
    return mono.coefficient > 0 and all(p % 2 == 0 or _nonnegative(a) for a, p in merged(mono).factors)


def positive_atom(atom: Atom) -> bool:
    """Whether an atom is positive by its kind, for all sizes and values."""
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


def _nonnegative(atom: Atom) -> bool:
    match atom.kind:
        case "delta" | "count" | "exp":
            return True
        case "entry":
            return isinstance(atom.head, Tensor) and atom.head.kind != "real"
        case "inv":
            return all(_strict(m) or _weak(m) for m in atom.arg)
    return False


def settled(poly: Poly) -> bool:
    """Whether a polynomial is positive for all values, or zero for all values, by the kinds of its parts."""
    return positive(poly) or all(
        m.coefficient > 0
        and all(positive_atom(a) or a.kind in ("delta", "count") or is_indicator(a) for a, _ in m.factors)
        for m in poly
    )


# -- functions of polynomials ------------------------------------------------------------------------------------


def _exp(mono: Mono) -> Poly:
    """exp of one monomial c * m is the atom exp(m) to the power c; exp(c log x) = x^c; exp of a sum is a product."""
    match mono.factors:
        case ((Atom("log", _, _, arg), power),) if power == 1 and not mono.bound and positive(arg):
            return _power(arg, mono.coefficient)
    return _factor(Atom("exp", arg=(Mono(ONE, mono.bound, mono.factors),)), mono.coefficient)


def _power(poly: Poly, exponent: Fraction) -> Poly:
    """A positive polynomial to a rational power: whole powers multiplied out, what is left a power of its inverse."""
    if len(poly) == 1 and poly[0].coefficient == 1 and not poly[0].bound and len(poly[0].factors) == 1:
        atom, power = poly[0].factors[0]
        return _factor(atom, power * exponent)
    return _factor(Atom("inv", arg=poly), -exponent)


def split_sums(mono: Mono) -> tuple[list[tuple[Atom, Fraction]], list[Mono]]:
    """The factors free of bound indices, and one monomial for each connected component of bound ones."""
    rest = list(mono.factors)
    groups: list[tuple[set[Index], list[tuple[Atom, Fraction]]]] = [({b}, []) for b in mono.bound]
    free = []
    for factor in rest:
        touched = indices_inside(factor[0])
        hit = [g for g in groups if g[0] & touched]
        if not hit:
            free.append(factor)
            continue
        joined: tuple[set[Index], list[tuple[Atom, Fraction]]] = (set(), [factor])
        for group in hit:
            groups.remove(group)
            joined[0].update(group[0])
            joined[1].extend(group[1])
        groups.append(joined)
    order = {b: n for n, b in enumerate(mono.bound)}
    return free, [Mono(ONE, tuple(sorted(g[0], key=order.__getitem__)), tuple(g[1])) for g in groups]


def _factor(atom: Atom, power: Fraction) -> Poly:
    return (Mono(ONE, (), ((atom, power),)),)


def _inv(poly: Poly) -> Poly:
    """inv of one monomial is the product of the invs of its factors (inv(0) = 0 throughout); of a sum, an atom."""
    if len(poly) != 1:
        common, rest = _content(poly)
        return multiply([_inv((common,)), _factor(Atom("inv", arg=rest), ONE)]) if poly else ()
    mono = poly[0]
    free, components = split_sums(mono)
    out: list[Poly] = [(Mono(1 / mono.coefficient, (), ()),)]
    for atom, power in free:
        if atom.kind == "inv" and power.denominator == 1 and power > 0:
            out.extend([atom.arg] * int(power))
        elif positive_atom(atom):
            out.append(_factor(atom, -power))
        elif atom.kind == "delta" or is_indicator(atom):
            out.append(_factor(atom, power))
        else:
            out.append(_factor(Atom("inv", arg=_factor(atom, ONE)), power))
    out.extend(_factor(Atom("inv", arg=(component,)), ONE) for component in components)
    return multiply(out)


def _log(poly: Poly) -> Poly:
    """log of one monomial of positive factors is the sum of their logs; log exp(x) = x; anything else is an atom."""
    if not positive(poly):
        return _factor(Atom("log", arg=poly), ONE)
    if len(poly) != 1:
        common, rest = _content(poly)
        return _log((common,)) + _factor(Atom("log", arg=rest), ONE)
    mono = poly[0]
    free, components = split_sums(mono)
    out: list[Mono] = []
    for number, sign in ((mono.coefficient.numerator, ONE), (mono.coefficient.denominator, -ONE)):
        for prime, times in flint.fmpz(number).factor():
            (one,) = _factor(Atom("log", arg=(Mono(Fraction(int(prime)), (), ()),)), ONE)
            out.append(Mono(sign * int(times), one.bound, one.factors))
    for atom, power in free:
        match atom.kind:
            case "exp":
                inner: Poly = atom.arg
            case "inv":
                inner = tuple(Mono(-m.coefficient, m.bound, m.factors) for m in _log(atom.arg))
            case _:
                inner = _factor(Atom("log", arg=_factor(atom, ONE)), ONE)
        out.extend(Mono(power * m.coefficient, m.bound, m.factors) for m in map(refreshed, inner))
    out.extend(m for component in components for m in _factor(Atom("log", arg=(component,)), ONE))
    return tuple(out)


def _content(poly: Poly) -> tuple[Mono, Poly]:
    """A sum as one monomial times a sum that has no number and no free atom in common."""
    loose = [{atom_key(a, FREE): (a, p) for a, p in split_sums(merged(m))[0]} for m in poly]
    shared: dict[str, tuple[Atom, Fraction]] = {}
    for name, (atom, _) in {name: factor for one in loose for name, factor in one.items()}.items():
        least = min(one[name][1] if name in one else Fraction(0) for one in loose)
        if least > 0 or (least < 0 and positive_atom(atom)):
            shared[name] = atom, least
    number = Fraction(
        math.gcd(*(m.coefficient.numerator for m in poly)), math.lcm(*(m.coefficient.denominator for m in poly))
    )
    rest = []
    for mono in map(merged, poly):
        factors = []
        gone = dict(shared)
        for atom, power in mono.factors:
            left = power - gone.pop(atom_key(atom, FREE), (atom, Fraction(0)))[1]
            factors += [(atom, left)] if left else []
        factors += [(atom, -power) for atom, power in gone.values()]
        rest.append(Mono(mono.coefficient / number, mono.bound, tuple(factors)))
    return Mono(number, (), tuple(shared.values())), tuple(rest)


# -- one over a sum, times that sum ------------------------------------------------------------------------------


def merged(mono: Mono) -> Mono:
    """The same monomial with each atom once, and a bound index that no atom touches as the count of its size."""
    powers: dict[str, tuple[Atom, Fraction]] = {}
    touched = {i for atom, _ in mono.factors for i in indices_inside(atom)}
    counts = [(Atom("count", head=b.size), ONE) for b in mono.bound if b not in touched]
    for atom, power in (*mono.factors, *counts):
        name = atom_key(atom, FREE)
        flat = atom.kind == "delta" or is_indicator(atom)
        powers[name] = atom, ONE if flat else power + powers.get(name, (atom, Fraction(0)))[1]
    bound = tuple(b for b in mono.bound if b in touched)
    return Mono(mono.coefficient, bound, tuple(f for f in powers.values() if f[1]))


def _cancelled(mono: Mono) -> Poly | None:
    """The powers of a positive sum P brought below 1, and P taken out of what is a multiple of its leading summand
    over P; None where there is nothing to do."""
    if not any(atom.kind == "inv" for atom, _ in mono.factors):
        return None
    mono = merged(mono)
    for n, (atom, power) in enumerate(mono.factors):
        if atom.kind != "inv" or not positive(atom.arg):
            continue
        others = mono.factors[:n] + mono.factors[n + 1 :]
        whole = math.floor(-power)
        if len(atom.arg) == 1 and not atom.arg[0].bound and not atom.arg[0].factors:  # a number
            if whole:
                times = mono.coefficient * atom.arg[0].coefficient ** whole
                return (Mono(times, mono.bound, (*others, *_kept(atom, power + whole))),)
            continue
        if whole > 0:
            return multiply([(Mono(mono.coefficient, mono.bound, (*others, *_kept(atom, power + 1))),), atom.arg])
        lead = _lead(atom.arg)
        if power > 0 and lead is not None and (quotient := _divided(others, mono.bound, lead, indices_inside(atom))):
            bound, factors = quotient
            one = mono.coefficient / lead.coefficient
            rest = tuple(m for m in atom.arg if m is not lead)
            less = Mono(-one, bound, (*factors, (atom, power)))
            return (Mono(one, bound, (*factors, *_kept(atom, power - 1))), *multiply([(less,), rest]))
    return None


def _kept(atom: Atom, power: Fraction) -> tuple[tuple[Atom, Fraction], ...]:
    return ((atom, power),) if power else ()


def _lead(poly: Poly) -> Mono | None:
    """The largest summand by degree, then by its atoms with all indices hidden; None where that is a tie.

    The order is that of polynomial division, so that dividing comes to an end.
    """

    def rank(mono: Mono) -> tuple[Fraction, list[tuple[str, Fraction]]]:
        mono = merged(mono)
        hidden = Naming(tuple((i, f"#{_number(i.size)}") for a, _ in mono.factors for i in indices_inside(a)))
        free, components = split_sums(mono)
        powers = [(atom_key(atom, hidden), power) for atom, power in free]
        powers += [(_component_key(component, hidden), ONE) for component in components]
        return sum((abs(p) for _, p in mono.factors), Fraction(len(mono.bound))), sorted(powers, reverse=True)

    ranks = [rank(mono) for mono in poly]
    top = max(ranks)
    return poly[ranks.index(top)] if ranks.count(top) == 1 else None


def _divided(
    factors: tuple[tuple[Atom, Fraction], ...], bound: tuple[Index, ...], lead: Mono, used: set[Index]
) -> tuple[tuple[Index, ...], tuple[tuple[Atom, Fraction], ...]] | None:
    """Bound indices and factors of a product without those of ``lead``; None where it does not hold them all.

    A sum can be taken out only where nothing else uses its indices, not even what stands in ``used``.
    """
    free, components = split_sums(merged(lead))
    have = {atom_key(atom, FREE): (atom, power) for atom, power in factors}
    for atom, power in free:
        name = atom_key(atom, FREE)
        held = have.pop(name, (atom, Fraction(0)))[1]
        if held / power < 1:
            return None
        if held != power:
            have[name] = atom, held - power
    mine = {_component_key(c, FREE): c for c in split_sums(Mono(ONE, bound, factors))[1] if not used & set(c.bound)}
    for component in components:
        found = mine.pop(_component_key(component, FREE), None)
        if found is None:
            return None
        bound = tuple(b for b in bound if b not in found.bound)
        for atom, _ in found.factors:
            have.pop(atom_key(atom, FREE), None)
    return bound, tuple(have.values())


def _cleared(poly: Poly) -> Poly:
    """The polynomial times every positive sum that it is divided by, where no bound index stands in that sum."""
    below: dict[str, tuple[Atom, Fraction]] = {}
    for mono in map(merged, poly):
        for atom, power in mono.factors:
            if atom.kind == "inv" and power > 0 and not indices_inside(atom) & set(mono.bound) and positive(atom.arg):
                name = atom_key(atom, FREE)
                below[name] = atom, max(power, below.get(name, (atom, power))[1])
    times = tuple((atom, Fraction(-math.ceil(power))) for atom, power in below.values())
    return collect(tuple(Mono(m.coefficient, m.bound, m.factors + times) for m in poly)) if times else poly


# -- keys --------------------------------------------------------------------------------------------------------


def is_indicator(atom: Atom) -> bool:
    """Whether an atom is an entry that is 0 or 1."""
    return atom.kind == "entry" and isinstance(atom.head, Tensor) and atom.head.kind == "indicator"


def _number(thing: Any) -> int:
    """Keys hold numbers where things have names: a name may be anything, even a piece of a key."""
    return _NUMBERS.setdefault(thing, len(_NUMBERS))


def _index_key(index: AnyIndex, label: Naming) -> str:
    if isinstance(index, At):
        inner = ",".join(_index_key(i, label) for i in index.indices)
        return f"{_number(index.lookup)}({inner})"
    return label(index)


def atom_key(atom: Atom, label: Naming) -> str:
    """A text that sorts atoms, where ``label`` names their indices."""
    names = [_index_key(i, label) for i in atom.indices]
    if atom.kind == "delta":
        names.sort()
    head = "" if atom.head is None else _number(atom.head)
    return f"{atom.kind} {head}[{','.join(names)}]{poly_key(atom.arg, label) if atom.arg else ''}"


def _product_key(factors: Iterable[tuple[Atom, Fraction]], label: Naming, extra: Iterable[str] = ()) -> str:
    powers: dict[str, Fraction] = {}
    flat: set[str] = set()
    for atom, power in factors:
        key = atom_key(atom, label)
        powers[key] = powers.get(key, Fraction(0)) + power
        if atom.kind == "delta" or is_indicator(atom):
            flat.add(key)
    for key in extra:
        powers[key] = powers.get(key, Fraction(0)) + 1
    return "·".join(f"{k}^{1 if k in flat else p}" for k, p in sorted(powers.items()) if p)


def _mono_key(mono: Mono, label: Naming) -> str:
    free, components = split_sums(mono)
    return _product_key(free, label, [_component_key(c, label) for c in components])


def _component_key(mono: Mono, label: Naming) -> str:
    if not mono.factors:
        return atom_key(Atom("count", head=mono.bound[0].size), label)
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
    touched = [(factor, indices_inside(factor[0])) for factor in mono.factors]
    mark = "?" * label.depth
    while True:
        signs: dict[Index, tuple[str, tuple[str, ...]]] = {}
        for b in mono.bound:
            seen = label.under({**colour, b: mark + "*"})
            signs[b] = (colour[b], tuple(sorted(f"{atom_key(f[0], seen)}^{f[1]}" for f, t in touched if b in t)))
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
    """Like monomials added up, zeros gone, positive sums cancelled."""
    for _ in range(ROUNDS):
        poly = tuple(Mono(c, m.bound, m.factors) for c, m in _tally(poly, FREE).values())
        done = [_cancelled(m) for m in poly]
        if not any(new is not None for new in done):
            break
        poly = tuple(x for old, new in zip(poly, done, strict=True) for x in ((old,) if new is None else new))
    return poly


def poly_key(poly: Poly, label: Naming = FREE) -> str:
    """Equal keys mean equal polynomials."""
    return "{" + " + ".join(f"{c}*{k}" for k, (c, _) in sorted(_tally(poly, label).items())) + "}"


def key(term: Term) -> str:
    """The canonical key of a term: equal keys, equal terms, for all sizes and values."""
    return poly_key(collect(flatten(term)))


def same(left: Term, right: Term) -> bool:
    """Whether the laws listed above make two terms equal. False does not mean that they differ."""
    for split in (True, False):
        poly = collect(flatten(left - right, split=split))
        if not poly or not _cleared(poly):
            return True
    return False
