"""Folding: a polynomial said by the letters of the field instead of by what they stand for, the shortest way first.

A letter is a tensor with a definition: a = M exp(s) / Z, b = sum u v, bbar = sum a b. Wherever a monomial holds the
first monomial of a definition, with some cofactor C at some indices,

    P   becomes   P - C * (definition) + C * (letter),

which is P again, whatever the definition is. ``search`` tries such moves best first, by the cost of the term as it
would be printed, and returns the way to the cheapest term that it met. A rule reads a definition forwards, under an
inverse, or solved for a part of it (s = c tanh(t/c) gives tanh(t/c) = s/c).

Nothing here is trusted: each move is a step "definition" that the kernel unfolds and compares.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from bayesgrad.symbolic import index_calculus as calculus
from bayesgrad.symbolic import rules
from bayesgrad.symbolic.index_calculus import ONE, Atom, Mono, Poly, contract, flatten, multiply, poly_key, same
from bayesgrad.symbolic.terms import AnyIndex, Index, Sum, Tensor, Term, inv, parts
from bayesgrad.symbolic.text import text
from bayesgrad.symbolic.tidying import Pool, cost, flat, label, named, names, tidy, touched, written

STATES = 60  # terms that one search looks at
ZERO = Fraction(0)
USES = 40  # how often one move uses its rule
SLACK = 10  # how much longer than where it began a term on the way may be
FUNCTION = 5  # the weight of what is no letter


@dataclass(frozen=True, eq=False)
class Rule:
    """``body`` = ``short`` at all positions of ``slots``, by the definitions of ``tensors``."""

    tensors: tuple[Tensor, ...]
    slots: tuple[Index, ...]
    body: Poly
    short: Poly
    solved: bool = False  # for a part of the definition, which may leave more monomials, but fewer functions

    why: str = ""

    @cached_property
    def first(self) -> Mono:
        """The monomial that is looked for: the one that says most, above all which positions are meant."""
        return max(self.body, key=lambda mono: (len(touched(mono.factors) & {*self.slots}), len(mono.factors)))

    @cached_property
    def heads(self) -> frozenset:
        return frozenset(_head(a) for a, _ in self.first.factors if not flat(a) and not _free_of_charge(a))


def _head(atom: Atom) -> object:
    return atom.head if atom.kind in ("entry", "count") else atom.kind


def rules_of(tensor: Tensor, pool: Pool) -> tuple[Rule, ...]:
    """The ways to read a definition as a rule that shortens."""
    slots = _slots(tensor, pool)
    letter, definition = tensor(*slots), tensor.unfold(slots)
    body = tidy(flatten(definition))
    why = f"{text(letter)} = {text(written(body, pool))}"
    out = [Rule((tensor,), slots, body, flatten(letter), why=why)] if body else []
    if tensor.kind == "positive":
        out.append(Rule((tensor,), slots, tidy(flatten(inv(definition))), flatten(inv(letter)), why=why))
    return (*out, *_solved(tensor, slots, body, pool))


def _slots(tensor: Tensor, pool: Pool) -> tuple[Index, ...]:
    out: list[Index] = []
    for size in tensor.sizes:
        out.append(Index(next(x for x in names(size, pool) if all(x != i.name for i in out)), size))
    return tuple(out)


def normalised(tensor: Tensor, folds: Sequence[Rule], pool: Pool) -> Iterator[Rule]:
    """A sum over one slot that other letters make a number: the weights of a row, which sum to 1."""
    slots = _slots(tensor, pool)
    for slot in slots:
        left: Term = Sum(slot, tensor(*slots))
        poly, used = tidy(flatten(Sum(slot, tensor.unfold(slots)))), [tensor]
        for rule in folds:
            if tensor not in rule.tensors and (new := fold(poly, rule)):
                poly, used = new, [*used, *rule.tensors]
        if len(poly) == 1 and not poly[0].factors and not poly[0].bound:
            why = f"{text(left)} = {poly[0].coefficient}"
            yield Rule(tuple(used), tuple(i for i in slots if i is not slot), flatten(left), poly, why=why)


def _solved(tensor: Tensor, slots: tuple[Index, ...], body: Poly, pool: Pool) -> Iterator[Rule]:
    """The definition solved for a function in it that occurs once, beside what is known not to be 0, and a mask."""
    for mono in body:
        for atom, power in mono.factors:
            others = tuple(f for f in mono.factors if f[0] is not atom and not flat(f[0]))
            mask = tuple(f for f in mono.factors if flat(f[0]))
            if (
                atom.kind not in ("exp", "inv", "log")
                or power != 1
                or mono.bound
                or len(body) == len(mono.factors) == 1
            ):
                continue
            if any(_holds(m, atom) for m in body if m is not mono) or not all(
                calculus.positive_atom(a) for a, _ in others
            ):
                continue
            under = tuple((a, -p) for a, p in others)
            rest = [Mono(-m.coefficient, m.bound, m.factors) for m in body if m is not mono]
            times = (Mono(1 / mono.coefficient, (), (*under, *mask)),)
            short = tidy(unmasked(multiply([(*flatten(tensor(*slots)), *rest), times]))[0])
            part = (Mono(ONE, (), (*mask, (atom, ONE))),)
            why = f"{text(written(part, pool))} = {text(written(short, pool))}"
            yield Rule((tensor,), slots, part, short, solved=True, why=why)


def _holds(mono: Mono, atom: Atom) -> bool:
    return any(label(a) == label(atom) or any(_holds(m, atom) for m in a.arg) for a, _ in mono.factors)


# -- one move --------------------------------------------------------------------------------------------------


def fold(poly: Poly, rule: Rule) -> Poly | None:
    """The rule used wherever it makes the polynomial shorter, or None; a solved one wherever it can be."""
    if not rule.heads <= {_head(a) for mono in poly for a, _ in mono.factors}:
        return None
    done = poly
    for new in _uses(poly, rule):
        if not rule.solved and _size(new, False) >= _size(done, False):
            break
        done = new
    return done if _size(done, rule.solved) < _size(poly, rule.solved) else None


def _uses(poly: Poly, rule: Rule) -> Iterator[Poly]:
    """The polynomial after one use of the rule, after two, and so on."""
    for _ in range(USES):
        new = _once(poly, rule)
        if new is None:
            return
        yield new
        poly = new


def places(poly: Poly, rule: Rule) -> Iterator[tuple[dict[Index, AnyIndex], Mono, Poly]]:
    """Where the first monomial of a rule is held: the positions of its slots, the cofactor, and what is left over."""
    for mono in poly:
        if not rule.heads <= {_head(a) for a, _ in mono.factors}:
            continue
        for where, cofactor in _matches(mono, rule.first, rule.slots):
            less = tuple(Mono(-m.coefficient, m.bound, m.factors) for m in at(rule.body, where))
            yield where, cofactor, (*poly, *times(cofactor, less))


def _once(poly: Poly, rule: Rule) -> Poly | None:
    size = _size(poly, False)
    for where, cofactor, rest in places(poly, rule):
        new = tidy((*rest, *times(cofactor, at(rule.short, where))))
        if rule.solved or _size(new, False) < size:
            return new
    return None


def _size(poly: Poly, solved: bool) -> tuple[float, float]:
    """What a move must make less: monomials, or else what they weigh; functions alone where a rule was solved."""
    weights = [(_weight(a), float(abs(p))) for m in poly for a, p in m.factors]
    if solved:
        return sum(w * p for w, p in weights if w >= FUNCTION), 0
    return len(poly), sum(len(m.bound) for m in poly) + sum(w * p for w, p in weights)


def _weight(atom: Atom) -> int:
    own = 1 if atom.kind == "count" or flat(atom) else 2 if atom.kind == "entry" else FUNCTION
    return own + sum(_weight(a) for m in atom.arg for a, _ in m.factors)


def at(poly: Poly, where: dict[Index, AnyIndex]) -> Poly:
    """A polynomial at other positions."""
    moved = (
        Mono(m.coefficient, m.bound, calculus.moved_factors(m.factors, where)) for m in map(calculus.refreshed, poly)
    )
    return tuple(c for m in moved for c in contract(m))


def times(one: Mono, poly: Poly) -> Poly:
    """The product of a monomial and a polynomial that speaks of its bound indices."""
    products = (Mono(one.coefficient * m.coefficient, one.bound + m.bound, one.factors + m.factors) for m in poly)
    return tuple(c for product in products for c in contract(product))


def _matches(mono: Mono, pattern: Mono, slots: tuple[Index, ...]) -> Iterator[tuple[dict[Index, AnyIndex], Mono]]:
    """Where ``mono`` holds ``pattern``: the positions of the slots, and the cofactor."""
    held = {label(a): (a, p) for a, p in mono.factors}
    for where in _assignments(mono, pattern, slots):
        want = {label(a): (a, p) for a, p in calculus.moved_factors(pattern.factors, where)}
        have = held
        if not all(_free_of_charge(a) or _held(have.get(k, (a, ZERO))[1], p) for k, (a, p) in want.items()):
            continue
        have = {k: have.get(k, (a, ZERO)) for k, (a, _) in (*have.items(), *want.items())}
        gone = {where[b] for b in pattern.bound}
        left = []
        for key, (atom, power) in have.items():
            keep = (
                power - want[key][1]
                if key in want and not (flat(atom) and not touched([(atom, ONE)]) & gone)
                else power
            )
            if keep:
                left.append((atom, keep))
        used = {p for slot in slots for p in parts(where[slot])}
        if len(gone) == len(pattern.bound) and gone <= set(mono.bound) and not gone & (touched(left) | used):
            bound = tuple(b for b in mono.bound if b not in gone)
            yield where, Mono(mono.coefficient / pattern.coefficient, bound, tuple(left))


def _held(have: Fraction, want: Fraction) -> bool:
    return have * want > 0 and abs(want) <= abs(have)


def _free_of_charge(atom: Atom) -> bool:
    """Whether a factor can be had in any power: the number of positions of a size that has some."""
    return atom.kind == "count" and calculus.positive_atom(atom)


def _assignments(mono: Mono, pattern: Mono, slots: tuple[Index, ...]) -> Iterator[dict[Index, AnyIndex]]:
    """The indices that slots and bound indices of a pattern may stand for: entries say most, the rest is tried."""
    open_ = {*slots, *pattern.bound}
    entries = [a for a, _ in pattern.factors if a.kind == "entry"]

    def bind(n: int, where: dict[Index, AnyIndex]) -> Iterator[dict[Index, AnyIndex]]:
        if n < len(entries):
            for atom, _ in mono.factors:
                if atom.kind == "entry" and atom.head is entries[n].head:
                    more = dict(where)
                    for mine, theirs in zip(entries[n].indices, atom.indices, strict=True):
                        if isinstance(mine, Index) and mine in open_ and more.setdefault(mine, theirs) != theirs:
                            break
                    else:
                        yield from bind(n + 1, more)
            return
        left = [i for i in (*slots, *pattern.bound) if i not in where]
        near = _near(mono)
        choices = [[i for i in near if i.size == x.size] for x in left]
        for way in itertools.product(*choices):
            yield {**where, **dict(zip(left, way, strict=True))}

    yield from bind(0, {})


def _near(mono: Mono) -> list[AnyIndex]:
    """The indices that a monomial speaks of, lookups too."""
    found: dict[AnyIndex, None] = {}

    def visit(atom: Atom) -> None:
        for index in atom.indices:
            found.update(dict.fromkeys((index, *parts(index))))
        for inner in atom.arg:
            for a, _ in inner.factors:
                visit(a)

    for atom, _ in mono.factors:
        visit(atom)
    inner = {b for a, _ in mono.factors for b in _bound_in(a)}
    return [i for i in found if not any(p in inner for p in parts(i))]


def _bound_in(atom: Atom) -> set[Index]:
    return {b for m in atom.arg for b in (*m.bound, *(x for a, _ in m.factors for x in _bound_in(a)))}


# -- masks that a letter implies -------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _implied(tensor: Tensor) -> tuple[tuple[Tensor, tuple[int, ...]], ...]:
    """The indicators that every monomial of a definition has, each with the slots that it is taken at."""
    slots, definition = tensor.definition
    body = flatten(definition)
    marks = [
        {(a.head, tuple(map(slots.index, a.indices))) for a, _ in m.factors if flat(a) and set(a.indices) <= set(slots)}
        for m in body
        if all(a.kind != "delta" for a, _ in m.factors)
    ]
    return tuple(set.intersection(*marks)) if marks and len(marks) == len(body) else ()  # type: ignore[arg-type]


def _masks(mono: Mono) -> dict[str, tuple[Atom, Tensor]]:
    """The indicators that the letters of a monomial imply, each with the letter."""
    found: dict[str, tuple[Atom, Tensor]] = {}
    for atom, _ in mono.factors:
        if atom.kind == "entry" and atom.head.body is not None:  # type: ignore[union-attr]
            for mask, slots in _implied(atom.head):  # type: ignore[arg-type]
                entry = Atom("entry", tuple(atom.indices[n] for n in slots), mask)
                found[label(entry)] = entry, atom.head  # type: ignore[assignment]
    return found


def unmasked(poly: Poly) -> tuple[Poly, set[Tensor]]:
    """Without the indicators that a letter beside them implies (M a = a), and the letters that were needed."""
    needed: set[Tensor] = set()
    out = []
    for mono in poly:
        implied = _masks(mono)
        gone = {key for a, _ in mono.factors if (key := label(a)) in implied}
        needed |= {implied[key][1] for key in gone}
        out.append(Mono(mono.coefficient, mono.bound, tuple(f for f in mono.factors if label(f[0]) not in gone)))
    return (tidy(tuple(out)), needed) if needed else (poly, needed)


def _masked(poly: Poly, chosen: Collection[Tensor]) -> tuple[Poly, set[Tensor]]:
    """With the ``chosen`` indicators that letters imply written beside them, for a rule that asks for them."""
    needed: set[Tensor] = set()
    out = []
    for mono in poly:
        more = [(atom, letter) for atom, letter in _masks(mono).values() if atom.head in chosen]
        needed |= {letter for _, letter in more}
        out.append(Mono(mono.coefficient, mono.bound, (*mono.factors, *((atom, ONE) for atom, _ in more))))
    return tidy(tuple(out)), needed


# -- the search ------------------------------------------------------------------------------------------------

Move = tuple[Poly, tuple[Tensor, ...], str]  # where it leads, the definitions that it rests on, and why it is true
Path = list[tuple[Term, tuple[Tensor, ...], str]]


def search(poly: Poly, folds: Sequence[Rule], opened: Collection[Tensor], pool: Pool) -> Path:
    """The cheapest term that moves lead to, as the terms on the way, each with what it rests on.

    ``opened`` are letters that a move may write out: adjoints, which may hide a shorter term.
    """
    count = itertools.count()
    start = written(poly, pool)
    heap: list[tuple[Fraction, int, Poly, Term, Path]] = [(cost(start, opened), next(count), poly, start, [])]
    met, done = {poly_key(poly)}, 0
    best: tuple[Fraction, int, Path] = heap[0][0], 0, []
    limit = best[0] + SLACK
    while heap and done < STATES:
        spent, _, poly, term, path = heapq.heappop(heap)
        done += 1
        if (spent, len(path)) < best[:2]:
            best = spent, len(path), path
        for new, tensors, why in _moves(poly, term, folds, opened, pool):
            clean, needed = unmasked(new)
            if (key := poly_key(clean)) in met:
                continue
            met.add(key)
            after = written(clean, pool)
            if (price := cost(after, opened)) <= limit:
                step = after, (*tensors, *needed.difference(tensors)), why
                heapq.heappush(heap, (price, next(count), clean, after, [*path, step]))
    return best[2]


def followed(term: Term, poly: Poly, folds: Sequence[Rule], opened: Collection[Tensor], pool: Pool) -> Path:
    """The way that a search found, if the canonical form can follow it; otherwise another one without that rule.

    The canonical form is not complete: a move may be right and yet have no proof in one step.
    """
    left, openings = list(folds), list(opened)
    while True:
        path, before = search(poly, left, openings, pool), term
        for after, tensors, why in path:
            if not same(*(rules.unfold(side, tensors) for side in (before, after))):
                kept = [r for r in left if r.why != why]
                openings = openings if len(kept) < len(left) else []
                left = kept
                break
            before = after
        else:
            return path


def _moves(poly: Poly, term: Term, folds: Sequence[Rule], opened: Iterable[Tensor], pool: Pool) -> Iterator[Move]:
    for rule in folds:
        if new := fold(poly, rule):
            yield new, rule.tensors, rule.why
        elif masks := {a.head for m in rule.body for a, _ in m.factors if a.kind == "entry" and flat(a)}:
            fuller, needed = _masked(poly, masks)  # type: ignore[arg-type]
            if needed and (new := fold(fuller, rule)):
                yield new, (*rule.tensors, *needed.difference(rule.tensors)), rule.why
    here = {a.head for m in poly for a, _ in m.factors}
    for tensor in opened:
        if tensor in here:
            slots = _slots(tensor, pool)
            why = f"{text(tensor(*slots))} = {text(named(tensor.unfold(slots), pool))}"
            yield tidy(flatten(rules.unfold(term, (tensor,)))), (tensor,), why
