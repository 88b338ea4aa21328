"""The language of the laws: entries of tensors, finite sums with symbolic bounds, and formal derivatives.

    term  ::=  number | T(i, j, ...) | delta(i, j) | count(m) | term + term | term * term | term ** 2
            |  total(lambda j: term, over=m) | exp(term) | log(term) | inv(term) | tanh(term) | sqrt(term)
            |  Diff(term, T(i, ...))
    index ::=  i (free or bound, always over one named Size) | y(i) (an index that is looked up, such as a class label)

A sum is written with a Python function, so its index is a new object each time: a bound index cannot meet a free one of
the same name, whatever the names are. Sizes are symbols; an index belongs to exactly one, and using it in a slot of
another size is an error. ``inv`` is total: inv(0) = 0, which makes a row that sees no key have weights 0. ``tanh`` and
``sqrt`` stand for what :func:`meaning` writes out; sqrt, like log, is meant for positive arguments.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

_UID = itertools.count()
KINDS = ("real", "nonnegative", "positive", "indicator")
FUNCTIONS = ("exp", "log", "inv", "tanh", "sqrt")


class TermError(ValueError):
    """A term that means nothing: the message names the term, the slot and the sizes."""


def exact(owner: str, value: object, *kinds: type) -> None:
    """Raise unless a value is of one of these very types: what only looks like one need not behave like one."""
    if type(value) not in kinds:
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TermError(f"{owner}: got {type(value).__name__}, expected {wanted}")


def exact_tuple(owner: str, values: object, *kinds: type) -> None:
    """Raise unless this is a tuple whose members are of these very types."""
    exact(owner, values, tuple)
    for value in values:  # type: ignore[attr-defined]
        exact(owner, value, *kinds)


@dataclass(frozen=True)
class Size:
    """A symbolic number of positions. ``nonempty`` says that it is at least 1 (an assumption that proofs report)."""

    name: str
    nonempty: bool = False

    def __post_init__(self) -> None:
        exact("size: name", self.name, str)
        exact(f"size {self.name}: nonempty", self.nonempty, bool)


@dataclass(frozen=True, eq=False)
class Index:
    """One position of a size; compared by identity, so equal names never confuse two indices.

    A copy is a new index: it has a number of its own.
    """

    name: str
    size: Size
    uid: int = field(default_factory=lambda: next(_UID), init=False)

    def __post_init__(self) -> None:
        exact("index: name", self.name, str)
        exact(f"index {self.name}: size", self.size, Size)

    def __reduce__(self) -> tuple[type[Index], tuple[str, Size]]:
        return Index, (self.name, self.size)


@dataclass(frozen=True)
class Lookup:
    """An index-valued function such as the label y: (n) -> C; calling it gives an :class:`At`."""

    name: str
    sizes: tuple[Size, ...]
    size: Size

    def __post_init__(self) -> None:
        exact("lookup: name", self.name, str)
        exact_tuple(f"lookup {self.name}: sizes", self.sizes, Size)
        exact(f"lookup {self.name}: size", self.size, Size)

    def __call__(self, *indices: AnyIndex) -> At:
        return At(self, indices)


@dataclass(frozen=True)
class At:
    """The index that a lookup gives; always in range by its type."""

    lookup: Lookup
    indices: tuple[AnyIndex, ...]

    def __post_init__(self) -> None:
        exact("lookup", self.lookup, Lookup)
        _fit(self.lookup.name, self.lookup.sizes, self.indices)

    @property
    def size(self) -> Size:
        return self.lookup.size


AnyIndex = Index | At


class Term:
    """Base of all terms; numbers are lifted, subtraction and division are sums and products."""

    def __add__(self, other: Scalar) -> Term:
        return Add((self, lift(other)))

    def __radd__(self, other: Scalar) -> Term:
        return Add((lift(other), self))

    def __neg__(self) -> Term:
        return Mul((Num(Fraction(-1)), self))

    def __sub__(self, other: Scalar) -> Term:
        return Add((self, -lift(other)))

    def __rsub__(self, other: Scalar) -> Term:
        return Add((lift(other), -self))

    def __mul__(self, other: Scalar) -> Term:
        return Mul((self, lift(other)))

    def __rmul__(self, other: Scalar) -> Term:
        return Mul((lift(other), self))

    def __truediv__(self, other: Scalar) -> Term:
        return Mul((self, inv(lift(other))))

    def __rtruediv__(self, other: Scalar) -> Term:
        return Mul((lift(other), inv(self)))

    def __pow__(self, exponent: int) -> Term:
        return Pow(self, exponent)


Scalar = Term | int | Fraction


@dataclass(frozen=True, eq=False)
class Num(Term):
    value: Fraction

    def __post_init__(self) -> None:
        exact("number", self.value, Fraction)


@dataclass(frozen=True, eq=False)
class Count(Term):
    """The number of positions of a size, as a real number."""

    size: Size

    def __post_init__(self) -> None:
        exact("count", self.size, Size)


@dataclass(frozen=True, eq=False)
class Entry(Term):
    tensor: Tensor
    indices: tuple[AnyIndex, ...]

    def __post_init__(self) -> None:
        exact("entry", self.tensor, Tensor)
        _fit(self.tensor.name, self.tensor.sizes, self.indices)


@dataclass(frozen=True, eq=False)
class Delta(Term):
    left: AnyIndex
    right: AnyIndex

    def __post_init__(self) -> None:
        exact_tuple("delta", (self.left, self.right), Index, At)
        if self.left.size != self.right.size:
            sizes = f"{self.left.size.name} and {self.right.size.name}"
            raise TermError(f"delta: got indices over {sizes}, expected one size")


@dataclass(frozen=True, eq=False)
class Add(Term):
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        exact_tuple("sum of terms", self.terms, *NODES)


@dataclass(frozen=True, eq=False)
class Mul(Term):
    factors: tuple[Term, ...]

    def __post_init__(self) -> None:
        exact_tuple("product of terms", self.factors, *NODES)


@dataclass(frozen=True, eq=False)
class Pow(Term):
    base: Term
    exponent: int

    def __post_init__(self) -> None:
        exact("power: base", self.base, *NODES)
        if type(self.exponent) is not int or self.exponent < 1:
            raise TermError(f"power: got exponent {self.exponent!r}, expected a positive integer (use inv for 1/x)")


@dataclass(frozen=True, eq=False)
class Sum(Term):
    index: Index
    body: Term

    def __post_init__(self) -> None:
        exact("sum: index", self.index, Index)
        exact("sum: body", self.body, *NODES)


@dataclass(frozen=True, eq=False)
class Fn(Term):
    name: str
    arg: Term

    def __post_init__(self) -> None:
        exact("function: name", self.name, str)
        exact(f"{self.name}: argument", self.arg, *NODES)
        if self.name not in FUNCTIONS:
            raise TermError(f"function: {self.name} is not supported, only {', '.join(FUNCTIONS)} are")


@dataclass(frozen=True, eq=False)
class Diff(Term):
    """The partial derivative of ``body`` with respect to one entry, not yet carried out."""

    body: Term
    wrt: Entry

    def __post_init__(self) -> None:
        exact("derivative: body", self.body, *NODES)
        if type(self.wrt) is not Entry or self.wrt.tensor.kind == "indicator":
            raise TermError("derivative: expected an entry of a tensor with real values to differentiate by")


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named array with symbolic sizes; without a body its entries are independent variables.

    ``body`` defines it by other tensors. ``through=(g, u)`` declares a differentiable function of everything only
    through the entries of ``g``, whose partial derivatives are the entries of ``u``. For one number that is "any
    downstream network"; for a tensor with the sizes of g each entry depends on the one entry of g at its own place, as
    the values of an activation do.
    ``fact`` names the inequality that makes a defined tensor nonnegative; the kernel checks that it does.
    """

    name: str
    sizes: tuple[Size, ...] = ()
    kind: str = "real"
    body: Callable[..., Scalar] | None = None
    through: tuple[Tensor, Tensor] | None = None
    fact: object = None
    tex: str = ""
    uid: int = field(default_factory=lambda: next(_UID), init=False)

    def __post_init__(self) -> None:
        exact("tensor: name", self.name, str)
        exact_tuple(f"tensor {self.name}: sizes", self.sizes, Size)
        exact(f"tensor {self.name}: kind", self.kind, str)
        exact(f"tensor {self.name}: tex", self.tex, str)
        if self.kind not in KINDS:
            raise TermError(f"tensor {self.name}: got kind {self.kind!r}, expected one of {', '.join(KINDS)}")
        if self.through is not None:
            exact_tuple(f"tensor {self.name}: through", self.through, Tensor)
            if len(self.through) != 2:
                raise TermError(f"tensor {self.name}: through: got {len(self.through)} tensors, expected two")
            g, u = self.through
            if self.body is not None or g.sizes != u.sizes or self.sizes not in ((), g.sizes):
                raise TermError(
                    f"tensor {self.name}: a function known by its gradient has no definition; its gradient has the "
                    f"sizes of what it depends on; it is one number, or one for each entry of that"
                )

    def __call__(self, *indices: AnyIndex) -> Entry:
        return Entry(self, indices)

    @cached_property
    def definition(self) -> tuple[tuple[Index, ...], Term]:
        """The slots and the body as one term: asked for once, so that a definition cannot change."""
        if self.body is None:
            raise TermError(f"tensor {self.name}: it has no definition to unfold")
        slots = tuple(Index("r", size) for size in self.sizes)
        return slots, lift(self.body(*slots))

    def unfold(self, indices: tuple[AnyIndex, ...]) -> Term:
        """The definition at these positions."""
        slots, body = self.definition
        return rename(body, dict(zip(slots, indices, strict=True)))


