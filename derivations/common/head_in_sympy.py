"""The letters of one head for statements in SymPy: what is written with them is read into the very terms of the head.

    BOOK.claim(Eq(Derivative(L(g), s[i, j]), a[i, j] * (b[i, j] - bbar[i])))

The definitions are those of :mod:`derivations.common.notation`. The array of keys is ``key``, since k is a position.
"""

from __future__ import annotations

from bayesgrad.symbolic.book import Book
from derivations.common.any_head import c as C_INDEX
from derivations.common.any_head import e as E_INDEX
from derivations.common.notation import HEAD

BOOK = Book()
H = HEAD
i, j, l, k, c, e = (BOOK.spelling.position(x, (), free=True) for x in (H.i, H.j, H.l, H.k, C_INDEX, E_INDEX))
n, m = BOOK.spelling.size(H.rows), BOOK.spelling.size(H.columns)
d_k, d_v = BOOK.spelling.size(E_INDEX.size), BOOK.spelling.size(C_INDEX.size)
M, s, Z, a, g, u = (BOOK.spelling.letter(x) for x in (H.M, H.s, H.Z, H.a, H.g, H.u))
b, bbar, A = (BOOK.spelling.letter(x) for x in (H.b, H.bbar, H.A))
q, key, v, scale = (BOOK.spelling.letter(x) for x in (H.q, H.key, H.v, H.scale))
L = BOOK.spelling.letter(H.L)[0]
