"""Terms evaluated at explicit small sizes: values on one instance, for the referee that can only object.

Two ways to read exp and log on rational data, both independent of the canonical form:

* :class:`Formal`: each exp of a monomial is a prime power of its own and log is additive over prime factors, so that
  exp(x + y) = exp(x) exp(y), log(xy) = log x + log y and log exp x = x hold exactly. An equation that fails here is no
  consequence of these laws. Two different rational functions of degree D agree at a random point drawn from N values
  an entry with probability at most D / N (Schwartz and Zippel).
* :class:`Real`: the true exp and log, as balls that contain the value (arb, 200 bits). Two balls that do not meet are
  certainly different numbers. It has values where no prime power exists: exp(x / T), a root, tanh.

Derivatives are taken forward, by the product rule, on the values themselves.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import flint

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
ENDLESS = 1_000_000  # summands that one instance may have
FACTORED = 400  # bits of a number whose formal log is taken: it is a product of small primes, or it has none
ROOT = 2  # formal exps are prime**ROOT, so that exp(x/2) exists


class NotEvaluated(ValueError):
    """There is no value here: a log of what is not positive, a power that is not rational, a slope of 1/x at 0."""


def rational(value: Fraction) -> Number:
    return flint.fmpq(value.numerator, value.denominator)


def nothing(value: Number) -> bool:
    """Whether a number is 0 for certain: of a ball that holds 0, neither == 0 nor != 0 is true."""
    return bool(value == 0)


def inverse(value: Number) -> Number:
    """1/x with 1/0 = 0; a ball that holds 0 has none."""
    if value == 0:
        return ZERO
    if isinstance(value, flint.arb) and value.contains(0):
        raise NotEvaluated("a ball that holds 0 has no inverse")
    return 1 / value


def _fits(value: Number, kind: str) -> bool:
    """Whether a drawn value has the kind that its tensor was declared with."""
    if kind == "indicator":
        return bool(value == 0 or value == 1)
    return kind == "real" or bool(value > 0 if kind == "positive" else value >= 0)


@lru_cache(maxsize=4096)
def opened(tensor: Tensor, body: Callable[..., Any]) -> tuple[tuple[Index, ...], Term]:
    """The slots of a tensor and what it is there, by its own definition or by a sample's."""
    if body is tensor.body:
        return tensor.definition
    slots = tuple(Index("r", size) for size in tensor.sizes)
    return slots, lift(body(*slots))


