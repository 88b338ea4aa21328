"""Examples outside of the small box in which the laws are drawn: longer, wider, with other rates, scales and steps.

An example of a check becomes another of the same kind with what made it fit for that check (no mask stays no mask, two
visible keys stay two), so that every check can be asked about it. Numbers use every bit of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from bayesgrad.testing.examples import Array, Clusters, Head, Layer, Logits, Mixture, Moved, Stepped, SteppedLayer
from bayesgrad.testing.models import Joint, Sequences, Simplex

Random = np.random.Generator
SIZES = ((9, 17, 6, 7), (17, 9, 7, 6), (10, 10, 11, 8), (3, 33, 8, 9), (12, 11, 9, 3))
RATES = (0.1, 0.3, 0.5, 0.9)
SCALES = (None, 1.0, 2.718281828459045, 0.0421, -0.7548776662)
TOPS = (3.0, 3.0, 10.0, 30.0)
"""Sizes (n, m, d_k, d_v), rates of dropout, scales, and how large the largest score is."""


def reals(rng: Random, *shape: int) -> Array:
    """Numbers of either sign with full significands, magnitudes over a factor of 16."""
    return rng.uniform(1, 2, shape) * rng.choice((-1.0, 1.0), shape) * 2.0 ** rng.integers(-3, 1, shape)


def multiplier(rng: Random, *shape: int) -> Array:
    """A dropout multiplier; some rates keep little."""
    rate = float(rng.choice(RATES))
    return (rng.random(shape) >= rate) / (1 - rate)


def mask_like(rng: Random, mask: Array | None, n: int, m: int) -> Array | None:
    """A larger mask in which each query sees two keys at least; the first two only if that is so in ``mask``."""
    if mask is None:
        return None
    made = np.zeros((n, m), dtype=bool)
    if not (mask[:, :2].all() and not mask[:, 2:].any()):
        made = rng.random((n, m)) < 0.6
        kind = int(rng.integers(0, 3))
        if kind == 1:  # queries that do not see the first keys
            made[::2, : m // 2] = False
        if kind == 2:  # the last query sees the last key
            made = np.tri(n, m, max(m - n, 1), dtype=bool)
        at = rng.integers(0, m - 1, n)
        made[np.arange(n), at], made[np.arange(n), at + 1] = True, True
        return made
    made[:, :2] = True
    return made


@singledispatch
def larger(example: Any, rng: Random) -> Any:
    """A larger example of the same kind; None for kinds that have none here."""
    return None


@larger.register
def _(example: Head, rng: Random) -> Head:
    n, m, d_k, d_v = SIZES[int(rng.integers(0, len(SIZES)))]
    q, k, v, u = (reals(rng, *shape) for shape in ((n, d_k), (m, d_k), (m, d_v), (n, d_v)))
    scale = SCALES[int(rng.integers(0, len(SCALES)))]
    made = Head(q, k, v * 2.0 ** rng.integers(-9, 3), u * 2.0 ** rng.integers(-9, 1), scale=scale)
    top = float(rng.choice(TOPS)) / np.abs(made.scores()).max()
    return replace(
        made,
        q=q * top,
        mask=mask_like(rng, example.mask, n, m),
        bias=None if example.bias is None else 2 * reals(rng, n, m),
        dropout=None if example.dropout is None else multiplier(rng, n, m),
    )


@larger.register
def _(example: Stepped, rng: Random) -> Stepped:
    return Stepped(larger(example.head, rng), step(rng))


def step(rng: Random) -> float:
    """A step size of either sign."""
    return float(rng.choice((-1.0, 1.0)) * rng.uniform(0.1, 3))


@larger.register
def _(example: Logits, rng: Random) -> Logits:
    n, C = ((3, 17), (9, 65), (20, 9), (2, 130))[int(rng.integers(0, 4))]
    targets = rng.integers(0, C, n)
    if (example.targets == -100).any():
        targets[rng.random(n) < 0.4] = -100
        targets[0] = C - 1
    weights = None if example.class_weights is None else rng.uniform(0.01, 5, C)
    smoothing = float(rng.uniform(0.02, 0.98)) if example.label_smoothing else 0.0
    z = reals(rng, n, C) * float(rng.choice((0.01, 1.0, 10.0)))
    return Logits(z, targets, example.reduction, weights, smoothing)


@larger.register
def _(example: Moved, rng: Random) -> Moved:
    logits = larger(example.logits, rng)
    return Moved(logits, logits.z + reals(rng, *logits.z.shape))


@larger.register
def _(example: Layer, rng: Random) -> Layer:
    H, G = (1, 1) if example.heads == 1 else ((6, 2), (4, 4), (5, 1))[int(rng.integers(0, 3))]
    n, m, d_k, d_v, C, d_x = ((9, 11, 6, 7, 17, 8), (10, 9, 7, 3, 12, 6))[int(rng.integers(0, 2))]
    crossed = example.y is not None
    m = m if crossed else n
    same = not crossed or example.W_Q.shape[0] == example.W_K.shape[0]
    d_y = d_x if same else d_x + 1
    shapes = {"W_Q": (d_x, H * d_k), "W_K": (d_y, G * d_k), "W_V": (d_y, G * d_v), "W_O": (H * d_v, C)}
    vectors = {"c_Q": H * d_k, "c_K": G * d_k, "c_V": G * d_v, "c_O": C}
    made = {name: reals(rng, *shape) / shape[0] ** 0.5 for name, shape in shapes.items()}
    made |= {name: reals(rng, size) for name, size in vectors.items() if getattr(example, name) is not None}
    targets = rng.integers(0, C, n)
    if (example.targets == -100).any():
        targets[rng.random(n) < 0.4] = -100
        targets[0] = C - 1
    return replace(
        example,
        x=reals(rng, n, d_x),
        y=reals(rng, m, d_y) if crossed else None,
        targets=targets,
        mask=mask_like(rng, example.mask, n, m),
        beta=None if example.beta is None else reals(rng, n, m),
        dropout=None if example.dropout is None else multiplier(rng, n, m),
        scale=(None, 1.3, -0.4)[int(rng.integers(0, 3))],
        heads=H,
        kv_heads=G,
        **made,
    )


@larger.register
def _(example: SteppedLayer, rng: Random) -> SteppedLayer:
    layer = larger(example.layer, rng)
    return SteppedLayer(layer, step(rng), reals(rng, *layer.W_O.shape), reals(rng, layer.W_O.shape[1]))


@larger.register
def _(example: Mixture, rng: Random) -> Mixture:
    m = int(rng.choice((9, 17, 65)))
    priors = rng.integers(0, 99, m)
    priors[:2] += 1
    return Mixture(priors, 3 * reals(rng, m), reals(rng, m))


@larger.register
def _(example: Clusters, rng: Random) -> Clusters:
    n, m, d, _ = SIZES[int(rng.integers(0, len(SIZES)))]
    priors = rng.integers(0, 9, m)
    priors[0] += 1
    return Clusters(reals(rng, n, d), reals(rng, m, d), priors, float(rng.uniform(0.1, 2)))


def _weights(rng: Random, *shape: int, positive: bool = False) -> Array:
    made = rng.integers(int(positive), 99, shape) * (positive | (rng.random(shape) < 0.7))
    made[..., 0] += made.sum(-1) == 0
    return made


@larger.register
def _(example: Simplex, rng: Random) -> Simplex:
    c, y = ((7, 19), (2, 65), (11, 9))[int(rng.integers(0, 3))]
    full = bool((example.q > 0).all())
    return Simplex(_weights(rng, c, positive=True), _weights(rng, c, y), _weights(rng, c, y, positive=full))


@larger.register
def _(example: Joint, rng: Random) -> Joint:
    c, theta, x, y = ((3, 9, 2, 11), (2, 17, 1, 7))[int(rng.integers(0, 2))]
    possible = bool((example.inputs > 0).all())
    return Joint(
        _weights(rng, c, positive=True), _weights(rng, c, theta), _weights(rng, c, x, positive=possible),
        _weights(rng, x, theta, y),
    )  # fmt: skip


@larger.register
def _(example: Sequences, rng: Random) -> Sequences:
    size, length = ((7, 3), (3, 6), (17, 2))[int(rng.integers(0, 3))]
    weights, outcomes = _weights(rng, *(size,) * length), rng.integers(0, size, length)
    weights[tuple(outcomes)] += 1
    return Sequences(weights, outcomes)


def grown(examples: list[Any], make: Callable[[Any, Random], Any] = larger) -> list[Any]:
    """Each example made larger, by numbers that depend on its place alone."""
    return [make(example, np.random.Generator(np.random.PCG64(place))) for place, example in enumerate(examples)]
