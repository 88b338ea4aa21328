"""Corners: blocks at the edge of the domain, each with the values that must come out, mostly exact zeros.

They are no examples of the generic checks (there a law would say 0 = 0). Each strategy draws a :class:`Corner`: a head
and the exact values of some results; what is not named there is only required to be finite where ``finite`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import strategies as st

from .examples import Array, Example, Head
from .strategies import Entries, heads


@dataclass(frozen=True, eq=False, repr=False)
class Corner(Example):
    """A head and what is known exactly: name -> array; NaN in an array stands for "not specified"."""

    head: Head
    exact: dict[str, Array]
    finite: bool = True
    atol: dict[str, float] = field(default_factory=dict)


RESULTS = ("weights", "context", "scores", "values", "queries", "keys")
"""Names of results: the weights and context of the forward map, and the gradients of scores, values, queries, keys."""


def violations(corner: Corner, got: dict[str, Array]) -> list[str]:
    """Where results differ from what the corner knows exactly, in words."""
    found = []
    for name, expected in corner.exact.items():
        actual = np.asarray(got[name])
        if actual.shape != expected.shape:
            found.append(f"{name} has shape {actual.shape}, expected {expected.shape}")
            continue
        with np.errstate(invalid="ignore"):
            off = ~(np.isnan(expected) | (np.abs(actual - expected) <= corner.atol.get(name, 0.0)))
        if np.any(off):
            at = tuple(int(i) for i in np.argwhere(off)[0])
            found.append(f"{name}{list(at)} = {float(actual[at])!r}, expected {float(expected[at])!r} exactly")
    if corner.finite:
        found += [f"{name} is not finite" for name in got if not np.all(np.isfinite(np.asarray(got[name])))]
    return found


def _unspecified(*shape: int) -> Array:
    return np.full(shape, np.nan)


@st.composite
def empty_rows(draw: st.DrawFn) -> Corner:
    """Some queries see no key: their weights, context and gradients are exactly 0, and nothing becomes NaN."""
    head = draw(heads(sizes=[(2, 3, 1, 4), (3, 2, 4, 1), (4, 3, 2, 1)], dropout=False))
    n, m = head.visible.shape
    blind = Entries(draw, n).bits(n)
    blind[0] = True
    mask = head.visible & ~blind[:, None]

    def rows(width: int) -> Array:
        out = _unspecified(n, width)
        out[blind] = 0.0
        return out

    exact = {"weights": rows(m), "context": rows(head.v.shape[1]), "scores": rows(m), "queries": rows(head.q.shape[1])}
    if not mask.any():
        exact |= {"values": np.zeros_like(head.v), "keys": np.zeros_like(head.k)}
    return Corner(replace(head, mask=mask), exact)


@st.composite
def single_keys(draw: st.DrawFn) -> Corner:
    """Each query sees one key: weights are exactly one-hot, scores, queries and keys have gradient exactly 0."""
    head = draw(heads(masks=False, dropout=False))
    n, m = head.visible.shape
    only = Entries(draw, n).whole(m, n)
    mask = np.zeros((n, m), dtype=bool)
    mask[np.arange(n), only] = True
    weights = mask.astype(float)
    exact = {
        "weights": weights,
        "context": head.v[only],
        "scores": np.zeros((n, m)),
        "queries": np.zeros_like(head.q),
        "keys": np.zeros_like(head.k),
        "values": weights.T @ head.u,  # sums of dyadic numbers: exact in any order
    }
    return Corner(replace(head, mask=mask), exact)


@st.composite
def tied_scores(draw: st.DrawFn) -> Corner:
    """All visible scores of a query are equal, also when they are huge: its weights are equal, 1 / count."""
    head = draw(heads(biases=False, dropout=False))
    level = draw(st.sampled_from((0.0, 1.0, -700.0, 1e5, -1e300)))
    keys = np.broadcast_to(head.k[:1], head.k.shape).copy()
    keys[:, 1:] = 0.0
    q = head.q.copy()
    q[:, 0] = level
    keys[:, 0] = 1.0
    seen = head.visible
    weights = np.where(seen, 1.0 / seen.sum(-1, keepdims=True), 0.0)
    return Corner(replace(head, q=q, k=keys, scale=1.0), {"weights": weights})


@st.composite
def saturated_scores(draw: st.DrawFn) -> Corner:
    """One visible score of each query is larger by more than exp can tell: one-hot weights, nothing left to route.

    The score gradient may differ from 0 by the rounding of b - bbar, whichever way bbar is computed.
    """
    head = draw(heads(masks=False, biases=False, dropout=False))
    n, m = head.visible.shape
    first = Entries(draw, n).whole(m, n)
    gap = draw(st.sampled_from((800.0, 1e4, 1e200)))
    weights = np.zeros((n, m))
    weights[np.arange(n), first] = 1.0
    exact = {
        "weights": weights,
        "context": head.v[first],
        "scores": np.zeros((n, m)),
        "queries": np.zeros_like(head.q),
        "keys": np.zeros_like(head.k),
        "values": weights.T @ head.u,
    }
    rounding = 2.0**-48 * float((np.abs(head.u) @ np.abs(head.v).T).max())
    width = 1.0 + float(np.abs(head.k).max() + np.abs(head.q).max()) * n * m
    atol = {"scores": rounding, "queries": rounding * width, "keys": rounding * width}
    return Corner(replace(head, bias=gap * weights), exact, atol=atol)


@st.composite
def zero_queries(draw: st.DrawFn) -> Corner:
    """Queries of 0 and no bias: uniform weights, and keys have gradient exactly 0."""
    head = draw(heads(biases=False, dropout=False))
    seen = head.visible
    weights = np.where(seen, 1.0 / seen.sum(-1, keepdims=True), 0.0)
    return Corner(replace(head, q=np.zeros_like(head.q)), {"weights": weights, "keys": np.zeros_like(head.k)})


TINY = 2.0**-1074
"""The smallest positive float64."""


@st.composite
def subnormal_gradients(draw: st.DrawFn) -> Corner:
    """An upstream gradient of a few smallest numbers: the value gradient is right to a few of them, nothing is NaN."""
    head = draw(heads(dropout=False))
    u = np.sign(head.u) * np.ceil(np.abs(head.u)) * TINY
    values = head.weights().T @ (u / TINY)
    terms = float(len(u) + 1)
    return Corner(replace(head, u=u), {"values": np.round(values) * TINY}, atol={"values": terms * TINY})


@st.composite
def no_keys(draw: st.DrawFn) -> Corner:
    """No keys at all: context 0, and gradients of 0 or without entries."""
    head = draw(heads(masks=False, biases=False, dropout=False))
    n, d_k, d_v = head.q.shape[0], head.q.shape[1], head.v.shape[1]
    empty = Head(head.q, np.zeros((0, d_k)), np.zeros((0, d_v)), head.u)
    exact = {
        "weights": np.zeros((n, 0)),
        "context": np.zeros((n, d_v)),
        "scores": np.zeros((n, 0)),
        "values": np.zeros((0, d_v)),
        "queries": np.zeros((n, d_k)),
        "keys": np.zeros((0, d_k)),
    }
    return Corner(empty, exact)


@st.composite
def unseen_nan(draw: st.DrawFn) -> Corner:
    """A key that no query may see is NaN, key and value: it changes nothing, and its gradients are exactly 0."""
    head = draw(heads(sizes=[(2, 3, 1, 4), (3, 4, 2, 1), (2, 4, 3, 1)], masks=False, biases=False, dropout=False))
    n, m = head.visible.shape
    mask = np.ones((n, m), dtype=bool)
    mask[:, -1] = False
    k, v = head.k.copy(), head.v.copy()
    k[-1], v[-1] = np.nan, np.nan
    clean = Head(head.q, head.k[:-1], head.v[:-1], head.u, None, None, None, head.scale)
    weights = np.concatenate((clean.weights(), np.zeros((n, 1))), axis=1)

    def last(x: Array) -> Array:
        out = _unspecified(*x.shape)
        out[-1] = 0.0
        return out

    exact = {"weights": weights, "values": last(v), "keys": last(k), "scores": np.where(mask, np.nan, 0.0)}
    return Corner(replace(head, mask=mask, k=k, v=v), exact, atol={"weights": 1e-15})


@st.composite
def shifted_values(draw: st.DrawFn) -> Corner:
    """All values share a large offset: score gradients are those without it, to the accuracy without it.

    The offset and the moved values are exact; only an implementation that lets the offset into b - bbar loses digits.
    """
    head = draw(heads(dropout=False))
    offset = draw(st.sampled_from((2.0**40, -(2.0**44))))
    a = head.weights()
    b = head.u @ head.v.T
    ds = a * (b - (a * b).sum(-1, keepdims=True))
    size = 2.0**-46 * (1.0 + float(np.abs(head.u).sum(-1).max()) * float(np.abs(head.v).max()))
    return Corner(replace(head, v=head.v + offset), {"scores": ds}, atol={"scores": size})


CORNERS = {
    "empty rows": empty_rows(),
    "a single visible key": single_keys(),
    "tied scores": tied_scores(),
    "saturated scores": saturated_scores(),
    "zero queries": zero_queries(),
    "subnormal upstream gradients": subnormal_gradients(),
    "no keys": no_keys(),
    "values with a common offset": shifted_values(),
    "an unseen key that is NaN": unseen_nan(),
}
"""Every corner by name; :func:`violations` judges the results for one."""
