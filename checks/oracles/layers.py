"""Oracles for attention layers with a linear read-out: the same three ways as for one head."""

from __future__ import annotations

import numpy as np

from bayesgrad.testing.engine import Oracle, Reference, named, unbounded
from bayesgrad.testing.examples import Layer
from bayesgrad.testing.jets import matmul, matmul_t
from bayesgrad.testing.oracles import forward, reverse
from checks.oracles import differences, padded_layer
from checks.oracles.heads import JAX, smooth, with_jax


def present(layer: Layer, names: tuple[str, ...]) -> list[str]:
    """Those of the named parameters that the layer has: y only in cross-attention, biases only where given."""
    return [name for name in names if name[:2] not in ("y", "c_") or getattr(layer, name) is not None]


def layer_gradients(*names: str, differentiate: tuple[str, ...] | None = None) -> tuple[Oracle, ...]:
    """dL/d(name) of a layer; the slow differences only for the names in ``differentiate`` (all by default)."""

    def by_differences(layer: Layer) -> dict[str, Reference]:
        found = {}
        for name in present(layer, names if differentiate is None else differentiate):
            shape = layer.context().shape if name == "g" else reverse.run_layer(layer)[name].shape
            direction = differences.direction_for(tuple(shape))
            derivative = differences.directional(differences.layer_loss(layer, name, direction))
            found[name] = Reference(np.asarray(smooth(*derivative)), direction=direction)
        return found

    return (
        Oracle("forward jets", lambda layer: named(forward.layer_gradients(layer, *present(layer, names)))),
        Oracle("PyTorch reverse mode", lambda layer: unbounded(reverse.layer_gradients(layer, *present(layer, names)))),
        *with_jax(JAX, lambda layer: padded_layer.layer_gradients(layer, *present(layer, names))),
        Oracle("differences in 50 digits", by_differences, slow=True),
    )


def by_head(layer: Layer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q (H, n, d_k), k (G, m, d_k), v (G, m, d_v)."""
    parts = layer.project()
    return (
        apart(parts["q"], layer.heads),
        apart(parts["k"], layer.kv_heads),
        apart(parts["v"], layer.kv_heads),
    )


def apart(x: np.ndarray, heads: int) -> np.ndarray:
    """(n, H d) to (H, n, d), one slice of columns a head."""
    width = x.shape[1] // heads
    return np.stack([x[:, h * width : (h + 1) * width] for h in range(heads)])


def _split(layer: Layer, said: dict[str, Reference]) -> dict[str, Reference]:
    out = {}
    for name, stage in (("queries", "q"), ("keys", "k"), ("values", "v"), ("upstream", "g")):
        heads = layer.heads if stage in "qg" else layer.kv_heads
        found = said[stage]
        bound = None if found.bound is None else apart(found.bound, heads)
        out[name] = Reference(apart(found.value, heads), bound)
    return out


def _apart_in_jax(layer: Layer) -> dict[str, np.ndarray]:
    said = _split(layer, unbounded(padded_layer.layer_gradients(layer, "q", "k", "v", "g")))
    return {name: found.value for name, found in said.items()}


HEADS_APART = (
    Oracle("forward jets", lambda layer: _split(layer, named(forward.layer_gradients(layer, "q", "k", "v", "g")))),
    Oracle(
        "PyTorch reverse mode",
        lambda layer: _split(layer, unbounded(reverse.layer_gradients(layer, "q", "k", "v", "g"))),
    ),
    *with_jax(JAX, _apart_in_jax),
)


def _loss_forward(layer: Layer) -> dict[str, Reference]:
    loss = forward.run_layer(layer)["L"]
    return {"L": Reference(loss.x, loss.ex)}


LOSS = (
    Oracle("forward jets", _loss_forward),
    Oracle("PyTorch", lambda layer: unbounded({"L": reverse.run_layer(layer)["L"].detach().numpy()})),
    *with_jax("JAX", lambda layer: {"L": padded_layer.run_layer(layer)[1]["L"]}),
)


def _stages_forward(layer: Layer) -> dict[str, Reference]:
    stage = forward.run_layer(layer)
    seen = layer.visible.astype(float)
    s = matmul_t(stage["q"], stage["k"]) * layer.the_scale
    e = s.exp() * seen
    a = e / e.sum(-1)[..., None]
    context = matmul(a, stage["v"])
    jets = {
        "q": stage["q"],
        "k": stage["k"],
        "v": stage["v"],
        "z": stage["z"],
        "s": s * seen,
        "a": a,
        "context": context,
    }
    gradients = named(forward.layer_gradients(layer, "q", "g"))
    found = {name: Reference(jet.x, jet.ex) for name, jet in jets.items()}
    return {**found, "u W_O": gradients["g"], "dq": gradients["q"]}


def _stages_reverse(layer: Layer) -> dict[str, Reference]:
    graph = {name: x.detach().numpy() for name, x in reverse.run_layer(layer).items()}
    gradients = reverse.layer_gradients(layer, "q", "g")
    found = {name: graph[name] for name in ("q", "k", "v", "z")}
    found |= {"a": graph["a"][0], "context": graph["g"], "s": np.where(layer.visible, graph["s"][0], 0.0)}
    return unbounded({**found, "u W_O": gradients["g"], "dq": gradients["q"]})


def _stages_jax(layer: Layer) -> dict[str, np.ndarray]:
    slopes, stage = padded_layer.run_layer(layer)
    found = {name: stage[name] for name in ("q", "k", "v", "z")}
    found |= {"a": stage["a"][0], "context": stage["g"], "s": np.where(layer.visible, stage["s"][0], 0.0)}
    return {**found, "u W_O": slopes["g"], "dq": slopes["q"]}


STAGES = (
    Oracle("forward jets", _stages_forward),
    Oracle("PyTorch reverse mode", _stages_reverse),
    *with_jax(JAX, _stages_jax),
)
