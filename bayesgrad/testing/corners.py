"""Corners: blocks at the edge of the domain, each with the values that must come out, mostly exact zeros.

They are no examples of the generic checks (there a law would say 0 = 0). Each strategy draws a :class:`Corner`: a head
and the exact values of some results; what is not named there is only required to be finite where ``finite`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import strategies as st

from bayesgrad.testing.examples import Array, Example, Head
from bayesgrad.testing.strategies import Entries, heads

TINY = 2.0**-1074
"""The smallest positive number."""

HUGE = (-704.0, 2.0**17, -(2.0**996))
"""Scores beyond the range of exp, whose gradients (times a few keys) are still numbers."""


@dataclass(frozen=True, eq=False, repr=False)
class Corner(Example):
    """A head and what is known exactly: name -> array; NaN in an array stands for "not specified"."""

    head: Head
    exact: dict[str, Array]
    finite: bool = True
    atol: Mapping[str, float | Array] = field(default_factory=dict)


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


def _one_hot(head: Head, chosen: Array) -> dict[str, Array]:
    """Everything that is known where each query puts its whole weight on one key: nothing is left to route."""
    n, m = head.visible.shape
    weights = np.zeros((n, m))
    weights[np.arange(n), chosen] = 1.0
    return {
        "weights": weights,
        "context": head.v[chosen],
        "scores": np.zeros((n, m)),
        "queries": np.zeros_like(head.q),
        "keys": np.zeros_like(head.k),
        "values": weights.T @ head.u,  # sums of dyadic numbers: exact in any order
    }


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
    return Corner(replace(head, mask=mask), _one_hot(head, only))


@st.composite
def tied_scores(draw: st.DrawFn, *, huge: bool = False) -> Corner:
    """All visible scores of a query are equal: its weights are equal, 1 / count.

    Also if they are ``huge``: whoever subtracts the maximum subtracts equal numbers. A backward pass that only kept the
    logarithm of the sum of exponentials has lost the logarithm of the count beside such a score.
    """
    head = draw(heads(biases=False, dropout=False))
    level = draw(st.sampled_from(HUGE if huge else (0.0, 1.0, -8.0)))
    keys = np.broadcast_to(head.k[:1], head.k.shape).copy()
    keys[:, 1:] = 0.0
    q = head.q.copy()
    q[:, 0] = level
    keys[:, 0] = 1.0
    seen = head.visible
    weights = np.where(seen, 1.0 / seen.sum(-1, keepdims=True), 0.0)
    exact = {"weights": weights, "values": weights.T @ head.u}
    return Corner(replace(head, q=q, k=keys), exact, True, {"values": 2.0**-48 * float(np.abs(head.u).sum())})


@st.composite
def saturated_scores(draw: st.DrawFn) -> Corner:
    """One visible score of each query is larger by more than exp can tell: one-hot weights, nothing left to route.

    The score gradient may differ from 0 by the rounding of b - bbar, whichever way bbar is computed.
    """
    head = draw(heads(masks=False, biases=False, dropout=False))
    n, m = head.visible.shape
    first = Entries(draw, n).whole(m, n)
    gap = draw(st.sampled_from((800.0, 1e4, 1e200)))
    exact = _one_hot(head, first)
    rounding = 2.0**-48 * float((np.abs(head.u) @ np.abs(head.v).T).max())
    width = 1.0 + float(np.abs(head.k).max() + np.abs(head.q).max()) * n * m
    atol = {"scores": rounding, "queries": rounding * width, "keys": rounding * width}
    return Corner(replace(head, bias=gap * exact["weights"]), exact, atol=atol)


@st.composite
def nearly_saturated_scores(draw: st.DrawFn) -> Corner:
    """One weight of each query is all but 1: what is left to route is tiny, and right to a relative 2^-40.

    b - bbar by one subtraction is right to a rounding of b only, which may be as large as what is left. Here every b is
    taken from that of the key that is chosen, which loses nothing; an entry is measured by its own terms.
    """
    head = draw(heads(masks=False, biases=False, dropout=False))
    n, m = head.visible.shape
    first = Entries(draw, n).whole(m, n)
    chosen = np.zeros((n, m), dtype=bool)
    chosen[np.arange(n), first] = True
    head = replace(head, bias=draw(st.sampled_from((16.0, 24.0, 32.0))) * chosen)
    a, b = head.weights(), head.u @ head.v.T
    from_chosen = b - b[np.arange(n), first][:, None]
    rest = (np.where(chosen, 0.0, a) * from_chosen).sum(-1, keepdims=True)
    ds = a * (from_chosen - rest)
    size = np.abs(b)
    terms = a * (size + size[np.arange(n), first][:, None])
    terms = np.where(chosen, np.where(chosen, 0.0, terms).sum(-1, keepdims=True), terms)
    return Corner(head, {"scores": ds}, atol={"scores": 2.0**-40 * terms})


@st.composite
def saturating_queries(draw: st.DrawFn) -> Corner:
    """The same without a bias: large queries pick one of two keys each, and nothing is left to route.

    A rounding of b - bbar reaches the key gradient times the query, hence its tolerance.
    """
    head = draw(heads(masks=False, biases=False, dropout=False))
    n, m = head.visible.shape
    size = 2.0**14
    entries = Entries(draw, n + 1)
    second, pair = entries.bits(n), entries.whole(m, 1)[0]
    chosen = np.where(second, (pair + 1) % m, pair)
    q, k = head.q.copy(), head.k.copy()
    q[:, 0] = np.where(second, -size, size) * np.sign(head.the_scale)
    k[:, 0] = 0.0
    k[pair, 0], k[(pair + 1) % m, 0] = 1.0, -1.0
    exact = _one_hot(head, chosen)
    rounding = 2.0**-48 * float((np.abs(head.u) @ np.abs(head.v).T).max())
    atol = {"scores": rounding, "queries": 4 * m * rounding, "keys": n * size * rounding}
    return Corner(replace(head, q=q, k=k), exact, True, atol)


@st.composite
def zero_queries(draw: st.DrawFn) -> Corner:
    """Queries of 0 and no bias: uniform weights, and keys have gradient exactly 0."""
    head = draw(heads(biases=False, dropout=False))
    seen = head.visible
    weights = np.where(seen, 1.0 / seen.sum(-1, keepdims=True), 0.0)
    exact = {"weights": weights, "values": weights.T @ head.u, "keys": np.zeros_like(head.k)}
    atol = {"values": 2.0**-48 * float(np.abs(head.u).sum())}
    return Corner(replace(head, q=np.zeros_like(head.q)), exact, atol=atol)


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
    empty = Head(head.q, np.zeros((0, d_k)), np.zeros((0, d_v)), head.u, scale=head.scale)
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
    "tied huge scores": tied_scores(huge=True),
    "scores saturated by large queries": saturating_queries(),
    "zero queries": zero_queries(),
    "subnormal upstream gradients": subnormal_gradients(),
    "no keys": no_keys(),
    "an unseen key that is NaN": unseen_nan(),
    "saturated scores": saturated_scores(),
    "nearly saturated scores": nearly_saturated_scores(),
    "values with a common offset": shifted_values(),
}
"""Every corner by name; :func:`violations` judges the results for one."""
