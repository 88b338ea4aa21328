"""What one tile of queries needs: in-place operations, visibility, targets. Nothing here holds all n x m pairs.

For tile rows i in [start, stop) and a causal rule with offset o, the visible keys are j <= i + o: a block of whole
columns and a triangular corner, the same corner for every full tile.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from bayesgrad import _arrays


class NumPyOperations:
    """The few in-place operations that a tile needs; they only ever write to buffers of this module."""

    @staticmethod
    def buffer(like: Any, size: int) -> Any:
        return np.empty(size, dtype=like.dtype)

    @staticmethod
    def copy(x: Any) -> Any:
        return x.copy()

    @staticmethod
    def matmul(a: Any, b: Any, out: Any) -> Any:
        return np.matmul(a, b, out=out)

    @staticmethod
    def add_matmul(total: Any, a: Any, b: Any) -> None:
        total += np.matmul(a, b)

    @staticmethod
    def hide(s: Any, hidden: Any) -> None:
        np.copyto(s, -math.inf, where=hidden)

    @staticmethod
    def take_out_mean(ab: Any, a: Any) -> None:
        ab -= a * ab.sum(axis=-1, keepdims=True)

    @staticmethod
    def clear(a: Any, seeing: Any) -> None:
        np.copyto(a, 0.0, where=~seeing)

    @staticmethod
    def softmax(s: Any) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            s -= s.max(axis=-1, keepdims=True)
            np.exp(s, out=s)
            s /= s.sum(axis=-1, keepdims=True)

    @staticmethod
    def log_softmax(z: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            z = z - z.max(axis=-1, keepdims=True)
            return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


class TorchOperations:
    """The same for PyTorch, outside of its graph."""

    @staticmethod
    def buffer(like: Any, size: int) -> Any:
        return like.new_empty(size)

    @staticmethod
    def copy(x: Any) -> Any:
        return x.clone()

    @staticmethod
    def matmul(a: Any, b: Any, out: Any) -> Any:
        return sys.modules["torch"].matmul(a, b, out=out)

    @staticmethod
    def add_matmul(total: Any, a: Any, b: Any) -> None:
        (total.addmm_ if total.ndim == 2 else total.baddbmm_)(a, b)

    @staticmethod
    def hide(s: Any, hidden: Any) -> None:
        s.masked_fill_(hidden, -math.inf)

    @staticmethod
    def take_out_mean(ab: Any, a: Any) -> None:
        ab.addcmul_(a, ab.sum(-1, keepdim=True), value=-1)

    @staticmethod
    def clear(a: Any, seeing: Any) -> None:
        a.masked_fill_(~seeing, 0.0)

    @staticmethod
    def softmax(s: Any) -> None:
        sys.modules["torch"].softmax(s, -1, out=s)

    @staticmethod
    def log_softmax(z: Any) -> Any:
        return z.log_softmax(-1)


def operations(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return NumPyOperations
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return TorchOperations
    raise TypeError(
        f"x: got {type(x).__name__}, expected a NumPy array or a PyTorch tensor (other libraries: the dense form)"
    )


def outside_the_graph(x: Any) -> Any:
    """Outside of PyTorch's graph: this module writes to its own buffers."""
    return np.errstate() if isinstance(x, np.ndarray) else sys.modules["torch"].no_grad()


