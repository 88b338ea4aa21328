"""A block: one question to a kernel, as arrays, in the conventions of the package.

Arrays are (batch, heads, positions, width); those of one batch and one head may be given, and are printed, without
the first two axes. ``mask`` is what the kernel is handed (True: may attend), (batch or 1, 1, n or 1, m). ``align``,
``left`` and ``right`` are the band that it makes by itself: query i sees keys j with -left <= j - (i + o) <= right,
where o = 0 for "upper-left" and m - n for "lower-right". ``slopes`` (heads,) subtract slope |j - (i + o)| from the
scores (ALiBi), ``cap`` c makes them c tanh(s / c) before that and the bias, ``sink`` (heads,) adds exp(sink) to the sum
of exponentials, ``dropout`` is the multiplier D, ``dlse`` (batch, heads, n) the upstream gradient of the log-sum-exp.
Queries of head h read key head h // (heads / key heads).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bayesgrad.testing.examples import Array, Example, as_code

ALIGNMENTS = ("upper-left", "lower-right")
_FOUR = ("q", "k", "v", "u", "mask", "bias", "dropout")


@dataclass(frozen=True, eq=False, repr=False)
class Block(Example):
    """See above. ``scale`` None means 1/sqrt(d_k); ``memory``: how the arrays lie there (:mod:`.memory`)."""

    q: Array
    k: Array
    v: Array
    u: Array
    mask: Array | None = None
    bias: Array | None = None
    slopes: Array | None = None
    cap: float | None = None
    sink: Array | None = None
    dropout: Array | None = None
    dlse: Array | None = None
    scale: float | None = None
    align: str | None = None
    left: int | None = None
    right: int | None = None
    memory: str = "plain"

    def __post_init__(self) -> None:
        for name in (*_FOUR, "dlse"):
            x, axes = getattr(self, name), 3 if name == "dlse" else 4
            if x is not None:
                x = np.asarray(x)
                object.__setattr__(self, name, x.reshape((1,) * (axes - x.ndim) + x.shape))

    def __repr__(self) -> str:
        """Code that rebuilds it; what is at its default is left out."""
        said = []
        for field in fields(self):
            x = getattr(self, field.name)
            if x is None or (field.name == "memory" and x == "plain"):
                continue
            if isinstance(x, np.ndarray):
                while x.ndim > (1 if field.name in ("dlse", "slopes", "sink") else 2) and x.shape[0] == 1:
                    x = x[0]
            said.append(f"{field.name}={as_code(x)}")
        return f"Block({', '.join(said)})"

    @property
    def sizes(self) -> dict[str, int]:
        """n, m, d_k, d_v, batch, heads, key heads."""
        batch, heads, n, d_k = self.q.shape
        key_heads, m, d_v = self.v.shape[1:]
        return {"n": n, "m": m, "d_k": d_k, "d_v": d_v, "batch": batch, "heads": heads, "key heads": key_heads}

    @property
    def the_scale(self) -> float:
        """The scale in force."""
        return float(self.q.shape[-1]) ** -0.5 if self.scale is None else float(self.scale)

    @property
    def distance(self) -> Array:
        """|j - (i + o)| as (n, m): how far a key is from a query's own."""
        return np.abs(self._ahead).astype(np.float64)

    @property
    def _ahead(self) -> Array:
        n, m = self.q.shape[2], self.k.shape[2]
        return np.arange(m) - np.arange(n)[:, None] - (m - n if self.align == "lower-right" else 0)

    @property
    def visible(self) -> Array:
        """Which query may see which key: what is handed over and the kernel's own band, (batch, 1, n, m)."""
        shape = (self.q.shape[0], 1, self.q.shape[2], self.k.shape[2])
        seen = np.broadcast_to(True if self.mask is None else self.mask, shape)
        if self.left is not None:
            seen = seen & (self._ahead >= -self.left)
        if self.right is not None:
            seen = seen & (self._ahead <= self.right)
        return seen

    def by_group(self, x: Array) -> Array:
        """(batch, heads or 1, ...) with the heads of a group on an axis of their own; 1 stays 1."""
        groups = self.k.shape[1]
        share = self.q.shape[1] // groups
        split = (1, 1) if x.shape[1] == 1 != self.q.shape[1] else (groups, share)
        return x.reshape((x.shape[0], *split, *x.shape[2:]))

    def grouped(self, name: str, x: Array | None = None) -> Array:
        """The input of that name, or ``x`` of its shape, with groups; keys that nobody sees are 0."""
        x = np.asarray(getattr(self, name) if x is None else x)
        if name in ("slopes", "sink"):
            return self.by_group(x.reshape(1, -1, 1, 1))
        if name == "dlse":
            return self.by_group(x[..., None])
        if name in ("k", "v"):
            x = np.where(np.asarray(self.visible.any(2))[..., None], x, 0.0)
            return x[:, :, None]
        return self.by_group(x)

    def bare(self, name: str, x: Array) -> Array:
        """The inverse of :meth:`grouped`: a result in the shape of what it belongs to."""
        name = {"context": "u", "jvp": "u", "lse": "dlse"}.get(name, name.rpartition(" ")[2])
        given = getattr(self, name)
        shape = self.q.shape[:3] if name == "dlse" else given.shape
        return np.asarray(x.reshape(shape), dtype=np.float64)

    def inputs(self) -> dict[str, Any]:
        """Arrays and numbers by name, without what is not given."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
