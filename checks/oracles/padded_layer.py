"""Cross-entropy and layers with a read-out in JAX: reverse mode in padded blocks, as in :mod:`.padded`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayesgrad.testing.examples import Array, Layer, Logits
from checks.oracles.padded import at_least, call, into, jax_module, log_softmax, seen_in, softmax


def _cross_entropy(z: Any, targets: Any, classes: Any, omega: Any, eps: Any, mean: Any) -> Any:
    """sum_i -(1 - eps) omega_{y_i} log p_{i y_i} - (eps / C) sum_c omega_c log p_ic, over sum_i omega_{y_i} if mean."""
    xp = jax_module().numpy
    log_p = log_softmax(z, classes)
    counted = targets >= 0
    y = xp.where(counted, targets, 0)
    own = xp.take_along_axis(log_p, y[:, None], axis=1)[:, 0]
    loss = -(1 - eps) * omega[y] * own - eps / xp.sum(classes) * xp.sum(omega * log_p, axis=1)
    total = xp.sum(xp.where(counted, omega[y], 0.0))
    return xp.sum(xp.where(counted, loss, 0.0)) / xp.where(mean, total, 1.0)


@functools.cache
def _logits_program() -> Callable[..., Any]:
    jax = jax_module()

    def program(z: Any, *given: Any) -> Any:
        loss, pull = jax.vjp(lambda z: _cross_entropy(z, *given), z)
        return loss, pull(jax.numpy.ones_like(loss))[0]

    return jax.jit(program)


def cross_entropy(logits: Logits) -> dict[str, Array]:
    """The loss and its gradient in the logits."""
    n, C = logits.z.shape
    N, D = at_least(5, n), at_least(5, C)
    omega = np.ones(C) if logits.class_weights is None else logits.class_weights
    loss, gradient = call(
        _logits_program,
        into(logits.z, N, D),
        into(logits.targets, N),
        into(np.ones(C, dtype=bool), D),
        into(omega, D),
        np.asarray(logits.label_smoothing),
        np.asarray(logits.reduction == "mean"),
    )
    return {"L": loss, "z": gradient[:n, :C]}


# --- a layer ----------------------------------------------------------------------------------------------------------


def _layer_loss(x: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Every parameter a head: W_Q (H, d_x, d_k), W_K and W_V (G, d_y, .), W_O (H, d_v, C); group (H,) is h // (H/G)."""
    xp = jax_module().numpy
    memory = x.get("y", x["x"])
    q = xp.einsum("nx,hxk->hnk", x["x"], x["W_Q"]) + x["c_Q"][:, None] + x["q"]
    k = xp.einsum("my,gyk->gmk", memory, x["W_K"]) + x["c_K"][:, None] + x["k"]
    v = xp.einsum("my,gyv->gmv", memory, x["W_V"]) + x["c_V"][:, None] + x["v"]
    s = given["scale"] * xp.einsum("hnk,hmk->hnm", q, k[given["group"]]) + given["beta"]
    a = softmax(s, given["seen"])
    g = xp.einsum("hnm,hmv->hnv", a * given["dropout"], v[given["group"]]) + x["g"]
    z = xp.einsum("hnv,hvc->nc", g, x["W_O"]) + x["c_O"]
    ones = xp.where(given["classes"], 1.0, 0.0)
    loss = _cross_entropy(z, given["targets"], given["classes"], ones, 0.0, given["mean"])
    return loss, {"q": q, "k": k, "v": v, "s": s, "a": a, "g": g, "z": z}


@functools.cache
def _layer_program() -> Callable[..., Any]:
    jax = jax_module()

    def program(variables: Any, given: Any) -> Any:
        loss, pull, stages = jax.vjp(lambda x: _layer_loss(x, given), variables, has_aux=True)
        return pull(jax.numpy.ones_like(loss))[0], {**stages, "L": loss}

    return jax.jit(program)


def _apart(x: Array, heads: int) -> Array:
    """Heads side by side on the last axis (..., H d) to (H, ..., d)."""
    return np.moveaxis(x.reshape(*x.shape[:-1], heads, -1), -2, 0)


def _beside(x: Array) -> Array:
    """(H, ..., d) to heads side by side on the last axis (..., H d)."""
    moved = np.moveaxis(x, 0, -2)
    return moved.reshape(*moved.shape[:-2], -1)


def run_layer(layer: Layer) -> tuple[dict[str, Array], dict[str, Array]]:
    """(name -> dL/d(name) for parameters and q, k, v, g; name -> the stage q, k, v, s, a, g, z or L).

    q, k, v and g have their heads side by side, s and a have them in front.
    """
    H, G, (n, m), C = layer.heads, layer.kv_heads, layer.visible.shape, layer.W_O.shape[1]
    N, M, D = at_least(6, n), at_least(6, m), at_least(6, C)
    X, K, V, P = (at_least(*sizes) for sizes in ((6, layer.x.shape[1]), (6, layer.d_k), (6, layer.d_v), (4, H)))
    Y = X if layer.y is None else at_least(7, layer.memory.shape[1])
    read = layer.W_O.reshape(H, layer.d_v, C)
    parameters = {"x": layer.x, "W_O": read, "c_O": layer.bias("c_O")}
    block: dict[str, tuple[int, ...]] = {"x": (N, X), "W_O": (P, V, D), "c_O": (D,)}
    if layer.y is not None:
        parameters["y"], block["y"] = layer.y, (M, Y)
    for letter, heads, width, inputs in (("Q", H, K, X), ("K", G, K, Y), ("V", G, V, Y)):
        parameters["c_" + letter] = _apart(layer.bias("c_" + letter), heads)
        parameters["W_" + letter] = _apart(getattr(layer, "W_" + letter), heads)
        block |= {"W_" + letter: (P, inputs, width), "c_" + letter: (P, width)}
    variables = {name: into(x, *block[name]) for name, x in parameters.items()}
    variables |= {
        name: np.zeros((P, size, width)) for name, size, width in (("q", N, K), ("k", M, K), ("v", M, V), ("g", N, V))
    }
    given = {
        "scale": np.asarray(layer.the_scale),
        "group": into(np.arange(H) // (H // G), P) * (np.arange(P) < H),
        "seen": seen_in(layer.visible, N, M),
        "beta": into(np.zeros((n, m)) if layer.beta is None else layer.beta, N, M),
        "dropout": into(np.ones((n, m)) if layer.dropout is None else layer.dropout, N, M),
        "targets": into(layer.targets, N),
        "classes": into(np.ones(C, dtype=bool), D),
        "mean": np.asarray(layer.reduction == "mean"),
    }
    slopes, stages = call(_layer_program, variables, given)
    widths = {"q": (H, n, layer.d_k), "k": (G, m, layer.d_k), "v": (G, m, layer.d_v), "g": (H, n, layer.d_v)}
    ends = {**{name: x.shape for name, x in parameters.items()}, **widths, "s": (H, n, m), "a": (H, n, m), "z": (n, C)}

    def cut(name: str, x: Array) -> Array:
        inner = x[tuple(slice(0, end) for end in ends.get(name, ()))]
        if name == "W_O":
            return inner.reshape(layer.W_O.shape)
        return _beside(inner) if name in widths or (name[:2] in ("W_", "c_") and name != "c_O") else inner

    return ({k: cut(k, x) for k, x in slopes.items()}, {k: cut(k, x) for k, x in stages.items()})


def layer_gradients(layer: Layer, *names: str) -> dict[str, Array]:
    """dL/d(name) for the named stages and parameters of a layer."""
    found, _ = run_layer(layer)
    return {name: found[name] for name in names}
