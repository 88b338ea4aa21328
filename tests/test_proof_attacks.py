"""Attempts to make the kernel prove something false, each by one dishonest means. None may end in "proved".

An attack is a claim with a chain that would carry it if the kernel overlooked one thing. It is thwarted by an error
when its terms are made, or by any verdict other than proved. Every attack has an honest sibling nearby that does go
through, so that the kernel is not just refusing everything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Induction, Minimum, Witness, check, every
from bayesgrad.symbolic.terms import (
    At,
    Count,
    Delta,
    Diff,
    Entry,
    Fn,
    Index,
    Lookup,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    delta,
    exp,
    inv,
    lift,
    log,
    total,
)

n, m = Size("n"), Size("m")
i, l, j = Index("i", n), Index("l", n), Index("j", m)
x, y, z = Tensor("x", (n,)), Tensor("y", (n,)), Tensor("z", (n,))
c = Tensor("c")
ATTACKS: dict[str, Callable[[], object]] = {}


def attack(function):
    ATTACKS[function.__name__] = function
    return function


def verdict(make: Callable[[], object]) -> str:
    """The word that the kernel gives, or "refused" where the terms cannot even be made."""
    try:
        claim, chain = make()
        return check(claim, chain).word
    except (ValueError, TypeError):
        return "refused"


# -- indices -----------------------------------------------------------------------------------------------------------


@attack
def definition_with_a_free_index():
    """T = x_i for one i would hold for every l as well."""
    hidden = Tensor("T", body=lambda: x(i))
    equation = Equation(hidden(), x(i))
    assert_proved_or_raise(equation, Chain(hidden()).definition(x(i), "by definition", hidden))
    claim = Equation(x(l), x(i))
    chain = (
        Chain(x(l)).rewrite(hidden(), "T is x_l", equation, lambda hole: hole(l)).rewrite(x(i), "T is x_i", equation)
    )
    return claim, chain


@attack
def hypothesis_index_bound_by_the_context():
    """x_i = 0 at one i, used under a sum that binds this very i."""
    zero = Equation(x(i), lift(0), says="x_i = 0")
    claim = Equation(total(lambda k: x(k), over=n) + 0 * y(i), lift(0), given=(zero,))
    chain = Chain(claim.lhs).rewrite(lift(0), "x is 0", zero, lambda hole: Sum(i, hole()))
    return claim, chain


@attack
def hypothesis_index_bound_by_the_term():
    zero = Equation(x(i), lift(0), says="x_i = 0")
    claim = Equation(Sum(i, x(i)), lift(0), given=(zero,))
    return claim, Chain(claim.lhs).rewrite(total(lambda k: 0 * x(k), over=n), "x is 0", zero)


@attack
def lemma_with_its_hypothesis_at_one_index():
    """Proved at i under a hypothesis at i; rewriting at l needs the hypothesis at l."""
    zero = Equation(x(i), lift(0), says="x_i = 0")
    lemma = Equation(x(i), 2 * x(i), given=(zero,))
    assert_proved_or_raise(
        lemma, Chain(x(i)).rewrite(lift(0), "x_i is 0", zero).rewrite(2 * x(i), "so is 2 x_i", zero, lambda h: 2 * h())
    )
    claim = Equation(x(l) + 0 * x(i), 2 * x(l), given=(zero,))
    return claim, Chain(claim.lhs).rewrite(2 * x(l), "the lemma at l", lemma, lambda hole: hole(l))


@attack
def fact_with_its_hypothesis_at_one_index():
    zero = AtMost(lift(0), x(i), says="x_i >= 0")
    lemma = AtMost(lift(0), x(i), (i,), given=(zero,))
    nonneg = Tensor("w", (), "nonnegative", lambda: x(i), fact=zero)
    assert_proved_or_raise(lemma, Chain(x(i)).definition(nonneg(), "by hypothesis", nonneg))
    every = Tensor("v", (n,), "nonnegative", lambda k: x(k), fact=lemma)
    claim = AtMost(lift(0) + 0 * x(i), x(l), given=(zero,))
    return claim, Chain(x(l)).definition(every(l), "v is nonnegative", every)


@attack
def lemma_with_its_hypothesis_at_one_index_by_pattern():
    zero = Equation(x(i), lift(0), says="x_i = 0", sample={x: lambda k: lift(0)})
    lemma = Equation(x(i), 2 * x(i), given=(zero,))
    assert_proved_or_raise(
        lemma, Chain(x(i)).rewrite(lift(0), "x_i is 0", zero).rewrite(2 * x(i), "so is 2 x_i", zero, lambda h: 2 * h())
    )
    claim = Equation(x(l) + 0 * x(i), 2 * x(l), given=(zero,))
    return claim, Chain(claim.lhs).rewrite(2 * x(l), "the lemma at l", lemma)


@attack
def bound_with_its_hypothesis_at_one_index():
    """x_i = c^2 at one i makes that x_i nonnegative, and no other."""
    square = Equation(x(i), c() ** 2, says="x_i = c^2", sample={x: lambda k: c() ** 2})
    lemma = AtMost(lift(0), x(i), (i,), given=(square,))
    assert_proved_or_raise(lemma, Chain(x(i)).rewrite(c() ** 2, "by hypothesis", square))
    every = Tensor("v", (n,), "nonnegative", lambda k: x(k), fact=lemma)
    claim = AtMost(0 * x(i), x(l), given=(square,))
    return claim, Chain(x(l)).definition(every(l), "v is nonnegative", every)


@attack
def lookup_in_the_pattern():
    """T(y(i), i) = x_i says nothing about T(y(i), l)."""
    look = Lookup("y", (n,), m)
    table = Tensor("T", (m, n))
    where = Equation(table(look(i), i), x(i), (i,), says="T(y(i), i) = x_i")
    claim = Equation(table(look(i), l), x(l), given=(where,))
    return claim, Chain(claim.lhs).rewrite(claim.rhs, "look it up", where)


@attack
def hypothesis_over_an_empty_size():
    """For every position of n, c = 1: with n empty that says nothing about c."""
    every = Equation(c() + 0 * x(i), lift(1), (i,), says="c = 1 wherever there is an i", sample={c: lambda: lift(1)})
    claim = Equation(c(), lift(1), given=(every,))
    return claim, Chain(c()).rewrite(lift(1), "by hypothesis", every, lambda hole: hole(i))


@attack
def pattern_over_an_empty_size():
    every = Equation(c(), 1 + 0 * x(i), (i,), says="c = 1 wherever there is an i", sample={c: lambda: lift(1)})
    claim = Equation(c(), lift(1), given=(every,))
    return claim, Chain(c()).rewrite(lift(1), "by hypothesis", every)


@attack
def two_indices_of_one_number():
    """Indices are told apart by number; a forged number would merge two of them."""
    twin = Index("i", n, uid=i.uid)
    return Equation(x(i), x(twin)), Chain(x(i))


@attack
def two_free_indices_of_one_name():
    """The statement would read dx_i/dx_i = delta_ii."""
    other = Index("i", n)
    claim = Equation(Diff(x(i), x(other)), delta(i, other))
    return claim, Chain(claim.lhs).differentiate(claim.rhs, "entries are independent")


@attack
def index_both_free_and_bound():
    claim = Equation(x(i) * Sum(i, x(i)), Sum(i, x(i) * x(i)))
    return claim, Chain(claim.lhs)


@attack
def index_free_in_one_side_and_bound_in_the_other():
    claim = Equation(Sum(i, x(i)), Sum(i, x(i)) + 0 * x(i))
    return claim, Chain(claim.lhs)


@attack
def sum_of_the_variable_over_its_own_index():
    """d/dx_i of sum_i x_i, written with one index object."""
    claim = Equation(Diff(Sum(i, x(i)), x(i)), Count(n))
    return claim, Chain(claim.lhs).differentiate(total(lambda k: delta(k, k), over=n), "each term is its own slope")


@attack
def step_with_an_index_of_its_own():
    """A stray index in the middle is a position that may not exist."""
    claim = Equation(c(), c())
    return claim, Chain(c()).algebra(c() + 0 * x(i), "add nothing")


# -- sizes -------------------------------------------------------------------------------------------------------------


@attack
def delta_between_two_sizes():
    claim = Equation(Sum(j, Delta(i, j)), lift(1))
    return claim, Chain(claim.lhs)


@attack
def entry_out_of_its_sizes():
    return Equation(Entry(x, (j,)), Entry(x, (j,))), Chain(Entry(x, (j,)))


@attack
def lookup_out_of_its_sizes():
    inner = At(Lookup("y", (n,), m), (j,))
    return Equation(delta(inner, inner), lift(1)), Chain(delta(inner, inner))


@attack
def one_name_for_two_sizes():
    """n that may be empty and n that may not are two sizes."""
    full = Size("n", nonempty=True)
    claim = Equation(Count(full) * inv(Count(full)), Count(n) * inv(Count(full)))
    return claim, Chain(claim.lhs)


@attack
def count_of_a_size_that_may_be_empty():
    claim = Equation(Count(n) * inv(Count(n)), lift(1))
    return claim, Chain(claim.lhs)


@attack
def log_of_an_empty_sum():
    w = Tensor("w", (n,), "positive")
    mass = total(lambda k: w(k), over=n)
    claim = Equation(log(mass * mass), 2 * log(mass))
    return claim, Chain(claim.lhs)


# -- numbers and functions ---------------------------------------------------------------------------------------------


@attack
def zero_over_zero():
    claim = Equation(c() * inv(c()), lift(1))
    return claim, Chain(claim.lhs)


@attack
def nonnegative_over_itself():
    w = Tensor("w", (), "nonnegative")
    claim = Equation(w() * inv(w()), lift(1))
    return claim, Chain(claim.lhs)


@attack
def log_of_a_square():
    claim = Equation(log(c() ** 2), 2 * log(c()))
    return claim, Chain(claim.lhs)


@attack
def log_of_an_indicator():
    on = Tensor("S", (), "indicator")
    claim = Equation(log(on() * exp(c())), log(on()) + c())
    return claim, Chain(claim.lhs)


@attack
def power_zero():
    claim = Equation(Pow(c(), 0), c() * inv(c()))
    return claim, Chain(claim.lhs)


@attack
def negative_power():
    claim = Equation(Pow(c(), -1) * c(), lift(1))
    return claim, Chain(claim.lhs)


@attack
def unknown_function():
    claim = Equation(Fn("sin", c()), c())
    return claim, Chain(claim.lhs)


@attack
def float_in_a_term():
    claim = Equation(Num(0.1) * 10, lift(1))  # type: ignore[arg-type]
    return claim, Chain(claim.lhs)


# -- definitions and kinds ---------------------------------------------------------------------------------------------


@attack
def circular_definition():
    """A = B + 1 and B = A, so A = A + 1."""
    both: dict[str, Tensor] = {}
    both["A"] = Tensor("A", body=lambda: both["B"]() + 1)
    both["B"] = Tensor("B", body=lambda: both["A"]())
    A, B = both["A"], both["B"]
    claim = Equation(A(), A() + 1, sample={A: lambda: lift(1), B: lambda: lift(1)})
    chain = Chain(A()).definition(B() + 1, "A is B + 1", A).definition(A() + 1, "B is A", B)
    return claim, chain


@attack
def definition_that_changes():
    """The second time it is asked, T says something else."""
    answers = [x, y, x, y, x, y, x, y, x, y, x, y]
    fickle = Tensor("T", (n,), body=lambda k: answers.pop()(k))
    claim = Equation(x(i), y(i))
    return claim, Chain(x(i)).definition(y(i) + fickle(i) - fickle(i), "T is x, and T is y", fickle)


@attack
def definition_that_looks_at_names():
    """T depends on what its index is called, which is no function of the position."""
    sly = Tensor("T", (n,), body=lambda k: x(k) if k.name == "i" else y(k))
    equation = Equation(sly(i), x(i))
    assert_proved_or_raise(equation, Chain(sly(i)).definition(x(i), "by definition", sly))
    claim = Equation(y(l), x(l))
    return claim, Chain(y(l)).definition(sly(l), "by definition", sly).rewrite(x(l), "T is x", equation)


@attack
def replaced_tensor_with_the_old_number():
    """A copy with another definition must not pass for the original."""
    one = Tensor("T", (n,), body=lambda k: x(k))
    two = dataclasses.replace(one, body=lambda k: y(k))
    claim = Equation(x(i), y(i))
    chain = Chain(x(i)).definition(one(i), "by definition", one).algebra(two(i), "the same name")
    return claim, chain.definition(y(i), "by definition", two)


@attack
def two_tensors_of_one_name():
    one, two = Tensor("T", (n,)), Tensor("T", (n,))
    claim = Equation(one(i) * two(i), two(i) * one(i))
    return claim, Chain(claim.lhs)


@attack
def indicator_by_decree():
    half = Tensor("S", (), "indicator", lambda: lift(1) / 2)
    claim = Equation(half() * half(), half())
    return claim, Chain(claim.lhs)


@attack
def positive_by_decree():
    mass = Tensor("Z", (), "positive", lambda: total(lambda k: exp(x(k)), over=n))
    claim = Equation(mass() * inv(mass()), lift(1))
    return claim, Chain(claim.lhs)


@attack
def nonnegative_by_decree():
    w = Tensor("w", (), "nonnegative", lambda: c())
    return AtMost(lift(0), c()), Chain(c()).definition(w(), "w is nonnegative", w)


@attack
def lying_kind_inside_a_definition():
    mass = Tensor("Z", (), "positive", lambda: total(lambda k: exp(x(k)), over=n))
    inside = Tensor("T", (), "real", lambda: mass() * inv(mass()))
    claim = Equation(inside(), lift(1))
    return claim, Chain(claim.lhs).definition(lift(1), "cancel", inside)


@attack
def lying_kind_inside_a_context():
    """Z is called positive and may be 0; it stands in the context alone and has cancelled before and after."""
    mass = Tensor("Z", (), "positive", lambda: total(lambda k: exp(x(k)), over=n))
    known = Equation(c() + c(), 2 * c())
    assert_proved_or_raise(known, Chain(known.lhs))
    claim = Equation(2 * c(), c() + c())
    chain = Chain(claim.lhs).rewrite(c() + c(), "", known, lambda hole: hole() * mass() * inv(mass()))
    return claim, chain


# -- derivatives -------------------------------------------------------------------------------------------------------


@attack
def derivative_in_an_indicator():
    """S S = S, but 2 S is not 1."""
    S = Tensor("S", (), "indicator")
    claim = Equation(2 * S(), lift(1))
    chain = Chain(2 * S() + Diff(S() * S(), S()) - Diff(S() * S(), S())).algebra(
        2 * S() + Diff(S() * S(), S()) - Diff(S(), S()), "S S is S"
    )
    return claim, chain.differentiate(4 * S() - 1, "product rule").algebra(claim.rhs, "")


@attack
def derivative_of_one_over_zero():
    claim = Equation(Diff(inv(c()), c()), -(inv(c()) ** 2))
    return claim, Chain(claim.lhs).differentiate(claim.rhs, "quotient rule")


@attack
def derivative_of_a_log_below_zero():
    claim = Equation(Diff(log(c()), c()), inv(c()))
    return claim, Chain(claim.lhs).differentiate(claim.rhs, "derivative of log")


@attack
def second_derivative_of_any_loss():
    """u = dL/dg moves with g: the curvature of an unknown loss is not zero."""
    g, u = Tensor("g"), Tensor("u")
    loss = Tensor("L", through=(g, u))
    claim = Equation(Diff(Diff(loss(), g()), g()), lift(0))
    chain = Chain(claim.lhs).differentiate(u() * Diff(Diff(g(), g()), g()), "chain rule, and u does not mention g")
    return claim, chain.differentiate(u() * Diff(lift(1), g()), "g is free").differentiate(lift(0), "1 is constant")


@attack
def second_derivative_behind_a_definition():
    g, u = Tensor("g"), Tensor("u")
    loss = Tensor("L", through=(g, u))
    slope = Tensor("T", body=lambda: Diff(loss(), g()))
    claim = Equation(Diff(slope(), g()), lift(0))
    chain = Chain(claim.lhs).definition(Diff(Diff(loss(), g()), g()), "by definition", slope)
    chain = chain.differentiate(u() * Diff(Diff(g(), g()), g()), "chain rule, and u does not mention g")
    return claim, chain.differentiate(u() * Diff(lift(1), g()), "g is free").differentiate(lift(0), "1 is constant")


@attack
def second_derivative_by_the_first():
    g, u = Tensor("g"), Tensor("u")
    loss = Tensor("L", through=(g, u))
    first = Equation(Diff(loss(), g()), u())
    chain = Chain(first.lhs).differentiate(u() * Diff(g(), g()), "chain rule").differentiate(u(), "g is free")
    assert_proved_or_raise(first, chain)
    claim = Equation(Diff(Diff(loss(), g()), g()), lift(0))
    return claim, Chain(claim.lhs).rewrite(Diff(u(), g()), "u is dL/dg", first).differentiate(lift(0), "u is free")


@attack
def loss_with_a_definition_and_a_gradient():
    """L = 0, and its gradient is whatever one likes."""
    g, u = Tensor("g"), Tensor("u")
    loss = Tensor("L", body=lambda: lift(0), through=(g, u))
    flat = Equation(Diff(loss(), g()), lift(0))
    chain = Chain(flat.lhs).definition(Diff(lift(0), g()), "by definition", loss).differentiate(lift(0), "a constant")
    assert_proved_or_raise(flat, chain)
    claim = Equation(u() + 0 * loss(), lift(0))
    return claim, Chain(u()).algebra(claim.lhs, "")


@attack
def middle_counted_twice():
    T = Tensor("T", body=lambda: 2 * c())
    claim = Equation(Diff(T(), c()) + Diff(T() ** 2, c()), Diff(T(), c()) + 2 * (2 * T() * Diff(T(), c())))
    split = 2 * (Diff(T() ** 2, T()) * Diff(T(), c()))
    chain = Chain(claim.lhs).through(Diff(T(), c()) + split, "through T, twice", T, T)
    return claim, chain.differentiate(claim.rhs, "power rule", T)


@attack
def equation_of_values_under_a_derivative():
    """c = 0 here says nothing about the slope of c."""
    zero = Equation(c(), lift(0), says="c = 0")
    claim = Equation(Diff(c() * y(i), c()), lift(0), given=(zero,))
    return claim, Chain(claim.lhs).rewrite(Diff(0 * y(i), c()), "c is 0", zero).differentiate(lift(0), "a constant")


@attack
def equation_of_values_under_a_derivative_by_context():
    zero = Equation(c(), lift(0), says="c = 0")
    claim = Equation(Diff(c(), c()), lift(0), given=(zero,))
    chain = Chain(claim.lhs).rewrite(Diff(lift(0), c()), "c is 0", zero, lambda hole: Diff(hole(), c()))
    return claim, chain.differentiate(lift(0), "a constant")


@attack
def definition_of_the_variable():
    """T = 2 c defined; in d/dT the tensor T is free, so T - 2c is not constant."""
    T = Tensor("T", body=lambda: 2 * c())
    nothing = Equation(T() - 2 * c(), lift(0))
    assert_proved_or_raise(nothing, Chain(nothing.lhs).definition(lift(0), "by definition", T))
    claim = Equation(Diff(T() - 2 * c(), T()), lift(0))
    chain = Chain(claim.lhs).rewrite(Diff(lift(0), T()), "T is 2 c", nothing, lambda hole: Diff(hole(), T()))
    return claim, chain.differentiate(lift(0), "a constant")


@attack
def proved_equation_under_the_derivative_of_its_variable():
    T = Tensor("T", body=lambda: 2 * c())
    twice = Equation(T(), 2 * c())
    assert_proved_or_raise(twice, Chain(T()).definition(2 * c(), "by definition", T))
    claim = Equation(Diff(T() ** 2, T()), lift(0))
    chain = Chain(claim.lhs).rewrite(Diff(4 * c() ** 2, T()), "T is 2 c", twice)
    return claim, chain.differentiate(lift(0), "c does not mention T")


@attack
def hidden_dependence_beside_the_middle():
    """F depends on c beside T, through a definition."""
    T = Tensor("T", body=lambda: 2 * c())
    beside = Tensor("B", body=lambda: c() ** 2)
    F = T() + beside()
    claim = Equation(Diff(F, c()), lift(2))
    chain = Chain(claim.lhs).through(Diff(F, T()) * Diff(T(), c()), "only through T", T)
    return claim, chain.definition(Diff(T() + beside(), T()) * Diff(2 * c(), c()), "", T).differentiate(lift(2), "")


@attack
def slope_counted_as_positive():
    """The derivative in a positive variable is not itself positive."""
    t = Tensor("t", kind="positive")
    f = Tensor("f", body=lambda: c() * t())
    inner = Diff(f(), t())
    claim = Equation(Diff(inv(inner), c()), -(inv(inner) ** 2) * Diff(inner, c()))
    return claim, Chain(claim.lhs).differentiate(claim.rhs, "quotient rule")


@attack
def inverse_of_a_variable_that_happens_to_be_settled():
    """Z is 0 by definition where S is 0, but as a variable it is not: 1/Z has no slope there."""
    S = Tensor("S", (), "indicator")
    Z = Tensor("Z", (), "nonnegative", lambda: S() * exp(c()))
    claim = Equation(Diff(inv(Z()), Z()), -(inv(Z()) ** 2))
    return claim, Chain(claim.lhs).differentiate(claim.rhs, "quotient rule")


# -- inequalities ------------------------------------------------------------------------------------------------------


@attack
def inequality_used_as_an_equation():
    bound = AtMost(lift(0), c(), says="c >= 0")
    claim = Equation(c(), lift(0), given=(bound,))
    return claim, Chain(c()).rewrite(lift(0), "c is at least 0", bound, lambda hole: c() - hole() + 0)


@attack
def inequality_read_from_right_to_left():
    bound = AtMost(c(), lift(0), says="c <= 0")
    claim = Equation(c(), lift(0), given=(bound,))
    return claim, Chain(c()).rewrite(lift(0), "c is at most 0", bound)


@attack
def inequality_used_where_evaluation_is_blind():
    """The sample draws c = 0 alone, so no instance can object."""
    bound = AtMost(lift(0), c(), says="c >= 0", sample={c: lambda: lift(0)})
    claim = Equation(c(), lift(0), given=(bound,))
    return claim, Chain(c()).rewrite(lift(0), "c is at least 0", bound, lambda hole: hole())


@attack
def tight_set_with_gaps():
    """sum_i T(i, y(i)) = 0 leaves most entries of T alone."""
    look = Lookup("y", (n,), m)
    T = Tensor("T", (n, m), "nonnegative")
    claim = AtMost(lift(0), total(lambda k: T(k, look(k)), over=n), tight=(every(T),))
    return claim, Chain(claim.rhs)


@attack
def tight_set_on_the_diagonal():
    T = Tensor("T", (n, n), "nonnegative")
    claim = AtMost(lift(0), total(lambda k: T(k, k), over=n), tight=(every(T),))
    return claim, Chain(claim.rhs)


@attack
def tight_with_a_weight_that_may_vanish():
    T, w = Tensor("T", (n,), "nonnegative"), Tensor("w", (n,), "nonnegative")
    claim = AtMost(lift(0), total(lambda k: w(k) * T(k), over=n), tight=(every(T),))
    return claim, Chain(claim.rhs)


@attack
def tight_over_an_empty_sum():
    T = Tensor("T", (n,), "nonnegative")
    claim = AtMost(lift(0), total(lambda r, k: T(k), over=(m, n)), tight=(every(T),))
    return claim, Chain(claim.rhs)


@attack
def tight_with_a_part_left_out():
    T, w = Tensor("T", (n,), "nonnegative"), Tensor("w", (n,), "nonnegative")
    claim = AtMost(lift(0), total(lambda k: T(k), over=n), tight=(every(T), every(w)))
    return claim, Chain(claim.rhs)


@attack
def odd_power_counted_as_a_square():
    return AtMost(lift(0), c() ** 3), Chain(c() ** 3)


@attack
def derivative_counted_as_nonnegative():
    t = Tensor("t", kind="positive")
    F = Tensor("F", body=lambda: -t())
    return AtMost(lift(0), Diff(F(), t())), Chain(Diff(F(), t()))


@attack
def minimum_of_another_function():
    t = Tensor("t", kind="positive")
    claim = Minimum(t() - 1 - 2 * log(t()), lift(0), at=t)
    return claim, Chain(claim.lhs)


@attack
def minimum_that_is_not_zero_at_one():
    t = Tensor("t", kind="positive")
    claim = Minimum(t() - 2 - log(t()), lift(0), at=t)
    return claim, Chain(claim.lhs)


@attack
def minimum_in_a_variable_of_any_sign():
    t = Tensor("t")
    claim = Minimum(t() - 1 - log(t()), lift(0), at=t)
    return claim, Chain(claim.lhs)


@attack
def instance_of_the_log_bound_at_a_point_of_any_sign():
    t = Tensor("t", kind="positive")
    bound = Minimum(t() - 1 - log(t()), lift(0), at=t)
    assert_proved_or_raise(bound, Chain(bound.lhs))
    w = Tensor("w", (), "nonnegative", lambda: c() - 1 - log(c()), fact=(bound, lambda: c()))
    claim = AtMost(log(c()), c() - 1)
    return claim, Chain(claim.rhs - claim.lhs).definition(w(), "the log bound", w)


@attack
def fact_that_holds_under_a_condition():
    """c >= 0 where x_i = 0, used where nobody says that x_i = 0."""
    condition = Equation(x(i), lift(0), says="x_i = 0")
    bound = AtMost(lift(0), c(), given=(condition,), says="c >= 0 where x_i = 0")
    w = Tensor("w", (), "nonnegative", lambda: c(), fact=bound)
    claim = AtMost(lift(0), c(), given=(bound,), sample={c: lambda: lift(1)})
    return claim, Chain(c()).definition(w(), "by the fact", w)


@attack
def hypotheses_that_can_be_taken_away():
    """A list of hypotheses could be emptied after the proof."""
    absent = Equation(c(), lift(0), says="c = 0", sample={c: lambda: lift(0)})
    claim = Equation(c(), 2 * c(), given=[absent])  # type: ignore[arg-type]
    return claim, Chain(c()).rewrite(lift(0), "", absent).rewrite(2 * c(), "", absent, lambda h: 2 * h())


@attack
def fact_that_nobody_proved():
    bound = AtMost(lift(0), c())
    w = Tensor("w", (), "nonnegative", lambda: c(), fact=bound)
    claim = AtMost(lift(0), c())
    return claim, Chain(c()).definition(w(), "by the fact", w)


# -- inductions --------------------------------------------------------------------------------------------------------


def by_induction(state=None, claim_of=None, first=None, later=None, start=None, move=None, given=None, here=None):
    """An induction on one number: the honest one says that a number that starts at 0 and keeps its value is 0."""
    now = state or Tensor("s")
    one, next_ = first or Tensor("s_1"), later or Tensor("s'")
    of = claim_of or Tensor.__call__
    start = start or Equation(2 * of(one), lift(0), says="twice its start is 0", sample={one: lambda: lift(0)})
    move = move or Equation(next_(), now(), says="it keeps its value", sample={next_: lambda: now()})
    here = here or Equation(of(now), lift(0), says="the claim at time t", sample={now: lambda: lift(0)})
    base = Equation(of(one), lift(0), given=(start,))
    step = Equation(of(next_), lift(0), given=(here, move))
    assert_proved_or_raise(base, Chain(base.lhs).rewrite(lift(0), "", start, lambda hole: hole() / 2))
    chain = Chain(step.lhs)
    if claim_of is None and next_ is not now:
        chain = chain.rewrite(of(now), "", move, lambda hole: hole())
    assert_proved_or_raise(step, chain.rewrite(lift(0), "", here, lambda hole: hole()))
    claim = Induction(
        of(now),
        lift(0),
        given=(start, move) if given is None else given,
        base=base,
        step=step,
        first={now: one},
        later={now: next_},
    )
    return claim, Chain(claim.lhs)


@attack
def induction_with_hypotheses_that_nobody_reads():
    return by_induction(given=())


@attack
def induction_whose_tensor_stands_still():
    """The step is trivial where the tensor after it is the tensor before it."""
    now, one = Tensor("s"), Tensor("s_1")
    return by_induction(state=now, first=one, later=now, move=Equation(now(), now()))


@attack
def induction_over_a_definition():
    """D = s is not exchanged when time moves."""
    now = Tensor("s")
    D = Tensor("D", body=lambda: now())
    start = Equation(D(), lift(0), says="D is 0", sample={now: lambda: lift(0)})
    return by_induction(state=now, claim_of=lambda tensor: D(), start=start, here=start)


@attack
def induction_towards_a_constant_of_the_claim():
    """After the step s is c, so s = c "at every time"."""
    now, one = Tensor("s"), Tensor("s_1")
    start = Equation(2 * one(), 2 * c(), says="it starts at c", sample={one: lambda: c()})
    here = Equation(now(), c(), says="the claim at time t", sample={now: lambda: c()})
    base = Equation(one(), c(), given=(start,))
    step = Equation(c(), c(), given=(here,))
    assert_proved_or_raise(base, Chain(one()).rewrite(c(), "", start, lambda hole: hole() / 2))
    assert_proved_or_raise(step, Chain(c()))
    claim = Induction(now(), c(), given=(start,), base=base, step=step, first={now: one}, later={now: c})
    return claim, Chain(now())


def resting(one: Tensor) -> tuple[Equation, Chain]:
    """s_1 = 0, and s = 0 where s = 0; with nothing said about the next time."""
    now = Tensor("s")
    start = Equation(2 * one(), lift(0), says="starts at 0", sample={one: lambda: lift(0)})
    here = Equation(now(), lift(0), says="the claim at time t", sample={now: lambda: lift(0)})
    base, step = Equation(one(), lift(0), given=(start,)), Equation(2 * now(), lift(0), given=(here,))
    assert_proved_or_raise(base, Chain(one()).rewrite(lift(0), "", start, lambda hole: hole() / 2))
    assert_proved_or_raise(step, Chain(now()).rewrite(lift(0), "", here))
    return Induction(now(), lift(0), given=(start,), base=base, step=step, first={now: one}, later={}), Chain(now())


@attack
def induction_that_never_moves():
    return resting(Tensor("s_1"))


@attack
def induction_whose_tensor_changes_its_kind():
    return by_induction(first=Tensor("s_1", kind="nonnegative"))


@attack
def induction_without_a_base():
    claim, chain = by_induction()
    return dataclasses.replace(claim, base=None), chain


@attack
def induction_with_a_hypothesis_at_one_index():
    """s(k) = 0 for all k at time t and s'(i) = s(i) at one i: that is not enough for all k."""
    now, one, next_ = Tensor("s", (n,)), Tensor("s_1", (n,)), Tensor("s'", (n,))
    start = Equation(2 * one(i), lift(0), (i,), says="starts at 0", sample={one: lambda k: lift(0)})
    here = Equation(now(i), lift(0), (i,), says="the claim", sample={now: lambda k: lift(0)})
    move = Equation(next_(i), now(i), says="keeps its value at i", sample={next_: lambda k: now(k)})
    base, step = Equation(one(i), lift(0), given=(start,)), Equation(next_(i), lift(0), given=(here, move))
    assert_proved_or_raise(base, Chain(one(i)).rewrite(lift(0), "", start, lambda hole: hole(i) / 2))
    assert_proved_or_raise(step, Chain(next_(i)).rewrite(now(i), "", move).rewrite(lift(0), "", here))
    claim = Induction(now(i), lift(0), given=(start, move), base=base, step=step, first={now: one}, later={now: next_})
    return claim, Chain(now(i))


