"""Hypothesis strategies that build tiny attention blocks; they never filter, so no draw is thrown away.

All real entries of an example come from one string of bytes: entry p is base_p + delta(r_p) with

    delta = 0, 1/64, -1/64, 2/64, -2/64, ..., 2, -127/64        for r = 0, 1, 2, 3, 4, ..., 255

and base a fixed sequence of eighths without zeros or symmetry. So a draw costs one call however many entries there are,
every entry is exact in float32, shrinking a byte towards 0 makes the printed block readable, and the simplest block is
not a degenerate one (all zeros would satisfy every law as 0 = 0). Sizes are pairwise different, so that a transposed
result has another shape and a swapped pair of indices another value; squares (n = m) are drawn as well, because some
mistakes (a_ij against a_ji) have the right shape only there. Draws are labelled with Hypothesis' ``event``: see them
with --hypothesis-show-statistics.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import event
from hypothesis import strategies as st

from bayesgrad.testing.draws import run_on_draws
from bayesgrad.testing.examples import Array, Clusters, Head, Layer, Logits, Mixture, Moved, Rate, Stepped, SteppedLayer
from bayesgrad.testing.models import Hmm, Joint, NoisyChain, Pairs, Sequences, Simplex

UNIT = 64.0
"""Entries are whole multiples of 1 / UNIT, in (-3, 3)."""

_DELTA = np.array([(r + 1) // 2 * (1 if r % 2 else -1) for r in range(256)]) / UNIT
_BASE = np.array([(p * 11 % 7 + 1) * (1 if p * p % 5 in (0, 1) else -1) for p in range(35)]) / 8

SCALES: tuple[float | None, ...] = (None, 1.0, 0.5, -0.75)
"""None is the default 1/sqrt(d_k); a negative scale is allowed by the laws, and is drawn."""


class Entries:
    """A supply of drawn bytes that is cut into arrays, in order."""

    def __init__(self, draw: st.DrawFn, count: int) -> None:
        self._bytes = np.frombuffer(draw(st.binary(min_size=count, max_size=count)), dtype=np.uint8)
        self._used = 0

    def _next(self, shape: tuple[int, ...]) -> Array:
        count = int(np.prod(shape))
        taken = self._bytes[self._used : self._used + count]
        if taken.size != count:
            raise AssertionError("a strategy asked for more entries than it announced")
        self._used += count
        return taken.reshape(shape)

    def reals(self, *shape: int) -> Array:
        """Dyadic numbers in (-3, 3); the base sequence, from here on, where the bytes are 0."""
        start = self._used
        deltas = _DELTA[self._next(shape)]
        return deltas + _BASE[np.arange(start, self._used) % _BASE.size].reshape(shape)

    def positives(self, *shape: int) -> Array:
        """Numbers in [1/64, 4], 1/64 where the bytes are 0."""
        return (1.0 + self._next(shape)) / UNIT

    def bits(self, *shape: int, rate: float = 0.5) -> Array:
        """Booleans, each True with probability ``rate``; all True where the bytes are 0."""
        return self._next(shape) < round(256 * rate)

    def chances(self, *shape: int, positive: bool = False) -> Array:
        """Whole-number weights 0..7 (1..8 if ``positive``) whose rows over the last axis are not all zero.

        Where the bytes are 0 the rows are 1, 2, 3, ... in some order: no symmetry, full support.
        """
        start = self._used
        raw = self._next(shape).astype(np.int64)
        base = (np.arange(start, self._used).reshape(shape) * 3) % 7
        weights = (raw + base) % 8 + positive
        if not positive:
            weights[..., 0] += weights.sum(-1) == 0
        return weights

    def whole(self, bound: int, *shape: int) -> Array:
        """Integers 0, ..., bound - 1."""
        return self._next(shape).astype(np.int64) % bound


def count(*shapes: tuple[int, ...]) -> int:
    """How many entries arrays of these shapes have together."""
    return int(sum(np.prod(shape) for shape in shapes))


def distinct_sizes(number: int, *, largest: int, least: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All tuples of ``number`` pairwise different sizes up to ``largest``, position p at least ``least[p]``."""
    found = [
        sizes
        for sizes in permutations(range(1, largest + 1), number)
        if all(size >= bound for size, bound in zip(sizes, least, strict=True))
    ]
    return sorted(found, key=lambda sizes: (int(np.prod(sizes)), sizes))


