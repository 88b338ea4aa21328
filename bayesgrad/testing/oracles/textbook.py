"""The textbook backward pass with a running error bound for each entry: what large blocks are measured by.

    b = u v^T,  delta = sum_j a b,  ds = a (b - delta),  dq = scale ds k,  dk = scale ds^T q,  dv = a^T u

The rules are those of the jets, with products of matrices in place of sums over a third axis, so that a block of a
thousand keys costs milliseconds. Only the bounds are used: the values that a function is held against come from
oracles that do not know these formulas. In 16 bits, sums are taken to be accumulated in float32, and s, a, b, delta, ds
and the results to be rounded where they are stored: a bound of two parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayesgrad.testing.examples import Array, Head
from bayesgrad.testing.tolerance import SAFETY, unit_roundoff

NAMES = ("q", "k", "v")


@dataclass(frozen=True)
class Bounded:
    """A value and the bound on its error, in roundings."""

    x: Array
    e: Array

    @property
    def t(self) -> Bounded:
        """Transposed."""
        return Bounded(self.x.T, self.e.T)

    def times(self, other: Bounded) -> Bounded:
        """Entry by entry: one more rounding."""
        x = self.x * other.x
        return Bounded(x, np.abs(self.x) * other.e + self.e * np.abs(other.x) + np.abs(x))

    def minus(self, other: Bounded) -> Bounded:
        """Entry by entry: one more rounding."""
        x = self.x - other.x
        return Bounded(x, self.e + other.e + np.abs(x))

    def dot(self, other: Bounded) -> Bounded:
        """Product of matrices, summed in any order: L roundings of the sum of absolute values."""
        ax, ay = np.abs(self.x), np.abs(other.x)
        return Bounded(self.x @ other.x, self.e @ ay + ax @ other.e + self.x.shape[-1] * (ax @ ay))

    def sum(self) -> Bounded:
        """Over the last axis, which stays."""
        n = max(self.x.shape[-1] - 1, 0)
        return Bounded(self.x.sum(-1, keepdims=True), (self.e + n * np.abs(self.x)).sum(-1, keepdims=True))


def _exact(x: Array) -> Bounded:
    return Bounded(x, np.zeros_like(x))


def _seen(head: Head, x: Array) -> Array:
    """Rows of keys or values, 0 where no query sees the key: what stands there (NaN, perhaps) must not matter."""
    return np.where(np.asarray(head.visible.any(0))[:, None], x, 0.0)


def _weights(head: Head, k: Array, exact_scores: bool) -> Bounded:
    a = head.weights()
    if exact_scores:
        return Bounded(a, (a.shape[-1] + 4) * a)
    s = _exact(head.q).dot(_exact(k.T)).times(_exact(np.array(head.the_scale)))
    # As for the jets: 2 |s| pays for a maximum, or the logarithm of the sum, that is subtracted before exp.
    of_exp = np.where(head.visible, s.e + 2 * np.abs(s.x) + 2, 0.0)
    return Bounded(a, a * (of_exp + (a * of_exp).sum(-1, keepdims=True) + a.shape[-1] + 1))


def gradients(head: Head, *, exact_scores: bool = False) -> dict[str, tuple[Array, Array]]:
    """name -> (dL/d(name), its running error bound) for q, k and v of a head without bias and dropout.

    ``exact_scores``: the scores carry no error that matters (tied or saturated ones, whatever their size).
    """
    q, k, v, u = (_exact(x) for x in (head.q, _seen(head, head.k), _seen(head, head.v), head.u))
    a = _weights(head, k.x, exact_scores)
    b = u.dot(v.t)
    ds = a.times(b.minus(a.times(b).sum())).times(_exact(np.array(head.the_scale)))
    found = {"q": ds.dot(k), "k": ds.t.dot(q), "v": a.t.dot(u)}
    return {name: (got.x, got.e) for name, got in found.items()}


def stored(head: Head, *, exact_scores: bool = False) -> dict[str, Array]:
    """name -> the error, in roundings of the storage format, that storing s, a, b, delta, ds and results can make."""
    k, v, scale = _seen(head, head.k), _seen(head, head.v), abs(head.the_scale)
    a, b = head.weights(), head.u @ v.T
    s = np.zeros_like(a) if exact_scores else np.where(head.visible, scale * np.abs(head.q @ k.T), 0.0)
    delta = (a * b).sum(-1, keepdims=True)
    ds = a * (b - delta)
    of_a = a * (s + (a * s).sum(-1, keepdims=True)) + a
    of_delta = (of_a * np.abs(b) + a * np.abs(b)).sum(-1, keepdims=True) + np.abs(delta)
    of_ds = of_a * np.abs(b - delta) + a * (np.abs(b) + of_delta) + np.abs(ds)
    return {
        "q": scale * (of_ds @ np.abs(k) + np.abs(ds @ k)),
        "k": scale * (of_ds.T @ np.abs(head.q) + np.abs(ds.T @ head.q)),
        "v": of_a.T @ np.abs(head.u) + np.abs(a.T @ head.u),
    }


def tolerances(
    head: Head, dtype: str, bounds: dict[str, tuple[Array, Array]] | None = None, *, exact_scores: bool = False
) -> dict[str, Array]:
    """name -> the largest admitted error of dq, dk, dv in ``dtype``; ``bounds``: of another source than here."""
    bounds = bounds or gradients(head, exact_scores=exact_scores)
    narrow = dtype in ("float16", "bfloat16")
    u = unit_roundoff("float32" if narrow else dtype)
    admitted = {name: SAFETY * u * bounds[name][1] for name in NAMES}
    if not narrow:
        return admitted
    more = stored(head, exact_scores=exact_scores)
    return {name: x + SAFETY * unit_roundoff(dtype) * more[name] for name, x in admitted.items()}
