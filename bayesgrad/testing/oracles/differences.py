"""High-precision differences: L along a line through the example, in 50 digits, by the loops of the definition.

The directional derivative D is the central difference (L(h) - L(-h)) / 2h at h = 1e-16, exact to about 30 digits. The
Taylor remainder |L(h) - L(0) - h D| must shrink like h^2; its slope between two steps is returned with D, so a loss
that were not smooth there, or a difference that were not its derivative, would be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from ..examples import Array, Head, Logits
from . import loops

DIGITS = 50
_H = mpmath.mpf(10) ** -16


def directional(f: Callable[[Any], Any]) -> tuple[float, float]:
    """(f'(0), slope of the Taylor remainder); the slope is 2 for a smooth f, or inf where f is affine."""
    with mpmath.workdps(DIGITS):
        derivative = (f(_H) - f(-_H)) / (2 * _H)
        start = f(mpmath.mpf(0))
        remainders = [abs(f(h) - start - h * derivative) for h in (mpmath.mpf(2) ** -14, mpmath.mpf(2) ** -15)]
        # The difference itself is good to about 34 digits; below that, a remainder is its rounding.
        if remainders[1] <= mpmath.mpf(10) ** (20 - DIGITS) * (1 + abs(start)):
            return float(derivative), float("inf")
        return float(derivative), float(mpmath.log(remainders[0] / remainders[1], 2))


def _mp(array: Array) -> Any:
    if array.ndim == 0:
        return mpmath.mpf(float(array))
    return [_mp(row) for row in array]


def _step(array: Any, direction: Any, t: Any) -> Any:
    if isinstance(array, list):
        return [_step(x, d, t) for x, d in zip(array, direction, strict=True)]
    return array + t * direction


def direction_for(shape: tuple[int, ...]) -> Array:
    """A fixed direction without zeros and without a symmetry: 1, -3, 5, -7, ... over 4, in order."""
    size = int(np.prod(shape))
    signs = np.where(np.arange(size) % 2 == 0, 1.0, -1.0)
    return ((2 * np.arange(size) + 1) * signs / 4).reshape(shape)


def head_loss(head: Head, name: str, direction: Array) -> Callable[[Any], Any]:
    """t -> L with the stage or parameter ``name`` moved by t * direction."""
    stages: dict[str, Any] = {x: _mp(getattr(head, x)) for x in ("q", "k", "v", "u")}
    stages["scale"] = mpmath.mpf(head.the_scale)
    stages["bias"] = _mp(np.zeros(head.visible.shape) if head.bias is None else head.bias)
    visible, multiplier = head.visible.tolist(), _mp(head.multiplier)
    move = _mp(direction)
    first = ("q", "k", "scale", "bias")

    def loss(t: Any) -> Any:
        x = dict(stages)
        if name in x:
            x[name] = _step(x[name], move, t)
        s = loops.scores(*(x[part] for part in first))
        s = _step(s, move, t) if name == "s" else s
        a = loops.weights(s, visible, mpmath.exp)
        a = _step(a, move, t) if name == "a" else a
        g = loops.context(a, x["v"], multiplier)
        g = _step(g, move, t) if name == "g" else g
        return loops.inner(x["u"], g)

    return loss


def logit_loss(logits: Logits, direction: Array) -> Callable[[Any], Any]:
    """t -> cross-entropy with the logits moved by t * direction."""
    z, t_soft, move = _mp(logits.z), _mp(logits.soft_targets()), _mp(direction)

    def loss(t: Any) -> Any:
        return loops.cross_entropy(_step(z, move, t), t_soft, mpmath.exp, mpmath.log)

    return loss
