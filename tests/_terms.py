"""Random terms of the index calculus, for the tests of its canonical form and of the kernel."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from bayesgrad.symbolic.comparison import differs
from bayesgrad.symbolic.evaluation import Formal
from bayesgrad.symbolic.terms import (
    Add,
    Count,
    Entry,
    Index,
    Lookup,
    Mul,
    Num,
    Size,
    Sum,
    Tensor,
    Term,
    children,
    delta,
    exp,
    inv,
    rebuild,
)

n, m = Size("n"), Size("m")
i, l, j, k = Index("i", n), Index("l", n), Index("j", m), Index("k", m)
FREE = (i, l, j, k)
c = Tensor("c")
x, y = Tensor("x", (n,)), Tensor("y", (m,))
B, Q = Tensor("B", (n, m)), Tensor("Q", (n, n))
t, S = Tensor("t", (n,), "positive"), Tensor("S", (n, m), "indicator")
full = Size("f", nonempty=True)
w = Tensor("w", (full,), "positive")
look = Lookup("look", (n,), m)
TENSORS = (c, x, y, B, Q, t, S)


def _entry(draw, tensor, scope) -> Term:
    return Entry(tensor, tuple(draw(st.sampled_from([s for s in scope if s.size == size])) for size in tensor.sizes))


@st.composite
def polynomials(draw, depth=3, scope=FREE, functions=False) -> Term:
    """A term of entries, numbers, counts, deltas, sums and products; with ``functions`` also exp and inv."""
    if depth == 0:
        kind = draw(st.sampled_from(("entry", "entry", "entry", "entry", "delta", "number", "count")))
        if kind == "entry":
            return _entry(draw, draw(st.sampled_from(TENSORS)), scope)
        if kind == "delta":
            size = draw(st.sampled_from((n, m)))
            mine = [s for s in scope if s.size == size] + ([look(s) for s in scope if s.size == n] if size == m else [])
            return delta(draw(st.sampled_from(mine)), draw(st.sampled_from(mine)))
        return Count(draw(st.sampled_from((n, m)))) if kind == "count" else Num(Fraction(draw(st.integers(-2, 3))))
    kinds = ["add", "mul", "mul", "sum", "sum", "leaf"] + (["exp", "inv"] if functions else [])
    kind = draw(st.sampled_from(kinds))
    below = lambda s=scope: draw(polynomials(depth - 1, s, functions))
    if kind == "leaf":
        return below() if depth == 1 else draw(polynomials(0, scope, functions))
    if kind == "sum":
        new = Index(draw(st.sampled_from("ijab")), draw(st.sampled_from((n, m))))
        return Sum(new, draw(polynomials(depth - 1, (*scope, new), functions)))
    if kind in ("exp", "inv"):
        return exp(below()) if kind == "exp" else inv(below())
    return Add((below(), below())) if kind == "add" else Mul((below(), below()))


@st.composite
def positives(draw, depth=2, scope=FREE) -> Term:
    """A term that is positive by its kinds: products and sums of positive entries, exps, their inverses, numbers."""
    kind = draw(
        st.sampled_from(("entry", "entry", "exp", "number", *(("mul", "mul", "add", "inv", "sum") if depth else ())))
    )
    below = lambda s=scope: draw(positives(depth - 1, s))
    if kind == "entry":
        return _entry(draw, t, scope)
    if kind == "exp":
        return exp(draw(polynomials(1, scope)))
    if kind == "number":
        return Num(Fraction(draw(st.integers(1, 4)), draw(st.integers(1, 3))))
    if kind == "inv":
        return inv(below())
    if kind == "sum":
        new = Index("a", full)
        return Sum(new, Mul((draw(positives(depth - 1, scope)), Entry(w, (new,)))))
    return Add((below(), below())) if kind == "add" else Mul((below(), below()))


def apart(left: Term, right: Term, seed: int = 0, tries: int = 6):
    """An instance on which two terms differ, or None."""
    return differs(left, right, (), kind=Formal, seed=seed, tries=tries, spread=9, places=8)[0]


@st.composite
def near(draw, term: Term) -> Term:
    """The same term with one thing changed at one place: an index, an order of indices, a factor, a number."""
    places = _count(term)
    at = draw(st.integers(0, places - 1))
    how = draw(st.integers(0, 3))
    counter = iter(range(places))

    def visit(old: Term, scope: tuple[Index, ...]) -> Term:
        here = next(counter) == at
        match old:
            case Sum(index, body):
                new: Term = Sum(index, visit(body, (*scope, index)))
            case _:
                new = rebuild(old, lambda inner: visit(inner, scope))
        if not here:
            return new
        match new:
            case Entry(tensor, indices) if indices:
                if how == 0 and len(indices) == 2 and indices[0].size == indices[1].size:
                    return Entry(tensor, indices[::-1])
                slot = how % len(indices)
                others = [s for s in scope if s.size == indices[slot].size]
                return Entry(tensor, (*indices[:slot], draw(st.sampled_from(others)), *indices[slot + 1 :]))
            case Mul(factors) if len(factors) > 1:
                return Mul(factors[1:])
            case Add(terms) if len(terms) > 1:
                return Add(terms[1:])
            case Sum(index, body):
                return 2 * new if how else Sum(index, Add((body, Num(Fraction(1)))))
        return new * 2

    return visit(term, FREE)


def _count(term: Term) -> int:
    return 1 + sum(_count(inner) for inner in children(term))
