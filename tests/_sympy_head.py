"""One head of attention as a SymPy user writes it, for the tests of the language."""

from __future__ import annotations

from sympy import Derivative, Eq, Function, IndexedBase, KroneckerDelta, Sum, exp, symbols

from bayesgrad.symbolic.book import Book

n, m, d_v = symbols("n m d_v", integer=True, nonnegative=True)
i, j, k, l, c = symbols("i j k l c", integer=True)
M, s, a, b = (IndexedBase(name, shape=(n, m)) for name in "Msab")
u, g = (IndexedBase(name, shape=(n, d_v)) for name in "ug")
v = IndexedBase("v", shape=(m, d_v))
Z, bbar = IndexedBase("Z", shape=(n,)), IndexedBase("bbar", shape=(n,))
L = Function("L")

JACOBIAN = Eq(Derivative(a[i, j], s[l, k]), KroneckerDelta(i, l) * a[i, j] * (KroneckerDelta(j, k) - a[i, k]))
WEIGHTS = Eq(Derivative(L(g), a[i, j]), b[i, j])
ROUTING = Eq(Derivative(L(g), s[i, j]), a[i, j] * (b[i, j] - bbar[i]))


def head() -> Book:
    """The definitions of a head, in no order."""
    book = Book()
    book.let(bbar[i], Sum(a[i, j] * b[i, j], (j, 0, m - 1)))
    book.let(a[i, j], M[i, j] * exp(s[i, j]) / Z[i], kind="nonnegative")
    book.let(M[i, j], kind="indicator")
    book.let(Z[i], Sum(M[i, k] * exp(s[i, k]), (k, 0, m - 1)), kind="nonnegative")
    book.let(u[i, c], Derivative(L(g), g[i, c]))
    book.let(g[i, c], Sum(a[i, j] * v[j, c], (j, 0, m - 1)))
    book.let(b[i, j], Sum(u[i, c] * v[j, c], (c, 1, d_v)))
    return book
