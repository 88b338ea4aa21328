"""Argument validation: every error names the argument, what it got, what it expected, and often what to do.

Shapes and dtypes are always checked. Values (targets in range, rows that sum to 1) are checked in eager mode only, and
not at all with ``validate=False``.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesgrad import _arrays
from bayesgrad._arrays import Namespace

_NO_ARRAYS = (np.generic, numbers.Number, str, list, tuple)
_OTHER_RULES = {
    "MaskedArray",
    "matrix",
}  # subclasses of ndarray whose arithmetic means something else; named, not imported


def _kind(x: Any) -> str:
    dtype = getattr(x, "dtype", None)
    shape = getattr(x, "shape", None)
    if dtype is None or shape is None:
        return type(x).__name__
    return f"{type(x).__name__} of dtype {str(dtype).removeprefix('torch.')} and shape {tuple(shape)}"


def _one_namespace(name: str, x: Any) -> Namespace:
    other_rules = (
        isinstance(x, np.ndarray)
        and type(x) is not np.ndarray
        and any(c.__name__ in _OTHER_RULES for c in type(x).__mro__)
    )
    if other_rules or isinstance(x, _NO_ARRAYS):
        raise TypeError(f"{name}: got {_kind(x)}, expected an array (NumPy, PyTorch, JAX or another array-API library)")
    try:
        return _arrays.namespace_of(x)
    except (TypeError, AttributeError):
        raise TypeError(
            f"{name}: got {_kind(x)}, expected an array (NumPy, PyTorch, JAX or another array-API library)"
        ) from None


def _device(x: Any) -> Any:
    jax = sys.modules.get("jax")
    if isinstance(x, np.ndarray) or (jax is not None and isinstance(x, jax.Array)):
        return None
    return getattr(x, "device", None)


def floats(optional: Mapping[str, Any] | None = None, /, **arrays: Any) -> Namespace:
    """The one namespace of the named floating arrays; they share dtype and device. An optional one may be None."""
    arrays |= {name: x for name, x in (optional or {}).items() if x is not None}
    xp: Namespace = None
    first: Any = None
    first_name = ""
    for name, x in arrays.items():
        own = _one_namespace(name, x)
        if not _arrays.symbolic(own):
            try:
                real = own.isdtype(x.dtype, "real floating")
            except (TypeError, ValueError):
                real = False
            if not real:
                raise TypeError(f"{name}: got {_kind(x)}, expected real floating numbers (convert them first)")
        if xp is None:
            xp, first, first_name = own, x, name
        elif own is not xp:
            raise TypeError(f"{name}: got {_kind(x)}, expected the same array library as {first_name} ({_kind(first)})")
        elif not _arrays.symbolic(xp) and x.dtype != first.dtype:
            raise TypeError(f"{name}: got {_kind(x)}, expected the dtype of {first_name} ({_kind(first)})")
        elif _device(x) != _device(first):
            raise TypeError(f"{name}: is on {_device(x)}, expected the device of {first_name} ({_device(first)})")
    assert xp is not None
    return xp


def _companion(xp: Namespace, name: str, x: Any, like: Any, kinds: str | tuple[str, ...], expected: str) -> None:
    own = _one_namespace(name, x)
    if own is not xp and not _arrays.symbolic(xp):
        raise TypeError(f"{name}: got {_kind(x)}, expected an array of the same library as the others ({_kind(like)})")
    try:
        good = own.isdtype(x.dtype, kinds)
    except (TypeError, ValueError):
        good = False
    if not good:
        raise TypeError(f"{name}: got {_kind(x)}, expected {expected}")
    if not _arrays.symbolic(xp) and _device(x) != _device(like):
        raise TypeError(f"{name}: is on {_device(x)}, expected the device of the others ({_device(like)})")


def booleans(xp: Namespace, name: str, x: Any, like: Any) -> None:
    """A boolean array (True = may attend); None passes."""
    if x is not None:
        _companion(xp, name, x, like, "bool", "booleans (True = may attend)")


def integers(xp: Namespace, name: str, x: Any, like: Any) -> None:
    """An integer array."""
    _companion(xp, name, x, like, "integral", "integers")


def is_floating(xp: Namespace, x: Any) -> bool:
    """Whether an argument that may hold indices or numbers holds numbers (symbols count as numbers)."""
    try:
        own = _arrays.namespace_of(x)
        return own is xp if _arrays.symbolic(xp) else bool(own.isdtype(x.dtype, "real floating"))
    except (TypeError, ValueError, AttributeError):
        return False


def shapes(**arguments: tuple[Any, str]) -> tuple[tuple[int, ...], Mapping[str, int]]:
    """Match shapes against words, e.g. ``shapes(q=(q, "n d_k"), k=(k, "m d_k"))``; all leading axes are equal.

    Returns the leading shape and the size of each word. None is skipped.
    """
    sizes: dict[str, int] = {}
    known: dict[str, str] = {}
    leading: tuple[int, ...] | None = None
    leading_name = ""
    for name, (x, pattern) in arguments.items():
        if x is None:
            continue
        words = pattern.split()
        shape = tuple(x.shape)
        wanted = f"(..., {', '.join(words)})" if words else "(...)"
        if len(shape) < len(words):
            raise ValueError(f"{name}: got shape {shape}, expected {wanted}")
        for word, size in zip(words, shape[len(shape) - len(words) :], strict=True):
            if sizes.setdefault(word, size) != size:
                raise ValueError(
                    f"{name}: got shape {shape}, expected {wanted} with {word} = {sizes[word]} as in {known[word]}"
                )
            known.setdefault(word, name)
        lead = shape[: len(shape) - len(words)]
        if leading is None:
            leading, leading_name = lead, name
        elif lead != leading:
            raise ValueError(
                f"{name}: got shape {shape}, expected {wanted} with the leading axes {leading} of {leading_name}"
            )
    return leading or (), sizes


def any_namespace(name: str, x: Any) -> Namespace:
    """The namespace of an array of any dtype."""
    return _one_namespace(name, x)


def at_least(name: str, x: Any, axes: int) -> None:
    """An array with at least so many axes."""
    _one_namespace(name, x)
    if len(x.shape) < axes:
        raise ValueError(f"{name}: got shape {tuple(x.shape)}, expected at least {axes} axes")


def matrix(name: str, x: Any, rows: tuple[str, int | None], columns: tuple[str, int | None]) -> None:
    """A matrix without leading axes; a size of None is free."""
    shape = tuple(x.shape)
    wanted = (rows, columns)
    if len(shape) != 2 or any(want not in (None, have) for have, (_, want) in zip(shape, wanted, strict=True)):
        said = ", ".join(word if size is None else f"{word} = {size}" for word, size in wanted)
        raise ValueError(f"{name}: got shape {shape}, expected ({said})")


def vector(name: str, x: Any, word: str, size: int) -> None:
    """A vector of a known size; None passes."""
    if x is not None and tuple(x.shape) != (size,):
        raise ValueError(f"{name}: got shape {tuple(x.shape)}, expected ({word} = {size},)")


def broadcastable(name: str, x: Any, shape: tuple[int, ...]) -> None:
    """A shape that broadcasts to ``shape`` without enlarging it; None passes."""
    if x is None:
        return
    have = tuple(x.shape)
    short = len(have) > len(shape) or any(
        size not in (1, want) for size, want in zip(have[::-1], shape[::-1], strict=False)
    )
    if short or len(have) < 1:
        raise ValueError(
            f"{name}: got shape {have}, expected one that broadcasts to {shape}{_missing_axes(name, have, shape)}"
        )


def _missing_axes(name: str, have: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """How to give one pattern for each example the axes that it lacks: of the heads, or of heads and queries."""

    def fits(new: tuple[int, ...]) -> bool:
        return len(new) == len(shape) and all(size in (1, want) for size, want in zip(new, shape, strict=True))

    for axes, index in (((*have[:-2], 1, *have[-2:]), "..., None, :, :"), ((*have[:-1], 1, 1, *have[-1:]), "")):
        if len(have) > 1 and fits(axes):
            said = ":, None" if len(have) == 3 and index else index or "..., None, None, :"
            return f"; one for each example is {name}[{said}]"
    return ""


def same_shape(name: str, x: Any, shape: tuple[int, ...], other: str) -> None:
    """Exactly the shape of another argument."""
    if tuple(x.shape) != tuple(shape):
        raise ValueError(f"{name}: got shape {tuple(x.shape)}, expected {tuple(shape)} as {other}")


def real(xp: Namespace, name: str, x: Any, *, positive: bool = False) -> Any:
    """A finite real number, or an array without axes (then only shape and dtype are looked at)."""
    if _arrays.symbolic(xp):
        return x
    if isinstance(x, numbers.Real) and not isinstance(x, bool | np.bool_):
        if not math.isfinite(x) or (positive and x <= 0):
            raise ValueError(f"{name}: got {x!r}, expected a finite {'positive ' if positive else ''}number")
        return float(x)
    if getattr(x, "shape", None) == () and not isinstance(x, np.generic):
        if not xp.isdtype(x.dtype, "real floating"):
            raise TypeError(f"{name}: got {_kind(x)}, expected a real number")
        return x
    raise TypeError(f"{name}: got {_kind(x)}, expected a real number or a floating array without axes")


def scale(xp: Namespace, x: Any, width: int) -> Any:
    """The scale of the scores: 1/sqrt(d_k) unless given (1 where d_k = 0, whose scores are 0 anyway)."""
    return 1 / math.sqrt(max(width, 1)) if x is None else real(xp, "scale", x)


def natural(name: str, x: Any, *, least: int = 0) -> int:
    """A Python integer, at least ``least``."""
    if isinstance(x, bool) or not isinstance(x, numbers.Integral):
        raise TypeError(f"{name}: got {_kind(x)}, expected an integer")
    if x < least:
        raise ValueError(f"{name}: got {int(x)}, expected an integer of at least {least}")
    return int(x)


def choice(name: str, x: Any, options: tuple[str, ...]) -> None:
    """One of a few strings."""
    if not isinstance(x, str):
        raise TypeError(f"{name}: got {_kind(x)}, expected one of {', '.join(map(repr, options))}")
    if x not in options:
        raise ValueError(f"{name}: got {x!r}, expected one of {', '.join(map(repr, options))}")


def weights_and_pairs(weights: Any, *, validate: bool, **pairs: Any) -> Namespace:
    """Weights (..., n, m), with arrays of their shape beside them."""
    xp = floats(weights=weights, **pairs)
    shapes(weights=(weights, "n m"))
    for name, x in pairs.items():
        same_shape(name, x, weights.shape, "weights")
    if validate:
        distributions(xp, "weights", weights)
    return xp


def weights_and_upstream(weights: Any, u: Any, *, validate: bool, **others: Any) -> Namespace:
    """Weights (..., n, m), the upstream gradient u (..., n, d_v), and values (..., m, d_v)."""
    xp = floats(weights=weights, u=u, **others)
    shapes(weights=(weights, "n m"), u=(u, "n d_v"), **{name: (x, "m d_v") for name, x in others.items()})
    if validate:
        distributions(xp, "weights", weights)
    return xp


def distributions(xp: Namespace, name: str, x: Any, *, empty: bool = True) -> None:
    """Rows that are nonnegative and sum to 1 (or, with ``empty``, are all 0). NaN passes: it propagates."""
    if not _arrays.concrete(x) or 0 in tuple(x.shape):
        return
    wide = _arrays.widen(xp, x)
    eps = float(xp.finfo(x.dtype).eps)
    total = xp.sum(wide, axis=-1)
    slack = 8 * eps * (8 + x.shape[-1] ** 0.5)
    wrong = xp.abs(total - 1) > slack
    if empty:
        wrong = xp.logical_and(wrong, total != 0)
    if _arrays.holds(xp.any(wrong)) or _arrays.holds(xp.min(wide) < 0):
        kind = "distributions, or zeros on empty rows" if empty else "distributions"
        raise ValueError(
            f"{name}: got rows that are negative somewhere or do not sum to 1, expected {kind} (last axis)"
        )
