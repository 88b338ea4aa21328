"""SymPy in, SymPy out: state definitions, derive gradients, judge claims.

    from bayesgrad.symbolic import derive, let, prove

    let(a[i, j], ...)                                      definitions, in the book that is open
    derive(L(g), s[i, j]).law                              Eq(Derivative(L(g), s[i, j]), a[i, j]*(b[i, j] - bbar[i]))
    prove(Eq(Derivative(L(g), s[i, j]), ...)).word         proved, refuted or undecided

Everything is said in one :class:`~bayesgrad.symbolic.book.Book`; ``book=`` names another one than that which is open.
Nothing here is trusted: expressions are read into terms, the kernel decides about those, and what is shown is written
from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from bayesgrad.symbolic import certificate, printing, proving
from bayesgrad.symbolic.book import Book
from bayesgrad.symbolic.chain import Chain
from bayesgrad.symbolic.claims import AtMost, Equation
from bayesgrad.symbolic.counterexample import Counterexample
from bayesgrad.symbolic.deriving import Derivation, Deriver
from bayesgrad.symbolic.language import LanguageError
from bayesgrad.symbolic.proof import Verdict, check
from bayesgrad.symbolic.source import source
from bayesgrad.symbolic.terms import Entry, Index, Tensor, Term, TermError, rename, tensors_of

_OPEN: ContextVar[Book | None] = ContextVar("book", default=None)
_DERIVERS: WeakKeyDictionary[Book, dict[Any, Deriver]] = WeakKeyDictionary()
LISTENERS: list[Callable[[Any], None]] = []  # told of everything that is derived or judged


def the_book() -> Book:
    """The book that is open; the first time it is asked for, a new one."""
    book = _OPEN.get()
    if book is None:
        _OPEN.set(book := Book())
    return book


def open_book(book: Book | None = None) -> Book:
    """Open a book, or a new one; what was said before is said no longer."""
    _OPEN.set(book := book or Book())
    return book


def let(head: Any, body: Any = None, kind: str = "", **more: Any) -> None:
    """Define a letter in the open book; see :meth:`bayesgrad.symbolic.book.Book.let`."""
    the_book().let(head, body, kind, **more)


def read(expression: Any, *, book: Book | None = None) -> Term:
    """The term of a SymPy expression. Raises LanguageError."""
    return (book or the_book()).read(expression)


def write(term: Term, *, book: Book | None = None) -> Any:
    """The SymPy expression of a term."""
    return (book or the_book()).write(term)


@dataclass(frozen=True)
class Step:
    """One step of a proof: the expression that it arrives at, and why."""

    expression: Any
    reason: str


@dataclass(frozen=True, eq=False)
class Judged:
    """A statement with its proof and the verdict of the kernel: proved, refuted or undecided."""

    claim: Equation
    chain: Chain
    verdict: Verdict
    book: Book = field(repr=False)
    lemmas: tuple[Any, ...] = field(default=(), repr=False)

    @property
    def word(self) -> str:
        return self.verdict.word

    @property
    def reason(self) -> str:
        """Why it is not proved; empty where it is."""
        return self.verdict.reason

    @property
    def counterexample(self) -> Counterexample | None:
        """An instance on which the statement is certainly false, with every value that it takes to compute it."""
        return self.verdict.counterexample

    @cached_property
    def statement(self) -> Any:
        """The statement that was judged, written from its terms: an Eq or a Le."""
        import sympy as sp

        relation = sp.Le if isinstance(self.claim, AtMost) else sp.Eq
        return relation(self.book.write(self.claim.lhs), self.book.write(self.claim.rhs), evaluate=False)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The proof in the order in which one reads it."""
        return tuple(Step(self.book.write(step.after), step.why) for step in self.chain.steps)

    def text(self) -> str:
        return printing.as_text(self)

    def latex(self) -> str:
        return printing.as_latex(self)

    def html(self) -> str:
        return printing.as_html(self)


@dataclass(frozen=True, eq=False)
class Derived(Judged):
    """A gradient that was derived; ``where`` says what letters stand for that were made on the way, such as ds."""

    where: tuple[tuple[Term, Term], ...] = field(default=(), repr=False)

    @property
    def law(self) -> Any:
        """dL/dx = ..., an Eq."""
        return self.statement

    @cached_property
    def letters(self) -> dict[Any, Any]:
        """What the new letters in the law stand for."""
        return {self.book.write(letter): self.book.write(body) for letter, body in self.where}

    def source(self, library: str = "array-api") -> str:
        """A module that computes the gradient from arrays; ``library`` is array-api or numpy."""
        return source([self.claim], library=library)


