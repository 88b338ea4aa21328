"""High-precision differences: L along a line through the example, in 50 digits, by the loops of the definition.

The directional derivative D is the central difference (L(h) - L(-h)) / 2h at h = 1e-16, exact to about 30 digits. The
Taylor remainder |L(h) - L(0) - h D| must shrink like h^2; its slope between two steps is returned with D, so a loss
that were not smooth there, or a difference that were not its derivative, would be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from bayesgrad.testing.examples import Array, Head, Layer, Logits
from checks.oracles import loops

DIGITS = 50
_H = mpmath.mpf(10) ** -16


def directional(f: Callable[[Any], Any]) -> tuple[float, float]:
    """(f'(0), slope of the Taylor remainder); the slope is 2 for a smooth f, or inf where f is affine."""
    with mpmath.workdps(DIGITS):
        derivative = (f(_H) - f(-_H)) / (2 * _H)
        start = f(mpmath.mpf(0))
        remainders = [abs(f(h) - start - h * derivative) for h in (mpmath.mpf(2) ** -30, mpmath.mpf(2) ** -31)]
        # The difference itself is good to about 32 digits; a remainder below h times that is rounding.
        if remainders[1] <= mpmath.mpf(10) ** (12 - DIGITS) * (1 + abs(start)):
            return float(derivative), float("inf")
        return float(derivative), float(mpmath.log(remainders[0] / remainders[1], 2))


def in_mpmath(array: Array) -> Any:
    """An array as nested lists of mpmath's numbers, each equal to its entry."""
    if array.ndim == 0:
        return mpmath.mpf(float(array))
    return [in_mpmath(row) for row in array]


def _step(array: Any, direction: Any, t: Any) -> Any:
    if isinstance(array, list):
        return [_step(x, d, t) for x, d in zip(array, direction, strict=True)]
    return array + t * direction


def direction_for(shape: tuple[int, ...]) -> Array:
    """A fixed direction without zeros and without a symmetry: 1, -3, 5, -7, ... over 4, in order."""
    size = int(np.prod(shape))
    signs = np.where(np.arange(size) % 2 == 0, 1.0, -1.0)
    return ((2 * np.arange(size) + 1) * signs / 4).reshape(shape)


def head_loss(head: Head, name: str, direction: Array) -> Callable[[Any], Any]:
    """t -> L with the stage or parameter ``name`` moved by t * direction."""
    stages: dict[str, Any] = {x: in_mpmath(getattr(head, x)) for x in ("q", "k", "v", "u")}
    stages["scale"] = mpmath.mpf(head.the_scale)
    stages["bias"] = in_mpmath(np.zeros(head.visible.shape) if head.bias is None else head.bias)
    visible, multiplier = head.visible.tolist(), in_mpmath(head.multiplier)
    move = in_mpmath(direction)
    first = ("q", "k", "scale", "bias")

    def loss(t: Any) -> Any:
        x = dict(stages)
        if name in x:
            x[name] = _step(x[name], move, t)
        s = loops.scores(*(x[part] for part in first))
        s = _step(s, move, t) if name == "s" else s
        a = loops.weights(s, visible, mpmath.exp)
        a = _step(a, move, t) if name == "a" else a
        g = loops.context(a, x["v"], multiplier)
        g = _step(g, move, t) if name == "g" else g
        return loops.inner(x["u"], g)

    return loss


def logit_loss(logits: Logits, direction: Array) -> Callable[[Any], Any]:
    """t -> cross-entropy with the logits moved by t * direction."""
    z, t_soft, move = in_mpmath(logits.z), in_mpmath(logits.soft_targets()), in_mpmath(direction)

    def loss(t: Any) -> Any:
        return loops.cross_entropy(_step(z, move, t), t_soft, mpmath.exp, mpmath.log)

    return loss


def layer_loss(layer: Layer, name: str, direction: Array) -> Callable[[Any], Any]:
    """t -> the layer's loss with the parameter ``name``, or the contexts g, moved by t * direction."""
    start: dict[str, Any] = {part: in_mpmath(getattr(layer, part)) for part in ("x", "W_Q", "W_K", "W_V", "W_O")}
    start |= {part: in_mpmath(layer.bias(part)) for part in ("c_Q", "c_K", "c_V", "c_O")}
    if layer.y is not None:
        start["y"] = in_mpmath(layer.y)
    visible, soft, move = layer.visible.tolist(), in_mpmath(layer.soft_targets()), in_mpmath(direction)
    ones = [[1] * len(visible[0])] * len(visible) if layer.dropout is None else in_mpmath(layer.dropout)
    beta = None if layer.beta is None else in_mpmath(layer.beta)
    d_k, d_v, share = layer.d_k, layer.d_v, layer.heads // layer.kv_heads

    def loss(t: Any) -> Any:
        p = dict(start)
        if name in p:
            p[name] = _step(p[name], move, t)
        memory = p.get("y", p["x"])
        q = loops.linear(p["x"], p["W_Q"], p["c_Q"])
        k, v = loops.linear(memory, p["W_K"], p["c_K"]), loops.linear(memory, p["W_V"], p["c_V"])
        g: list[list[Any]] = [[] for _ in q]
        for h in range(layer.heads):
            group = h // share
            keys = loops.columns(k, group * d_k, (group + 1) * d_k)
            values = loops.columns(v, group * d_v, (group + 1) * d_v)
            s = loops.scores(loops.columns(q, h * d_k, (h + 1) * d_k), keys, mpmath.mpf(layer.the_scale), beta)
            part = loops.context(loops.weights(s, visible, mpmath.exp), values, ones)
            g = [row + more for row, more in zip(g, part, strict=True)]
        g = _step(g, move, t) if name == "g" else g
        return loops.cross_entropy(loops.linear(g, p["W_O"], p["c_O"]), soft, mpmath.exp, mpmath.log)

    return loss


def head_stages(head: Head, moves: dict[str, Array], frozen: tuple[str, ...] = ()) -> Callable[[Any], dict[str, Any]]:
    """t -> the stages s, a, b, A, g and L of a head whose stages or parameters move by t * moves[name].

    Stages in ``frozen`` stay at their values for t = 0.
    """
    start: dict[str, Any] = {x: in_mpmath(getattr(head, x)) for x in ("q", "k", "v", "u")}
    start["scale"] = mpmath.mpf(head.the_scale)
    start["bias"] = in_mpmath(np.zeros(head.visible.shape) if head.bias is None else head.bias)
    visible, multiplier = head.visible.tolist(), in_mpmath(head.multiplier)
    steps = {name: in_mpmath(np.asarray(move)) for name, move in moves.items()}

    def moved(name: str, value: Any, t: Any) -> Any:
        return _step(value, steps[name], t) if name in steps else value

    def stages(t: Any) -> dict[str, Any]:
        x = {name: moved(name, value, t) for name, value in start.items()}
        s = moved("s", loops.scores(x["q"], x["k"], x["scale"], x["bias"]), t)
        a = moved("a", loops.weights(s, visible, mpmath.exp), t)
        if "a" in frozen:
            a = still["a"] if still else a
        b = [
            [m * e for m, e in zip(*rows, strict=True)]
            for rows in zip(multiplier, products_of(x["u"], x["v"]), strict=True)
        ]
        mean = [sum(w * e for w, e in zip(*rows, strict=True)) for rows in zip(a, b, strict=True)]
        A = [[m - e for e in row] for m, row in zip(mean, b, strict=True)]
        g = loops.context(a, x["v"], multiplier)
        return {"s": s, "a": a, "b": b, "A": A, "bbar": mean, "g": g, "L": loops.inner(x["u"], g), "v": x["v"]}

    still: dict[str, Any] = {}
    with mpmath.workdps(DIGITS):
        still.update(stages(mpmath.mpf(0)))
    return stages


def products_of(u: Any, v: Any) -> list[list[Any]]:
    """Every row of u times every row of v."""
    return [[sum(x * y for x, y in zip(row, other, strict=True)) for other in v] for row in u]


def slopes(stages: Callable[[Any], dict[str, Any]], *names: str) -> dict[str, Array]:
    """The derivative of the named stages at t = 0, each entry rounded once."""
    with mpmath.workdps(DIGITS):
        ahead, behind = stages(_H), stages(-_H)
        return {name: _gap(ahead[name], behind[name], 2 * _H) for name in names}


def changes(stages: Callable[[Any], dict[str, Any]], *names: str) -> dict[str, Array]:
    """The change of the named stages from t = 0 to t = 1, each entry rounded once."""
    with mpmath.workdps(DIGITS):
        ahead, behind = stages(mpmath.mpf(1)), stages(mpmath.mpf(0))
        return {name: _gap(ahead[name], behind[name], mpmath.mpf(1)) for name in names}


def _gap(one: Any, two: Any, width: Any) -> Array:
    if isinstance(one, list):
        return np.array([_gap(x, y, width) for x, y in zip(one, two, strict=True)])
    return np.asarray(float((one - two) / width))


def feedback_stages(layer: Layer, dv: Array, dW: Array, dc: Array) -> Callable[[Any], dict[str, Any]]:
    """t -> u, b and A of a one-head layer at fixed weights, when v, W_O and c_O move by t times their steps."""
    a, visible = in_mpmath(layer.head().weights()), layer.visible
    ones = [[1] * visible.shape[1]] * visible.shape[0]
    start = [in_mpmath(x) for x in (layer.project()["v"], layer.W_O, layer.bias("c_O"))]
    steps, soft = [in_mpmath(x) for x in (dv, dW, dc)], in_mpmath(layer.soft_targets())

    def stages(t: Any) -> dict[str, Any]:
        v, W, c = (_step(x, move, t) for x, move in zip(start, steps, strict=True))
        z = loops.linear(loops.context(a, v, ones), W, c)
        u = []
        for row, target in zip(z, soft, strict=True):
            e = [mpmath.exp(x) for x in row]
            r = [sum(target) * x / sum(e) - y for x, y in zip(e, target, strict=True)]
            u.append([sum(x * y for x, y in zip(r, weights, strict=True)) for weights in W])
        b = products_of(u, v)
        mean = [sum(w * x for w, x in zip(*rows, strict=True)) for rows in zip(a, b, strict=True)]
        return {"u": u, "b": b, "A": [[m - x for x in row] for m, row in zip(mean, b, strict=True)]}

    return stages
