"""Terms as TeX: what the kernel proved is what the page shows, since both come from one term.

A bound index keeps the name that its sum was written with; where that name is taken around it, it gets a prime.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from bayesgrad.symbolic.proof import AtMost, Equation, Minimum, Witness
from bayesgrad.symbolic.terms import (
    Add,
    AnyIndex,
    At,
    Count,
    Delta,
    Diff,
    Entry,
    Fn,
    Index,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    Term,
)

Names = dict[Index, str]
SUM, PRODUCT, ATOM, POWER = 0, 1, 2, 3  # how tightly a rendering binds; nothing binds like the base of a power
LETTERS = (Num, Count, Entry, Delta)  # what takes an exponent as it stands


GREEK = {"alpha", "beta", "gamma", "delta", "epsilon", "eta", "theta", "lambda", "mu", "pi", "rho", "sigma", "tau"}
GREEK |= {"phi", "omega", "Gamma", "Theta", "Delta"}


ESCAPES = {c: rf"\{c}" for c in "%&#${}"} | {"~": r"\sim ", "^": r"\hat{}", "\\": r"\backslash "}


def name(text: str) -> str:
    """A name in TeX: d_v as d_{v}, Greek letters by their names, other long words upright, nothing left unescaped."""
    if text.startswith("_"):
        return r"\_" + name(text[1:])
    head, _, tail = text.partition("_")
    if head in GREEK:
        head = "\\" + head
    elif len(head) > 1 and head.isalpha():
        head = rf"\mathrm{{{head}}}"
    else:
        head = "".join(ESCAPES.get(letter, letter) for letter in head)
    if "_" in tail or set(tail) & set(ESCAPES):
        tail = name(tail)
    return f"{head}_{{{tail}}}" if tail else head


def tex(term: Term, names: Names | None = None) -> str:
    """The term in TeX."""
    return _render(term, names or {})[0]


def _index(index: AnyIndex, names: Names) -> str:
    if isinstance(index, At):
        inner = ",".join(_index(i, names) for i in index.indices)
        return f"{name(index.lookup.name)}_{{{inner}}}" if inner else name(index.lookup.name)
    return names.get(index, name(index.name))


def _entry(tensor: Tensor, indices: tuple[AnyIndex, ...], names: Names) -> str:
    head = tensor.tex or name(tensor.name)
    slots = [_index(i, names) for i in indices]
    glue = "," if any(len(s) > 1 for s in slots) and len(slots) > 1 else ""
    if not slots:
        return head
    return f"{{{head}}}_{{{glue.join(slots)}}}" if "_" in head or "'" in head else f"{head}_{{{glue.join(slots)}}}"


def _render(term: Term, names: Names) -> tuple[str, int]:
    match term:
        case Num(value):
            return _number(value), ATOM if value >= 0 and value.denominator == 1 else PRODUCT
        case Count(size):
            return name(size.name), ATOM
        case Entry(tensor, indices):
            return _entry(tensor, indices, names), ATOM
        case Delta(left, right):
            return rf"\delta_{{{_index(left, names)},{_index(right, names)}}}", ATOM
        case Add():
            return _sum(term, names), SUM
        case Mul():
            return _product(term, names)
        case Pow(base, exponent):
            text = _wrap(base, names, ATOM if isinstance(base, LETTERS) else POWER)
            return f"{{{text}}}^{{{exponent}}}" if "^" in text or "'" in text else f"{text}^{{{exponent}}}", ATOM
        case Sum():
            return _total(term, names), SUM
        case Fn("inv", arg):
            return rf"\frac{{1}}{{{tex(arg, names)}}}", ATOM
        case Fn("exp", arg):
            return rf"e^{{{tex(arg, names)}}}", ATOM
        case Fn("sqrt", arg):
            return rf"\sqrt{{{tex(arg, names)}}}", ATOM
        case Fn(function, arg):
            return rf"\{function} {_wrap(arg, names, ATOM)}", PRODUCT
        case Diff(body, wrt):
            bottom = _render(wrt, names)[0]
            if isinstance(body, Entry):
                return rf"\frac{{\partial {_render(body, names)[0]}}}{{\partial {bottom}}}", ATOM
            return rf"\frac{{\partial}}{{\partial {bottom}}}\Bigl({tex(body, names)}\Bigr)", PRODUCT
    raise TypeError(type(term).__name__)


def _number(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\tfrac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _wrap(term: Term, names: Names, least: int) -> str:
    text, binds = _render(term, names)
    return text if binds >= least else rf"\left({text}\right)"


def _terms(term: Term) -> list[Term]:
    return [t for inner in term.terms for t in _terms(inner)] if isinstance(term, Add) else [term]


def _factors(term: Term) -> list[Term]:
    return [t for inner in term.factors for t in _factors(inner)] if isinstance(term, Mul) else [term]


def _sum(term: Term, names: Names) -> str:
    out = ""
    for t in _terms(term):
        text = _render(t, names)[0]
        out += text if not out else f" - {text[1:].lstrip()}" if text.startswith("-") else f" + {text}"
    return out


def _product(term: Term, names: Names) -> tuple[str, int]:
    sign, number = 1, Fraction(1)
    top: list[Term] = []
    bottom: list[Term] = []
    for factor in _factors(term):
        match factor:
            case Num(value):
                number *= value
            case Fn("inv", arg):
                bottom.append(arg)
            case Pow(Fn("inv", arg), exponent):
                bottom.append(Pow(arg, exponent) if exponent > 1 else arg)
            case _:
                top.append(factor)
    if number < 0:
        sign, number = -1, -number
    head = [] if number == 1 and (top or bottom) else [_number(number)]
    texts = [_wrap(t, names, ATOM) for t in top[:-1]]
    if top:  # a last factor that reaches to the end needs no brackets, nor does a lone one above a fraction bar
        last = top[-1]
        if isinstance(last, Sum) and not bottom:
            texts.append(_total(last, names))
        else:
            lone = bottom and len(top) == 1 and not head
            reaches = _opens_right(last)
            texts.append(_wrap(last, names, SUM if lone else PRODUCT if reaches else ATOM))
    body = r" \, ".join(head + texts)
    if bottom:
        below = r" \, ".join(_wrap(t, names, ATOM) if len(bottom) > 1 else tex(t, names) for t in bottom)
        body = rf"\frac{{{body or '1'}}}{{{below}}}"
    return ("-" if sign < 0 else "") + body, PRODUCT


def _opens_right(term: Term) -> bool:
    """Whether a rendering reads as if it took in what stands behind it."""
    return isinstance(term, Diff) or (isinstance(term, Fn) and term.name in ("log", "tanh"))


def _total(term: Sum, names: Names) -> str:
    limits: list[tuple[str, Size]] = []
    body: Term = term
    inner = dict(names)
    while isinstance(body, Sum):
        shown = name(body.index.name)
        while shown in inner.values():
            shown += "'"
        inner[body.index] = shown
        limits.append((shown, body.index.size))
        body = body.body
    signs = r"\, ".join(rf"\sum_{{{shown}=1}}^{{{name(size.name)}}}" for shown, size in limits)
    return f"{signs} {_wrap(body, inner, PRODUCT)}"


def _named(term: Term) -> Names:
    """Free indices keep their names, and no bound index may take one."""
    from bayesgrad.symbolic.terms import indices_of

    return {i: name(i.name) for i in indices_of(term)[0]}


def statement(claim: Equation) -> str:
    """The claim as one formula."""
    relation = r"\le" if isinstance(claim, AtMost) else claim.relation if isinstance(claim, Witness) else "="
    names = {**_named(claim.lhs), **_named(claim.rhs)}
    if isinstance(claim, Minimum):
        return rf"{tex(claim.lhs, names)} \ge 0"
    formula = f"{tex(claim.lhs, names)} {relation} {tex(claim.rhs, names)}"
    if isinstance(claim, Witness):
        values = [rf"{_tensor_head(t)} = {_table(v)}" for t, v in claim.values.items()]
        formula += r" \quad (" + r",\; ".join(values) + ")"
    return formula


def _tensor_head(thing: Any) -> str:
    return getattr(thing, "tex", "") or name(thing.name)


def _table(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(_table(v) for v in value) + ")"
    return _number(Fraction(value))


def shown(term: Term) -> str:
    """One term of a derivation."""
    return tex(term, _named(term))