NODES = (Num, Count, Entry, Delta, Add, Mul, Pow, Sum, Fn, Diff)


def _fit(name: str, sizes: tuple[Size, ...], indices: tuple[AnyIndex, ...]) -> None:
    exact_tuple(f"{name}: indices", indices, Index, At)
    if len(sizes) != len(indices):
        raise TermError(f"{name}: got {len(indices)} indices, expected {len(sizes)}")
    for slot, (size, index) in enumerate(zip(sizes, indices, strict=True), 1):
        if index.size != size:
            raise TermError(f"{name}: slot {slot} ranges over {size.name}, got an index over {index.size.name}")


def lift(value: Scalar) -> Term:
    """A term from a term or an exact number; floats are refused."""
    if type(value) in NODES:
        return value  # type: ignore[return-value]
    if type(value) in (int, Fraction):
        return Num(Fraction(value))  # type: ignore[arg-type]
    raise TermError(f"term: got {type(value).__name__} {value!r}, expected a term, an int or a Fraction")


def delta(left: AnyIndex, right: AnyIndex) -> Term:
    """1 where the two positions are the same, else 0; both range over one size."""
    return Delta(left, right)


def total(body: Callable[..., Scalar], over: Size | tuple[Size, ...]) -> Term:
    """The sum of ``body(j, ...)`` over all positions; the parameters of ``body`` only lend their names."""
    sizes = over if isinstance(over, tuple) else (over,)
    names = list(inspect.signature(body).parameters)
    if len(names) != len(sizes):
        raise TermError(f"total: the body takes {len(names)} indices, got {len(sizes)} sizes")
    indices = [Index(name, size) for name, size in zip(names, sizes, strict=True)]
    out = lift(body(*indices))
    for index in reversed(indices):
        out = Sum(index, out)
    return out


