"""The referee: what it compares, what it refuses to compare; a refutation is an instance of the claim itself."""

from __future__ import annotations

import math

import flint
import pytest

from bayesgrad.symbolic import refutation
from bayesgrad.symbolic.comparison import differs
from bayesgrad.symbolic.evaluation import Formal, Real
from bayesgrad.symbolic.proof import AtMost, Chain, Equation, check
from bayesgrad.symbolic.terms import Count, Diff, Index, Lookup, Size, Tensor, delta, exp, inv, lift, log, total

n, m = Size("n"), Size("m")
i, l, j = Index("i", n), Index("l", n), Index("j", m)
x, c = Tensor("x", (n,)), Tensor("c")
t = Tensor("t", (n,), "positive")


def veto(left, right, given=(), bodies=None, seed=0):
    claim = Equation(lift(left), lift(right), given=given, sample=bodies or {})
    return refutation.veto(claim.lhs, claim.rhs, claim, seed)


# -- what it sees ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (c() * inv(c()), 1),
        (Count(n) * inv(Count(n)), 1),
        (total(lambda r: x(r), over=n) * inv(total(lambda r: x(r), over=n)), 1),
        (total(lambda r: 1, over=n), 2),
        (inv(c() + c()), inv(c()) * 2),
        (exp(c()) + 1, exp(c() + 1)),
        (log(t(i) + t(l)), log(t(i)) + log(t(l))),
        (Diff(total(lambda r: x(r) ** 2, over=n), x(i)), 2 * total(lambda r: x(r), over=n)),
    ],
)
def test_what_is_false_is_seen(left, right):
    assert any(veto(left, right, seed=seed)[0] is not None for seed in range(4))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (t(i) * inv(t(i)), 1),
        (exp(c() + x(i)), exp(c()) * exp(x(i))),
        (exp(c() * 2), exp(c()) ** 2),
        (log(t(i) * t(l)), log(t(i)) + log(t(l))),
        (log(exp(c() - x(i))), c() - x(i)),
        (Diff(log(t(i)), t(l)), delta(i, l) * inv(t(i))),
        (Diff(exp(c() ** 2), c()), 2 * c() * exp(c() ** 2)),
        (Diff(inv(t(i)), t(i)), -(inv(t(i)) ** 2)),
        (inv(inv(c())), c()),
    ],
)
def test_what_is_true_is_not_denied(left, right):
    for seed in range(4):
        found, compared = veto(left, right, seed=seed)
        assert found is None
        assert compared > 0


def test_a_step_is_compared_at_full_sizes_and_in_a_corner():
    """The third instance has sizes that may be 0 and entries that may be 0, the first two have not."""
    full = [Formal(seed, 10**6) for seed in range(20)]
    corner = [Formal(seed, 10**6, corner=True) for seed in range(20)]
    assert all(one.size(n) in (2, 3) for one in full)
    assert {one.size(n) for one in corner} >= {0, 1}
    assert all(one.size(Size("f", nonempty=True)) == 1 for one in corner)
    assert all(one.draw(c) != 0 for one in full for _ in range(20))
    assert any(one.draw(c) == 0 for one in corner for _ in range(5))
    assert all(one.draw(t) > 0 for one in corner for _ in range(20))


def test_entries_are_drawn_widely():
    """The error bound of the documentation needs as many values as it says."""
    one = Formal(1, refutation.SPREAD)
    drawn = {int(one.draw(c)) for _ in range(2000)}
    assert len(drawn) > 1990
    assert min(drawn) < -refutation.SPREAD / 2 < refutation.SPREAD / 2 < max(drawn)


def test_formal_exps_are_different_primes():
    one = Formal(1, 9, sizes={n: 3})
    values = [one.value(exp(x(i)), {i: place}) for place in range(3)]
    roots = [int(value.p) for value in values]
    assert len(set(roots)) == 3
    assert all(flint.fmpz(math.isqrt(root)).is_prime() and math.isqrt(root) ** 2 == root for root in roots)
    assert one.value(exp(x(i)), {i: 0}) * one.value(exp(-x(i)), {i: 0}) == 1


# -- what it refuses ---------------------------------------------------------------------------------------------------


