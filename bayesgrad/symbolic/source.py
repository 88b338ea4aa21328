"""A derived law as a function of arrays: array-API source, written from the very terms that the kernel proved.

Every tensor becomes an array with one axis for each slot; definitions are computed in order, then the adjoint letters,
then the gradients. A sum over one index of a product of two parts is a matrix product, any other sum is a broadcast
product that ``xp.sum`` reduces. 1/x is 0 where x is 0, as in the proofs. The source follows the definitions to the
letter: a softmax that was defined by exp(s)/Z is computed so, without a maximum taken out.
"""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from bayesgrad.symbolic.claims import Equation
from bayesgrad.symbolic.index_calculus import flatten, positive, same
from bayesgrad.symbolic.rules import expanded
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
    Lookup,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    Term,
    TermError,
    children,
    delta,
)
from bayesgrad.symbolic.text import text

SUM, PRODUCT, POWER, ATOM = range(4)  # how tightly a piece of source binds

INVERSE = '''
def inverse(xp, x):
    """1/x, and 0 where x is 0."""
    return xp.where(x == 0, xp.zeros_like(x), 1 / xp.where(x == 0, xp.ones_like(x), x))
'''


@dataclass(frozen=True)
class Coded:
    """A piece of source, the index of each of its axes, and how tightly it binds."""

    code: str
    axes: tuple[Index, ...] = ()
    binds: int = ATOM

    def within(self, least: int) -> str:
        return self.code if self.binds >= least else f"({self.code})"


LIBRARIES = {"array-api": "from array_api_compat import array_namespace", "numpy": "import numpy as np"}


def source(laws: Sequence[Equation], *, name: str = "gradients", library: str = "array-api") -> str:
    """A module with one function that computes the right side of each law, dL/dx = ..., from arrays.

    The function takes every tensor without a definition as a keyword and returns a dict of arrays by the names of the
    x. ``library`` is array-api, for arrays of any array library, or numpy. Raises TermError where a law has a
    derivative left, ValueError for another library.
    """
    if library not in LIBRARIES:
        raise ValueError(f"library: got {library!r}, expected one of {', '.join(LIBRARIES)}")
    return _Module(laws).text(name, library)


def inputs(laws: Sequence[Equation]) -> dict[str, Tensor | Lookup | Size]:
    """What the function takes: keywords, each with what it stands for; a size only where no array has it."""
    module = _Module(laws)
    return {module.name(thing): thing for thing in (*module.given, *module.bare)}


