"""Elementary functions as exact fractions: Q(x_1, x_2, ...) with exponentials, logarithms and inverses adjoined.

    e = exp(p):  a new indeterminate for each p outside the span of the exponents met before,  D e = e Dp
    y = 1/f:     a new indeterminate with the relation  y f = 1,                               D y = -y^2 Df
    l = log f:   a new indeterminate for each irreducible f,                                   D l = y Df

Every function is a polynomial in these generators. An identity that holds here holds for all real values at which both
sides are defined, because the true exponentials obey every relation used. Since each 1/Z_i is a generator of its own,
no common denominator is ever formed: the relations y f = 1 are divided out one by one, row by row.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import flint

Poly = Any  # flint.fmpq_mpoly
Value = TypeVar("Value")
LARGE = 3000  # terms: a denominator larger than this is not cleared of its own inverses


class Undecided(ValueError):
    """This route has no value for a term: the message says why."""


class _Again(Exception):
    """More generators, or roots of exponentials, are needed: start again with them."""


@dataclass
class Room:
    """How many generators a ring is made with, and of which exponentials it needs roots."""

    generators: int = 48
    roots: dict[int, int] | None = None


def with_room(work: Callable[[Functions], Value], room: Room | None = None) -> Value:
    """Run ``work`` on a fresh ring, again with a larger one whenever it was too small; ``room`` remembers the size."""
    room = Room() if room is None else room
    room.roots = None
    while True:
        ring = Functions(room)
        try:
            return work(ring)
        except _Again:
            continue
        finally:
            ring.draw.clear()  # these hold the ring itself: without them it is freed at once, with all that it made


@dataclass(frozen=True)
class Inverse:
    """A generator y with y f = 1; ``plain`` where f holds no other inverse, so that it can be cleared."""

    place: int
    f: Poly
    plain: bool


class Functions:
    """One ring; values are polynomials in its generators, which come into being as they are met."""

    def __init__(self, room: Room):
        self.room = room
        self.roots = dict(room.roots or {})
        names = [f"t{n}" for n in range(room.generators)]
        self.context = flint.fmpq_mpoly_ctx.get(names, flint.Ordering.lex)
        self._all = self.context.gens()
        self.names: list[str] = []
        self.draw: list[Callable[[random.Random, list[flint.fmpq]], flint.fmpq]] = []
        self.zero, self.one = self.context.constant(0), self.context.constant(1)
        self._points: dict[int, tuple[list[flint.fmpq], random.Random]] = {}
        self._symbols: dict[str, Poly] = {}
        self._exponents: list[tuple[Poly, dict[Any, Any], Any, list[Any]]] = []
        self._exp_place: dict[int, int] = {}
        self._exps: dict[str, Poly] = {}
        self.inverses: list[Inverse] = []
        self._inverse_at: dict[int, Inverse] = {}
        self._inverse_of: dict[str, Poly] = {}
        self._invs: dict[str, Poly] = {}
        self._logs: dict[str, Poly] = {}
        self._log_of: dict[str, Poly] = {}
        self._logged: dict[int, Poly] = {}

    @classmethod
    def probe(cls) -> Functions:
        """A ring for questions that need no values."""
        return cls(Room())

    # --- generators ---------------------------------------------------------------------------------------------------

    def _new(self, name: str, draw: Callable[[random.Random, list[flint.fmpq]], flint.fmpq]) -> tuple[int, Poly]:
        place = len(self.names)
        if place == self.room.generators:
            self.room.generators = place + place // 2
            raise _Again
        self.names.append(name)
        self.draw.append(draw)
        return place, self._all[place]

    def number(self, value: Fraction | int) -> Poly:
        """A rational number."""
        if isinstance(value, int):
            return self.context.constant(value)
        return self.context.constant(flint.fmpq(value.numerator, value.denominator))

    def symbol(self, name: str, *, positive: bool = False) -> Poly:
        """The indeterminate of this name, the same one each time."""
        if name not in self._symbols:
            low = 1 if positive else -9

            def draw(rng: random.Random, _: list[flint.fmpq]) -> flint.fmpq:
                return flint.fmpq(rng.choice([n for n in range(low, 10) if n]), rng.choice((1, 1, 2, 3)))

            self._symbols[name] = self._new(name, draw)[1]
        return self._symbols[name]

    def never_positive(self, p: Poly) -> bool:
        """Whether p is a number, and 0 or less."""
        return p.is_zero() or (p.is_constant() and p.leading_coefficient() < 0)

    @property
    def size(self) -> int:
        """How many generators there are by now."""
        return len(self.names)

    # --- the three functions ------------------------------------------------------------------------------------------

    def inv(self, p: Poly) -> Poly:
        """1/p, and 0 for p = 0."""
        if p.is_constant():
            return self.zero if p.is_zero() else self.one / p
        key = str(p)
        if key not in self._invs:
            self._invs[key] = self._inv(p)
        return self._invs[key]

    def _inv(self, p: Poly) -> Poly:
        p = self.shorter(p)
        if self.is_zero(p):
            return self.zero
        if p.is_constant():
            return self.one / p
        try:
            constant, factors, below = self._factored(p)
        except _TooLarge:
            return self._inverse(p, plain=False)
        out = self.number(1) / constant
        for f, power in below:
            out = out * f**power
        for f, power in factors:
            out = out * self._inverse(f, plain=True) ** power
        return self.reduce(out)

    def _inverse(self, f: Poly, *, plain: bool) -> Poly:
        """The generator 1/f."""
        key = str(f)
        if key not in self._inverse_of:

            def draw(_: random.Random, values: list[flint.fmpq]) -> flint.fmpq:
                return 1 / self.value(f, values)

            place, y = self._new(f"1/({self.show(f)})", draw)
            self._inverse_at[place] = Inverse(place, f, plain)
            self.inverses.append(self._inverse_at[place])
            self._inverse_of[key] = y
        return self._inverse_of[key]

    def _factored(self, p: Poly) -> tuple[Any, list[tuple[Poly, int]], list[tuple[Poly, int]]]:
        """p = constant * prod f^e / prod f^t, without inverses: the constant, the factors, what stands below."""
        below: list[tuple[Poly, int]] = []
        for inverse in reversed(self.inverses):
            power = p.degrees()[inverse.place]
            if power and len(p) == 1 and inverse.plain:
                p = divmod(p, self._all[inverse.place] ** power)[0]
                below.append((inverse.f, power))
            elif power:
                if not inverse.plain:
                    raise _TooLarge
                p = self._cleared(p, inverse)
                below.append((inverse.f, power))
                if len(p) > LARGE:
                    raise _TooLarge
        constant = p.leading_coefficient()
        p = p / constant
        degrees = p.degrees()
        factors = []
        lowest = [min(column) for column in zip(*p.monoms(), strict=True)] if len(p) > 1 else list(degrees)
        for place, power in enumerate(lowest):
            if power:
                factors.append((self._all[place], power))
        if factors:
            p = p / self.context.from_dict({tuple(lowest): 1})
        if not p.is_constant():
            if sum(p.degrees()) and p.total_degree() == 1:
                factors.append((p, 1))
            else:
                unit, more = p.factor()
                constant = constant * unit
                factors += [(f, int(power)) for f, power in more]
        return constant, factors, below

    def exp(self, p: Poly) -> Poly:
        """e^p as a product of powers of the exponentials that span it."""
        if p.is_zero():
            return self.one
        key = str(p)
        if key not in self._exps:
            self._exps[key] = self._exp(self.reduce(p))
        return self._exps[key]

    def _exp(self, p: Poly) -> Poly:
        out = self.one
        rest: dict[Any, Any] = {}
        for monomial, c in p.to_dict().items():
            place = next((n for n, power in enumerate(monomial) if power), None)
            if place in self._logged and sum(monomial) == 1 and c.q == 1:
                out = out * self._power(self._logged[place], int(c.p))
            else:
                rest[monomial] = c
        weights: list[Any] = [flint.fmpq(0)] * len(self._exponents)
        for _, row, pivot, made_of in self._exponents:
            if pivot in rest:
                share = rest[pivot] / row[pivot]
                for monomial, c in row.items():
                    left = rest.get(monomial, 0) - share * c
                    if left == 0:
                        rest.pop(monomial, None)
                    else:
                        rest[monomial] = left
                for n, w in enumerate(made_of):
                    weights[n] += share * w
        if rest:
            number = len(self._exponents)
            pivot = min(rest, key=lambda monomial: (abs(rest[monomial]) != 1, sum(monomial)))
            argument = self.context.from_dict(rest)
            self._exponents.append((argument, rest, pivot, [flint.fmpq(int(n == number)) for n in range(number + 1)]))
            weights.append(flint.fmpq(1))
            root = self.roots.get(number, 1)
            name = f"exp({self.show(argument)})" if root == 1 else f"exp(({self.show(argument)})/{root})"

            def draw(rng: random.Random, _: list[flint.fmpq]) -> flint.fmpq:
                return flint.fmpq(rng.randint(1, 9), rng.randint(1, 4))

            self._exp_place[number] = self._new(name, draw)[0]
        for number, weight in enumerate(weights):
            if weight == 0:
                continue
            power = weight * self.roots.get(number, 1)
            if power.q != 1:
                self.room.roots = {**self.roots, number: self.roots.get(number, 1) * int(power.q)}
                raise _Again
            out = out * self._power(self._all[self._exp_place[number]], int(power.p))
        return self.reduce(out)

    def _power(self, f: Poly, power: int) -> Poly:
        return f**power if power >= 0 else self.inv(f) ** -power

    def log(self, p: Poly) -> Poly:
        """log p, additive over factors; Undecided where a factor is seen to be negative."""
        key = str(p)
        if key not in self._logs:
            self._logs[key] = self._log_of_product(self.shorter(p))
        return self._logs[key]

    def _log_of_product(self, p: Poly) -> Poly:
        if p.is_constant() and p == 1:
            return self.zero
        try:
            constant, factors, below = self._factored(p)
        except _TooLarge:
            raise Undecided("log: the argument is too large to be factored") from None
        out = self.zero
        if constant < 0:
            odd = next((n for n, (_, power) in enumerate(factors) if power % 2), None)
            if odd is None:
                raise Undecided("log: the argument is negative")
            factors[odd] = (-factors[odd][0], factors[odd][1])
            constant = -constant
        for part, sign in ((constant.p, 1), (constant.q, -1)):
            for prime, power in flint.fmpz(part).factor():
                out = out + self._log(self.context.constant(int(prime))) * (sign * int(power))
        for f, power in factors:
            out = out + self._log(f) * power
        for f, power in below:
            out = out - self._log(f) * power
        return out

    def _log(self, f: Poly) -> Poly:
        """The logarithm of an irreducible factor."""
        for number, place in self._exp_place.items():
            if f == self._all[place]:
                return self._exponents[number][0] / self.roots.get(number, 1)
        key = str(f)
        if key not in self._log_of:

            def draw(rng: random.Random, _: list[flint.fmpq]) -> flint.fmpq:
                return flint.fmpq(rng.randint(-9, 9), rng.randint(1, 7))

            place, self._log_of[key] = self._new(f"log({self.show(f)})", draw)
            self._logged[place] = f
        return self._log_of[key]

    # --- equality -----------------------------------------------------------------------------------------------------

    def reduce(self, p: Poly) -> Poly:
        """p with every y f replaced by 1; unique if the leading monomials of the f have no variable in common."""
        if p.is_zero():
            return p
        while True:
            before = p
            degrees = p.degrees()
            for inverse in self.inverses:
                if degrees[inverse.place]:
                    p = divmod(p, inverse.f * self._all[inverse.place] - 1)[1]
            if p == before:
                return p

    def shorter(self, p: Poly) -> Poly:
        """p or its reduced form, whichever has fewer terms."""
        if len(p) < 2:
            return p
        reduced = self.reduce(p)
        return reduced if len(reduced) < len(p) else p

    def is_zero(self, p: Poly) -> bool:
        """Whether p is 0 as a function; decided exactly."""
        if p.is_zero():
            return True
        if any(self.value(p, self.point(number)) != 0 for number in range(2)):
            return False
        p = self.reduce(p)
        if not p.is_zero():
            p = self.reduce(self._without_monomials(p))
        return p.is_zero() or self.cleared(p).is_zero()

    def cleared(self, p: Poly) -> Poly:
        """p times the smallest product of denominators that leaves a polynomial without inverses."""
        for inverse in reversed(self.inverses):
            p = self._cleared(p, inverse)
        return p

    def _without_monomials(self, p: Poly) -> Poly:
        """p times a monomial that clears every inverse of a monomial: only those relations overlap with others."""
        degrees = p.degrees()
        for inverse in self.inverses:
            if degrees[inverse.place] and len(inverse.f) == 1:
                p = divmod(p * inverse.f ** degrees[inverse.place], inverse.f * self._all[inverse.place] - 1)[1]
        return p

    def _cleared(self, p: Poly, inverse: Inverse) -> Poly:
        """p f^t, where t is its degree in y = 1/f."""
        top = p.degrees()[inverse.place]
        if not top:
            return p
        parts: list[dict[Any, Any]] = [{} for _ in range(top + 1)]
        for monomial, c in p.to_dict().items():
            power = monomial[inverse.place]
            parts[power][(*monomial[: inverse.place], 0, *monomial[inverse.place + 1 :])] = c
        out = self.zero
        for part in parts:
            out = out * inverse.f + self.context.from_dict(part)
        return out

    # --- points -------------------------------------------------------------------------------------------------------

    def point(self, number: int) -> list[flint.fmpq]:
        """Rational values for the generators so far, with every relation y f = 1 true; the same ones for a number."""
        if number not in self._points:
            self._points[number] = [], random.Random(number)
        values, rng = self._points[number]
        for attempt in range(50):
            try:
                while len(values) < len(self.names):
                    values.append(self.draw[len(values)](rng, values))
                return values
            except ZeroDivisionError:
                values.clear()
                rng.seed(f"{number} {attempt}")
        raise Undecided("no rational point at which every denominator differs from 0 was found")

    def value(self, p: Poly, values: Sequence[flint.fmpq]) -> flint.fmpq:
        """p at a point."""
        return p(*values, *[flint.fmpq(0)] * (self.room.generators - len(values)))

    def real_point(self, number: int) -> list[Any]:
        """Values for the generators that real numbers can have: rational entries, and balls around true exp and log."""
        flint.ctx.prec = 200
        rational = self.point(number)
        values: list[Any] = []
        exps = {place: n for n, place in self._exp_place.items()}
        for place in range(len(self.names)):
            if place in exps:
                n = exps[place]
                values.append((self.ball(self._exponents[n][0], values) / self.roots.get(n, 1)).exp())
            elif place in self._logged:
                values.append(self.ball(self._logged[place], values).log())
            elif place in self._inverse_at:
                values.append(1 / self.ball(self._inverse_at[place].f, values))
            else:
                values.append(rational[place])
        return values

    def ball(self, p: Poly, values: Sequence[Any]) -> Any:
        """p at such values: a ball that contains it."""
        out = flint.arb(0)
        for monomial, c in p.to_dict().items():
            term = flint.arb(c)
            for n, power in enumerate(monomial):
                if power:
                    term = term * flint.arb(values[n]) ** int(power)
            out = out + term
        return out

    def used(self, polys: Iterable[Poly]) -> list[int]:
        """The generators that occur in any of ``polys``, in the denominators of their inverses as well."""
        found: set[int] = set()
        todo = list(polys)
        while todo:
            new = {n for n, degree in enumerate(todo.pop().degrees()) if degree > 0} - found
            found |= new
            todo += [self._inverse_at[n].f for n in new if n in self._inverse_at]
        return sorted(found)

    def show(self, p: Poly) -> str:
        """p with the names of its generators."""
        if len(p) > 12:
            return f"{len(p)} terms"
        terms = []
        for monomial, c in p.to_dict().items():
            factors = [
                self.names[n] if power == 1 else f"{self.names[n]}^{power}" for n, power in enumerate(monomial) if power
            ]
            terms.append("*".join([*([str(c)] if c != 1 or not factors else []), *factors]))
        return " + ".join(terms) or "0"


class _TooLarge(Exception):
    """Clearing denominators would make a polynomial of too many terms."""
