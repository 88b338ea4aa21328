"""SymPy evaluates claims at explicit sizes as the engine does; and it would notice if one of the two were wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp
from sympy import Derivative, Eq, IndexedBase, KroneckerDelta, Le, Ne, Sum, Symbol, exp, log

from bayesgrad.symbolic.book import Book
from bayesgrad.symbolic.evaluation import Instance
from bayesgrad.symbolic.proof import Witness
from bayesgrad.symbolic.statements import Given
from bayesgrad.symbolic.terms import Fn, Size, Tensor, lift
from derivations import laws
from derivations.routes import sympy_sizes, sympy_values
from derivations.routes.sympy_sizes import claims_of, compare, entry
from tests._sympy_head import JACOBIAN, ROUTING, L, a, b, bbar, g, head, i, j, k, m, n, s, u, v

x, y = IndexedBase("x", shape=(n,)), IndexedBase("y", shape=(n,))
T = Symbol("T")
QUICK = ("softmax.jacobian", "attention.routing-law", "bayes.bijection", "bayes.chain-rule", "lemma.log-bound")


@pytest.mark.parametrize("label", QUICK)
def test_nothing_to_object(label):
    found = entry(label)
    assert found["verdict"] == "proved", found["reason"]
    assert len(found["detail"]["parts"]) == sum(len(list(claims_of(p.claim))) for p in laws.law(label).parts)


def claim(relation, **more):
    return head().claim(relation, sample={s: None, v: None, **more})


def test_a_law_as_a_user_states_it():
    for relation in (JACOBIAN, ROUTING):
        found = compare(claim(relation))
        assert found.verdict == "proved", found.reason
        assert found.compared >= 4


WRONG = {
    "sign": Eq(ROUTING.lhs, a[i, j] * (b[i, j] + bbar[i])),
    "transposed": Eq(JACOBIAN.lhs, JACOBIAN.rhs.subs(a[i, k], a[i, j])),
    "a name captured": Eq(Derivative(a[i, j], s[i, k]), 0, evaluate=False),
    "a bound that is too small": Le(Sum(a[i, j] ** 2, (j, 0, m - 1)), Sum(a[i, j] ** 3, (j, 0, m - 1))),
    "nothing": Eq(Derivative(L(g), s[i, j]), 0, evaluate=False),
}


@pytest.mark.parametrize("relation", WRONG.values(), ids=WRONG)
def test_a_wrong_law_is_false_in_sympys_numbers(relation):
    found = next(f for f in (compare(claim(relation), seed) for seed in range(20)) if f.verdict == "refuted")
    assert "false in SymPy" in found.objection
    assert "sizes" in found.objection


# -- one of the two evaluations is broken ------------------------------------------------------------------------------


def test_an_evaluator_that_is_wrong_is_noticed(monkeypatch):
    honest = Instance.value

    def wrong(self, term, env):
        return honest(self, term, env) * (2 if isinstance(term, Fn) and term.name == "exp" else 1)

    monkeypatch.setattr(Instance, "value", wrong)
    assert "SymPy has" in compare(Book().claim(Eq(exp(x[i]), exp(x[i]), evaluate=False))).objection


def test_a_derivative_that_is_wrong_is_noticed(monkeypatch):
    honest = Instance.slope
    monkeypatch.setattr(Instance, "slope", lambda self, t, e, w: honest(self, t, e, w) * 3)
    assert compare(claim(JACOBIAN)).verdict == "refuted"


def test_what_is_displayed_as_something_else_is_noticed(monkeypatch):
    """The writer shows another definition than the one that is proved."""
    honest = sympy_sizes.written

    def shown(book, of):
        out = honest(book, of)
        letters = tuple(replace(d, body=d.body * 2) if str(d.head) == "bbar[i]" else d for d in out.definitions)
        return replace(out, definitions=letters)

    monkeypatch.setattr(sympy_sizes, "written", shown)
    assert compare(claim(ROUTING)).verdict == "refuted"


def test_a_sum_that_sympy_would_get_wrong_is_added_up(monkeypatch):
    """SymPy 1.14 takes Derivative(L(g), s[i, k]) out of a sum over k; so sums with derivatives are not given to it."""
    relation = Eq(Sum(b[i, k] * Derivative(L(g), s[i, k]), (k, 0, m - 1)),
                  Sum(a[i, k] * b[i, k] * (b[i, k] - bbar[i]), (k, 0, m - 1)))  # fmt: skip
    assert compare(claim(relation)).verdict == "proved"
    monkeypatch.setattr(sympy_values.Sums, "_plain", lambda self, x: True)
    with pytest.raises(KeyError, match="k"):  # the k of a derivative that was taken out
        compare(claim(relation))


def test_hypotheses_are_evaluated_too(monkeypatch):
    book = Book()
    fact = Given(Eq(x[i], y[i] ** 2), every=(i,))
    right = book.claim(Eq(x[j] * 2, 2 * y[j] ** 2), given=(fact,), sample={x[i]: y[i] ** 2})
    assert compare(right).verdict == "proved"
    monkeypatch.setattr(sympy_sizes.Comparison, "_assumed", lambda *_: False)
    assert "hypothesis" in compare(right).objection


def test_division_by_zero_is_zero_in_both():
    kept = sp.Mul(T, 1 / T, evaluate=False)
    book = Book()
    square = book.claim(Eq(sp.Mul(kept, kept, evaluate=False), kept, evaluate=False))
    assert compare(square).verdict == "proved"
    always = Book().claim(Eq(kept, 1, evaluate=False))
    assert "refuted" in {compare(always, seed).verdict for seed in range(20)}
    assert compare(Book().claim(Eq(kept, 1, evaluate=False), given=(Ne(T, 0),))).verdict == "proved"


def test_empty_and_single_sizes_are_among_the_instances():
    """n/n = 1 is false for none alone."""
    spread = Sum(KroneckerDelta(i, i, evaluate=False) * x[i], (i, 0, n - 1))
    assert compare(Book().claim(Eq(spread / n, Sum(x[i], (i, 0, n - 1)) / n, evaluate=False))).verdict == "proved"
    assert compare(Book().claim(Eq(n / n * 1 - n * (1 / n), 0, evaluate=False))).verdict == "proved"
    never_empty = Eq(sp.Mul(n, 1 / n, evaluate=False), 1, evaluate=False)
    book = Book()
    book.size(n)
    assert {"refuted"} & {compare(book.claim(never_empty), seed).verdict for seed in range(20)}


def test_what_has_no_value_is_undecided():
    """log of a square minus one is not drawn positive: nothing is compared, and nothing is called proved."""
    found = compare(Book().claim(Eq(log(-exp(T)), log(-exp(T)), evaluate=False)))
    assert found.verdict == "undecided"
    assert found.without


def test_hypotheses_that_never_hold_are_undecided():
    found = compare(Book().claim(Eq(T, 1), given=(Eq(T, T + 1, evaluate=False),)))
    assert found.verdict == "undecided"


def test_a_witness_is_evaluated_as_it_is_written():
    size, c = Size("n"), Tensor("c")
    w = Tensor("w", (size,))
    good = Witness(c() * 2, lift(3), relation=">", sizes={size: 2}, values={c: 2, w: (1, 2)})
    assert compare(good).verdict == "proved"
    assert compare(replace(good, relation="=")).verdict == "refuted"
    assert compare(replace(good, values={c: 1, w: (1, 2)})).verdict == "refuted"


def test_looked_up_positions_and_activations():
    label, phi = IndexedBase("label", shape=(n,)), sp.Function("phi")
    w = IndexedBase("w", shape=(m,))
    c = Symbol("c", integer=True)
    picked = Eq(Sum(KroneckerDelta(label[i], k) * w[k], (k, 0, m - 1)), w[label[i]])
    assert compare(Book().claim(picked)).verdict == "proved"
    apart = Eq(w[label[i]], w[label[j]])
    assert "refuted" in {compare(Book().claim(apart), seed).verdict for seed in range(5)}
    book = Book()
    z, h, d, e = (IndexedBase(name, shape=u.shape) for name in ("z", "h", "d", "e"))
    book.let(d[i, c], Derivative(phi(z[i, c]), z[i, c]))
    book.let(h[i, c], phi(z[i, c]) * z[i, c])
    book.let(e[i, c], Derivative(L(h), h[i, c]))
    right = e[i, c] * (d[i, c] * z[i, c] + phi(z[i, c]))
    assert compare(book.claim(Eq(Derivative(L(h), z[i, c]), right))).verdict == "proved"
    assert compare(book.claim(Eq(Derivative(L(h), z[i, c]), e[i, c] * d[i, c]))).verdict == "refuted"


def test_an_entry_says_which_part_is_objected_to():
    found = laws.law("attention.delta-identity")
    wrong = replace(found.parts[0].claim, rhs=found.parts[0].claim.rhs * 2)
    told = entry("attention.delta-identity", replace(found, parts=(replace(found.parts[0], claim=wrong),)))
    assert told["verdict"] == "refuted"
    assert told["reason"].startswith("delta: ")
    assert entry("attention.delta-identity", replace(found, parts=()))["verdict"] == "not run"