@dataclass(frozen=True, eq=False)
class Proof(Judged):
    """A claim that was judged; where it is not proved, ``residual`` is the difference that was left."""

    left: Term | None = field(default=None, repr=False)

    @cached_property
    def residual(self) -> Any:
        return None if self.left is None else self.book.write(self.left)


def derive(
    loss: Any, wrt: Any, *, given: Sequence[Any] = (), letters: Sequence[Any] | None = None, book: Book | None = None
) -> Derived:
    """The gradient of a loss by an entry, computed from the definitions, folded into letters and judged.

    ``loss`` is one number: L(g), or a Symbol with a definition; ``wrt`` an entry such as q[i, e], at different letters,
    or a Symbol. ``letters`` are those to fold into beside what the loss is defined by: all that the book defines, if it
    is left out. Raises LanguageError or TermError, a sentence each.
    """
    book = book or the_book()
    left, by = book.read(loss), book.read(wrt)
    if not isinstance(left, Entry) or left.indices:
        raise LanguageError(f"{loss}: expected one number with a name to derive, such as L(g) or a letter from let")
    if not isinstance(by, Entry):
        raise LanguageError(f"{wrt}: expected an entry such as q[i, e] or a Symbol to derive by")
    if not all(isinstance(i, Index) for i in by.indices) or len(set(by.indices)) < len(by.indices):
        raise LanguageError(f"{wrt}: expected a different letter at every position to derive by")
    known = _deriver(book, left.tensor, letters, given)
    found = _at(known, by)
    where = tuple(known.spelt[d] for d in known.adjoints.values() if d in tensors_of(found.claim.rhs))
    verdict = checked_twice(found.claim, found.chain, found.verdict)
    return _told(Derived(found.claim, found.chain, verdict, book, found.lemmas, where))


def prove(relation: Any, given: Sequence[Any] = (), *, book: Book | None = None, **more: Any) -> Proof:
    """Judge an Eq, Le or Ge under hypotheses: proved, refuted by an instance, or undecided with what is left.

    ``given`` are relations, or :class:`~bayesgrad.symbolic.statements.Given`. Raises LanguageError.
    """
    book = book or the_book()
    judged = proving.prove(book.claim(relation, given=given, **more))
    verdict = checked_twice(judged.claim, judged.chain, judged.verdict)
    left = judged.residual if verdict.word != "proved" else None
    return _told(Proof(judged.claim, judged.chain, verdict, book, judged.lemmas, left))


def checked_twice(claim: Equation, chain: Chain, verdict: Verdict) -> Verdict:
    """The kernel's verdict, if the checker, which shares no code with the kernel, accepts the proof as well."""
    if verdict.word != "proved":
        return verdict
    why = certificate.doubt(claim, chain)
    return (
        replace(verdict, word="undecided", reason=f"the kernel accepts it, the checker does not: {why}")
        if why
        else verdict
    )


def _told(result: Any) -> Any:
    for listener in LISTENERS:
        listener(result)
    return result


def _deriver(book: Book, loss: Tensor, letters: Sequence[Any] | None, given: Sequence[Any]) -> Deriver:
    """One deriver for a loss, so that no law is derived twice."""
    defined = [x for x, d in book.definitions.items() if d.body is not None] if letters is None else list(letters)
    chosen = tuple(t for t in map(book.tensor, defined) if t.body is not None)
    key = loss, chosen, tuple(map(str, given))
    mine = _DERIVERS.setdefault(book, {})
    if key not in mine:
        facts = book.claim(_any(book, loss), given=given).given if given else ()
        heads = [book.read(d.head) for d in book.definitions.values()]
        mine[key] = Deriver(loss, letters=chosen, given=facts, at=[h for h in heads if isinstance(h, Entry)])
    return mine[key]


def _any(book: Book, loss: Tensor) -> Any:
    import sympy as sp

    return sp.Eq(book.write(loss()), 0, evaluate=False)


def _at(known: Deriver, wrt: Entry) -> Derivation:
    """The law at the letters that were asked for."""
    tensor, indices = wrt.tensor, tuple(i for i in wrt.indices if isinstance(i, Index))
    if tensor not in known.at:
        known.at[tensor] = indices
    law = known.law(tensor)
    if known.at[tensor] == indices:
        return law
    where = dict(zip(known.at[tensor], indices, strict=True))
    left, right = (rename(side, where) for side in (law.claim.lhs, law.claim.rhs))  # type: ignore[arg-type]
    claim = replace(law.claim, lhs=left, rhs=right)
    chain = Chain(left).rewrite(right, "the law, at these letters", law.claim)
    return Derivation(claim, chain, check(claim, chain, seed=known.seed), (law,), law.opened)


__all__ = ["Book", "Derived", "Proof", "Step", "TermError", "derive", "let", "open_book", "prove", "read", "write"]
