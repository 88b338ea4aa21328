"""Terms as plain text, for terminals: a[i,j]·(b[i,j] − Σ_k a[i,k]·b[i,k])."""

from __future__ import annotations

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

Names = dict[Index, str]
SUM, PRODUCT, ATOM = 0, 1, 2


def text(term: Term) -> str:
    """One line for one term."""
    return _render(term, {i: i.name for i in indices_of(term)[0]})[0]


def _index(index: AnyIndex, names: Names) -> str:
    if isinstance(index, At):
        return f"{index.lookup.name}[{','.join(_index(i, names) for i in index.indices)}]"
    return names.get(index, index.name)


def _at(name: str, indices: tuple[AnyIndex, ...], names: Names) -> str:
    return f"{name}[{','.join(_index(i, names) for i in indices)}]" if indices else name


def _render(term: Term, names: Names) -> tuple[str, int]:
    match term:
        case Num(value):
            return str(value), ATOM if value >= 0 and value.denominator == 1 else PRODUCT
        case Count(size):
            return size.name, ATOM
        case Entry(tensor, indices):
            return _at(tensor.name, indices, names), ATOM
        case Delta(left, right):
            return f"δ({_index(left, names)},{_index(right, names)})", ATOM
        case Add(terms):
            texts = [_render(t, names)[0] for t in terms]
            out = texts[0] + "".join(f" − {t[1:]}" if t.startswith("−") else f" + {t}" for t in texts[1:])
            return out, SUM
        case Mul(factors):
            if isinstance(factors[0], Num) and factors[0].value == -1 and len(factors) == 2:
                return "−" + _wrap(factors[1], names, PRODUCT), PRODUCT
            out = ""
            for factor in factors:
                if isinstance(factor, Fn) and factor.name == "inv":
                    out = f"{out or '1'}/{_wrap(factor.arg, names, ATOM)}"
                else:
                    out = f"{out}·{_wrap(factor, names, ATOM)}" if out else _wrap(factor, names, PRODUCT)
            return out, PRODUCT
        case Pow(base, exponent):
            return f"{_wrap(base, names, ATOM + isinstance(base, Diff))}^{exponent}", ATOM
        case Sum(index, body):
            shown = index.name
            while shown in names.values():
                shown += "'"
            return f"Σ_{shown} {_wrap(body, {**names, index: shown}, PRODUCT)}", SUM
        case Fn("inv", arg):
            return f"1/{_wrap(arg, names, ATOM)}", PRODUCT
        case Fn(name, arg):
            return f"{name}({_render(arg, names)[0]})", ATOM
        case Diff(body, wrt):
            return f"∂{_wrap(body, names, ATOM)}/∂{_render(wrt, names)[0]}", ATOM
    raise TypeError(type(term).__name__)


def _wrap(term: Term, names: Names, least: int) -> str:
    out, binds = _render(term, names)
    return out if binds >= least else f"({out})"
