"""Arrays of exact fractions on which the shipped functions run unchanged.

They announce themselves as symbols, so ``bayesgrad`` treats them as it treats expressions. The exponential is the
positive function x -> 2^x at whole numbers x: it has exp(x + y) = exp(x) exp(y), which is all that the laws use, and
it stays rational. A logarithm would not; :class:`NoNumber` stands in its place and raises where somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np


class NoNumber:
    """What has no rational value: absorbs arithmetic, refuses to be read."""

    def _same(self, *_: Any) -> NoNumber:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _same


def exponential(x: Any) -> Fraction:
    """2^x, defined at whole numbers only."""
    power = Fraction(x)
    if power.denominator != 1:
        raise ValueError(f"exponential: got {power}, expected a whole number, where 2^x is rational")
    return Fraction(2) ** power.numerator


class Rationals(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of Fractions (and of NoNumber) with the operators of NumPy."""

    dtype = "fraction"

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=object)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def ndim(self) -> int:
        return self.values.ndim

    def __getitem__(self, key: Any) -> Rationals:
        return Rationals(self.values[key])

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return NAMESPACE

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = getattr(ufunc, method)(*(raw(x) for x in inputs), **options)
        return out if isinstance(out, np.ndarray) and out.dtype == bool else Rationals(out)

    def numbers(self) -> list[Fraction]:
        """All entries, row by row. Raises TypeError if one is no number."""
        return [Fraction(x) for x in self.values.reshape(-1)]


def raw(x: Any) -> Any:
    """The NumPy array inside, of sequences too; booleans become the whole numbers 0 and 1."""
    if isinstance(x, Rationals):
        return x.values
    if isinstance(x, np.ndarray) and x.dtype == bool:
        return x.astype(int).astype(object)
    if isinstance(x, list | tuple) and any(isinstance(part, Rationals) for part in x):
        return [raw(part) for part in x]
    return x


def _wrapped(function: Callable[..., Any]) -> Callable[..., Rationals]:
    return lambda *args, **options: Rationals(function(*(raw(x) for x in args), **options))


def _each(function: Callable[[Any], Any]) -> Callable[[Rationals], Rationals]:
    def apply(x: Rationals) -> Rationals:
        out = np.empty(x.shape, dtype=object)
        for index in np.ndindex(x.shape):
            out[index] = function(x.values[index])
        return Rationals(out)

    return apply


def _where(condition: Any, x: Any, y: Any) -> Rationals:
    truth = condition.values.astype(bool) if isinstance(condition, Rationals) else np.asarray(condition)
    return Rationals(np.where(truth, raw(x), raw(y)))


def _full(value: int) -> Callable[..., Rationals]:
    return lambda shape, **_: Rationals(np.full(shape, Fraction(value), dtype=object))


class Namespace:
    """The array-API functions of NumPy on the arrays inside, but for those that would leave the rationals."""

    __name__ = "rationals"
    __bayesgrad_symbolic__ = True
    where = staticmethod(_where)
    zeros = staticmethod(_full(0))
    ones = staticmethod(_full(1))
    exp = staticmethod(_each(exponential))
    log = staticmethod(_each(lambda _: NoNumber()))

    @staticmethod
    def zeros_like(x: Rationals, **_: Any) -> Rationals:
        return _full(0)(x.shape)

    @staticmethod
    def ones_like(x: Rationals, **_: Any) -> Rationals:
        return _full(1)(x.shape)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _wrapped(getattr(np, name))


NAMESPACE = Namespace()


def rationals(values: Iterable[Any]) -> Rationals:
    """An array of Fractions from nested sequences of anything that Fraction takes."""
    return _each(Fraction)(Rationals(values))
