"""prove: claims without a chain. Fifteen families of formulas, the true ones proved and the false ones refuted."""

from __future__ import annotations

import re

import pytest
import sympy as sp
from sympy import Derivative, Eq, KroneckerDelta, Le, exp, log

from bayesgrad.symbolic import Book, certificate, derive, prove
from tests._variants import (
    C,
    array,
    c,
    cross_entropy,
    d,
    e,
    entropy,
    f,
    head,
    i,
    j,
    k,
    l,
    linear,
    m,
    n,
    rms_norm,
    sigmoid,
    soft_capped,
    square,
    tempered,
    total,
    w,
    with_lse,
    with_sink,
    y,
)


def jacobian(right):
    def made():
        v = head()
        return v, Eq(Derivative(v.a[i, j], v.s[i, k]), right(v))

    return made


def gradient(variant, by, right):
    def made():
        v = variant()
        return v, Eq(Derivative(v.L, by(v)), right(v), evaluate=False)

    return made


def ds(v, at=(i, j)):
    return Derivative(v.L, v.s[at])


def kl(p, q):
    return total(p[y] * log(p[y] / q[y]), (y, C))


def divergences(right):
    def made():
        v = cross_entropy()
        p, q = (sp.IndexedBase(x, shape=(C,), positive=True) for x in "PQ")
        return v, Eq(-total(p[y] * log(q[y]), (y, C)), -total(p[y] * log(p[y]), (y, C)) + right(p, q))

    return made


def predicted():
    """p = softmax(z) over classes, a label y, and a direction x."""
    v = cross_entropy()
    v.z, v.p, v.x = array("ell", C), array("P", C), array("x", C)
    v.S = sp.Symbol("S")
    v.let(v.S, total(exp(v.z[w]), (w, C)), "positive")
    v.let(v.p[y], exp(v.z[y]) / v.S, "positive")
    return v


def curvature(v, one, two):
    return Derivative(Derivative(-log(v.p[y]), v.z[one]), v.z[two])


def hessian():
    v = predicted()
    return v, Eq(curvature(v, j, k), KroneckerDelta(j, k) * v.p[j] - v.p[j] * v.p[k])


def bound(factor):
    def made():
        v = predicted()
        form = total(v.x[j] * curvature(v, j, k) * v.x[k], (j, C), (k, C))
        return v, Le(form, factor * total(v.p[j] * (1 - v.p[j]) * v.x[j] ** 2, (j, C)))

    return made


def entropies(right):
    def made():
        v = entropy()
        return v, Eq(Derivative(v.H, v.s[j]), right(v))

    return made


def scores(v):
    return v.s[i, j]


def pulled(v, of):
    return v.a[i, j] * (v.b[i, j] - of)


