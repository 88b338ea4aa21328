"""The first walk over a statement: refuses what the language does not have, and finds the size of every position.

A slot of an array gives its position the size of that slot; ``KroneckerDelta(i, j)`` gives both of its positions one
size; a looked-up position ``y[i]`` takes the size of the slot where it stands. Sums give their own variable a size,
and inside them that name means the sum's variable, whatever it means outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.core.function import AppliedUndef

from bayesgrad.symbolic.language import LanguageError, refused

if TYPE_CHECKING:
    from bayesgrad.symbolic.book import Book

Scope = Mapping[Any, sp.Symbol]  # the positions that are bound, each with its size


def size_of(variable: Any, low: Any, high: Any) -> sp.Symbol:
    """The size that a range counts out: (j, 0, n - 1) or (j, 1, n). Nothing is computed, the form is looked at."""
    if low == 1 and isinstance(high, sp.Symbol):
        return high
    if low == 0 and isinstance(high, sp.Add):
        rest = [part for part in high.args if part is not sp.S.NegativeOne]
        if len(high.args) == 2 and len(rest) == 1 and isinstance(rest[0], sp.Symbol):
            return rest[0]
    raise LanguageError(
        f"range of {variable} from {low} to {high}: expected ({variable}, 0, n - 1) or ({variable}, 1, n) with a "
        f"size symbol n; for a part of a size multiply by an indicator"
    )


def limits(total: sp.Sum) -> dict[Any, sp.Symbol]:
    """The variables of a sum, the outermost first, each with its size."""
    return {limit[0]: size_of(*limit) for limit in reversed(total.limits)}


class Survey:
    """What one statement says about its letters: visit every expression, then ask for the size of a position."""

    def __init__(self, book: Book):
        self.book = book
        self._same: dict[Any, Any] = {}  # a position or a lookup -> another one of its size, or the size
        self._met: dict[Any, str] = {}
        self._numbers: dict[sp.Symbol, None] = {}

    def visit(self, x: Any, scope: Scope) -> None:
        """Take note of every position and every letter of an expression. Raises LanguageError."""
        match x:
            case sp.Rational():
                pass
            case sp.Symbol() if x in scope:
                raise LanguageError(f"{x}: it is a position, but here it stands as a number")
            case sp.Symbol():
                self._numbers[x] = None
            case sp.Indexed():
                self.book.enter(x.base, "array")
                self._slots(x, scope)
            case sp.KroneckerDelta():
                one, other = (self._place(position, scope) for position in x.args[:2])
                self._tie(one, other, x.args[0], x)
                if len(x.args) > 2:
                    self._tie(one, self.book.size(size_of(x.args[0], *x.args[2])), x.args[0], x)
            case sp.Sum():
                new = limits(x)
                if len(new) < len(x.limits):
                    raise LanguageError(f"{x}: two of its variables have one name")
                for variable, size in new.items():
                    self.book.size(size)
                    self.book.enter(variable, "position")
                self.visit(x.function, {**scope, **new})
            case sp.Derivative():
                self.visit(x.expr, scope)
                for variable in x.variables:
                    self._variable(variable, x, scope)
            case AppliedUndef():
                self._function(x, scope)
            case sp.Add() | sp.Mul() | sp.exp() | sp.tanh():
                for arg in x.args:
                    self.visit(arg, scope)
            case sp.Pow() if not (isinstance(x.exp, sp.Rational) and x.exp.q in (1, 2)):
                raise LanguageError(
                    f"power {x}: expected a whole exponent or one half; write exp({x.exp}*log({x.base})) for a "
                    f"positive {x.base}"
                )
            case sp.Pow(base=base):
                self.visit(base, scope)
            case sp.log() if len(x.args) == 1:
                self.visit(x.args[0], scope)
            case _ if x is not sp.E:
                raise refused(x)

    def settle(self) -> None:
        """What stands as a number is a size that is counted, or a letter: known when everything has been visited."""
        for x in self._numbers:
            if x not in self.book.sizes:
                if x.is_integer:
                    raise LanguageError(f"{x}: an integer, but no array has this size; declare it with size({x})")
                self.book.enter(x, "number")

    def _variable(self, variable: Any, x: sp.Derivative, scope: Scope) -> None:
        if not isinstance(variable, sp.Indexed | sp.Symbol) or variable.is_integer:
            raise LanguageError(f"{x}: expected an entry such as s[i, j] or a Symbol to differentiate by")
        self.visit(variable, scope)

    def _function(self, x: Any, scope: Scope) -> None:
        self.book.enter(x.func, "function")
        match x.args:
            case (sp.Indexed() as entry,):
                self.visit(entry, scope)
            case (sp.IndexedBase() as base,):
                self.book.enter(base, "array")
            case (sp.Symbol() as number,):
                self.visit(number, scope)
            case _:
                raise LanguageError(
                    f"function {x}: expected an array, as in L(g), for one number that depends on all of it, or an "
                    f"entry, as in phi(z[i]), for its own value at each; let gives the argument a name"
                )

    def _slots(self, x: sp.Indexed, scope: Scope) -> None:
        shape = self.book.shape(x.base)
        if len(shape) != len(x.indices):
            raise LanguageError(f"{x}: got {len(x.indices)} positions, expected {len(shape)}")
        for position, size in zip(x.indices, shape, strict=True):
            self._tie(self._place(position, scope), size, position, x)

    def _place(self, position: Any, scope: Scope) -> Any:
        """What stands for the size of a position: the size itself, or a name for it that is not known yet."""
        if position in scope:
            return scope[position]
        match position:
            case sp.Indexed(base=base):
                self.book.enter(base, "array of positions")
                self._slots(position, scope)
                if base in self.book.targets:
                    self._tie(base, self.book.targets[base], position, position)
                return base
            case sp.Symbol() if position in self.book.fixed:
                return self.book.fixed[position]
            case sp.Symbol() | sp.Idx():
                self.book.enter(position, "position")
                if isinstance(position, sp.Idx) and position.upper is not None:
                    size = size_of(position, position.lower, position.upper)
                    self._tie(position, self.book.size(size), position, position)
                return position
        raise LanguageError(
            f"position {position}: expected a symbol, or y[i] of an array y that gives positions; for one fixed "
            f"position write a symbol and declare it with at(symbol, size)"
        )

    def _root(self, one: Any) -> Any:
        while one in self._same:
            one = self._same[one]
        return one

    def _tie(self, one: Any, other: Any, position: Any, where: Any) -> None:
        a, b = self._root(one), self._root(other)
        if a == b:
            pass
        elif a in self.book.sizes and b in self.book.sizes:
            known = f" (as in {self._met[one]})" if one in self._met else ""
            raise LanguageError(
                f"position {position} in {where}: it ranges over {a}{known}, but {b} is expected here; use a position "
                f"over {b}, or give both arrays one size"
            )
        else:
            if a in self.book.sizes:
                a, b = b, a
            self._same[a] = b
        for thing in (one, other):
            self._met.setdefault(thing, str(where))

    def of(self, position: Any) -> sp.Symbol:
        """The size of a free position, or of what a lookup gives; where no slot tells, the one it had before."""
        size = self._root(position)
        if size in self.book.sizes:
            return size
        tied = [thing for thing in self._met if self._root(thing) == size]
        known = {name for thing in tied for name in self.book.known_sizes(thing)}
        if len(known) == 1:
            return known.pop()
        raise LanguageError(
            f"position {position}: its size is unknown, since it stands in no slot of an array; use it in one, or "
            f"declare it with over({position}, n)"
        )

    def free(self) -> set[Any]:
        """The free positions met so far."""
        return {thing for thing in self._met if not isinstance(thing, sp.IndexedBase) and thing not in self.book.sizes}
