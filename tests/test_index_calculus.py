"""The canonical form: equal keys exactly for equal terms, whatever indices are called and however sums are ordered.

Evaluation at random small sizes is the referee; it shares no line with the canonical form.
"""

from __future__ import annotations

import itertools
import random
import sys

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from bayesgrad.symbolic import index_calculus
from bayesgrad.symbolic.index_calculus import key, positive, same
from bayesgrad.symbolic.terms import (
    Count,
    Index,
    Num,
    Size,
    Sum,
    Tensor,
    Term,
    delta,
    exp,
    inv,
    log,
    rename,
    sqrt,
    tanh,
    total,
)
from derivations.rewritings import changed
from tests._terms import B, Q, S, apart, c, full, i, j, k, l, look, m, n, near, polynomials, positives, t, w, x, y

OFTEN = settings(max_examples=200, suppress_health_check=list(HealthCheck))


@OFTEN
@given(polynomials(), st.data())
def test_keys_are_equal_exactly_where_evaluation_agrees(left, data):
    right = data.draw(near(left))
    note(f"{left}\n{right}")
    assert same(left, right) == (apart(left, right) is None)
    assert same(left, right) == (key(left) == key(right))


@OFTEN
@given(polynomials(), polynomials())
def test_two_random_terms_have_equal_keys_exactly_where_evaluation_agrees(left, right):
    assert same(left, right) == (apart(left, right) is None)


@OFTEN
@given(polynomials(functions=True), st.data())
def test_equal_keys_with_functions_evaluate_alike(left, data):
    """With exp and inv the form is not complete, but it never confuses."""
    right = data.draw(near(left))
    if same(left, right):
        assert apart(left, right) is None


@OFTEN
@given(polynomials(depth=2, functions=True), st.integers(0, 10**6))
def test_harmless_changes_keep_the_key(term, seed):
    new, moves = changed(term, random.Random(seed), 3)
    note(f"{moves}")
    assert same(term, new)
    assert apart(term, new) is None


@OFTEN
@given(polynomials(functions=True))
def test_the_difference_of_a_term_and_itself_is_nothing(term):
    assert same(term - rename(term, {}), Num(index_calculus.ONE * 0))


@OFTEN
@given(positives(), st.data())
def test_logs_and_inverses_of_positive_terms_are_never_confused(left, data):
    """What is used for positive terms alone: log of a product, cancelling, log of exp."""
    right = data.draw(near(left))
    assert positive(index_calculus.flatten(left))
    for shape in (log, inv, lambda p: log(p) - log(inv(p)), lambda p: exp(log(p)) * inv(c() * p)):
        one, other = shape(left), shape(right)
        if same(one, other):
            assert apart(one, other, tries=3) is None
        assert same(one, rename(one, {}))


@OFTEN
@given(positives(), positives())
def test_log_of_a_product_and_inverse_of_a_product(p, q):
    for one, other in ((inv(p * q), inv(p) * inv(q)), (log(exp(c()) * p * 1), log(p) + c())):
        if same(one, other):
            assert apart(one, other, tries=3) is None
    if len(index_calculus.collect(index_calculus.flatten(p))) == 1:
        assert same(log(exp(c()) * p), log(p) + c())


def test_the_referee_can_tell():
    """The tests above would be empty if evaluation never differed, or always did."""
    assert apart(B(i, j), B(i, k)) is not None
    assert apart(total(lambda a: x(a), over=n), total(lambda b: x(b), over=n)) is None


