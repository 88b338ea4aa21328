"""What may stand in a statement: the SymPy nodes of the language, and what to write instead of every other one.

    number      Integer, Rational; a size symbol n as a number of positions; a Symbol; x[i, j] of an IndexedBase
    built of    +, *, integer powers, exp, log, tanh, sqrt, Sum over (j, 0, n - 1) or (j, 1, n), KroneckerDelta,
                Derivative by an entry or a Symbol, L(g) for any loss of an array g, phi(z[i]) for any activation
    position    a Symbol, an Idx, or y[i] of an IndexedBase y that gives positions
    statement   Eq, Le, Ge; as a hypothesis Ne(x, 0) too

Division is total: 1/0 := 0. Everything that is refused is refused by one sentence: what, where, and what to write.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

DEEPEST = 200  # nodes above each other: reading needs a few frames of Python's stack for each, of a thousand


class LanguageError(ValueError):
    """An expression that the language does not have, or that says two things at once."""


INSTEAD = {
    "Abs": "state two inequalities, Le(x, r) and Le(-x, r)",
    "BooleanFalse": "SymPy decided a relation while it was built; write Eq(left, right, evaluate=False)",
    "BooleanTrue": "SymPy decided a relation while it was built; write Eq(left, right, evaluate=False)",
    "ComplexInfinity": "SymPy makes infinity of a division by zero and of log(0); write 0, since 1/0 := 0 here",
    "ImaginaryUnit": "all numbers are real; SymPy makes I of a root or a log of a negative number",
    "Infinity": "all numbers are finite",
    "NaN": "SymPy makes nan of 0/0 and 0*oo; write 0, since 1/0 := 0 here",
    "NegativeInfinity": "all numbers are finite",
    "Piecewise": "multiply by an indicator M[i, j], or by KroneckerDelta(i, j)",
    "Product": "write exp(Sum(log(x[i]), (i, 0, n - 1))) for positive x",
    "StrictGreaterThan": "write Ge(left, right); that x > 0: kind='positive', or two hypotheses Ge(x, 0), Ne(x, 0)",
    "StrictLessThan": "write Le(left, right)",
    "Unequality": "only a hypothesis may say Ne, and only Ne(x, 0)",
    "acosh": "write it with exp and log",
    "asinh": "write it with exp and log",
    "atanh": "write it with exp and log",
    "bool": "SymPy decided a relation while it was built; write Eq(left, right, evaluate=False)",
    "cosh": "write (exp(x) + exp(-x))/2",
    "list": "write an IndexedBase with a shape of size symbols",
    "sinh": "write (exp(x) - exp(-x))/2",
    "tuple": "write an IndexedBase with a shape of size symbols",
}
HAS = "it has numbers, entries, Sum, KroneckerDelta, exp, log, tanh, sqrt, integer powers and Derivative"


def refused(node: Any) -> LanguageError:
    """The sentence about a node that is outside the language."""
    name = type(node).__name__
    if isinstance(node, (float, sp.Float)):
        return LanguageError(
            f"Float {node}: only exact numbers are read; write Rational({str(sp.Rational(str(node)))!r})"
        )
    if isinstance(node, sp.core.relational.Relational) and not isinstance(node, sp.Ne | sp.Lt | sp.Gt):
        return LanguageError(f"{node}: a statement where an expression is expected; write its two sides")
    if isinstance(node, sp.IndexedBase):
        return LanguageError(
            f"{node}: an array where a number is expected; write {node}[i] with a position for each slot"
        )
    if isinstance(node, sp.Max | sp.Min):
        return LanguageError(f"{name} {node}: the language has no {name}; multiply by an indicator M[i, j]")
    if isinstance(node, sp.MatrixBase | sp.MatrixExpr):
        return LanguageError(f"{name} {node}: the language has no matrices; write x[i, j] of an IndexedBase and Sum")
    return LanguageError(f"{name} {node}: the language has no {name}; {INSTEAD.get(name, HAS)}")


def expression(x: Any) -> Any:
    """``x`` as a SymPy expression; relations, Booleans, text and containers are refused."""
    if isinstance(x, int) and not isinstance(x, bool):
        return sp.Integer(x)
    if not isinstance(x, sp.Expr) or isinstance(x, sp.MatrixExpr):
        raise refused(x)
    if depth(x) > DEEPEST:
        raise LanguageError(
            f"expression: nested more than {DEEPEST} deep, too deeply to be read; give inner parts names with let"
        )
    return x


def depth(x: Any) -> int:
    """How many nodes stand above each other in an expression; counted level by level, so that any depth can be."""
    level, count = [x], 0
    while level and count <= DEEPEST:
        level, count = list({id(arg): arg for node in level for arg in node.args}.values()), count + 1
    return count
