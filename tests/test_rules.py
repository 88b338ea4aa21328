"""The rules that the kernel runs, on random terms: what they return evaluates to what they were given.

The evaluator differentiates forward on numbers and shares no line with ``bayesgrad.symbolic.rules``.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesgrad.symbolic import rules
from bayesgrad.symbolic.index_calculus import same
from bayesgrad.symbolic.terms import (
    Add,
    Diff,
    Entry,
    Index,
    Lookup,
    Mul,
    Num,
    Size,
    Sum,
    Tensor,
    TermError,
    delta,
    exp,
    indices_of,
    inv,
    lift,
    log,
    rename,
    sqrt,
    tanh,
    tensors_of,
    total,
)
from tests._terms import B, Q, S, apart, c, i, j, k, l, look, m, n, polynomials, t, x, y

OFTEN = settings(max_examples=120, suppress_health_check=list(HealthCheck))
VARIABLES = (x(i), x(l), y(j), y(look(i)), B(i, j), B(l, k), Q(i, l), Q(i, i), c(), t(i))


@OFTEN
@given(polynomials(), st.sampled_from(VARIABLES))
def test_derivatives_of_random_polynomials_evaluate_like_forward_ones(term, variable):
    done = rules.derivative(term, variable, set())
    assert not any(isinstance(part, Diff) for part in walk(done))
    assert apart(Diff(term, variable), done, tries=4) is None


@OFTEN
@given(polynomials(depth=2), st.sampled_from(VARIABLES))
def test_derivatives_of_random_functions_evaluate_like_forward_ones(term, variable):
    mass = 1 + t(l) * exp(x(l)) + 2 * exp(Q(i, l) * c())
    whole = exp(term) * inv(mass) + log(mass) * term
    done = rules.derivative(whole, variable, set())
    assert apart(Diff(whole, variable), done, tries=4) is None


@OFTEN
@given(polynomials())
def test_renaming_a_free_index_is_the_term_at_the_other_position(term):
    """x(i) renamed to l is what sum_r delta(r, l) x(r) says, whatever is bound inside."""
    renamed = rename(term, {i: l})
    r = Index("r", n)
    assert i not in indices_of(renamed)[0]
    assert apart(renamed, Sum(r, delta(r, l) * rename(term, {i: r})), tries=4) is None


@OFTEN
@given(polynomials(depth=2))
def test_unfolding_does_not_change_the_value(body):
    slots = (i, j)
    T = Tensor("T", (n, m), body=lambda a, b: rename(body, dict(zip(slots, (a, b), strict=True)) | {l: a, k: b}))
    term = total(lambda b: T(l, b) * y(b), over=m) + T(i, k)
    unfolded = rules.unfold(term, (T,))
    assert T not in tensors_of(unfolded)
    assert apart(term, unfolded, tries=4) is None


@OFTEN
@given(polynomials(depth=2))
def test_replacing_by_a_true_equation_does_not_change_the_value(body):
    slots = (i, j)
    T = Tensor("T", (n, m), body=lambda a, b: rename(body, dict(zip(slots, (a, b), strict=True)) | {l: a, k: b}))
    term = total(lambda b: T(l, b) * y(b), over=m) + T(i, k)
    replaced, count = rules.replace(term, T(i, j), T.unfold((i, j)), (i, j), False)
    assert count == 2
    assert apart(term, replaced, tries=4) is None


def walk(term):
    yield term
    match term:
        case Add(parts) | Mul(parts):
            for part in parts:
                yield from walk(part)
        case Sum(_, body) | Diff(body, _):
            yield from walk(body)


# -- side conditions ---------------------------------------------------------------------------------------------------


def test_a_derivative_in_a_defined_tensor_holds_what_defines_it():
    """d/dT of T + 2 c is 1 although T = c^2: by an entry of T, T is the variable."""
    T = Tensor("T", body=lambda: c() ** 2)
    assert same(rules.derivative(T() + 2 * c(), T(), set()), lift(1))
    assert same(rules.unfold(Diff(T() * c(), T()), (T,)), Diff(T() * c(), T()))


def test_the_chain_rule_is_refused_where_there_is_another_way():
    T = Tensor("T", body=lambda: c() ** 2)
    assert isinstance(rules.through(Diff(T() ** 3, c()), (T,)), Add)
    with pytest.raises(ValueError, match="d-through: the term depends on c beside T"):
        rules.through(Diff(T() + c(), c()), (T,))


def test_patterns_bind_each_index_once():
    T = Tensor("T", (n, n))
    diagonal = rules.replace(T(i, i) + T(i, l), T(i, i), lift(5), (i,), False)
    assert diagonal[1] == 1
    assert same(diagonal[0], 5 + T(i, l))
    fixed = rules.replace(x(i) + x(l), x(i), lift(5), (), False)
    assert same(fixed[0], 5 + x(l))
    table = Tensor("W", (m, n))
    assert rules.replace(table(look(i), l), table(look(i), i), lift(5), (i,), False)[1] == 0
    assert rules.replace(table(look(l), l), table(look(i), i), x(i), (i,), False)[1] == 1


def test_equations_are_not_used_under_a_derivative_by_what_they_define():
    T = Tensor("T", body=lambda: c() ** 2)
    inside = Diff(T() * c(), T())
    assert rules.replace(inside, T(), c() ** 2, (), True)[1] == 0
    assert rules.replace(Diff(T(), c()), T(), c() ** 2, (), True)[1] == 1
    assert rules.replace(Diff(T(), c()), T(), c() ** 2, (), False)[1] == 0


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (c() ** 2, True),
        (c() ** 3, False),
        (c(), False),
        (t(i) * S(i, j), True),
        (t(i) - t(l), False),
        (total(lambda r: t(r) * x(r) ** 2, over=n), True),
        (inv(t(i)), True),
        (inv(c()), False),
        (log(t(i)), False),
        (exp(c()) + 1, True),
        (lift(-1), False),
    ],
)
def test_signs_by_form(term, expected):
    assert rules.nonnegative(term) is expected


def test_a_vanishing_sum_names_every_entry_or_none():
    size = Size("s")
    D, E = Tensor("D", (size,), "nonnegative"), Tensor("E", (size, size), "nonnegative")
    w = Tensor("w", (size,), "positive")
    at = Lookup("at", (size,), size)
    one, two = {(D, (None,))}, {(E, (None, None))}
    assert rules.vanishes_with(total(lambda r: w(r) * D(r), over=size), one)
    assert rules.vanishes_with(
        total(lambda r: D(r), over=size) + total(lambda r, q: E(r, q), over=(size, size)), one | two
    )
    assert not rules.vanishes_with(total(lambda r: D(at(r)), over=size), one)
    assert not rules.vanishes_with(total(lambda r: E(r, r), over=size), two)
    assert not rules.vanishes_with(total(lambda r: D(r) ** 2, over=size), one)
    assert not rules.vanishes_with(total(lambda r: D(r) + 1, over=size), one)
    # one position is no every position, and the other way round
    p = Index("p", size)
    assert rules.vanishes_with(w(p) * D(p), {(D, (p,))})
    assert not rules.vanishes_with(D(p), one)
    assert not rules.vanishes_with(total(lambda r: D(r), over=size), {(D, (p,))})
    # what is named must be met: a second tensor that does not occur is not said to vanish
    assert not rules.vanishes_with(total(lambda r: D(r), over=size), one | two)


def test_a_witness_is_written_out_to_the_last_entry():
    term = total(lambda r: x(r) * delta(r, i), over=n)
    out = rules.explicit(term, {n: 3}, {x: (5, 6, 7)}, {i: 1})
    assert same(out, lift(6))
    assert not any(isinstance(part, (Sum, Entry)) for part in walk(out))
    with pytest.raises(ValueError, match="witness: a derivative must be carried out"):
        rules.explicit(Diff(c(), c()), {}, {c: 1}, {})


def test_a_ball_contains_the_value_and_knows_nothing_about_one_over_zero():
    ball = rules.ball(exp(lift(1)))
    assert ball > rules.ball(Num(lift(27).value / 10))
    assert ball < rules.ball(Num(lift(28).value / 10))
    assert not rules.ball(inv(lift(0))) > 0
    assert not rules.ball(log(lift(-1))) > 0


# -- functions that stand for others ----------------------------------------------------------------------------------


def test_tanh_and_sqrt_are_what_they_are_defined_by():
    assert same(tanh(c()), 1 - 2 / (exp(2 * c()) + 1))
    assert same(sqrt(t(i)), exp(log(t(i)) / 2))
    assert same(rules.derivative(tanh(x(i)), x(i), set()), 4 * exp(2 * x(i)) * inv(exp(2 * x(i)) + 1) ** 2)
    assert same(rules.derivative(sqrt(t(i)), t(i), set()), sqrt(t(i)) / t(i) / 2)
    assert rules.ball(tanh(lift(1))).overlaps(rules.ball(lift(1)).tanh())
    assert rules.ball(sqrt(lift(2))).overlaps(rules.ball(lift(2)).sqrt())


def test_an_activation_moves_with_its_own_argument_alone():
    """dH_l/dx_i = slope_l d(2 x_l)/dx_i: each entry of H is a function of the entry of its argument at its place."""
    argument = Tensor("z", (n,), body=lambda r: 2 * x(r))
    slope = Tensor("h'", (n,))
    H = Tensor("h", (n,), through=(argument, slope))
    assert same(rules.derivative(H(l), x(i), set()), slope(l) * Diff(argument(l), x(i)))
    assert apart(Diff(H(l), x(i)), 2 * slope(l) * delta(l, i)) is None
    assert apart(Diff(H(l), x(i)), 2 * slope(l)) is not None


def test_a_chain_may_go_through_an_activation():
    H = Tensor("h", (n,), through=(x, Tensor("h'", (n,))))
    assert isinstance(rules.through(Diff(total(lambda r: H(r) ** 2, over=n), x(i)), (H,)), Add)
    with pytest.raises(TermError, match="its gradient has the sizes of what it depends on"):
        Tensor("h", (n,), through=(x, Tensor("h'", (m,))))
