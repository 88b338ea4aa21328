"""Forward mode: jets pushed through a forward map of their own (NumPy); each value comes with its error bound.

The stages of a head are computed from the first one that is a variable: dL/ds starts at the scores, dL/da at the
weights (taken as free), dL/dq at the queries.
"""

from __future__ import annotations

import numpy as np

from bayesgrad.testing.examples import Head, Layer, Logits
from bayesgrad.testing.jets import Jet, constant, leaf, matmul, matmul_t


def run_head(head: Head, **variables: Jet) -> dict[str, Jet]:
    """Every stage of a head; a stage given by name is a variable, the stages after it follow."""
    stage = dict(variables)
    for name in ("q", "k", "v"):
        stage.setdefault(name, constant(getattr(head, name)))
    stage.setdefault("scale", constant(head.the_scale))
    if "s" not in stage:
        product = matmul_t(stage["q"], stage["k"])
        stage["s"] = product * stage["scale"] + (0.0 if head.bias is None else head.bias)
        if "bias" in stage:
            stage["s"] = stage["s"] + stage["bias"]
    if "a" not in stage:
        e = stage["s"].exp() * head.visible.astype(float)
        stage["a"] = e / e.sum(-1)[..., None]
    if "g" not in stage:
        stage["g"] = matmul(stage["a"] * head.multiplier, stage["v"])
    stage["L"] = (stage["g"] * head.u).sum(-2, -1)
    return stage


def gradients(head: Head, *names: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """name -> (dL/d(name), its running error bound)."""
    start = run_head(head)
    values = {**{name: jet.x for name, jet in start.items()}, "bias": np.zeros(head.visible.shape)}
    out = {}
    for name in names:
        x = values[name]
        loss = run_head(head, **{name: leaf(x)})["L"]
        out[name] = (loss.dx.reshape(x.shape), loss.edx.reshape(x.shape))
    return out


def softmax_jacobian(head: Head) -> tuple[np.ndarray, np.ndarray]:
    """da_ij / ds_lk as an array (i, j, l, k), and its running error bound."""
    s = run_head(head)["s"].x
    a = run_head(head, s=leaf(s))["a"]
    n, m = s.shape
    return tuple(np.moveaxis(part.reshape(n, m, n, m), (0, 1), (2, 3)) for part in (a.dx, a.edx))  # type: ignore


def cross_entropy(logits: Logits) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The loss -sum t log p and its gradient, each with its running error bound."""
    z = leaf(logits.z)
    e = z.exp()
    log_p = (e / e.sum(-1)[..., None]).log()
    loss = -(log_p * logits.soft_targets()).sum(-2, -1)
    shape = logits.z.shape
    return {"L": (loss.x, loss.ex), "z": (loss.dx.reshape(shape), loss.edx.reshape(shape))}


_SCORES_FROM = frozenset(("x", "y", "W_Q", "W_K", "c_Q", "c_K", "q", "k"))
_VALUES_FROM = frozenset(("x", "y", "W_V", "c_V", "v"))


def run_layer(layer: Layer, known: dict[str, Jet] | None = None, **variables: Jet) -> dict[str, Jet]:
    """Every stage of a layer, head by head; a parameter or stage given by name is a variable.

    ``known``: the stages of the same layer without variables; those that no variable reaches are taken from there.
    """
    stage, known = dict(variables), known or {}
    still = known if not _SCORES_FROM & set(variables) else {}
    fixed = still if not _VALUES_FROM & set(variables) else {}
    for name in ("x", "W_Q", "W_K", "W_V", "W_O"):
        stage.setdefault(name, constant(getattr(layer, name)))
    for name in ("c_Q", "c_K", "c_V", "c_O"):
        stage.setdefault(name, constant(layer.bias(name)))
    stage.setdefault("y", stage["x"] if layer.y is None else constant(layer.y))
    for name, source in (("q", "x"), ("k", "y"), ("v", "y")):
        if name in stage:
            continue
        if (still if name in "qk" else fixed) and name in known:
            stage[name] = known[name]
        else:
            stage[name] = matmul(stage[source], stage["W_" + name.upper()]) + stage["c_" + name.upper()]
    z = stage["c_O"][None, :]
    for h in range(layer.heads):
        group = h // (layer.heads // layer.kv_heads)
        at = slice(h * layer.d_v, (h + 1) * layer.d_v)
        if "g" in stage:
            g = stage["g"][:, at]
        elif f"g{h}" in fixed:
            g = fixed[f"g{h}"]
        else:
            q = stage["q"][:, h * layer.d_k : (h + 1) * layer.d_k]
            k = stage["k"][:, group * layer.d_k : (group + 1) * layer.d_k]
            v = stage["v"][:, group * layer.d_v : (group + 1) * layer.d_v]
            if f"a{h}" in still:
                a = still[f"a{h}"]
            else:
                s = matmul_t(q, k) * layer.the_scale
                e = (s if layer.beta is None else s + layer.beta).exp() * layer.visible.astype(float)
                a = e / e.sum(-1)[..., None]
            g = matmul(a if layer.dropout is None else a * layer.dropout, v)
            stage[f"a{h}"], stage[f"g{h}"] = a, g
        z = z + matmul(g, stage["W_O"][at])
    e = z.exp()
    log_p = (e / e.sum(-1)[..., None]).log()
    stage["z"] = z
    stage["L"] = -(log_p * layer.soft_targets()).sum(-2, -1)
    return stage


def layer_gradients(layer: Layer, *names: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """name -> (dL/d(name), its running error bound)."""
    known = run_layer(layer)
    start = {**{name: jet.x for name, jet in known.items()}, "g": layer.context()}
    out = {}
    for name in names:
        loss = run_layer(layer, known, **{name: leaf(start[name])})["L"]
        out[name] = (loss.dx.reshape(start[name].shape), loss.edx.reshape(start[name].shape))
    return out
