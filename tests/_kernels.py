"""Kernels for the tests of the judge, right and wrong, in NumPy alone: a process that loads this starts quickly."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import sys
import time

import numpy as np

from bayesgrad.testing.demonstrations import numpy_right as right

COUNT = [0]
KEPT: dict = {}


def changed(which: str, when, by=lambda x: 2 * x):
    """numpy_right, one of whose results is changed where ``when(q, k, v, u, mask, scale)``."""

    def kernel(q, k, v, u, *, mask, scale):
        found = dict(zip("qkv", right(q, k, v, u, mask=mask, scale=scale), strict=True))
        if when(q, k, v, u, mask, scale):
            found[which] = by(found[which])
        return found["q"], found["k"], found["v"]

    return kernel


def always(*_):
    return True


def _deep(q, k, v, u, mask, scale):
    return np.abs(scale * q @ k.T).max(initial=0) > 10


def _deeper(q, k, v, u, mask, scale):
    return np.abs(scale * q @ k.T).max(initial=0) > 50


def _hidden_tile(q, k, v, u, mask, scale):
    return mask is not None and len(k) > 64 and bool((~mask[:, :64].any(1) & mask.any(1)).any())


def _padded_left(q, k, v, u, mask, scale):
    return mask is not None and mask.shape[1] > 1 and not mask[:, 0].any() and bool(mask[:, -1].all())


def _last(x):
    x[126] *= x.dtype.type(1.001)
    return x


def _tail(x):
    x[:, 64:] = 0
    return x


# Faults that need a condition: what is doubled, or zero, only there.
deep = changed("q", _deep, np.zeros_like)
deeper = changed("k", _deeper, np.zeros_like)
large_scale = changed("q", lambda q, k, v, u, mask, scale: scale > 1)
small_scale = changed("k", lambda q, k, v, u, mask, scale: 0 < scale < 0.05)
negative_scale = changed("k", lambda q, k, v, u, mask, scale: scale < 0)
tail = changed("q", lambda q, k, v, u, mask, scale: q.shape[1] > 64, _tail)
odd_values = changed("v", lambda q, k, v, u, mask, scale: v.shape[1] not in (1, 2, 3, 4, 5, 8, 33, 64))
strided = changed("q", lambda q, k, v, u, mask, scale: not q.flags.c_contiguous)
strided_upstream = changed("v", lambda q, k, v, u, mask, scale: u.shape[1] > 1 and u.strides[1] == 0)
hidden_tile = changed("k", _hidden_tile)
padded_left = changed("v", _padded_left)
long_keys = changed("v", lambda q, k, v, u, mask, scale: len(k) > 128)
long_queries = changed("q", lambda q, k, v, u, mask, scale: len(q) > 127)
tiny_values = changed("k", lambda q, k, v, u, mask, scale: 0 < np.abs(v).max(initial=0) < 1e-8)
tiny_upstream = changed("v", lambda q, k, v, u, mask, scale: 0 < np.abs(u).max(initial=0) < 1e-8)
large_upstream = changed("v", lambda q, k, v, u, mask, scale: np.abs(u).max(initial=0) > 1e8)
one_in_a_thousand = changed("v", always, lambda x: x * 1.0001)
last_key = changed("v", lambda q, k, v, u, mask, scale: len(k) == 127, _last)


# Mistakes that have a name.
sign = changed("q", always, lambda x: -x)
half = changed("v", always, lambda x: x / 2)


def scale_twice(q, k, v, u, *, mask, scale):
    dq, dk, dv = right(q, k, v, u, mask=mask, scale=scale)
    return dq * scale, dk * scale, dv


def scale_missing(q, k, v, u, *, mask, scale):
    dq, dk, dv = right(q, k, v, u, mask=mask, scale=scale)
    return dq, dk / scale, dv


def _pass(q, k, v, u, mask, scale, mean=True, weights=None):
    seen = np.ones((len(q), len(k)), bool) if mask is None else mask
    s = np.where(seen, (q * scale) @ k.T, -np.inf)
    top = s.max(1, keepdims=True)
    z = np.exp(s - top).sum(1, keepdims=True)
    a = np.exp(s - top) / z
    b = u @ v.T
    if weights == "unmasked":
        free = np.exp((q * scale) @ k.T - top) / z
        delta = (a * b).sum(1, keepdims=True)
        ds = free * (b - delta) * scale
        return ds @ k, ds.T @ q, free.T @ u
    ds = a * (b - mean * (a * b).sum(1, keepdims=True)) * scale
    return ds @ k, ds.T @ q, a.T @ u


def no_mean(q, k, v, u, *, mask, scale):
    return _pass(q, k, v, u, mask, scale, mean=False)


def mask_forgotten(q, k, v, u, *, mask, scale):
    with np.errstate(all="ignore"):
        return _pass(q, k, v, u, mask, scale, weights="unmasked")


def transposed(q, k, v, u, *, mask, scale):
    dq, dk, dv = right(q, k, v, u, mask=mask, scale=scale)
    return (dq.T.copy() if dq.shape[0] == dq.shape[1] else dq), dk, dv


def _tf32(x):
    y = x.astype(np.float32).view(np.uint32).astype(np.uint64) + 0x1000
    return (y & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(x.dtype)


def tf32_inputs(q, k, v, u, **o):
    return right(*map(_tf32, (q, k, v, u)), **o)


def tf32_scores(q, k, v, u, **o):
    return right(_tf32(q), _tf32(k), v, u, **o)


def single(q, k, v, u, **o):
    return tuple(x.astype(q.dtype) for x in right(*(x.astype(np.float32) for x in (q, k, v, u)), **o))


# What a kernel may do beside computing.
def exits(*_, **o):
    os._exit(0)


def exits_at_last(q, k, v, u, **o):
    if len(k) > 100:
        sys.stdout.write("every case is ok\n")
        sys.exit(0)
    return right(q, k, v, u, **o)


def crashes(*_, **o):
    ctypes.string_at(0)


def hangs(*_, **o):
    time.sleep(1000)


def grows(*_, **o):
    return [np.ones(2**20) for _ in range(1000)], time.sleep(1000)


def forges(*a, **o):
    for stream in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(stream, b"\0" * 7 + b"\2{}")
    return right(*a, **o)


def prints(*a, **o):
    print("hello", flush=True)
    os.write(1, b"hello")
    return right(*a, **o)


def chance(q, k, v, u, **o):
    dq, dk, dv = right(q, k, v, u, **o)
    return dq, dk, dv * (0.9 if random.random() < 0.3 else 1.0)


def race(q, k, v, u, **o):
    COUNT[0] += 1
    dq, dk, dv = right(q, k, v, u, **o)
    return dq, dk, 2 * dv if COUNT[0] % 97 == 0 else dv


def _next(x):
    return np.where(x == 0, x, np.nextafter(x, np.inf)).astype(x.dtype)


def last_bits(q, k, v, u, **o):
    COUNT[0] += 1
    dq, dk, dv = right(q, k, v, u, **o)
    return (_next(dq) if COUNT[0] % 2 else dq), dk, dv


def worn(q, k, v, u, **o):
    """Right for a while: its state drifts."""
    COUNT[0] += 1
    dq, dk, dv = right(q, k, v, u, **o)
    return dq, dk, _next(dv) if COUNT[0] > 20 else dv


def _into_buffers(q, found):
    out = []
    for name, x in zip("qkv", found, strict=True):
        buffer = KEPT.setdefault((name, x.dtype.name), np.zeros(10**6, x.dtype))[: x.size].reshape(x.shape)
        buffer[...] = x
        out.append(buffer)
    return tuple(out)


def one_buffer(q, k, v, u, **o):
    return _into_buffers(q, right(q, k, v, u, **o))


def upstream_itself(q, k, v, u, **o):
    dq, dk, dv = right(q, k, v, u, **o)
    return dq, dk, (u if np.array_equal(dv, u) else dv)


def cached_by_pointer(q, k, v, u, **o):
    key = tuple(x.ctypes.data for x in (q, k, v, u)) + q.shape + k.shape + v.shape
    if key not in KEPT:
        KEPT[key] = (right(q, k, v, u, **o), q, k, v, u)  # the arrays too: their addresses are not given away again
    return tuple(x.copy() for x in KEPT[key][0])


def cached_by_shape(q, k, v, u, **o):
    key = (q.shape, k.shape, v.shape, q.dtype.name)
    return tuple(x.copy() for x in KEPT.setdefault(key, right(q, k, v, u, **o)))


def cached_by_content(q, k, v, u, *, mask, scale):
    key = (q.tobytes(), k.tobytes(), v.tobytes(), None if mask is None else mask.tobytes(), scale)
    return tuple(x.copy() for x in KEPT.setdefault(key, right(q, k, v, u, mask=mask, scale=scale)))


def writes(q, k, v, u, **o):
    found = right(q, k, v, u, **o)
    if u.flags.writeable:
        u *= 2
    return found


def writes_mask(q, k, v, u, *, mask, scale):
    found = right(q, k, v, u, mask=mask, scale=scale)
    if mask is not None:
        mask[:] = True
    return found


def needs_writable(q, k, v, u, **o):
    if not q.flags.writeable:
        raise ValueError("buffer source array is read-only")
    return right(q, k, v, u, **o)


def other_dtype(q, k, v, u, **o):
    return tuple(x.astype(np.float32) for x in right(q, k, v, u, **o))


def other_shape(q, k, v, u, **o):
    dq, dk, dv = right(q, k, v, u, **o)
    return dq[:, :-1], dk, dv


def two_results(q, k, v, u, **o):
    return right(q, k, v, u, **o)[:2]


def no_array(q, k, v, u, **o):
    dq, _, dv = right(q, k, v, u, **o)
    return dq, None, dv


def nan(q, k, v, u, **o):
    dq, dk, dv = right(q, k, v, u, **o)
    return dq, dk * np.nan, dv


def raises(q, k, v, u, **o):
    raise ZeroDivisionError("no answer\nof any kind")


# Everything that can be declared, for arrays (batch, heads, n, d).
def full(q, k, v, u, *, mask=None, scale=None, bias=None, slopes=None, softcap=None, wrong="", **more):
    """Right, with every result; ``wrong`` names one mistake."""
    sink, dropout, dlse = (more.get(name) for name in ("sink", "dropout", "dlse"))
    share, m, n = q.shape[1] // k.shape[1], k.shape[2], q.shape[2]
    if mask is not None:  # keys that nobody sees may be anything
        k, v = (np.where(np.broadcast_to(mask, (q.shape[0], 1, n, m)).any(2)[..., None], x, 0) for x in (k, v))
    K, V = (np.repeat(x, share, axis=1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    t = q.dtype.type
    s0 = t(scale) * (q @ K.swapaxes(-1, -2))
    s, slope = s0, t(1)
    if softcap:
        tanh = np.tanh(s0 / t(softcap))
        s, slope = t(softcap) * tanh, (t(1) if wrong == "cap" else 1 - tanh**2)
    if bias is not None:
        s = s + bias
    if slopes is not None:
        s = s - slopes[:, None, None] * np.abs(np.arange(m) - np.arange(n)[:, None] - (m - n)).astype(q.dtype)
    seen = np.ones(s.shape, bool) if mask is None else np.broadcast_to(mask, s.shape)
    s = np.where(seen, s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        top = np.maximum(top, sink[:, None, None])
    top = np.where(np.isfinite(top), top, 0).astype(q.dtype)
    e = np.exp(s - top)
    z = e.sum(-1, keepdims=True)
    of_sink = 0 if sink is None else np.exp(sink[:, None, None] - top)
    a = e / np.where(z + of_sink > 0, z + of_sink, 1).astype(q.dtype)
    D = np.ones_like(a) if dropout is None else dropout
    D_back = D.swapaxes(-1, -2) if wrong == "dropout transposed" and n == m else D
    b = D_back * (u @ V.swapaxes(-1, -2))
    g = (a * D) @ V
    delta = (a * b).sum(-1, keepdims=True)
    ds = a * (b - delta)
    if dlse is not None and wrong != "dlse":
        ds = ds + a * dlse[..., None]
    w = np.zeros(q.shape[:3], q.dtype) if dlse is None else dlse
    of_bias = ds
    ds = ds * slope * t(scale)
    dk, dv = ds.swapaxes(-1, -2) @ q, (a * D_back).swapaxes(-1, -2) @ u
    group = (q.shape[0], k.shape[1], share)
    if wrong == "group":
        dk, dv = (x.reshape(*group, m, x.shape[-1])[:, :, 0] for x in (dk, dv))
    else:
        dk, dv = (x.reshape(*group, m, x.shape[-1]).sum(2) for x in (dk, dv))
    with np.errstate(divide="ignore"):
        found = {"q": ds @ K, "k": dk, "v": dv, "context": g, "lse": (np.log(z + of_sink) + top)[..., 0]}
    if wrong == "context":
        found["context"] = found["context"] * t(1.001)
    if bias is not None:
        axes = tuple(i for i in range(4) if bias.shape[i] == 1 != of_bias.shape[i])
        found["bias"] = of_bias.sum(axes, keepdims=True)
        if wrong == "bias":
            found["bias"] = found["bias"] * t(scale)
    if sink is not None:
        found["sink"] = ((of_sink / (z + of_sink))[..., 0] * (w - delta[..., 0])).sum((0, 2))
    return found


def cap_forgotten(*a, **o):
    return full(*a, **o, wrong="cap")


def dropout_transposed(*a, **o):
    return full(*a, **o, wrong="dropout transposed")


def bias_scaled(*a, **o):
    return full(*a, **o, wrong="bias")


def context_wrong(*a, **o):
    return full(*a, **o, wrong="context")


def dlse_forgotten(*a, **o):
    return full(*a, **o, wrong="dlse")


def one_of_the_group(*a, **o):
    return full(*a, **o, wrong="group")


def later_heads(*a, **o):
    """Values wrong only for heads after the first, where n is no multiple of 64."""
    found = full(*a, **o)
    if a[0].shape[2] % 64:
        found["v"][:, 1:] *= 2
    return found


def inner_layout(q, k, v, u, **o):
    """The same for (batch, n, heads, d)."""
    found = full(*(x.swapaxes(1, 2) for x in (q, k, v, u)), **o)
    return {name: x.swapaxes(1, 2) if name in ("q", "k", "v", "context") else x for name, x in found.items()}


def padding(q, k, v, u, *, mask, scale):
    """For padding: one row of booleans a batch."""
    return full(q, k, v, u, mask=None if mask is None else mask[:, None, None], scale=scale)


def _band(q, k, left, right, offset):
    ahead = np.arange(k.shape[-2]) - np.arange(q.shape[-2])[:, None] - offset
    return (ahead <= right) & (ahead >= -left)


def causal_lower(q, k, v, u, *, scale):
    return right(q, k, v, u, mask=_band(q, k, 10**6, 0, len(k) - len(q)), scale=scale)


def causal_upper(q, k, v, u, *, scale):
    return right(q, k, v, u, mask=_band(q, k, 10**6, 0, 0), scale=scale)


def window_lower(q, k, v, u, *, scale):
    return right(q, k, v, u, mask=_band(q, k, 4, 1, len(k) - len(q)), scale=scale)


def window_off_by_one(q, k, v, u, *, scale):
    return right(q, k, v, u, mask=_band(q, k, 3, 1, len(k) - len(q)), scale=scale)


def ring(q, k, v, u, *, scale):
    """The forward pass puts the last query at the last key, the backward pass forgets the difference of lengths."""
    seen = _band(q, k, 10**6, 0, len(k) - len(q))
    s = np.where(seen, scale * (q @ k.T), -np.inf)
    lse = np.log(np.exp(s - s.max(1, keepdims=True)).sum(1, keepdims=True)) + s.max(1, keepdims=True)
    g = np.exp(s - lse) @ v
    a = np.where(_band(q, k, 10**6, 0, 0), np.exp(scale * (q @ k.T) - lse), 0)
    ds = a * (u @ v.T - (u * g).sum(1, keepdims=True)) * scale
    return {"q": ds @ k, "k": ds.T @ q, "v": a.T @ u, "context": g}


def blocks_only(q, k, v, u, **o):
    """Lengths in multiples of 16, widths of 8; anything else raises."""
    if len(q) % 16 or len(k) % 16 or q.shape[1] % 8 or v.shape[1] % 8:
        raise ValueError("no multiple")
    return right(q, k, v, u, **o)


def half_precision(q, k, v, u, *, mask, scale):
    """Accumulates in float32, stores in float16."""
    q, k, v, u = (x.astype(np.float32) for x in (q, k, v, u))
    r = lambda x: np.asarray(x, np.float32).astype(np.float16).astype(np.float32)
    seen = np.ones((len(q), len(k)), bool) if mask is None else mask
    s = np.where(seen, r(np.float32(scale) * (q @ k.T)), -np.inf)
    e = np.exp(s - s.max(1, keepdims=True))
    a = r(e / e.sum(1, keepdims=True))
    b = r(u @ v.T)
    ds = r(a * (b - r((a * b).sum(1, keepdims=True))))
    found = (np.float32(scale) * (ds @ k), np.float32(scale) * (ds.T @ q), a.T @ u)
    return tuple(x.astype(np.float16) for x in found)


def half_precision_no_mean(q, k, v, u, *, mask, scale):
    found = _pass(*(x.astype(np.float32) for x in (q, k, v, u)), mask, np.float32(scale), mean=False)
    return tuple(x.astype(np.float16) for x in found)