class _Module:
    def __init__(self, laws: Sequence[Equation]):
        self.laws = laws
        self.names: dict[Tensor | Lookup | Size, str] = {}
        self.taken = {"xp", "inverse", "dtype"}
        self.given: dict[Tensor | Lookup, None] = {}
        self.computed: dict[Tensor, None] = {}
        self.needs_inverse = False
        for law in laws:
            self._collect(law.rhs)
        for thing in (*self.given, *self.computed):
            self.name(thing)
        shown = {size for thing in self.given for size in thing.sizes}
        terms = [*(law.rhs for law in laws), *(t.definition[1] for t in self.computed)]
        used = [size for term in terms for size in sizes_in(term)]
        used += [size for t in (*self.computed, *(law.lhs.wrt.tensor for law in laws)) for size in t.sizes]  # type: ignore[attr-defined]
        self.bare = tuple(dict.fromkeys(size for size in used if size not in shown))

    def _collect(self, term: Term) -> None:
        """What a term needs, each tensor after those that it is computed from."""
        match term:
            case Entry(tensor, at):
                for lookup in _lookups(at):
                    self.given.setdefault(lookup)
                if tensor.body is None:
                    self.given.setdefault(tensor)
                elif tensor not in self.computed:
                    self._collect(tensor.definition[1])
                    self.computed[tensor] = None
            case Delta(left, right):
                for lookup in _lookups((left, right)):
                    self.given.setdefault(lookup)
            case Diff():
                raise TermError(f"source: a derivative is left in {text(term)}")
        for child in children(term):
            self._collect(child)

    def name(self, thing: Tensor | Lookup | Size) -> str:
        """An identifier for a tensor, a lookup or a size."""
        if thing not in self.names:
            plain = "".join(c if c.isalnum() else "_prime" if c == "'" else "_" for c in thing.name) or "x"
            plain = f"_{plain}" if plain[0].isdigit() else f"{plain}_" if keyword.iskeyword(plain) else plain
            free = (plain if n == 0 else f"{plain}_{n}" for n in itertools.count())
            self.names[thing] = next(x for x in free if x not in self.taken)
            self.taken.add(self.names[thing])
        return self.names[thing]

    def text(self, name: str, library: str) -> str:
        lines = [self._assigned(self.name(t), t.definition[1], t.definition[0]) for t in self.computed]
        out = {}
        for law in self.laws:
            wrt = law.lhs.wrt  # type: ignore[attr-defined]
            name_of = f"grad_{self.name(wrt.tensor)}"
            known = [t for t in self.computed if t.sizes == wrt.tensor.sizes and same(t.unfold(wrt.indices), law.rhs)]
            code = f"{name_of} = {self.name(known[0])}" if known else self._assigned(name_of, law.rhs, wrt.indices)
            out[wrt.tensor.name] = code
        returned = ", ".join(f'"{x}": {code.split(" = ")[0]}' for x, code in out.items())
        body = "\n".join(f"    {line}" for line in (*self._prologue(library), *lines, *out.values()))
        says = "\n".join(f"    {text(law.lhs)} = {text(law.rhs)}" for law in self.laws)
        asked = ", ".join(map(self.name, (*self.given, *self.bare)))
        helper = f"\n{INVERSE}\n\n" if self.needs_inverse else "\n\n"
        return (
            f'"""Gradients that were derived from definitions, and proved:\n\n{says}\n"""\n\n'
            f"{LIBRARIES[library]}\n{helper}"
            f"def {name}(*, {asked}):\n{body}\n    return {{{returned}}}\n"
        )

    def _prologue(self, library: str) -> Iterable[str]:
        arrays = [t for t in self.given if isinstance(t, Tensor) and t.sizes and t.kind != "indicator"]
        first = self.name(arrays[0]) if arrays else next(iter(map(self.name, self.given)), "")
        listed = ", ".join(self.name(t) for t in self.given if t.sizes)
        yield "xp = np" if library == "numpy" else f"xp = array_namespace({listed or first})"
        if library == "numpy":
            yield from (f"{self.name(t)} = np.asarray({self.name(t)})" for t in self.given if t.sizes)
        yield f"dtype = {first}.dtype"
        for tensor in self.given:
            if isinstance(tensor, Tensor):
                yield f"{self.name(tensor)} = xp.asarray({self.name(tensor)}, dtype=dtype)"
        seen: set[Size] = set()
        for thing in self.given:
            for axis, size in enumerate(thing.sizes):
                if size not in seen:
                    seen.add(size)
                    yield f"{self.name(size)} = {self.name(thing)}.shape[{axis}]"

    def _assigned(self, name: str, term: Term, slots: Sequence[Index]) -> str:
        self.order: list[Index] = list(slots)
        value = self.aligned(self.coded(term), slots)
        full = tuple(i for i in slots if i in value.axes) == tuple(slots)
        code = value.code if full else f"xp.broadcast_to({value.code}, ({self._shape(slots)}))"
        return f"{name} = {code}"

    def _shape(self, slots: Sequence[Index]) -> str:
        return "".join(f"{self.name(i.size)}, " for i in slots).rstrip() if slots else ""

    # -- terms -------------------------------------------------------------------------------------------------

    def coded(self, term: Term) -> Coded:
        match term:
            case Num(value):
                return _number(value)
            case Count(size):
                return Coded(self.name(size))
            case Entry(tensor, indices):
                return self._entry(self.name(tensor), indices)
            case Delta(left, right):
                one, other = self._position(left), self._position(right)
                both = self._together([one, other], " == ", POWER)
                return Coded(f"xp.astype({both.code}, dtype)", both.axes)
            case Add(terms):
                return self._added(terms)
            case Mul(factors):
                return self._product(_factors(factors))
            case Pow(base, exponent):
                inner = self.coded(base)
                return Coded(f"{inner.within(ATOM)} ** {exponent}", inner.axes, POWER)
            case Sum():
                return self._total(term)
            case Fn("inv", _):
                return self._product([term])
            case Fn(name, arg):
                inner = self.coded(arg)
                number = isinstance(arg, Num | Count)
                code = f"xp.asarray({inner.code}, dtype=dtype)" if number else inner.code
                return Coded(f"xp.{name}({code})", inner.axes)
        raise TermError(f"source: {type(term).__name__} has no source")

    def _entry(self, name: str, indices: tuple[AnyIndex, ...]) -> Coded:
        """An entry; a looked-up or repeated position is a sum over a one-hot axis."""
        plain: list[Index] = []
        tied: list[tuple[Index, AnyIndex]] = []
        for index in indices:
            if isinstance(index, Index) and index not in plain:
                plain.append(index)
            else:
                plain.append(Index(f"at_{len(tied)}", index.size))
                tied.append((plain[-1], index))
        out = Coded(name, tuple(plain))
        for new, index in tied:
            self.order.append(new)
            out = self._reduced([out, self.coded(delta(new, index))], (new,))
        return out

    def _position(self, index: AnyIndex) -> Coded:
        if isinstance(index, At):
            return self._entry(self.name(index.lookup), index.indices)
        return Coded(f"xp.arange({self.name(index.size)})", (index,))

    def _product(self, factors: Sequence[Term]) -> Coded:
        """Factors multiplied, those under a fraction bar last."""
        top = [f for f in factors if not _is_inverse(f)]
        out = self._together([self.coded(f) for f in top], " * ", PRODUCT) if top else Coded("1")
        for factor in factors:
            if not _is_inverse(factor):
                continue
            base, power = (factor, 1) if isinstance(factor, Fn) else (factor.base, factor.exponent)  # type: ignore[attr-defined]
            below = self.coded(base.arg)
            if power > 1:
                below = Coded(f"{below.within(ATOM)} ** {power}", below.axes, POWER)
            if positive(flatten(expanded(base.arg))) or isinstance(base.arg, Num):
                out = self._together([out, below], " / ", PRODUCT)
            else:
                self.needs_inverse = True
                below = Coded(f"inverse(xp, {below.code})", below.axes)
                out = below if out.code == "1" else self._together([out, below], " * ", PRODUCT)
        return out

    def _total(self, term: Term) -> Coded:
        bound: list[Index] = []
        while isinstance(term, Sum):
            bound.append(term.index)
            self.order.append(term.index)
            term = term.body
        parts = [self._product([f]) for f in (_factors(term.factors) if isinstance(term, Mul) else [term])]
        inner = [p for p in parts if set(p.axes) & set(bound)]
        outer = [p for p in parts if not set(p.axes) & set(bound)]
        absent = [i for i in bound if not any(i in p.axes for p in inner)]
        outer += [Coded(self.name(i.size)) for i in absent]
        left = tuple(i for i in bound if i not in absent)
        inner, left = self._contracted(inner, left)
        total = [self._reduced(inner, left)] if inner else []
        return self._together([*outer, *total], " * ", PRODUCT) if outer or total else Coded("1")

    def _contracted(self, parts: list[Coded], bound: tuple[Index, ...]) -> tuple[list[Coded], tuple[Index, ...]]:
        """Matrix products taken out of a product under several sums."""
        for index in bound if len(bound) > 1 else ():
            holding = [p for p in parts if index in p.axes]
            if len(holding) < len(parts) and (one := self._matrix_product(holding, index)):
                rest = [p for p in parts if index not in p.axes]
                return self._contracted([*rest, one], tuple(i for i in bound if i != index))
        return parts, bound

    def _reduced(self, parts: Sequence[Coded], bound: tuple[Index, ...]) -> Coded:
        """The product of some parts summed over ``bound``, which all of them depend on."""
        if len(bound) == 1 and (matrix := self._matrix_product(parts, bound[0])):
            return matrix
        whole = self._together(parts, " * ", PRODUCT)
        axes = tuple(i for i in whole.axes if i not in bound)
        if set(bound) == set(whole.axes):
            return Coded(f"xp.sum({whole.code})")
        order = (*axes, *bound)
        whole = self.aligned(whole, order)
        where = "-1" if len(bound) == 1 else f"({', '.join(str(n - len(bound)) for n in range(len(bound)))})"
        return Coded(f"xp.sum({whole.code}, axis={where})", axes)

    def _matrix_product(self, parts: Sequence[Coded], bound: Index) -> Coded | None:
        """left @ right, where no part has both an index of the left alone and one of the right alone."""
        free = [i for i in self.order if i != bound and any(i in p.axes for p in parts)]
        for left_only, right_only in itertools.combinations(free, 2):
            if any({left_only, right_only} <= set(p.axes) for p in parts):
                continue
            left = [p for p in parts if right_only not in p.axes]
            right = [p for p in parts if right_only in p.axes]
            if not any(left_only in p.axes for p in left) or not any(bound in p.axes for p in left):
                continue
            batch = tuple(i for i in free if i not in (left_only, right_only))
            one = self.aligned(self._together(left, " * ", PRODUCT), (*batch, left_only, bound), batch)
            other = self.aligned(self._together(right, " * ", PRODUCT), (*batch, bound, right_only), batch)
            return Coded(f"{one.within(POWER)} @ {other.within(POWER)}", (*batch, left_only, right_only), PRODUCT)
        return None

    # -- axes --------------------------------------------------------------------------------------------------

    def _together(self, parts: Sequence[Coded], sign: str, binds: int) -> Coded:
        """Parts joined by an operation, each with its axes where the others have them."""
        if len(parts) == 1:
            return parts[0]
        axes = tuple(i for i in self.order if any(i in p.axes for p in parts))
        axes = next((p.axes for p in parts if len(p.axes) == len(axes)), axes)  # as one of them has them already
        placed = [self.aligned(part, axes).within(binds + (n > 0)) for n, part in enumerate(parts)]
        code = sign.join(placed)
        if sign == " * ":
            code = f"-{code[5:]}" if code.startswith("-1 * ") else code.removeprefix("1 * ")
        return Coded(code, axes, binds)

    def _added(self, terms: Sequence[Term]) -> Coded:
        """A sum; a term with a minus is subtracted."""
        parts = [(_negated(t), self.coded(_negated(t) or t)) for t in terms]
        axes = tuple(i for i in self.order if any(i in p.axes for _, p in parts))
        code = ""
        for negated, part in parts:
            placed = self.aligned(part, axes)
            if code:
                code += f" - {placed.within(PRODUCT)}" if negated else f" + {placed.within(SUM)}"
            else:
                code = f"-{placed.within(PRODUCT)}" if negated else placed.code
        return Coded(code, axes, SUM)

    def aligned(self, part: Coded, axes: Sequence[Index], kept: Sequence[Index] = ()) -> Coded:
        """The part with its axes in this order, and an axis of length 1 for each that it lacks behind its first."""
        mine = [i for i in axes if i in part.axes]
        code, binds = part.code, part.binds
        if mine != list(part.axes):
            binds = ATOM
            if len(mine) == 2:
                code = f"xp.matrix_transpose({code})"
            else:
                code = f"xp.permute_dims({code}, {tuple(part.axes.index(i) for i in mine)})"
        if not mine:
            return Coded(code, (), binds)
        tail = list(axes)[list(axes).index(mine[0]) :]
        if tail != mine:
            slots = ", ".join(":" if i in part.axes else "None" for i in tail)
            code, binds = f"{code if binds == ATOM else f'({code})'}[{slots}]", ATOM
        return Coded(code, tuple(mine), binds)


