"""Terms as presentation MathML, which browsers draw without any script."""

from __future__ import annotations

import html
from collections.abc import Iterable

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
    Sum,
    Term,
    indices_of,
)
from bayesgrad.symbolic.tex import GREEK

Names = dict[Index, str]
SUM, PRODUCT, ATOM = range(3)  # how tightly a rendering binds


def formula(*parts: Term | str) -> str:
    """Terms and signs in one line."""
    inner = "".join(f"<mo>{html.escape(p)}</mo>" if isinstance(p, str) else _render(p, _free(p))[0] for p in parts)
    return f"<math>{inner}</math>"


def _free(term: Term) -> Names:
    return {i: i.name for i in indices_of(term)[0]}


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _name(text: str) -> str:
    """A name with its tail below it; Greek letters by their entities."""
    head, _, tail = text.partition("_")
    letter = f"&{head};" if head in GREEK else html.escape(head)
    return f"<msub><mi>{letter}</mi><mi>{html.escape(tail)}</mi></msub>" if tail else f"<mi>{letter}</mi>"


def _index(index: AnyIndex, names: Names) -> str:
    if isinstance(index, At):
        return _subscript(_name(index.lookup.name), index.indices, names)
    return _name(names.get(index, index.name))


def _subscript(head: str, indices: Iterable[AnyIndex], names: Names) -> str:
    at = "<mo>,</mo>".join(_index(i, names) for i in indices)
    return f"<msub>{head}{_row(at)}</msub>" if at else head


def _fence(inner: str) -> str:
    return _row("<mo>(</mo>", inner, "<mo>)</mo>")


def _wrap(term: Term, names: Names, least: int) -> str:
    out, binds = _render(term, names)
    return out if binds >= least else _fence(out)


def _render(term: Term, names: Names) -> tuple[str, int]:
    match term:
        case Num(value):
            sign = "<mo>−</mo>" if value < 0 else ""
            top, under = abs(value.numerator), value.denominator
            number = f"<mn>{top}</mn>" if under == 1 else f"<mfrac><mn>{top}</mn><mn>{under}</mn></mfrac>"
            return _row(sign, number), PRODUCT if sign else ATOM
        case Count(size):
            return _name(size.name), ATOM
        case Entry(tensor, indices):
            return _subscript(_name(tensor.name), indices, names), ATOM
        case Delta(left, right):
            return _subscript("<mi>δ</mi>", (left, right), names), ATOM
        case Add(terms):
            return _row(*(_signed(t, names, n > 0) for n, t in enumerate(terms))), SUM
        case Mul():
            return _product(term, names)
        case Pow(base, exponent):
            return f"<msup>{_wrap(base, names, ATOM)}<mn>{exponent}</mn></msup>", ATOM
        case Sum(index, body):
            shown = index.name
            while shown in names.values():
                shown += "'"
            below = _row(_name(shown), "<mo>=</mo>", "<mn>1</mn>")
            sign = f"<munderover><mo>∑</mo>{below}{_name(index.size.name)}</munderover>"
            return _row(sign, _wrap(body, {**names, index: shown}, PRODUCT)), SUM
        case Fn("inv", arg):
            return f"<mfrac><mn>1</mn>{_row(_render(arg, names)[0])}</mfrac>", ATOM
        case Fn("exp", arg):
            return f"<msup><mi>e</mi>{_row(_render(arg, names)[0])}</msup>", ATOM
        case Fn("sqrt", arg):
            return f"<msqrt>{_render(arg, names)[0]}</msqrt>", ATOM
        case Fn(name, arg):
            return _row(f"<mi>{name}</mi>", _fence(_render(arg, names)[0])), ATOM
        case Diff(body, wrt):
            above, below = _wrap(body, names, ATOM), _render(wrt, names)[0]
            return f"<mfrac>{_row('<mo>∂</mo>', above)}{_row('<mo>∂</mo>', below)}</mfrac>", ATOM
    raise TypeError(type(term).__name__)


def _negative(term: Term) -> Term | None:
    """What a term is minus of, or None."""
    match term:
        case Num(value) if value < 0:
            return Num(-value)
        case Mul((Num(value), *rest)) if value < 0:
            return Mul(tuple(rest)) if value == -1 else Mul((Num(-value), *rest))
    return None


def _signed(term: Term, names: Names, later: bool) -> str:
    rest = _negative(term)
    sign = "<mo>−</mo>" if rest is not None else "<mo>+</mo>" if later else ""
    return sign + _wrap(term if rest is None else rest, names, PRODUCT if rest is not None else SUM)


def _product(term: Mul, names: Names) -> tuple[str, int]:
    rest = _negative(term)
    if rest is not None:
        return _row("<mo>−</mo>", _wrap(rest, names, PRODUCT)), PRODUCT
    factors = _factors(term)
    below = [f.arg for f in factors if isinstance(f, Fn) and f.name == "inv"]
    above = [f for f in factors if not (isinstance(f, Fn) and f.name == "inv")]
    alone = len(above) == 1 and bool(below)
    shown = "<mo>&#x2062;</mo>".join(_wrap(f, names, SUM if alone else ATOM) for f in above) or "<mn>1</mn>"
    if not below:
        return _row(shown), PRODUCT
    under = "".join(_wrap(f, names, SUM if len(below) == 1 else ATOM) for f in below)
    return f"<mfrac>{_row(shown)}{_row(under)}</mfrac>", PRODUCT


def _factors(term: Term) -> list[Term]:
    return [f for inner in term.factors for f in _factors(inner)] if isinstance(term, Mul) else [term]
