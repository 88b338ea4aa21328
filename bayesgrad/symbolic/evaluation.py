"""Terms evaluated at explicit small sizes: the referee that can only veto, and the maker of counterexamples.

Two ways to read exp and log on rational data, both independent of the canonical form:

* :class:`Formal`: each exp of a monomial is a prime power of its own and log is additive over prime factors, so that
  exp(x + y) = exp(x) exp(y), log(xy) = log x + log y and log exp x = x hold exactly. An equation that fails here is no
  consequence of these laws. Two different rational functions of degree D agree at a random point drawn from N values
  an entry with probability at most D / N (Schwartz and Zippel).
* :class:`Real`: the true exp and log, as balls that contain the value (arb, 200 bits). Two balls that do not meet are
  a certified counterexample.

Derivatives are taken forward, by the product rule, on the values themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint

from bayesgrad.symbolic.naming import everything
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
    lift,
    meaning,
    tensors_of,
)

Number = Any  # flint.fmpq or flint.arb
Env = Mapping[Index, int]
Bodies = Mapping[Tensor, Callable[..., Any] | None]  # None: drawn, although it has a definition
ZERO, ONE = flint.fmpq(0), flint.fmpq(1)
PRIMES = 10**6, 10**7  # where formal exps are drawn from
LARGEST = 1 << 12  # powers; an exp of an exp has none that could be written down
ROOT = 2  # formal exps are prime**ROOT, so that exp(x/2) exists


class NotEvaluated(ValueError):
    """This instance has no value: a log of a number that is not positive, a power that is not rational."""


def rational(value: Fraction) -> Number:
    return flint.fmpq(value.numerator, value.denominator)


def _fits(value: Number, kind: str) -> bool:
    """Whether a drawn value has the kind that its tensor was declared with."""
    if kind == "indicator":
        return bool(value == 0 or value == 1)
    return kind == "real" or bool(value > 0 if kind == "positive" else value >= 0)


class Instance:
    """One explicit case: sizes, and a value for each entry, drawn when it is first asked for."""

    def __init__(
        self,
        seed: int,
        spread: int,
        sizes: Mapping[Size, int] | None = None,
        bodies: Bodies | None = None,
        corner: bool = False,
    ):
        self.random = random.Random(seed)
        self.spread = spread
        self.corner = corner  # sizes 0 and 1, and many entries 0
        self.sizes: dict[Size, int] = dict(sizes or {})
        self.bodies = dict(bodies or {})
        self.values: dict[tuple[Tensor, tuple[int, ...]], Number] = {}
        self.lookups: dict[tuple[Lookup, tuple[int, ...]], int] = {}
        self._cache: dict[tuple[Tensor, tuple[int, ...]], Number] = {}
        self._slopes: dict[tuple[Any, ...], Number] = {}
        self._twin: Formal | None = None
        self._mentions: dict[tuple[Tensor, Tensor], bool] = {}

    def size(self, size: Size) -> int:
        if size not in self.sizes and self.corner:
            self.sizes[size] = 1 if size.nonempty else self.random.choice((0, 1, 1, 2))
        elif size not in self.sizes:
            taken = set(self.sizes.values())
            self.sizes[size] = self.random.choice([n for n in (2, 3) if n not in taken] or [2, 3])
        return self.sizes[size]

    def index(self, index: AnyIndex, env: Env) -> int:
        if isinstance(index, At):
            at = index.lookup, tuple(self.index(i, env) for i in index.indices)
            if at not in self.lookups:
                if not self.size(index.lookup.size):
                    raise NotEvaluated(f"{index.lookup.name} has no value in an empty size")
                self.lookups[at] = self.random.randrange(self.size(index.lookup.size))
            return self.lookups[at]
        return env[index]

    def body(self, tensor: Tensor) -> Callable[..., Any] | None:
        return self.bodies.get(tensor, tensor.body)

    def draw(self, tensor: Tensor) -> Number:
        if tensor.kind == "indicator":
            return flint.fmpq(int(self.random.random() < 0.7))
        if self.corner and tensor.kind != "positive" and self.random.random() < 0.4:
            return ZERO
        top = self.random.randint(1, self.spread)
        sign = self.random.choice((-1, 1)) if tensor.kind == "real" else 1
        return flint.fmpq(sign * top, self.random.choice((1, 1, 2, 3)) if self.spread < 100 else 1)

    def entry(self, tensor: Tensor, at: tuple[int, ...]) -> Number:
        body = self.body(tensor)
        where = (tensor, at)
        if body is None:
            if where not in self.values:
                self.values[where] = self.draw(tensor)
            return self.values[where]
        if where not in self._cache:
            value = self._cache[where] = self.value(*self._open(tensor, body, at))
            if body is not tensor.body and not _fits(value, tensor.kind):
                raise NotEvaluated(f"{tensor.name}: the sample is not {tensor.kind}")
        return self._cache[where]

    @staticmethod
    def _open(tensor: Tensor, body: Callable[..., Any], at: tuple[int, ...]) -> tuple[Term, Env]:
        if body is tensor.body:
            slots, term = tensor.definition
        else:
            slots = tuple(Index("r", size) for size in tensor.sizes)
            term = lift(body(*slots))
        return term, dict(zip(slots, at, strict=True))

    def value(self, term: Term, env: Env) -> Number:
        match term:
            case Num(value):
                return rational(value)
            case Count(size):
                return flint.fmpq(self.size(size))
            case Entry(tensor, indices):
                return self.entry(tensor, tuple(self.index(i, env) for i in indices))
            case Delta(left, right):
                return flint.fmpq(int(self.index(left, env) == self.index(right, env)))
            case Add(terms):
                return sum((self.value(t, env) for t in terms), ZERO)
            case Mul((Entry(one, where), Fn("inv", Entry(other, place)))) if one is other and (
                [self.index(i, env) for i in where] == [self.index(i, env) for i in place]
            ):  # x times inv(x) is 1 exactly, where a ball for x excludes 0
                value = self.value(term.factors[0], env)
                if isinstance(value, flint.arb) and value.contains(0):
                    raise NotEvaluated("a ball that holds 0 has no inverse")
                return ZERO if value == 0 else ONE
            case Mul(factors):
                out = ONE
                for factor in factors:
                    out = out * self.value(factor, env)
                    if out == 0:
                        return ZERO
                return out
            case Pow(base, exponent):
                return self.value(base, env) ** exponent
            case Sum(index, body):
                return sum((self.value(body, {**env, index: n}) for n in range(self.size(index.size))), ZERO)
            case Fn("inv", arg):
                value = self.value(arg, env)
                return ZERO if value == 0 else 1 / value
            case Fn("exp", arg):
                return self.exp(arg, env)
            case Fn("log", arg):
                return self.log(self.value(arg, env))
            case Fn():
                return self.value(meaning(term), env)
            case Diff(body, Entry(tensor, indices)):
                return self.slope(body, env, (tensor, tuple(self.index(i, env) for i in indices)))
        raise NotEvaluated(f"no value for {type(term).__name__}")

    def slope(self, term: Term, env: Env, wrt: tuple[Tensor, tuple[int, ...]]) -> Number:
        """The partial derivative with respect to one concrete entry."""

        def d(t: Term, e: Env = env) -> Number:
            return self.slope(t, e, wrt)

        match term:
            case Num() | Count() | Delta():
                return ZERO
            case Entry(tensor, indices):
                return self._entry_slope(tensor, tuple(self.index(i, env) for i in indices), wrt)
            case Add(terms):
                return sum((d(t) for t in terms), ZERO)
            case Mul(factors):
                out = ZERO
                for n, factor in enumerate(factors):
                    one = d(factor)
                    if one != 0:
                        out = out + one * self.value(Mul((*factors[:n], *factors[n + 1 :])), env)
                return out
            case Pow(base, exponent):
                return self.value(base, env) ** (exponent - 1) * d(base) * exponent
            case Sum(index, body):
                return sum((d(body, {**env, index: n}) for n in range(self.size(index.size))), ZERO)
            case Fn("inv", arg):
                value = self.value(arg, env)
                return ZERO if value == 0 else -d(arg) / value**2
            case Fn("exp", arg):
                return self.exp(arg, env) * d(arg)
            case Fn("log", arg):
                value = self.value(arg, env)
                if not value > 0:
                    raise NotEvaluated("log of a number that is not positive")
                return d(arg) / value
            case Fn():
                return d(meaning(term))
        raise NotEvaluated(f"no derivative for {type(term).__name__}")

    def _entry_slope(self, tensor: Tensor, at: tuple[int, ...], wrt: tuple[Tensor, tuple[int, ...]]) -> Number:
        if tensor is wrt[0]:
            return ONE if at == wrt[1] else ZERO
        pair = tensor, wrt[0]
        if pair not in self._mentions:
            slots = tuple(Index("r", size) for size in tensor.sizes)
            self._mentions[pair] = wrt[0] in tensors_of(tensor(*slots))
        body = self.body(tensor)
        if not self._mentions[pair] or (body is None and tensor.through is None):
            return ZERO
        key = tensor, at, wrt
        if key not in self._slopes:
            if tensor.through is not None:
                self._slopes[key] = self._chain(*tensor.through, at if tensor.sizes else None, wrt)
            elif body is not None:
                self._slopes[key] = self.slope(*self._open(tensor, body, at), wrt)
        return self._slopes[key]

    def _chain(self, g: Tensor, u: Tensor, own: tuple[int, ...] | None, wrt: tuple[Tensor, tuple[int, ...]]) -> Number:
        """The chain rule through g: over all its entries, or at its ``own`` place alone."""
        slots = tuple(Index("r", size) for size in g.sizes)
        out = ZERO
        todo = positions(self, slots) if own is None else [dict(zip(slots, own, strict=True))]
        for env in todo:
            one = self.slope(g(*slots), env, wrt)
            if one != 0:
                out = out + self.value(u(*slots), env) * one
        return out

    def exp(self, arg: Term, env: Env) -> Number:
        raise NotImplementedError

    def log(self, value: Number) -> Number:
        raise NotImplementedError


class Real(Instance):
    """The true exp and log, as certified balls."""

    def twin(self) -> Formal:
        """The same instance with formal exp and log: same sizes, same values, drawn or yet to be drawn."""
        if self._twin is None:
            self._twin = Formal(0, self.spread, bodies=self.bodies)
            self._twin.sizes, self._twin.values, self._twin.lookups = self.sizes, self.values, self.lookups
        return self._twin

    def exp(self, arg: Term, env: Env) -> Number:
        return flint.arb(self.value(arg, env)).exp()

    def log(self, value: Number) -> Number:
        if value == 1:
            return ZERO
        ball = flint.arb(value)
        if not ball > 0:
            raise NotEvaluated("log of a number that is not positive")
        return ball.log()


Symbolic = dict[tuple[Any, ...], Number]


class Formal(Instance):
    """exp of each monomial a prime power of its own, log additive over primes."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._primes: dict[tuple[Any, ...], int] = {}
        self._logs: dict[int, Number] = {}
        self._written: dict[tuple[Tensor, tuple[int, ...]], Symbolic] = {}

    def exp(self, arg: Term, env: Env) -> Number:
        out = ONE
        for monomial, power in self._symbolic(arg, env).items():
            if len(monomial) == 1 and monomial[0][0] == "log":
                base, scaled = monomial[0][1], power
            else:
                base, scaled = flint.fmpq(self._prime(monomial)), power * ROOT
            if scaled.q != 1 or abs(scaled.p) > LARGEST:
                raise NotEvaluated("exp: a power that is not rational, or too large to write down")
            out = out * base ** int(scaled.p)
        return out

    def log(self, value: Number) -> Number:
        if not value > 0:
            raise NotEvaluated("log of a number that is not positive")
        out = ZERO
        for part, sign in ((value.p, 1), (value.q, -1)):
            for prime, power in part.factor():
                logarithm: Number = self._logs.setdefault(int(prime), self._random())
                out = out + logarithm * (sign * int(power))
        return out

    def _random(self) -> Number:
        return flint.fmpq(self.random.randint(-self.spread, self.spread), self.random.randint(1, 7))

    def _prime(self, monomial: tuple[Any, ...]) -> int:
        if monomial not in self._primes:
            prime = 0
            while not flint.fmpz(prime).is_prime() or prime in self._logs:
                prime = self.random.randrange(*PRIMES)
            self._primes[monomial] = prime
            value = ONE
            for atom in monomial:
                value = value * (self.entry(*atom[1:]) if atom[0] == "entry" else self.log(atom[1]))
            self._logs[prime] = value / ROOT
        return self._primes[monomial]

    def _symbolic(self, term: Term, env: Env) -> Symbolic:
        """A term as a polynomial in concrete entries; anything that is no polynomial counts as a number."""
        match term:
            case Add(terms):
                out: Symbolic = {}
                for t in terms:
                    _add(out, self._symbolic(t, env))
                return {k: v for k, v in out.items() if v != 0}
            case Mul(factors):
                return _product([self._symbolic(f, env) for f in factors])
            case Pow(base, exponent):
                return _product([self._symbolic(base, env)] * exponent)
            case Sum(index, body):
                out = {}
                for n in range(self.size(index.size)):
                    _add(out, self._symbolic(body, {**env, index: n}))
                return {k: v for k, v in out.items() if v != 0}
            case Entry(tensor, indices):
                at = tuple(self.index(i, env) for i in indices)
                definition = self.body(tensor)
                if definition is None and tensor.kind != "indicator":
                    return {(("entry", tensor, at),): ONE}
                if definition is not None:
                    if (tensor, at) not in self._written:
                        self._written[tensor, at] = self._symbolic(*self._open(tensor, definition, at))
                    return self._written[tensor, at]
            case Fn("log", arg):
                return {(("log", self.value(arg, env)),): ONE}
        value = self.value(term, env)
        return {(): value} if value != 0 else {}


