"""derive: which law comes out for which definitions, and that each is proved.

A law is compared in the letters that it was folded into: nothing is written out, so a law that was not folded, or was
folded into another form, differs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp
from sympy import KroneckerDelta, log

from bayesgrad.symbolic import Book, LanguageError, TermError, derive, deriving
from bayesgrad.symbolic.deriving import Deriver
from bayesgrad.symbolic.folding import rules_of, search
from bayesgrad.symbolic.index_calculus import flatten, same
from bayesgrad.symbolic.terms import Size, Tensor
from bayesgrad.symbolic.terms import total as total_of
from tests._variants import (
    Sum,
    c,
    cross_entropy,
    differential,
    e,
    entropy,
    f,
    hard_targets,
    head,
    i,
    j,
    k,
    layer_norm,
    linear,
    n,
    residual,
    rms_norm,
    sigmoid,
    soft_capped,
    tempered,
    total,
    with_lse,
    with_sink,
    y,
)

HEAD, CAP, HEAT, SINK, LSE = head(), soft_capped(), tempered(), with_sink(), with_lse()
SIGMOID, LINEAR, DIFFERENTIAL = sigmoid(), linear(), differential()
SOFT, HARD, RMS, LAYER, RESIDUAL, ENTROPY = (
    cross_entropy(),
    hard_targets(),
    rms_norm(),
    layer_norm(),
    residual(),
    entropy(),
)


def routed(v):
    return v.a[i, j] * (v.b[i, j] - v.bbar[i])


LAWS = {
    "scores": (HEAD, HEAD.s[i, j], routed(HEAD)),
    "weights": (HEAD, HEAD.a[i, j], HEAD.b[i, j]),
    "values": (HEAD, HEAD.v[j, c], total(HEAD.a[i, j] * HEAD.u[i, c], (i, n))),
    "sink: scores": (SINK, SINK.s[i, j], routed(SINK)),
    "sink": (SINK, SINK.sigma, -total(SINK.a_0[i] * SINK.bbar[i], (i, n))),
    "log of the mass": (LSE, LSE.s[i, j], LSE.a[i, j] * (LSE.b[i, j] - LSE.bbar[i] + LSE.w[i])),
    "sigmoid": (SIGMOID, SIGMOID.s[i, j], SIGMOID.a[i, j] * (1 - SIGMOID.a[i, j]) * SIGMOID.b[i, j]),
    "linear": (LINEAR, LINEAR.t[i, j], LINEAR.M[i, j] * (LINEAR.b[i, j] - LINEAR.bbar[i]) / LINEAR.Z[i]),
    "differential: first map": (
        DIFFERENTIAL,
        DIFFERENTIAL.s_1[i, j],
        DIFFERENTIAL.a_1[i, j] * (DIFFERENTIAL.b[i, j] - DIFFERENTIAL.bbar_1[i]),
    ),
    "differential: second map": (
        DIFFERENTIAL,
        DIFFERENTIAL.s_2[i, j],
        -DIFFERENTIAL.lam * DIFFERENTIAL.a_2[i, j] * (DIFFERENTIAL.b[i, j] - DIFFERENTIAL.bbar_2[i]),
    ),
    "differential: lambda": (DIFFERENTIAL, DIFFERENTIAL.lam, -total(DIFFERENTIAL.bbar_2[i], (i, n))),
    "soft targets": (SOFT, SOFT.z[i, y], SOFT.m[i] * SOFT.p[i, y] - SOFT.tau[i, y]),
    "hard targets": (HARD, HARD.z[i, y], HARD.p[i, y] - KroneckerDelta(y, HARD.label[i])),
    "RMSNorm": (RMS, RMS.x[i, f], (RMS.w[i, f] - RMS.xhat[i, f] * RMS.mu[i]) / RMS.rho[i]),
    "RMSNorm: gain": (RMS, RMS.gamma[f], total(RMS.u[i, f] * RMS.xhat[i, f], (i, n))),
    "LayerNorm": (
        LAYER,
        LAYER.x[i, f],
        (LAYER.w[i, f] - LAYER.wbar[i] - LAYER.xhat[i, f] * LAYER.mu[i]) / LAYER.rho[i],
    ),
    "LayerNorm: bias": (LAYER, LAYER.beta[f], total(LAYER.u[i, f], (i, n))),
    "entropy": (ENTROPY, ENTROPY.s[j], -ENTROPY.a[j] * (log(ENTROPY.a[j]) + ENTROPY.H)),
}


@pytest.mark.parametrize("name", LAWS)
def test_a_law_comes_out_in_the_letters_of_the_field(name):
    v, wrt, law = LAWS[name]
    found = derive(getattr(v, "L", getattr(v, "H", None)), wrt, book=v.book)
    assert found.word == "proved", found.reason
    right = v.book.claim(sp.Eq(sp.Derivative(v.L if hasattr(v, "L") else v.H, wrt), law)).rhs
    assert same(found.claim.rhs, right), found.text()


def test_a_gradient_that_is_a_sum_gets_a_letter_for_those_that_follow():
    q = derive(HEAD.L, HEAD.q[i, e], book=HEAD.book)
    assert q.word == "proved"
    ((letter, body),) = q.letters.items()
    assert str(letter) == "ds[i, j]"
    assert sp.simplify(body - routed(HEAD)) == 0
    key = derive(HEAD.L, HEAD.K[j, e], book=HEAD.book)
    assert str(key.law) == "Eq(Derivative(L(g), K[j, e]), scale*Sum(ds[i, j]*q[i, e], (i, 0, n - 1)))"
    scale = derive(HEAD.L, HEAD.scale, book=HEAD.book)
    assert scale.word == "proved"


def test_score_maps_fold_the_function_into_the_score():
    t = derive(CAP.L, CAP.t[i, j], book=CAP.book)
    assert str(t.law.rhs) == "(1 - s[i, j]**2/cap**2)*ds[i, j]"
    cap = derive(CAP.L, CAP.cap, book=CAP.book)
    temperature = derive(HEAT.L, HEAT.T, book=HEAT.book)
    slope = derive(SINK.L, SINK.slope, book=SINK.book)
    assert [x.word for x in (t, cap, temperature, slope)] == ["proved"] * 4
    assert str(slope.law.rhs) == "-Sum(dist[i, j]*ds[i, j], (j, 0, m - 1), (i, 0, n - 1))"
    assert str(temperature.law.rhs) == "-Sum(ds[i, j]*s[i, j], (j, 0, m - 1), (i, 0, n - 1))/T"


def test_a_residual_connection_gathers_what_reaches_the_input_on_two_ways():
    v = RESIDUAL
    x = derive(v.L, v.x[i, f], book=v.book)
    assert x.word == "proved", x.reason
    right = v.u[i, f] + Sum(v.W[f, v.h] * v.dphi[i, v.h] * v.psi[i, v.h], (v.h, 0, v.W.shape[1] - 1))
    assert same(x.claim.rhs, v.book.claim(sp.Eq(sp.Derivative(v.L, v.x[i, f]), right)).rhs)


def test_every_step_names_its_reason_and_reads_back():
    found = derive(HEAD.L, HEAD.s[i, j], book=HEAD.book)
    assert 3 <= len(found.steps) <= 9
    assert all(step.reason for step in found.steps)
    last = found.steps[-1].expression
    assert same(HEAD.book.read(last), found.claim.rhs)


def test_other_letters_for_the_positions_are_the_same_law():
    first = derive(HEAD.L, HEAD.s[i, j], book=HEAD.book)
    l = sp.Symbol("l", integer=True)
    other = derive(HEAD.L, HEAD.s[l, k], book=HEAD.book)
    assert other.word == "proved"
    assert str(other.law) == str(first.law.subs({i: l, j: k}, simultaneous=True)).replace("(j, 0, m", "(j, 0, m")


def test_without_letters_the_context_is_folded_in():
    """b and bbar are not given: b - bbar is u . (v - g), what FlashAttention computes."""
    v = head()
    found = derive(v.L, v.s[i, j], letters=[], book=v.book)
    assert found.word == "proved"
    right = v.a[i, j] * total(v.u[i, c] * (v.v[j, c] - v.g[i, c]), (c, v.v.shape[1]))
    assert same(found.claim.rhs, v.book.claim(sp.Eq(sp.Derivative(v.L, v.s[i, j]), right)).rhs)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda v: derive(v.L + 1, v.q[i, e], book=v.book), "expected one number with a name"),
        (lambda v: derive(v.L, v.q[i, e] * 2, book=v.book), "expected an entry such as"),
        (lambda v: derive(v.L, sp.Symbol("nothing"), book=v.book), "does not depend on nothing"),
        (lambda v: derive(v.L, v.u[i, c], book=v.book), "does not depend on u"),
    ],
)
def test_what_cannot_be_derived_is_refused_in_one_sentence(ask, says):
    with pytest.raises((LanguageError, TermError), match=says) as refused:
        ask(head())
    assert "\n" not in str(refused.value)


def test_an_entry_on_the_diagonal_is_no_variable():
    v = sp.IndexedBase("x", shape=(n, n))
    book = Book()
    loss = sp.Symbol("L")
    book.let(loss, Sum(v[i, j] ** 2, (i, 0, n - 1), (j, 0, n - 1)))
    with pytest.raises(LanguageError, match="a different letter at every position"):
        derive(loss, v[i, i], book=book)


def test_a_wrong_rule_for_folding_costs_a_proof_and_makes_none(monkeypatch):
    """Folding is not trusted: a letter that stands for something else is not used, or its step is refused."""
    size = Size("n")
    x, s = Tensor("x", (size,)), Tensor("s", (size,))
    good = Tensor("g", (size,), body=lambda i: x(i) * s(i))
    twice = Tensor("twice", (size,), body=lambda i: 2 * x(i) * s(i))
    loss = Tensor("L", body=lambda: total_of(lambda i: x(i) ** 2 * s(i), over=size))

    def forged(deriver: Deriver) -> Deriver:
        right, *_ = rules_of(good, deriver.pool)
        deriver.folds = (replace(right, tensors=(twice,), short=flatten(twice(*right.slots))),)  # x s is twice
        return deriver

    assert forged(Deriver(loss)).law(x).verdict.word == "proved"
    monkeypatch.setattr(deriving, "followed", lambda term, *rest: search(*rest))
    assert forged(Deriver(loss)).law(x).verdict.word != "proved"
