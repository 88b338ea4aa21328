"""Two oracles that nobody can doubt: loops written from the definitions, and autograd over explicit operations."""

from __future__ import annotations

import math

import numpy as np
import torch


def loops(q, k, v, u, mask, bias, scale, dropout):
    """One head, no leading axes, pure Python sums: weights, context, and dL/ds by differentiating softmax entrywise."""
    n, m, d_v = len(q), len(k), v.shape[1]
    a, g = np.zeros((n, m)), np.zeros((n, d_v))
    for i in range(n):
        visible = [j for j in range(m) if mask[i, j]]
        s = {j: scale * math.fsum(q[i, e] * k[j, e] for e in range(q.shape[1])) + bias[i, j] for j in visible}
        total = math.fsum(math.exp(x) for x in s.values())
        for j in visible:
            a[i, j] = math.exp(s[j]) / total
            g[i] += a[i, j] * dropout[i, j] * v[j]
    ds = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            for k_ in range(m):
                slope = a[i, k_] * ((j == k_) - a[i, j])
                ds[i, j] += slope * dropout[i, k_] * math.fsum(u[i, e] * v[k_, e] for e in range(d_v))
    return a, g, ds


def attend(q, k, v, *, mask=None, bias=None, scale=None, dropout=None):
    """Explicit operations: rows that see nothing are set to 0 after a softmax that cannot be NaN."""
    s = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        s = s + bias
    if mask is not None:
        s = s.masked_fill(~mask, -1e30)
    a = torch.softmax(s, -1)
    if mask is not None:
        a = a * mask
    return (a if dropout is None else a * dropout) @ v


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).movedim(-2, -3)


def block_loss(x, y, W, c, targets, *, heads, groups, attention=attend, **options):
    """The loss of the one-layer block; ``W`` and ``c`` are dictionaries over Q, K, V, O."""
    loss_options = {name: options.pop(name) for name in list(options) if name in LOSS_OPTIONS}
    q = heads_of(x @ W["Q"] + c["Q"], heads)
    k = heads_of(y @ W["K"] + c["K"], groups).repeat_interleave(heads // groups, -3)
    v = heads_of(y @ W["V"] + c["V"], groups).repeat_interleave(heads // groups, -3)
    g = attention(q, k, v, **options).movedim(-3, -2).flatten(-2)
    z = g @ W["O"] + c["O"]
    targets = targets.flatten() if not targets.is_floating_point() else targets.flatten(0, -2)
    return torch.nn.functional.cross_entropy(z.flatten(0, -2), targets, **loss_options)


LOSS_OPTIONS = {"reduction", "ignore_index", "weight", "label_smoothing"}