def _add(into: Symbolic, other: Symbolic) -> None:
    for monomial, value in other.items():
        into[monomial] = into.get(monomial, ZERO) + value


def _product(parts: Sequence[Symbolic]) -> Symbolic:
    out: Symbolic = {(): ONE}
    for part in parts:
        new: Symbolic = {}
        for left, x in out.items():
            for right, y in part.items():
                monomial = tuple(sorted(left + right, key=_order))
                new[monomial] = new.get(monomial, ZERO) + x * y
        out = new
    return {k: v for k, v in out.items() if v != 0}


def _order(atom: tuple[Any, ...]) -> tuple[Any, ...]:
    return (atom[0], atom[1].uid, atom[2]) if atom[0] == "entry" else (atom[0], 0, (str(atom[1]),))


@dataclass(frozen=True)
class Counterexample:
    """An instance on which two sides differ: everything that is needed to compute both by hand."""

    sizes: dict[str, int]
    values: dict[str, str]
    position: dict[str, int]
    left: str
    right: str

    def __str__(self) -> str:
        def show(d: Mapping[str, Any]) -> str:
            return ", ".join(f"{k}={v}" for k, v in d.items())

        at = f" at {show(self.position)}" if self.position else ""
        return f"sizes {show(self.sizes)}; {show(self.values)}{at}: left {self.left}, right {self.right}"