_RECTANGLES = distinct_sizes(4, largest=5, least=(1, 2, 1, 1))
_POSITIONS_AND_CLASSES = distinct_sizes(2, largest=5, least=(1, 2))
_SQUARES: list[tuple[int, ...]] = [(n, n, d_k, d_v) for n, d_k, d_v in distinct_sizes(3, largest=4, least=(2, 1, 1))]


def without_empty_rows(draw: st.DrawFn, n: int, m: int) -> Array:
    """A visibility mask (n, m) in which every query sees a key, and, where m > 1, the last query sees two."""
    kind = draw(st.sampled_from(("random", "causal", "window")))
    event(f"mask: {kind}")
    if kind == "random":
        entries = Entries(draw, n * m + n)
        mask = entries.bits(n, m, rate=0.65)
        mask[np.arange(n), entries.whole(m, n)] = True
    elif kind == "causal":
        mask = np.tri(n, m, dtype=bool)
    else:
        left = draw(st.integers(0, 2))
        i, j = np.arange(n)[:, None], np.arange(m)[None, :]
        mask = (j >= np.minimum(i, m - 1) - left) & (j <= i + 1)
    mask = mask.copy()
    mask[-1, : min(2, m)] = True
    return mask


@st.composite
def heads(
    draw: st.DrawFn,
    *,
    sizes: list[tuple[int, ...]] | None = None,
    masks: bool = True,
    biases: bool = True,
    dropout: bool = True,
    scales: tuple[float | None, ...] = SCALES,
    squares: bool = True,
) -> Head:
    """Single heads with a random upstream gradient; no row is empty.

    Three of four draws are rectangles with pairwise different n, m, d_k, d_v; one in four has n = m (unless ``squares``
    is False).
    """
    square = squares and draw(st.sampled_from((False, False, False, True)))
    n, m, d_k, d_v = draw(st.sampled_from(sizes or (_SQUARES if square else _RECTANGLES)))
    event("shape: square" if n == m else "shape: rectangle")
    entries = Entries(draw, count((n, d_k), (m, d_k), (m, d_v), (n, d_v), (n, m), (n, m)))
    q, k, v, u = (entries.reals(*shape) for shape in ((n, d_k), (m, d_k), (m, d_v), (n, d_v)))
    mask = without_empty_rows(draw, n, m) if masks and draw(st.booleans()) else None
    bias = entries.reals(n, m) if biases and draw(st.booleans()) else None
    multiplier = None
    if dropout and draw(st.booleans()):
        event("dropout")
        multiplier = entries.bits(n, m, rate=0.75) / 0.75
    return Head(q, k, v, u, mask, bias, multiplier, draw(st.sampled_from(scales)))


@st.composite
def logits(draw: st.DrawFn, *, ignored: bool = True, class_weights: bool = True, smoothing: bool = True) -> Logits:
    """Logits (n, C), n different from C, with hard targets of which at least one counts."""
    n, C = draw(st.sampled_from(_POSITIONS_AND_CLASSES))
    entries = Entries(draw, count((n, C), (n,), (n,), (C,)))
    z = entries.reals(n, C)
    targets = entries.whole(C, n)
    kept = entries.bits(n, rate=0.7)
    if ignored and draw(st.booleans()):
        event("some targets ignored")
        kept[0] = True
        targets = np.where(kept, targets, -100)
    omega = entries.positives(C) if class_weights and draw(st.booleans()) else None
    eps = draw(st.sampled_from((0.0, 0.25, 0.1, 1.0))) if smoothing else 0.0
    return Logits(z, targets, draw(st.sampled_from(("sum", "mean"))), omega, eps)


_LAYERS = distinct_sizes(6, largest=6, least=(1, 2, 1, 1, 2, 1))[:240]
_SELF = distinct_sizes(5, largest=5, least=(2, 1, 1, 2, 1))


