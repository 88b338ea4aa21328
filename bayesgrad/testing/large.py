"""Blocks that reach over the tiles of a kernel, printed as the recipe that makes them: their entries fill pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from bayesgrad.testing.capabilities import Capabilities
from bayesgrad.testing.examples import Array, Example, Head


@dataclass(frozen=True, eq=False, repr=False)
class Recipe(Example):
    """A head of n queries and m keys with entries k/64 in [-2, 2], exact in every format, from a seed.

    ``mask``: "none", "causal" (the last query sees every key) or "random" (a third hidden, no row empty).
    """

    n: int
    m: int
    d_k: int
    d_v: int
    seed: int = 0
    mask: str = "none"
    scale: float | None = None

    @property
    def head(self) -> Head:
        """The block itself."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        shapes = ((self.n, self.d_k), (self.m, self.d_k), (self.m, self.d_v), (self.n, self.d_v))
        q, k, v, u = (rng.integers(-128, 129, shape) / 64 for shape in shapes)
        return Head(q, k, v, u, self._visible(rng), None, None, self.scale)

    def _visible(self, rng: np.random.Generator) -> Array | None:
        if self.mask == "none":
            return None
        if self.mask == "causal":
            # A query with fewer keys than queries before it would see none: the first key is everybody's.
            seen = np.tri(self.n, self.m, self.m - self.n, dtype=bool)
            seen[:, 0] = True
            return seen
        seen = rng.random((self.n, self.m)) < 2 / 3
        seen[np.arange(self.n), rng.integers(0, self.m, self.n)] = True
        return seen


def _lengths(largest: int) -> st.SearchStrategy[int]:
    """Any length, half of the time one beside a power of two or the largest."""
    edges = {2**p + more for p in range(1, largest.bit_length() + 1) for more in (-1, 0, 1)} | {largest - 1, largest}
    return st.one_of(st.integers(1, largest), st.sampled_from(sorted(edge for edge in edges if 1 <= edge <= largest)))


@st.composite
def recipes(draw: st.DrawFn, can: Capabilities) -> Recipe:
    """Blocks up to the largest that is claimed; Hypothesis shrinks the sizes of one that fails."""
    lengths = _lengths(can.largest)
    n, m = draw(lengths), draw(lengths)
    widths = st.sampled_from(
        sorted({can.widths * f for f in (1, 2, 3, 5, 8, 33, 64) if can.widths * f <= 64} | {can.widths})
    )
    d_k = draw(widths)
    d_v = d_k if can.equal_widths else draw(widths)
    mask = "none" if can.masks == "none" else draw(st.sampled_from(("none", "causal", "random")))
    scale = draw(st.sampled_from((None, 0.25, -0.125))) if can.scale else None
    return Recipe(n, m, d_k, d_v, draw(st.integers(0, 2**16)), mask, scale)
