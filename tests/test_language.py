"""SymPy in, verdict out: laws as a SymPy user writes them, and what SymPy does while it builds them (and no more)."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
import sympy as sp
from sympy import Derivative, Eq, Function, Ge, Idx, IndexedBase, KroneckerDelta, Le, Ne, Sum, Symbol, exp, log

from bayesgrad.symbolic import rules, terms
from bayesgrad.symbolic.book import Book
from bayesgrad.symbolic.index_calculus import key, same
from bayesgrad.symbolic.proof import AtMost, Chain, check
from bayesgrad.symbolic.statements import Given
from bayesgrad.symbolic.terms import Size, Tensor, indices_of, inv, lift, tanh
from bayesgrad.symbolic.text import text
from tests._sympy_head import JACOBIAN, ROUTING, WEIGHTS, L, M, Z, a, b, bbar, c, d_v, g, head, i, j, k, m, n, s, u, v

x, y = IndexedBase("x", shape=(n,)), IndexedBase("y", shape=(n,))
T = Symbol("T")


def proved_by(book: Book, relation, steps, fold, draw) -> tuple[str, object]:
    """A claim and the verdict of a chain of which every term is what a rule returns."""
    claim = book.claim(relation, sample=dict.fromkeys(draw))
    chain, term = Chain(claim.lhs), claim.lhs
    for rule, *what in steps:
        if rule == "write out":
            tensors = tuple(book.tensor(letter) for letter in what)
            chain.definition(term := rules.unfold(term, tensors), rule, *tensors)
        elif rule == "differentiate":
            chain.differentiate(term := rules.carry_out(term, (), set()), rule)
        elif rule == "through":
            tensors = tuple(book.tensor(letter) for letter in what)
            chain.through(term := rules.through(term, tensors), rule, *tensors)
        for lemma in what if rule == "known" else ():
            free = tuple(indices_of(lemma.lhs)[0])
            chain.rewrite(term := rules.replace(term, lemma.lhs, lemma.rhs, free, True)[0], rule, lemma)
    chain.definition(claim.rhs, "fold", *(book.tensor(letter) for letter in fold))
    verdict = check(claim, chain)
    return verdict.word, claim


def differentiated(claim, *opened) -> Chain:
    """A proof that carries every derivative out, and writes the ``opened`` tensors out on the way."""
    chain, term = Chain(claim.lhs), claim.lhs
    for _ in range(3):
        chain.differentiate(term := rules.carry_out(term, (), set()), "what stands under a derivative")
        chain.definition(term := rules.unfold(term, opened), "write out", *opened)
    return chain


@pytest.fixture(scope="module")
def laws():
    """The Jacobian and the weight gradient of a head, proved from SymPy."""
    book = head()
    one, jacobian = proved_by(book, JACOBIAN, [("write out", a, Z), ("differentiate",)], (a, Z), (s,))
    two, weights = proved_by(book, WEIGHTS, [("differentiate",), ("write out", g), ("differentiate",)], (b,), (a, v))
    assert (one, two) == ("proved", "proved")
    return book, jacobian, weights


def test_the_routing_law_is_proved_and_a_wrong_sign_refuted(laws):
    book, jacobian, weights = laws
    steps = [("through", a), ("known", weights, jacobian)]
    assert proved_by(book, ROUTING, steps, (bbar,), (s, v))[0] == "proved"
    wrong = Eq(ROUTING.lhs, a[i, j] * (b[i, j] + bbar[i]))
    assert proved_by(book, wrong, steps, (bbar,), (s, v))[0] == "refuted"


def test_a_derivative_that_captured_a_name_is_refuted(laws):
    """SymPy's own derivative of a softmax confuses the free k with the bound one; as a statement it is false."""
    book, _, _ = laws
    softmax = M[i, j] * exp(s[i, j]) / Sum(M[i, k] * exp(s[i, k]), (k, 0, m - 1))
    captured = Eq(Derivative(a[i, j], s[i, k]), sp.diff(softmax, s[i, k]))
    assert proved_by(book, captured, [("write out", a, Z), ("differentiate",)], (a, Z), (s,))[0] == "refuted"


def test_definitions_in_any_order_are_one_book(laws):
    book, _, _ = laws
    assert text(book.read(bbar[i])) == "bbar[i]"
    assert "Σ_j a[" in text(book.tensor(bbar).definition[1])
    assert book.tensor(a).kind == "nonnegative"
    assert book.tensor(M).kind == "indicator"
    assert book.function(L, g, whole=True).through == (book.tensor(g), book.tensor(u))


