"""Random rational instances and the laws on them as literal loops: nothing here is shared with Coq or bayesgrad.

a_ij = 2^(s_ij) / sum over visible k of 2^(s_ik), s_ij = scale q_i.k_j + bias_ij whole, so every number is a Fraction.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Vector = list[Fraction]
Matrix = list[Vector]

# What setup() hands to Coq, in this order.
MATRICES = (
    "q",
    "k",
    "bias",
    "v",
    "u",
    "z",
    "t",
    "W_up",
    "x",
    "y",
    "W_Q",
    "W_K",
    "W_V",
    "dq",
    "dk",
    "dv",
    "b",
    "outcome",
)


@dataclass(frozen=True)
class Instance:
    """Sizes pairwise different; ``prior`` and the rows of ``outcome`` are distributions; ``W_up`` is one whole row."""

    n: int
    m: int
    d_k: int
    d: int
    C: int
    d_x: int
    scale: Fraction
    eta: Fraction
    vis: list[list[bool]]
    q: Matrix
    k: Matrix
    bias: Matrix
    v: Matrix
    u: Matrix
    z: Matrix
    t: Matrix
    W_up: Matrix
    x: Matrix
    y: Matrix
    W_Q: Matrix
    W_K: Matrix
    W_V: Matrix
    dq: Matrix
    dk: Matrix
    dv: Matrix
    b: Matrix
    outcome: Matrix
    prior: Vector
    cost: Vector
    dc: Vector


def draw(rng: random.Random) -> Instance:
    """A random instance; the second row may see nothing, the first sees something."""

    def whole(rows: int, columns: int) -> Matrix:
        return [[Fraction(rng.randint(-1, 1)) for _ in range(columns)] for _ in range(rows)]

    def ratio(rows: int, columns: int) -> Matrix:
        return [[Fraction(rng.randint(-9, 9), rng.randint(1, 5)) for _ in range(columns)] for _ in range(rows)]

    def simplex(size: int) -> Vector:
        weights = [Fraction(rng.randint(1, 9), rng.randint(1, 5)) for _ in range(size)]
        return [x / sum(weights) for x in weights]

    n, m, d_k, d, C, d_x = 2, 3, 4, 5, 6, 7
    vis = [[rng.random() < 0.6 for _ in range(m)] for _ in range(n)]
    vis[0][rng.randrange(m)] = True
    return Instance(
        n=n, m=m, d_k=d_k, d=d, C=C, d_x=d_x, scale=Fraction(rng.choice((-2, 1, 2, 3))),
        eta=Fraction(rng.randint(1, 9), rng.randint(1, 9)), vis=vis,
        q=whole(n, d_k), k=whole(m, d_k), bias=whole(n, m), v=ratio(m, d), u=ratio(n, d), z=whole(n, C), t=ratio(n, C),
        W_up=whole(1, C), x=ratio(n, d_x), y=ratio(m, d_x), W_Q=ratio(d_x, d_k), W_K=ratio(d_x, d_k), W_V=ratio(d_x, d),
        dq=ratio(n, d_k), dk=ratio(m, d_k), dv=ratio(m, d), b=whole(n, m), outcome=[simplex(2) for _ in range(m)],
        prior=simplex(m), cost=whole(1, m)[0], dc=ratio(1, m)[0],
    )  # fmt: skip


def dot(x: Sequence[Fraction], y: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def power(x: Fraction) -> Fraction:
    assert x.denominator == 1
    return Fraction(2) ** x.numerator


def scores(I: Instance, q: Matrix | None = None) -> Matrix:
    return [[I.scale * dot(qi, kj) + bij for kj, bij in zip(I.k, row, strict=True)]
            for qi, row in zip(q or I.q, I.bias, strict=True)]  # fmt: skip


def weights(I: Instance, q: Matrix | None = None) -> Matrix:
    out = []
    for s, seen in zip(scores(I, q), I.vis, strict=True):
        total = sum((power(x) for x, sees in zip(s, seen, strict=True) if sees), Fraction(0))
        out.append([power(x) / total if sees else Fraction(0) for x, sees in zip(s, seen, strict=True)])
    return out


def contexts(I: Instance) -> Matrix:
    return [[sum((x * I.v[j][c] for j, x in enumerate(a)), Fraction(0)) for c in range(I.d)] for a in weights(I)]


def compatibilities(I: Instance, u: Matrix | None = None) -> Matrix:
    return [[dot(ui, vj) for vj in I.v] for ui in u or I.u]


def score_gradients(I: Instance, q: Matrix | None = None, u: Matrix | None = None) -> Matrix:
    out = []
    for a, b in zip(weights(I, q), compatibilities(I, u), strict=True):
        mean = dot(a, b)
        out.append([x * (y - mean) for x, y in zip(a, b, strict=True)])
    return out


def value_gradients(I: Instance, q: Matrix | None = None, u: Matrix | None = None) -> Matrix:
    a = weights(I, q)
    return [
        [sum((a[i][j] * (u or I.u)[i][c] for i in range(I.n)), Fraction(0)) for c in range(I.d)] for j in range(I.m)
    ]


def query_gradients(I: Instance) -> Matrix:
    return [[I.scale * sum((g[j] * I.k[j][c] for j in range(I.m)), Fraction(0)) for c in range(I.d_k)]
            for g in score_gradients(I)]  # fmt: skip


def key_gradients(I: Instance, q: Matrix | None = None, u: Matrix | None = None) -> Matrix:
    G = score_gradients(I, q, u)
    return [[I.scale * sum((G[i][j] * (q or I.q)[i][c] for i in range(I.n)), Fraction(0)) for c in range(I.d_k)]
            for j in range(I.m)]  # fmt: skip


def scale_gradient(I: Instance) -> Fraction:
    G = score_gradients(I)
    return sum((G[i][j] * dot(I.q[i], I.k[j]) for i in range(I.n) for j in range(I.m)), Fraction(0))


def grouped_gradients(I: Instance) -> Matrix:
    """Two heads on one group: queries and upstream gradients as they are, and in reverse order."""
    q, u = I.q[::-1], I.u[::-1]
    first = [*value_gradients(I), *key_gradients(I)]
    second = [*value_gradients(I, q, u), *key_gradients(I, q, u)]
    return [[x + y for x, y in zip(r, s, strict=True)] for r, s in zip(first, second, strict=True)]


def residual(z: Sequence[Fraction], t: Sequence[Fraction]) -> Vector:
    total = sum((power(x) for x in z), Fraction(0))
    return [sum(t, Fraction(0)) * power(x) / total - y for x, y in zip(z, t, strict=True)]


def residuals(I: Instance) -> Matrix:
    return [residual(z, t) for z, t in zip(I.z, I.t, strict=True)]


def outer(x: Matrix, g: Matrix) -> Matrix:
    """sum_i x_i^T g_i"""
    return [[sum((xi[r] * gi[c] for xi, gi in zip(x, g, strict=True)), Fraction(0)) for c in range(len(g[0]))]
            for r in range(len(x[0]))]  # fmt: skip


def back(g: Matrix, W: Matrix) -> Matrix:
    """g W^T"""
    return [[dot(row, w) for w in W] for row in g]


def input_gradients(I: Instance) -> Matrix:
    """Self-attention on the first n keys, then the two inputs of cross-attention."""
    through_q, through_k, through_v = back(I.dq, I.W_Q), back(I.dk, I.W_K), back(I.dv, I.W_V)
    own = [[x + y + z for x, y, z in zip(*rows, strict=True)]
           for rows in zip(through_q, through_k[: I.n], through_v[: I.n], strict=True)]  # fmt: skip
    both = [[y + z for y, z in zip(*rows, strict=True)] for rows in zip(through_k, through_v, strict=True)]
    return [*own, *through_q, *both]


def value_step(I: Instance) -> Matrix:
    dv = [[-I.eta * x for x in row] for row in value_gradients(I)]
    dg = [[sum((x * dv[j][c] for j, x in enumerate(a)), Fraction(0)) for c in range(I.d)] for a in weights(I)]
    return [*dg, [-I.eta * sum((x * x for row in value_gradients(I) for x in row), Fraction(0))]]


def score_step(I: Instance) -> Matrix:
    G = score_gradients(I)
    ds = [[-I.eta * x for x in row] for row in G]
    dg = []
    for a, row in zip(weights(I), ds, strict=True):
        da = [x * (y - dot(a, row)) for x, y in zip(a, row, strict=True)]
        dg.append([sum((y * I.v[j][c] for j, y in enumerate(da)), Fraction(0)) for c in range(I.d)])
    return [*ds, *dg, [-I.eta * sum((x * x for row in G for x in row), Fraction(0))]]


def feedback_advantages(I: Instance) -> Matrix:
    """dA after the values have stepped, from the values themselves."""
    dv = [[-I.eta * x for x in row] for row in value_gradients(I)]
    out = []
    for a, u in zip(weights(I), I.u, strict=True):
        db = [dot(u, row) for row in dv]
        out.append([dot(a, db) - x for x in db])
    return out


def replicator(I: Instance) -> Matrix:
    means = [dot(I.prior, b) for b in I.b]
    velocity = [[-a * (x - mean) for a, x in zip(I.prior, b, strict=True)]
                for b, mean in zip(I.b, means, strict=True)]  # fmt: skip
    rates = [dot(row, b) for row, b in zip(velocity, I.b, strict=True)]
    return [*velocity, rates]


def bayes_rule(prior: Sequence[Fraction], likelihood: Sequence[Fraction]) -> Vector:
    total = dot(prior, likelihood)
    return [p * e / total for p, e in zip(prior, likelihood, strict=True)]
