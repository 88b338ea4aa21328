"""Hypotheses: true somewhere in true arithmetic, and not what is to be shown; and how the evaluator meets them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayesgrad.symbolic import refutation, sampling
from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Minimum, check
from bayesgrad.symbolic.terms import Count, Diff, Index, Size, Tensor, exp, inv, lift, log, sqrt, tanh, total

n, m = Size("n"), Size("m")
i, l, j = Index("i", n), Index("l", n), Index("j", m)
c, d, x, y = Tensor("c"), Tensor("d"), Tensor("x", (n,)), Tensor("y", (n,))
t = Tensor("t", kind="positive")
p = Tensor("p", (n, m), "positive")


def by(given, left=None, right=None):
    """A claim that needs no hypothesis, under one."""
    left, right = left or c() + c(), right or 2 * c()
    return check(Equation(left, right, given=(given,)), Chain(left))


ABSURD = {
    "one is two": Equation(lift(1), lift(2)),
    "log 3 <= log 2": AtMost(log(lift(3)), log(lift(2))),
    "exp(c) <= 0": AtMost(exp(c()), lift(0)),
    "exp(1) <= 2": AtMost(exp(lift(1)), lift(2)),
    "a positive number is 0": Equation(t(), lift(0)),
    "a square is -1": Equation(c() ** 2, lift(-1)),
    "a definition is something else": Equation(Tensor("T", body=lambda: lift(2))(), lift(1)),
    "a definition is drawn otherwise": Equation(
        (T := Tensor("T", body=lambda: lift(2)))(), lift(1), sample={T: lambda: lift(1)}
    ),
    "a definition is drawn freely": Equation((T := Tensor("T", body=lambda: lift(2)))(), lift(1), sample={T: None}),
    "no c is c + 1": Equation(c(), c() + 1),
    "a tanh above 1": AtMost(lift(1), tanh(c())),
    "two things at once": Equation(c() + 0 * t(), -exp(t()), sample={c: lambda: -exp(t()), t: lambda: lift(-1)}),
}


@pytest.mark.parametrize("name", list(ABSURD))
def test_what_nothing_satisfies_is_no_hypothesis(name):
    found = by(replace(ABSURD[name], says=name))
    assert found.word == "undecided"
    assert found.reason == f"no instance satisfies the hypotheses, as far as was tried: {name!r} held on 0"


POSSIBLE = {
    "a root of two": Equation(c() ** 2, lift(2), sample={c: lambda: sqrt(lift(2))}),
    "log 2 <= log 3": AtMost(log(lift(2)), log(lift(3))),
    "an order": AtMost(c(), d()),
    "equal logs": Equation(log(t()), c(), sample={t: lambda: exp(c())}),
    "c is a tanh": Equation(c(), tanh(d())),
    "c is an entry at i": Equation(c(), x(i)),
    "x is y": Equation(x(i), y(i), (i,)),
    "x_i is 0 at one i": Equation(x(i), lift(0)),
    "rows sum to one": Equation(total(lambda k: p(i, k), over=m), lift(1), (i,)),
    "a number that is not 0": Equation(c() * inv(c()), lift(1)),
    "something to count": Equation(Count(n) * inv(Count(n)), lift(1)),
    "a defined letter": Equation(Tensor("T", body=lambda: c() ** 2)(), d()),
}


@pytest.mark.parametrize("name", list(POSSIBLE))
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_something_satisfies_is_a_hypothesis(name, seed):
    """Without a sample, too, where it can be read off what a letter must be."""
    claim = Equation(3 * (x(l) + d()), 3 * x(l) + 3 * d(), given=(replace(POSSIBLE[name], says=name),))
    assert refutation.vacuous(claim, seed) == ""
    found = check(claim, Chain(claim.lhs), seed=seed)
    assert (found.word, found.reason) == ("proved", "")


def test_hypotheses_must_hold_together():
    one, two = Equation(c(), lift(1), says="c = 1"), Equation(c(), lift(2), says="c = 2")
    claim = Equation(d() + d(), 2 * d(), given=(one, two))
    assert check(claim, Chain(claim.lhs)).reason.startswith("no instance satisfies the hypotheses")


SAME = {
    "the claim": Equation(c(), d()),
    "the claim with sides exchanged": Equation(d(), c()),
    "the claim written otherwise": Equation(c() - d(), lift(0)),
    "the claim for every i": Equation(c() + 0 * x(i), d(), (i,)),
}


@pytest.mark.parametrize("name", list(SAME))
def test_a_hypothesis_that_is_the_claim_is_refused(name):
    given = replace(SAME[name], says=name)
    claim = Equation(c(), d() + 0 * x(l), given=(given,))
    found = check(claim, Chain(c()).rewrite(d() + 0 * x(l), "", given, lambda hole: hole()))
    assert (found.word, found.reason) == ("undecided", f"hypothesis {name!r} is what is to be shown")


def test_a_hypothesis_that_is_an_instance_of_the_claim_is_refused():
    given = Equation(x(i), y(i), (i,), says="x = y everywhere")
    claim = Equation(x(l), y(l), given=(given,))
    assert (
        check(claim, Chain(x(l)).rewrite(y(l), "", given)).reason
        == "hypothesis 'x = y everywhere' is what is to be shown"
    )
    bound = AtMost(x(i), y(i), (i,), says="x <= y everywhere")
    gap = Tensor("D", (n,), "nonnegative", lambda k: y(k) - x(k), fact=bound)
    claim = AtMost(x(l), y(l), given=(bound,))
    found = check(claim, Chain(y(l) - x(l)).definition(gap(l), "", gap))
    assert found.reason == "hypothesis 'x <= y everywhere' is what is to be shown"
    for stronger in (Equation(x(l), y(l), says="equal"), AtMost(x(l), y(l), says="below")):
        assert "is what is to be shown" in check(replace(claim, given=(stronger,)), Chain(y(l) - x(l))).reason
    least = Minimum(x(l) - y(l), lift(0), given=(AtMost(y(l), x(l), says="below"),), at=t)
    assert "is what is to be shown" in check(least, Chain(x(l) - y(l))).reason


def test_a_hypothesis_beside_a_claim_that_needs_none_is_no_harm():
    """What is not 0 is a hypothesis although it reads x (1/x) = 1, and so does the claim; 0 = 0 assumes nothing."""
    occurs = Equation(c() * inv(c()), lift(1), says="c is not 0")
    claim = Equation(c() * inv(c()), lift(1), given=(occurs,))
    assert check(claim, Chain(claim.lhs).rewrite(1, "", occurs, lambda hole: hole())).word == "proved"
    nothing = Equation(c(), c(), says="nothing")
    assert by(nothing).word == "proved"


def test_a_hypothesis_has_none_of_its_own():
    inner = Equation(d(), lift(0), says="d = 0")
    outer = Equation(c(), lift(0), given=(inner,), says="c = 0 where d = 0")
    assert "it has hypotheses of its own, expected none" in by(outer).reason


# -- how they are met --------------------------------------------------------------------------------------------------


def test_a_letter_is_read_off_a_hypothesis():
    claim = Equation(c(), d(), given=(Equation(x(i), c() + 1, (i,)), Equation(d(), x(l))))
    found = sampling.bodies(claim)
    assert set(found) == {x, d}
    assert sampling.bodies(Equation(c(), d(), given=(Equation(c(), c() + 1),))) == {}
    circle = Equation(c(), d(), given=(Equation(c(), x(i)), Equation(x(i), c() + 1, (i,))))
    assert len(sampling.bodies(circle)) == 1  # the second would need the first


def test_what_a_hypothesis_says_for_one_position_may_be_drawn_for_all():
    claim = Equation(x(i) * 2, lift(0), given=(here := Equation(x(i), lift(0), says="x_i = 0"),))
    assert check(claim, Chain(claim.lhs).rewrite(0, "", here)).word == "proved"


def test_a_sample_that_replaces_a_definition_is_only_a_faster_way():
    """A soft cap: the slope of s is lost where s is drawn, so the step is looked at again with s as it stands."""
    beta = Tensor("beta", kind="positive")
    s = Tensor("s", body=lambda: tanh(beta() * c()) / beta())
    slope = Equation(Diff(s(), c()), 1 - (beta() * s()) ** 2, sample={s: None})
    chain = (
        Chain(slope.lhs)
        .definition(Diff(tanh(beta() * c()) / beta(), c()), "by definition", s)
        .differentiate(1 - tanh(beta() * c()) ** 2, "the slope of tanh")
        .definition(slope.rhs, "by definition", s)
    )
    for seed in range(6):
        found = check(slope, chain, seed=seed)
        assert (found.word, found.reason) == ("proved", "")
        assert check(replace(slope, rhs=1 + (beta() * s()) ** 2), chain, seed=seed).word == "refuted"


def test_a_sample_that_leads_back_to_itself_is_no_crash():
    """G is the slope of s, which is drawn, and s is defined by what G is drawn from."""
    G = Tensor("G")
    s = Tensor("s", body=lambda: G() * c())
    given = Equation(G(), s() + 1, says="G = s + 1", sample={s: None, G: lambda: s() + 1})
    claim = Equation(G() * 2, s() * 2, given=(given,))
    found = check(claim, Chain(claim.lhs))
    assert found.word == "undecided"
