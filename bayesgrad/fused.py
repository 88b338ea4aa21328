r"""The whole block in one sweep over tiles of queries, for NumPy and PyTorch.

.. math::

    u_i = r_i W_O^T \text{ needs } g_i \text{ alone} \;\Rightarrow\; \text{row } i \text{ can send its gradients back
    as soon as its own context is known}

FlashAttention's backward needs a second pass because the upstream gradient comes from outside. Here the loss sits right
behind the head, so one sweep does both: for each tile of queries scores, weights, context, logits, r and u, then its
share of every gradient, and the tile's weights are forgotten. No n x m array exists; the extra memory is linear in n
and m (one tile has a bounded number of entries). Tiles to the right of the diagonal are never touched under a causal
mask.

Three products save passes over a tile: the scale goes into q, the mean compatibility into one more column of u (with a
column of ones in v), and the read-out's bias where it is added anyway. Every function has its dense twin
:func:`bayesgrad.attention_block_gradients`, and tests hold the two together.
"""

from __future__ import annotations

import math
from typing import Any

from bayesgrad import _arrays, _validate, masks
from bayesgrad._cross_entropy import loss_options, target_mass
from bayesgrad._parameters import block_sizes
from bayesgrad._tiles import Targets, Visibility, operations, outside_the_graph
from bayesgrad._types import Align, Array, ArrayT, Bools, Floats, Ints, Real, Reduction
from bayesgrad.block import BlockGradients

TILE_ENTRIES = 1 << 19
"""Weights in one tile, all heads together: 2 MiB in float32, near the cache of a core."""


