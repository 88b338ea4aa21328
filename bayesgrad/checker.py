"""A second judge of every proof: one file that replays certificates and trusts nothing but Python's standard library.

    python -m bayesgrad.checker BOOK CERTIFICATE...        or, anywhere, python checker.py BOOK CERTIFICATE...

A **book** says what is claimed and what the letters mean. A **certificate** says why it is so. Both are JSON, and this
file shares no code with what wrote them. Whatever a certificate says, it cannot change a claim: statements,
hypotheses and definitions are read from the book, and a name of the book cannot be given again. What is printed as
proved is printed from the book too.

**A book** is ``{"format": 1, "sizes", "lookups", "tensors", "hypotheses", "claims", "labels"}``, each a table by name:

    sizes        true where a size has at least one position, false where it may be empty
    lookups      {"from": [size...], "to": size}: a function from positions to positions, such as a class label
    tensors      {"sizes": [size...], "kind": "real"|"nonnegative"|"positive"|"indicator"} and for a defined one
                 "slots": [index...], "body": term; for a function known by its gradient alone "through": [g, u], which
                 says dT/dg = u: T is one number, or has one entry for each entry of g and depends on that one alone
    hypotheses   {"type": "equation"|"at-most", "lhs", "rhs", "for": {index: size}, "at": {index: size}}: for all
                 positions of the indices under "for", at the position of the claim's own indices under "at"
    claims       {"type", "lhs", "rhs", "for": {index: size}, "given": [hypothesis...]} and by type
                   equation    lhs = rhs
                   at-most     lhs <= rhs; "tight": [[tensor, index or "*"...]...] or null: equality holds exactly
                               where all these entries are 0, "*" meaning every position
                   minimum     lhs >= 0 for positive "variable", with equality only where that is 1
                   witness     lhs "relation" rhs, one of = < >, at these "sizes", "at" positions (from 0) and "values"
                               of tensors and "lookups"
                   induction   lhs = rhs at every time t >= 1 for the tensors that are keys of "first" and "later",
                               which name them at t = 1 and one step later
    labels       the names of the claims that make up a result

**A certificate** is ``{"format": 1, "sizes", "lookups", "tensors", "hypotheses", "claims", "kinds", "proofs"}``. The
first five hold lemmas and helpers that no one else can see, written as in a book.

    kinds        why a tensor's definition is nonnegative where its form does not show it: {"by": at-most, "at": {index
                 of that: slot}} (it is the gap rhs - lhs), or {"by": minimum, "point": term} (its value there)
    proofs       by claim: {"steps": [step...]}; {"base": claim, "step": claim} for an induction; {} for a witness
    step         {"rule": "algebra", "after": term}                            equal by the laws of finite sums
                 {"rule": "definition", "after", "tensors": [...]}             these unfolded, on both sides
                 {"rule": "differentiate", "after", "tensors": [...]}          derivatives by these, or all, carried out
                 {"rule": "through", "after", "tensors": [...]}                the chain rule through these
                 {"rule": "rewrite", "after", "by", "context", "reverse"}      the context with the left side of an
                                                                               equation in its holes, then the right

A term is ``["num", "1/2"]``, ``["count", size]``, ``["entry", tensor, index...]``, ``["delta", i, j]``,
``["add", term...]``, ``["mul", term...]``, ``["pow", term, n]``, ``["sum", name, size, term]``,
``["exp"|"log"|"inv"|"tanh"|"sqrt", term]``, ``["diff", term, tensor, index...]``; in a context also
``["hole", index...]``, positions for the indices that the equation is known for. An index is a name or
``[lookup, index...]``.

**What a claim means.** For all sizes, all real values of free tensors within their kinds, all lookups, and all
positions of the indices under "for". inv(0) = 0. A claim that names a lookup speaks only of sizes where it exists. d/dT
of a defined T takes T as a variable of the expression; what is declared by "through" holds at the point in question, so
there are no second derivatives of it. ``docs/trusted-base.md`` says why the rules are right.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = 1
FUEL = 5_000_000  # steps of work for one proof; what needs more is refused, so that no certificate runs for ever
ONE = Fraction(1)
Term = tuple[Any, ...]


class Reject(Exception):
    """Why something proves nothing: one sentence."""


MALFORMED = (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError, RecursionError)


def need(condition: object, why: str) -> None:
    if not condition:
        raise Reject(why)


def reason(why: BaseException) -> str:
    return str(why) if isinstance(why, Reject) else f"malformed ({type(why).__name__}: {why!s:.80})"


_work = [FUEL]


def burn(amount: int = 1) -> None:
    _work[0] -= amount
    need(_work[0] > 0, "too much work for one proof")


# == 1. The language ===================================================================================================
#
# Terms are tuples as in the format, with the objects below in the place of names: ("entry", T, i, j), ("sum", i, t).


class Size:
    def __init__(self, name: str, nonempty: bool):
        self.name, self.nonempty = name, nonempty


class Lookup:
    def __init__(self, name: str, sizes: tuple[Size, ...], size: Size):
        self.name, self.sizes, self.size = name, sizes, size


class Var(NamedTuple):
    """A position of a size. One that a sum binds has a number for a name, which nothing else has."""

    name: Any
    size: Size


class At(NamedTuple):
    """The position that a lookup gives."""

    lookup: Lookup
    args: Term

    @property
    def size(self) -> Size:
        return self.lookup.size


class Tensor:
    """``deps`` are all tensors that it depends on, itself included; ``lookups`` all that definitions behind it use."""

    def __init__(self, name: str, sizes: tuple[Size, ...], j: dict[Any, Any]):
        self.name, self.sizes, self.kind, self.json = name, sizes, j["kind"], j
        self.slots, self.through = dict[str, Var](), tuple[Tensor, ...]()
        self.body: Any = None
        self.deps, self.lookups = {self}, set[Lookup]()


_numbers = itertools.count()


def new(size: Size) -> Var:
    return Var(next(_numbers), size)


def num(n: Any) -> Term:
    return "num", Fraction(n)


def minus(x: Term, y: Term) -> Term:
    return "add", x, ("mul", num(-1), y)


def parts(t: Term) -> list[Term]:
    """The terms directly inside."""
    return [x for x in t if type(x) is tuple]


def remake(t: Term, f: Callable[[Term], Term]) -> Term:
    """The same with f applied to the terms directly inside."""
    return tuple(f(x) if type(x) is tuple else x for x in t)


def nodes(t: Term) -> Iterator[Term]:
    yield t
    for x in parts(t):
        yield from nodes(x)


def has(t: Term, kind: str) -> bool:
    return any(x[0] == kind for x in nodes(t))


def things(x: Any, kind: type) -> Iterator[Any]:
    """Everything of a kind (Var, Tensor, Lookup, Size) that a term, an atom or a monomial names itself."""
    if isinstance(x, kind):
        yield x
    elif isinstance(x, tuple):
        for y in x:
            yield from things(y, kind)


def free(*terms: Term) -> set[Var]:
    return {i for i in things(terms, Var) if isinstance(i.name, str)}


def subst(x: Any, where: Mapping[Any, Any]) -> Any:
    """Positions replaced. Every index that a sum binds is made new, so nothing can be captured."""
    match x:
        case Var():
            return where.get(x, x)
        case "sum", i, b:
            k = new(i.size)
            return "sum", k, subst(b, {**where, i: k})
        case Mono(c, bound, factors):
            names = {i: new(i.size) for i in bound}
            return contract(Mono(c, tuple(names.values()), subst(factors, {**where, **names})))
        case At(lookup, args):
            return At(lookup, subst(args, where))
        case tuple():
            return type(x)(subst(y, where) for y in x)
    return x


def total(T: Tensor, body: Callable[..., Term]) -> Term:
    """The sum of body over all positions of the sizes of T."""
    ix = tuple(map(new, T.sizes))
    return reduce(lambda t, i: ("sum", i, t), reversed(ix), body(*ix))


def behind(T: Tensor) -> Term:
    """What a tensor is defined by, or a function of."""
    return (T.body,) if T.body else T.through


def reach(x: Any) -> set[Tensor]:
    """Every tensor that a term depends on, inside definitions too."""
    return set().union(*(T.deps for T in things(x, Tensor)))


def reach_beside(t: Term, cut: set[Tensor]) -> set[Tensor]:
    """Every tensor that a term depends on in some other way than through those of ``cut``, and these themselves."""
    found: set[Tensor] = set()
    todo: list[Any] = [t]
    while todo:
        for T in set(things(todo.pop(), Tensor)) - found:
            found.add(T)
            todo += behind(T) if T not in cut else ()
    return found


# == 2. Normal form ====================================================================================================
#
# A term becomes a sum of monomials: a number times a sum over bound indices of a product of atoms to powers. Atoms are
# ("entry", T, i...), ("delta", i, j), ("count", size), ("exp", p), ("log", p), ("inv", p) and ("diff", p, T, i...) with
# a Poly p. A power is a positive whole number; an atom that is positive by its kind can have any rational power.


class Mono(NamedTuple):
    coefficient: Fraction
    bound: Term
    factors: Term  # of (power, atom)


class Poly(Term):
    """Monomials whose sum it is. ``tidy`` says that like ones have been added up."""

    tidy = False


def number(c: Fraction) -> list[Mono]:
    return [Mono(c, (), ())] if c else []


def single(atom: Term, power: Fraction = ONE) -> list[Mono]:
    return [contract(Mono(ONE, (), ((power, atom),)))]


def poly(t: Term) -> list[Mono]:
    burn()
    match t:
        case "num", v:
            return number(v)
        case (("count" | "entry" | "delta"), *_):
            return single(t)
        case "add", *ts:
            monos = [m for x in ts for m in poly(x)]
            return number(sum((m[0] for m in monos if not any(m[1:])), Fraction(0))) + [m for m in monos if any(m[1:])]
        case "mul", *ts:
            return product(map(poly, ts))
        case "pow", b, n:
            return product([poly(b)] * n)
        case "sum", i, b:
            k = new(i.size)
            return [contract(Mono(c, (k, *bound), factors)) for c, bound, factors in poly(subst(b, {i: k}))]
        case "exp", a:
            return product(map(exp_of, collect(poly(a))))
        case "inv", ("mul", *ts):
            return product(poly(("inv", x)) for x in ts)
        case "inv", ("pow", b, n):
            return product([poly(("inv", b))] * n)
        case "inv", a:
            return inv_of(collect(poly(a)))
        case "log", a:
            return log_of(collect(poly(a)))
        case "diff", b, *variable:
            return single(("diff", collect(poly(b)), *variable))
    raise Reject(f"{t[0]} has no value")


def product(polys: Iterable[Sequence[Mono]]) -> list[Mono]:
    out = number(ONE)
    for p in polys:
        out = [m for x in out for m in within(x, p)]
    return out


def within(m: Mono, p: Sequence[Mono]) -> list[Mono]:
    """A monomial times a polynomial that may speak of its bound indices."""
    burn(len(p))
    return [contract(Mono(m[0] * x[0], m[1] + x[1], m[2] + x[2])) for x in (subst(y, {}) for y in p)]


def contract(m: Mono) -> Mono:
    """sum_j delta(i, j) f(j) = f(i);  delta(i, i) = 1;  delta(i, j) f(i) = delta(i, j) f(j) for indices of outside."""
    c, bound, factors = m
    for n, (_, atom) in enumerate(factors):
        rest = factors[:n] + factors[n + 1 :]
        for old, put in (atom[1:], atom[:0:-1]) if atom[0] == "delta" else ():
            if old == put:
                return contract(Mono(c, bound, rest))
            if old in bound and old not in things(put, Var):
                return contract(Mono(c, tuple(b for b in bound if b != old), subst(rest, {old: put})))
            outside = set(bound).isdisjoint(things((old, put), Var)) and old not in things(put, Var)
            if outside and rank(put) < rank(old) and old in things(rest, Var):
                return contract(Mono(c, bound, (factors[n], *subst(rest, {old: put}))))
    return m


def rank(i: Var | At) -> Term:
    return (0,) if isinstance(i, At) else (1 + isinstance(i.name, int), i.name)


def tally(pairs: Iterable[tuple[Fraction, Any]]) -> list[tuple[Fraction, Any]]:
    """(number, thing) pairs with the numbers of equal things added up, and zeros gone."""
    out: list[list[Any]] = []
    for n, x in pairs:
        like = next((f for f in out if same(f[1], x)), None)
        if like is None:
            out.append([n, x])
        else:
            like[0] += n
    return [(n, x) for n, x in out if n]


def tidy(m: Mono) -> Mono:
    """Equal atoms of a monomial become one power, and a bound index that nothing depends on a count."""
    atoms = ((power, tuple(collect(x) if isinstance(x, Poly) else x for x in a)) for power, a in m.factors)
    factors = tuple((ONE if square(a) else power, a) for power, a in tally(atoms))
    used = set(things(factors, Var))
    if idle := [b for b in m.bound if b not in used]:
        counts = ((ONE, ("count", b.size)) for b in idle)
        return tidy(Mono(m.coefficient, tuple(b for b in m.bound if b in used), (*factors, *counts)))
    return Mono(m.coefficient, m.bound, factors)


def square(a: Term) -> bool:
    """0 or 1, so equal to its square."""
    return bool(a[0] == "delta" or (a[0] == "entry" and a[1].kind == "indicator"))


def collect(p: Sequence[Mono]) -> Poly:
    """Like monomials added up, zeros gone, and positive sums cancelled."""
    if isinstance(p, Poly) and p.tidy:
        return p
    groups: dict[str, list[Any]] = {}
    todo = list(p)
    while todo:
        m = tidy(todo.pop())
        if more := cancelled(m):
            todo += more
        else:
            unit = m._replace(coefficient=ONE)
            groups.setdefault(shape(unit), []).append((m.coefficient, unit))
    out = Poly(m._replace(coefficient=c) for _, group in sorted(groups.items()) for c, m in tally(group))
    out.tidy = True
    return out


def loose(x: Term) -> bool:
    """Whether the order of what stands in it means nothing."""
    return isinstance(x, Poly) or x[:1] == ("delta",)


def shape(x: Any) -> str:
    """Equal for what is the same but for names of bound indices. It saves comparisons, and says what comes first."""
    if isinstance(x, Var):
        return x.size.name
    if isinstance(x, Mono):
        return f"{x.coefficient}{sorted(map(shape, x.bound))}{sorted(map(shape, x.factors))}"
    if isinstance(x, tuple):
        return str([*map(shape, x)] if not loose(x) else sorted(map(shape, x)))
    return getattr(x, "name", None) or str(x)


def cancelled(m: Mono) -> list[Mono]:
    """inv(P) P = 1 for a positive sum P; so inv(P) l = 1 - inv(P) r, l being the leading summand and r the rest. An
    empty list says that there is nothing to do."""
    for power, atom in m.factors:
        if atom[0] == "inv" and positive(atom[1]):
            *others, first = sorted(atom[1], key=order)
            if power <= -1:
                return within(m._replace(factors=(*m.factors, (ONE, atom))), atom[1])
            if power > 0 and (not others or order(others[-1]) < order(first)) and (q := divided(m, first)):
                less = q._replace(coefficient=-q.coefficient)
                return [q._replace(factors=(*q.factors, (-ONE, atom))), *within(less, others)]
    return []


def order(m: Mono) -> Term:
    return sum(abs(n) for n, _ in m.factors) + len(m.bound), shape(m._replace(coefficient=ONE))


def divided(m: Mono, by: Mono) -> Mono | None:
    """m / by, where all that ``by`` is a product of stands in m."""
    alone, groups = pieces(by)
    bound, left = m.bound, [*m.factors]
    for power, atom in alone:
        hit = next((f for f in left if same(f[1], atom) and f[0] / power >= 1), None)
        if hit is None:
            return None
        left[left.index(hit)] = hit[0] - power, hit[1]
    for group in groups:
        rest = pieces(Mono(ONE, bound, tuple(f for f in left if f[0])))[1]
        found = next((g for g in rest if same(g, group)), None)
        if found is None:
            return None
        bound = tuple(b for b in bound if b not in found.bound)
        left = [f for f in left if f not in found.factors]
    return Mono(m.coefficient / by.coefficient, bound, tuple(left))


def zero(p: Sequence[Mono]) -> bool:
    """Whether a polynomial is 0 everywhere; a denominator that is positive everywhere is multiplied out."""
    while p := collect(p):
        below = [(a, m.bound) for m in p for n, a in m.factors if a[0] == "inv" and n > 0 and positive(a[1])]
        atom = next((a for a, bound in below if set(bound).isdisjoint(things(a, Var))), None)
        if atom is None:
            return False
        most = max(n for m in p for n, a in m.factors if same(a, atom))
        p = product([p, single(atom, Fraction(-math.ceil(most)))])
    return True


def equal(left: Term, right: Term) -> bool:
    """Whether two terms are equal by all this. A product below 1/ is taken apart, or else multiplied out."""
    gap = minus(left, right)
    return zero(poly(gap)) or zero(poly(multiplied_out(gap)))


def multiplied_out(t: Term) -> Term:
    t = remake(t, multiplied_out)
    return ("inv", ("add", t[1])) if t[0] == "inv" else t


# == 3. Matching =======================================================================================================
#
# Every way to pair the bound indices of two things that makes them one. Pairs are two partial maps, there and back;
# None stands for an index that is bound and not yet paired. Indices outside the maps match themselves alone.


def same(x: Any, y: Any) -> bool:
    return x == y or next(pairings(x, y, ({}, {})), None) is not None


def pairings(x: Any, y: Any, pairs: Term) -> Iterator[Term]:
    burn()
    there, back = pairs
    match x, y:
        case Var(), Var():
            if there.get(x) == y or (x == y and x not in there and y not in back):
                yield pairs
            elif there.get(x, y) is None and back.get(y, x) is None and x.size is y.size:
                yield {**there, x: y}, {**back, y: x}
        case Mono(c, bound, factors), Mono(d, others, more):
            opened = {**there, **dict.fromkeys(bound)}, {**back, **dict.fromkeys(others)}
            if c == d and len(bound) == len(others):
                for now, then in lists(factors, more, opened, False):
                    if {*map(now.get, bound)} == {*others}:  # not with an index of a sum around this one
                        yield {i: now[i] for i in there}, {i: then[i] for i in back}
        case tuple(), tuple() if type(x) is type(y):
            yield from lists(x, y, pairs, not loose(x))
        case _ if x == y:
            yield pairs


def lists(xs: Sequence[Any], ys: Sequence[Any], pairs: Term, in_order: bool) -> Iterator[Term]:
    if not xs and not ys:
        yield pairs
    elif len(xs) == len(ys):
        for n, y in enumerate(ys[:1] if in_order else ys):
            for more in pairings(xs[0], y, pairs):
                yield from lists(xs[1:], (*ys[:n], *ys[n + 1 :]), more, in_order)


# == 4. exp, log, inv and signs ========================================================================================


def exp_of(m: Mono) -> list[Mono]:
    """exp of one monomial c x is exp(x) to the power c; exp(c log x) = x^c for x > 0."""
    match m:
        case Mono(c, (), ((1, ("log", (Mono(1, (), ((power, atom),)),) as p)),)) if positive(p):
            return single(atom, power * c)
        case Mono(c, (), ((1, ("log", p)),)) if positive(p):
            return single(("inv", p), -c)
    return single(("exp", collect([m._replace(coefficient=ONE)])), m.coefficient)


def inv_of(p: Poly) -> list[Mono]:
    """inv(x y) = inv(x) inv(y), inv(inv(x)) = x, and inv(x) = x for x = 0, 1; all hold with inv(0) = 0."""
    if len(p) != 1:
        common, rest = content(p)
        return product([inv_of(common), single(("inv", rest))]) if p else []
    alone, groups = pieces(p[0])
    out: list[Sequence[Mono]] = [number(1 / p[0].coefficient)]
    for power, atom in alone:
        if atom[0] == "inv" and power > 0 and power.denominator == 1:
            out += [atom[1]] * int(power)
        elif square(atom) or surely(atom):
            out.append(single(atom, power if square(atom) else -power))
        else:
            out.append(single(("inv", collect(single(atom))), power))
    return product(out + [single(("inv", collect([g]))) for g in groups])


def log_of(p: Poly) -> list[Mono]:
    """log of a product of positive factors is the sum of their logs; log exp x = x, log inv x = -log x."""
    if not positive(p):
        return single(("log", p))
    if len(p) != 1:
        common, rest = content(p)
        return log_of(common) + single(("log", rest))
    alone, groups = pieces(p[0])
    logs = [(ONE, single(("log", collect([g])))) for g in groups]
    for whole, sign in ((p[0].coefficient.numerator, ONE), (p[0].coefficient.denominator, -ONE)):
        logs += [(sign, single(("log", collect(number(Fraction(x)))))) for x in primes(whole)]
    for power, atom in alone:
        inner = log_of(atom[1]) if atom[0] == "inv" else single(("log", collect(single(atom))))
        logs.append((-power if atom[0] == "inv" else power, atom[1] if atom[0] == "exp" else inner))
    return [m for c, log in logs for m in product([number(c), log])]


def primes(whole: int) -> Iterator[int]:
    for divisor in itertools.count(2):
        burn()
        while whole % divisor == 0:
            yield divisor
            whole //= divisor
        if whole == 1:
            return


def content(p: Poly) -> tuple[Poly, Poly]:
    """A sum as one monomial times a sum whose summands have no number and no atom in common."""
    loose = [pieces(m)[0] for m in p]
    shared = []
    for _, atom in tally((ONE, a) for one in loose for _, a in one if a[0] != "delta"):
        least = min(sum(n for n, a in one if same(a, atom)) for one in loose)
        shared += [(Fraction(least), atom)] if least > 0 or surely(atom) else []
    c = Fraction(math.gcd(*(m[0].numerator for m in p)), math.lcm(*(m[0].denominator for m in p)))
    less = tuple((-n, a) for n, a in shared)
    return collect([Mono(c, (), tuple(shared))]), collect([Mono(m[0] / c, m[1], m[2] + less) for m in p])


def pieces(m: Mono) -> tuple[list[Any], list[Mono]]:
    """The factors without bound indices, and one monomial for each group of others that bound indices tie together."""
    alone: list[Any] = []
    groups: list[tuple[set[Var], Term]] = [({b}, ()) for b in m.bound]
    for f in m.factors:
        hit = [g for g in groups if not g[0].isdisjoint(things(f, Var))]
        tied = set().union(*(g[0] for g in hit)), (*(x for g in hit for x in g[1]), f)
        groups = [g for g in groups if g not in hit] + ([tied] if hit else [])
        alone += [] if hit else [f]
    return alone, [Mono(ONE, tuple(b for b in m.bound if b in g[0]), g[1]) for g in groups]


def surely(a: Term) -> bool:
    """Whether an atom is positive by its kind."""
    positive_letter = (a[0] == "entry" and a[1].kind == "positive") or (a[0] == "count" and a[1].nonempty)
    return a[0] == "exp" or positive_letter or (a[0] == "inv" and positive(a[1]))


def positive(p: Sequence[Mono]) -> bool:
    """Greater than 0 by the kinds of the parts, for all sizes: no summand is negative and one is positive."""
    strict = (all(b.size.nonempty for b in m.bound) and all(surely(a) for _, a in m.factors) for m in p)
    return not_negative(p) and any(strict)


def not_negative(p: Sequence[Mono]) -> bool:
    def good(power: Fraction, a: Term) -> bool:
        by_kind = surely(a) or square(a) or a[0] == "count" or (a[0] == "entry" and a[1].kind != "real")
        return by_kind or power % 2 == 0 or (a[0] == "inv" and not_negative(a[1]))

    monos = p if isinstance(p, Poly) and p.tidy else map(tidy, p)
    return all(m.coefficient > 0 and all(good(*f) for f in m.factors) for m in monos)


def settled(p: Sequence[Mono]) -> bool:
    """Greater than 0 for all values of the tensors, or 0 for all values of those that are no indicators."""
    flat = (m.coefficient > 0 and all(surely(a) or square(a) or a[0] == "count" for _, a in m.factors) for m in p)
    return positive(p) or all(flat)


# == 5. Rules ==========================================================================================================


def unfold(t: Term, chosen: set[Tensor]) -> Term:
    """The entries of some tensors replaced by their definitions, except inside a derivative by that tensor."""
    match t:
        case "entry", T, *ix if T in chosen:
            burn()
            return unfold(subst(T.body, dict(zip(T.slots.values(), ix, strict=True))), chosen)
        case "diff", b, T, *ix:
            return "diff", unfold(b, chosen - {T}), T, *ix
    return remake(t, lambda x: unfold(x, chosen))


def expanded(t: Term, variable: Tensor | None = None) -> Term:
    return unfold(t, {T for T in reach(t) if T.body and T is not variable})


def derivative(t: Term, V: Tensor, at: Term) -> Term:
    """d t / d V(at): one pass. Derivatives of defined tensors stay as they are."""
    d: Callable[[Term], Term] = lambda x: derivative(x, V, at)
    if V not in reach(t):
        return num(0)
    match t:
        case "entry", T, *ix if T is V:
            return "mul", num(1), *(("delta", i, j) for i, j in zip(ix, at, strict=True))
        case "entry", T, *ix if T.through:
            g, u = T.through
            pull: Callable[..., Term] = lambda *r: ("mul", ("entry", u, *r), ("diff", ("entry", g, *r), V, *at))
            return pull(*ix) if T.sizes else total(g, pull)
        case (("entry" | "diff"), *_):
            return "diff", t, V, *at
        case "add", *ts:
            return "add", *map(d, ts)
        case "mul", *ts:
            return "add", *(("mul", *ts[:n], d(x), *ts[n + 1 :]) for n, x in enumerate(ts))
        case "pow", b, n:
            return d(("mul", *[b] * n))
        case "sum", i, b:
            k = new(i.size)
            return "sum", k, d(subst(b, {i: k}))
        case "exp", a:
            return "mul", t, d(a)
        case "log", a:
            need(surely_positive(a), "log is differentiated where it may not be positive")
            return "mul", ("inv", a), d(a)
        case "inv", a:
            good = positive(poly(a)) or settled(poly(expanded(a, V)))
            need(good, "inv is differentiated where it may be 0 without being 0 throughout")
            return "mul", num(-1), t, t, d(a)
    raise Reject(f"no derivative of {t[0]}")


def surely_positive(t: Term) -> bool:
    """Whether a term is positive by the kinds of its letters, or of what they are defined by."""
    return positive(poly(t)) or positive(poly(expanded(t)))


def carry_out(t: Term, variables: set[Tensor]) -> Term:
    """The derivatives by some tensors, or all, carried out from the inside: one pass."""
    if t[0] == "diff":
        _, body, V, *at = t
        body = carry_out(body, variables)
        return derivative(body, V, tuple(at)) if not variables or V in variables else ("diff", body, V, *at)
    return remake(t, lambda x: carry_out(x, variables))


def through(t: Term, middles: set[Tensor]) -> Term:
    """The chain rule: each derivative of a term that depends on its variable through the middles alone."""
    for one, other in itertools.permutations(middles, 2):
        need(other not in one.deps, "tensors in the middle depend on one another")
    need(all(T.kind != "indicator" for T in middles), "a derivative by an indicator")

    def visit(t: Term) -> Term:
        if t[0] != "diff":
            return remake(t, visit)
        _, body, V, *at = t
        if V in middles or (body[0] == "entry" and body[1] in middles):
            return t
        beside = reach_beside(body, middles)
        need(V not in beside, "the term depends on the variable beside the middles")
        opened = [body, *(T.body for T in beside - middles if T.body)]
        need(not any(has(x, "diff") for x in opened), "the chain rule for a derivative that was not carried out")
        link: Callable[..., Term] = lambda *r, M: ("mul", ("diff", body, M, *r), ("diff", ("entry", M, *r), V, *at))
        return "add", *(total(M, partial(link, M=M)) for M in middles)

    return visit(t)


def plug(t: Term, side: Term, at: Sequence[Var], inside: bool) -> Term:
    """A context with one side of an equation in its holes."""
    if t[0] == "hole":
        return tuple(subst(side, dict(zip(at, t[1:], strict=True))))
    closed = t[0] == "diff" and (not inside or t[2].body)
    need(not closed or not has(t, "hole"), "a hole inside a derivative")
    return remake(t, lambda x: plug(x, side, at, inside))


def fill(t: Term, values: Mapping[Tensor, Callable[..., Term]]) -> Term:
    """Tensors replaced by functions of their indices; what stands in definitions stays."""
    if t[0] == "entry" and t[1] in values:
        return values[t[1]](*t[2:])
    return remake(t, lambda x: fill(x, values))


def nonnegative(t: Term) -> bool:
    """At least 0 by its form: sums and products of squares, exps, declared nonnegatives."""
    match t:
        case "num", v:
            return bool(v >= 0)
        case "entry", T, *_:
            return bool(T.kind != "real")
        case "pow", b, n:
            return n % 2 == 0 or nonnegative(b)
    sums = t[0] in ("add", "mul", "sum", "inv") and all(map(nonnegative, parts(t)))
    return sums or t[0] in ("count", "delta", "exp")


def vanishes_with(t: Term, tight: Sequence[tuple[Tensor, list[Any]]]) -> bool:
    """Whether t is a sum of positive multiples of just the entries that ``tight`` names, all of them among these."""
    met: set[int] = set()

    def summand(t: Term, bound: set[Var]) -> bool:
        match t:
            case "add", *ts:
                return all(summand(x, bound) for x in ts)
            case "sum", i, b:
                return summand(b, bound | {i})
            case "entry", T, *ix if T.kind == "nonnegative":
                running = [i for i in ix if i in bound]
                every = len(running) == len(bound) == len({*running})
                here = [n for n, row in enumerate(tight) if row == (T, ["*" if i in bound else i for i in ix])]
                met.update(here)
                return every and bool(here)
            case "mul", *_:
                carriers = [f for f in factors(t) if not surely_positive(f)]
                return len(carriers) == 1 and summand(carriers[0], bound)
        return False

    def factors(t: Term) -> list[Term]:
        return [f for x in parts(t) for f in factors(x)] if t[0] == "mul" else [t]

    return summand(t, set()) and len(met) == len(tight)


def slope(t: Term) -> bool:
    """Whether a term holds a derivative of a function of which only the gradient is known, in definitions too."""
    opened = [t, *(T.body for T in reach(t) if T.body)]
    return any(x[0] == "diff" and any(T.through for T in reach(x[1])) for o in opened for x in nodes(o))


def curvature(t: Term) -> bool:
    return any(x[0] == "diff" and slope(x[1]) for x in nodes(t))


# == 6. Written-out instances ==========================================================================================


def explicit(t: Term, sizes: Mapping[Any, Any], values: Mapping[Any, Any], at: Mapping[Any, Any]) -> Term:
    """A term written out: numbers, and sums, products, powers, exp, log and inv of them. Equal entries are shared."""
    known: dict[Term, Term] = {}

    def place(i: Any, here: Mapping[Any, Any]) -> int:
        where: int = here[i] if isinstance(i, Var) else pick(values[i.lookup], [place(a, here) for a in i.args])
        need(type(where) is int and 0 <= where < sizes[i.size], "a position is out of range")
        return where

    def visit(t: Term, here: Mapping[Any, Any]) -> Term:
        burn()
        match t:
            case "count", size:
                return num(sizes[size])
            case "delta", i, j:
                return num(place(i, here) == place(j, here))
            case "sum", i, b:
                return "add", *(visit(b, {**here, i: n}) for n in range(sizes[i.size]))
            case "entry", T, *ix:
                at_ = [place(i, here) for i in ix]
                if (T, *at_) not in known:
                    by_value = T in values and num(pick(values[T], at_, T.kind))
                    known[T, *at_] = by_value or visit(T.body, dict(zip(T.slots.values(), at_, strict=True)))
                return known[T, *at_]
        need(t[0] != "diff", "a derivative in a written-out instance")
        return remake(t, lambda x: visit(x, here))

    return visit(t, at)


def pick(table: Any, where: Sequence[int], kind: str = "") -> Any:
    """What stands at some place of a table: a position, or a number of the kind."""
    for n in where:
        need(isinstance(table, list), "a value for another number of indices")
        table = table[n]
    v = exact(table) if kind else table
    need({"nonnegative": v >= 0, "positive": v > 0, "indicator": v in (0, 1)}.get(kind, True), f"{v} is not {kind}")
    return v


# An interval is two whole numbers that enclose a real one, in units of 1/UNIT; every operation rounds outwards.

UNIT = 2**256
Interval = tuple[int, int]


def outward(ends: Iterable[int], by: int) -> Interval:
    return min(ends := [*ends]) // by, -(-max(ends) // by)


def plus(*xs: Interval) -> Interval:
    return sum(x[0] for x in xs), sum(x[1] for x in xs)


def times(*xs: Interval) -> Interval:
    out = UNIT, UNIT
    for x in xs:
        out = outward((a * b for a in out for b in x), UNIT)
    return out


def interval(t: Term, known: dict[int, Interval]) -> Interval:
    """What encloses the value of a written-out term; ``known`` holds that of parts that it shares."""
    if id(t) not in known:
        burn(100)
        known[id(t)] = enclose(t, [interval(x, known) for x in parts(t)])
    return known[id(t)]


def enclose(t: Term, inner: list[Interval]) -> Interval:
    if t[0] == "num":
        return outward([t[1].numerator * UNIT], t[1].denominator)
    if t[0] == "add":
        return plus(*inner)
    if t[0] in ("mul", "pow"):
        return times(*inner * (t[2] if t[0] == "pow" else 1))
    ((lo, hi),) = inner
    if t[0] == "exp":
        return exp_at(lo)[0], exp_at(hi)[1]
    need((lo > 0 and t[0] in ("log", "inv")) or (hi < 0 and t[0] == "inv"), f"{t[0]} of a number that may be 0 or less")
    return (log_at(lo)[0], log_at(hi)[1]) if t[0] == "log" else (UNIT**2 // hi, -(-(UNIT**2) // lo))


def exp_at(x: int) -> Interval:
    """exp by 64 terms of its series at |y| <= 1/2, of which less than one unit is left, then squares."""
    need(abs(x) <= 1000 * UNIT, "exp of too large a number")
    terms, y = [(UNIT, UNIT)], outward([x], 2**11)
    for n in range(1, 64):
        terms.append(outward(times(terms[-1], y), n))
    out = plus(*terms, (-1, 1))
    for _ in range(11):
        out = times(out, out)
    return out


def log_at(x: int) -> Interval:
    """log by a guess, improved twice, of which exp shows that it is near enough."""
    guess, slack = int(math.log(x / UNIT) * 2**64) * 2**192, 2**100
    for _ in range(2):
        e = exp_at(guess)[0]
        guess += 2 * UNIT * (x - e) // (x + e)
    need(exp_at(guess - slack)[1] <= x <= exp_at(guess + slack)[0], "log is not found")
    return guess - slack, guess + slack


# == 7. Reading ========================================================================================================

NAME = re.compile(r"[^\s\[\](){},;:=<>+·/|^*ΣδΔ∂∈≤≥\-][^\s\[\](){},;=<>+·/|^*Σδ∂∈≤≥]*")
NUMBER = re.compile(r"-?[0-9]{1,400}(/[1-9][0-9]{0,400})?")
TABLES = ("sizes", "lookups", "tensors", "hypotheses", "claims")


def exact(text: Any) -> Fraction:
    need(isinstance(text, str) and NUMBER.fullmatch(text), f"{text!r:.40} is no exact number")
    return Fraction(text)


class Claim:
    """A claim or a hypothesis.

    ``scope`` are its indices by name; ``own`` those that it is known for all positions of, as something to rewrite by:
    of the others (``at``) it, or what it assumes, speaks of one position. ``lookups`` are those that exist wherever it
    says anything.
    """

    def __init__(self, name: str, j: Any, sides: list[Term], scope: dict[str, Var], at: set[Var], given: Any):
        self.name, self.json, self.type, (self.lhs, self.rhs) = name, j, j["type"], sides
        self.scope, self.at = scope, at
        self.given: tuple[Claim, ...] = given
        self.more: dict[str, Any] = {}
        self.own = [i for i in scope.values() if i not in at]
        self.sides = (*sides, *(side for h in given for side in (h.lhs, h.rhs)))
        self.lookups = {*things(self.sides, Lookup)}.union(*(T.lookups for T in reach(self.sides)))


class Tables:
    """The names of a book, or of a certificate, which has those of the book as well and cannot give them again."""

    def __init__(self, j: Any, book: Tables | None = None):
        need(j["format"] == FORMAT, f"format {j['format']!r:.20}, expected {FORMAT}")
        self.sizes, self.lookups, self.tensors = dict[str, Size](), dict[str, Lookup](), dict[str, Tensor]()
        self.hypotheses, self.claims = dict[str, Claim](), dict[str, Claim]()
        for table in TABLES:
            names = getattr(self, table)
            names.update(getattr(book, table, {}))
            for name, entry in j[table].items():
                try:
                    need(name not in names and (table == "claims" or NAME.fullmatch(name)), "no name, or a taken one")
                    names[name] = getattr(self, f"read_{table}")(name, entry)
                except (Reject, *MALFORMED) as why:
                    raise Reject(f"{table}: {name}: {reason(why)}") from None

    def read_sizes(self, name: str, nonempty: Any) -> Size:
        need(type(nonempty) is bool, "true or false is expected")
        return Size(name, nonempty)

    def read_lookups(self, name: str, j: Any) -> Lookup:
        return Lookup(name, tuple(self.sizes[s] for s in j["from"]), self.sizes[j["to"]])

    def read_tensors(self, name: str, j: Any) -> Tensor:
        need({*j} <= {"sizes", "kind", "slots", "body", "through"}, "a key that says nothing of a tensor")
        T = Tensor(name, tuple(self.sizes[s] for s in j["sizes"]), j)
        need(T.kind in ("real", "nonnegative", "positive", "indicator"), f"kind {T.kind!r:.20}")
        if "body" in j:
            T.slots = self.positions(dict(zip(j["slots"], j["sizes"], strict=True)), bound=True)
            need(len(T.slots) == len(T.sizes), "a slot is named twice")
            T.body = self.term(j["body"], T.slots)
            need(not curvature(T.body), "a second derivative of a function known by its gradient")
        if "through" in j:
            g, u = T.through = tuple(self.tensors[x] for x in j["through"])
            need(not T.body and T.kind != "indicator", "a function known by its gradient has no definition")
            need(g.sizes == u.sizes and T.sizes in ((), g.sizes), "a gradient of another shape")
        T.deps |= reach(behind(T))
        T.lookups = {*things(behind(T), Lookup)}.union(*(U.lookups for U in T.deps))
        return T

    def read_hypotheses(self, name: str, j: Any) -> Claim:
        need(j["type"] in ("equation", "at-most") and not {*j["for"]} & {*j["at"]}, "no hypothesis, or an index twice")
        scope = self.positions(j["for"] | j["at"])
        sides = [self.term(j[side], scope) for side in ("lhs", "rhs")]
        return Claim(name, j, sides, scope, {scope[i] for i in j["at"]}, ())

    def read_claims(self, name: str, j: Any) -> Claim:
        scope, given = self.positions(j["for"]), tuple(self.hypotheses[h] for h in j["given"])
        at = set().union(*(h.at for h in given))
        need(at <= {*scope.values()}, "a hypothesis at a position that is none of the claim's")
        claim = Claim(name, j, [self.term(j[side], scope) for side in ("lhs", "rhs")], scope, at, given)
        named: Callable[..., dict[Any, Any]] = lambda table, key: {table[k]: v for k, v in j[key].items()}
        match claim.type:
            case "at-most":
                star: Callable[[Any], Any] = lambda i: "*" if i == "*" else self.index(i, scope)
                rows = [(self.tensors[T], [*map(star, ix)]) for T, *ix in j["tight"] or ()]
                fits = (i == "*" or i.size is s for T, ix in rows for i, s in zip(ix, T.sizes, strict=True))
                need(all(fits), "tight: an index of another size")
                claim.more["tight"] = None if j["tight"] is None else rows
            case "minimum":
                claim.more["variable"] = self.tensors[j["variable"]]
            case "witness":
                values = named(self.tensors, "values") | named(self.lookups, "lookups")
                claim.more |= {"relation": j["relation"], "sizes": named(self.sizes, "sizes"), "values": values}
                claim.more["at"] = named(scope, "at")
            case "induction":
                for key in ("first", "later"):
                    claim.more[key] = {T: self.tensors[x] for T, x in named(self.tensors, key).items()}
            case other:
                need(other == "equation", f"a claim of no known type: {other!r:.20}")
        return claim

    def positions(self, j: Mapping[str, Any], bound: bool = False) -> dict[str, Var]:
        need(all(NAME.fullmatch(i) for i in j), "an index without a name")
        return {i: new(self.sizes[s]) if bound else Var(i, self.sizes[s]) for i, s in j.items()}

    def index(self, j: Any, env: Mapping[str, Var]) -> Var | At:
        if isinstance(j, list):
            return At(self.lookups[j[0]], tuple(self.fit(j[0], self.lookups[j[0]].sizes, j[1:], env)))
        need(j in env, f"{j!r:.40} is no index here")
        return env[j]

    def fit(self, what: str, sizes: Sequence[Size], js: Sequence[Any], env: Mapping[str, Var]) -> list[Any]:
        ix = [self.index(j, env) for j in js]
        need([i.size for i in ix] == [*sizes], f"{what}: an index of another size, or another number of them")
        return ix

    def term(self, j: Any, env: Mapping[str, Var], hole: Sequence[Size] | None = None) -> Term:
        """A term; ``hole`` holds the sizes of the indices of a hole where one may stand."""
        go: Callable[[Any], Term] = lambda x: self.term(x, env, hole)
        match j:
            case ["num", v]:
                return num(exact(v))
            case ["count", size]:
                return "count", self.sizes[size]
            case ["entry", T, *ix]:
                return "entry", self.tensors[T], *self.fit(T, self.tensors[T].sizes, ix, env)
            case ["delta", x, y]:
                return "delta", *self.fit("delta", [self.index(x, env).size] * 2, [x, y], env)
            case ["add" | "mul" as kind, *ts] if ts:
                return kind, *map(go, ts)
            case ["pow", b, n]:
                need(type(n) is int and 0 < n <= 100, f"power {n!r:.20}")
                return "pow", go(b), n
            case ["sum", name, size, b]:
                need(name not in env, f"a sum over {name}, which is another index here")
                here = self.positions({name: size}, bound=True)
                return "sum", here[name], self.term(b, {**env, **here}, hole)
            case ["exp" | "log" | "inv" as kind, a]:
                return kind, go(a)
            case ["tanh", a]:
                return minus(num(1), ("mul", num(2), ("inv", ("add", ("exp", ("mul", num(2), go(a))), num(1)))))
            case ["sqrt", a]:
                return "exp", ("mul", num("1/2"), ("log", go(a)))
            case ["diff", b, T, *ix]:
                need(self.tensors[T].kind != "indicator", "a derivative by an indicator")
                return "diff", go(b), self.tensors[T], *self.fit(T, self.tensors[T].sizes, ix, env)
            case ["hole", *ix] if hole is not None:
                return "hole", *self.fit("hole", hole, ix, env)
        raise Reject(f"no term: {j!r:.60}")


# == 8. Proofs =========================================================================================================


class Proof:
    """The check of one claim. What it rests on is noted in ``leans``, and is for others to have proved."""

    def __init__(self, tables: Tables, kinds: Mapping[str, Any], claim: Claim):
        self.tables, self.kinds, self.claim = tables, kinds, claim
        self.leans: set[Claim] = set()
        self.vetted: set[Tensor] = set()
        self.at = 0  # the step that is looked at

    def check(self, j: Any) -> None:
        """Raises Reject unless ``j`` proves the claim, given what it leans on."""
        claim = self.claim
        self.sound(*claim.sides)
        if claim.type == "witness":
            return self.witness(**claim.more)
        if claim.type == "induction":
            return self.induction(self.tables.claims[j["base"]], self.tables.claims[j["step"]], **claim.more)
        last = minus(claim.rhs, claim.lhs) if claim.type == "at-most" else claim.lhs
        for self.at, step in enumerate(j["steps"], 1):
            last = self.step(last, step)
        self.at = 0
        if claim.type == "minimum":
            return self.minimum(claim.more["variable"])
        tight, bound = claim.more.get("tight"), claim.type == "at-most"
        need(bound or equal(last, claim.rhs), "the chain does not arrive at the right side")
        need(not bound or nonnegative(last), "the last term is not nonnegative by its form")
        need(tight is None or vanishes_with(last, tight), "equality is not where the claim says")

    def step(self, before: Term, j: Any) -> Term:
        """The term after a step."""
        after = arrived = self.tables.term(j["after"], self.claim.scope)
        chosen = {self.tables.tensors[x] for x in j.get("tensors", ())}
        self.sound(after, *(("entry", T) for T in chosen))
        match j["rule"]:
            case "definition":
                need(all(T.body for T in chosen), "a tensor without a definition is unfolded")
                before, arrived = unfold(before, chosen), unfold(after, chosen)
            case "differentiate":
                before = carry_out(before, chosen)
            case "through":
                before = through(before, chosen)
            case "rewrite":
                before = self.rewritten(before, j["by"], j["context"], j["reverse"])
            case other:
                need(other == "algebra", f"no such rule: {other!r:.40}")
        need(equal(before, arrived), f"{j['rule']}: it does not follow")
        return after

    def rewritten(self, before: Term, by: Any, context: Any, reverse: Any) -> Term:
        """The context with the other side of the equation, where ``before`` is the context with one side."""
        equation = self.known(by)
        need(equation.type == "equation" and type(reverse) is bool, "what is rewritten by is no equation")
        around = self.tables.term(context, self.claim.scope, [i.size for i in equation.own])
        identity = equation in self.leans and not equation.given  # holds for all values, not just at one point
        sides = [plug(around, side, equation.own, identity) for side in (equation.lhs, equation.rhs)]
        need(free(*sides) <= {*self.claim.scope.values()}, "an equation at a position that is none of the claim's")
        self.sound(around, *sides)
        need(equal(before, sides[reverse]), "the context with one side of the equation is not the term before")
        return sides[not reverse]

    def known(self, name: Any) -> Claim:
        """A hypothesis of the claim, or a claim to lean on whose hypotheses are all given."""
        for h in self.claim.given:
            if h.name == name:
                return h
        need(name in self.tables.claims, f"{name!r:.60} is neither a hypothesis of this claim nor a claim")
        lemma = self.tables.claims[name]
        need({*lemma.given} <= {*self.claim.given}, f"{name}: it has hypotheses that are not given here")
        self.leans.add(lemma)
        return lemma

    def sound(self, *terms: Term) -> None:
        """What must be true of every term: lookups exist, no unknown curvature, every declared kind holds."""
        tensors = reach(terms)
        for z in {*things(terms, Lookup)}.union(*(T.lookups for T in tensors)) - self.claim.lookups:
            need(z.size.nonempty, f"lookup {z.name} is none of the claim's")
        need(not any(map(curvature, terms)), "a second derivative of a function known by its gradient")
        for T in tensors - self.vetted:
            self.vetted.add(T)
            need(not T.body or T.kind == "real" or self.is_of_kind(T), f"{T.name} is not seen to be {T.kind}")

    def is_of_kind(self, T: Tensor) -> bool:
        if T.kind == "positive":
            return positive(poly(T.body))
        if T.kind == "indicator":
            return equal(("mul", T.body, T.body), T.body)
        return nonnegative(T.body) or (T.name in self.kinds and self.is_a_gap(T, self.kinds[T.name]))

    def is_a_gap(self, T: Tensor, j: Any) -> bool:
        """Whether a definition is the gap of an inequality, or the value at a point of a function with a minimum."""
        fact = self.known(j["by"])
        if fact.type == "minimum":
            need(not fact.scope, "a minimum at some positions only")
            point = self.tables.term(j["point"], T.slots)
            value = fill(fact.lhs, {fact.more["variable"]: lambda: point})
            self.sound(point, value)
            return positive(poly(point)) and equal(T.body, value)
        need(fact.type == "at-most" and {i.name for i in fact.own} == {*j["at"]}, "no inequality at all positions")
        where = {i: T.slots[j["at"][i.name]] for i in fact.own}
        gap = subst(minus(fact.rhs, fact.lhs), where)
        fits = all(i.size is slot.size for i, slot in where.items())
        need(fits and not free(gap), "an inequality at one position, or at those of another size")
        self.sound(gap)
        return equal(T.body, gap)

    def minimum(self, t: Tensor) -> None:
        """lhs is 0 at 1 and its derivative times (t - 1) is (t - 1)^2 / t, so it falls before 1 and rises after it."""
        lhs, less = self.claim.lhs, minus(("entry", t), num(1))
        need(t.kind == "positive" and not t.sizes and not behind(t), "a minimum in no positive variable")
        need(not self.claim.given and not has(lhs, "diff"), "a minimum under hypotheses, or of a derivative")
        need(all(T is t or t not in T.deps for T in reach(lhs)), "a minimum of a letter that depends on the variable")
        at_one = fill(lhs, {t: lambda: num(1)})
        need(equal(at_one, num(0)) and equal(self.claim.rhs, num(0)), "the function or the bound is not 0 at 1")
        rises = ("mul", derivative(lhs, t, ()), less), ("mul", less, less, ("inv", ("entry", t)))
        need(equal(*rises), "the derivative times (t - 1) is not (t - 1)^2 / t")

    def witness(self, relation: Any, sizes: dict[Any, Any], at: dict[Any, Any], values: dict[Any, Any]) -> None:
        claim = self.claim
        need(not claim.given and relation in ("=", "<", ">"), "a witness has no hypotheses, and a relation")
        tensors = {T for T in values if isinstance(T, Tensor)}
        beside = reach(tuple(map(behind, tensors)))
        need(not beside & reach_beside(claim.sides, tensors), "a tensor has a value beside what it is defined by")
        need(all(type(n) is int and n >= s.nonempty for s, n in sizes.items()), "a size that cannot be")
        left, right = (explicit(side, sizes, values, at) for side in (claim.lhs, claim.rhs))
        if relation == "=":
            need(equal(left, right), "the two sides differ")
        else:
            gap = minus(left, right) if relation == ">" else minus(right, left)
            need(interval(gap, {})[0] > 0, "the difference is not seen to be positive")

    def induction(self, base: Claim, step: Claim, first: dict[Any, Any], later: dict[Any, Any]) -> None:
        claim, (now, *more) = self.claim, step.given
        self.leans |= {base, step}
        kept = {*base.given, *more}
        need(base.type == step.type == now.type == "equation", "base, step and what is assumed must be equations")
        need(kept <= {*claim.given} and not any(h.at for h in (now, *kept)), "a hypothesis that the claim has not")
        every, named = [*first, *first.values(), *later.values()], reach((claim.lhs, claim.rhs))
        need({*first} == {*later} and len({*every}) == len(every), "the times are not apart")
        need(not named & {*every} - {*first}, "another time in the claim")
        need(not any(map(behind, every)), "a tensor that depends on time has a definition")
        twins = [(T, U) for when in (first, later) for T, U in when.items()]
        need(all(T.kind == U.kind and T.sizes == U.sizes for T, U in twins), "a tensor has two kinds")
        need(not any(T.deps & {*first} for T in named - {*first}), "a definition depends on time")
        need(base.lookups | step.lookups <= claim.lookups, "known only where there are other lookups")
        for shown, when in ((base, first), (step, later), (now, {})):
            need(shown.scope.items() <= claim.scope.items(), "known only where there are other positions")
            values = {T: lambda *ix, U=U: ("entry", U, *ix) for T, U in when.items()}
            for mine, theirs in ((claim.lhs, shown.lhs), (claim.rhs, shown.rhs)):
                need(not has(mine, "diff") and equal(fill(mine, values), theirs), "not the claim at that time")


# == 9. Printing, from what was read, so that a page cannot say something else =========================================

SUM, PRODUCT, ATOM = 0, 1, 2  # how tightly a piece of text holds together


def show(j: Any, least: int = SUM) -> str:
    """A term as text.

    >>> show(["sum", "j", "m", ["mul", ["entry", "a", "i", "j"], ["add", ["entry", "b", "j"], ["num", "-1"]]]])
    'Σ_{j∈m} a[i,j]·(b[j] - 1)'
    """
    text, tight = render(j)
    return text if tight >= least else f"({text})"


def at(js: Sequence[Any], brackets: str = "[]") -> str:
    inside = ",".join(i if isinstance(i, str) else i[0] + at(i[1:], "()") for i in js)
    return brackets[0] + inside + brackets[1] if js or brackets == "()" else ""


def render(j: Any) -> tuple[str, int]:
    match j:
        case ["num", v]:
            return v, SUM if v[0] == "-" else PRODUCT if "/" in v else ATOM
        case ["entry", T, *ix]:
            return T + at(ix), ATOM
        case ["delta" | "count" as kind, *ix]:
            return kind + at(ix, "()"), ATOM
        case ["mul", ["num", "-1"], x]:
            return "-" + show(x, PRODUCT), SUM
        case ["add", t, *ts]:
            texts = (show(t, PRODUCT if t[0] == "add" else SUM) for t in ts)
            return show(t) + "".join(f" - {t[1:]}" if t[0] == "-" else f" + {t}" for t in texts), SUM
        case ["mul", t, *ts]:
            return "·".join(show(t, ATOM) for t in (t, *ts)), PRODUCT
        case ["pow", b, n]:
            return f"{show(b, ATOM)}^{n}", ATOM
        case ["sum", name, size, b]:
            return f"Σ_{{{name}∈{size}}} {show(b, PRODUCT)}", PRODUCT
        case ["inv", a]:
            return f"1/{show(a, ATOM)}", PRODUCT
        case ["diff", b, T, *ix]:
            return f"∂{show(b, ATOM)}/∂{T}{at(ix)}", PRODUCT
    return f"{j[0]}({show(j[1])})", ATOM


def relation(j: Mapping[Any, Any], sign: str) -> str:
    places = ", ".join(f"{i}∈{size}" for i, size in j["for"].items())
    return (f"for all {places}: " if places else "") + f"{show(j['lhs'])} {sign} {show(j['rhs'])}"


def statement(claim: Claim) -> list[str]:
    """A claim in one line, then one line for each hypothesis."""
    j, sign = claim.json, {"at-most": "≤", "minimum": "≥"}.get(claim.type, "=")
    text = relation(j, sign)
    match claim.type:
        case "at-most" if j["tight"] is not None:
            zeros = " and ".join(f"every {T}{at(ix)}" for T, *ix in j["tight"])
            text += f", with equality exactly where {zeros or 'nothing'} is 0"
        case "minimum":
            text += f" for {j['variable']} > 0, with equality only where {j['variable']} = 1"
        case "witness":
            given = (kv for key in ("sizes", "at", "values", "lookups") for kv in j[key].items())
            values = ", ".join(f"{k} = {v!s}".replace("'", "") for k, v in given)
            text = f"at {values}: {show(j['lhs'])} {j['relation']} {show(j['rhs'])}"
        case "induction":
            times = (f"; {T} is {one} at t = 1 and {j['later'][T]} at t + 1" for T, one in j["first"].items())
            text = f"at every time t >= 1, {text}{''.join(times)}"
    return [text, *("  given " + relation(h.json, "=" if h.type == "equation" else "≤") for h in claim.given)]


def letters(claim: Claim) -> list[str]:
    """What the tensors and sizes of a claim are declared to be, and how the defined ones are defined."""
    times = [*claim.more.get("first", {}).values(), *claim.more.get("later", {}).values()]
    tensors, lines = reach((claim.sides, *times)), []
    for T in sorted(tensors, key=lambda T: T.name):
        text = T.name + at([*T.slots] or [s.name for s in T.sizes]) + (f" := {show(T.json['body'])}" if T.body else "")
        if T.through:
            g, u = (x.name for x in T.through)
            text += f", a differentiable function of {'one entry of ' if T.sizes else ''}{g} alone with derivative {u}"
        lines.append(text + {"real": "", "indicator": ", 0 or 1"}.get(T.kind, f", {T.kind}"))
    named = things((claim.sides, *map(behind, tensors)), Size)
    return lines + sorted({f"{s.name} >= 1" for s in named if s.nonempty})


# == 10. Verdicts and the command ======================================================================================


class Report:
    """What certificates prove of a book. Raises Reject, or one of MALFORMED, if it is not a book."""

    def __init__(self, book: Any, certificates: Iterable[Any]):
        self.tables = Tables(book)
        self.labels = {label: [self.tables.claims[c] for c in names] for label, names in book["labels"].items()}
        self.leans, self.refused, self.proved = dict[Claim, set[Claim]](), dict[Claim, str](), set[Claim]()
        self.faults: list[str] = []  # of certificates that could not be read
        for n, certificate in enumerate(certificates, 1):
            try:
                self.read(certificate)
            except (Reject, *MALFORMED) as why:
                self.faults.append(f"certificate {n}: {reason(why)}")
        # the least set: a claim counts once all that its proof leans on do, so proofs that lean in a circle never do
        while more := {c for c, on in self.leans.items() if c not in self.proved and on <= self.proved}:
            self.proved |= more

    def read(self, certificate: Any) -> None:
        tables = Tables(certificate, self.tables)
        for name, j in certificate["proofs"].items():
            proof = Proof(tables, certificate["kinds"], tables.claims[name])
            _work[0] = FUEL
            try:
                proof.check(j)
                self.leans[proof.claim] = proof.leans
            except (Reject, *MALFORMED) as why:
                self.refused[proof.claim] = f"step {proof.at}: " * bool(proof.at) + reason(why)

    def why_not(self, claim: Claim) -> str:
        """Why a claim is not proved, or an empty string."""
        if claim in self.proved:
            return ""
        for other in self.leans.get(claim, set()) - self.proved:
            return f"it rests on {other.name}: {self.refused.get(other, 'which is not proved')}"
        return self.refused.get(claim, "no certificate of it was given")


def load(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as why:
        raise Reject(f"{path}: not readable as JSON ({why})") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 if all that was asked for is proved, 1 if not, 2 if a file or an argument is at fault."""
    parser = argparse.ArgumentParser(prog="checker", description="Replay proof certificates, trusting nothing else.")
    parser.add_argument("book", type=Path, help="what is claimed")
    parser.add_argument("certificates", type=Path, nargs="+", help="why it is so; a folder stands for its *.json")
    parser.add_argument("--label", action="append", help="check this result of the book alone (may be repeated)")
    parser.add_argument("--letters", action="store_true", help="print definitions and kinds of the letters too")
    args = parser.parse_args(argv)
    files = [f for path in args.certificates for f in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    try:
        report = Report(load(args.book), [load(f) for f in files])
        labels = args.label or [*report.labels]
        need({*labels} <= {*report.labels}, f"--label: one of {', '.join(labels)} is no result of the book")
    except (Reject, *MALFORMED) as why:
        print(f"checker: {reason(why)}", file=sys.stderr)
        return 2
    judged = {label: [(claim, report.why_not(claim)) for claim in report.labels[label]] for label in labels}
    for claim, no in itertools.chain(*judged.values()):
        lines = statement(claim) + (letters(claim) if args.letters else [])
        print(f"not proved  {claim.name}  ({no})" if no else f"proved      {claim.name}", *lines, sep="\n    ")
    good = sum(bool(found) and not any(no for _, no in found) for found in judged.values())
    print("\n".join([*report.faults, f"{good} of {len(labels)} results proved"]))
    return 2 if report.faults else 0 if labels and good == len(labels) else 1


if __name__ == "__main__":
    sys.setrecursionlimit(20_000)  # here alone: a caller of main() keeps the limit that it has
    sys.exit(main())
