"""Attempts to make the checker accept something false: chains that nobody vetted, and certificates written by hand.

Each attack is one dishonest means. An honest sibling nearby goes through, so that the checker is not just refusing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from bayesgrad import checker
from bayesgrad.symbolic.certificate import Claims
from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Induction, every
from bayesgrad.symbolic.terms import Count, Diff, Index, Lookup, Size, Tensor, delta, inv, lift, log, total
from tests._certificates import EMPTY, read, verdict

n, m = Size("n"), Size("m")
i, l, j = Index("i", n), Index("l", n), Index("j", m)
c, d, x, y, z = Tensor("c"), Tensor("d"), Tensor("x", (n,)), Tensor("y", (m,)), Tensor("z", (n,))
one, many = Lookup("z1", (), n), Lookup("zm", (m,), n)
everywhere = Equation(c(), d(), (i,), says="c = d, for every i")
Made = tuple[Equation, dict[Equation, Chain]]
ATTACKS: dict[str, Callable[[], Made]] = {}
HONEST: dict[str, Callable[[], Made]] = {}


def attack(function: Callable[[], Made]) -> Callable[[], Made]:
    ATTACKS[function.__name__] = function
    return function


def honest(function: Callable[[], Made]) -> Callable[[], Made]:
    HONEST[function.__name__] = function
    return function


def judged(made: Made) -> str:
    """Why the checker refuses a claim with unvetted chains for it and for its lemmas; empty if it does not."""
    claim, chains = made
    claims = Claims({"x": {"x": claim}})
    return verdict(read(claims.json), read(claims.certificate("x", chains.get)))[0]


def simple(claim: Equation, chain: Chain) -> Made:
    return claim, {claim: chain}


# -- positions of a size that may be empty -----------------------------------------------------------------------------


@attack
def a_count_by_a_lookup():
    """1 <= n, by a helper that looks up a position of n."""
    others = Tensor("o", (n,), "indicator", lambda k: 1 - delta(k, one()))
    chain = Chain(Count(n) - 1).definition(total(lambda k: others(k), over=n), "", others)
    return simple(AtMost(lift(1), Count(n)), chain)


@attack
def a_count_by_a_lookup_from_another_size():
    others = Tensor("o", (m, n), "indicator", lambda a, k: 1 - delta(k, many(a)))
    chain = Chain(Count(n) - 1).definition(total(lambda k: others(j, k), over=n), "", others)
    return simple(AtMost(1 + 0 * y(j), Count(n)), chain)


@honest
def a_count_by_a_lookup_of_the_claim():
    others = Tensor("o", (n,), "indicator", lambda k: 1 - delta(k, one()))
    chain = Chain(Count(n) - 1 - 0 * x(one())).definition(total(lambda k: others(k), over=n), "", others)
    return simple(AtMost(1 + 0 * x(one()), Count(n)), chain)


@attack
def a_hypothesis_at_a_lookup():
    return simple(Equation(c(), d(), given=(everywhere,)), Chain(c()).rewrite(d(), "", everywhere, lambda h: h(one())))


@honest
def a_hypothesis_at_a_position_of_the_claim():
    claim = Equation(c() * x(i), d() * x(i), given=(everywhere,))
    return simple(claim, Chain(claim.lhs).rewrite(claim.rhs, "", everywhere, lambda h: h(i) * x(i)))


def towards_zero(extra: bool) -> Made:
    """S = 0 at every time; with ``extra`` the base needs a position of n that the claim does not have."""
    s, first, later = Tensor("S"), Tensor("S_1"), Tensor("S'")
    start = Equation(first(), lift(0), (i,) if extra else (), says="S_1 = 0")
    now = Equation(s(), lift(0), says="S = 0")
    stays = Equation(later(), s(), says="S' = S")
    left = first() + 0 * x(i) if extra else first()
    base = Equation(left, lift(0), given=(start,))
    step = Equation(later(), lift(0), given=(now, stays))
    within = (lambda h: h(i) + 0 * x(i)) if extra else (lambda h: h())
    chains = {
        base: Chain(left).rewrite(lift(0), "", start, within),
        step: Chain(later()).rewrite(s(), "", stays, lambda h: h()).rewrite(lift(0), "", now, lambda h: h()),
    }
    claim = Induction(s(), lift(0), given=(start, stays), base=base, step=step, first={s: first}, later={s: later})
    return claim, {**chains, claim: Chain(s())}


@attack
def an_induction_whose_base_has_a_position_of_its_own():
    return towards_zero(extra=True)


@honest
def an_induction():
    return towards_zero(extra=False)


# -- kinds, bounds, derivatives ----------------------------------------------------------------------------------------


@attack
def a_false_kind_in_the_claim_of_an_induction():
    w = Tensor("w", (), "positive", lambda: lift(0))
    s, first, later = Tensor("s"), Tensor("s_1"), Tensor("s'")
    base = Equation(first(), first() * w() * inv(w()))
    now = Equation(s(), s() * w() * inv(w()), says="now")
    step = Equation(later(), later() * w() * inv(w()), given=(now,))
    claim = Induction(s(), s() * w() * inv(w()), base=base, step=step, first={s: first}, later={s: later})
    return claim, {base: Chain(base.lhs), step: Chain(step.lhs), claim: Chain(claim.lhs)}


@attack
def tight_at_every_position_where_one_is_summed():
    T = Tensor("T", (n,), "nonnegative")
    return simple(AtMost(lift(0), T(i), tight=(every(T),)), Chain(T(i)))


@honest
def tight_at_the_position_of_the_claim():
    T = Tensor("T", (n,), "nonnegative")
    return simple(AtMost(lift(0), T(i), tight=(every(T, i),)), Chain(T(i)))


@attack
def tight_with_another_position_left_out():
    T = Tensor("T", (n,), "nonnegative")
    return simple(AtMost(lift(0), T(i) + T(l), tight=(every(T, i),)), Chain(T(i) + T(l)))


@attack
def a_minimum_of_a_letter_that_moves_with_the_variable():
    """c := t, so t + c - 1 - log t is no longer what the rule takes it for."""
    from bayesgrad.symbolic.proof import Minimum

    t = Tensor("t", (), "positive")
    hidden = Tensor("h", (), body=lambda: t())
    claim = Minimum(t() - 1 - log(t()) + 0 * hidden(), lift(0), at=t)
    return simple(claim, Chain(claim.lhs))


@attack
def the_slope_of_one_over_x_at_zero():
    claim = Equation(Diff(inv(c()), c()), -(inv(c()) ** 2))
    return simple(claim, Chain(claim.lhs).differentiate(claim.rhs, "", c))


@attack
def a_derivative_in_a_definition_that_the_chain_rule_skips():
    """F = dM/dx holds no x but through M; yet dF/dw is not (dF/dM) dM/dw."""
    w, v = Tensor("w"), Tensor("v")
    M = Tensor("M", body=lambda: w() * v())
    F = Tensor("F", body=lambda: Diff(M(), v()))
    claim = Equation(Diff(F(), w()), Diff(F(), M()) * Diff(M(), w()))
    return simple(claim, Chain(claim.lhs).through(claim.rhs, "", M))


@attack
def a_hypothesis_under_a_derivative():
    zero = Equation(c(), lift(0), says="c = 0")
    claim = Equation(Diff(c(), c()), lift(0), given=(zero,))
    chain = Chain(claim.lhs).rewrite(Diff(lift(0), c()), "", zero, lambda h: Diff(h(), c()))
    return simple(claim, chain.differentiate(lift(0), "", c))


@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack_is_refused(name):
    assert judged(ATTACKS[name]())


@pytest.mark.parametrize("name", list(HONEST))
def test_honest_sibling_is_accepted(name):
    assert judged(HONEST[name]()) == ""


# -- certificates written by hand --------------------------------------------------------------------------------------

X = ["entry", "x", "i"]
BOOK: dict[str, Any] = {
    "format": 1,
    "sizes": {"n": False, "m": False},
    "lookups": {},
    "tensors": {
        "c": {"sizes": [], "kind": "real"},
        "x": {"sizes": ["n"], "kind": "real"},
        "y": {"sizes": ["n"], "kind": "real", "slots": ["i"], "body": ["mul", ["num", "2"], X]},
        "L": {"sizes": [], "kind": "real", "through": ["x", "x"]},
    },
    "hypotheses": {"H": {"type": "equation", "lhs": X, "rhs": ["num", "0"], "for": {"i": "n"}, "at": {}}},
    "claims": {
        "A#a": {"type": "equation", "lhs": ["entry", "c"], "rhs": ["num", "0"], "for": {}, "given": []},
        "B#b": {"type": "equation", "lhs": ["entry", "y", "i"], "rhs": ["num", "0"], "for": {"i": "n"}, "given": ["H"]},
    },
    "labels": {"A": ["A#a"], "B": ["B#b"]},
}
UNFOLD = {"rule": "definition", "tensors": ["y"], "after": ["mul", ["num", "2"], X]}
VANISH = {
    "rule": "rewrite",
    "by": "H",
    "context": ["mul", ["num", "2"], ["hole", "i"]],
    "reverse": False,
    "after": ["num", "0"],
}
PROOF = {"B#b": {"steps": [UNFOLD, VANISH]}}


def report(*certificates: dict[str, Any], book: Any = BOOK) -> checker.Report:
    return checker.Report(book, [{**EMPTY, **certificate} for certificate in certificates])


def proved(*certificates: dict[str, Any]) -> set[str]:
    return {claim.name for claim in report(*certificates).proved}


def test_the_honest_certificate():
    assert proved({"proofs": PROOF}) == {"B#b"}


LEMMA = {"type": "equation", "lhs": ["entry", "c"], "rhs": ["num", "0"], "for": {}, "given": []}
USE = {"rule": "rewrite", "by": "k", "context": ["hole"], "reverse": False, "after": ["num", "0"]}
ONE = {"rule": "rewrite", "by": "A#a", "context": ["hole"], "reverse": False, "after": ["num", "0"]}
FORGED: dict[str, list[dict[str, Any]]] = {
    "a claim by itself": [{"proofs": {"A#a": {"steps": [ONE]}}}],
    "a lemma that nobody proves": [{"claims": {"k": LEMMA}, "proofs": {"A#a": {"steps": [USE]}}}],
    "two lemmas that lean on each other": [
        {"claims": {"k": LEMMA}, "proofs": {"k": {"steps": [ONE]}, "A#a": {"steps": [USE]}}}
    ],
    "a lemma of another certificate": [
        {"claims": {"k": LEMMA}, "proofs": {"A#a": {"steps": [USE]}}},
        {"claims": {"k": {**LEMMA, "lhs": ["num", "0"]}}, "proofs": {"k": {"steps": []}}},
    ],
    "a name of the book again": [
        {"tensors": {"y": {"sizes": ["n"], "kind": "real", "slots": ["i"], "body": ["num", "0"]}}, "proofs": PROOF}
    ],
    "a claim of the book again": [
        {"claims": {"A#a": {**LEMMA, "rhs": ["entry", "c"]}}, "proofs": {"A#a": {"steps": []}}}
    ],
    "a size of the book again": [{"sizes": {"n": True}, "proofs": PROOF}],
    "a hypothesis that the claim has not": [
        {"proofs": {"A#a": {"steps": [{**VANISH, "context": ["hole", "i"], "after": ["num", "0"]}]}}}
    ],
    "a hypothesis of the certificate's own": [
        {
            "hypotheses": {"G": {"type": "equation", "lhs": ["entry", "c"], "rhs": ["num", "0"], "for": {}, "at": {}}},
            "proofs": {"A#a": {"steps": [{**USE, "by": "G"}]}},
        }
    ],
    "a lemma under a hypothesis of its own": [
        {
            "hypotheses": {"G": {"type": "equation", "lhs": ["entry", "c"], "rhs": ["num", "0"], "for": {}, "at": {}}},
            "claims": {"k": {**LEMMA, "given": ["G"]}},
            "proofs": {"k": {"steps": [{**USE, "by": "G"}]}, "A#a": {"steps": [USE]}},
        }
    ],
    "a rule that is none": [{"proofs": {"A#a": {"steps": [{"rule": "trust", "after": ["num", "0"]}]}}}],
    "a witness of a claim that is none": [{"proofs": {"A#a": {}}}],
    "a sum over an index in use": [
        {"proofs": {"B#b": {"steps": [{"rule": "algebra", "after": ["sum", "i", "n", X]}, VANISH]}}}
    ],
    "an index that is none of the claim's": [
        {"proofs": {"A#a": {"steps": [{"rule": "algebra", "after": ["entry", "x", "i"]}]}}}
    ],
    "a helper that leads back to itself": [
        {"tensors": {"w": {"sizes": [], "kind": "real", "slots": [], "body": ["entry", "w"]}}, "proofs": PROOF}
    ],
    "a helper of a false kind": [
        {
            "tensors": {"w": {"sizes": [], "kind": "positive", "slots": [], "body": ["num", "0"]}},
            "claims": {"k": {**LEMMA, "lhs": ["mul", ["entry", "w"], ["inv", ["entry", "w"]]], "rhs": ["num", "1"]}},
            "proofs": {"k": {"steps": []}, "A#a": {"steps": [USE]}},
        }
    ],
    "a fraction that is none": [{"proofs": {"A#a": {"steps": [{"rule": "algebra", "after": ["num", "0e9"]}]}}}],
}


@pytest.mark.parametrize("name", list(FORGED))
def test_a_forged_certificate_proves_nothing(name):
    assert "A#a" not in proved(*FORGED[name])
    if name != "a lemma of another certificate":
        assert "B#b" not in proved(*FORGED[name])


def test_proofs_may_come_in_any_order():
    """A book claim that leans on one which a later certificate proves."""
    book = copy.deepcopy(BOOK)
    book["claims"]["A#a"]["lhs"] = ["mul", ["num", "0"], ["entry", "c"]]
    book["claims"]["C#c"] = {**LEMMA, "lhs": ["mul", ["num", "3"], book["claims"]["A#a"]["lhs"]]}
    book["labels"]["C"] = ["C#c"]
    step = {**ONE, "context": ["mul", ["num", "3"], ["hole"]]}
    first, second = {"proofs": {"C#c": {"steps": [step]}}}, {"proofs": {"A#a": {"steps": []}}}
    for order in ((first, second), (second, first)):
        assert {claim.name for claim in report(*order, book=book).proved} == {"A#a", "C#c"}
    only = report(first, book=book)
    assert only.why_not(only.tables.claims["C#c"]) == "it rests on A#a: which is not proved"


@pytest.mark.parametrize("where", [("sizes", "n"), ("tensors", "c", "kind"), ("claims", "A#a", "lhs"), ("format",)])
def test_a_book_that_is_none_is_refused(where):
    book = copy.deepcopy(BOOK)
    at: Any = book
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = "nonsense"
    with pytest.raises((checker.Reject, *checker.MALFORMED)):
        report(book=book)


def test_names_that_would_make_a_page_ambiguous_are_refused():
    for name in ("x[i]", "a b", "", "*", "Σ", "x,y"):
        book = copy.deepcopy(BOOK)
        book["tensors"][name] = {"sizes": [], "kind": "real"}
        with pytest.raises(checker.Reject, match="no name"):
            report(book=book)


def test_a_claim_is_printed_with_all_that_it_says():
    claim = report().tables.claims["B#b"]
    assert checker.statement(claim) == ["for all i∈n: y[i] = 0", "  given for all i∈n: x[i] = 0"]
    assert checker.letters(claim) == ["x[n]", "y[i] := 2·x[i]"]
