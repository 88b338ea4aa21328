"""Recipes: a block in a few words, from which its arrays follow; what the judge draws, shrinks, and prints when large.

Entries have full significands of the format under test and magnitudes spread over a factor of 16 around 2^exponent, or
``digits`` significant bits. Scores are brought to a size: "plain" (about 3), "level L" (every score of a query near +L
or -L, a few apart), "spread" (up to 100), "tied", "huge" (tied, beyond the range of exp), "saturated", or "zero".
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from bayesgrad.testing.examples import Array, Example
from bayesgrad.testing.kernels.blocks import Block
from bayesgrad.testing.kernels.claims import Claims
from bayesgrad.testing.kernels.formats import Format

TILE = 64
"""A tile whose keys are hidden together."""

SUBNORMAL = -9999
"""The exponent that stands for upstream gradients of a few smallest numbers."""


@dataclass(frozen=True, eq=False, repr=False)
class Recipe(Example):
    """A block of n queries and m keys. ``mask``: what is handed over, see :meth:`handed`.

    ``bias``: "pairs", "keys", "heads" or "whole", the axes that it is not broadcast along, or "zero"; ``dropout``: the
    rate; ``digits``: significant bits of entries, 0 for all of the format's.
    """

    n: int
    m: int
    d_k: int = 1
    d_v: int = 1
    batch: int = 1
    heads: int = 1
    key_heads: int = 1
    mask: str = "none"
    score: str = "plain"
    value: int = 0
    upstream: int = 0
    scale: float | None = None
    bias: str = "none"
    slopes: bool = False
    cap: float | None = None
    sink: float | None = None
    dropout: float = 0.0
    dlse: bool = False
    digits: int = 0
    memory: str = "plain"
    seed: int = 0

    def __repr__(self) -> str:
        """Code that rebuilds it; what is at its default is left out."""
        said = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Recipe({', '.join(said)})"

    @property
    def exact_scores(self) -> bool:
        """Whether scores are such that a weight is exact whatever their last digits are."""
        return self.score in ("huge", "saturated")

    def block(self, can: Claims, format: Format) -> Block:
        """Its arrays."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        B, H, G, n, m = self.batch, self.heads, self.key_heads, self.n, self.m

        def entries(*shape: int, exponent: int = 0) -> Array:
            x = rng.integers(2 ** (format.digits - 1), 2**format.digits, shape) * rng.choice((-1.0, 1.0), shape)
            return np.ldexp(x, exponent + 1 - format.digits + rng.integers(-2, 3, shape))

        q, k = entries(B, H, n, self.d_k), entries(B, G, m, self.d_k)
        v, u = entries(B, G, m, self.d_v, exponent=self.value), entries(B, H, n, self.d_v)
        w = entries(B, H, n, exponent=self.value)
        u, w = (self._upstream(x, format) for x in (u, w))
        scale = self.d_k**-0.5 if self.scale is None else self.scale
        q, k = self._scored(rng, q, k, scale, format)
        if self.memory == "expanded":
            u = np.broadcast_to(u[:1, :1, :1, :1], u.shape)
        if format.largest < 2.0**16:  # what is summed up on the way must be a number, too
            deepest = float(np.abs(u).max() * np.abs(v).max(initial=0)) * self.d_v**0.5
            factors = max(1.0, abs(scale) * float(np.abs(k).max(initial=0) + n**0.5 * np.abs(q).max(initial=0)))
            u = np.ldexp(u, -max(0, int(np.ceil(np.log2(deepest * factors + 1e-30))) - 13))
        mask = self.handed()
        if mask is not None and self.mask.startswith("nan") and m > 1:
            k, v = (np.where(mask[0, 0, 0][:, None], x, np.nan) for x in (k, v))
        D = None
        if can.dropout:
            D = (rng.random((B, H, n, m)) >= self.dropout) / (1 - self.dropout)
        shapes = {"pairs": (1, 1, n, m), "heads": (1, H, n, m), "whole": (B, H, n, m), "none": None}
        shape = shapes.get(self.bias, (1, 1, 1, m))
        bias = None if shape is None else format.round(entries(*shape) * (self.bias != "zero"), self.digits)
        q, k, v, u = (format.round(x, self.digits) for x in (q, k, v, u))
        made = Block(
            q,
            k,
            v,
            u,
            mask=mask,
            bias=bias,
            slopes=format.round(2.0 ** rng.uniform(-8, -1, H), self.digits) if self.slopes else None,
            cap=self.cap,
            sink=None if self.sink is None else format.round(self.sink + rng.uniform(-1, 1, H), self.digits),
            dropout=None if D is None else format.round(D),
            dlse=format.round(w, self.digits) if self.dlse else None,
            scale=self.scale,
            memory=self.memory,
            **can.band,
        )
        return made if can.empty_rows else with_keys(made)

    def _upstream(self, x: Array, format: Format) -> Array:
        if self.upstream == SUBNORMAL:
            return np.sign(x) * np.ceil(32 * np.abs(x)) * format.least
        return np.ldexp(x, self.upstream)

    def _scored(
        self, rng: np.random.Generator, q: Array, k: Array, scale: float, format: Format
    ) -> tuple[Array, Array]:
        """Queries and keys whose scores have the size that is asked for."""
        if self.score in ("tied", "huge", "saturated"):
            return self._extreme(rng, q, k, scale, format)
        if self.score == "zero":
            return 0.0 * q, k

        def products(q: Array, k: Array) -> Array:
            return abs(scale) * (q @ np.repeat(k, self.heads // self.key_heads, 1).swapaxes(-1, -2))

        deepest = float(np.abs(products(q, k)).max(initial=0)) or 1.0
        if self.score == "plain" or self.score == "spread":
            balance = 2.0 ** int(rng.integers(-format.reach // 4, format.reach // 4 + 1))
            return q * ((3.0 if self.score == "plain" else 100.0) / deepest * balance), k / balance
        way = rng.choice((-1.0, 1.0), self.d_k) / self.d_k**0.5
        long = (float(self.score.split()[1]) / abs(scale)) ** 0.5
        sign = rng.choice((-1.0, 1.0), (*q.shape[:3], 1))
        # t^2 second + t first = 1: how far apart the scores of a query are
        second = float((products(q, k) ** 2).mean()) ** 0.5 if self.m else 1.0
        first = long * abs(scale) * float(np.std(k @ way)) if self.m else 0.0
        t = 2 / (first + (first**2 + 4 * second) ** 0.5)
        return sign * long * way + q * t, long * way + k * t

    def _extreme(
        self, rng: np.random.Generator, q: Array, k: Array, scale: float, format: Format
    ) -> tuple[Array, Array]:
        """Scores that are equal, or so far apart that exp cannot tell: one number in the first column decides."""
        k = k.copy()
        if self.score == "saturated":
            pair = int(rng.integers(0, max(self.m, 1)))
            k[..., 0] = 0.0
            if self.m:
                k[..., (pair + 1) % self.m, 0], k[..., pair, 0] = -1.0, 1.0
            q = q.copy()
            q[..., 0] = rng.choice((-1.0, 1.0), q.shape[:3]) * 2.0**14
            return q, k
        levels = (0.0, 1.0, -8.0)
        if self.score == "huge":
            levels = (-min(704.0, format.huge), min(2.0**17, format.huge), -format.huge)
        q = q.copy()
        q[..., 0] = levels[int(rng.integers(0, 3))]
        k[...], k[..., 0] = 0.0, 1.0
        return q, k

    def handed(self) -> Array | None:
        """The mask that is handed over: (1 or batch, 1, n or 1, m).

        For every query by itself: "random", "causal" (rows at the last keys), "tile" (some rows do not see the first
        tile), "single" (one key a query), "empty" (some rows see none). For all of them, a batch at a time: "left" and
        "right" padding, "holes", and "nan", where hidden keys are NaN; for "any" mask, broadcast from one row.
        """
        B, n, m = self.batch, self.n, self.m
        if self.mask == "none" or not m:
            return None
        rng = np.random.Generator(np.random.PCG64([self.seed, 1]))  # its own, so that nobody draws entries to see it
        row = np.arange(m)
        if self.mask in ("left", "right", "holes", "nan"):
            hidden = rng.integers(0, max(m - 1, min(m, 2)), (B, 1, 1, 1))  # one key alone has no gradient
            seen = {"left": row >= hidden, "right": row < m - hidden}.get(self.mask)
            if seen is None:
                seen = rng.random((B if self.mask == "holes" else 1, 1, 1, m)) < 0.6
                np.put_along_axis(seen, rng.integers(0, m, (*seen.shape[:3], 1)), True, -1)
                if self.mask == "nan" and seen.all() and m > 1:
                    seen[..., int(rng.integers(0, m))] = False
            return seen
        seen = rng.random((1, 1, n, m)) < 0.65
        kept = rng.integers(0, m, (1, 1, n, 1))
        if self.mask == "causal":
            seen = np.broadcast_to(np.tri(n, m, m - n, dtype=bool), seen.shape).copy()
            kept[:] = 0
        elif self.mask == "tile":
            first = min(TILE, max(m - 2, 1))
            seen = np.where(rng.random((1, 1, n, 1)) < 0.5, row >= first, True)
            kept[:] = m - 1
        elif self.mask == "single":
            seen[:] = False
        np.put_along_axis(seen, kept, True, -1)
        if self.mask == "empty":
            blind = rng.random((1, 1, n, 1)) < 0.5
            blind[..., int(rng.integers(0, n)), :] = True
            seen = seen & ~blind
        return seen


def with_keys(block: Block) -> Block:
    """The block, where each query sees a key: one of its band is shown to those whom the mask leaves none."""
    if block.mask is None or block.visible.any(-1).all():
        return block
    open_ = replace(block, mask=None).visible
    mask = np.array(block.mask)
    for b, _, i in np.argwhere(~block.visible.any(-1) & open_.any(-1)):
        at = mask[min(b, len(mask) - 1), 0, min(i, mask.shape[2] - 1)]
        at[int(np.argmax(open_[b, 0, i]))] = True
    return replace(block, mask=mask)
