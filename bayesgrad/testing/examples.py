"""What a check is run on: tiny inputs that print themselves as the code that rebuilds them.

An :class:`Example` is a frozen record of NumPy arrays. ``repr(example)`` is an expression which, with
``import numpy as np`` and ``from bayesgrad.testing import *``, gives the same example again: that is what a failing
check prints. ``example.tensors()`` names the same data, and what follows from it, with the letters of the notation
(q, k, v, u, s, M, a, b, g, ...), for statements that are evaluated by name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Literal

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

    def named_sizes(self) -> dict[str, int]:
        """Sizes that a statement may need although no tensor in it has them."""
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

    def named_sizes(self) -> dict[str, int]:
        """The same."""
        return self.sizes

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
        """q, k, v, u, M, beta (the bias), D, scale, s, a, b = D u.v, bbar, A = bbar - b and g."""
        a, D = self.weights(), self.multiplier
        bias = np.zeros_like(a) if self.bias is None else self.bias
        b = D * np.einsum("ic,jc->ij", self.u, self.v)
        bbar = np.einsum("ij,ij->i", a, b)
        return {
            "q": self.q,
            "k": self.k,
            "v": self.v,
            "u": self.u,
            "M": self.visible.astype(float),
            "beta": bias,
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
    reduction: Literal["mean", "sum", "none"] = "mean"
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
        """z, p, t (soft targets), tau = sum_c t_c, omega, epsilon, the classes y, and w_i (0 where ignored)."""
        z = self.z
        e = np.exp(z - z.max(-1, keepdims=True))
        t = self.soft_targets()
        counted = self.targets != -100
        y = np.where(counted, self.targets, 0)
        omega = np.ones(z.shape[1]) if self.class_weights is None else self.class_weights
        w = counted / (omega[y] * counted).sum() if self.reduction == "mean" else counted.astype(float)
        return {
            "z": z,
            "p": e / e.sum(-1, keepdims=True),
            "t": t,
            "tau": t.sum(-1),
            "w": w,
            "y": y,
            "omega": omega,
            "epsilon": np.asarray(self.label_smoothing),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Layer(Example):
    """An attention layer with a linear read-out under cross-entropy: z = g W_O + c_O, the heads' g side by side.

    Shapes: x (n, d_x); y (m, d_y) for cross-attention, None for self-attention; W_Q (d_x, H d_k), W_K (d_y, G d_k),
    W_V (d_y, G d_v), W_O (H d_v, C), biases c_Q, c_K, c_V, c_O (or None: none of the four); targets (n,) with -100
    for positions that do not count; mask, beta (a bias of the scores) and dropout (n, m), the same for all heads.
    Query head h reads key/value head h // (H / G).
    """

    x: Array
    W_Q: Array
    W_K: Array
    W_V: Array
    W_O: Array
    targets: Array
    y: Array | None = None
    c_Q: Array | None = None
    c_K: Array | None = None
    c_V: Array | None = None
    c_O: Array | None = None
    mask: Array | None = None
    beta: Array | None = None
    dropout: Array | None = None
    scale: float | None = None
    heads: int = 1
    kv_heads: int = 1
    reduction: Literal["mean", "sum", "none"] = "sum"

    @property
    def memory(self) -> Array:
        """What keys and values are made of: y, or x in self-attention."""
        return self.x if self.y is None else self.y

    @property
    def visible(self) -> Array:
        """The mask in force, as booleans (n, m)."""
        shape = (self.x.shape[0], self.memory.shape[0])
        return np.ones(shape, dtype=bool) if self.mask is None else self.mask

    @property
    def d_k(self) -> int:
        """The width of a key."""
        return self.W_Q.shape[1] // self.heads

    @property
    def d_v(self) -> int:
        """The width of a value."""
        return self.W_V.shape[1] // self.kv_heads

    @property
    def the_scale(self) -> float:
        """The scale in force."""
        return float(self.d_k) ** -0.5 if self.scale is None else self.scale

    def bias(self, name: str) -> Array:
        """c_Q, c_K, c_V or c_O in force: zeros where none is given."""
        given = getattr(self, name)
        return np.zeros(getattr(self, "W" + name[1:]).shape[1]) if given is None else given

    def soft_targets(self) -> Array:
        """t (n, C) with w_i = 1 or 1/N."""
        return Logits(np.zeros((len(self.targets), self.W_O.shape[1])), self.targets, self.reduction).soft_targets()

    def project(self) -> dict[str, Array]:
        """q, k, v with all heads side by side."""
        memory = self.memory
        return {
            "q": self.x @ self.W_Q + self.bias("c_Q"),
            "k": memory @ self.W_K + self.bias("c_K"),
            "v": memory @ self.W_V + self.bias("c_V"),
        }

    def head(self, h: int = 0) -> Head:
        """Query head h with the upstream gradient that the read-out sends it."""
        parts, group = self.project(), h // (self.heads // self.kv_heads)
        at, here = slice(h * self.d_v, (h + 1) * self.d_v), slice(group * self.d_v, (group + 1) * self.d_v)
        q = parts["q"][:, h * self.d_k : (h + 1) * self.d_k]
        k = parts["k"][:, group * self.d_k : (group + 1) * self.d_k]
        v = parts["v"][:, here]
        u = self.logit_gradient() @ self.W_O[at].T
        return Head(q, k, v, u, self.mask, self.beta, self.dropout, self.the_scale)

    def context(self) -> Array:
        """g (n, H d_v), all heads side by side."""
        parts, out = self.project(), []
        for h in range(self.heads):
            group = h // (self.heads // self.kv_heads)
            v = parts["v"][:, group * self.d_v : (group + 1) * self.d_v]
            q = parts["q"][:, h * self.d_k : (h + 1) * self.d_k]
            k = parts["k"][:, group * self.d_k : (group + 1) * self.d_k]
            u = np.zeros((len(q), self.d_v))
            head = Head(q, k, v, u, self.mask, self.beta, self.dropout, self.the_scale)
            out.append((head.weights() * head.multiplier) @ v)
        return np.concatenate(out, axis=-1)

    def logit_gradient(self) -> Array:
        """r = tau p - t (n, C)."""
        t = self.soft_targets()
        z = self.context() @ self.W_O + self.bias("c_O")
        e = np.exp(z - z.max(-1, keepdims=True))
        return t.sum(-1, keepdims=True) * e / e.sum(-1, keepdims=True) - t

    def tensors(self) -> dict[str, Array]:
        """The head's letters (several heads: on an axis in front), x, x', W_*, b_*, z, p, r, t, tau."""
        t = self.soft_targets()
        z = self.context() @ self.W_O + self.bias("c_O")
        e = np.exp(z - z.max(-1, keepdims=True))
        named = {
            "x": self.x,
            "x'": self.memory,
            "t": t,
            "tau": t.sum(-1),
            "z": z,
            "p": e / e.sum(-1, keepdims=True),
            "r": self.logit_gradient(),
            "M": self.visible.astype(float),
            "scale": np.asarray(self.the_scale),
            **{name: getattr(self, name) for name in ("W_Q", "W_K", "W_V")},
            **{"b" + name[1:]: self.bias(name) for name in ("c_Q", "c_K", "c_V")},
            "c_O": self.bias("c_O"),
        }
        parts = [self.head(h).tensors() for h in range(self.heads)]
        if self.heads == 1:
            return {**parts[0], **named, "W_O": self.W_O}
        share = self.heads // self.kv_heads
        together = {name: np.stack([part[name] for part in parts]) for name in ("q", "u", "s", "a", "b", "bbar", "g")}
        together |= {name: np.stack([part[name] for part in parts[::share]]) for name in ("k", "v")}
        W_O = self.W_O.reshape(self.heads, self.d_v, -1)  # row c of head h is row h d_v + c
        return {**named, **together, "W_O": W_O, "group": np.arange(self.heads) // share}

    def named_sizes(self) -> dict[str, int]:
        """n, m, d_x, d_k, d_v, C, H and G."""
        n, m, C = self.x.shape[0], self.memory.shape[0], self.W_O.shape[1]
        widths = {"d_x": self.x.shape[1], "d_k": self.d_k, "d_v": self.d_v}
        return {"n": n, "m": m, **widths, "C": C, "H": self.heads, "G": self.kv_heads}


@dataclass(frozen=True, eq=False, repr=False)
class Stepped(Example):
    """A head and the size of a gradient step."""

    head: Head
    eta: float

    def tensors(self) -> dict[str, Array]:
        """The head's letters, eta, the score step ds = eta a A, the visible range R of b, top = where a is largest."""
        of = self.head.tensors()
        b, seen = of["b"], self.head.visible
        R = np.where(seen, b, -np.inf).max(-1) - np.where(seen, b, np.inf).min(-1)
        eta = np.asarray(self.eta)
        return {**of, "eta": eta, "ds": self.eta * of["a"] * of["A"], "R": R, "top": of["a"].argmax(-1)}

    def named_sizes(self) -> dict[str, int]:
        """Those of the head."""
        return self.head.sizes


