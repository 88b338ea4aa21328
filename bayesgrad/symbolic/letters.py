"""One name is one thing: a size, a number, an array, an array of positions, a function, or a position.

Only the letter of a position may also be that of an array or a function, as in k[k, e]: where it stands tells which is
meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sympy as sp

from bayesgrad.symbolic.language import LanguageError
from bayesgrad.symbolic.terms import Size


@dataclass(frozen=True)
class Definition:
    """What is known of a letter: its head a[i, j], what it stands for (or None), its kind."""

    head: Any
    body: Any
    kind: str
    fact: Any = None
    tex: str = ""

    @property
    def slots(self) -> tuple[Any, ...]:
        return tuple(getattr(self.head, "indices", ()))


BESIDE_A_POSITION = {"array", "array of positions", "function"}


def name_of(thing: Any) -> str:
    """The name that a reader sees."""
    return str(thing.label) if isinstance(thing, sp.IndexedBase | sp.Idx) else str(thing)


class Letters:
    """What every letter is that was met so far."""

    def __init__(self) -> None:
        self.sizes: dict[sp.Symbol, Size] = {}
        self.fixed: dict[sp.Symbol, sp.Symbol] = {}  # a fixed position and its size
        self._roles: dict[Any, str] = {}
        self._named: dict[str, list[Any]] = {}

    def enter(self, thing: Any, role: str) -> None:
        """Take note that a letter is used as one thing. Raises LanguageError if it, or its name, is another one."""
        known = self._roles.get(thing)
        if known == role:
            return
        if known is not None:
            raise LanguageError(f"{thing}: it is {_a(known)} elsewhere and {_a(role)} here; use two letters")
        if isinstance(thing, sp.IndexedBase):
            self.shape(thing)
        if role in ("number", "array") and (thing.is_real is False or not thing.is_commutative):
            raise LanguageError(f"{thing}: its symbol is declared to be no real number, but all numbers here are real")
        name = name_of(thing)
        for other in self._named.get(name, ()):
            pair = {role, self._roles[other]}
            if not ("position" in pair and pair & BESIDE_A_POSITION):
                raise LanguageError(
                    f"{name}: one name for two things, {self.describe(other)} and {_shown(thing, role)}"
                )
        self._roles[thing] = role
        self._named.setdefault(name, []).append(thing)

    def named(self, name: str) -> tuple[Any, ...]:
        """What has a name: at most a position and one other thing."""
        return tuple(self._named.get(name, ()))

    def describe(self, thing: Any) -> str:
        """A letter that was met, with what tells it from another one of its name."""
        return _shown(thing, self._roles[thing])

    def size(self, symbol: Any) -> sp.Symbol:
        """Declare a size; it is at least 1 exactly if its symbol is declared positive."""
        if not isinstance(symbol, sp.Symbol) or symbol.is_integer is False or symbol.is_nonnegative is False:
            raise LanguageError(f"size {symbol}: expected a symbol such as Symbol('n', integer=True, positive=True)")
        self.enter(symbol, "size")
        if symbol not in self.sizes:
            self.sizes[symbol] = Size(symbol.name, nonempty=bool(symbol.is_positive))
        return symbol

    def at(self, symbol: sp.Symbol, size: sp.Symbol) -> None:
        """Declare one fixed position of a size."""
        self.enter(symbol, "fixed position")
        if self.fixed.setdefault(symbol, self.size(size)) != size:
            raise LanguageError(f"{symbol}: it is a position of {self.fixed[symbol]} already")

    def shape(self, base: Any) -> tuple[sp.Symbol, ...]:
        """The sizes of an array, from its declaration; a symbol is one number."""
        if isinstance(base, sp.Symbol):
            return ()
        if base.shape is None or base.offset or base.strides is not None:
            raise LanguageError(f"array {base}: its sizes are unknown; write IndexedBase({str(base)!r}, shape=(n, m))")
        return tuple(self.size(size) for size in base.shape)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """A statement that is refused leaves no letter behind."""
        before = dict(self.sizes), dict(self.fixed), dict(self._roles), {k: list(v) for k, v in self._named.items()}
        try:
            yield
        except LanguageError:
            self.sizes, self.fixed, self._roles, self._named = before
            raise


def _a(role: str) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"


def _shown(thing: Any, role: str) -> str:
    if isinstance(thing, sp.IndexedBase):
        return f"{_a(role)} of shape {tuple(thing.shape)}"
    said = ", ".join(f"{k}={v}" for k, v in sorted(getattr(thing, "_assumptions_orig", {}).items()))
    return _a(role) + (f" with {said}" if said else "")