# -- witnesses ---------------------------------------------------------------------------------------------------------


@attack
def witness_of_the_wrong_kind():
    w = Tensor("w", (), "nonnegative")
    claim = Witness(w(), lift(0), relation="<", values={w: -1})
    return claim, Chain(w())


@attack
def witness_beside_its_definition():
    """T = 2 c is given as 1, and c as 1."""
    T = Tensor("T", body=lambda: 2 * c())
    claim = Witness(T(), c(), relation="=", values={T: 1, c: 1})
    return claim, Chain(T())


@attack
def witness_out_of_range():
    claim = Witness(x(i), lift(5), relation="=", sizes={n: 2}, values={x: (1, 2, 5)}, at={i: -1})
    return claim, Chain(x(i))


@attack
def witness_with_an_empty_size_that_may_not_be():
    full = Size("n", nonempty=True)
    claim = Witness(Count(full), lift(0), relation="=", sizes={full: 0})
    return claim, Chain(Count(full))


@attack
def witness_that_is_false():
    claim = Witness(exp(c()), lift(3), relation=">", values={c: 1})
    return claim, Chain(exp(c()))


@attack
def witness_used_as_an_equation():
    one = Witness(c(), lift(1), relation="=", values={c: 1})
    assert_proved_or_raise(one, Chain(c()))
    claim = Equation(c() ** 2, lift(1))
    return claim, Chain(c() ** 2).rewrite(lift(1), "c is 1", one)


