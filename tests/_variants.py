"""Attention variants and layers in plain SymPy, each in a book of its own, as a user would write them.

A variant is a namespace: its ``book``, its loss ``L``, and its letters by their names.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import sympy as sp
from sympy import Derivative, Function, IndexedBase, Sum, exp, log, sqrt, tanh

from bayesgrad.symbolic.book import Book

n, m, d_k, d_v = sp.symbols("n m d_k d_v", integer=True, nonnegative=True)
d, C = sp.symbols("d C", integer=True, positive=True)
i, j, k, l, e, c, f, y, w = sp.symbols("i j k l e c f y w", integer=True)


def array(name: str, *shape: Any) -> IndexedBase:
    return IndexedBase(name, shape=shape)


def total(body: Any, *positions: tuple[Any, Any]) -> Any:
    return Sum(body, *((at, 0, size - 1) for at, size in reversed(positions)))


class Variant(SimpleNamespace):
    """Letters by name; ``let`` adds a definition to the book."""

    def __init__(self) -> None:
        super().__init__(book=Book(), let=None)
        self.let = self.book.let

    def arrays(self, names: str, *shape: Any) -> None:
        for name in names.split():
            setattr(self, name, array(name, *shape))

    def softmax(self, mass: Any = 0, mark: str = "") -> None:
        """a from s under the mask M, with a definition of the mass Z; ``mass`` is what is added to it."""
        self.arrays(f"s{mark} a{mark}", n, m)
        self.arrays(f"Z{mark}", n)
        s, a, Z = (getattr(self, x + mark) for x in "saZ")
        kind = "positive" if mass != 0 else "nonnegative"
        self.let(Z[i], mass + total(self.M[i, k] * exp(s[i, k]), (k, m)), kind)
        self.let(a[i, j], self.M[i, j] * exp(s[i, j]) / Z[i], "nonnegative")

    def context(self, *means: str) -> None:
        """g, any loss of it, and the letters b and bbar; ``means`` are the weights that b has a mean for."""
        self.arrays("g u", n, d_v)
        self.arrays("v", m, d_v)
        self.arrays("b", n, m)
        self.let(self.g[i, c], total(self.a[i, j] * self.v[j, c], (j, m)))
        self.loss(self.g)
        self.let(self.b[i, j], total(self.u[i, c] * self.v[j, c], (c, d_v)))
        for mark in means or ("",):
            self.arrays(f"bbar{mark}", n)
            weights = getattr(self, f"a{mark}")
            self.let(getattr(self, f"bbar{mark}")[i], total(weights[i, j] * self.b[i, j], (j, m)))

    def loss(self, g: Any) -> None:
        at = (i, c) if g.shape[1] == d_v else (i, f)
        self.u = array("u", *g.shape)
        self.L = Function("L")(g)
        self.let(self.u[at], Derivative(self.L, g[at]))


def masked() -> Variant:
    v = Variant()
    v.arrays("M", n, m)
    v.let(v.M[i, j], kind="indicator")
    return v


def head(columns: Any = m) -> Variant:
    """Scaled dot products; with ``columns`` = n queries and keys are as many."""
    v = masked()
    v.arrays("q", n, d_k)
    v.arrays("K", m, d_k)
    v.scale = sp.Symbol("scale")
    v.arrays("s", n, m)
    v.let(v.s[i, j], v.scale * total(v.q[i, e] * v.K[j, e], (e, d_k)))
    v.softmax()
    v.context()
    return v


def square() -> Variant:
    """As many keys as queries, weights free: what transposes can be confused in."""
    v = Variant()
    v.arrays("a", n, n)
    v.arrays("g u v", n, d_v)
    v.arrays("N", n)
    v.let(v.a[i, j], kind="positive")
    v.let(v.g[i, c], total(v.a[i, j] * v.v[j, c], (j, n)))
    v.loss(v.g)
    v.let(v.N[j], total(v.a[i, j], (i, n)), "nonnegative")
    return v


def soft_capped() -> Variant:
    """s = cap tanh(t / cap)."""
    v = masked()
    v.arrays("t s", n, m)
    v.cap = sp.Symbol("cap", positive=True)
    v.let(v.s[i, j], v.cap * tanh(v.t[i, j] / v.cap))
    v.softmax()
    v.context()
    return v


def tempered() -> Variant:
    v = masked()
    v.arrays("t s", n, m)
    v.T = sp.Symbol("T", positive=True)
    v.let(v.s[i, j], v.t[i, j] / v.T)
    v.softmax()
    v.context()
    return v


def with_sink() -> Variant:
    """A sink of all rows, and an ALiBi slope."""
    v = masked()
    v.arrays("t dist s", n, m)
    v.sigma, v.slope = sp.symbols("sigma slope")
    v.let(v.s[i, j], v.t[i, j] - v.slope * v.dist[i, j])
    v.softmax(exp(v.sigma))
    v.arrays("a_0", n)
    v.let(v.a_0[i], exp(v.sigma) / v.Z[i], "positive")
    v.context()
    return v


def with_lse() -> Variant:
    """The loss also depends on log Z, linearly with slope w."""
    v = Variant()
    v.size = M = sp.Symbol("m", integer=True, positive=True)
    v.arrays("s a b", n, M)
    v.arrays("Z w bbar", n)
    v.arrays("v", M, d_v)
    v.arrays("g u", n, d_v)
    v.let(v.Z[i], total(exp(v.s[i, k]), (k, M)), "positive")
    v.let(v.a[i, j], exp(v.s[i, j]) / v.Z[i], "positive")
    v.let(v.g[i, c], total(v.a[i, j] * v.v[j, c], (j, M)))
    part = Function("L_1")(v.g)
    v.let(v.u[i, c], Derivative(part, v.g[i, c]))
    v.L = sp.Symbol("L")
    v.let(v.L, part + total(v.w[i] * log(v.Z[i]), (i, n)))
    v.let(v.b[i, j], total(v.u[i, c] * v.v[j, c], (c, d_v)))
    v.let(v.bbar[i], total(v.a[i, j] * v.b[i, j], (j, M)))
    return v


def sigmoid() -> Variant:
    v = masked()
    v.arrays("s a", n, m)
    v.let(v.a[i, j], v.M[i, j] / (1 + exp(-v.s[i, j])), "nonnegative")
    v.context()
    return v


def linear() -> Variant:
    v = masked()
    v.arrays("t a", n, m)
    v.arrays("Z", n)
    v.let(v.t[i, j], kind="positive")
    v.let(v.Z[i], total(v.M[i, k] * v.t[i, k], (k, m)), "nonnegative")
    v.let(v.a[i, j], v.M[i, j] * v.t[i, j] / v.Z[i], "nonnegative")
    v.context()
    return v


def differential() -> Variant:
    """a = a_1 - lam a_2."""
    v = masked()
    v.lam = sp.Symbol("lam")
    v.softmax(mark="_1")
    v.softmax(mark="_2")
    v.arrays("a", n, m)
    v.let(v.a[i, j], v.a_1[i, j] - v.lam * v.a_2[i, j])
    v.context("_1", "_2")
    return v


def cross_entropy() -> Variant:
    """Soft targets tau of any total m."""
    v = Variant()
    v.arrays("z p tau", n, C)
    v.arrays("Z m", n)
    v.let(v.Z[i], total(exp(v.z[i, w]), (w, C)), "positive")
    v.let(v.p[i, y], exp(v.z[i, y]) / v.Z[i], "positive")
    v.let(v.m[i], total(v.tau[i, y], (y, C)))
    v.L = sp.Symbol("L")
    v.let(v.L, -total(v.tau[i, y] * log(v.p[i, y]), (i, n), (y, C)))
    return v


def hard_targets() -> Variant:
    """One label for each position."""
    v = Variant()
    v.arrays("z p", n, C)
    v.arrays("Z label", n)
    v.let(v.Z[i], total(exp(v.z[i, w]), (w, C)), "positive")
    v.let(v.p[i, y], exp(v.z[i, y]) / v.Z[i], "positive")
    v.L = sp.Symbol("L")
    v.let(v.L, -total(log(v.p[i, v.label[i]]), (i, n)))
    return v


def rms_norm() -> Variant:
    v = Variant()
    v.arrays("x xhat y u w", n, d)
    v.arrays("gamma", d)
    v.arrays("rho mu", n)
    v.eps = sp.Symbol("eps", positive=True)
    v.let(v.rho[i], sqrt(total(v.x[i, f] ** 2, (f, d)) / d + v.eps), "positive")
    v.let(v.xhat[i, f], v.x[i, f] / v.rho[i])
    v.let(v.y[i, f], v.gamma[f] * v.xhat[i, f])
    v.loss(v.y)
    v.let(v.w[i, f], v.gamma[f] * v.u[i, f])
    v.let(v.mu[i], total(v.w[i, f] * v.xhat[i, f], (f, d)) / d)
    return v


def layer_norm() -> Variant:
    v = Variant()
    v.arrays("x xhat y u w", n, d)
    v.arrays("gamma beta", d)
    v.arrays("mean var rho mu wbar", n)
    v.eps = sp.Symbol("eps", positive=True)
    v.let(v.mean[i], total(v.x[i, f], (f, d)) / d)
    v.let(v.var[i], total((v.x[i, f] - v.mean[i]) ** 2, (f, d)) / d, "nonnegative")
    v.let(v.rho[i], sqrt(v.var[i] + v.eps), "positive")
    v.let(v.xhat[i, f], (v.x[i, f] - v.mean[i]) / v.rho[i])
    v.let(v.y[i, f], v.gamma[f] * v.xhat[i, f] + v.beta[f])
    v.loss(v.y)
    v.let(v.w[i, f], v.gamma[f] * v.u[i, f])
    v.let(v.wbar[i], total(v.w[i, f], (f, d)) / d)
    v.let(v.mu[i], total(v.w[i, f] * v.xhat[i, f], (f, d)) / d)
    return v


def residual() -> Variant:
    """y = x + phi(x W) D with any activation phi of slope psi."""
    v = Variant()
    h, v.h = sp.Symbol("d_h", integer=True, nonnegative=True), sp.Symbol("h", integer=True)
    v.arrays("x y u", n, d)
    v.W, v.D = array("W", d, h), array("D", h, d)
    v.p, v.psi, v.dphi = array("p", n, h), array("psi", n, h), array("dphi_", n, h)
    v.let(v.p[i, v.h], total(v.x[i, f] * v.W[f, v.h], (f, d)))
    phi = Function("phi")(v.p[i, v.h])
    v.let(v.psi[i, v.h], Derivative(phi, v.p[i, v.h]))
    v.let(v.y[i, f], v.x[i, f] + total(phi * v.D[v.h, f], (v.h, h)))
    v.loss(v.y)
    v.let(v.dphi[i, v.h], total(v.u[i, f] * v.D[v.h, f], (f, d)))
    return v


def entropy() -> Variant:
    v = Variant()
    v.size = M = sp.Symbol("m", integer=True, positive=True)
    v.arrays("s a", M)
    v.Z, v.H = sp.symbols("Z H")
    v.let(v.Z, total(exp(v.s[k]), (k, M)), "positive")
    v.let(v.a[j], exp(v.s[j]) / v.Z, "positive")
    v.let(v.H, -total(v.a[j] * log(v.a[j]), (j, M)))
    return v
