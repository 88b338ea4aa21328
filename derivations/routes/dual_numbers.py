"""Dual numbers over exact functions: a value together with its derivatives, by arithmetic alone.

    (x + eps dx)(y + eps dy) = xy + eps (x dy + y dx)        f(x + n) = f(x) + f'(x) n + ...   for nilpotent n

so that D e^x = e^x Dx, D (1/x) = -(1/x)^2 Dx and D log x = (1/x) Dx come out of the series: there is no table of rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from derivations.routes.functions import Functions, Poly

Direction = tuple[tuple[int, tuple[int, ...]], ...]  # (slot, entry) in order of slots; () is the value itself


class Jet:
    """x + sum_D x_D eps_D: a value together with its partial derivatives, every entry of a tensor at once.

    Each formal derivative has a slot of its own; the eps of one slot multiply to 0, whatever their entries are.
    """

    __slots__ = ("parts", "ring")

    def __init__(self, ring: Functions, parts: dict[Direction, Poly]):
        self.ring = ring
        self.parts = {at: p for at, p in parts.items() if not p.is_zero()}

    def __bool__(self) -> bool:
        return bool(self.parts)

    @property
    def value(self) -> Poly:
        """The part without eps."""
        return self.parts.get((), self.ring.zero)

    def __mul__(self, other: Jet) -> Jet:
        out: dict[Direction, Poly] = {}
        for left, x in self.parts.items():
            for right, y in other.parts.items():
                if left and right:
                    if {slot for slot, _ in left} & {slot for slot, _ in right}:
                        continue
                    at = tuple(sorted(left + right))
                else:
                    at = left or right
                out[at] = out[at] + x * y if at in out else x * y
        return Jet(self.ring, out)

    def scaled(self, factor: Poly) -> Jet:
        return Jet(self.ring, {at: p * factor for at, p in self.parts.items()})

    def power(self, exponent: int) -> Jet:
        out = self
        for _ in range(exponent - 1):
            out = out * self
        return out

    def _series(self, value: Poly, coefficient: Callable[[int], Poly]) -> Jet:
        """value + sum_t coefficient_t n^t with n the nilpotent part."""
        n = Jet(self.ring, {at: p for at, p in self.parts.items() if at})
        terms, power, t = [Jet(self.ring, {(): value})], n, 1
        while power:
            terms.append(power.scaled(coefficient(t)))
            power, t = power * n, t + 1
        return total(self.ring, terms)

    def exp(self) -> Jet:
        e = self.ring.exp(self.value)
        return self._series(e, lambda t: e / math.factorial(t))

    def inv(self) -> Jet:
        y = self.ring.inv(self.value)
        return self._series(y, lambda t: y ** (t + 1) * (-1) ** t)

    def log(self) -> Jet:
        value = self.ring.log(self.value)
        return self._series(value, lambda t: self.ring.inv(self.value) ** t * (-1) ** (t + 1) / t)


def total(ring: Functions, jets: Iterable[Jet]) -> Jet:
    """The sum of some jets; long sums are added in halves, so that no term is copied often."""
    found: dict[Direction, list[Poly]] = {}
    for jet in jets:
        for at, p in jet.parts.items():
            found.setdefault(at, []).append(p)
    return Jet(ring, {at: _halves(polys) for at, polys in found.items()})


def _halves(polys: list[Poly]) -> Poly:
    while len(polys) > 1:
        polys = [polys[n] + polys[n + 1] if n + 1 < len(polys) else polys[n] for n in range(0, len(polys), 2)]
    return polys[0]