def sizes_in(term: Term) -> Iterator[Size]:
    """The sizes that a term counts or sums over."""
    if isinstance(term, Count):
        yield term.size
    elif isinstance(term, Sum):
        yield term.index.size
    for child in children(term):
        yield from sizes_in(child)


def _is_inverse(term: Term) -> bool:
    return (isinstance(term, Fn) and term.name == "inv") or (isinstance(term, Pow) and _is_inverse(term.base))


def _negated(term: Term) -> Term | None:
    """What a term is minus of, or None."""
    if isinstance(term, Num) and term.value < 0:
        return Num(-term.value)
    if isinstance(term, Mul) and isinstance(term.factors[0], Num) and term.factors[0].value < 0:
        rest, number = term.factors[1:], Num(-term.factors[0].value)
        return Mul((number, *rest)) if number.value != 1 or not rest else rest[0] if len(rest) == 1 else Mul(rest)
    return None


def _factors(factors: Iterable[Term]) -> list[Term]:
    return [f for x in factors for f in (_factors(x.factors) if isinstance(x, Mul) else [x])]


def _number(value: Fraction) -> Coded:
    if value.denominator == 1:
        return Coded(str(value.numerator), (), ATOM if value >= 0 else PRODUCT)
    return Coded(f"{value.numerator} / {value.denominator}", (), PRODUCT)


def _lookups(indices: Iterable[AnyIndex]) -> list[Lookup]:
    return [x for i in indices if isinstance(i, At) for x in (*_lookups(i.indices), i.lookup)]
