"""What a check is run on: tiny inputs that print themselves as the code that rebuilds them.

An :class:`Example` is a frozen record of NumPy arrays. ``repr(example)`` is an expression which, with
``import numpy as np`` and ``from bayesgrad.testing import *``, gives the same example again: that is what a failing
check prints. ``example.tensors()`` names the same data, and what follows from it, with the letters of the notation
(q, k, v, u, s, M, a, b, g, ...), for statements that are evaluated by name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray


def as_code(value: Any) -> str:
    """An expression that rebuilds ``value``: an array, a number, a fraction, or a list, tuple or dict of these."""
    if isinstance(value, np.ndarray):
        if value.size == 0:
            return f"np.zeros({value.shape}, dtype={value.dtype.name!r})"
        dtype = "" if value.dtype in (np.float64, np.bool_, np.int64) else f", dtype={value.dtype.name!r}"
        return f"np.array({as_code(value.tolist())}{dtype})"
    if isinstance(value, float) and value != value:
        return "np.nan"
    if isinstance(value, float) and value in (np.inf, -np.inf):
        return "np.inf" if value > 0 else "-np.inf"
    if isinstance(value, Fraction):
        return f"Fraction({value.numerator}, {value.denominator})"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_code, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(as_code, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_code(k)}: {as_code(v)}" for k, v in value.items()) + "}"
    if isinstance(value, np.generic):
        return as_code(value.item())
    return repr(value)


@dataclass(frozen=True, eq=False, repr=False)
class Example:
    """Base of all examples: prints as code, and compares by content."""

    def __repr__(self) -> str:
        given = [
            f"{field.name}={as_code(getattr(self, field.name))}"
            for field in fields(self)
            if not (getattr(self, field.name) is None and field.default is None)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def tensors(self) -> dict[str, Array]:
        """The example's data named with the letters of the notation."""
        return {}


@dataclass(frozen=True, eq=False, repr=False)
class Head(Example):
    """One attention head in front of *any* network: that network enters only through u = dL/dg.

    s_ij = scale q_i.k_j + bias_ij,  a_i = softmax of s_i over the visible keys,  g_i = sum_j a_ij D_ij v_j.
    Shapes: q (n, d_k), k (m, d_k), v (m, d_v), u (n, d_v), mask, bias and dropout (n, m). ``mask`` is True where a
    query may attend; ``scale`` None means 1/sqrt(d_k).
    """

    q: Array
    k: Array
    v: Array
    u: Array
    mask: Array | None = None
    bias: Array | None = None
    dropout: Array | None = None
    scale: float | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """n, m, d_k and d_v."""
        return {"n": self.q.shape[0], "m": self.k.shape[0], "d_k": self.q.shape[1], "d_v": self.v.shape[1]}

    @property
    def the_scale(self) -> float:
        """The scale in force."""
        return float(self.q.shape[-1]) ** -0.5 if self.scale is None else self.scale

    @property
    def visible(self) -> Array:
        """The mask in force, as booleans (n, m)."""
        if self.mask is None:
            return np.ones((self.q.shape[0], self.k.shape[0]), dtype=bool)
        return self.mask

    @property
    def multiplier(self) -> Array:
        """The dropout multiplier D in force (n, m): ones without dropout."""
        if self.dropout is None:
            return np.ones((self.q.shape[0], self.k.shape[0]))
        return self.dropout

    def scores(self) -> Array:
        """s_ij in float64, also for pairs that are masked."""
        s = self.the_scale * np.einsum("id,jd->ij", self.q, self.k)
        return s if self.bias is None else s + self.bias

    def weights(self) -> Array:
        """a_ij in float64; zeros on masked pairs and empty rows."""
        s = np.where(self.visible, self.scores(), -np.inf)
        top = np.max(s, axis=-1, keepdims=True, initial=-np.inf)
        e = np.where(self.visible, np.exp(s - np.where(np.isfinite(top), top, 0.0)), 0.0)
        total = e.sum(-1, keepdims=True)
        return e / np.where(total > 0, total, 1.0)

    def tensors(self) -> dict[str, Array]:
        """q, k, v, u, M, bias, D, scale, s, a, b = D u.v, bbar, A = bbar - b and g."""
        a, D = self.weights(), self.multiplier
        b = D * np.einsum("ic,jc->ij", self.u, self.v)
        bbar = np.einsum("ij,ij->i", a, b)
        return {
            "q": self.q,
            "k": self.k,
            "v": self.v,
            "u": self.u,
            "M": self.visible.astype(float),
            "bias": np.zeros_like(a) if self.bias is None else self.bias,
            "D": D,
            "scale": np.asarray(self.the_scale),
            "s": self.scores(),
            "a": a,
            "b": b,
            "bbar": bbar,
            "A": bbar[:, None] - b,
            "g": np.einsum("ij,jc->ic", a * D, self.v),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Logits(Example):
    """Logits with hard targets: L = sum_i w_i (-log p_i[y_i]), or PyTorch's smoothed and class-weighted form.

    Shapes: z (n, C), targets (n,) with -100 for a position that does not count, class_weights (C,).
    """

    z: Array
    targets: Array
    reduction: str = "mean"
    class_weights: Array | None = None
    label_smoothing: float = 0.0

    def soft_targets(self) -> Array:
        """t_ic, so that L = -sum_ic t_ic log p_ic: w_i omega_c ((1 - eps) [c = y_i] + eps / C)."""
        n, C = self.z.shape
        omega = np.ones(C) if self.class_weights is None else self.class_weights
        counted = self.targets != -100
        hot = np.zeros((n, C))
        hot[np.flatnonzero(counted), self.targets[counted]] = 1.0
        t = counted[:, None] * omega * ((1 - self.label_smoothing) * hot + self.label_smoothing / C)
        if self.reduction == "mean":
            total = float((omega * hot).sum())
            t = t / total if total else 0.0 * t
        return t

    def tensors(self) -> dict[str, Array]:
        """z, p, t (soft targets), tau = sum_c t_c and, for an unweighted unsmoothed loss, w and the one-hot y."""
        z = self.z
        e = np.exp(z - z.max(-1, keepdims=True))
        t = self.soft_targets()
        counted = self.targets != -100
        hot = np.zeros(z.shape)
        hot[np.flatnonzero(counted), self.targets[counted]] = 1.0
        return {"z": z, "p": e / e.sum(-1, keepdims=True), "t": t, "tau": t.sum(-1), "w": t.sum(-1), "y": hot}
