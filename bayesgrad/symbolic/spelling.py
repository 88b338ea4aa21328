"""How tensors, sizes, lookups and indices are spelt in SymPy: each as the letter that it was read from.

What was made without SymPy gets a letter of its own name, or of its name and a number where that is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import sympy as sp

from bayesgrad.symbolic.language import LanguageError
from bayesgrad.symbolic.terms import Index, Lookup, Size, Tensor

if TYPE_CHECKING:
    from bayesgrad.symbolic.book import Book


class Spelling:
    """The letters of a book, asked for by what they stand for."""

    def __init__(self, book: Book):
        self.book = book

    def size(self, size: Size) -> sp.Symbol:
        """The symbol of a size."""
        for symbol, value in self.book.sizes.items():
            if value == size:
                return symbol
        kind = {"positive": True} if size.nonempty else {"nonnegative": True}
        symbol = self._new("size", size.name, lambda name: sp.Symbol(name, integer=True, **kind))
        self.book.sizes[symbol] = size
        return symbol

    def entry(self, tensor: Tensor, at: tuple[Any, ...]) -> Any:
        """An entry of a tensor; of a function that is known by its derivative alone, its value: L(g) or phi(z[i])."""
        letter = self.letter(tensor)
        if not isinstance(letter, tuple):
            return letter[at] if at else letter
        function, base, whole = letter
        return function(base) if whole or not at else function(base[at])

    def letter(self, tensor: Tensor) -> Any:
        """The symbol or array of a tensor, or what a function is of."""
        for letter, value in self.book.tensors.items():
            if value is tensor:
                return letter
        letter = self._through(tensor) if tensor.through is not None else self._array(tensor)
        self.book.tensors[letter] = tensor
        return letter

    def _array(self, tensor: Tensor) -> Any:
        unused = lambda letter: letter not in self.book.tensors and letter not in self.book.definitions
        if not tensor.sizes:
            return self._new("number", tensor.name, sp.Symbol, unused)
        shape = tuple(self.size(size) for size in tensor.sizes)
        return self._new("array", tensor.name, lambda name: sp.IndexedBase(name, shape=shape), unused)

    def _through(self, tensor: Tensor) -> Any:
        assert tensor.through is not None
        base, gradient = (self.letter(t) for t in tensor.through)
        whole = not tensor.sizes and bool(tensor.through[0].sizes)
        taken = {f for f, _, _ in self.book.gradients}
        name = tensor.name.split("(")[0]
        function = self._new("function", name, sp.Function, lambda f: f not in taken)
        key = function, base, whole
        self.book.gradients[key] = gradient
        return key

    def looked_up(self, lookup: Lookup, at: tuple[Any, ...]) -> Any:
        """The position that a lookup gives."""
        for letter, value in self.book.lookups.items():
            if value == lookup:
                return letter[at] if at else letter
        size, unused = self.size(lookup.size), lambda letter: letter not in self.book.lookups
        if lookup.sizes:
            shape = tuple(self.size(s) for s in lookup.sizes)
            make = lambda name: sp.IndexedBase(name, shape=shape)
            letter = self._new("array of positions", lookup.name, make, unused)
            self.book.targets[letter] = size
        else:
            letter = self._new("fixed position", lookup.name, lambda name: sp.Symbol(name, integer=True), unused)
            self.book.fixed[letter] = size
        self.book.lookups[letter] = lookup
        return letter[at] if at else letter

    def position(self, index: Index, taken: Collection[Any], *, free: bool = False, name: str = "") -> Any:
        """A symbol for an index, none of those that are ``taken``; a free index gets the one that reads as it."""
        where = self.book.indices
        if free:
            for (symbol, _), value in where.items():
                if value is index and symbol not in taken:
                    return symbol

        def make(name: str) -> Any:
            known = [s for s in self.book.named(name) if isinstance(s, sp.Symbol)]
            return known[0] if known else sp.Symbol(name, integer=True)

        def usable(symbol: Any) -> bool:
            return symbol not in taken and not (free and (symbol, index.size) in where)

        symbol = self._new("position", name or index.name, make, usable)
        if free:
            self.size(index.size)
            where[symbol, index.size] = index
        return symbol

    def _new(
        self, role: str, name: str, make: Callable[[str], Any], usable: Callable[[Any], bool] = lambda _: True
    ) -> Any:
        """The first of name, name1, name2, ... that can play this role."""
        for number in itertools.count():
            letter = make(f"{name}{number or ''}")
            if not usable(letter):
                continue
            try:
                self.book.enter(letter, role)
            except LanguageError:
                continue
            return letter
        raise AssertionError("unreachable")
