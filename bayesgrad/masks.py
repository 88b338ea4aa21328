r"""Which query may see which key: True = may attend.

.. math:: \text{visible}_{ij} \iff -\text{left} \le j - (i + o) \le \text{right}, \qquad o = 0 \text{ or } m - n

Query i stands at key i + o. ``align="upper-left"`` means o = 0 (the first query stands at the first key),
``align="lower-right"`` means o = m - n (the last query stands at the last key, as in decoding with a cache). The two
agree only for n = m, so the alignment is never a default.
"""

from __future__ import annotations

from typing import Any, get_args, overload

import numpy as np

from bayesgrad import _arrays, _validate
from bayesgrad._types import Align, ArrayT, Bools

ALIGNMENTS = get_args(Align)
Mask = np.ndarray[Any, np.dtype[np.bool_]]
"""A mask in NumPy, which is what a caller gets who names no other library."""


@overload
def window_mask(
    n: int, m: int, *, left: int | None, right: int | None, align: Align, like: None = None
) -> Bools[Mask, "queries keys"]: ...


@overload
def window_mask(
    n: int, m: int, *, left: int | None, right: int | None, align: Align, like: ArrayT
) -> Bools[ArrayT, "queries keys"]: ...


def window_mask(
    n: int, m: int, *, left: int | None, right: int | None, align: Align, like: Any = None
) -> Bools[Any, "queries keys"]:
    """The sliding window: query i sees the keys from ``left`` before to ``right`` after its own, both included.

    Args:
        n, m: numbers of queries and keys.
        left, right: inclusive bounds, None = unbounded.
        align: "upper-left" or "lower-right".
        like: an array whose library and device the mask gets; NumPy by default.

    Returns:
        Booleans (n, m), True = may attend.

    Raises:
        TypeError, ValueError: a size that is no natural number, or an unknown alignment.

    Source: ours.

    >>> window_mask(2, 3, left=1, right=0, align="lower-right").tolist()
    [[True, True, False], [False, True, True]]
    """
    n, m = _validate.natural("n", n), _validate.natural("m", m)
    _validate.choice("align", align, ALIGNMENTS)
    left = None if left is None else _validate.natural("left", left)
    right = None if right is None else _validate.natural("right", right)
    offset = 0 if align == "upper-left" else m - n
    distance = np.arange(m) - (np.arange(n)[:, None] + offset)
    visible = np.ones((n, m), dtype=bool)
    if left is not None:
        visible &= distance >= -left
    if right is not None:
        visible &= distance <= right
    if like is None or isinstance(like, np.ndarray):
        return visible
    xp = _validate.floats(like=like)
    return xp.asarray(visible, device=_arrays.device_of(like))


@overload
def causal_mask(n: int, m: int, *, align: Align, like: None = None) -> Bools[Mask, "queries keys"]: ...


@overload
def causal_mask(n: int, m: int, *, align: Align, like: ArrayT) -> Bools[ArrayT, "queries keys"]: ...


def causal_mask(n: int, m: int, *, align: Align, like: Any = None) -> Bools[Any, "queries keys"]:
    """Each query sees its own key and those before it.

    Args:
        n, m: numbers of queries and keys.
        align: "upper-left" or "lower-right".
        like: an array whose library and device the mask gets; NumPy by default.

    Returns:
        Booleans (n, m), True = may attend.

    Raises:
        TypeError, ValueError: a size that is no natural number, or an unknown alignment.

    Source: standard; the two alignments are those of PyTorch's ``causal_upper_left`` and ``causal_lower_right``.

    >>> causal_mask(2, 3, align="upper-left").tolist()
    [[True, False, False], [True, True, False]]
    >>> causal_mask(2, 3, align="lower-right").tolist()
    [[True, True, False], [True, True, True]]
    """
    return window_mask(n, m, left=None, right=0, align=align, like=like)