def attention_block_gradients(
    x: Floats[ArrayT, "*batch queries d_x"],
    W_Q: Floats[ArrayT, "d_x columns_q"],
    W_K: Floats[ArrayT, "d_y columns_k"],
    W_V: Floats[ArrayT, "d_y columns_v"],
    W_O: Floats[ArrayT, "columns_o classes"],
    targets: Ints[Array, "*batch queries"] | Floats[ArrayT, "*batch queries classes"],
    *,
    heads: int = 1,
    kv_heads: int | None = None,
    y: Floats[ArrayT, "*batch keys d_y"] | None = None,
    c_Q: Floats[ArrayT, " columns_q"] | None = None,
    c_K: Floats[ArrayT, " columns_k"] | None = None,
    c_V: Floats[ArrayT, " columns_v"] | None = None,
    c_O: Floats[ArrayT, " classes"] | None = None,
    causal: Align | None = None,
    mask: Bools[Array, "*_"] | None = None,
    scale: Real | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    class_weights: Floats[ArrayT, " classes"] | None = None,
    label_smoothing: Real = 0.0,
    tile: int | None = None,
    validate: bool = True,
) -> BlockGradients[ArrayT]:
    """Loss and all gradients of the one-layer block in one sweep: :func:`bayesgrad.attention_block_gradients`, lean.

    Args:
        x, targets: as there, NumPy or PyTorch (eager); so are the projections, their biases, ``y``, ``heads``,
            ``kv_heads``, ``scale``, the options of the loss and ``validate``. ``reduction`` is "mean" or "sum".
        causal: "upper-left" or "lower-right": the alignment of a causal mask, which costs no memory; None for none.
        mask: booleans that broadcast to (..., H, n, m), True = may attend; e.g. (B, 1, 1, m) for padding. It is read
            tile by tile.
        tile: queries in one tile; by default so many that a tile has about 2^19 weights.

    Returns:
        :class:`bayesgrad.BlockGradients`, its ``bias`` and ``attention`` None.

    Raises:
        TypeError, ValueError: an argument of the wrong kind, shape or value, or of another library.

    There is no additive bias and no dropout here: both are n x m arrays. Source: ours; tiles after FlashAttention.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, W = rng.normal(size=(9, 3)), [rng.normal(size=s) for s in ((3, 2), (3, 2), (3, 4), (4, 5))]
    >>> got = attention_block_gradients(x, *W, rng.integers(0, 5, size=9), causal="upper-left")
    >>> got.W_Q.shape
    (3, 2)
    """
    given = {"c_Q": c_Q, "c_K": c_K, "c_V": c_V, "c_O": c_O}
    xp = _validate.floats({"y": y, **given, "class_weights": class_weights}, x=x, W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O)
    do = operations(x)
    heads = _validate.natural("heads", heads, least=1)
    groups = heads if kv_heads is None else _validate.natural("kv_heads", kv_heads, least=1)
    d_k, _, classes = block_sizes(x, x if y is None else y, W_Q, W_K, W_V, W_O, heads, groups)
    for (name, c), size in zip(given.items(), (W_Q.shape[1], W_K.shape[1], W_V.shape[1], classes), strict=True):
        _validate.vector(name, c, "columns", size)
    leading, n, m = tuple(x.shape)[:-2], x.shape[-2], x.shape[-2] if y is None else y.shape[-2]
    if causal is not None:
        _validate.choice("causal", causal, masks.ALIGNMENTS)
    _validate.booleans(xp, "mask", mask, x)
    _validate.broadcastable("mask", mask, (*leading, heads, n, m))
    _validate.choice("reduction", reduction, ("mean", "sum"))
    chosen = loss_options(
        xp,
        classes,
        reduction=reduction,
        ignore_index=ignore_index,
        class_weights=class_weights,
        label_smoothing=label_smoothing,
    )
    factor = _validate.scale(xp, scale, d_k)
    rows = (
        max(16, min(256, TILE_ENTRIES // max(heads * m, 1)))
        if tile is None
        else _validate.natural("tile", tile, least=1)
    )
    with outside_the_graph(x):
        t = target_mass(xp, targets, x, (*leading, n, classes), chosen, validate)
        parameters = _arrays.widen(xp, x, x if y is None else y, W_Q, W_K, W_V, W_O, *given.values())
        sweep = _Sweep(xp, do, heads, groups, factor, causal, mask, rows)
        return sweep.block(x, parameters, t, cross=y is not None)


_BIASES = ("c_Q", "c_K", "c_V", "c_O")


def _transposed(x: Any) -> Any:
    return x.mT


def _narrowed(xp: Any, like: ArrayT, **found: Any) -> BlockGradients[ArrayT]:
    """The gradients in the dtype of an input; None stays None."""
    wanted: dict[str, Any] = {name: None if x is None else _arrays.narrow(xp, like, x) for name, x in found.items()}
    return BlockGradients(**wanted, bias=None, attention=None)


class _Sweep:
    """The arguments that do not change from tile to tile."""

    def __init__(
        self, xp: Any, do: Any, heads: int, groups: int, scale: Any, causal: str | None, mask: Any, rows: int
    ) -> None:
        self.xp, self.do, self.heads, self.groups, self.scale = xp, do, heads, groups, scale
        self.causal, self.mask, self.rows = causal, mask, rows

    def block(self, like: ArrayT, parameters: tuple[Any, ...], t: Any, *, cross: bool) -> BlockGradients[ArrayT]:
        """Project, sweep every problem of the batch, and take the gradients back through the projections."""
        xp = self.xp
        x, y, _, _, _, _, c_Q, c_K, c_V, c_O = parameters
        leading, n, m = tuple(x.shape)[:-2], x.shape[-2], y.shape[-2]
        batch = math.prod(leading)
        x, y, t = (xp.reshape(each, (batch, *each.shape[-2:])) for each in (x, y, t))
        masks_ = None
        if self.mask is not None:
            mask = self.mask
            while len(mask.shape) < 3:
                mask = xp.expand_dims(mask, axis=0)
            own = tuple(mask.shape[-3:])
            masks_ = xp.reshape(xp.broadcast_to(mask, (*leading, *own)), (batch, *own))
            if own[0] == 1:  # one pattern for all heads needs no axis of heads
                masks_ = masks_[:, 0]
        parts = []
        for b in range(batch):
            parts.append(self._problem(x[b], y[b], parameters[2:], t[b], None if masks_ is None else masks_[b], n, m))
        if not parts:  # an empty batch: every gradient is 0
            return self._empty(like, parameters, leading, cross)

        def total(name: str) -> Any:
            out = parts[0][name]
            for part in parts[1:]:
                out = out + part[name]
            return out

        def stacked(name: str) -> Any:
            return xp.reshape(xp.stack([part[name] for part in parts]), (*leading, *parts[0][name].shape))

        return _narrowed(
            xp,
            like,
            loss=total("loss"),
            x=stacked("x") if cross else stacked("x") + stacked("y"),
            **{name: total(name) for name in ("W_Q", "W_K", "W_V", "W_O")},
            y=stacked("y") if cross else None,
            **{name: None if c is None else total(name) for name, c in zip(_BIASES, (c_Q, c_K, c_V, c_O), strict=True)},
            scale=total("scale"),
        )

    def _empty(
        self, like: ArrayT, parameters: tuple[Any, ...], leading: tuple[int, ...], cross: bool
    ) -> BlockGradients[ArrayT]:
        xp = self.xp
        x, y, *weights = (None if p is None else xp.zeros_like(p) for p in parameters)
        zero = xp.sum(x)
        W_Q, W_K, W_V, W_O, *biases = weights
        matrices = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O, **dict(zip(_BIASES, biases, strict=True))}
        return _narrowed(xp, like, loss=zero, x=x, y=y if cross else None, scale=zero, **matrices)

    def _problem(self, x: Any, y: Any, weights: tuple[Any, ...], t: Any, mask: Any, n: int, m: int) -> dict[str, Any]:
        """One problem without leading axes. Features stand before positions: thin products are fast that way round."""
        xp, T = self.xp, _transposed
        W_Q, W_K, W_V, W_O, c_Q, c_K, c_V, c_O = weights
        seen = Visibility(xp, self.do, mask, self.causal, n, m, _arrays.device_of(x))
        # Inputs with 0 where the query sees nothing or nobody sees the key: 0 * NaN is NaN.
        queries, keys = seen.seen(self.rows)
        x, y = _arrays.keep(xp, queries[:, None], x), _arrays.keep(xp, keys[:, None], y)

        def project(W: Any, inputs: Any, c: Any, count: int) -> Any:
            out = T(W) @ T(inputs)
            return xp.reshape(out if c is None else out + c[:, None], (count, W.shape[1] // count, inputs.shape[0]))

        def grouped(k: Any) -> Any:
            return k if self.groups == self.heads else xp.repeat(k, self.heads // self.groups, axis=0)

        def summed(dk: Any) -> Any:
            d = dk.shape[1]
            dk = xp.reshape(dk, (self.groups, self.heads // self.groups, d, m))
            return xp.reshape(xp.sum(dk, axis=1), (self.groups * d, m))

        q, k, v = project(W_Q, x, c_Q, self.heads), project(W_K, y, c_K, self.groups), project(W_V, y, c_V, self.groups)
        if c_V is not None or c_K is not None:  # a bias reaches the keys that nobody sees
            k, v = _arrays.keep(xp, keys, k), _arrays.keep(xp, keys, v)
        # b - bbar is computed from the values without what the seen ones share, as in the dense form.
        count = xp.sum(xp.astype(keys, v.dtype))
        centre = xp.sum(v, axis=-1, keepdims=True) / xp.where(count == 0, xp.ones_like(count), count)
        got = self._tiles(q, grouped(k), grouped(v), grouped(centre), W_O, c_O, t, seen)
        along_k = got.pop("q")
        got["scale"] = xp.sum(along_k * q)
        dq, dk, dv = xp.reshape(along_k * self.scale, (W_Q.shape[1], n)), summed(got.pop("k")), summed(got.pop("v"))
        return got | {
            "x": T(W_Q @ dq),
            "y": T(W_K @ dk + W_V @ dv),
            "W_Q": T(dq @ x),
            "W_K": T(dk @ y),
            "W_V": T(dv @ y),
            "c_Q": xp.sum(dq, axis=-1),
            "c_K": xp.sum(dk, axis=-1),
            "c_V": xp.sum(dv, axis=-1),
        }

    def _tiles(
        self, q: Any, k: Any, v: Any, centre: Any, W_O: Any, c_O: Any, t: Any, seen: Visibility
    ) -> dict[str, Any]:
        """The sweep itself: q (H, d_k, n), k (H, d_k, m), v (H, d_v, m), t (n, C)."""
        xp, do, T, n, m = self.xp, self.do, _transposed, seen.n, seen.m
        H, d_v = v.shape[0], v.shape[1]
        v = v - centre
        v_and_one = xp.concat([v, _arrays.full_like(xp, v, (H, 1, m), 1.0)], axis=1)
        dq, dk, dv, dW = xp.zeros_like(q), xp.zeros_like(k), xp.zeros_like(v), xp.zeros_like(W_O)
        dc, loss, scaled = xp.sum(t, axis=0) * 0, xp.sum(t) * 0, q * self.scale
        targets = Targets(xp, do, t)
        out = {"q": dq, "k": dk, "v": dv}
        rows = H * min(self.rows, n)
        a_buffer, b_buffer = do.buffer(q, rows * m), do.buffer(q, rows * m)
        if H == 1:  # plain matrices: a batched product of one is slower
            dq, dk, dv, scaled, k, v, v_and_one, centre = (z[0] for z in (dq, dk, dv, scaled, k, v, v_and_one, centre))
        for start in range(0, n, self.rows):
            stop = min(start + self.rows, n)
            limit, rows = seen.limit(stop), stop - start
            if limit:
                shape = (rows, limit) if H == 1 else (H, rows, limit)
                a = a_buffer[: H * rows * limit].reshape(shape)
                q_tile = scaled[..., start:stop]
                do.matmul(T(q_tile), k[..., :limit], a)
                seeing = seen.hide(a, start, stop, limit)
                do.softmax(a)
                if seeing is not None:
                    do.clear(a, seeing)
                g_minus = v[..., :limit] @ T(a)
                g = g_minus + centre
                if seeing is not None:
                    g = _arrays.keep(xp, T(seeing), g)
            else:
                g = xp.zeros_like(centre) + xp.zeros_like(targets.total[start:stop, 0])
            flat = xp.reshape(g, (H * d_v, rows))
            z = T(flat) @ W_O
            loss_tile, r = targets.residual(z if c_O is None else z + c_O, start, stop)
            loss = loss + loss_tile
            do.add_matmul(dW, flat, r)
            dc = dc + xp.sum(r, axis=0)
            if not limit:
                continue
            u = xp.reshape(W_O @ T(r), g.shape)
            if seeing is not None:
                u = _arrays.keep(xp, T(seeing), u)
            mean = xp.sum(u * g_minus, axis=-2, keepdims=True)
            do.add_matmul(dv[..., :limit], u, a)
            b = b_buffer[: H * rows * limit].reshape(a.shape)
            do.matmul(T(xp.concat([u, -mean], axis=-2)), v_and_one[..., :limit], b)  # b_ij - bbar_i
            b *= a
            do.take_out_mean(b, a)  # once more: the small gradients of a saturated row keep their digits
            do.add_matmul(dq[..., start:stop], k[..., :limit], T(b))
            do.add_matmul(dk[..., :limit], q_tile, b)
        return out | {"loss": loss, "W_O": dW, "c_O": dc}
