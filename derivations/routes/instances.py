"""A claim at explicit sizes: its very terms, read as functions in which every entry is an indeterminate.

An instance fixes the sizes, the visible pairs and the lookups, and nothing else. Entries of a tensor without a
definition are indeterminates; exp, log and 1/x adjoin new ones (:mod:`derivations.routes.functions`). A formal
derivative is carried out by dual numbers: the variable becomes x + eps with eps^2 = 0, and the coefficient of eps is
read off. None of this looks at the kernel's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

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
    children,
    indices_of,
    lift,
)
from derivations.routes.dual_numbers import Jet, total
from derivations.routes.functions import Functions, Poly, Undecided

Env = Mapping[Index, int]
Bodies = Mapping[Tensor, Callable[..., Any] | None]
PATTERNS = ("all", "holes", "empty row")


class NoSuchCase(Undecided):
    """The sizes of this case contradict what the claim declares: there is nothing to compare."""


@dataclass(frozen=True)
class Case:
    """Sizes by name, and which pairs are visible: all of them, some, or some but none in the first row."""

    sizes: tuple[tuple[str, int], ...]
    visible: str = "all"

    def __str__(self) -> str:
        said = ", ".join(f"{name} = {length}" for name, length in self.sizes)
        return said if self.visible == "all" else f"{said}; visible: {self.visible}"


def visible(pattern: str, at: Sequence[int], last: int) -> bool:
    """Whether the entry ``at`` of an indicator is 1; ``last`` is the last position of its last axis."""
    row, column = sum(at[:-1]), at[-1]
    if pattern == "all":
        return True
    if pattern == "empty row" and not any(at[:-1]):
        return False
    return (row + 2 * column) % 3 != 1 or column == last


Seed = tuple[int, Tensor]  # the slot of a formal derivative, and the tensor whose entries move


class Instance:
    """One explicit case over one ring of functions."""

    def __init__(self, ring: Functions, case: Case, bodies: Bodies | None = None):
        self.ring, self.case = ring, case
        self.sizes = dict(case.sizes)
        self.bodies = dict(bodies or {})
        self._shifts: dict[Lookup, int] = {}
        self._entries: dict[Any, Jet] = {}
        self._depends: dict[Tensor, frozenset[Tensor]] = {}
        self._opened: dict[Tensor, tuple[tuple[Index, ...], Term]] = {}
        self._slopes: dict[Any, tuple[Term, Jet]] = {}
        self._one = Jet(ring, {(): ring.one})
        self._zero = Jet(ring, {})

    # --- positions ----------------------------------------------------------------------------------------------------

    def size(self, size: Size) -> int:
        if size.name not in self.sizes:
            raise Undecided(f"size {size.name}: this case does not fix it")
        return self.sizes[size.name]

    def lookup(self, lookup: Lookup, at: tuple[int, ...]) -> int:
        """A fixed table that reaches as many positions as it can; two lookups differ by a shift."""
        length, over = self.size(lookup.size), self.size(lookup.sizes[0]) if lookup.sizes else 1
        first = at[0] if at else 0
        if over > length:
            return first * length // over
        return (first + self._shifts.setdefault(lookup, len(self._shifts))) % length

    def index(self, index: AnyIndex, env: Env) -> int:
        if isinstance(index, At):
            return self.lookup(index.lookup, tuple(self.index(i, env) for i in index.indices))
        return env[index]

    def positions(self, free: Sequence[Index]) -> list[dict[Index, int]]:
        """Every position of some indices."""
        return [dict(zip(free, at, strict=True)) for at in product(*(range(self.size(index.size)) for index in free))]

    # --- values -------------------------------------------------------------------------------------------------------

    def body(self, tensor: Tensor) -> Callable[..., Any] | None:
        return self.bodies.get(tensor, tensor.body)

    def put(self, tensor: Tensor, values: Any) -> None:
        """Give the entries of a tensor these values; whatever was computed from others is forgotten."""
        self._entries = {
            (tensor, at, ()): Jet(self.ring, {(): values[at]}) for at in product(*map(range, values.shape))
        }

    def whole(self, tensor: Tensor) -> Term:
        """An entry at indices of its own."""
        return tensor(*(Index("r", size) for size in tensor.sizes))

    def definition(self, tensor: Tensor) -> Term:
        """What an entry is defined by, at indices of its own."""
        self._open(tensor)
        return self._opened[tensor][1]

    def opened(self, tensor: Tensor, at: tuple[int, ...]) -> tuple[Term, Env]:
        """The definition of an entry, with its indices at their positions."""
        self._open(tensor)
        slots, term = self._opened[tensor]
        return term, dict(zip(slots, at, strict=True))

    def _open(self, tensor: Tensor) -> None:
        if tensor not in self._opened:
            body = self.body(tensor)
            assert body is not None
            slots = tuple(Index("r", size) for size in tensor.sizes)
            self._opened[tensor] = slots, lift(body(*slots))

    def depends(self, tensor: Tensor) -> frozenset[Tensor]:
        """Every tensor that an entry depends on, itself included."""
        if tensor not in self._depends:
            self._depends[tensor] = frozenset({tensor})
            found = {tensor}
            todo: list[Term] = []
            slots = tuple(Index("r", size) for size in tensor.sizes)
            body = self.body(tensor)
            if body is not None:
                todo.append(lift(body(*slots)))
            elif tensor.through is not None:
                todo += [t(*(Index("r", size) for size in t.sizes)) for t in tensor.through]
            while todo:
                term = todo.pop()
                todo += children(term)
                if isinstance(term, Entry) and term.tensor not in found:
                    found |= self.depends(term.tensor)
            self._depends[tensor] = frozenset(found)
        return self._depends[tensor]

    def value(self, term: Term, env: Env) -> Poly:
        """A term as a function."""
        return self.jet(term, env, ()).value

    def entry(self, tensor: Tensor, at: tuple[int, ...], seeds: tuple[Seed, ...] = ()) -> Jet:
        """One entry of a tensor, with its derivatives in the seeds."""
        near = tuple(seed for seed in seeds if seed[1] in self.depends(tensor))
        key = tensor, at, near
        if key not in self._entries:
            self._entries[key] = self._entry(tensor, at, near)
        return self._entries[key]

    def _entry(self, tensor: Tensor, at: tuple[int, ...], seeds: tuple[Seed, ...]) -> Jet:
        own = [seed for seed in seeds if seed[1] is tensor]
        if own:  # the variable itself: whatever it is defined by stays as it is
            rest = tuple(seed for seed in seeds if seed[1] is not tensor)
            moved = [Jet(self.ring, {((slot, at),): self.ring.one}) for slot, _ in own]
            return total(self.ring, [self.entry(tensor, at, rest), *moved])
        if self.body(tensor) is not None:
            term, env = self.opened(tensor, at)
            out = self.jet(term, env, seeds)
            if tensor.kind == "positive" and self.ring.never_positive(out.value):
                raise NoSuchCase(f"{tensor.name} is declared positive, and is {out.value} at these sizes")
            return Jet(self.ring, {where: self.ring.shorter(p) for where, p in out.parts.items()})
        if tensor.kind == "indicator":
            last = self.size(tensor.sizes[-1]) - 1 if tensor.sizes else 0
            return self._one if visible(self.case.visible, at or (0,), last) else self._zero
        place = f"[{','.join(str(n + 1) for n in at)}]" if at else ""
        out = Jet(self.ring, {(): self.ring.symbol(f"{tensor.name}{place}", positive=tensor.kind != "real")})
        if seeds and tensor.through is not None:
            return total(self.ring, [out, self._chain(*tensor.through, seeds)])
        return out

    def _chain(self, g: Tensor, u: Tensor, seeds: tuple[Seed, ...]) -> Jet:
        """sum_r u_r dg_r: the derivative of a function of g alone whose partial derivatives are u."""
        if len(seeds) > 1:
            raise Undecided("a second derivative of a function of which only the first is declared")
        terms = []
        for at in product(*(range(self.size(size)) for size in g.sizes)):
            slopes = {where: p for where, p in self.entry(g, at, seeds).parts.items() if where}
            if slopes:
                terms.append(Jet(self.ring, slopes).scaled(self.entry(u, at).value))
        return total(self.ring, terms)

    def jet(self, term: Term, env: Env, seeds: tuple[Seed, ...]) -> Jet:
        """A term with its derivatives in the seeds."""
        match term:
            case Num(value):
                return Jet(self.ring, {(): self.ring.number(value)})
            case Count(size):
                return Jet(self.ring, {(): self.ring.number(self.size(size))})
            case Delta(left, right):
                return self._one if self.index(left, env) == self.index(right, env) else self._zero
            case Entry(tensor, indices):
                return self.entry(tensor, tuple(self.index(i, env) for i in indices), seeds)
            case Add(terms):
                return total(self.ring, (self.jet(t, env, seeds) for t in terms))
            case Mul(factors):
                out = self._one
                for factor in sorted(factors, key=_cheap_first):
                    out = out * self.jet(factor, env, seeds)
                    if not out:
                        break
                return out
            case Pow(base, exponent):
                return self.jet(base, env, seeds).power(exponent)
            case Sum(index, body):
                return total(
                    self.ring, (self.jet(body, {**env, index: n}, seeds) for n in range(self.size(index.size)))
                )
            case Fn("exp", arg):
                return self.jet(arg, env, seeds).exp()
            case Fn("inv", arg):
                return self.jet(arg, env, seeds).inv()
            case Fn("log", arg):
                return self.jet(arg, env, seeds).log()
            case Diff(body, Entry(tensor, indices)):
                slot = 1 + max((slot for slot, _ in seeds), default=0)
                moved = slot, tuple(self.index(i, env) for i in indices)
                full = self._slope(body, env, (*seeds, (slot, tensor)))
                picked = {where: p for where, p in full.parts.items() if moved in where}
                return Jet(self.ring, {tuple(w for w in where if w != moved): p for where, p in picked.items()})
        raise Undecided(f"this route has no value for {type(term).__name__}")

    def _slope(self, body: Term, env: Env, seeds: tuple[Seed, ...]) -> Jet:
        """A term with its derivatives in all entries of the seeds, kept for the other positions of the variable."""
        key = id(body), seeds, tuple(sorted((index.uid, env[index]) for index in indices_of(body)[0]))
        if key not in self._slopes:
            self._slopes[key] = body, self.jet(body, env, seeds)  # the body is kept alive, and with it its id
        return self._slopes[key][1]


def _cheap_first(term: Term) -> int:
    match term:
        case Num() | Delta() | Count():
            return 0
        case Entry(tensor, _):
            return 1 if tensor.kind == "indicator" else 2
    return 3


def free_of(*terms: Term) -> list[Index]:
    """The free indices of some terms, in a fixed order."""
    return sorted(set().union(*(indices_of(t)[0] for t in terms)), key=lambda index: index.uid)
