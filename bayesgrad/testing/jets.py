"""Jets: arrays that carry a derivative and a bound on the rounding error of both.

A jet holds x, its derivatives x' along T directions (leading axis), and running bounds e, e' so that to first order

    |computed x - x| <= e * u,      |computed x' - x'| <= e' * u,      u = half the machine epsilon,

for *any* order in which the sums may be taken. Every operation adds the rounding errors that it can make to those
which it inherits (Wilkinson's running error analysis):

    x + y:  e_x + e_y + |x + y|                 x * y:  |x| e_y + |y| e_x + |x y|
    sum of L terms:  sum e + (L - 1) sum |x|    exp x:  exp(x) (e_x + 2 |x| + 2)
    x / y:  (e_x + |x/y| e_y) / |y| + |x/y|     log x:  e_x / x + 2 |log x| + 2

and the derivative's bound follows from the same rules applied to the derivative's own formula. The bound is what the
tolerance of every check is made of (:mod:`bayesgrad.testing.tolerance`); the derivative is one of the oracles. 2 |x| in
exp covers a subtracted maximum.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

Operand = Union["Jet", np.ndarray, float, int]


class Jet:
    """Value (shape S), derivative (T, *S), and the two running error bounds in units of the unit roundoff."""

    __array_priority__ = 1000
    __slots__ = ("dx", "edx", "ex", "x")

    def __init__(self, x: Any, dx: Any = None, ex: Any = None, edx: Any = None, *, directions: int = 1) -> None:
        self.x = np.asarray(x, dtype=np.float64)
        self.dx = np.zeros((directions, *self.x.shape)) if dx is None else dx
        self.ex = np.zeros_like(self.x) if ex is None else ex
        self.edx = np.zeros_like(self.dx) if edx is None else edx

    @property
    def shape(self) -> tuple[int, ...]:
        """The value's shape."""
        return self.x.shape

    def _lift(self, other: Operand) -> Jet:
        if isinstance(other, Jet):
            return other
        x = np.asarray(other, dtype=np.float64)
        return Jet(x, np.zeros((1,) * (1 + x.ndim)), np.zeros((1,) * x.ndim), np.zeros((1,) * (1 + x.ndim)))

    def __add__(self, other: Operand) -> Jet:
        o = _align(self, self._lift(other))
        s = _align(o, self)
        x, dx = s.x + o.x, s.dx + o.dx
        # A later sum runs over the axes of x, so the derivative must have them all.
        dx = np.broadcast_to(dx, (dx.shape[0], *x.shape))
        return Jet(x, dx, s.ex + o.ex + np.abs(x), s.edx + o.edx + np.abs(dx))

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return Jet(-self.x, -self.dx, self.ex, self.edx)

    def __sub__(self, other: Operand) -> Jet:
        return self + (-self._lift(other))

    def __rsub__(self, other: Operand) -> Jet:
        return -self + other

    def __mul__(self, other: Operand) -> Jet:
        o = _align(self, self._lift(other))
        s = _align(o, self)
        x = s.x * o.x
        left, right = s.dx * o.x, s.x * o.dx
        dx = left + right
        ax, ay, adx, ady = np.abs(s.x), np.abs(o.x), np.abs(s.dx), np.abs(o.dx)
        edx = s.edx * ay + adx * o.ex + ax * o.edx + s.ex * ady + np.abs(left) + np.abs(right) + np.abs(dx)
        return Jet(x, dx, ax * o.ex + ay * s.ex + np.abs(x), edx)

    __rmul__ = __mul__

    def reciprocal(self) -> Jet:
        """1 / x."""
        y = 1.0 / self.x
        ay = np.abs(y)
        ey = self.ex * ay * ay + ay
        dx = -self.dx * y * y
        edx = self.edx * ay * ay + 2 * np.abs(self.dx) * ay * ey + 2 * np.abs(dx)
        return Jet(y, dx, ey, edx)

    def __truediv__(self, other: Operand) -> Jet:
        return self * self._lift(other).reciprocal()

    def __rtruediv__(self, other: Operand) -> Jet:
        return self._lift(other) * self.reciprocal()

    def exp(self) -> Jet:
        """exp x; 2 |x| roundings are charged for a maximum that an implementation may subtract and add back."""
        y = np.exp(self.x)
        ey = y * (self.ex + 2 * np.abs(self.x) + 2)
        dx = y * self.dx
        return Jet(y, dx, ey, y * self.edx + ey * np.abs(self.dx) + np.abs(dx))

    def log(self) -> Jet:
        """log x for x > 0."""
        y = np.log(self.x)
        dx = self.dx / self.x
        edx = self.edx / self.x + np.abs(dx) * self.ex / self.x + np.abs(dx)
        return Jet(y, dx, self.ex / self.x + 2 * np.abs(y) + 2, edx)

    def sum(self, *axes: int) -> Jet:
        """Sum over ``axes`` (negative numbers), in any order."""
        length = int(np.prod([self.x.shape[axis] for axis in axes])) if axes else 1
        n = max(length - 1, 0)

        def total(array: np.ndarray) -> np.ndarray:
            return array.sum(axis=axes)

        return Jet(
            total(self.x),
            total(self.dx),
            total(self.ex) + n * total(np.abs(self.x)),
            total(self.edx) + n * total(np.abs(self.dx)),
        )

    def __getitem__(self, key: Any) -> Jet:
        key = key if isinstance(key, tuple) else (key,)
        tangent = (slice(None), *key)
        return Jet(self.x[key], self.dx[tangent], self.ex[key], self.edx[tangent])

    def move(self, source: int, target: int) -> Jet:
        """Axes moved as by numpy.moveaxis (negative numbers)."""
        return Jet(*(np.moveaxis(part, source, target) for part in (self.x, self.dx, self.ex, self.edx)))


def _align(one: Jet, two: Jet) -> Jet:
    """``two`` with as many axes as ``one`` (if it has fewer), so that the direction axis stays in front."""
    missing = one.x.ndim - two.x.ndim
    if missing <= 0:
        return two
    x_shape = (1,) * missing + two.x.shape
    dx_shape = (two.dx.shape[0],) + (1,) * missing + two.dx.shape[1:]
    return Jet(two.x.reshape(x_shape), two.dx.reshape(dx_shape), two.ex.reshape(x_shape), two.edx.reshape(dx_shape))


def leaf(x: np.ndarray) -> Jet:
    """A variable: its derivative along direction r is the r-th unit vector, so T = the number of entries."""
    x = np.asarray(x, dtype=np.float64)
    return Jet(x, np.eye(x.size).reshape(x.size, *x.shape))


def along(x: np.ndarray, direction: np.ndarray) -> Jet:
    """A variable that moves in one given direction (T = 1)."""
    return Jet(x, np.asarray(direction, dtype=np.float64)[None])


def constant(x: np.ndarray | float) -> Jet:
    """A constant; its direction axis has length 1 and broadcasts."""
    return Jet(x)


def matmul(one: Jet, two: Jet) -> Jet:
    """sum_c one_ic two_cj over the last two axes."""
    return (one[..., :, :, None] * two[..., None, :, :]).sum(-2)


def matmul_t(one: Jet, two: Jet) -> Jet:
    """sum_c one_ic two_jc over the last axis of both."""
    return (one[..., :, None, :] * two[..., None, :, :]).sum(-1)
