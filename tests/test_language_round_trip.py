"""Everything that is claimed, assumed or derived can be written in SymPy and read again: same canonical key."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesgrad.symbolic.book import Book
from bayesgrad.symbolic.index_calculus import key
from bayesgrad.symbolic.language import LanguageError
from bayesgrad.symbolic.terms import (
    At,
    Delta,
    Diff,
    Entry,
    Index,
    Lookup,
    Size,
    Sum,
    Tensor,
    Term,
    delta,
    exp,
    inv,
    log,
    rebuild,
    tensors_of,
    total,
)
from bayesgrad.symbolic.writer import named, written
from derivations import laws
from tests._terms import B, Q, c, i, j, l, look, m, n, polynomials, positives, x

LABELS = laws.labels()
OFTEN = settings(max_examples=300, suppress_health_check=list(HealthCheck))


def again(book: Book, term: Term) -> Term:
    """A term written and read by one book."""
    names = named(book, term)
    return book.read(book.write(term), {symbol: index for index, symbol in names.items()})


@pytest.mark.parametrize("label", LABELS)
def test_every_claim_hypothesis_and_step_keeps_its_key(label):
    book = Book()
    for part in laws.law(label).parts:
        given = [side for g in part.claim.given for side in (g.lhs, g.rhs)]
        steps = [part.proof.start, *(step.after for step in part.proof.steps)]
        for term in (part.claim.lhs, part.claim.rhs, *given, *steps):
            assert key(again(book, term)) == key(term)


class Translation:
    """Terms of one book in the letters of another, so that their keys can be compared."""

    def __init__(self, old: Book, new: Book):
        self.tensors = {tensor: old.tensors[letter] for letter, tensor in new.tensors.items()}
        self.lookups = {made: old.lookups[letter] for letter, made in new.lookups.items()}
        self.indices = {made: old.indices[at] for at, made in new.indices.items() if at in old.indices}

    def place(self, index):
        if isinstance(index, At):
            return At(self.lookups[index.lookup], tuple(map(self.place, index.indices)))
        return self.indices.get(index, index)

    def __call__(self, term: Term) -> Term:
        match term:
            case Entry(tensor, indices):
                return Entry(self.tensors[tensor], tuple(map(self.place, indices)))
            case Delta(left, right):
                return Delta(self.place(left), self.place(right))
            case Diff(body, wrt):
                return Diff(self(body), self(wrt))
        return rebuild(term, self)


@pytest.mark.parametrize("label", LABELS)
def test_a_new_book_that_is_told_everything_reads_the_same_claim(label):
    """Definitions, kinds, gradients and hypotheses travel as SymPy alone."""
    for part in laws.law(label).parts:
        old, new = Book(), Book()
        said = written(old, part.claim)
        said.tell(new)
        if not hasattr(said.relation, "lhs") or type(said.relation).__name__.startswith("Strict"):
            continue  # a witness with < or >: its sides have no other form
        read = new.claim(said.relation, given=said.given)
        into = Translation(old, new)
        swapped = type(said.relation).__name__ == "GreaterThan"
        sides = (read.rhs, read.lhs) if swapped else (read.lhs, read.rhs)
        assert [key(into(side)) for side in sides] == [key(part.claim.lhs), key(part.claim.rhs)]
        for mine, theirs in zip(read.given, part.claim.given, strict=True):
            assert type(mine) is type(theirs)
            assert mine.says == theirs.says
            assert {into.indices[index] for index in mine.free} == set(theirs.free)
            for one, other in ((mine.lhs, theirs.lhs), (mine.rhs, theirs.rhs)):
                assert key(into(one)) == key(other)
        for mine, theirs in into.tensors.items():
            assert (mine.kind, mine.sizes) == (theirs.kind, theirs.sizes)
            assert (mine.body is None, mine.through is None) == (theirs.body is None, theirs.through is None)
            if theirs.through is not None:
                assert tuple(into.tensors[t] for t in mine.through) == theirs.through
            elif theirs.body is not None:
                at = tuple(Index("r", size) for size in theirs.sizes)
                assert key(into(mine.unfold(at))) == key(theirs.unfold(at))
        assert {*into.tensors.values()} == {
            t for side in (part.claim.lhs, part.claim.rhs) for t in tensors_of(side)
        } | {t for g in part.claim.given for side in (g.lhs, g.rhs) for t in tensors_of(side)}


SHAPES = {
    "as it is": lambda p: p,
    "its log": log,
    "exp of its log": lambda p: exp(log(p)),
    "log of its exp": lambda p: log(exp(p)),
    "times its inverse": lambda p: p * inv(p),
    "inverse of its inverse": lambda p: inv(inv(p)),
    "its derivative": lambda p: Diff(p, B(i, j)),
    "square over itself": lambda p: p**2 * inv(p),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@OFTEN
@given(st.one_of(polynomials(functions=True), polynomials(), positives()))
def test_a_random_term_keeps_its_key(shape, term):
    term = shape(term)
    assert key(again(Book(), term)) == key(term)


def test_a_sum_inside_a_sum_of_one_name_is_not_captured():
    inner = Index("i", n)
    term = x(i) * Sum(inner, x(inner) * Q(inner, i))
    book = Book()
    assert str(book.write(term)) in (
        "x[i]*Sum(Q[i1, i]*x[i1], (i1, 0, n - 1))",
        "x[i]*Sum(x[i1]*Q[i1, i], (i1, 0, n - 1))",
    )
    assert key(again(book, term)) == key(term)


def test_names_stay_readable():
    book = Book()
    assert str(book.write(total(lambda j: B(i, j), over=m))) == "Sum(B[i, j], (j, 0, m - 1))"
    assert str(book.write(B(i, look(i)))) == "B[i, look[i]]"
    assert str(book.write(Diff(x(i), x(l)))) == "Derivative(x[i], x[l])"


def test_two_indices_of_one_name_get_two_symbols():
    other = Index("i", n)
    book = Book()
    term = Q(i, other)
    assert str(book.write(term)) == "Q[i, i1]"
    assert key(again(book, term)) == key(term)


def test_what_two_letters_share_a_name_with_is_kept_apart():
    """Two tensors, two sizes, two lookups and a size called alike in one term are four letters."""
    other, small = Tensor("x", (n,)), Size("x")
    look2 = Lookup("x", (n,), small)
    term = x(i) + other(i) + Tensor("n")() + Tensor("y", (small,))(look2(i)) * delta(i, l)
    book = Book()
    assert key(again(book, term)) == key(term)
    assert len(set(map(str, book.tensors))) == 4


def test_a_term_that_cannot_be_held_is_refused(monkeypatch):
    """The writer never returns an expression that reads as something else."""
    book = Book()
    honest = book.read
    monkeypatch.setattr(book, "read", lambda e, at=None: honest(e, at) * 2)
    with pytest.raises(LanguageError, match="reads as another"):
        book.write(B(i, j) + c())


def test_what_sympy_would_cancel_is_kept():
    """Z/Z is 0 where Z is 0: SymPy makes 1 of it, so it is written without evaluation."""
    mass = Tensor("Z", (n,), "nonnegative")
    term = mass(i) * inv(mass(i))
    assert str(Book().write(term)) == "Z[i]/Z[i]"
    assert key(term) != key(x(i) * 0 + 1)
