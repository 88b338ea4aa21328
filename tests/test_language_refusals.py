"""What the language does not have is refused by one sentence that names it and says what to write."""

from __future__ import annotations

import pytest
import sympy as sp
from sympy import Derivative, Eq, Function, Ge, Idx, IndexedBase, KroneckerDelta, Le, Ne, Rational, Sum, Symbol, symbols

from bayesgrad.symbolic.book import Book
from bayesgrad.symbolic.language import LanguageError
from bayesgrad.symbolic.statements import Given
from bayesgrad.symbolic.terms import TermError

n, m, d = symbols("n m d", integer=True, nonnegative=True)
i, j, k, c = symbols("i j k c", integer=True)
T = Symbol("T")
x, y, w = (IndexedBase(name, shape=(n,)) for name in "xyw")
a = IndexedBase("a", shape=(n, m))
v = IndexedBase("v", shape=(m, d))
g, u = (IndexedBase(name, shape=(n, d)) for name in "gu")
L, phi = Function("L"), Function("phi")

EXPRESSIONS = {
    "a float": (0.5 * x[i], r"Float 0.5.*exact numbers.*Rational\('1/2'\)"),
    "a Python float": (1.5, r"Float 1.5.*Rational\('3/2'\)"),
    "a truth value": (True, r"bool True.*evaluate=False"),
    "a text": ("x", "str x"),
    "nothing": (None, "NoneType"),
    "a list": ([1], "list.*IndexedBase"),
    "a matrix": (sp.Matrix([1]), "no matrices"),
    "a matrix symbol": (sp.MatrixSymbol("A", 2, 2), "no matrices"),
    "a statement": (Eq(T, 1), "expected.*two sides"),
    "a bare array": (sp.exp(x), r"x: an array where a number.*x\[i\]"),
    "a bare function": (phi, "UndefinedFunction"),
    "a symbolic exponent": (x[i] ** T, r"power x\[i\]\*\*T.*exp\(T\*log\(x\[i\]\)\)"),
    "a power of a number": (2**T, r"exp\(T\*log\(2\)\)"),
    "a third": (x[i] ** Rational(1, 3), "one half"),
    "Abs": (abs(x[i]), "Abs.*two inequalities"),
    "Max": (sp.Max(x[i], 0), "Max.*indicator"),
    "cosh": (sp.cosh(T), r"cosh.*exp\(x\) \+ exp\(-x\)"),
    "erf": (sp.erf(T), "erf.*it has numbers"),
    "Piecewise": (sp.Piecewise((x[i], T > 0), (0, True)), "Piecewise.*indicator"),
    "pi": (sp.pi * T, "Pi pi"),
    "i": (sp.I * T, "ImaginaryUnit.*real"),
    "1/0": (sp.Integer(1) / 0, r"ComplexInfinity.*1/0 := 0"),
    "0/0": (sp.nan, r"NaN.*1/0 := 0"),
    "infinity": (sp.oo, "finite"),
    "log 0": (sp.log(0), "ComplexInfinity.*log"),
    "Product": (sp.Product(x[j], (j, 0, n - 1)), "Product.*exp"),
    "Integral": (sp.Integral(T, T), "Integral"),
    "a complex symbol": (Symbol("z", imaginary=True), "z.*no real number"),
    "a symbol that does not commute": (Symbol("A", commutative=False), "A.*no real number"),
    "a slot of another size": (a[i, i], r"position i in a\[i, i\].*ranges over n.*but m.*use a position over m"),
    "two sizes for one position": (x[i] * v[i, c], r"i in v\[i, c\].*over n \(as in x\[i\]\), but m"),
    "sizes that meet in a delta": (x[i] * KroneckerDelta(i, j) * v[j, c], "KroneckerDelta.*over n.*but m"),
    "a delta alone": (KroneckerDelta(i, j), r"position i: its size is unknown.*over\(i, n\)"),
    "a number as position": (a[0, j], r"position 0.*at\(symbol, size\)"),
    "a number in a delta": (KroneckerDelta(i, 2) * x[i], "position 2"),
    "a position that is computed": (a[i + 1, j], r"position i \+ 1"),
    "a position as number": (i * x[i], "i: an integer, but no array has this size"),
    "a bound position as number": (Sum(j * x[j], (j, 0, n - 1)), "j: it is a position.*as a number"),
    "an unknown size": (n * T, r"n: an integer.*size\(n\)"),
    "an array without shape": (IndexedBase("z")[i], r"sizes are unknown.*IndexedBase\('z', shape"),
    "an array with an offset": (IndexedBase("z", shape=(n,), offset=2)[i], "sizes are unknown"),
    "a size that is a number": (IndexedBase("z", shape=(3,))[i], "size 3.*Symbol"),
    "a size that is computed": (IndexedBase("z", shape=(n + 1,))[i], r"size n \+ 1"),
    "a negative size": (IndexedBase("z", shape=(Symbol("h", negative=True),))[i], "size h"),
    "one letter for two arrays": (IndexedBase("x", shape=(m,))[i] + x[j], r"x: one name for two.*\(m,\).*\(n,\)"),
    "one letter for two symbols": (T + Symbol("T", positive=True), "T: one name for two.*positive=True"),
    "one letter for array and number": (Symbol("x") * x[i], "x: one name for two"),
    "one letter for array and function": (Function("x")(g) + x[i], "x: one name for two"),
    "one letter for size and number": (Symbol("n") * x[i], "n: one name for two"),
    "one letter for size and array": (IndexedBase("n", shape=(n,))[i], "n: one name for two"),
    "one letter for two positions": (x[i] + x[Symbol("i")], "i: one name for two"),
    "an array of numbers and of positions": (y[i] * v[y[i], c], "y: it is an array.*use two letters"),
    "a looked-up position of two sizes": (x[y[i]] * v[y[i], c], r"y\[i\] in .*ranges over"),
    "a sum to n": (Sum(x[j], (j, 0, n)), r"range of j from 0 to n: expected \(j, 0, n - 1\)"),
    "a sum to 3": (Sum(x[j], (j, 0, 3)), "range of j from 0 to 3"),
    "a sum to a position": (Sum(x[j], (j, 0, i)), "range of j.*indicator"),
    "a sum backwards": (Sum(x[j], (j, n - 1, 0)), "range of j"),
    "a sum over another size": (Sum(x[j], (j, 0, m - 1)), r"j in x\[j\].*over m, but n"),
    "a sum over one letter twice": (Sum(x[j], (j, 0, n - 1), (j, 0, n - 1)), "two of its variables have one name"),
    "a function of two": (L(g, x), "function L"),
    "a function of an expression": (phi(x[i] + 1), "function phi.*let"),
    "a loss without a gradient": (
        Derivative(L(g), g[i, c]),
        r"L\(g\).*let\(u\[i, j\], Derivative\(L\(g\), g\[i, j\]\)",
    ),
    "an activation without a slope": (phi(x[i]), r"let\(u\[i\], Derivative\(phi\(x\[i\]\), x\[i\]\)\)"),
    "a function of a number without a slope": (phi(T), r"let\(u, Derivative\(phi\(T\), T\)\)"),
    "a derivative by a size": (n * x[i] + Derivative(x[i], n), "differentiate by"),
    "a derivative by a position": (Derivative(x[i], i), "differentiate by"),
    "a derivative by a function": (Derivative(L(g), L(g)), "differentiate by"),
}