a = Tensor("a", (), "positive")
CLOSE: dict[str, tuple[Term, Term]] = {
    "transposed": (Q(i, l), Q(l, i)),
    "row sum and column sum": (total(lambda a: Q(i, a), over=n), total(lambda a: Q(a, i), over=n)),
    "trace and total": (total(lambda a: Q(a, a), over=n), total(lambda a, b: Q(a, b), over=(n, n))),
    "square of a sum and sum of squares": (total(lambda a: x(a), over=n) ** 2, total(lambda a: x(a) ** 2, over=n)),
    "Q Q and Q Q^T": (
        total(lambda a, b: Q(a, b) * Q(b, a), over=(n, n)),
        total(lambda a, b: Q(a, b) * Q(a, b), over=(n, n)),
    ),
    "one three-cycle and its mirror, marked": (
        total(lambda a, b, d: x(a) * Q(a, b) * Q(b, d) * Q(d, a), over=(n, n, n)),
        total(lambda a, b, d: x(a) * Q(b, a) * Q(d, b) * Q(d, a), over=(n, n, n)),
    ),
    "two two-cycles and one four-cycle": (
        total(lambda a, b, d, e: Q(a, b) * Q(b, a) * Q(d, e) * Q(e, d), over=(n, n, n, n)),
        total(lambda a, b, d, e: Q(a, b) * Q(b, d) * Q(d, e) * Q(e, a), over=(n, n, n, n)),
    ),
    "two three-cycles and one six-cycle": (
        total(lambda a, b, d, e, f, g: Q(a, b) * Q(b, d) * Q(d, a) * Q(e, f) * Q(f, g) * Q(g, e), over=(n,) * 6),
        total(lambda a, b, d, e, f, g: Q(a, b) * Q(b, d) * Q(d, e) * Q(e, f) * Q(f, g) * Q(g, a), over=(n,) * 6),
    ),
    "sum inside exp and outside": (exp(total(lambda a: x(a), over=n)), total(lambda a: exp(x(a)), over=n)),
    "bound inside and outside a function": (
        total(lambda a: exp(Q(a, i)), over=n),
        total(lambda a: exp(Q(i, a)), over=n),
    ),
    "two sums in one exp and one sum of two": (
        total(lambda a: exp(total(lambda b: Q(a, b), over=n)), over=n),
        total(lambda a: exp(total(lambda b: Q(b, a), over=n)), over=n),
    ),
    "delta of a lookup": (total(lambda a: delta(look(a), j) * x(a), over=n), total(lambda a: x(a), over=n)),
    "look-up of another index": (y(look(i)), y(look(l))),
    "indicator and its square root's double": (S(i, j) ** 2, 2 * S(i, j)),
    "an indicator and a number squared": (x(i) ** 2, x(i)),
    "counts of two sizes": (Count(n), Count(m)),
    "count and its square": (total(lambda a, b: 1, over=(n, n)), Count(n)),
    "1/(x + y) and 1/x + 1/y": (inv(x(i) + c()), inv(x(i)) + inv(c())),
    "x/x and 1": (x(i) * inv(x(i)), Num(index_calculus.ONE)),
    "log of a product of any signs": (log(x(i) * c()), log(x(i)) + log(c())),
    "log of a sum": (log(t(i) + t(l)), log(t(i)) + log(t(l))),
    "exp of a product": (exp(x(i) * c()), exp(x(i)) * exp(c())),
    "exp(x)^2 and exp(x^2)": (exp(x(i)) ** 2, exp(x(i) ** 2)),
    "halves": (exp(x(i) / 2), exp(x(i)) / 2),
    "a sum that may be 0 over itself": ((c() + 1) * inv(c() + 1), Num(index_calculus.ONE)),
    "an empty row over itself": (
        total(lambda b: S(i, b), over=m) * inv(total(lambda b: S(i, b), over=m)),
        Num(index_calculus.ONE),
    ),
    "root of a square": (sqrt(c() ** 2), c()),
    "root of a sum": (sqrt(a() + t(i)), sqrt(a()) + sqrt(t(i))),
    "a part of a sum over it": (a() / (a() + 1), 1 / (a() + 1)),
}


@pytest.mark.parametrize("name", list(CLOSE))
def test_close_terms_are_not_confused(name):
    assert not same(*CLOSE[name])


