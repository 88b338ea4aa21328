"""SymPy to terms: one node of the language becomes one term, and nothing is computed on the way.

The reader is not trusted. It makes claims and terms; the kernel decides about them and prints what it decided about.
Every variable of a sum becomes a new index, whatever its name, so that nothing can be captured.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.core.function import AppliedUndef

from bayesgrad.symbolic.language import refused
from bayesgrad.symbolic.survey import Survey, limits
from bayesgrad.symbolic.terms import Add, AnyIndex, Count, Delta, Diff, Entry, Fn, Index, Mul, Pow, Sum, Term, inv, lift

if TYPE_CHECKING:
    from bayesgrad.symbolic.book import Book

Bound = Mapping[Any, AnyIndex]


class Reader:
    """Reads the expressions of one statement that has been surveyed; in it one symbol is one position of one size."""

    def __init__(self, book: Book, survey: Survey):
        self.book, self.survey = book, survey

    def term(self, x: Any, bound: Bound) -> Term:
        """The term of an expression; ``bound`` holds the positions that sums and heads have bound."""
        match x:
            case sp.Rational():
                return lift(Fraction(int(x.p), int(x.q)))
            case sp.Symbol() if x in self.book.sizes:
                return Count(self.book.sizes[x])
            case sp.Symbol():
                return Entry(self.book.tensor(x), ())
            case sp.Indexed():
                return Entry(self.book.tensor(x.base), self._places(x, bound))
            case sp.Add():
                return Add(tuple(self.term(part, bound) for part in x.args))
            case sp.Mul():
                return Mul(tuple(self.term(part, bound) for part in x.args))
            case sp.exp():
                return Fn("exp", self.term(x.exp, bound))
            case sp.log() | sp.tanh():
                return Fn(type(x).__name__, self.term(x.args[0], bound))
            case sp.Pow():
                return self._power(x, bound)
            case sp.KroneckerDelta():
                return Delta(self.position(x.args[0], bound), self.position(x.args[1], bound))
            case sp.Sum():
                new = {variable: Index(str(variable), self.book.sizes[size]) for variable, size in limits(x).items()}
                body = self.term(x.function, {**bound, **new})
                for index in reversed(new.values()):
                    body = Sum(index, body)
                return body
            case sp.Derivative():
                body = self.term(x.expr, bound)
                for variable in x.variables:
                    body = Diff(body, self.term(variable, bound))  # type: ignore[arg-type]  # an entry: surveyed
                return body
            case AppliedUndef():
                return self._function(x, bound)
            case _ if x is sp.E:
                return Fn("exp", lift(1))
        raise refused(x)

    def _power(self, x: sp.Pow, bound: Bound) -> Term:
        """x**n, x**-n = inv(x**n), and the same of a root."""
        base = self.term(x.base, bound)
        if x.exp.q == 2:
            base = Fn("sqrt", base)
        times = abs(int(x.exp.p))
        power = lift(1) if times == 0 else base if times == 1 else Pow(base, times)
        return power if x.exp.p >= 0 else inv(power)

    def _function(self, x: Any, bound: Bound) -> Term:
        (arg,) = x.args
        if isinstance(arg, sp.IndexedBase):
            return Entry(self.book.function(x.func, arg, whole=True), ())
        if isinstance(arg, sp.Symbol):
            return Entry(self.book.function(x.func, arg, whole=False), ())
        return Entry(self.book.function(x.func, arg.base, whole=False), self._places(arg, bound))

    def _places(self, x: sp.Indexed, bound: Bound) -> tuple[AnyIndex, ...]:
        return tuple(self.position(position, bound) for position in x.indices)

    def position(self, position: Any, bound: Bound) -> AnyIndex:
        """The index of a position."""
        if position in bound:
            return bound[position]
        if isinstance(position, sp.Indexed):
            lookup = self.book.lookup(position.base, self.survey.of(position.base))
            return lookup(*self._places(position, bound))
        if position in self.book.fixed:
            return self.book.lookup(position, self.book.fixed[position])()
        return self.book.index(position, self.survey.of(position))