def positions(instance: Instance, free: Sequence[Index]) -> list[dict[Index, int]]:
    out: list[dict[Index, int]] = [{}]
    for index in free:
        out = [{**env, index: n} for env in out for n in range(instance.size(index.size))]
    return out


def _free(*terms: Term) -> list[Index]:
    found = set().union(*(indices_of(t)[0] for t in terms))
    return sorted(found, key=lambda i: i.uid)


def holds(instance: Instance, given: Sequence[Any], env: Env) -> bool:
    """Whether every hypothesis is true on an instance: at the claim's ``env``, and at all places of its own."""
    for equation in given:
        free = [i for i in _free(equation.lhs, equation.rhs) if i not in env or i in equation.free]
        for position in positions(instance, free):
            at = {**env, **position}
            gap = instance.value(equation.lhs, at) - instance.value(equation.rhs, at)
            if isinstance(gap, flint.arb) and gap.contains(0) and isinstance(instance, Real):
                twin = instance.twin()  # a ball cannot show equality: the laws of exp and log must
                gap = twin.value(equation.lhs, at) - twin.value(equation.rhs, at)
            if not (gap <= 0 if getattr(equation, "at_most", False) else gap == 0):
                return False
    return True


def differs(
    left: Term,
    right: Term,
    given: Sequence[Any],
    *,
    kind: type[Instance],
    seed: int,
    tries: int,
    spread: int,
    at_most: bool = False,
    bodies: Bodies | None = None,
    places: int = 6,
) -> tuple[Counterexample | None, int]:
    """Look for an instance on which left = right (or left <= right) fails; and how many positions were compared.

    Each of ``tries`` instances is compared at up to ``places`` positions of the free indices; every third one has sizes
    0 and 1 and many entries 0, where a convention such as inv(0) = 0 shows. ``bodies`` replaces
    definitions, so that hypotheses hold and what a claim does not depend on is drawn directly.
    """
    compared = 0
    flint.ctx.prec = 200
    sides = [side for equation in given for side in (equation.lhs, equation.rhs)]
    lookups = {thing for thing in everything([left, right, *sides]) if isinstance(thing, Lookup)}
    for attempt in range(tries):
        instance = kind(hash((seed, attempt)) & 0xFFFFFFFF, spread, bodies=bodies, corner=attempt % 3 == 2)
        if any(instance.size(f.size) == 0 and all(map(instance.size, f.sizes)) for f in lookups):
            continue  # there is no such lookup
        free = _free(left, right)
        where = positions(instance, free)
        for env in instance.random.sample(where, min(places, len(where))):
            try:
                if not holds(instance, given, env):
                    continue
                x, y = instance.value(left, env), instance.value(right, env)
            except NotEvaluated:
                continue
            compared += 1
            gap = x - y
            if gap > 0 if at_most else not (gap == 0 or (isinstance(gap, flint.arb) and gap.contains(0))):
                return _describe(instance, left, right, env, x, y), compared
    return None, compared


def _describe(instance: Instance, left: Term, right: Term, env: Env, x: Number, y: Number) -> Counterexample:
    named = tensors_of(left) | tensors_of(right)
    values = {
        f"{t.name}[{','.join(str(i + 1) for i in at)}]" if at else t.name: str(v)
        for (t, at), v in sorted(instance.values.items(), key=lambda kv: (kv[0][0].name, kv[0][1]))
        if t in named
    }
    values |= {f"{f.name}[{','.join(str(i + 1) for i in at)}]": str(v + 1) for (f, at), v in instance.lookups.items()}
    sizes = {s.name: n for s, n in sorted(instance.sizes.items(), key=lambda kv: kv[0].name)}

    def show(value: Number, digits: int) -> str:
        return str(value) if isinstance(value, flint.fmpq) else value.str(digits, radius=False)

    shown = next(
        (two for digits in (12, 25, 50) if len(set(two := (show(x, digits), show(y, digits)))) == 2),
        (show(x, 60), show(y, 60)),
    )
    return Counterexample(sizes, values, {i.name: n + 1 for i, n in env.items()}, *shown)