class Instance:
    """One explicit case: sizes, and a value for each entry, drawn when it is first asked for.

    ``bodies`` replaces definitions, or gives one to a tensor that has none, so that hypotheses hold. Such a body may
    depend on the positions of the claim's own indices, where the instance stands (``scope``).
    """

    def __init__(
        self,
        seed: int,
        spread: int,
        sizes: Mapping[Size, int] | None = None,
        bodies: Bodies | None = None,
        corner: bool = False,
        sparse: bool = False,
    ):
        self.random = random.Random(seed)
        self.spread = spread
        self.corner = corner  # sizes 0 and 1
        self.sparse = corner or sparse  # many entries 0
        self.sizes: dict[Size, int] = dict(sizes or {})
        self.bodies = dict(bodies or {})
        self.values: dict[tuple[Tensor, tuple[int, ...]], Number] = {}
        self.lookups: dict[tuple[Lookup, tuple[int, ...]], int] = {}
        self.scope: Env = {}
        self.work = 0
        self.forget()

    def forget(self) -> None:
        """Keep what was drawn and nothing that was computed from it."""
        self.computed: dict[tuple[Tensor, tuple[int, ...]], Number] = {}
        self._slopes: dict[tuple[Any, ...], Number] = {}
        self._mentions: dict[tuple[Tensor, Tensor], bool] = {}

    def stand(self, env: Env) -> None:
        """Take positions for the claim's indices; what depends on them is computed anew."""
        bodies = [opened(t, body) for t, body in self.bodies.items() if body is not None and body is not t.body]
        if any(indices_of(term)[0] - set(slots) for slots, term in bodies):
            self.forget()
        self.scope = dict(env)

    def size(self, size: Size) -> int:
        if size not in self.sizes and self.corner:
            self.sizes[size] = 1 if size.nonempty else self.random.choice((0, 1, 1, 2))
        elif size not in self.sizes:
            taken = set(self.sizes.values())
            self.sizes[size] = self.random.choice([n for n in (2, 3) if n not in taken] or [2, 3])
        return self.sizes[size]

    def range(self, size: Size) -> range:
        """The positions of a size, as long as the work has an end."""
        self.work += self.size(size)
        if self.work > ENDLESS:
            raise NotEvaluated("more summands than anybody waits for")
        return range(self.size(size))

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
        if self.sparse and tensor.kind != "positive" and self.random.random() < 0.4:
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
        if where not in self.computed:
            value = self.value(*self._open(tensor, body, at))
            if body is not tensor.body and not _fits(value, tensor.kind):
                raise NotEvaluated(f"{tensor.name}: the sample is not {tensor.kind}")
            self.computed[where] = value
        return self.computed[where]

    def _open(self, tensor: Tensor, body: Callable[..., Any], at: tuple[int, ...]) -> tuple[Term, Env]:
        slots, term = opened(tensor, body)
        return term, {**self.scope, **dict(zip(slots, at, strict=True))}

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
                return sum((self.value(body, {**env, index: n}) for n in self.range(index.size)), ZERO)
            case Fn("inv", arg):
                return inverse(self.value(arg, env))
            case Fn("exp", arg):
                return self.exp(arg, env)
            case Fn("log", arg):
                return self.log(self.value(arg, env))
            case Fn():
                return self.other(term, env)
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
                    if not nothing(one):
                        out = out + one * self.value(Mul((*factors[:n], *factors[n + 1 :])), env)
                return out
            case Pow(base, exponent):
                return self.value(base, env) ** (exponent - 1) * d(base) * exponent
            case Sum(index, body):
                return sum((d(body, {**env, index: n}) for n in self.range(index.size)), ZERO)
            case Fn("inv", arg):
                value = self.value(arg, env)
                if value == 0 and not self.vanishes(arg, env):
                    raise NotEvaluated("1/x has no derivative where x is 0 and not 0 throughout")
                return -d(arg) * inverse(value) ** 2
            case Fn("exp", arg):
                return self.exp(arg, env) * d(arg)
            case Fn("log", arg):
                value = self.value(arg, env)
                if not value > 0:
                    raise NotEvaluated("log of a number that is not positive")
                return d(arg) / value
            case Fn():
                return d(meaning(term))
            case Diff(body, Entry(tensor, indices)):
                return self.bend(body, env, (tensor, tuple(self.index(i, env) for i in indices)), wrt)
        raise NotEvaluated(f"no derivative for {type(term).__name__}")

    def bend(self, term: Term, env: Env, one: tuple[Tensor, tuple[int, ...]], two: Any) -> Number:
        """The second partial derivative with respect to two concrete entries."""
        if any(self.body(tensor) is not None for tensor in {one[0], two[0]}) and one[0] is not two[0]:
            raise NotEvaluated("a second derivative by an entry that depends on others")

        def bent(t: Term, e: Env = env) -> Number:
            return self.bend(t, e, one, two)

        def both(t: Term, u: Term) -> Number:
            return self.slope(t, env, one) * self.slope(u, env, two)

        match term:
            case Num() | Count() | Delta():
                return ZERO
            case Entry(tensor, indices):
                body = self.body(tensor)
                if tensor.through is not None and {one[0], two[0]} & tensors_of(term):
                    raise NotEvaluated("a second derivative of what is known by its gradient alone")
                if tensor in (one[0], two[0]) or body is None:
                    return ZERO
                return self.bend(*self._open(tensor, body, tuple(self.index(i, env) for i in indices)), one, two)
            case Add(terms):
                return sum((bent(t) for t in terms), ZERO)
            case Mul((first, *rest)) if rest:
                other = Mul(tuple(rest)) if len(rest) > 1 else rest[0]
                left, right = self.value(first, env), self.value(other, env)
                return bent(first) * right + left * bent(other) + both(first, other) + both(other, first)
            case Mul((only,)):
                return bent(only)
            case Pow(base, 1):
                return bent(base)
            case Pow(base, exponent):
                x = self.value(base, env)
                curved = exponent * (exponent - 1) * x ** (exponent - 2) * both(base, base)
                return curved + exponent * x ** (exponent - 1) * bent(base)
            case Sum(index, body):
                return sum((bent(body, {**env, index: n}) for n in range(self.size(index.size))), ZERO)
            case Fn("inv", arg):
                x = inverse(self.value(arg, env))
                if x == 0 and not self.vanishes(arg, env):
                    raise NotEvaluated("1/x has no derivative where x is 0 and not 0 throughout")
                return 2 * both(arg, arg) * x**3 - bent(arg) * x**2
            case Fn("exp", arg):
                return self.exp(arg, env) * (both(arg, arg) + bent(arg))
            case Fn("log", arg):
                x = self.value(arg, env)
                if not x > 0:
                    raise NotEvaluated("log of a number that is not positive")
                return bent(arg) / x - both(arg, arg) / x**2
            case Fn():
                return bent(meaning(term))
        raise NotEvaluated(f"no second derivative for {type(term).__name__}")

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
            if not nothing(one):
                out = out + self.value(u(*slots), env) * one
        return out

    def vanishes(self, term: Term, env: Env) -> bool:
        """Whether a term is 0 for all values of its entries: by sizes, deltas and indicators alone."""
        match term:
            case Num() | Count() | Delta():
                return bool(self.value(term, env) == 0)
            case Entry(tensor, indices):
                body, at = self.body(tensor), tuple(self.index(i, env) for i in indices)
                if body is not None:
                    return self.vanishes(*self._open(tensor, body, at))
                return tensor.kind == "indicator" and bool(self.entry(tensor, at) == 0)
            case Add(terms):
                return all(self.vanishes(t, env) for t in terms)
            case Mul(factors):
                return any(self.vanishes(t, env) for t in factors)
            case Pow(base, _) | Fn("inv", base):
                return self.vanishes(base, env)
            case Sum(index, body):
                return all(self.vanishes(body, {**env, index: n}) for n in self.range(index.size))
        return False

    def exp(self, arg: Term, env: Env) -> Number:
        raise NotImplementedError

    def log(self, value: Number) -> Number:
        raise NotImplementedError

    def other(self, function: Fn, env: Env) -> Number:
        """tanh and roots: by what they stand for."""
        return self.value(meaning(function), env)


