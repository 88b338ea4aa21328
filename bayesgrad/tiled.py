r"""One head and its derivatives without an n x m array, for any array library: tile by tile over the queries.

.. math::

    g_i \text{ and } \partial L / \partial q_i \text{ need row } i \text{ alone}, \qquad
    \frac{\partial L}{\partial k_j} = \sum_{\text{tiles}} \sum_{i \text{ in the tile}} \dots, \qquad
    \frac{\partial L}{\partial v_j} = \sum_{\text{tiles}} \sum_{i \text{ in the tile}} a_{ij} u_i

A row of weights is whole within its tile, so each tile is the dense function on a few queries: what belongs to queries
is put together, what belongs to keys is added up, and the tile's weights are forgotten. The memory beyond arguments and
results is one tile's. A causal tile is given only the keys that it can see, so that about half of the work is saved.

:mod:`bayesgrad.fused` does the same for a whole block with its loss, faster; this is for a head whose upstream gradient
comes from outside, and for forward mode and second derivatives, which no fused kernel gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bayesgrad import _arrays, _validate, derivatives, gradients
from bayesgrad._attention import attention as dense_attention
from bayesgrad._types import Align, Array, ArrayT, Bools, Floats, Generic, Real
from bayesgrad.masks import ALIGNMENTS

TILE_ENTRIES = 1 << 20
"""Pairs in one tile, all leading axes together: 4 MiB in float32 for each of the few arrays that a tile needs."""


class HeadGradients(NamedTuple, Generic[ArrayT]):
    """dL/dq, dL/dk, dL/dv."""

    queries: ArrayT
    keys: ArrayT
    values: ArrayT


class HeadDoubleBackward(NamedTuple, Generic[ArrayT]):
    """Gradients of a function of dL/dq, dL/dk, dL/dv in q, k, v and u."""

    queries: ArrayT
    keys: ArrayT
    values: ArrayT
    u: ArrayT


class _Tile(NamedTuple):
    """Some queries and the keys that they may see."""

    rows: slice
    keys: slice
    mask: Any


class _Plan:
    """The tiles of one call: arguments validated once, masks made tile by tile."""

    def __init__(
        self, q: Any, k: Any, v: Any, u: Any, moves: dict[str, Any], *, mask: Any, causal: Any, scale: Any, tile: Any
    ) -> None:
        self.xp = _validate.floats({"u": u, **moves}, q=q, k=k, v=v)
        leading, size = _validate.shapes(q=(q, "n d_k"), k=(k, "m d_k"), v=(v, "m d_v"), u=(u, "n d_v"))
        self.n, self.m = size["n"], size["m"]
        for (name, x), (argument, like) in zip(moves.items(), (("q", q), ("k", k), ("v", v)), strict=False):
            if x is not None:
                _validate.same_shape(name, x, tuple(like.shape), argument)
        _validate.booleans(self.xp, "mask", mask, q)
        _validate.broadcastable("mask", mask, (*leading, self.n, self.m))
        if causal is not None:
            _validate.choice("causal", causal, ALIGNMENTS)
        self.scale = _validate.scale(self.xp, scale, size["d_k"])
        self.offset = None if causal is None else 0 if causal == "upper-left" else self.m - self.n
        self.mask, self.like = mask, q
        many = max(1, self.m)
        for size_of_axis in leading:
            many *= max(1, size_of_axis)
        self.tile = max(16, TILE_ENTRIES // many) if tile is None else _validate.natural("tile", tile, least=1)

    def _visible(self, start: int, stop: int, keys: int) -> Any:
        """The mask of one tile; None where it sees everything."""
        xp, part = self.xp, self.mask
        if part is not None:
            if part.ndim > 1 and part.shape[-2] > 1:
                part = part[..., start:stop, :]
            part = part[..., :keys] if part.shape[-1] > 1 else part
        if self.offset is None or start + self.offset + 1 >= keys:
            return part
        device = _arrays.device_of(self.like)
        last = xp.expand_dims(xp.arange(start, stop, device=device), axis=-1) + self.offset
        shown = xp.arange(keys, device=device) <= last
        return shown if part is None else part & shown

    def __iter__(self) -> Iterator[_Tile]:
        for start in range(0, max(self.n, 1), self.tile):
            stop = min(start + self.tile, self.n)
            keys = self.m if self.offset is None else max(0, min(self.m, stop + self.offset))
            yield _Tile(slice(start, stop), slice(0, keys), self._visible(start, stop, keys))

    def options(self, tile: _Tile) -> dict[str, Any]:
        return {"mask": tile.mask, "scale": self.scale}

    def gather(self, one: Callable[[_Tile], tuple[list[Any], list[Any]]]) -> tuple[list[Any], list[Any]]:
        """Results of queries put together; results of keys added up, into their full length."""
        by_query: list[list[Any]] = []
        by_key: list[Any] = []
        for tile in self:
            rows, keys = one(tile)
            by_query.append(rows)
            whole = [self._padded(x) for x in keys]
            by_key = [a + b for a, b in zip(by_key, whole, strict=True)] if by_key else whole
        joined = [self.xp.concat(list(parts), axis=-2) for parts in zip(*by_query, strict=True)]
        return joined, by_key

    def _padded(self, x: Any) -> Any:
        """A result of the first keys as one of all of them: 0 for those that the tile cannot see."""
        rest = self.m - x.shape[-2]
        if not rest:
            return x
        zeros = _arrays.full_like(self.xp, x, (*x.shape[:-2], rest, x.shape[-1]), 0.0)
        return self.xp.concat([x, zeros], axis=-2)


def _part(x: Any, at: slice) -> Any:
    return None if x is None else x[..., at, :]


def attention(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    causal: Align | None = None,
    scale: Real | None = None,
    tile: int | None = None,
) -> Floats[ArrayT, "*batch queries values"]:
    """The context of :func:`bayesgrad.attention`, tile by tile.

    Args:
        q, k, v, mask, scale: as there; a mask (..., 1, m), for padding, costs no memory.
        causal: "upper-left" or "lower-right": the alignment of a causal mask that is never made; None for none.
        tile: queries in one tile; by default so many that a tile has about 2^20 pairs.

    Returns:
        The context (..., n, d_v).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Source: ours; tiles after FlashAttention.

    >>> import numpy as np
    >>> attention(np.ones((2, 1)), np.ones((2, 1)), np.asarray([[1.0], [3.0]]), causal="upper-left", tile=1).tolist()
    [[1.0], [2.0]]
    """
    plan = _Plan(q, k, v, None, {}, mask=mask, causal=causal, scale=scale, tile=tile)

    def one(at: _Tile) -> tuple[list[Any], list[Any]]:
        got = dense_attention(_part(q, at.rows), _part(k, at.keys), _part(v, at.keys), **plan.options(at))
        return [got.context], []

    context: ArrayT = plan.gather(one)[0][0]
    return context


def attention_gradients(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    mask: Bools[Array, "*_"] | None = None,
    causal: Align | None = None,
    scale: Real | None = None,
    tile: int | None = None,
) -> HeadGradients[ArrayT]:
    """dL/dq, dL/dk and dL/dv of :func:`bayesgrad.attention_gradients`, tile by tile.

    Args:
        q, k, v, u: as there. mask, causal, scale, tile: as in :func:`attention`.

    Returns:
        :class:`HeadGradients`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Labels: attention.query-law, attention.key-law, attention.value-law. Source: ours.

    >>> import numpy as np
    >>> one = np.ones((3, 1))
    >>> attention_gradients(one, one, one, one, tile=2).values.tolist()
    [[1.0], [1.0], [1.0]]
    """
    plan = _Plan(q, k, v, u, {}, mask=mask, causal=causal, scale=scale, tile=tile)

    def one(at: _Tile) -> tuple[list[Any], list[Any]]:
        got = gradients.attention_gradients(
            _part(q, at.rows), _part(k, at.keys), _part(v, at.keys), _part(u, at.rows), **plan.options(at)
        )
        return [got.queries], [got.keys, got.values]

    (queries,), (keys, values) = plan.gather(one)
    return HeadGradients(queries, keys, values)


def attention_jvp(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    *,
    q_tangent: Floats[ArrayT, "*batch queries width"] | None = None,
    k_tangent: Floats[ArrayT, "*batch keys width"] | None = None,
    v_tangent: Floats[ArrayT, "*batch keys values"] | None = None,
    mask: Bools[Array, "*_"] | None = None,
    causal: Align | None = None,
    scale: Real | None = None,
    tile: int | None = None,
) -> Floats[ArrayT, "*batch queries values"]:
    """The tangent of the context, as :func:`bayesgrad.attention_jvp` computes it, tile by tile.

    Args:
        q, k, v, q_tangent, k_tangent, v_tangent: as there. mask, causal, scale, tile: as in :func:`attention`.

    Returns:
        dg (..., n, d_v).

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.jvp. Source: ours.

    >>> import numpy as np
    >>> one = np.ones((3, 1))
    >>> attention_jvp(one, one, one, v_tangent=2 * one, tile=2).tolist()
    [[2.0], [2.0], [2.0]]
    """
    moves = {"q_tangent": q_tangent, "k_tangent": k_tangent, "v_tangent": v_tangent}
    plan = _Plan(q, k, v, None, moves, mask=mask, causal=causal, scale=scale, tile=tile)

    def one(at: _Tile) -> tuple[list[Any], list[Any]]:
        got = derivatives.attention_jvp(
            _part(q, at.rows),
            _part(k, at.keys),
            _part(v, at.keys),
            q_tangent=_part(q_tangent, at.rows),
            k_tangent=_part(k_tangent, at.keys),
            v_tangent=_part(v_tangent, at.keys),
            **plan.options(at),
        )
        return [got.context], []

    context: ArrayT = plan.gather(one)[0][0]
    return context


def attention_double_backward(
    q: Floats[ArrayT, "*batch queries width"],
    k: Floats[ArrayT, "*batch keys width"],
    v: Floats[ArrayT, "*batch keys values"],
    u: Floats[ArrayT, "*batch queries values"],
    *,
    d_queries: Floats[ArrayT, "*batch queries width"] | None = None,
    d_keys: Floats[ArrayT, "*batch keys width"] | None = None,
    d_values: Floats[ArrayT, "*batch keys values"] | None = None,
    mask: Bools[Array, "*_"] | None = None,
    causal: Align | None = None,
    scale: Real | None = None,
    tile: int | None = None,
) -> HeadDoubleBackward[ArrayT]:
    """Backward through the gradients, as :func:`bayesgrad.attention_double_backward` computes it, tile by tile.

    Args:
        q, k, v, u, d_queries, d_keys, d_values: as there. mask, causal, scale, tile: as in :func:`attention`.

    Returns:
        :class:`HeadDoubleBackward`.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, dtype or shape.

    Label: attention.double-backward. Source: ours.

    >>> import numpy as np
    >>> one = np.ones((3, 1))
    >>> attention_double_backward(one, one, one, one, d_values=one, tile=2).u.tolist()
    [[1.0], [1.0], [1.0]]
    """
    moves = {"d_queries": d_queries, "d_keys": d_keys, "d_values": d_values}
    plan = _Plan(q, k, v, u, moves, mask=mask, causal=causal, scale=scale, tile=tile)

    def one(at: _Tile) -> tuple[list[Any], list[Any]]:
        got = derivatives.attention_double_backward(
            _part(q, at.rows),
            _part(k, at.keys),
            _part(v, at.keys),
            _part(u, at.rows),
            d_queries=_part(d_queries, at.rows),
            d_keys=_part(d_keys, at.keys),
            d_values=_part(d_values, at.keys),
            **plan.options(at),
        )
        return [got.queries, got.u], [got.keys, got.values]

    (queries, upstream), (keys, values) = plan.gather(one)
    return HeadDoubleBackward(queries, keys, values, upstream)