def test_what_is_read_is_what_is_written():
    """One node, one term."""
    book = Book()
    q = IndexedBase("q", shape=(n, m))
    label = IndexedBase("label", shape=(n,))
    shown = {
        sp.Rational(-3, 4): "-3/4",
        x[i] - 2 * T: "-2·T + x[i]",
        T * x[i] ** 3: "T·x[i]^3",
        1 / T**2: "1/T^2",
        sp.sqrt(T): "sqrt(T)",
        T ** sp.Rational(-3, 2): "1/sqrt(T)^3",
        sp.tanh(x[i]): "tanh(x[i])",
        exp(x[i]): "exp(x[i])",
        log(T): "log(T)",
        sp.E: "exp(1)",
        n * T: "T·n",
        KroneckerDelta(i, j) * q[i, k] * q[j, k]: "q[i,k]·q[j,k]·δ(i,j)",
        Sum(q[i, k], (k, 0, m - 1), (i, 1, n)): "Σ_i (Σ_k q[i,k])",
        q[i, label[i]]: "q[i,label[i]]",
        Derivative(x[i] * T, T): "∂(T·x[i])/∂T",
    }
    for expression, expected in shown.items():
        book.read(x[i])
        assert text(book.read(expression)).replace(" ", "") == expected.replace(" ", "")


def test_relations_as_claims():
    book = Book()
    claim = book.claim(Ge(x[i], T), given=(Ne(T, 0), Given(Le(y[j], x[j]), "y below x"), Eq(y[i], T)))
    assert isinstance(claim, AtMost)
    assert (text(claim.lhs), text(claim.rhs)) == ("T", "x[i]")
    zero, below, here = claim.given
    assert same(zero.lhs, book.read(T) * inv(book.read(T)))
    assert same(zero.rhs, lift(1))
    assert (type(below).__name__, below.says, [p.name for p in below.free]) == ("AtMost", "y below x", ["j"])
    assert here.free == ()  # at the claim's own i
    everywhere = book.claim(Eq(x[i], T), given=(Given(Eq(x[i], y[i]), every=(i,)),))
    assert [p.name for p in everywhere.given[0].free] == ["i"]


def test_a_sample_is_a_definition_of_its_own():
    book = Book()
    square = Given(Eq(x[i], y[i] ** 2), every=(i,))
    claim = book.claim(Eq(2 * x[i], 2 * y[i] ** 2), given=(square,), sample={x[i]: y[i] ** 2})
    assert check(claim, Chain(claim.lhs).rewrite(claim.rhs, "given", claim.given[0])).word == "proved"


def test_sizes_kinds_and_ranges_come_from_sympy():
    book = Book()
    full = Symbol("N", integer=True, positive=True)
    p = IndexedBase("p", shape=(full,), positive=True)
    book.read(p[i] * Symbol("t", nonnegative=True))
    assert book.tensor(p).kind == "positive"
    assert book.tensor(p).sizes == (Size("N", nonempty=True),)
    assert book.tensor(Symbol("t", nonnegative=True)).kind == "nonnegative"
    at, other = Idx("at", n), Idx("other", n)
    assert text(book.read(Sum(x[at], at))) == "Σ_at x[at]"
    assert text(book.read(KroneckerDelta(at, other))) == "δ(at,other)"
    book.over(k, m)
    assert text(book.read(KroneckerDelta(k, j) * 1)) == "δ(j,k)"
    first = Symbol("first", integer=True)
    book.at(first, n)
    assert text(book.read(x[first])) == "x[first[]]"
    assert not book.read(x[first]).indices[0].indices


def test_an_activation_is_known_by_its_slope():
    """h = phi(z) for any phi, dL/dz = dL/dh phi'(z)."""
    book, phi = Book(), Function("phi")
    z, h, slope, e = (IndexedBase(name, shape=(n, d_v)) for name in ("z", "h", "slope", "e"))
    book.let(slope[i, c], Derivative(phi(z[i, c]), z[i, c]))
    book.let(h[i, c], phi(z[i, c]))
    book.let(e[i, c], Derivative(L(h), h[i, c]))
    claim = book.claim(Eq(Derivative(L(h), z[i, c]), e[i, c] * slope[i, c]))
    assert check(claim, differentiated(claim, book.tensor(h))).word == "proved"
    wrong = book.claim(Eq(Derivative(L(h), z[i, c]), e[i, c]))
    assert check(wrong, differentiated(wrong, book.tensor(h))).word == "refuted"


def test_a_function_of_one_number():
    book, phi, slope = Book(), Function("phi"), Symbol("slope")
    book.let(slope, Derivative(phi(T), T))
    claim = book.claim(Eq(Derivative(phi(T) ** 2, T), 2 * phi(T) * slope))
    assert check(claim, differentiated(claim)).word == "proved"


# -- what SymPy does while it builds -----------------------------------------------------------------------------------

