"""Forward mode: jets pushed through a forward map of their own (NumPy); each value comes with its error bound.

The stages of a head are computed from the first one that is a variable: dL/ds starts at the scores, dL/da at the
weights (taken as free), dL/dq at the queries.
"""

from __future__ import annotations

import numpy as np

from ..examples import Head, Logits
from ..jets import Jet, constant, leaf, matmul, matmul_t


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
