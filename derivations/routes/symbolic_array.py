"""Arrays of exact functions behind ``__array_namespace__``, so that the shipped code runs on symbols unchanged.

A :class:`SymbolicArray` holds values of one ring (:mod:`derivations.routes.functions`) and does what the array-API
standard says, by NumPy on arrays of objects; exp, log and division are those of the ring. ``max`` is an opaque shift:
one new indeterminate a row. That is all that the shipped code asks of it, and `softmax.shift-invariance` is the
reason why any shift is as good as the largest entry; that it cancels is seen again each time, since the result must
not contain it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from derivations.routes.functions import Functions, Poly


class SymbolicNamespace:
    """The array-API functions on symbols that the shipped code uses; one object for each ring."""

    __bayesgrad_symbolic__ = True
    __name__ = "derivations.routes.symbolic_array"

    def __init__(self, ring: Functions):
        self.ring = ring
        self.shifts = 0

    # --- making arrays ------------------------------------------------------------------------------------------------

    def asarray(self, x: Any) -> SymbolicArray:
        """An array from nested sequences of ring elements, exact numbers or booleans."""
        return SymbolicArray(self, objects(exact(self.ring, np.asarray(x) if isinstance(x, (list, tuple)) else x)))

    def zeros(self, shape: Sequence[int], **_: Any) -> SymbolicArray:
        return self._full(shape, self.ring.zero)

    def ones(self, shape: Sequence[int], **_: Any) -> SymbolicArray:
        return self._full(shape, self.ring.one)

    def zeros_like(self, x: SymbolicArray) -> SymbolicArray:
        return self.zeros(x.shape)

    def ones_like(self, x: SymbolicArray) -> SymbolicArray:
        return self.ones(x.shape)

    def _full(self, shape: Sequence[int], value: Poly) -> SymbolicArray:
        out = np.empty(tuple(shape), dtype=object)
        out.fill(value)
        return SymbolicArray(self, out)

    # --- entry by entry -----------------------------------------------------------------------------------------------

    def exp(self, x: SymbolicArray) -> SymbolicArray:
        return x.each(self.ring.exp)

    def log(self, x: SymbolicArray) -> SymbolicArray:
        return x.each(self.ring.log)

    def where(self, condition: np.ndarray, x: Any, y: Any) -> SymbolicArray:
        """``condition`` is an exact boolean array: no branch depends on a symbol."""
        if isinstance(condition, SymbolicArray):
            raise TypeError("where: got a symbolic condition, expected NumPy booleans")
        return SymbolicArray(self, np.where(condition, self._lift(x).data, self._lift(y).data))

    def _lift(self, x: Any) -> SymbolicArray:
        return x if isinstance(x, SymbolicArray) else SymbolicArray(self, objects(exact(self.ring, x)))

    # --- reductions and products --------------------------------------------------------------------------------------

    def sum(self, x: SymbolicArray, *, axis: Any = None, keepdims: bool = False) -> SymbolicArray:
        zero: Any = self.ring.zero
        return SymbolicArray(self, objects(np.sum(x.data, axis=axis, keepdims=keepdims, initial=zero)))

    def max(self, x: SymbolicArray, *, axis: int, keepdims: bool = False) -> SymbolicArray:
        """A new indeterminate for each row: an opaque shift."""
        shape = np.sum(np.zeros(x.shape), axis=axis, keepdims=keepdims).shape
        out = np.empty(shape, dtype=object)
        for at in np.ndindex(*shape):
            self.shifts += 1
            out[at] = self.ring.symbol(f"shift {self.shifts}")
        return SymbolicArray(self, out)

    def matmul(self, x: SymbolicArray, y: SymbolicArray) -> SymbolicArray:
        if not x.shape[-1]:
            return self.zeros((*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1]))
        return SymbolicArray(self, np.matmul(x.data, y.data))

    # --- shapes, and whatever else only moves entries -----------------------------------------------------------------

    def matrix_transpose(self, x: SymbolicArray) -> SymbolicArray:
        return SymbolicArray(self, np.swapaxes(x.data, -1, -2))

    def expand_dims(self, x: SymbolicArray, *, axis: int) -> SymbolicArray:
        return SymbolicArray(self, np.expand_dims(x.data, axis))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in OPERATORS:
            return lambda *arrays: OPERATORS[name](*(self._lift(x) for x in arrays))
        if name not in MOVES:
            raise AttributeError(f"symbolic arrays have no {name}; add it to derivations/routes/symbolic_array.py")

        def moved(x: Any, *args: Any, **options: Any) -> Any:
            inner = [self._lift(each).data for each in x] if isinstance(x, (list, tuple)) else self._lift(x).data
            out = getattr(np, name)(inner, *args, **options)
            if isinstance(out, (list, tuple)):
                return tuple(SymbolicArray(self, each) for each in out)
            return SymbolicArray(self, objects(out))

        return moved


MOVES: tuple[str, ...] = ("broadcast_to", "concat", "flip", "moveaxis", "permute_dims", "repeat", "reshape", "roll")
MOVES += ("squeeze", "stack", "take", "tile", "tril", "triu")
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negative": operator.neg,
    "square": lambda x: x * x,
}


class SymbolicArray:
    """An array of ring elements."""

    __array_ufunc__ = None  # NumPy's operators give way to ours
    device = None
    dtype = "object"

    def __init__(self, xp: SymbolicNamespace, data: np.ndarray):
        self.xp, self.data = xp, data

    def __array_namespace__(self, api_version: str | None = None) -> SymbolicNamespace:
        return self.xp

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    def __getitem__(self, key: Any) -> SymbolicArray:
        return SymbolicArray(self.xp, objects(self.data[key]))

    def __bool__(self) -> bool:
        raise TypeError("a symbolic array has no truth value: no branch may depend on it")

    def each(self, function: Callable[[Poly], Poly]) -> SymbolicArray:
        """A function of the ring, entry by entry."""
        out = np.empty(self.shape, dtype=object)
        for at in np.ndindex(*self.shape):
            out[at] = function(self.data[at])
        return SymbolicArray(self.xp, out)

    def _with(self, other: Any, operation: Callable[[Any, Any], Any]) -> SymbolicArray:
        if not isinstance(other, SymbolicArray):
            other = self.xp._lift(other)
        elif other.xp is not self.xp:
            raise TypeError("arrays of two rings do not mix")
        return SymbolicArray(self.xp, objects(operation(self.data, other.data)))

    def __add__(self, other: Any) -> SymbolicArray:
        return self._with(other, lambda x, y: x + y)

    def __radd__(self, other: Any) -> SymbolicArray:
        return self._with(other, lambda x, y: y + x)

    def __sub__(self, other: Any) -> SymbolicArray:
        return self._with(other, lambda x, y: x - y)

    def __rsub__(self, other: Any) -> SymbolicArray:
        return self._with(other, lambda x, y: y - x)

    def __mul__(self, other: Any) -> SymbolicArray:
        return self._with(other, lambda x, y: x * y)

    def __rmul__(self, other: Any) -> SymbolicArray:
        return self._with(other, lambda x, y: y * x)

    def __truediv__(self, other: Any) -> SymbolicArray:
        return self * self.xp._lift(other).each(self._inverse)

    def __rtruediv__(self, other: Any) -> SymbolicArray:
        return self.xp._lift(other) / self

    def __neg__(self) -> SymbolicArray:
        return SymbolicArray(self.xp, objects(-self.data))

    def _inverse(self, p: Poly) -> Poly:
        if self.xp.ring.is_zero(p):
            raise ZeroDivisionError("division by a symbol that is 0: the shipped code keeps empty rows from dividing")
        return self.xp.ring.inv(p)


def objects(x: Any) -> np.ndarray:
    """An array of objects; a single one gets no axes (NumPy would take a polynomial for a sequence)."""
    if isinstance(x, np.ndarray):
        return x
    out = np.empty((), dtype=object)
    out[()] = x
    return out


def exact(ring: Functions, x: Any) -> Any:
    """A ring element from an exact number, booleans as 0 and 1; a float only if it is an integer over 1024."""
    if isinstance(x, np.ndarray):
        out = np.empty(x.shape, dtype=object)
        for at in np.ndindex(*x.shape):
            out[at] = exact(ring, x[at])
        return out
    if isinstance(x, flint.fmpq_mpoly):
        return x
    if isinstance(x, (bool, int, np.bool_, np.integer)):
        return ring.number(int(x))
    if isinstance(x, Fraction):
        return ring.number(x)
    if isinstance(x, (float, np.floating)) and float(x) * 1024 == int(float(x) * 1024):
        return ring.number(Fraction(float(x)))
    raise TypeError(f"a symbolic array takes exact numbers, got {type(x).__name__} {x!r}")