@st.composite
def layers(
    draw: st.DrawFn,
    *,
    cross: bool | None = None,
    heads: tuple[tuple[int, int], ...] = ((1, 1),),
    masks: bool = True,
    biases: bool = True,
    same_width: bool = False,
    pairs: bool = False,
    sizes: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] | None = None,
) -> Layer:
    """Attention layers with read-out and cross-entropy; n, m, d_k, d_v, C, d_x pairwise different (n = m if self).

    ``cross``: cross-attention or self-attention only (None: both). ``heads``: the pairs (query heads, key/value heads).
    ``same_width``: whether both inputs of cross-attention are equally wide. ``pairs``: whether some have a bias of the
    scores and a dropout multiplier. ``sizes``: the (n, m, d_k, d_v, C, d_x) of cross-attention and the
    (n, d_k, d_v, C, d_x) of self-attention that are drawn.
    """
    of_cross, of_self = sizes or (_LAYERS, _SELF)
    crossed = draw(st.booleans()) if cross is None else cross
    event("cross-attention" if crossed else "self-attention")
    if crossed:
        n, m, d_k, d_v, C, d_x = draw(st.sampled_from(of_cross))
        d_y = d_x if same_width else d_x + 1
    else:
        n, d_k, d_v, C, d_x = draw(st.sampled_from(of_self))
        m, d_y = n, d_x
    H, G = draw(st.sampled_from(heads))
    shapes: dict[str, tuple[int, ...]] = {
        "x": (n, d_x),
        "W_Q": (d_x, H * d_k),
        "W_K": (d_y, G * d_k),
        "W_V": (d_y, G * d_v),
        "W_O": (H * d_v, C),
    }
    shapes |= {"y": (m, d_y)} if crossed else {}
    vectors: dict[str, tuple[int, ...]] = {"c_Q": (H * d_k,), "c_K": (G * d_k,), "c_V": (G * d_v,), "c_O": (C,)}
    shapes |= vectors if biases and draw(st.booleans()) else {}
    entries = Entries(draw, count(*shapes.values(), (n,), (n, m), (n, m)))
    made = {name: entries.reals(*shape) for name, shape in shapes.items()}
    # Scores are products of three random factors: halving two of them keeps the weights away from 0 and 1.
    made["W_Q"], made["W_K"] = made["W_Q"] / 2, made["W_K"] / 2
    targets = entries.whole(C, n)
    if n > 1 and draw(st.booleans()):
        event("a target is ignored")
        targets = np.where(np.arange(n) == n - 2, -100, targets)
    return Layer(
        targets=targets,
        beta=entries.reals(n, m) if pairs and draw(st.booleans()) else None,
        dropout=entries.bits(n, m, rate=0.75) / 0.75 if pairs and draw(st.booleans()) else None,
        mask=without_empty_rows(draw, n, m) if masks and draw(st.booleans()) else None,
        scale=draw(st.sampled_from((None, 0.5, 1.0))),
        heads=H,
        kv_heads=G,
        reduction=draw(st.sampled_from(("sum", "mean"))),
        **made,
    )


_JOINTS = distinct_sizes(4, largest=5, least=(2, 2, 1, 2))[:60]
_SIMPLICES = distinct_sizes(2, largest=5, least=(1, 2))
_HMMS = distinct_sizes(3, largest=4, least=(2, 2, 1))


@st.composite
def joints(draw: st.DrawFn, *, impossible: bool = False) -> Joint:
    """Joint distributions of (c, theta, x, y) under which the mixture over beliefs is the predictive.

    ``impossible``: whether some inputs have probability 0 in some contexts.
    """
    c, theta, x, y = draw(st.sampled_from(_JOINTS))
    shapes = ((c,), (c, theta), (c, x), (x, theta, y))
    entries = Entries(draw, count(*shapes))
    contexts, beliefs = entries.chances(c, positive=True), entries.chances(c, theta)
    return Joint(contexts, beliefs, entries.chances(c, x, positive=not impossible), entries.chances(x, theta, y))


@st.composite
def simplices(draw: st.DrawFn, *, full_support: bool = True) -> Simplex:
    """Truths with zeros here and there, and predictions (with full support unless told otherwise)."""
    c, y = draw(st.sampled_from(_SIMPLICES))
    entries = Entries(draw, count((c,), (c, y), (c, y), (3,)))
    contexts, p = entries.chances(c, positive=True), entries.chances(c, y)
    q = entries.chances(c, y, positive=full_support)
    return Simplex(contexts, p, q)


@st.composite
def sequences(draw: st.DrawFn) -> Sequences:
    """Joint distributions of two to four outcomes out of two or three, and a possible sequence."""
    length, size = draw(st.sampled_from(((2, 3), (3, 2), (3, 3), (4, 2), (4, 3))))
    entries = Entries(draw, size**length + length)
    weights = entries.chances(*(size,) * length)
    outcomes = entries.whole(size, length)
    weights[tuple(outcomes)] += 1
    return Sequences(weights, outcomes)