def exp(arg: Scalar) -> Term:
    return Fn("exp", lift(arg))


def log(arg: Scalar) -> Term:
    return Fn("log", lift(arg))


def inv(arg: Scalar) -> Term:
    return Fn("inv", lift(arg))


def tanh(arg: Scalar) -> Term:
    return Fn("tanh", lift(arg))


def sqrt(arg: Scalar) -> Term:
    return Fn("sqrt", lift(arg))


def meaning(function: Fn) -> Term:
    """What a function stands for that is no more than a short way to write: (e^2x - 1)/(e^2x + 1), and e^(log(x)/2)."""
    match function:
        case Fn("tanh", arg):
            return 1 - 2 * inv(exp(2 * arg) + 1)
        case Fn("sqrt", arg):
            return exp(Fraction(1, 2) * log(arg))
    raise TermError(f"function: {function.name} has no definition")


def children(term: Term) -> tuple[Term, ...]:
    """The terms directly inside, in order."""
    match term:
        case Add(parts) | Mul(parts):
            return parts
        case Pow(inner, _) | Fn(_, inner) | Sum(_, inner):
            return (inner,)
        case Diff(body, wrt):
            return (body, wrt)
    return ()


def rebuild(term: Term, visit: Callable[[Term], Term]) -> Term:
    """The same node with ``visit`` applied to each child."""
    match term:
        case Add(parts):
            return Add(tuple(visit(t) for t in parts))
        case Mul(parts):
            return Mul(tuple(visit(t) for t in parts))
        case Pow(base, exponent):
            return Pow(visit(base), exponent)
        case Fn(name, arg):
            return Fn(name, visit(arg))
        case Sum(index, body):
            return Sum(index, visit(body))
        case Diff(body, wrt):
            return Diff(visit(body), wrt)
    return term


