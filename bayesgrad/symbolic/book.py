"""The definitions behind statements: what each letter of a SymPy expression is.

    book = Book()
    book.let(M[i, j], kind="indicator")                                    what a free letter may be
    book.let(Z[i], Sum(M[i, k] * exp(s[i, k]), (k, 0, m - 1)))             a definition; the order of them is free
    book.let(u[i, c], Derivative(L(g), g[i, c]))                           u is the gradient of any loss L of g
    book.let(h[i, c], phi(z[i, c]));  book.let(d[i, c], Derivative(phi(z[i, c]), z[i, c]))     any activation, its slope
    claim = book.claim(Eq(Derivative(L(g), s[i, j]), a[i, j] * (b[i, j] - bbar[i])))

A letter without a definition is free: a statement is for all its values. Letters become tensors when a statement first
needs them and never change after.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from bayesgrad.symbolic import statements
from bayesgrad.symbolic.language import LanguageError, expression
from bayesgrad.symbolic.letters import Definition, Letters, name_of
from bayesgrad.symbolic.proof import Equation, Minimum
from bayesgrad.symbolic.reader import Reader
from bayesgrad.symbolic.spelling import Spelling
from bayesgrad.symbolic.survey import Scope, Survey
from bayesgrad.symbolic.terms import KINDS, Index, Lookup, Size, Tensor, Term, rename
from bayesgrad.symbolic.writer import write


class Book(Letters):
    """Reads SymPy under definitions, and writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: dict[Any, sp.Symbol] = {}  # an array of positions, and the size that they range over
        self.definitions: dict[Any, Definition] = {}
        self.gradients: dict[tuple[Any, Any, bool], Any] = {}  # L of all of g, or phi of each entry -> its derivative
        self.tensors: dict[Any, Tensor] = {}
        self.lookups: dict[Any, Lookup] = {}
        self.indices: dict[tuple[Any, Size], Index] = {}
        self.spelling = Spelling(self)

    # -- definitions ---------------------------------------------------------------------------------------------

    def let(self, head: Any, body: Any = None, kind: str = "", fact: Any = None, tex: str = "") -> None:
        """Define a letter, or say of which kind a free one is.

        ``head`` is a Symbol or a[i, j] with different positions; ``kind`` one of real, nonnegative, positive, indicator
        (left out: what SymPy's assumptions say). ``fact`` is the claim that makes a defined letter nonnegative; for
        a single minimum it is the pair of that claim and the argument. Raises LanguageError.
        """
        with self.all_or_nothing():
            letter = self._letter(head)
            if isinstance(body, sp.Derivative) and isinstance(body.expr, AppliedUndef) and not kind:
                self._gradient(head, letter, body)
                return
            if letter in self.definitions:
                raise LanguageError(f"{letter}: it has a definition already")
            if letter in self.tensors:
                raise LanguageError(f"{letter}: it was used as a free letter; define it before the first statement")
            if kind not in ("", *KINDS):
                raise LanguageError(f"{letter}: got kind {kind!r}, expected one of {', '.join(KINDS)}")
            said = assumed_kind(head)
            if said != "real" and kind not in ("", said):
                raise LanguageError(f"{letter}: its symbol is declared {said} and let says {kind}; say one of the two")
            found = Definition(head, None if body is None else expression(body), kind or said, fact, tex)
            if body is not None:
                self.survey(found)
                self._acyclic(letter, found)
            self.definitions[letter] = found

    def _letter(self, head: Any) -> Any:
        """The letter that a head defines."""
        if isinstance(head, sp.Symbol):
            self.enter(head, "number")
            return head
        if not isinstance(head, sp.Indexed):
            raise LanguageError(f"let {head}: expected a Symbol or an entry such as a[i, j] to define")
        survey = Survey(self)
        survey.visit(head, {})
        if len(survey.free()) < len(head.indices) or any(isinstance(i, sp.Indexed) for i in head.indices):
            raise LanguageError(f"let {head}: expected a different letter for every position")
        return head.base

    def _gradient(self, head: Any, letter: Any, body: sp.Derivative) -> None:
        """``let(u[i, c], Derivative(L(g), g[i, c]))``: u is the gradient of L."""
        survey = Survey(self)
        survey.visit(body, {})
        survey.settle()
        key = function, base, whole = key_of(body.expr)
        if self.shape(base) != self.shape(letter):
            raise LanguageError(f"let {head}: a derivative by {base} has its shape, {self.shape(base)}")
        entry = base[head.indices] if isinstance(head, sp.Indexed) else base
        if body.variables != (entry,) or not (whole or body.expr.args[0] == entry):
            wanted = f"Derivative({function}({base if whole else entry}), {entry})"
            raise LanguageError(f"let {head}: expected {wanted}, the derivative at the same position, got {body}")
        if any(f == function and (b, w) != key[1:] and (w or whole) for f, b, w in self.gradients):
            raise LanguageError(f"{function}: it is a function of another array already; use two letters")
        if self.gradients.setdefault(key, letter) != letter:
            raise LanguageError(f"{body.expr}: its gradient is called {self.gradients[key]} already")

    def survey(self, definition: Definition) -> Survey:
        """Look through a definition: every position in it is one of its head, or a sum binds it."""
        shape = self.shape(definition.head.base) if definition.slots else ()
        survey = Survey(self)
        survey.visit(definition.body, dict(zip(definition.slots, shape, strict=True)))
        survey.settle()
        if loose := survey.free():
            raise LanguageError(
                f"let {definition.head}: its definition depends on {min(map(str, loose))}, which is no position of "
                f"{definition.head} and which no sum binds"
            )
        return survey

    def _acyclic(self, letter: Any, new: Definition) -> None:
        """Refuse a definition that leads back to itself."""
        known = {**self.definitions, letter: new}

        def walk(at: Any, path: tuple[Any, ...]) -> None:
            if at in path:
                raise LanguageError(f"{letter}: it is defined by itself, {' -> '.join(map(str, (*path, at)))}")
            if at in known and known[at].body is not None:
                for inner in self.letters(known[at].body):
                    walk(inner, (*path, at))

        walk(letter, ())

    def letters(self, x: Any) -> set[Any]:
        """The arrays and symbols that an expression names; a loss or an activation also names its gradient."""
        if isinstance(x, sp.IndexedBase | sp.Symbol):
            return {x}
        found: set[Any] = set().union(*(self.letters(arg) for arg in x.args))
        if isinstance(x, AppliedUndef):
            key = key_of(x)
            found |= {self.gradients[key]} if key in self.gradients else set()
        return found

    # -- letters as terms ----------------------------------------------------------------------------------------

    def tensor(self, letter: Any) -> Tensor:
        """The tensor of an array or a symbol."""
        if letter not in self.tensors:
            self.tensors[letter] = self._made(letter)
        return self.tensors[letter]

    def _made(self, letter: Any) -> Tensor:
        sizes = tuple(self.sizes[s] for s in self.shape(letter)) if isinstance(letter, sp.IndexedBase) else ()
        name = name_of(letter)
        definition = self.definitions.get(letter)
        if definition is None:
            return Tensor(name, sizes, assumed_kind(letter))
        if definition.body is None:
            return Tensor(name, sizes, definition.kind, tex=definition.tex)
        fact = definition.fact
        if isinstance(fact, tuple) and len(fact) == 2 and isinstance(fact[0], Minimum):
            fact = fact[0], self.lambda_of(Definition(definition.head, expression(fact[1]), "real"))
        return Tensor(name, sizes, definition.kind, self.lambda_of(definition), fact=fact, tex=definition.tex)

    def lambda_of(self, definition: Definition) -> Any:
        """A definition as a function of its positions."""
        survey = self.survey(definition)
        shape = self.shape(definition.head.base) if definition.slots else ()
        slots = tuple(Index(str(i), self.sizes[size]) for i, size in zip(definition.slots, shape, strict=True))
        term = Reader(self, survey).term(definition.body, dict(zip(definition.slots, slots, strict=True)))

        def body(*at: Any) -> Term:
            return rename(term, dict(zip(slots, at, strict=True)))

        named = [slot.name if slot.name.isidentifier() else f"r_{n}" for n, slot in enumerate(slots)]
        kind = inspect.Parameter.POSITIONAL_ONLY  # printers call the slots as the head does
        body.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in named])  # type: ignore[attr-defined]
        return body

    def function(self, function: Any, base: Any, *, whole: bool) -> Tensor:
        """The tensor of L(g), one number, or of the values of phi(z[i]), one for each entry of z."""
        key = function, base, whole
        if key not in self.tensors:
            if key not in self.gradients:
                at = f"[{', '.join('ijklmnop'[: len(self.shape(base))])}]" if self.shape(base) else ""
                inner = base if whole else f"{base}{at}"
                raise LanguageError(
                    f"{function}({inner}): it is known by its derivative alone, and that has no letter; "
                    f"say let(u{at}, Derivative({function}({inner}), {base}{at}))"
                )
            through = self.tensor(base), self.tensor(self.gradients[key])
            name = str(function) if whole else f"{function}({base})"
            self.tensors[key] = Tensor(name, () if whole else through[0].sizes, through=through)
        return self.tensors[key]

    def lookup(self, letter: Any, size: sp.Symbol) -> Lookup:
        """The lookup of an array of positions, or of one fixed position."""
        if letter not in self.lookups:
            sizes = tuple(self.sizes[s] for s in self.shape(letter)) if isinstance(letter, sp.IndexedBase) else ()
            self.targets[letter] = size
            self.lookups[letter] = Lookup(name_of(letter), sizes, self.sizes[size])
        return self.lookups[letter]

    def index(self, symbol: Any, size: sp.Symbol) -> Index:
        """The free index of a symbol that ranges over a size: the same one in every statement."""
        return self.indices.setdefault((symbol, self.sizes[size]), Index(str(symbol), self.sizes[size]))

    def over(self, symbol: Any, size: sp.Symbol) -> None:
        """Say which size a position ranges over, where no slot of an array says so."""
        self.enter(symbol, "position")
        self.index(symbol, self.size(size))

    def known_sizes(self, symbol: Any) -> list[sp.Symbol]:
        """The sizes that a position, or what a lookup gives, ranged over in earlier statements."""
        if symbol in self.targets:
            return [self.targets[symbol]]
        return [name for name, size in self.sizes.items() if (symbol, size) in self.indices]

    # -- statements ----------------------------------------------------------------------------------------------

    def read(self, x: Any, at: Mapping[Any, Index] | None = None) -> Term:
        """The term of an expression; ``at`` says what some of its positions are. Raises LanguageError."""
        at = at or {}
        reader, (x,) = self.reader([x], {symbol: self.spelling.size(index.size) for symbol, index in at.items()})
        return reader.term(x, at)

    def write(self, term: Term) -> Any:
        """The expression of a term; letters that the book has not met are added to it."""
        return write(self, term)

    def reader(self, expressions: Sequence[Any], scope: Scope | None = None) -> tuple[Reader, list[Any]]:
        """A reader for expressions that belong to one statement, and these, checked."""
        expressions = [expression(x) for x in expressions]
        survey = Survey(self)
        with self.all_or_nothing():
            for x in expressions:
                survey.visit(x, scope or {})
            survey.settle()
        return Reader(self, survey), expressions

    def claim(
        self,
        relation: Any,
        *,
        given: Sequence[Any] = (),
        sample: Mapping[Any, Any] | None = None,
        tight: Sequence[Any] | None = None,
    ) -> Equation:
        """An Eq, Le or Ge as a claim of the kernel, under hypotheses: relations, or :class:`statements.Given`.

        ``sample`` says how evaluation draws a letter: None for a defined one means as if it were free; an expression
        with a head as its key, ``{f[i]: ...}``, is a definition that makes the hypotheses true. ``tight`` are the
        letters that are 0 exactly where an inequality is an equality: T is all of T, and T[i, j] its entries at the
        claim's position i, if i is one, and every j, if j is none. Raises LanguageError.
        """
        return statements.claim(self, relation, given, sample or {}, tight)


def key_of(x: Any) -> tuple[Any, Any, bool]:
    """What a function is of: all of an array, or each entry of one."""
    arg = x.args[0]
    return x.func, getattr(arg, "base", arg), isinstance(arg, sp.IndexedBase)


def assumed_kind(letter: Any) -> str:
    """The kind that SymPy's assumptions give a letter."""
    return "positive" if letter.is_positive else "nonnegative" if letter.is_nonnegative else "real"
