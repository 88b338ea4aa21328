"""Backward functions to try the judge on: a right one, and one with a subtle mistake."""

from __future__ import annotations

import numpy as np

from bayesgrad.testing.examples import Array

Gradients = tuple[Array, Array, Array]


def numpy_right(q: Array, k: Array, v: Array, u: Array, *, mask: Array | None, scale: float) -> Gradients:
    """The textbook backward pass in NumPy, rows without keys and keys without queries taken out first."""
    n, m = len(q), len(k)
    visible = np.ones((n, m), dtype=bool) if mask is None else mask
    rows, columns = visible.any(1), visible.any(0)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    if not rows.any():
        return dq, dk, dv
    seen = visible[np.ix_(rows, columns)]
    qs, ks, vs, us = q[rows], k[columns], v[columns], u[rows]
    s = np.where(seen, (qs * q.dtype.type(scale)) @ ks.T, -np.inf)
    a = np.exp(s - s.max(axis=1, keepdims=True))
    a /= a.sum(axis=1, keepdims=True)
    b = us @ vs.T
    ds = a * (b - (a * b).sum(axis=1, keepdims=True)) * q.dtype.type(scale)
    dq[rows], dk[columns], dv[columns] = ds @ ks, ds.T @ qs, a.T @ us
    return dq, dk, dv


def numpy_wrong(q: Array, k: Array, v: Array, u: Array, *, mask: Array | None, scale: float) -> Gradients:
    """The same but for the mean of b, which runs over all keys and not under the weights: right for uniform weights."""
    n, m = len(q), len(k)
    visible = np.ones((n, m), dtype=bool) if mask is None else mask
    s = np.where(visible, (q * scale) @ k.T, -np.inf)
    a = np.exp(s - s.max(axis=1, keepdims=True))
    a = a / a.sum(axis=1, keepdims=True)
    b = u @ v.T
    ds = a * (b - b.mean(axis=1, keepdims=True)) * scale
    return ds @ k, ds.T @ q, a.T @ u


DEMONSTRATIONS = {
    "right": "bayesgrad.testing.demonstrations:numpy_right",
    "wrong": "bayesgrad.testing.demonstrations:numpy_wrong",
}
"""name -> where it is."""