# -- uses of what was not proved ---------------------------------------------------------------------------------------


@attack
def rewriting_by_what_was_not_proved():
    wrong = Equation(x(i), y(i))
    claim = Equation(x(l), y(l))
    return claim, Chain(x(l)).rewrite(y(l), "so they say", wrong)


@attack
def rewriting_by_a_claim_that_failed():
    wrong = Equation(x(i), y(i))
    check(wrong, Chain(x(i)))
    claim = Equation(x(l), y(l))
    return claim, Chain(x(l)).rewrite(y(l), "so they say", wrong)


@attack
def rewriting_by_the_claim_itself():
    claim = Equation(x(i), y(i))
    return claim, Chain(x(i)).rewrite(y(i), "as claimed", claim)


@attack
def lemma_without_its_hypothesis():
    zero = Equation(c(), lift(0), says="c = 0")
    lemma = Equation(c(), 2 * c(), given=(zero,))
    assert_proved_or_raise(
        lemma, Chain(c()).rewrite(lift(0), "c is 0", zero).rewrite(2 * c(), "so is 2 c", zero, lambda h: 2 * h())
    )
    claim = Equation(c(), 2 * c())
    return claim, Chain(c()).rewrite(2 * c(), "the lemma", lemma)


@attack
def hypothesis_that_nothing_satisfies():
    """From c = c + 1 everything follows, and nothing is said: no instance can be evaluated."""
    absurd = Equation(c(), c() + 1, says="c = c + 1")
    claim = Equation(x(i), y(i), given=(absurd,))
    chain = Chain(x(i)).rewrite(y(i), "from the absurd", absurd, lambda hole: x(i) + (y(i) - x(i)) * (hole() - c()))
    return claim, chain