@st.composite
def pairs(draw: st.DrawFn) -> Pairs:
    """Permutations of 2 to 5 values, some of their pairs (keys may repeat), and a query seen or new."""
    V = draw(st.sampled_from((2, 3, 4, 5)))
    permutation = np.array(draw(st.permutations(range(V))))
    entries = Entries(draw, V)
    keys = entries.whole(V, V)[: draw(st.integers(0, V - 1))]
    query = draw(st.integers(0, V - 1))
    event("query: seen" if query in keys else "query: new")
    return Pairs(permutation, keys, query)


@st.composite
def hmms(draw: st.DrawFn) -> Hmm:
    """Hidden Markov models with zeros in start and transition, S, O and T pairwise different."""
    S, symbols, length = draw(st.sampled_from(_HMMS))
    entries = Entries(draw, count((S,), (S, S), (S, symbols), (length,)))
    initial, transition = entries.chances(S), entries.chances(S, S)
    return Hmm(initial, transition, entries.chances(S, symbols, positive=True), entries.whole(symbols, length))


@st.composite
def noisy_chains(draw: st.DrawFn) -> NoisyChain:
    """Markov chains seen through Gaussian noise, S, T and d pairwise different."""
    S, length, d = draw(st.sampled_from(_HMMS))
    entries = Entries(draw, count((S,), (S, S), (S, d), (length, d)))
    initial, transition = entries.chances(S), entries.chances(S, S)
    means, x = entries.reals(S, d), entries.reals(length, d)
    return NoisyChain(initial, transition, means, x, draw(st.sampled_from((1.0, 0.75, 2.0))))


ETAS = (0.5, 0.125, 1.0, 2.0)
_MIXTURES = (2, 3, 4, 5)
_CLUSTERS = distinct_sizes(3, largest=4, least=(1, 2, 1))


@st.composite
def two_keys(draw: st.DrawFn) -> Stepped:
    """Heads all of whose queries see the first two keys and no other."""
    head = draw(heads(masks=False, dropout=False))
    mask = np.zeros(head.visible.shape, dtype=bool)
    mask[:, :2] = True
    return Stepped(Head(head.q, head.k, head.v, head.u, mask, head.bias, None, head.scale), 1.0)


def stepped(of: st.SearchStrategy[Head] | None = None) -> st.SearchStrategy[Stepped]:
    """Heads (without dropout unless given otherwise) with a step size."""
    given = heads(dropout=False) if of is None else of
    return st.builds(Stepped, given, st.sampled_from(ETAS))


@st.composite
def stepped_layers(draw: st.DrawFn) -> SteppedLayer:
    """Layers with one head, a step size, and steps of the read-out."""
    layer = draw(layers(same_width=True))
    entries = Entries(draw, layer.W_O.size + layer.W_O.shape[1])
    dW, dc = entries.reals(*layer.W_O.shape), entries.reals(layer.W_O.shape[1])
    return SteppedLayer(layer, draw(st.sampled_from(ETAS)), dW, dc)


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    """Mixtures of two to five components; priors of 0 occur, but two components are possible."""
    m = draw(st.sampled_from(_MIXTURES))
    entries = Entries(draw, 3 * m)
    priors = entries.chances(m)
    priors += np.count_nonzero(priors) < 2
    return Mixture(priors, entries.reals(m), entries.reals(m))


@st.composite
def clusters(draw: st.DrawFn) -> Clusters:
    """Queries and Gaussian means, n, m and d pairwise different; priors of 0 occur."""
    n, m, d = draw(st.sampled_from(_CLUSTERS))
    entries = Entries(draw, count((n, d), (m, d), (m,)))
    q, k = entries.reals(n, d), entries.reals(m, d)
    return Clusters(q, k, entries.chances(m), draw(st.sampled_from((1.0, 0.5, 2.0))))


@st.composite
def moved(draw: st.DrawFn) -> Moved:
    """Logits with targets, and other logits."""
    of = draw(logits())
    return Moved(of, of.z + Entries(draw, of.z.size).reals(*of.z.shape))


def rates() -> st.SearchStrategy[Rate]:
    """Step sizes from 1/64 to 64: a few coarse ones, and a million fine ones, so that no profile runs out of them."""
    fine = st.integers(2**8, 2**20).map(lambda r: r / 2**14)
    return st.builds(Rate, st.one_of(st.integers(1, 64).map(lambda r: r / UNIT), fine))


def example_of(strategy: st.SearchStrategy, number: int, seed: int = 0) -> list:
    """``number`` examples of a strategy, the same ones every time: for fixed benches of examples outside Hypothesis."""
    found: list = []
    run_on_draws(found.append, strategy, examples=number, seed=seed, shrink=False)
    return found