ONE = Num(index_calculus.ONE)
SINK = exp(c()) + total(lambda r: exp(x(r)), over=n)
ALIKE: dict[str, tuple[Term, Term]] = {
    "names": (total(lambda a: x(a), over=n), total(lambda zzz: x(zzz), over=n)),
    "order of sums": (total(lambda a, b: B(a, b), over=(n, m)), total(lambda b, a: B(a, b), over=(m, n))),
    "square of a sum": (
        total(lambda a: x(a), over=n) ** 2,
        total(lambda a, b: x(b) * x(a), over=(n, n)),
    ),
    "contraction": (total(lambda a: delta(a, i) * Q(a, l), over=n), Q(i, l)),
    "contraction of a chain": (
        total(lambda a, b, d: delta(a, b) * delta(b, d) * delta(d, i) * Q(a, d), over=(n, n, n)),
        Q(i, i),
    ),
    "contraction by a lookup": (total(lambda b: delta(b, look(i)) * y(b), over=m), y(look(i))),
    "trace": (total(lambda a, b: delta(a, b) * Q(a, b), over=(n, n)), total(lambda a: Q(a, a), over=n)),
    "delta squared": (delta(i, l) ** 2, delta(l, i)),
    "delta moves what it ties": (delta(i, l) * x(i), delta(i, l) * x(l)),
    "indicator": (S(i, j) ** 3, S(i, j)),
    "empty summand": (total(lambda a: 1, over=n), Count(n)),
    "fractional powers": (exp(x(i) / 2) ** 2, exp(x(i))),
    "powers that cancel": (exp(x(i)) * exp(-x(i)), Num(index_calculus.ONE)),
    "log of positive things": (log(t(i) * t(l) ** 2), log(t(i)) + 2 * log(t(l))),
    "log of exp": (log(exp(x(i) - c())), x(i) - c()),
    "inv of inv": (inv(inv(x(i))), x(i)),
    "inv of a product": (inv(x(i) * c()), inv(c()) * inv(x(i))),
    "inv of an indicator": (inv(S(i, j)), S(i, j)),
    "x/x for x > 0": (t(i) * inv(t(i)), Num(index_calculus.ONE)),
    "shares of a positive sum": (a() / (a() + 1) + 1 / (a() + 1), Num(index_calculus.ONE)),
    "shares under one sum": (
        total(lambda r: x(r) * exp(x(r)) / (exp(x(r)) + 1), over=n),
        total(lambda r: x(r) - x(r) / (exp(x(r)) + 1), over=n),
    ),
    "shares of two entries of one tensor": (t(i) / (t(i) + t(l)) + t(l) / (t(i) + t(l)), Num(index_calculus.ONE)),
    "a row and its sink": (total(lambda r: exp(x(r)) / SINK, over=n), 1 - exp(c()) / SINK),
    "a sum over what is not empty": (total(lambda r: w(r), over=full) * inv(total(lambda r: w(r), over=full)), ONE),
    "one over one over a positive sum": (inv(inv(a() + t(i))), a() + t(i)),
    "partial fractions": (1 / a() - 1 / (a() + 1), 1 / (a() * (a() + 1))),
    "one over a product of sums": (inv((c() + 1) * (x(i) + 2)), inv(c() * x(i) + 2 * c() + x(i) + 2)),
    "one over a square of a sum": (inv((c() + 1) ** 2), inv(c() + 1) ** 2),
    "one over a multiple of a sum": (inv(2 * c() + 4 * x(i)), inv(c() + 2 * x(i)) / 2),
    "sums of squares": ((c() ** 2 + 1) * inv(c() ** 2 + 1), ONE),
    "both ways to write a sigmoid": (inv(1 + exp(-c())), exp(c()) / (1 + exp(c()))),
    "a sigmoid by tanh": ((1 + tanh(c() / 2)) / 2, inv(1 + exp(-c()))),
    "slope of tanh": (1 - tanh(c()) ** 2, 4 * exp(2 * c()) * inv(exp(2 * c()) + 1) ** 2),
    "square of a root": (sqrt(a() + t(i)) ** 2, a() + t(i)),
    "one over a root": (inv(sqrt(a() + t(i))) ** 2, inv(a() + t(i))),
    "a root of a product": (sqrt(4 * a() * t(i)), 2 * sqrt(a()) * sqrt(t(i))),
    "a root of a number": (sqrt(Num(index_calculus.ONE * 8)), 2 * sqrt(Num(index_calculus.ONE * 2))),
    "one over the root of a number": (inv(sqrt(Num(index_calculus.ONE * 2))) * 2, sqrt(Num(index_calculus.ONE * 2))),
    "exp of a multiple of a log": (exp(3 * log(a() + 1)), (a() + 1) ** 3),
    "log of a shifted sum": (log(exp(c()) * SINK), c() + log(SINK)),
}


CLEARED = {  # seen to be equal after multiplying by what stands below
    "shares of two entries of one tensor",
    "partial fractions",
    "one over a product of sums",
}