real = Symbol("r", real=True)
CONSTRUCTIONS = {
    "x/x is 1": (x[i] / x[i], sp.Integer(1)),
    "x**2/x is x": (x[i] ** 2 / x[i], x[i]),
    "1/(1/x) is x": (1 / (1 / x[i]), x[i]),
    "exp(log x) is x": (exp(log(x[i])), x[i]),
    "exp(2 log x + T) is x**2 exp T": (exp(2 * log(x[i]) + T), x[i] ** 2 * exp(T)),
    "log exp x is x for a real symbol": (log(exp(real)), real),
    "log(1/2) is -log 2": (log(sp.Rational(1, 2)), -log(2)),
    "sqrt(T) sqrt(T) is T": (sp.sqrt(T) * sp.sqrt(T), T),
    "tanh(-x) is -tanh x": (sp.tanh(-x[i]), -sp.tanh(x[i])),
    "exp x exp x is exp 2x": (exp(x[i]) * exp(x[i]), exp(2 * x[i])),
    "2 (x + 1) is 2x + 2": (2 * (x[i] + 1), 2 * x[i] + 2),
    "delta squared is delta": (KroneckerDelta(i, j) ** 2, KroneckerDelta(i, j)),
    "delta(i, i) is 1": (KroneckerDelta(i, i), sp.Integer(1)),
    "delta(i, i + 1) is 0": (KroneckerDelta(i, i + 1), sp.Integer(0)),
    "a sum in a sum is one sum": (
        Sum(Sum(x[i] * y[j], (j, 0, n - 1)), (i, 0, n - 1)),
        Sum(x[i] * y[j], (j, 0, n - 1), (i, 0, n - 1)),
    ),
    "a derivative of a derivative is one": (Derivative(Derivative(T, x[i]), x[j]), Derivative(T, x[i], x[j])),
}


@pytest.mark.parametrize(("written", "built"), CONSTRUCTIONS.values(), ids=CONSTRUCTIONS)
def test_what_sympy_does_on_construction(written, built):
    """docs/language.md lists these; a new SymPy that builds something else must be noticed."""
    assert written == built


def test_two_of_them_are_not_true_for_all_values():
    """So a statement that needs x/x or exp(log x) is built with evaluate=False, or as Ne(x, 0)."""
    t = Tensor("t")()
    assert not same(t * inv(t), lift(1))
    assert not same(terms.exp(terms.log(t)), t)
    assert same(inv(inv(t)), t)
    book = Book()
    kept = sp.Mul(T, 1 / T, evaluate=False)
    assert key(book.read(kept)) == key(book.read(T) * inv(book.read(T)))
    assert key(book.read(exp(log(T), evaluate=False))) == key(terms.exp(terms.log(book.read(T))))


def test_division_is_total():
    """1/0 := 0: T/T is 1 where T is not 0, and 0 where it is; nobody can prove that it is 1."""
    book = Book()
    kept = sp.Mul(T, 1 / T, evaluate=False)
    claim = book.claim(Eq(kept, 1, evaluate=False))
    assert check(claim, Chain(claim.lhs)).word == "refuted"
    claim = book.claim(Eq(kept, 1, evaluate=False), given=(Ne(T, 0),))
    assert (
        check(claim, Chain(claim.lhs).rewrite(claim.rhs, "T is not 0", claim.given[0], lambda h: h())).word == "proved"
    )
    claim = book.claim(Eq(sp.Pow(0, -1, evaluate=False), 0, evaluate=False))
    assert check(claim, Chain(claim.lhs)).word == "proved"


def test_roots_and_hyperbolic_tangents_are_what_defines_them():
    book = Book()
    assert same(book.read(sp.tanh(T)), tanh(book.read(T)))
    assert same(book.read(sp.sqrt(T)), terms.exp(Fraction(1, 2) * terms.log(book.read(T))))


# -- nothing of SymPy that rewrites -----------------------------------------------------------------------------------

REWRITERS = {
    sp: (
        "simplify",
        "expand",
        "factor",
        "cancel",
        "together",
        "diff",
        "solve",
        "summation",
        "limit",
        "integrate",
        "nsimplify",
    ),
    sp.Basic: ("subs", "xreplace", "replace", "doit", "simplify", "rewrite"),
    sp.Expr: ("diff", "expand", "simplify", "factor", "cancel", "together", "evalf", "equals", "integrate", "series"),
    sp.Sum: ("doit", "euler_maclaurin", "reverse_order"),
    sp.Derivative: ("doit",),
    sp.core.relational.Relational: ("doit", "simplify"),
}


@contextlib.contextmanager
def no_rewriting(monkeypatch):
    """Every function of SymPy that rewrites raises."""

    def refuse(name):
        def raiser(*_, **__):
            raise RuntimeError(f"{name} was called between a statement and its verdict")

        return raiser

    with monkeypatch.context() as patch:
        for owner, names in REWRITERS.items():
            for name in names:
                patch.setattr(owner, name, refuse(f"{owner.__name__}.{name}"))
        yield


def test_between_a_statement_and_its_verdict_sympy_rewrites_nothing(monkeypatch):
    book = head()
    with no_rewriting(monkeypatch):
        with pytest.raises(RuntimeError, match="was called"):
            x[i].subs(i, j)
        one, jacobian = proved_by(book, JACOBIAN, [("write out", a, Z), ("differentiate",)], (a, Z), (s,))
        steps = [("differentiate",), ("write out", g), ("differentiate",)]
        two, weights = proved_by(book, WEIGHTS, steps, (b,), (a, v))
        three, claim = proved_by(book, ROUTING, [("through", a), ("known", weights, jacobian)], (bbar,), (s, v))
    assert (one, two, three) == ("proved",) * 3
    assert claim.given == ()
