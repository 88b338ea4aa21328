"""Relations as claims: Eq, Le and Ge, under hypotheses that may also say that a number is not zero.

``Ne(x, 0)`` is read as x * (1/x) = 1, which says the same since 1/0 := 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy as sp

from bayesgrad.symbolic.language import LanguageError, expression, refused
from bayesgrad.symbolic.letters import Definition
from bayesgrad.symbolic.proof import AtMost, Entries, Equation, every
from bayesgrad.symbolic.reader import Reader
from bayesgrad.symbolic.terms import Index, Term, indices_of, inv, lift

if TYPE_CHECKING:
    from bayesgrad.symbolic.book import Book


@dataclass(frozen=True)
class Given:
    """A hypothesis: a relation, what it says in words, and the positions that it holds for.

    Without ``every`` it holds for every value of each position that the claim does not mention, and at the claim's own
    value of the others.
    """

    relation: Any
    says: str = ""
    every: tuple[Any, ...] | None = None


def claim(
    book: Book, relation: Any, given: Sequence[Any], sample: Mapping[Any, Any], tight: Sequence[Any] | None
) -> Equation:
    """See :meth:`bayesgrad.symbolic.book.Book.claim`."""
    assumed = [g if isinstance(g, Given) else Given(g) for g in given]
    reader, _ = book.reader([side for r in (relation, *(g.relation for g in assumed)) for side in _sides(r)])
    left, right, at_most = _related(reader, relation)
    scope = indices_of(left)[0] | indices_of(right)[0]
    facts = tuple(_hypothesis(reader, g, scope) for g in assumed)
    drawn = dict(_drawn(book, head, body) for head, body in sample.items())
    if at_most:
        zero = None if tight is None else tuple(_entries(book, letter, scope) for letter in tight)
        return AtMost(left, right, given=facts, sample=drawn, tight=zero)
    if tight is not None:
        raise LanguageError(f"{relation}: tight belongs to an inequality")
    return Equation(left, right, given=facts, sample=drawn)


def _entries(book: Book, letter: Any, scope: set[Index]) -> Entries:
    """All entries of a letter; or those of T[i, j] at the claim's own positions, and at every other position."""
    if not isinstance(letter, sp.Indexed):
        return every(book.tensor(letter))
    tensor = book.tensor(letter.base)
    if len(letter.indices) != len(tensor.sizes):
        raise LanguageError(f"tight: {letter} has {len(letter.indices)} positions, expected {len(tensor.sizes)}")
    reader, _ = book.reader([letter])
    places = [reader.position(p, {}) for p in letter.indices]
    if not all(isinstance(p, Index) for p in places):
        raise LanguageError(f"tight: {letter} stands at a position that is looked up, expected symbols")
    return Entries(tensor, tuple(p if isinstance(p, Index) and p in scope else None for p in places))


def _sides(relation: Any) -> tuple[Any, Any]:
    if not isinstance(relation, sp.Eq | sp.Le | sp.Ge | sp.Ne):
        if isinstance(relation, sp.Expr):
            raise LanguageError(f"{relation}: expected a statement, Eq(left, right), Le or Ge")
        raise refused(relation)
    return relation.lhs, relation.rhs


def _related(reader: Reader, relation: Any) -> tuple[Term, Term, bool]:
    """Left, right and whether it is an inequality; a >= b is b <= a."""
    if isinstance(relation, sp.Ne):
        raise refused(relation)
    left, right = reader.term(relation.lhs, {}), reader.term(relation.rhs, {})
    if isinstance(relation, sp.Ge):
        return right, left, True
    return left, right, isinstance(relation, sp.Le)


def _hypothesis(reader: Reader, given: Given, scope: set[Index]) -> Equation:
    relation = given.relation
    if isinstance(relation, sp.Ne):
        if relation.rhs != 0:
            raise LanguageError(f"{relation}: only Ne(x, 0) is a hypothesis; write Ne(left - right, 0)")
        x = reader.term(relation.lhs, {})
        left, right, at_most = x * inv(x), lift(1), False
    else:
        left, right, at_most = _related(reader, relation)
    mine = indices_of(left)[0] | indices_of(right)[0]
    free = mine - scope
    if given.every is not None:
        free = {reader.position(p, {}) for p in given.every}  # type: ignore[misc]  # symbols are indices
        if free - mine:
            raise LanguageError(
                f"hypothesis {relation}: it holds for every {given.every}, but does not mention all of it"
            )
    ordered = tuple(sorted(free, key=lambda i: i.uid))
    return (AtMost if at_most else Equation)(left, right, ordered, says=given.says or str(relation))


def _drawn(book: Book, head: Any, body: Any) -> tuple[Any, Any]:
    """How a letter is drawn: directly (None), or by a definition of its own."""
    tensor = book.tensor(head.base if isinstance(head, sp.Indexed) else head)
    return tensor, None if body is None else book.lambda_of(Definition(head, expression(body), "real"))