def test_a_hypothesis_is_checked_at_all_its_places():
    """x = 0 for all i, read at the claim's own i alone, would let other entries differ from 0."""
    everywhere = Equation(x(i), lift(0), (i,), says="x = 0 everywhere")
    claim = Equation(x(i), total(lambda r: x(r), over=n), given=(everywhere,))
    assert differs(claim.lhs, claim.rhs, claim.given, kind=Real, seed=0, tries=60, spread=3)[0] is None
    here = Equation(x(i), lift(0), says="x_i = 0")
    assert differs(claim.lhs, claim.rhs, (here,), kind=Real, seed=0, tries=60, spread=3)[0] is not None


def test_there_is_no_lookup_into_nothing():
    """sum_k delta(y(k), a) over all a counts every k, also where nothing can be looked up."""
    look = Lookup("look", (m,), n)
    left = total(lambda a, b: delta(look(b), a), over=(n, m))
    for seed in range(40):
        assert veto(left, Count(m), seed=seed)[0] is None


def test_a_sample_of_another_kind_is_no_instance():
    w = Tensor("w", (), "positive")
    wrong = Equation(w(), c(), says="w = c", sample={w: lambda: c()})
    for seed in range(10):
        found, _ = veto(w() * inv(w()), lift(1), (wrong,), {w: lambda: c()}, seed)
        assert found is None


def test_a_log_below_zero_has_no_value():
    assert veto(log(-t(i)), log(-t(i)))[1] == 0
    assert veto(Diff(log(-t(i)), t(i)), inv(t(i)))[1] == 0


def test_an_exp_that_cannot_be_written_down_is_left_to_balls():
    tower = exp(exp(exp(c() / 9)))
    assert differs(tower, tower, (), kind=Formal, seed=0, tries=9, spread=9)[1] == 0
    assert veto(tower, tower)[1] > 0
    assert veto(tower, tower + 1)[0] is not None


# -- refutations -------------------------------------------------------------------------------------------------------


def test_a_definition_is_not_overridden_to_refute():
    """The claim is true by the definition of T, which its sample leaves out; without a proof it is undecided."""
    T = Tensor("T", body=lambda: c() ** 2 + 1)
    claim = Equation(T() * inv(c() ** 2 + 1), lift(1), sample={T: None})
    found = check(claim, Chain(claim.lhs).algebra(lift(1), "a step too far"))
    assert found.word == "undecided"
    assert found.counterexample is None


def test_a_refutation_can_be_recomputed_by_hand():
    claim = Equation(x(i) * x(l), x(i) ** 2)
    example = check(claim, Chain(claim.lhs)).counterexample
    assert example is not None
    at = {name: lift_value(example.values[f"x[{number}]"]) for name, number in example.position.items()}
    assert at["i"] * at["l"] == lift_value(example.left)
    assert at["i"] ** 2 == lift_value(example.right)
    assert example.left != example.right


def lift_value(text: str) -> flint.fmpq:
    top, _, bottom = text.partition("/")
    return flint.fmpq(int(top), int(bottom or 1))


def test_sides_that_differ_late_are_shown_far_enough():
    tiny = Tensor("e", kind="positive")
    claim = Equation(exp(-40 - tiny()) + 1, lift(1))
    example = check(claim, Chain(claim.lhs)).counterexample
    assert example is not None
    assert example.left != example.right


def test_balls_that_touch_refute_nothing():
    claim = AtMost(log(exp(c()) + 1) - log(exp(c()) + 1), lift(0))
    assert check(claim, Chain(lift(0))).word != "refuted"
    assert differs(log(lift(2)) * 2, log(lift(4)), (), kind=Real, seed=0, tries=3, spread=3)[0] is None


def test_a_slope_whose_ball_holds_0_counts():
    """a (1 - a) where a is 1 but for exp(-300): left out, the slopes of a row would not add up to 0."""
    a = Tensor("a", (n,), body=lambda p: exp(x(p)) * inv(total(lambda r: exp(x(r)), over=n)))
    u = Tensor("u", (n,))
    loss = Tensor("L", through=(a, u))
    for claim in (
        Equation(total(lambda p: Diff(total(lambda r: a(r) * u(r), over=n), x(p)), over=n), lift(0)),
        Equation(total(lambda p: Diff(loss(), x(p)), over=n), lift(0)),
    ):
        for seed in range(5):
            found, compared = differs(claim.lhs, claim.rhs, (), kind=Real, seed=seed, tries=30, spread=300)
            assert found is None, (found.left, found.right)
            assert compared