class Visibility:
    """Which keys a tile of queries sees, without ever holding all pairs."""

    def __init__(self, xp: Any, do: Any, mask: Any, causal: str | None, n: int, m: int, device: Any) -> None:
        self.xp, self.do, self.mask, self.causal, self.n, self.m, self.device = xp, do, mask, causal, n, m, device
        self.offset = m - n if causal == "lower-right" else 0
        self._corners: dict[tuple[int, int, int], Any] = {}
        self.first = 0 if causal is None else min(n, max(0, -self.offset))
        """The first query that the causal rule lets see a key."""

    def limit(self, stop: int) -> int:
        """The number of leading keys that queries before ``stop`` can see."""
        return self.m if self.causal is None else max(0, min(self.m, stop + self.offset))

    def _corner(self, start: int, stop: int, limit: int) -> tuple[int, Any]:
        """The first column that the causal rule hides from some row of the tile, and what it shows from there on."""
        if self.causal is None:
            return limit, None
        column = max(0, start + self.offset + 1)
        if column >= limit:
            return limit, None
        # The corner is the same for every full tile: rows and columns relative to the diagonal.
        key = (stop - start, limit - column, column - start - self.offset)
        if key not in self._corners:
            rows = self.xp.arange(key[0], device=self.device)
            columns = self.xp.arange(key[1], device=self.device) + key[2]
            self._corners = {key: columns <= self.xp.expand_dims(rows, axis=-1)}
        return column, self._corners[key]

    def visible(self, start: int, stop: int, limit: int) -> Any:
        """Booleans (rows, limit) or (H, rows, limit) of a tile; None where it sees everything. Needs a mask."""
        part = self.mask[..., start:stop, :] if self.mask.shape[-2] > 1 else self.mask
        part = part[..., :limit] if part.shape[-1] > 1 else part
        part = self.do.copy(self.xp.broadcast_to(part, (*part.shape[:-2], stop - start, limit)))
        column, shown = self._corner(start, stop, limit)
        if shown is not None:
            part[..., column:] &= shown
        return part

    def hide(self, s: Any, start: int, stop: int, limit: int) -> Any:
        """-inf at the hidden pairs of a tile of scores; returns (..., rows, 1), whether a row sees a key, or None."""
        if self.mask is not None:
            visible = self.visible(start, stop, limit)
            self.do.hide(s, ~visible)
            return self.xp.expand_dims(self.xp.any(visible, axis=-1), axis=-1)
        column, shown = self._corner(start, stop, limit)
        if shown is not None:
            self.do.hide(s[..., column:], ~shown)
        if start >= self.first:
            return None
        return self.xp.expand_dims(self.xp.arange(start, stop, device=self.device) >= self.first, axis=-1)

    def seen(self, rows: int) -> tuple[Any, Any]:
        """Queries that see a key (n,), and keys that some query sees (m,), in any head."""
        queries = self.xp.arange(self.n, device=self.device) >= self.first
        keys = self.xp.arange(self.m, device=self.device) < (self.limit(self.n) if self.n else 0)
        if self.mask is None:
            return queries, keys
        keys[:], queries[:] = False, False
        for start in range(0, self.n, rows):
            stop = min(start + rows, self.n)
            limit = self.limit(stop)
            visible = self.visible(start, stop, limit)
            if visible.ndim > 2:
                visible = self.xp.any(visible, axis=0)
            keys[:limit] |= self.xp.any(visible, axis=0)
            queries[start:stop] = self.xp.any(visible, axis=-1)
        return queries, keys


class Targets:
    """The target masses t (n, C), their totals, and whether a position takes part: once, not tile by tile."""

    def __init__(self, xp: Any, do: Any, t: Any) -> None:
        self.xp, self.do, self.t = xp, do, t
        self.total = xp.sum(t, axis=-1, keepdims=True)
        self.counts = xp.any(t != 0, axis=-1, keepdims=True)

    def residual(self, z: Any, start: int, stop: int) -> tuple[Any, Any]:
        """The loss of a tile and r = dL/dz = tau p - t."""
        xp, t = self.xp, self.t[start:stop]
        log_p = self.do.log_softmax(z)
        # 0 log 0 = 0: a class without target mass may be impossible.
        loss = -xp.sum(t * xp.where(t == 0, xp.zeros_like(log_p), log_p))
        r = self.total[start:stop] * xp.exp(log_p) - t
        return loss, _arrays.keep(xp, self.counts[start:stop], r)
