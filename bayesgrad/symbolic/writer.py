"""Terms to SymPy, so that reading gives the same canonical key.

An expression is built as a SymPy user would build it. SymPy rewrites while it builds, and not all of that is true with
1/0 := 0 (x/x becomes 1, exp(log(x)) becomes x); so what was written is read back, and where the key differs the
expression is built once more with ``evaluate=False`` everywhere. The variable of a sum keeps its name unless that is
taken; then it gets a number, so that nothing is captured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy as sp

from bayesgrad.symbolic.index_calculus import key
from bayesgrad.symbolic.language import LanguageError
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
    Sum,
    Term,
    indices_of,
)

if TYPE_CHECKING:
    from bayesgrad.symbolic.book import Book

Names = Mapping[Index, sp.Symbol]
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