def move(index: AnyIndex, where: dict[Index, AnyIndex]) -> AnyIndex:
    """An index after a renaming, inside lookups too."""
    if isinstance(index, At):
        return At(index.lookup, tuple(move(i, where) for i in index.indices))
    return where.get(index, index)


def rename(term: Term, where: dict[Index, AnyIndex]) -> Term:
    """``term`` with free indices replaced; bound ones are made new, so that nothing can be captured."""
    match term:
        case Entry(tensor, indices):
            return Entry(tensor, tuple(move(i, where) for i in indices))
        case Delta(left, right):
            return Delta(move(left, where), move(right, where))
        case Sum(index, body):
            new = Index(index.name, index.size)
            return Sum(new, rename(body, {**where, index: new}))
        case Diff(body, Entry(tensor, indices)):
            return Diff(rename(body, where), Entry(tensor, tuple(move(i, where) for i in indices)))
    return rebuild(term, lambda t: rename(t, where))


def parts(index: AnyIndex) -> Iterator[Index]:
    """The plain indices inside an index."""
    if isinstance(index, At):
        for inner in index.indices:
            yield from parts(inner)
    else:
        yield index


def free_of(*terms: Term) -> list[Index]:
    """The free indices of terms, the oldest first."""
    found: set[Index] = set().union(*(indices_of(t)[0] for t in terms))
    return sorted(found, key=lambda i: i.uid)


def indices_of(term: Term) -> tuple[set[Index], set[Index]]:
    """The free and the bound indices of a term."""
    free: set[Index] = set()
    bound: set[Index] = set()
    match term:
        case Entry(_, indices):
            free.update(p for i in indices for p in parts(i))
        case Delta(left, right):
            free.update((*parts(left), *parts(right)))
        case Sum(index, body):
            free, bound = indices_of(body)
            return free - {index}, bound | {index}
        case _:
            for child in children(term):
                more_free, more_bound = indices_of(child)
                free |= more_free
                bound |= more_bound
    return free, bound


def lookups_of(term: Term) -> set[Lookup]:
    """Every lookup in a term, inside definitions as well."""
    found: set[Lookup] = set()

    def place(index: AnyIndex) -> None:
        if isinstance(index, At):
            found.add(index.lookup)
            for inner in index.indices:
                place(inner)

    def visit(t: Term) -> None:
        match t:
            case Entry(_, indices):
                for index in indices:
                    place(index)
            case Delta(left, right):
                place(left)
                place(right)
        for child in children(t):
            visit(child)

    visit(term)
    for tensor in tensors_of(term):
        if tensor.body is not None:
            visit(tensor.definition[1])
    return found


def tensors_of(term: Term, cut: tuple[Tensor, ...] = ()) -> set[Tensor]:
    """Every tensor named in a term, inside definitions as well, but not inside those of ``cut``."""
    found: set[Tensor] = set()

    def visit(t: Term) -> None:
        if isinstance(t, Entry) and t.tensor not in found:
            found.add(t.tensor)
            if t.tensor.body is not None and t.tensor not in cut:
                visit(t.tensor.definition[1])
            if t.tensor.through is not None and t.tensor not in cut:
                for inner in t.tensor.through:
                    visit(inner(*(Index("r", size) for size in inner.sizes)))
        for child in children(t):
            visit(child)

    visit(term)
    return found
