"""Traps into which a general computer algebra system falls with symbolic sizes; this layer must not.

Each test states what such a system was seen to do (SymPy 1.14) and what is right. Nothing here runs that system.
"""

from __future__ import annotations

import re

from bayesgrad.symbolic.index_calculus import key, same
from bayesgrad.symbolic.proof import Chain, Equation, check
from bayesgrad.symbolic.terms import Diff, Index, Size, Sum, Tensor, delta, exp, inv, lift, log, total
from bayesgrad.symbolic.tex import statement, tex
from derivations.laws import Part, law

n, m = Size("n", nonempty=True), Size("m")
s = Tensor("s", (n,))
k, j = Index("k", n), Index("j", n)


def logsumexp(name: str):
    """log sum_k exp(s_k) with a bound index of this name."""
    bound = Index(name, n)
    return log(Sum(bound, exp(s(bound))))


def test_derivative_of_logsumexp_where_free_and_bound_have_one_name():
    """Seen: d/ds_k log sum_k exp(s_k) = 1. Right: exp(s_k) / sum_k' exp(s_k')."""
    for bound in ("k", "j", "zeta"):
        mass = total(lambda r: exp(s(r)), over=n)
        claim = Equation(Diff(logsumexp(bound), s(k)), exp(s(k)) * inv(mass))
        good = Chain(claim.lhs).differentiate(claim.rhs, "one term of the sum depends on s_k")
        assert check(claim, good).word == "proved"
        wrong = Equation(claim.lhs, lift(1))
        assert check(wrong, Chain(wrong.lhs).differentiate(lift(1), "as seen")).word == "refuted"


def test_derivative_of_logsumexp_is_not_zero():
    """Seen: log(sum exp y_i).diff(y) = 0 for a matrix symbol y."""
    claim = Equation(Diff(logsumexp("k"), s(j)), lift(0))
    assert check(claim, Chain(claim.lhs).differentiate(lift(0), "as seen")).word == "refuted"


def test_routing_law_does_not_hold_as_zero_equals_zero():
    """Seen: with the colliding name both sides vanish and the law "verifies". Here neither side does."""
    part = law("attention.routing-law").parts[0]
    assert law("attention.routing-law").word == "proved"
    for side in (part.claim.lhs, part.claim.rhs):
        nothing = Equation(side, lift(0), sample=part.claim.sample)
        assert check(nothing, Chain(side)).word == "refuted"


def test_routing_law_for_symbolic_sizes_raises_nothing():
    """Seen: simplify() of it raises StopIteration. The canonical form has an answer for every term."""
    part = law("attention.routing-law").parts[0]
    assert key(part.claim.rhs) != key(lift(0))
    assert same(part.claim.rhs, 0 + 1 * part.claim.rhs)


def test_gradient_of_a_trace():
    """Seen: (Trace(A.T*A) + Trace(B.T*B)).diff(A) = 0. Right: 2 A."""
    A, B = Tensor("A", (n, m)), Tensor("B", (n, m))
    a, b = Index("a", n), Index("b", m)

    def trace(T: Tensor):
        """trace(T^t T) = sum_j (T^t T)_jj."""
        return total(lambda j, i: T(i, j) * T(i, j), over=(m, n))

    claim = Equation(Diff(trace(A) + trace(B), A(a, b)), 2 * A(a, b))
    assert check(claim, Chain(claim.lhs).differentiate(claim.rhs, "B does not depend on A")).word == "proved"
    wrong = Equation(claim.lhs, lift(0))
    assert check(wrong, Chain(wrong.lhs).differentiate(lift(0), "as seen")).word == "refuted"


def test_equal_sums_with_different_bound_names_are_equal():
    """Seen: Sum(x_i, i) == Sum(x_j, j) is False."""
    assert same(total(lambda i: s(i), over=n), total(lambda j: s(j), over=n))
    assert key(total(lambda i: s(i), over=n)) == key(total(lambda other: s(other), over=n))


def test_names_are_escaped_in_tex():
    """Seen: latex() leaves _k, L% and a&b as they are, which TeX does not take."""
    for name in ("_k", "L%", "a&b", "a_b_c", "x#", "50%", "{", "~", "^", "\\x", "$", "dw_out"):
        shown = tex(Tensor(name)())
        assert balanced(shown), shown
        bare = shown
        for escaped in (r"\_", r"\%", r"\&", r"\#", r"\{", r"\}", r"\$"):
            bare = bare.replace(escaped, "")
        assert not set(bare) & set("%&#$~"), shown
        assert not re.search(r"_(?!\{)", bare), shown


def balanced(text: str) -> bool:
    """Every brace opened is closed again; escaped ones do not count."""
    depth = 0
    plain = text.replace(r"\{", "").replace(r"\}", "")
    for letter in plain:
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return False
    return depth == 0


def test_a_bound_index_never_takes_a_free_name_in_tex():
    """sum_k exp(s_k) beside a free k is shown with another name."""
    claim = Equation(Diff(logsumexp("k"), s(k)), exp(s(k)) * inv(total(lambda k: exp(s(k)), over=n)))
    shown = statement(claim)
    assert r"\sum_{k'=1}" in shown
    assert r"\sum_{k=1}" not in shown


def test_delta_is_contracted_only_within_its_range():
    """A general system contracts sum_j delta_ij f_j without asking whether i is in range; here a type says so."""
    assert same(total(lambda j: delta(j, k) * s(j), over=n), s(k))
    part = Part("p", Equation(s(k), s(k)), Chain(s(k)))
    assert part.order == (k,)