class Real(Instance):
    """The true exp and log, as certified balls."""

    def twin(self) -> Formal:
        """The same instance with formal exp and log: same sizes, same values, drawn or yet to be drawn."""
        if self._twin is None:
            self._twin = Formal(0, self.spread, bodies=self.bodies)
            self._twin.sizes, self._twin.values, self._twin.lookups = self.sizes, self.values, self.lookups
        self._twin.scope = self.scope
        return self._twin

    _twin: Formal | None

    def forget(self) -> None:
        super().forget()
        self._twin = None

    def value(self, term: Term, env: Env) -> Number:
        out = super().value(term, env)
        if isinstance(out, flint.arb) and not out.is_finite():
            raise NotEvaluated("a number that is too large for a ball")
        return out

    def exp(self, arg: Term, env: Env) -> Number:
        value = self.value(arg, env)
        return ONE if value == 0 else flint.arb(value).exp()

    def log(self, value: Number) -> Number:
        if value == 1:
            return ZERO
        ball = flint.arb(value)
        if not ball > 0:
            raise NotEvaluated("log of a number that is not positive")
        return ball.log()

    def other(self, function: Fn, env: Env) -> Number:
        ball = flint.arb(self.value(function.arg, env))
        if function.name == "tanh":
            return ball.tanh()
        if not ball > 0:
            raise NotEvaluated("root of a number that is not positive")
        return ball.sqrt()


Symbolic = dict[tuple[Any, ...], Number]


class Formal(Instance):
    """exp of each monomial a prime power of its own, log additive over primes."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._primes: dict[tuple[Any, ...], int] = {}
        self._logs: dict[int, Number] = {}

    def forget(self) -> None:
        super().forget()
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
        if max(value.p.bit_length(), value.q.bit_length()) > FACTORED:
            raise NotEvaluated("log of a number that is too long to be factored")
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
                for n in self.range(index.size):
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


def positions(instance: Instance, free: Sequence[Index]) -> list[dict[Index, int]]:
    """All positions that some indices can take together."""
    ranges = [instance.range(index.size) for index in free]
    return [dict(zip(free, at, strict=True)) for at in itertools.product(*ranges)]
