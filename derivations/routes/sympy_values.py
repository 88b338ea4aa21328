"""SymPy's value of an expression at explicit small sizes, from exact data and with the convention 1/0 := 0.

Sums are written out by ``Sum.doit``, deltas, functions and arithmetic are SymPy's own, and derivatives are taken by
``sympy.diff`` of what the definitions say, with one symbol for each entry of the variable. Nothing of the engine takes
part but the numbers that are drawn.

Where SymPy would go wrong, terms are added up one by one: it cancels what is 0 on an instance, and (1.14) it thinks
that Derivative(L(g), s[i, k]) does not depend on k and takes it out of a sum over k.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from bayesgrad.symbolic.survey import limits

At = tuple[int, ...]
LONG, KEPT = 40, 120  # an irrational number of so many operations is kept to so many digits
Bodies = Mapping[Any, tuple[tuple[Any, ...], Any]]  # a defined letter -> the positions of its head, and its definition


class NoValue(ValueError):
    """An instance on which SymPy has no value to compare: a derivative where 1/0 was meant to be 0, infinity."""


class Sums:
    """Sums written out by SymPy, for one choice of sizes; each of them once, whatever positions are free in it."""

    def __init__(self, sizes: Mapping[sp.Symbol, int]):
        self.sizes = dict(sizes)
        self._known: dict[Any, Any] = {}

    def ranges(self, total: sp.Sum) -> dict[Any, int]:
        """The variables of a sum and how many positions each has."""
        return {variable: self.sizes[size] for variable, size in limits(total).items()}

    def written_out(self, total: sp.Sum) -> Any:
        """A sum without sums in it, or None where its terms must be added up one by one."""
        if total not in self._known:
            self._known[total] = self._done(total) if self._plain(total) else None
        return self._known[total]

    def _plain(self, x: Any) -> bool:
        """Whether SymPy may rewrite while it puts positions in: nothing is divided by, looked up or differentiated."""
        if isinstance(x, sp.Pow) and not x.exp.is_positive:
            return False
        if isinstance(x, sp.Derivative | AppliedUndef):
            return False
        if isinstance(x, sp.Indexed | sp.KroneckerDelta):
            return not any(isinstance(arg, sp.Indexed) for arg in x.args)
        return all(self._plain(arg) for arg in x.args)

    def _done(self, x: Any) -> Any:
        if isinstance(x, sp.Symbol):
            return sp.Integer(self.sizes[x]) if x in self.sizes else x
        if isinstance(x, sp.Sum):
            ranges = [(variable, 0, count - 1) for variable, count in reversed(self.ranges(x).items())]
            return sp.Sum(self._done(x.function), *ranges).doit(deep=False)
        if not x.args or isinstance(x, sp.Indexed):
            return x
        return x.func(*map(self._done, x.args))


class Values:
    """One instance: sizes, a number for each free entry and a position for each looked-up one."""

    def __init__(
        self,
        sums: Sums,
        bodies: Bodies,
        gradients: Mapping[tuple[Any, Any, bool], Any],
        number: Callable[[Any, At], sp.Rational],
        position: Callable[[Any, At], int],
        shape: Callable[[Any], tuple[sp.Symbol, ...]],
        scope: Mapping[Any, int],
    ):
        self.sums, self.bodies, self.gradients = sums, bodies, gradients
        self.number, self.position, self.shape, self.scope = number, position, shape, scope
        self._known: dict[tuple[Any, At], Any] = {}
        self._tangents: dict[tuple[Any, At, Any], Any] = {}
        self._symbols: dict[tuple[Any, At], sp.Dummy] = {}
        self._point: dict[sp.Dummy, Any] = {}

    def of(self, x: Any, at: Mapping[Any, int]) -> Any:
        """The value of an expression at a position. Raises NoValue."""
        return self._value(x, at, None)

    def _value(self, x: Any, at: Mapping[Any, int], by: Any) -> Any:
        """``x`` with positions ``at``; ``by`` is the letter whose entries stay symbols, if any."""
        match x:
            case sp.Rational():
                return x
            case sp.Dummy():
                return self._point[x] if by is None else x
            case sp.Symbol() if x in self.sums.sizes:
                return sp.Integer(self.sums.sizes[x])
            case sp.Symbol():
                return self._entry(x, (), by)
            case sp.Indexed(base=base):
                return self._entry(base, self._at(x, at), by)
            case sp.KroneckerDelta():
                return sp.KroneckerDelta(*(self._place(p, at) for p in x.args[:2]))
            case sp.Sum():
                return self._sum(x, at, by)
            case sp.Piecewise():  # what SymPy makes of a sum of deltas: which positions are in range
                return self._value(next(e for e, holds in x.args if holds.subs(dict(at)) == True), at, by)  # noqa: E712
            case sp.Derivative():
                return self._slope(x, at, by)
            case AppliedUndef():
                return self._function(x, at, by)
            case sp.Pow():
                return self._power(self._value(x.base, at, by), x.exp)
        value = x.func(*(self._value(arg, at, by) for arg in x.args))
        if value.has(sp.zoo, sp.nan, sp.oo, sp.I):
            raise NoValue(f"SymPy has no real value for {type(x).__name__}")
        return value if by is not None or value.count_ops() < LONG else sp.N(value, KEPT)

    def _sum(self, x: sp.Sum, at: Mapping[Any, int], by: Any) -> Any:
        done = self.sums.written_out(x)
        if done is not None:
            return self._value(done, at, by)
        ranges = self.sums.ranges(x)
        places = itertools.product(*map(range, ranges.values()))
        return sp.Add(*(self._value(x.function, {**at, **dict(zip(ranges, p, strict=True))}, by) for p in places))

    def _entry(self, letter: Any, at: At, by: Any) -> Any:
        if letter == by:
            symbol = self._symbols.setdefault((letter, at), sp.Dummy(f"{letter}{at}", real=True))
            if symbol not in self._point:
                self._point[symbol] = self._entry(letter, at, None)
            return symbol
        if by is None or not self._depends(letter, by):
            if (letter, at) not in self._known:
                opened = letter in self.bodies
                self._known[letter, at] = self._open(letter, at, None) if opened else self.number(letter, at)
            return self._known[letter, at]
        if (letter, at, by) not in self._tangents:
            self._tangents[letter, at, by] = self._open(letter, at, by)
        return self._tangents[letter, at, by]

    def _open(self, letter: Any, at: At, by: Any) -> Any:
        slots, body = self.bodies[letter]
        return self._value(body, {**self.scope, **dict(zip(slots, at, strict=True))}, by)

    def _depends(self, letter: Any, other: Any) -> bool:
        """Whether the definition of a letter leads to another one, through functions too."""
        if letter == other:
            return True
        return letter in self.bodies and any(self._depends(x, other) for x in letters(self.bodies[letter][1]))

    def _power(self, base: Any, exponent: Any) -> Any:
        """A power, where 1/0 is 0; no derivative is taken where that convention decides."""
        if exponent.is_negative and base.has(sp.Dummy):
            if is_zero(self._value(base, {}, None)):
                raise NoValue("a derivative at 1/0")
        elif exponent.is_negative and is_zero(base):
            return sp.S.Zero
        return base**exponent

    def _place(self, position: Any, at: Mapping[Any, int]) -> int:
        if isinstance(position, sp.Indexed):
            return self.position(position.base, self._at(position, at))
        if isinstance(position, sp.Integer):
            return int(position)
        return at[position] if position in at else self.position(position, ())

    def _at(self, x: sp.Indexed, at: Mapping[Any, int]) -> At:
        return tuple(self._place(position, at) for position in x.indices)

    def _slope(self, x: sp.Derivative, at: Mapping[Any, int], by: Any) -> Any:
        if by is not None or len(x.variables) != 1:
            raise NoValue("a derivative of a derivative")
        (variable,) = x.variables
        letter, where = variable, tuple[int, ...]()
        if isinstance(variable, sp.Indexed):
            letter, where = variable.base, self._at(variable, at)
        symbol = self._entry(letter, where, letter)
        return self._value(sp.diff(self._value(x.expr, at, letter), symbol), {}, None)

    def _function(self, x: Any, at: Mapping[Any, int], by: Any) -> Any:
        """L(g) or phi(z[i]): the number that was drawn; under a derivative, its tangent at the instance."""
        (arg,) = x.args
        whole = isinstance(arg, sp.IndexedBase)
        base = getattr(arg, "base", arg)
        where = self._at(arg, at) if isinstance(arg, sp.Indexed) else ()
        key = x.func, base, whole
        out = self.number(key, where)
        if by is None:
            return out
        places = itertools.product(*(range(self.sums.sizes[s]) for s in self.shape(base))) if whole else [where]
        for place in places:
            moved = self._entry(base, place, by) - self._entry(base, place, None)
            out += self._entry(self.gradients[key], place, None) * moved
        return out


def letters(x: Any) -> set[Any]:
    """The arrays and symbols in an expression."""
    if isinstance(x, sp.IndexedBase | sp.Symbol):
        return {x}
    return set().union(*(letters(arg) for arg in x.args))


def is_zero(x: Any) -> bool:
    """Whether a number is zero; a rational one is asked, any other one is computed to 60 digits."""
    return bool(x == 0) if x.is_Rational else abs(sp.N(x, 60)) < sp.Rational(1, 10**50)