CLAIMS = {
    "1 Jacobian": (jacobian(lambda v: v.a[i, j] * (KroneckerDelta(j, k) - v.a[i, k])), True),
    "1 diagonal alone": (jacobian(lambda v: v.a[i, j] * (1 - v.a[i, j]) * KroneckerDelta(j, k)), False),
    "1 captured": (jacobian(lambda v: v.a[i, j] * (KroneckerDelta(j, k) - 1)), False),
    "2 routing": (gradient(head, scores, lambda v: pulled(v, total(v.a[i, k] * v.b[i, k], (k, m)))), True),
    "2 mean over queries": (gradient(head, scores, lambda v: pulled(v, total(v.a[l, j] * v.b[l, j], (l, n)))), False),
    "2 no mean": (gradient(head, scores, lambda v: v.a[i, j] * v.b[i, j]), False),
    "2 sign": (gradient(head, scores, lambda v: -pulled(v, v.bbar[i])), False),
    "3 values": (gradient(square, lambda v: v.v[j, c], lambda v: total(v.a[i, j] * v.u[i, c], (i, n))), True),
    "3 transposed": (gradient(square, lambda v: v.v[j, c], lambda v: total(v.a[j, i] * v.u[i, c], (i, n))), False),
    "3 divided": (
        gradient(square, lambda v: v.v[j, c], lambda v: total(v.a[i, j] * v.u[i, c], (i, n)) / v.N[j]),
        False,
    ),
    "4 soft targets": (
        gradient(cross_entropy, lambda v: v.z[i, y], lambda v: v.m[i] * v.p[i, y] - v.tau[i, y]),
        True,
    ),
    "4 total forgotten": (gradient(cross_entropy, lambda v: v.z[i, y], lambda v: v.p[i, y] - v.tau[i, y]), False),
    "5 queries": (
        gradient(head, lambda v: v.q[i, e], lambda v: v.scale * total(ds(v) * v.K[j, e], (j, m))),
        True,
    ),
    "5 no scale": (gradient(head, lambda v: v.q[i, e], lambda v: total(ds(v) * v.K[j, e], (j, m))), False),
    "5 scale squared": (
        gradient(head, lambda v: v.q[i, e], lambda v: v.scale**2 * total(ds(v) * v.K[j, e], (j, m))),
        False,
    ),
    "6 soft cap": (
        gradient(soft_capped, lambda v: v.t[i, j], lambda v: ds(v) * (1 - (v.s[i, j] / v.cap) ** 2)),
        True,
    ),
    "6 cap forgotten": (gradient(soft_capped, lambda v: v.t[i, j], lambda v: ds(v) * (1 - v.s[i, j] ** 2)), False),
    "7 temperature": (
        gradient(tempered, lambda v: v.T, lambda v: -total(ds(v) * v.t[i, j], (i, n), (j, m)) / v.T**2),
        True,
    ),
    "7 sign": (gradient(tempered, lambda v: v.T, lambda v: total(ds(v) * v.t[i, j], (i, n), (j, m)) / v.T**2), False),
    "7 score": (
        gradient(tempered, lambda v: v.T, lambda v: -total(ds(v) * v.s[i, j], (i, n), (j, m)) / v.T**2),
        False,
    ),
    "8 sink": (gradient(with_sink, lambda v: v.sigma, lambda v: -total(v.a_0[i] * v.bbar[i], (i, n))), True),
    "8 renormalised": (
        gradient(with_sink, lambda v: v.sigma, lambda v: -total(v.a_0[i] * (1 - v.a_0[i]) * v.bbar[i], (i, n))),
        False,
    ),
    "9 log of the mass": (gradient(with_lse, scores, lambda v: pulled(v, v.bbar[i] - v.w[i])), True),
    "9 added to b": (
        gradient(
            with_lse,
            scores,
            lambda v: v.a[i, j] * (v.b[i, j] + v.w[i] - total(v.a[i, k] * (v.b[i, k] + v.w[i]), (k, v.size))),
        ),
        False,
    ),
    "10 RMSNorm": (
        gradient(
            rms_norm,
            lambda v: v.x[i, f],
            lambda v: (
                (v.w[i, f] - v.x[i, f] / v.rho[i] * total(v.w[i, f] * v.x[i, f] / v.rho[i], (f, d)) / d) / v.rho[i]
            ),
        ),
        True,
    ),
    "10 no mean": (gradient(rms_norm, lambda v: v.x[i, f], lambda v: v.w[i, f] / v.rho[i]), False),
    "11 Hessian": (hessian, True),
    "11 majorant": (bound(2), True),
    "11 without the 2": (bound(1), False),
    "12 risk": (divergences(kl), True),
    "12 reversed": (divergences(lambda p, q: kl(q, p)), False),
    "13 entropy": (entropies(lambda v: -v.a[j] * (log(v.a[j]) + v.H)), True),
    "13 one for H": (entropies(lambda v: -v.a[j] * (log(v.a[j]) + 1)), False),
    "14 linear": (
        gradient(
            linear,
            lambda v: v.t[i, j],
            lambda v: v.M[i, j] * (v.b[i, j] - total(v.u[i, c] * v.g[i, c], (c, v.g.shape[1]))) / v.Z[i],
        ),
        True,
    ),
    "14 no mass": (
        gradient(
            linear,
            lambda v: v.t[i, j],
            lambda v: v.M[i, j] * (v.b[i, j] - total(v.u[i, c] * v.g[i, c], (c, v.g.shape[1]))),
        ),
        False,
    ),
    "15 sigmoid": (gradient(sigmoid, scores, lambda v: v.a[i, j] * (1 - v.a[i, j]) * v.b[i, j]), True),
    "15 with a mean": (gradient(sigmoid, scores, lambda v: (1 - v.a[i, j]) * pulled(v, v.bbar[i])), False),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_formula_is_judged_right(name):
    made, true = CLAIMS[name]
    v, relation = made()
    found = prove(relation, book=v.book)
    assert found.word == ("proved" if true else "refuted"), found.text()
    if not true:
        assert found.residual is not None
        complete(found)


def complete(found):
    """The counterexample gives a value to every free letter entry that its text needs, as exact numbers."""
    example = found.counterexample
    assert example is not None
    assert example.sizes
    assert all(count >= 1 for count in example.sizes.values())
    assert all(re.fullmatch(r"-?\d+(/\d+)?", value) for value in example.values.values())
    assert example.left != example.right


def test_a_counterexample_can_be_computed_by_hand():
    v = head()
    found = prove(Eq(Derivative(v.L, v.s[i, j]), v.a[i, j] * v.b[i, j]), book=v.book)
    example = found.counterexample
    assert example.sizes == {"d_k": 1, "d_v": 1, "m": 1, "n": 1}
    # one query, one key: the weight is 1 whatever the score is, so the derivative is 0 and a b is u v
    values = {name: sp.Rational(value) for name, value in example.values.items()}
    assert example.left == "0"
    assert sp.Rational(example.right) == values["u[1,1]"] * values["v[1,1]"] != 0


def test_hypotheses_are_used_and_one_that_is_dropped_is_missed():
    book = Book()
    p, q, x = (sp.IndexedBase(name, shape=(C,), positive=True) for name in ("p", "q", "x"))
    ones = [Eq(total(s[y], (y, C)), 1) for s in (p, q)]
    entropy_, risk = (-total(p[y] * log(s[y]), (y, C)) for s in (p, q))
    assert prove(Le(entropy_, risk), given=ones, book=book).word == "proved"
    for kept in ones:
        assert prove(Le(entropy_, risk), given=[kept], book=book).word == "refuted"
    square_of_mean = total(p[y] * x[y], (y, C)) ** 2
    assert prove(Le(square_of_mean, total(p[y] * x[y] ** 2, (y, C))), given=ones[:1], book=book).word == "proved"
    assert prove(Le(square_of_mean, total(p[y] * x[y] ** 2, (y, C))), book=book).word == "refuted"


def test_an_equation_is_used_as_a_rule_from_left_to_right():
    book = Book()
    x, z, r = (array(name, n) for name in ("x", "z", "r"))
    given = [Eq(x[i], 2 * z[i])]
    assert (
        prove(Eq(total(x[i] * r[i], (i, n)), 2 * total(z[i] * r[i], (i, n))), given=given, book=book).word == "proved"
    )
    assert prove(Eq(total(x[i] * r[i], (i, n)), total(z[i] * r[i], (i, n))), given=given, book=book).word == "refuted"


def test_the_optimum_is_where_the_derivative_is_the_multiplier():
    """Lagrange: sum_y p log q - lam (sum_y q - 1) is stationary in q exactly where p = lam q; so q = p / lam."""
    book = Book()
    p, q = (sp.IndexedBase(name, shape=(C,), positive=True) for name in ("p", "q"))
    lam, risk = sp.symbols("lam risk")
    book.let(risk, -total(p[y] * log(q[y]), (y, C)))
    stationary = Derivative(risk + lam * total(q[y], (y, C)), q[y])
    assert prove(Eq(stationary, lam - p[y] / q[y]), book=book).word == "proved"
    at_p = [Eq(q[y], p[y])]
    assert prove(Eq(1 - p[y] / q[y], 0), given=at_p, book=book).word == "proved"


def test_what_cannot_be_shown_is_undecided_with_what_is_left():
    book = Book()
    x = array("x", n)
    true_but_deep = Le(2 * total(x[i], (i, n)), total(x[i] ** 2, (i, n)) + n)  # sum (x - 1)^2, not looked for
    found = prove(true_but_deep, book=book)
    assert found.word == "undecided"
    assert found.counterexample is None
    assert found.residual is not None
    assert "what is left" in found.text()


def test_a_claim_about_an_empty_size_is_not_proved_by_dividing():
    book = Book()
    x = array("x", n)
    assert prove(Eq(total(x[i], (i, n)) / n, total(x[i] / n, (i, n))), book=book).word == "proved"
    assert prove(Eq(n * total(x[i], (i, n)) / n, total(x[i], (i, n)), evaluate=False), book=book).word != "refuted"
    assert prove(Eq(total(1 / n, (i, n)), 1, evaluate=False), book=book).word == "refuted"


def test_what_one_of_the_two_judges_does_not_accept_is_not_proved(monkeypatch):
    v = head()
    right = Eq(Derivative(v.L, v.s[i, j]), v.a[i, j] * (v.b[i, j] - v.bbar[i]))
    monkeypatch.setattr(certificate, "doubt", lambda claim, chain: "a step has no reason")
    for found in (prove(right, book=v.book), derive(v.L, v.v[j, c], book=v.book)):
        assert found.word == "undecided"
        assert "the checker does not: a step has no reason" in found.text()