def assert_proved_or_raise(claim: Equation, chain: Chain) -> None:
    """A lemma that an attack builds on; where it is refused already, the attack is over."""
    found = check(claim, chain)
    if found.word != "proved":
        raise ValueError(found.reason)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack_is_not_proved(name):
    assert verdict(ATTACKS[name]) != "proved"


@pytest.mark.parametrize("name", [name for name in ATTACKS if name.startswith("second_derivative")])
def test_an_unknown_curvature_is_named(name):
    assert "second derivative" in check(*ATTACKS[name]()).reason


def test_an_unknown_curvature_is_found_inside_a_definition():
    g, u = Tensor("g"), Tensor("u")
    loss = Tensor("L", through=(g, u))
    hidden = Tensor("T", body=lambda: Diff(Diff(loss(), g()), g()))
    assert "second derivative" in check(Equation(hidden(), lift(0)), Chain(hidden())).reason


# -- the honest siblings: the kernel does not refuse everything --------------------------------------------------------

positive = Tensor("t", kind="positive")
full = Size("n", nonempty=True)
zero_at_i = Equation(x(i), lift(0), says="x_i = 0")
zero = Equation(x(i), lift(0), (i,), says="x = 0 everywhere")
look, table = Lookup("y", (n,), m), Tensor("T", (m, n))
where_looked = Equation(table(look(i), i), x(i), (i,), says="T(y(i), i) = x_i", sample={x: lambda i: table(look(i), i)})
GAP = Tensor("D", (n,), "nonnegative")
HONEST: dict[str, tuple[Equation, Chain]] = {
    "hypothesis at its own index": (
        Equation(2 * x(i), lift(0), given=(zero_at_i,)),
        Chain(2 * x(i)).rewrite(lift(0), "", zero_at_i),
    ),
    "hypothesis at every index": (
        Equation(total(lambda k: x(k), over=n), lift(0), given=(zero,)),
        Chain(total(lambda k: x(k), over=n)).rewrite(lift(0), "", zero),
    ),
    "lookup in a pattern": (
        Equation(where_looked.lhs * 2, 2 * x(i), given=(where_looked,)),
        Chain(where_looked.lhs * 2).rewrite(2 * x(i), "", where_looked),
    ),
    "cancelling what is positive": (Equation(positive() * inv(positive()), lift(1)), Chain(lift(1))),
    "counting what is not empty": (Equation(Count(full) * inv(Count(full)), lift(1)), Chain(lift(1))),
    "log of positive things": (
        Equation(log(positive() ** 2 * exp(c())), 2 * log(positive()) + c()),
        Chain(log(positive() ** 2 * exp(c()))),
    ),
    "derivative of a log": (
        Equation(Diff(log(positive()), positive()), inv(positive())),
        Chain(Diff(log(positive()), positive())).differentiate(inv(positive()), ""),
    ),
    "derivative of a sum over its own kind of index": (
        Equation(Diff(total(lambda k: x(k) ** 2, over=n), x(i)), 2 * x(i)),
        Chain(Diff(total(lambda k: x(k) ** 2, over=n), x(i))).differentiate(2 * x(i), ""),
    ),
    "tight set": (
        AtMost(lift(0), total(lambda k: GAP(k), over=n), tight=(every(GAP),)),
        Chain(total(lambda k: GAP(k), over=n)),
    ),
    "minimum": (
        Minimum(positive() - 1 - log(positive()), lift(0), at=positive),
        Chain(positive() - 1 - log(positive())),
    ),
    "induction": by_induction(),
    "witness": (Witness(exp(c()), lift(2), relation=">", values={c: 1}), Chain(exp(c()))),
}


@pytest.mark.parametrize("name", list(HONEST))
def test_honest_sibling_is_proved(name):
    claim, chain = HONEST[name]
    found = check(claim, chain)
    assert found.word == "proved", found.reason