@pytest.mark.parametrize(("expression", "sentence"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_an_expression_outside_the_language(expression, sentence):
    with pytest.raises(LanguageError, match=sentence) as problem:
        Book().read(expression)
    assert "\n" not in str(problem.value)


def test_a_float_is_refused_wherever_it_hides():
    for expression in (sp.exp(0.5 * x[i]), Sum(x[j] ** 2 / 3.0, (j, 0, n - 1)), Derivative(1.0 * T, T)):
        with pytest.raises(LanguageError, match="Float"):
            Book().read(expression)


STATEMENTS = {
    "decided by SymPy": (Eq(T, T), (), "BooleanTrue.*evaluate=False"),
    "decided by Python": (1 < 2, (), "bool.*evaluate=False"),
    "strict": (T > 0, (), "StrictGreaterThan.*Ge"),
    "not equal": (Ne(T, 0), (), "Unequality.*hypothesis"),
    "two at once": (sp.And(T > 0, T < 1), (), "And"),
    "an expression": (T, (), "T: expected a statement, Eq"),
    "not equal to one": (Eq(T, 1), (Ne(T, 1),), r"Ne\(T, 1\).*Ne\(left - right, 0\)"),
    "strict hypothesis": (Eq(T, 1), (T > 0,), "StrictGreaterThan"),
    "hypothesis of another size": (Eq(x[i], 1), (Eq(v[i, c], 0),), r"i in v\[i, c\]"),
    "every position that it lacks": (Eq(x[i], x[j]), (Given(Eq(x[i], 0), every=(j,)),), "does not mention"),
}


@pytest.mark.parametrize(("relation", "given", "sentence"), STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_outside_the_language(relation, given, sentence):
    with pytest.raises(LanguageError, match=sentence):
        Book().claim(relation, given=given)


def test_equality_conditions_belong_to_inequalities():
    with pytest.raises(LanguageError, match="tight"):
        Book().claim(Eq(x[i], 1), tight=(x,))
    assert Book().claim(Le(0, x[i] ** 2), tight=(x,)).tight is not None
    row = Book().claim(Le(0, x[i] ** 2), tight=(x[i],)).tight
    assert [str(entries) for entries in row] == ["x[i]"]
    assert Book().claim(Ge(x[i], 1)).rhs.indices  # read as 1 <= x


LETS = {
    "a position twice": ((a[i, i], T), "ranges over n"),
    "a position twice in one size": ((IndexedBase("A", shape=(n, n))[i, i], T), "different letter"),
    "a position in a position": ((x[y[i]], T), "different letter"),
    "a number for a position": ((x[0], T), "position 0"),
    "no head": ((T + 1, T), r"T \+ 1: expected a Symbol"),
    "an array as head": ((x, T), "x: expected"),
    "a function as head": ((L(g), T), r"L\(g\): expected"),
    "a position from nowhere": ((x[i], y[k]), r"let x\[i\].*depends on k"),
    "a float": ((x[i], 0.5), "Float"),
    "itself": ((x[i], x[i] + 1), "defined by itself, x -> x"),
    "an odd kind": ((x[i], T, "big"), "got kind 'big'"),
    "two kinds": ((IndexedBase("p", shape=(n,), positive=True)[i], None, "indicator"), "declared positive"),
    "a gradient at another position": (
        (u[i, c], Derivative(L(g), g[c, i])),
        r"expected Derivative\(L\(g\), g\[i, c\]\)",
    ),
    "a gradient of another shape": ((x[i], Derivative(L(g), g[i, c])), r"has its shape, \(n, d\)"),
    "a slope at another position": ((x[i], Derivative(phi(y[i]), y[j])), "at the same position"),
    "a gradient by something else": ((u[i, c], Derivative(L(g), v[j, c])), "at the same position"),
}


@pytest.mark.parametrize(("definition", "sentence"), LETS.values(), ids=LETS)
def test_a_definition_that_defines_nothing(definition, sentence):
    with pytest.raises(LanguageError, match=sentence):
        Book().let(*definition)


def test_a_definition_in_a_circle():
    book = Book()
    book.let(x[i], Sum(y[j], (j, 0, n - 1)))
    book.let(y[i], T * w[i])
    with pytest.raises(LanguageError, match="w: it is defined by itself, w -> x -> y -> w"):
        book.let(w[i], x[i] ** 2)


def test_a_gradient_can_close_a_circle_too():
    """g depends on u, u is the gradient of L at g, and w on L."""
    book = Book()
    book.let(u[i, c], Derivative(L(g), g[i, c]))
    book.let(g[i, c], u[i, c] + T)
    with pytest.raises((LanguageError, TermError), match="by itself"):
        book.let(T, L(g))


def test_a_letter_is_defined_once_and_before_it_is_used():
    book = Book()
    book.let(x[i], T)
    with pytest.raises(LanguageError, match="x: it has a definition already"):
        book.let(x[j], T)
    book.read(y[i])
    with pytest.raises(LanguageError, match="y: it was used as a free letter"):
        book.let(y[i], T)


def test_one_gradient_one_letter_and_one_array_a_loss():
    book = Book()
    book.let(u[i, c], Derivative(L(g), g[i, c]))
    book.let(u[j, c], Derivative(L(g), g[j, c]))  # the same again
    with pytest.raises(LanguageError, match=r"L\(g\): its gradient is called u already"):
        book.let(IndexedBase("h", shape=(n, d))[i, c], Derivative(L(g), g[i, c]))
    with pytest.raises(LanguageError, match="L: it is a function of another array already"):
        book.let(x[i], Derivative(L(y), y[i]))


def test_letters_keep_what_they_are_between_statements():
    book = Book()
    book.read(T * x[i])
    for expression in (IndexedBase("T", shape=(n,))[i], Symbol("x"), a[i, T], Symbol("i") * T):
        with pytest.raises(LanguageError):
            book.read(expression)
    book.at(k, n)
    with pytest.raises(LanguageError, match=r"k in v.*over n, but m"):
        book.read(v[k, c])
    with pytest.raises(LanguageError, match="k: it is a position of n already"):
        book.at(k, m)


def test_a_refused_statement_leaves_nothing_behind():
    book = Book()
    with pytest.raises(LanguageError):
        book.read(Symbol("q") * 0.5)
    book.read(IndexedBase("q", shape=(n,))[i])


def test_a_range_that_an_index_brings_must_fit():
    with pytest.raises(LanguageError, match="over n"):
        Book().read(v[Idx("i", n), c])


def test_too_deep_an_expression_is_refused():
    deep = T
    for _ in range(2000):
        deep = sp.exp(deep, evaluate=False) + 1
    with pytest.raises(LanguageError, match="deep"):
        Book().read(deep)
