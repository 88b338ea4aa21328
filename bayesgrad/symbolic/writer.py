"""Terms to SymPy, so that reading gives the same canonical key.

An expression is built as a SymPy user would build it. SymPy rewrites while it builds, and not all of that is true with
1/0 := 0 (x/x becomes 1, exp(log(x)) becomes x); so what was written is read back, and where the key differs the
expression is built once more with ``evaluate=False`` everywhere. The variable of a sum keeps its name unless that is
taken; then it gets a number, so that nothing is captured.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy as sp

from bayesgrad.symbolic.index_calculus import key
from bayesgrad.symbolic.language import LanguageError
from bayesgrad.symbolic.letters import Definition
from bayesgrad.symbolic.naming import everything
from bayesgrad.symbolic.proof import AtMost, Equation, Minimum, Witness
from bayesgrad.symbolic.statements import Given
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
    Lookup,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    Term,
    indices_of,
    tensors_of,
)

if TYPE_CHECKING:
    from bayesgrad.symbolic.book import Book

Names = Mapping[Index, sp.Symbol]
RELATIONS = {"=": sp.Eq, "<": sp.Lt, ">": sp.Gt}
FUNCTIONS = {"exp": sp.exp, "log": sp.log, "tanh": sp.tanh}


@dataclass(frozen=True)
class Writer:
    """Writes the terms of one statement; ``evaluate`` says whether SymPy may rewrite while it builds."""

    book: Book
    evaluate: bool = True

    def expression(self, term: Term, names: Names) -> Any:
        """The expression of a term whose free indices are called ``names``."""
        build = {} if self.evaluate else {"evaluate": False}
        match term:
            case Num(value):
                return sp.Rational(value.numerator, value.denominator)
            case Count(size):
                return self.book.spelling.size(size)
            case Entry(tensor, indices):
                return self.book.spelling.entry(tensor, tuple(self.position(i, names) for i in indices))
            case Delta(left, right):
                return sp.KroneckerDelta(self.position(left, names), self.position(right, names), **build)
            case Add(terms):
                return sp.Add(*(self.expression(t, names) for t in terms), **build)
            case Mul(factors):
                return sp.Mul(*(self.expression(t, names) for t in factors), **build)
            case Pow(base, exponent):
                return sp.Pow(self.expression(base, names), exponent, **build)
            case Fn("inv", arg):
                return sp.Pow(self.expression(arg, names), -1, **build)
            case Fn("sqrt", arg):
                return sp.Pow(self.expression(arg, names), sp.S.Half, **build)
            case Fn(name, arg):
                return FUNCTIONS[name](self.expression(arg, names), **build)
            case Sum(index, body):
                symbol = self.book.spelling.position(index, {*names.values()})
                size = self.book.spelling.size(index.size)
                return sp.Sum(self.expression(body, {**names, index: symbol}), (symbol, 0, size - 1))
            case Diff(body, wrt):
                return sp.Derivative(self.expression(body, names), self.expression(wrt, names))
        raise TypeError(f"term: {type(term).__name__} cannot be written")

    def position(self, index: AnyIndex, names: Names) -> Any:
        """The position of an index."""
        if isinstance(index, At):
            return self.book.spelling.looked_up(index.lookup, tuple(self.position(i, names) for i in index.indices))
        return names[index]


def named(book: Book, *terms: Term) -> dict[Index, sp.Symbol]:
    """One symbol for each free index of some terms, different ones for different indices."""
    names: dict[Index, sp.Symbol] = {}
    for index in sorted(set().union(*(indices_of(t)[0] for t in terms)), key=lambda i: i.uid):
        names[index] = book.spelling.position(index, {*names.values()}, free=True)
    return names


def write(book: Book, term: Term, names: Names | None = None) -> Any:
    """The expression of a term: reading it gives a term with the same key."""
    names = named(book, term) if names is None else names
    for evaluate in (True, False):
        out = Writer(book, evaluate).expression(term, names)
        try:
            if key(book.read(out, {symbol: index for index, symbol in names.items()})) == key(term):
                return out
        except LanguageError:
            continue
    raise LanguageError(f"term: SymPy cannot hold it, {out} reads as another one")


@dataclass(frozen=True)
class Written:
    """A claim in SymPy: its sizes and fixed positions, what its letters are, its hypotheses, the relation."""

    sizes: tuple[sp.Symbol, ...]
    fixed: dict[sp.Symbol, sp.Symbol]
    positions: dict[sp.Symbol, sp.Symbol]
    definitions: tuple[Definition, ...]
    given: tuple[Given, ...]
    relation: Any

    def tell(self, book: Book) -> None:
        """Give another book what it needs to read the relation and the hypotheses as this one does."""
        for size in self.sizes:
            book.size(size)
        for symbol, size in self.fixed.items():
            book.at(symbol, size)
        for symbol, size in self.positions.items():
            book.over(symbol, size)
        for letter in self.definitions:
            book.let(
                letter.head, letter.body, "" if isinstance(letter.body, sp.Derivative) else letter.kind, letter.fact
            )


def written(book: Book, claim: Equation) -> Written:
    """A claim as SymPy: a new book that is told all of this reads the same claim."""
    sides = [claim.lhs, claim.rhs, *(side for g in claim.given for side in (g.lhs, g.rhs))]
    names = named(book, *sides)
    given = tuple(
        Given(_assumed(book, g, names), g.says, tuple(names[i] for i in g.free if i in names)) for g in claim.given
    )
    relation = _relation(book, claim, names)
    letters = definitions(book, sides)
    things = everything(sides)
    return Written(
        tuple(dict.fromkeys(book.spelling.size(thing) for thing in things if isinstance(thing, Size))),
        {
            book.spelling.looked_up(thing, ()): book.spelling.size(thing.size)
            for thing in things
            if isinstance(thing, Lookup) and not thing.sizes
        },
        {symbol: book.spelling.size(index.size) for index, symbol in names.items()},
        letters,
        given,
        relation,
    )


def _assumed(book: Book, given: Equation, names: Names) -> Any:
    """The relation of a hypothesis; that a number times its inverse is 1 says that it is not 0."""
    match given.lhs, given.rhs:
        case Mul((x, Fn("inv", y))), Num(value) if value == 1 and key(x) == key(y) and not isinstance(given, AtMost):
            return sp.Ne(write(book, x, names), 0, evaluate=False)
    return _relation(book, given, names)


def _relation(book: Book, claim: Equation, names: Names) -> Any:
    """The relation of a claim."""
    left, right = write(book, claim.lhs, names), write(book, claim.rhs, names)
    if isinstance(claim, Minimum):
        return sp.Ge(left, right, evaluate=False)
    if isinstance(claim, Witness):
        return RELATIONS[claim.relation](left, right, evaluate=False)
    return (sp.Le if isinstance(claim, AtMost) else sp.Eq)(left, right, evaluate=False)


def definitions(book: Book, terms: Iterable[Term]) -> tuple[Definition, ...]:
    """What the letters of terms are, each after what it is defined by; free real ones need no word."""
    found: dict[Tensor, Definition] = {}
    met: set[Tensor] = set()

    def visit(tensor: Tensor) -> None:
        if tensor in met:
            return
        met.add(tensor)
        inside = [tensor.definition[1]] if tensor.body is not None else []
        for inner in sorted(set().union(*map(tensors_of, inside), tensor.through or ()), key=lambda t: t.uid):
            visit(inner)
        if tensor.body is not None or tensor.through is not None or tensor.kind != "real":
            found[tensor] = _definition(book, tensor)

    for tensor in sorted(set().union(*map(tensors_of, terms)), key=lambda t: t.uid):
        visit(tensor)
    return tuple(found.values())


def _definition(book: Book, tensor: Tensor) -> Definition:
    if tensor.through is not None:
        base, gradient = tensor.through
        at = _slots(book, base)
        entry = book.spelling.entry(base, tuple(at.values()))
        value = book.spelling.entry(tensor, tuple(at.values()) if tensor.sizes else ())
        return Definition(book.spelling.entry(gradient, tuple(at.values())), sp.Derivative(value, entry), "real")
    at = _slots(book, tensor)
    body = write(book, tensor.definition[1], at) if tensor.body is not None else None
    return Definition(book.spelling.entry(tensor, tuple(at.values())), body, tensor.kind, tensor.fact, tensor.tex)


def _slots(book: Book, tensor: Tensor) -> dict[Index, sp.Symbol]:
    """A symbol for each slot of a tensor."""
    if tensor.body is None:
        slots = tuple(Index("ijklop"[n % 6], size) for n, size in enumerate(tensor.sizes))
        return slot_names(book, slots, None)
    return slot_names(book, tensor.definition[0], tensor.body)


def slot_names(
    book: Book, slots: tuple[Index, ...], body: Any, taken: Iterable[sp.Symbol] = ()
) -> dict[Index, sp.Symbol]:
    """A symbol for each slot, called as in the function ``body`` that defines something by its slots."""
    names = [slot.name for slot in slots]
    if body is not None:
        given = inspect.signature(body).parameters.values()
        names = [p.name for p in given if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    if len(names) != len(slots):  # it takes them all as *indices
        names = ["ijklop"[n % 6] for n in range(len(slots))]
    out: dict[Index, sp.Symbol] = {}
    for slot, name in zip(slots, names, strict=True):
        out[slot] = book.spelling.position(slot, {*taken, *out.values()}, name=name)
    return out