@dataclass(frozen=True, eq=False, repr=False)
class SteppedLayer(Example):
    """A layer with one head, a step size, and steps of the read-out: W_O moves by dW, c_O by dc."""

    layer: Layer
    eta: float
    dW: Array
    dc: Array

    def tensors(self) -> dict[str, Array]:
        """The layer's letters, eta, dv = -eta a^T u, dg, dW, dc and dz = dg W_O + g dW + dc."""
        of = self.layer.tensors()
        dv = -self.eta * of["a"].T @ of["u"]
        dg = of["a"] @ dv
        dz = dg @ of["W_O"] + of["g"] @ self.dW + self.dc
        return {**of, "eta": np.asarray(self.eta), "dv": dv, "dg": dg, "dW": self.dW, "dc": self.dc, "dz": dz}

    def named_sizes(self) -> dict[str, int]:
        """Those of the layer."""
        return self.layer.named_sizes()


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Example):
    """Components with prior weights (whole numbers, (m,)) and costs, and a change of the costs."""

    priors: Array
    costs: Array
    change: Array

    @property
    def pi(self) -> Array:
        """The priors as float64 probabilities."""
        return self.priors / self.priors.sum()

    def tensors(self) -> dict[str, Array]:
        """pi, c, c' = c + dc, dc; the same as weights a and compatibility b, with bbar."""
        of = {"pi": self.pi, "c": self.costs, "c'": self.costs + self.change, "dc": self.change}
        return {**of, "a": self.pi, "b": self.costs, "bbar": np.asarray(self.pi @ self.costs)}


@dataclass(frozen=True, eq=False, repr=False)
class Clusters(Example):
    """Queries q (n, d), keys k (m, d) as means of Gaussians, prior weights (m,) as whole numbers, scale > 0."""

    q: Array
    k: Array
    priors: Array
    scale: float

    def tensors(self) -> dict[str, Array]:
        """k, pi, M (all visible), scale, and q of the first query alone."""
        M = np.ones(len(self.k))
        return {"q": self.q[0], "k": self.k, "pi": self.priors.astype(float), "M": M, "scale": np.asarray(self.scale)}


@dataclass(frozen=True, eq=False, repr=False)
class Moved(Example):
    """Logits with targets, and other logits z'."""

    logits: Logits
    other: Array

    def tensors(self) -> dict[str, Array]:
        """The letters of the logits, z' and p'."""
        e = np.exp(self.other - self.other.max(-1, keepdims=True))
        return {**self.logits.tensors(), "z'": self.other, "p'": e / e.sum(-1, keepdims=True)}


@dataclass(frozen=True, eq=False, repr=False)
class Rate(Example):
    """A step size alone."""

    eta: float