@pytest.mark.parametrize("name", list(ALIKE))
def test_equal_terms_have_equal_keys(name):
    left, right = ALIKE[name]
    assert same(left, right)
    assert key(left) == key(right) or name in CLEARED
    assert apart(left, right) is None


def test_six_sums_in_every_order():
    """The order of six nested sums never shows; all 720 orders have one key."""
    names = [Index(name, n) for name in "abdefg"]
    body = Q(names[0], names[1]) * Q(names[1], names[2]) * Q(names[3], names[4]) * x(names[5]) * Q(names[0], names[4])

    def nested(order):
        out = body
        for index in order:
            out = Sum(index, out)
        return out

    keys = {key(nested(order)) for order in itertools.permutations(names)}
    assert len(keys) == 1


@pytest.mark.parametrize("size", [4, 8, 12, 16])
@pytest.mark.parametrize("shape", ["path", "cycle", "star", "clique", "separate"])
def test_work_grows_like_a_power_and_not_like_a_factorial(size, shape, monkeypatch):
    """Counted in atoms looked at: at 16 sums there are 2e13 orders, and the form stays below a power of the edges."""
    pairs = {
        "path": [(a, a + 1) for a in range(size - 1)],
        "cycle": [(a, (a + 1) % size) for a in range(size)],
        "star": [(0, a) for a in range(1, size)],
        "clique": [(a, b) for a in range(size) for b in range(size) if a != b],
        "separate": [(a, a) for a in range(size)],
    }[shape]
    looked = 0
    original = index_calculus.atom_key

    def counted(atom, label):
        nonlocal looked
        looked += 1
        return original(atom, label)

    monkeypatch.setattr(index_calculus, "atom_key", counted)

    def term(seed):
        names = [Index(f"a{a}", n) for a in range(size)]
        rng = random.Random(seed)
        out = Num(index_calculus.ONE)
        for a, b in rng.sample(pairs, len(pairs)):
            out = out * Q(names[a], names[b])
        for index in rng.sample(names, size):
            out = Sum(index, out)
        return out

    assert key(term(1)) == key(term(2))
    assert looked <= 60 * len(pairs) * size**2


def test_a_name_may_be_anything():
    """A tensor called like a piece of a key is not taken for that piece."""
    plain = Tensor("a"), Tensor("b")
    sly = Tensor("a@1[]^1·entry b")
    assert not same(plain[0]() * plain[1](), sly())
    sizes = Size("n"), Size("n", nonempty=True)
    assert not same(Count(sizes[0]), Count(sizes[1]))


def test_bound_and_free_indices_of_one_name_do_not_meet():
    bound = total(lambda i: x(i), over=n)
    assert not same(bound, x(i))
    assert same(rename(bound * x(i), {i: l}), bound * x(l))


def test_kinds_carry_positivity_and_nothing_else_does():
    full = Size("f", nonempty=True)
    w = Tensor("w", (full,), "positive")
    assert positive(index_calculus.flatten(total(lambda a: w(a) * exp(c()), over=full)))
    assert not positive(index_calculus.flatten(total(lambda a: t(a), over=n)))
    assert not positive(index_calculus.flatten(t(i) - t(l)))
    assert not positive(index_calculus.flatten(c() ** 2))
    assert positive(index_calculus.flatten(c() ** 2 + 1))
    assert positive(index_calculus.flatten(SINK))
    assert positive(index_calculus.flatten(a() + total(lambda r: x(r) ** 2, over=n)))
    assert not positive(index_calculus.flatten(c() ** 2 - 1))
    assert not positive(index_calculus.flatten(c() ** 3 + 1))
    assert not positive(index_calculus.flatten(a() + c() * x(i)))
    assert not positive(index_calculus.flatten(S(i, j)))


def test_work_has_an_end():
    many = total(lambda r: x(r), over=n) + c() + x(i) + x(l)
    with pytest.raises(ValueError, match="algebra: got the power 65, expected at most 64"):
        key(c() ** 65)
    with pytest.raises(ValueError, match="algebra: a product of more than 50000 monomials"):
        key(many**30)


def test_a_deep_term_is_no_problem():
    """The recursion is as deep as the term, far below the limit for any proof."""
    term: Term = x(i)
    for _ in range(12):
        term = exp(term)
    assert sys.getrecursionlimit() >= 1000
    assert same(term, rename(term, {}))
