"""The truth: the literal definition of attention, differentiated rule by rule, with running error bounds.

    s = scale q k^T  (then c tanh(s/c), + bias, - slope |i + o - j|),   E = exp(s - top) on visible pairs,
    Z = sum_j E (+ exp(sink - top)),   a = E / Z,   g = sum_j a D v,   lse = log Z + top

Nothing here knows a formula for a gradient of attention. A :class:`Real` is a value in a wide format and a bound on
what an implementation in the format under test may err by, to first order and for any order of its sums; every rule of
reverse mode is made of Reals again, so gradients carry bounds too, and so do gradients of gradients. The rules are
those of docs/checks.md; the tolerance is SAFETY times the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from bayesgrad.testing.examples import Array
from bayesgrad.testing.kernels.blocks import Block
from bayesgrad.testing.kernels.formats import Format
from bayesgrad.testing.tolerance import SAFETY

Back = tuple[tuple["Real", Callable[["Real", "Real"], "Real"]], ...]
_NUMBER = count()


def _size(x: Array) -> Array:
    return np.abs(x).astype(np.float64)


class Real:
    """A value, a bound on the error of computing it, and the rules that send a cotangent back to what it came from."""

    __slots__ = ("back", "e", "format", "number", "x")

    def __init__(self, x: Any, format: Format, e: Any = 0.0, back: Back = ()) -> None:
        self.x: Array = np.asarray(x, dtype=format.wide)
        self.e = np.broadcast_to(np.asarray(e, dtype=np.float64), self.x.shape)
        self.format, self.back, self.number = format, back, next(_NUMBER)

    def _made(self, x: Array, inherited: Any, back: Back, terms: Any = None, length: int = 1) -> Real:
        """A computed value: what its operands may err by, and a rounding of each of ``length`` terms."""
        size = _size(x) if terms is None else terms
        return Real(
            x,
            self.format,
            inherited + length * (self.format.u * size + self.format.floor * ((size > 0) | (x != 0))),
            back,
        )

    def plus(self, other: Real) -> Real:
        """x + y."""
        back: Back = ((self, lambda G, _: G.onto(self.x.shape)), (other, lambda G, _: G.onto(other.x.shape)))
        return self._made(self.x + other.x, self.e + other.e, back)

    def times(self, other: Real) -> Real:
        """x y."""
        back: Back = (
            (self, lambda G, _: G.times(other).onto(self.x.shape)),
            (other, lambda G, _: G.times(self).onto(other.x.shape)),
        )
        return self._made(self.x * other.x, _size(self.x) * other.e + self.e * _size(other.x), back)

    def by(self, number: float) -> Real:
        """x times an exact number."""
        return self.times(Real(number, self.format))

    def dot(self, other: Real) -> Real:
        """Product of matrices over the last axis of one and the last but one of the other, in any order."""
        back: Back = (
            (self, lambda G, _: G.dot(other.t).onto(self.x.shape)),
            (other, lambda G, _: self.t.dot(G).onto(other.x.shape)),
        )
        ax, ay, length = _size(self.x), _size(other.x), self.x.shape[-1]
        terms = ax @ ay
        inherited = self.e @ ay + ax @ other.e + 2 * self.format.product * terms
        return self._made(self.x @ other.x, inherited, back, terms, length)

    @property
    def t(self) -> Real:
        """The last two axes exchanged."""
        return Real(self.x.swapaxes(-1, -2), self.format, self.e.swapaxes(-1, -2), ((self, lambda G, _: G.t),))

    def sum(self, axes: tuple[int, ...] = (-1,)) -> Real:
        """Over axes, which stay."""
        length = int(np.prod([self.x.shape[axis] for axis in axes]))
        total = self.x.sum(axes, keepdims=True)
        terms = _size(self.x).sum(axes, keepdims=True) if length > 1 else 0.0 * _size(total)
        back: Back = ((self, lambda G, _: G.spread(self.x.shape)),)
        return self._made(total, self.e.sum(axes, keepdims=True), back, terms, max(length - 1, 1))

    def spread(self, shape: tuple[int, ...]) -> Real:
        """Broadcast."""
        back: Back = ((self, lambda G, _: G.onto(self.x.shape)),)
        return Real(np.broadcast_to(self.x, shape), self.format, np.broadcast_to(self.e, shape), back)

    def onto(self, shape: tuple[int, ...]) -> Real:
        """Summed over what was broadcast from ``shape``."""
        if self.x.shape == shape:
            return self
        more = self.x.ndim - len(shape)
        axes = tuple(a for a in range(self.x.ndim) if a < more or shape[a - more] == 1 != self.x.shape[a])
        summed = self.sum(axes) if axes else self
        return summed.shaped(shape)

    def shaped(self, shape: tuple[int, ...]) -> Real:
        """The same numbers in another shape."""
        back: Back = ((self, lambda G, _: G.shaped(self.x.shape)),)
        return Real(self.x.reshape(shape), self.format, self.e.reshape(shape), back)

    def where(self, keep: Array) -> Real:
        """x where ``keep``, exactly 0 elsewhere."""
        back: Back = ((self, lambda G, _: G.where(keep).onto(self.x.shape)),)
        return Real(np.where(keep, self.x, 0), self.format, np.where(keep, self.e, 0.0), back)

    def exp(self, top: Array, charge: Any) -> Real:
        """exp(x - top), ``charge`` roundings for whatever an implementation subtracts before."""
        y = np.exp(self.x - top)
        back: Back = ((self, lambda G, y: G.times(y).onto(self.x.shape)),)
        return self._made(y, _size(y) * (self.e + self.format.u * (charge + 1)), back)

    def tanh(self) -> Real:
        """The hyperbolic tangent, by a good library."""
        y = np.tanh(self.x)
        back: Back = ((self, lambda G, y: G.times(Real(1, y.format).plus(y.times(y).by(-1)))),)
        return self._made(y, self.e * _size(1 - y * y) + self.format.u * _size(y), back)

    def log(self) -> Real:
        """log x; NaN where x is 0, which stands for "not specified"."""
        x = np.where(self.x > 0, self.x, np.nan)
        y = np.log(x)
        back: Back = ((self, lambda G, _: G.times(self.inverse())),)
        return self._made(y, self.e / _size(x) + self.format.u * _size(y), back)

    def inverse(self) -> Real:
        """1 / x, and 0 for 0: rows without keys."""
        y = np.divide(1, self.x, out=np.zeros_like(self.x), where=self.x != 0)
        back: Back = ((self, lambda G, y: G.times(y).times(y).by(-1)),)
        return self._made(y, self.e * _size(y) ** 2, back)

    def kept(self, value: bool = True) -> Real:
        """Stored: the value (unless told otherwise) and its cotangent may be rounded to the format's storage."""
        if not self.format.stored:
            return self
        e = self.e + self.format.stored * _size(self.x) + self.format.floor * (self.x != 0) if value else self.e
        return Real(self.x, self.format, e, ((self, lambda G, _: G.kept()),))

    def exact(self) -> Real:
        """The same number without error: scores that are tied or far apart whatever their last digits are."""
        return Real(self.x, self.format, 0.0, ((self, lambda G, _: G),))


