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

from collections.abc import Callable
from typing import Any, Union

import numpy as np

Operand = Union["Jet", np.ndarray, float, int]


class Jet:
    """Value (shape S), derivative (T, *S) or None for a constant, and the two error bounds in units of the roundoff."""

    __array_priority__ = 1000
    __slots__ = ("dx", "edx", "ex", "x")

    def __init__(self, x: Any, dx: Any = None, ex: Any = None, edx: Any = None) -> None:
        self.x = np.asarray(x, dtype=np.float64)
        self.ex = np.zeros_like(self.x) if ex is None else ex
        self.dx = dx
        self.edx = np.zeros_like(dx) if edx is None and dx is not None else edx

    @property
    def shape(self) -> tuple[int, ...]:
        """The value's shape."""
        return self.x.shape

    def _tangent(self, axes: int) -> tuple[np.ndarray, np.ndarray]:
        """Derivative and its bound with ``axes`` value axes, the direction axis in front."""
        missing = axes - self.x.ndim
        if missing <= 0:
            return self.dx, self.edx
        shape = (self.dx.shape[0], *(1,) * missing, *self.dx.shape[1:])
        return self.dx.reshape(shape), self.edx.reshape(shape)

    def __add__(self, other: Operand) -> Jet:
        o = _lift(other)
        x = self.x + o.x
        ex = self.ex + o.ex + np.abs(x)
        if self.dx is None and o.dx is None:
            return Jet(x, None, ex)
        parts = [part._tangent(x.ndim) for part in (self, o) if part.dx is not None]
        dx = parts[0][0] if len(parts) == 1 else parts[0][0] + parts[1][0]
        edx = parts[0][1] if len(parts) == 1 else parts[0][1] + parts[1][1] + np.abs(dx)
        return Jet(x, *_filled(dx, ex, edx))

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return Jet(-self.x, None if self.dx is None else -self.dx, self.ex, self.edx)

    def __sub__(self, other: Operand) -> Jet:
        return self + (-_lift(other))

    def __rsub__(self, other: Operand) -> Jet:
        return -self + other

    def __mul__(self, other: Operand) -> Jet:
        o = _lift(other)
        x = self.x * o.x
        ax, ay = np.abs(self.x), np.abs(o.x)
        ex = ax * o.ex + ay * self.ex + np.abs(x)
        terms = []
        if self.dx is not None:
            d, e = self._tangent(x.ndim)
            terms.append((d * o.x, e * ay + np.abs(d) * o.ex))
        if o.dx is not None:
            d, e = o._tangent(x.ndim)
            terms.append((self.x * d, e * ax + np.abs(d) * self.ex))
        if not terms:
            return Jet(x, None, ex)
        dx, edx = terms[0]
        edx = edx + np.abs(dx)
        if len(terms) == 2:
            dx, edx = dx + terms[1][0], edx + terms[1][1] + np.abs(terms[1][0])
            edx = edx + np.abs(dx)
        return Jet(x, *_filled(dx, ex, edx))

    __rmul__ = __mul__

    def reciprocal(self) -> Jet:
        """1 / x."""
        y = 1.0 / self.x
        ay = np.abs(y)
        ey = self.ex * ay * ay + ay
        if self.dx is None:
            return Jet(y, None, ey)
        dx = -self.dx * y * y
        edx = self.edx * ay * ay + 2 * np.abs(self.dx) * ay * ey + 2 * np.abs(dx)
        return Jet(y, dx, ey, edx)

    def __truediv__(self, other: Operand) -> Jet:
        return self * _lift(other).reciprocal()

    def __rtruediv__(self, other: Operand) -> Jet:
        return _lift(other) * self.reciprocal()

    def exp(self) -> Jet:
        """exp x; 2 |x| roundings are charged for a maximum that an implementation may subtract and add back."""
        y = np.exp(self.x)
        ey = y * (self.ex + 2 * np.abs(self.x) + 2)
        if self.dx is None:
            return Jet(y, None, ey)
        dx = y * self.dx
        return Jet(y, dx, ey, y * self.edx + ey * np.abs(self.dx) + np.abs(dx))

    def log(self) -> Jet:
        """log x for x > 0."""
        y = np.log(self.x)
        ey = self.ex / self.x + 2 * np.abs(y) + 2
        if self.dx is None:
            return Jet(y, None, ey)
        dx = self.dx / self.x
        return Jet(y, dx, ey, self.edx / self.x + np.abs(dx) * self.ex / self.x + np.abs(dx))

    def sum(self, *axes: int) -> Jet:
        """Sum over ``axes`` (negative numbers), in any order."""
        length = 1
        for axis in axes:
            length *= self.x.shape[axis]
        n = max(length - 1, 0)

        def total(array: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return array.sum(axis=axes), bound.sum(axis=axes) + n * np.abs(array).sum(axis=axes)

        x, ex = total(self.x, self.ex)
        dx, edx = (None, None) if self.dx is None else total(self.dx, self.edx)
        return Jet(x, dx, ex, edx)

    def each(self, of: Callable[[np.ndarray, int], np.ndarray]) -> Jet:
        """A rearrangement of entries, applied to all four parts: ``of(array, leading axes)``."""
        dx, edx = (None, None) if self.dx is None else (of(self.dx, 1), of(self.edx, 1))
        return Jet(of(self.x, 0), dx, of(self.ex, 0), edx)

    def __getitem__(self, key: Any) -> Jet:
        key = key if isinstance(key, tuple) else (key,)
        return self.each(lambda array, leading: array[(slice(None),) * leading + key])

    def move(self, source: int, target: int) -> Jet:
        """Axes moved as by numpy.moveaxis (negative numbers)."""
        return self.each(lambda array, _: np.moveaxis(array, source, target))


def _filled(dx: np.ndarray, ex: np.ndarray, edx: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dx, ex, edx with all axes of the value: a later sum runs over them."""
    full = (dx.shape[0], *ex.shape)
    if dx.shape != full:
        dx = np.broadcast_to(dx, full)
    return dx, ex, edx if edx.shape == full else np.broadcast_to(edx, full)


def _lift(other: Operand) -> Jet:
    return other if isinstance(other, Jet) else Jet(other)


def leaf(x: np.ndarray) -> Jet:
    """A variable: its derivative along direction r is the r-th unit vector, so T = the number of entries."""
    x = np.asarray(x, dtype=np.float64)
    return Jet(x, np.eye(x.size).reshape(x.size, *x.shape))


def along(x: np.ndarray, direction: np.ndarray) -> Jet:
    """A variable that moves in one given direction (T = 1)."""
    return Jet(x, np.asarray(direction, dtype=np.float64)[None])


def constant(x: np.ndarray | float) -> Jet:
    """A constant: no derivative."""
    return Jet(x)


def matmul(one: Jet, two: Jet) -> Jet:
    """sum_c one_ic two_cj over the last two axes."""
    return (one[..., :, :, None] * two[..., None, :, :]).sum(-2)


def matmul_t(one: Jet, two: Jet) -> Jet:
    """sum_c one_ic two_jc over the last axis of both."""
    return (one[..., :, None, :] * two[..., None, :, :]).sum(-1)
