"""A polynomial of the index calculus written as a short term: what a derivation shows after each of its steps.

Like factors are merged, factors that all monomials share go in front, a number and a lone sign out of the sum, sums
over the same sizes that share a factor become one sum, and bound indices get the names that their sizes have in the
definitions. ``cost`` weighs a term as it would be printed, so that a search can tell which of two is the shorter.

Nothing here is trusted: a term that says something else than its polynomial is a step that the kernel refuses.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from bayesgrad.symbolic import index_calculus as calculus
from bayesgrad.symbolic.index_calculus import FREE, ONE, Atom, Mono, Poly, collect, merged
from bayesgrad.symbolic.terms import (
    Add,
    AnyIndex,
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
    children,
    indices_of,
    inv,
    rebuild,
    rename,
)

Factors = tuple[tuple[Atom, Fraction], ...]
Pool = Mapping[Size, Sequence[str]]  # the names that bound indices of a size may take, the first ones first


def label(atom: Atom) -> str:
    """What tells two atoms apart; equal labels, equal atoms."""
    return calculus.atom_key(atom, FREE)


def flat(atom: Atom) -> bool:
    """Whether an atom is its own square."""
    return atom.kind == "delta" or calculus.is_indicator(atom)


def touched(factors: Iterable[tuple[Atom, Fraction]]) -> set[Index]:
    """The indices that some factors depend on."""
    return {index for atom, _ in factors for index in calculus.indices_inside(atom)}


def tidy(poly: Poly) -> Poly:
    """Like factors merged and like monomials added up; what cancels may make monomials alike, so it is done twice."""
    for _ in range(2):
        poly = tuple(map(merged, collect(poly)))
    return poly


# -- writing ---------------------------------------------------------------------------------------------------


def written(poly: Poly, pool: Pool) -> Term:
    """The polynomial as a short term, its bound indices named from the ``pool``."""
    return named(_written(tidy(poly)), pool)


def _written(poly: Poly) -> Term:
    if not poly:
        return Num(Fraction(0))
    number, common = _content(poly), _common(poly)
    rest = [_divided(mono, number, common) for mono in sorted(poly, key=lambda mono: mono.coefficient / number < 0)]
    groups = _groups(rest)
    inner: Term
    if len(groups) > 1 and (shared := _shared(rest)):
        inner = Add(tuple(x for part in shared for x in _terms(_written(part))))
    elif len(groups) > 1:
        inner = Add(tuple(_written(_bound(bound, monos)) for bound, monos in groups))
    else:
        ((bound, monos),) = groups
        inner = _summed(bound, _written(tuple(monos))) if bound else _product(monos[0])
    return _times(number, [_power(*factor) for factor in sorted(common, key=_rank)], inner)


def _terms(term: Term) -> tuple[Term, ...]:
    return term.terms if isinstance(term, Add) else (term,)


def _shared(monos: Sequence[Mono]) -> tuple[Poly, Poly] | None:
    """The monomials that share the factor that most of them have, and the others; None if no two share one."""
    holders: dict[str, list[int]] = {}
    for n, mono in enumerate(monos):
        for atom, power in mono.factors:
            if not calculus.indices_inside(atom) & set(mono.bound):
                holders.setdefault(f"{label(atom)} {power > 0}", []).append(n)
    most = max(holders.values(), key=len, default=[])
    if not 1 < len(most) < len(monos):
        return None
    return tuple(monos[n] for n in most), tuple(m for n, m in enumerate(monos) if n not in most)


def _bound(bound: tuple[Index, ...], monos: Sequence[Mono]) -> Poly:
    return tuple(Mono(mono.coefficient, bound + mono.bound, mono.factors) for mono in monos)


def _content(poly: Poly) -> Fraction:
    """The greatest number that divides every coefficient; negative where all of them are."""
    numbers = [mono.coefficient for mono in poly]
    over = math.lcm(*(x.denominator for x in numbers))
    size = Fraction(math.gcd(*(int(x * over) for x in numbers)), over)
    return -size if all(x < 0 for x in numbers) else size


def _common(poly: Poly) -> Factors:
    """The factors that every monomial has and that no sum holds."""
    loose = [{label(a): p for a, p in m.factors if not calculus.indices_inside(a) & set(m.bound)} for m in poly]
    out = []
    for atom, power in poly[0].factors:
        powers = [one.get(label(atom), Fraction(0)) for one in loose]
        if all(p * power > 0 for p in powers):
            out.append((atom, min(powers, key=abs)))
    return tuple(out)


def _divided(mono: Mono, number: Fraction, common: Factors) -> Mono:
    less = {label(atom): power for atom, power in common}
    left = tuple((a, q) for a, p in mono.factors if (q := p - less.get(label(a), 0)))
    return Mono(mono.coefficient / number, mono.bound, left)


def _groups(monos: Sequence[Mono]) -> list[tuple[tuple[Index, ...], list[Mono]]]:
    """Monomials that one sum can hold: the same sizes are summed over, and a factor inside of the sum is shared."""
    out: list[tuple[tuple[Index, ...], list[Mono]]] = []
    for mono in monos:
        _, pieces = calculus.split_sums(mono)
        if len(pieces) != 1:  # no sum, or a product of sums
            out.append(((), [mono]))
            continue
        for bound, others in out:
            where = bound and _alignment(mono, bound, others[0])
            if where:
                others.append(Mono(mono.coefficient, (), calculus.moved_factors(mono.factors, where)))
                break
        else:
            out.append((mono.bound, [Mono(mono.coefficient, (), mono.factors)]))
    return out


def _alignment(mono: Mono, bound: tuple[Index, ...], other: Mono) -> dict[Index, AnyIndex] | None:
    """How the bound indices of ``mono`` become ``bound`` so that most factors are those of ``other``; None if none."""
    if sorted(i.size.name for i in mono.bound) != sorted(i.size.name for i in bound) or len(bound) > 3:
        return None
    theirs = {label(a) for a, _ in other.factors if calculus.indices_inside(a) & set(bound)}
    best: tuple[int, dict[Index, AnyIndex] | None] = (0, None)
    for way in itertools.permutations(bound):
        if all(b.size == w.size for b, w in zip(mono.bound, way, strict=True)):
            where: dict[Index, AnyIndex] = dict(zip(mono.bound, way, strict=True))
            shared = sum(label(a) in theirs for a, _ in calculus.moved_factors(mono.factors, where))
            best = max(best, (shared, where), key=lambda b: b[0])
    return best[1]


def _summed(bound: tuple[Index, ...], body: Term) -> Term:
    """The sum over ``bound``, a lone number in front."""
    number, factors = ONE, list(body.factors) if isinstance(body, Mul) else [body]
    if isinstance(factors[0], Num) and len(factors) > 1:
        number = factors.pop(0).value  # type: ignore[attr-defined]
    out = _multiplied(factors)
    for index in bound:
        out = Sum(index, out)
    return _times(number, [], out)


def _times(number: Fraction, factors: Sequence[Term], last: Term) -> Term:
    lasts = list(last.factors) if isinstance(last, Mul) else [last]
    if isinstance(lasts[0], Num):
        number *= lasts.pop(0).value  # type: ignore[attr-defined]
    if len(lasts) == 1 and isinstance(lasts[0], Mul):
        lasts = list(lasts[0].factors)
    tops = [f for f in (*factors, *lasts) if not (isinstance(f, Fn) and f.name == "inv")]
    bottoms = [f for f in (*factors, *lasts) if isinstance(f, Fn) and f.name == "inv"]
    rest = [*tops, *bottoms]
    if number == -1 and rest:
        return Mul((Num(number), _multiplied(rest)))
    return _multiplied([*([Num(number)] if number != 1 or not rest else []), *rest])


def _rank(factor: tuple[Atom, Fraction]) -> tuple:
    atom, power = factor
    kinds = ("count", "entry", "delta", "exp", "log", "diff", "inv")
    below = power < 0 or atom.kind == "inv"
    return below, kinds.index(atom.kind), bool(atom.indices), getattr(atom.head, "name", "")


def _product(mono: Mono) -> Term:
    """One monomial: its factors, and one sum for each part that has bound indices of its own."""
    free, pieces = calculus.split_sums(mono)
    sums = []
    for piece in pieces:
        body = _product(Mono(ONE, (), piece.factors))
        sums.append(_summed(piece.bound, body))
    return _times(mono.coefficient, [_power(*factor) for factor in sorted(free, key=_rank)], _multiplied(sums))


def _multiplied(terms: Sequence[Term]) -> Term:
    return Num(ONE) if not terms else terms[0] if len(terms) == 1 else Mul(tuple(terms))


def _power(atom: Atom, power: Fraction) -> Term:
    """One atom to a power; an exp or an inv takes the power inside."""
    match atom.kind:
        case "exp":
            (mono,) = atom.arg
            return Fn("exp", _written((Mono(mono.coefficient * power, mono.bound, mono.factors),)))
        case "entry":
            base: Term = atom.head(*atom.indices)  # type: ignore[operator, misc]
        case "delta":
            base = Delta(*atom.indices)
        case "count":
            base = Count(atom.head)  # type: ignore[arg-type]
        case "diff":
            base = Diff(_written(atom.arg), atom.head(*atom.indices))  # type: ignore[operator, misc, arg-type]
        case "inv":
            base, power = _written(atom.arg), -power
        case _:
            base = Fn(atom.kind, _written(atom.arg))
    below = power < 0
    if power.denominator == 2:  # a square root, to a whole power
        base, power = Fn("sqrt", base), 2 * power
    elif power.denominator != 1:
        base, power, below = Fn("exp", _times(power, (), Fn("log", base))), ONE, False
    whole = base if abs(power) == 1 else Pow(base, abs(int(power)))
    return inv(whole) if below else whole


def product(mono: Mono, last: Term | None = None) -> Term:
    """A monomial as a term, with one more factor that may depend on its bound indices."""
    factors = [_power(*factor) for factor in sorted(mono.factors, key=_rank)]
    return _summed(mono.bound, _times(mono.coefficient, factors, Num(ONE) if last is None else last))


def named(term: Term, pool: Pool) -> Term:
    """The same term, each bound index named by the pool; no name that is free or bound around it is taken again.

    Sums that stand in one another come in the order of the pool.
    """
    order = {size: n for n, size in enumerate(pool)}

    def visit(t: Term, taken: frozenset[str]) -> Term:
        if not isinstance(t, Sum):
            return rebuild(t, lambda x: visit(x, taken))
        nest, body = [t.index], t.body
        while isinstance(body, Sum):
            nest, body = [*nest, body.index], body.body
        mine, where = taken | {i.name for i in indices_of(t)[0]}, {}
        nest.sort(key=lambda i: (order.get(i.size, len(order)), i.uid))
        for index in nest:
            where[index] = Index(next(x for x in names(index.size, pool) if x not in mine), index.size)
            mine |= {where[index].name}
        out = visit(rename(body, dict(where)), frozenset(mine))
        for index in reversed(nest):
            out = Sum(where[index], out)
        return out

    return visit(term, frozenset(i.name for i in indices_of(term)[0]))


def names(size: Size, pool: Pool) -> Iterable[str]:
    """The names for indices of a size, without end: those of the pool, then the same with primes."""
    known = pool.get(size) or ("r",)
    return (name + "'" * primes for primes in itertools.count() for name in known)


def cost(term: Term, heavy: Collection[Tensor] = ()) -> Fraction:
    """How much there is to read: letters, sums and plus signs count 1, exp and log 4, deltas and quotients 2.

    A ``heavy`` letter counts 3: an adjoint, which a reader must look up.
    """
    half = Fraction(1, 2)
    match term:
        case Num(value):
            own = half if value == -1 else ONE
        case Add(terms):
            own = Fraction(len(terms) - 1)
        case Entry(tensor, _) if tensor in heavy:
            own = Fraction(3)
        case Entry() | Count() | Sum():
            own = ONE
        case Delta():
            own = Fraction(2)
        case Pow():
            own = half
        case Fn(name, _):
            own = Fraction(2 if name == "inv" else 4)
        case Diff():
            own = Fraction(50)
        case _:
            own = Fraction(0)
    return own + sum((cost(t, heavy) for t in children(term)), Fraction(0))


def names_in(tensors: Iterable[Tensor]) -> Iterator[tuple[Size, str]]:
    """The names that slots and sums have in some definitions, in the order in which they are met."""

    def visit(term: Term) -> Iterator[tuple[Size, str]]:
        if isinstance(term, Sum):
            yield term.index.size, term.index.name
        for child in children(term):
            yield from visit(child)

    for tensor in tensors:
        if tensor.body is not None:
            parameters = inspect.signature(tensor.body).parameters.values()
            if len(parameters) == len(tensor.sizes) and all(p.kind == p.POSITIONAL_OR_KEYWORD for p in parameters):
                yield from zip(tensor.sizes, (p.name for p in parameters), strict=True)
            yield from visit(tensor.definition[1])


def pool_of(tensors: Sequence[Tensor], at: Iterable[Index] = ()) -> Pool:
    """Names for the indices of each size: those that the caller and the definitions use, or a letter that is left."""
    asked = [(index.size, index.name) for index in at]
    pool: dict[Size, list[str]] = {size: [] for size, _ in asked}
    pool |= {size: [] for t in reversed(tensors) for size in t.sizes if size not in pool}
    taken: dict[str, Size] = {}
    for size, name in (*asked, *names_in(tensors)):
        if taken.setdefault(name, size) == size and name not in pool.setdefault(size, []):
            pool[size].append(name)
    for size, known in pool.items():
        if not known:
            known.append(next(x for x in (*"ijklmnpqrstuvw", f"i_{size.name}") if x not in taken))
            taken[known[0]] = size
    return pool