def gradients(seeds: Sequence[tuple[Real, Real]], inputs: Sequence[Real]) -> list[Real]:
    """Reverse mode: the sum of <cotangent, value> differentiated in each of the inputs."""
    pending: dict[int, tuple[Real, Real]] = {}

    def send(node: Real, cotangent: Real) -> None:
        before = pending.get(node.number)
        pending[node.number] = (node, cotangent if before is None else before[1].plus(cotangent))

    for node, cotangent in seeds:
        send(node, cotangent)
    found: dict[int, Real] = {}
    while pending:
        node, cotangent = pending.pop(max(pending))
        found[node.number] = cotangent
        for parent, rule in node.back:
            send(parent, rule(cotangent, node))
    return [
        found[leaf.number] if leaf.number in found else Real(np.zeros(leaf.x.shape), leaf.format) for leaf in inputs
    ]


def _forward(block: Block, leaf: dict[str, Real], format: Format, exact_scores: bool) -> dict[str, Real]:
    """Context and log-sum-exp, by the definition."""
    visible = block.by_group(block.visible)
    s = leaf["q"].dot(leaf["k"].t).by(block.the_scale)
    if block.cap is not None:
        s = s.by(1 / block.cap).tanh().by(block.cap)
    for part in ("bias", "slopes"):
        if part in leaf:
            more = leaf[part] if part == "bias" else leaf[part].times(Real(-block.distance, format))
            s = s.plus(more)
    s = s.exact() if exact_scores else s.kept()
    tops = np.where(visible, s.x, -np.inf).max(-1, keepdims=True, initial=-np.inf)
    if "sink" in leaf:
        tops = np.maximum(tops, leaf["sink"].x)
    top = np.where(np.isfinite(tops), tops, 0.0)
    shown = s.where(visible)
    E = shown.exp(np.where(visible, top, 0.0), 0.0 if exact_scores else 2 * _size(shown.x)).where(visible)
    Z = E.sum()
    if "sink" in leaf:
        Z = Z.plus(leaf["sink"].exp(top, 2 * _size(leaf["sink"].x)))
    a = E.times(Z.kept(value=False).inverse()).kept()
    used = a if block.dropout is None else a.times(Real(block.by_group(block.dropout), format))
    return {"context": used.dot(leaf["v"]).kept(), "lse": Z.log().plus(Real(top, format))}


def truth(
    block: Block,
    format: Format,
    *,
    exact_scores: bool = False,
    tangents: dict[str, Array] | None = None,
    second: dict[str, Array] | None = None,
) -> dict[str, tuple[Array, Array]]:
    """name -> (value, largest admitted error): context, lse, gradients by the names of the inputs.

    ``tangents`` adds "jvp" (and "jvp lse"), the change of the context along them; ``second`` adds "second q", ...: the
    derivatives of sum <second, gradient> in q, k, v and u. ``exact_scores``: scores carry no error that matters.
    """
    leaf = {
        name: Real(block.grouped(name), format)
        for name in ("q", "k", "v", "u", "bias", "slopes", "sink")
        if getattr(block, name) is not None
    }
    inputs = [name for name in leaf if name != "u"]
    with np.errstate(under="ignore", over="ignore", invalid="ignore", divide="ignore"):
        out = _forward(block, leaf, format, exact_scores)
        seeds = [(out["context"], leaf["u"])]
        if block.dlse is not None:
            seeds.append((out["lse"], Real(block.grouped("dlse"), format)))
        first = dict(zip(inputs, gradients(seeds, [leaf[name] for name in inputs]), strict=True))
        found = {**out, **{name: x.kept() for name, x in first.items()}}
        if tangents is not None:
            along = [(first[name], Real(block.grouped(name, x), format)) for name, x in tangents.items()]
            found["jvp"] = gradients(along, [leaf["u"]])[0]
        if second is not None:
            names = ("q", "k", "v", "u")
            along = [(first[name], Real(block.grouped(name, x), format)) for name, x in second.items()]
            found |= dict(
                zip((f"second {name}" for name in names), gradients(along, [leaf[name] for name in names]), strict=True)
            )
    return {name: (block.bare(name, x.x), SAFETY * block.bare(name, x.e)) for name, x in found.items()}
