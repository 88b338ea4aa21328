"""What can be claimed, as values that cannot change: equations, bounds, minima, written-out instances, inductions.

Every field is a value of the very type that is expected, and mappings are copied, so that a claim stays what it was
when it was proved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from bayesgrad.symbolic.terms import NODES, Index, Lookup, Size, Tensor, Term, TermError, exact, exact_tuple

Relation = Literal["=", "<", ">"]


@dataclass(frozen=True)
class Entries:
    """Entries of one tensor: at each slot the one position of an index or, where it is None, every position."""

    tensor: Tensor
    slots: tuple[Index | None, ...]

    def __post_init__(self) -> None:
        exact("entries", self.tensor, Tensor)
        exact_tuple(f"entries of {self.tensor.name}", self.slots, Index, type(None))
        whole = self.tensor.sizes
        if len(self.slots) != len(whole) or any(s and s.size != w for s, w in zip(self.slots, whole, strict=True)):
            raise TermError(f"entries of {self.tensor.name}: expected an index or None for each slot, of its size")

    def __str__(self) -> str:
        slots = ",".join("·" if slot is None else slot.name for slot in self.slots)
        return f"{self.tensor.name}[{slots}]" if slots else self.tensor.name


def every(tensor: Tensor, *slots: Index | None) -> Entries:
    """All entries of a tensor, or those at the named positions: ``every(T, i, None)`` is row i of T."""
    return Entries(tensor, slots or (None,) * len(tensor.sizes))


@dataclass(frozen=True, eq=False)
class Equation:
    """lhs = rhs for all positions of the free indices, under ``given``.

    ``says`` puts a hypothesis into words. ``sample`` tells the evaluator how to draw tensors: by a definition that
    satisfies the hypothesis, or (None) directly, although the tensor has a definition. In a hypothesis ``free`` lists
    the indices that it holds for; its other indices are variables of the claim.
    """

    lhs: Term
    rhs: Term
    free: tuple[Index, ...] = ()
    given: tuple[Equation, ...] = ()
    says: str = ""
    sample: Mapping[Tensor, Callable[..., Any] | None] = field(default_factory=dict)

    at_most: ClassVar[bool] = False

    def __post_init__(self) -> None:
        exact_tuple("claim: sides", (self.lhs, self.rhs), *NODES)
        exact_tuple("claim: free", self.free, Index)
        exact_tuple("claim: given", self.given, Equation, AtMost)
        exact("claim: says", self.says, str)
        self._freeze("sample", Tensor)
        for tensor, body in self.sample.items():
            if body is not None and not callable(body):
                raise TermError(f"sample of {tensor.name}: expected a function of its indices, or None")

    def _freeze(self, name: str, *keys: type) -> None:
        """A mapping replaced by a copy that cannot change, its keys checked."""
        table = dict(getattr(self, name))
        exact_tuple(f"claim: {name}", tuple(table), *keys)
        object.__setattr__(self, name, MappingProxyType(table))


@dataclass(frozen=True, eq=False)
class AtMost(Equation):
    """lhs <= rhs; where ``tight`` is given, equality holds exactly where all these entries are 0."""

    tight: tuple[Entries, ...] | None = None

    at_most: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tight is not None:
            exact_tuple("bound: tight", self.tight, Entries)


@dataclass(frozen=True, eq=False)
class Minimum(Equation):
    """lhs >= 0 for all positive ``at``, with equality only where ``at`` is 1 (rhs is 0)."""

    at: Tensor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        exact("minimum: at", self.at, Tensor, type(None))


@dataclass(frozen=True, eq=False)
class Witness(Equation):
    """At these sizes, values and positions lhs is related to rhs: one written-out instance, computed exactly.

    ``values`` holds numbers in tuples of tuples, for a lookup positions from 0; a float is no number.
    """

    relation: Relation = "="
    sizes: Mapping[Size, int] = field(default_factory=dict)
    values: Mapping[Any, Any] = field(default_factory=dict)
    at: Mapping[Index, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relation not in ("=", "<", ">"):
            raise TermError(f"witness: got relation {self.relation!r}, expected =, < or >")
        for name, key in (("sizes", Size), ("at", Index)):
            self._freeze(name, key)
            for thing, number in getattr(self, name).items():
                exact(f"witness: {thing.name}", number, int)
        self._freeze("values", Tensor, Lookup)
        for thing, table in self.values.items():
            _exact_table(thing, table, len(thing.sizes), (int,) if type(thing) is Lookup else (int, Fraction))


def _exact_table(thing: Tensor | Lookup, table: object, depth: int, kinds: tuple[type, ...]) -> None:
    """Tuples in tuples as deep as there are slots, and exact numbers inside."""
    exact(f"witness: value of {thing.name}", table, *(kinds if depth == 0 else (tuple,)))
    if depth:
        for inner in table:  # type: ignore[attr-defined]
            _exact_table(thing, inner, depth - 1, kinds)


@dataclass(frozen=True, eq=False)
class Induction(Equation):
    """lhs = rhs at every time t >= 1, for tensors that depend on time.

    ``base`` is the claim with each tensor T replaced by ``first[T]``, ``step`` with T replaced by ``later[T]``, all of
    them without definitions. The step may assume this very claim (its first hypothesis) beside hypotheses that hold at
    every time; those, and the ones of the base, are hypotheses of the claim.
    """

    base: Equation | None = None
    step: Equation | None = None
    first: Mapping[Tensor, Tensor] = field(default_factory=dict)
    later: Mapping[Tensor, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, claim in (("base", self.base), ("step", self.step)):
            exact(f"induction: {name}", claim, Equation, type(None))
        for name in ("first", "later"):
            self._freeze(name, Tensor)
            exact_tuple(f"induction: {name}", tuple(getattr(self, name).values()), Tensor)


CLAIMS = (Equation, AtMost, Minimum, Witness, Induction)
