"""A counterexample that can be computed by hand: as small as greed makes it, and with every letter that it needs.

A denial found at random is made smaller one step at a time, first its sizes and then its numbers, as long as the
hypotheses still certainly hold and the sides still certainly differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flint

from bayesgrad.symbolic.claims import Equation
from bayesgrad.symbolic.comparison import PRECISION, Denial, mixed, variables
from bayesgrad.symbolic.evaluation import Instance, NotEvaluated, Number
from bayesgrad.symbolic.naming import everything
from bayesgrad.symbolic.terms import Lookup, Size, Tensor, Term, tensors_of

WORK = 300  # instances that are tried to make one smaller
SIMPLE = tuple(flint.fmpq(p, q) for p, q in ((0, 1), (1, 1), (-1, 1), (2, 1), (-2, 1), (1, 2), (3, 1)))

Judge = Callable[[Instance], Denial | None]  # whether an instance denies the claim, at the positions where it stands


@dataclass(frozen=True)
class Counterexample:
    """An instance on which two sides differ: everything that is needed to compute both by hand."""

    sizes: dict[str, int]
    values: dict[str, str]
    position: dict[str, int]
    left: str
    right: str

    def __str__(self) -> str:
        def show(d: Mapping[str, Any]) -> str:
            return ", ".join(f"{k}={v}" for k, v in d.items())

        values = {name: value for name, value in self.values.items() if value != "0"}
        rest = "every other value 0" if 0 < len(values) < len(self.values) else "every value 0" if self.values else ""
        parts = [
            f"sizes {show(self.sizes)}" if self.sizes else "",
            show(values),
            rest if len(values) < len(self.values) else "",
        ]
        at = f" at {show(self.position)}" if self.position else ""
        return f"{'; '.join(p for p in parts if p)}{at}: left {self.left}, right {self.right}"


def smallest(denial: Denial, judge: Judge) -> Denial:
    """A denial with fewer positions and simpler numbers, reached one harmless change at a time."""
    left = WORK

    def tried(sizes: Mapping[Size, int], keep: Instance, env: Mapping[Any, int], seed: int = 0) -> Denial | None:
        nonlocal left
        if left <= 0:
            return None
        left -= 1
        new = type(keep)(seed, keep.spread, sizes=sizes, bodies=keep.bodies)
        new.values, new.lookups = dict(keep.values), dict(keep.lookups)
        try:
            new.stand(env)
            return judge(new)
        except NotEvaluated:
            return None

    with flint.ctx.workprec(PRECISION):
        best = _fewer(denial, tried)
        return _simpler(best, tried)


def _fewer(denial: Denial, tried: Callable[..., Denial | None]) -> Denial:
    """Sizes brought down, the smallest first; what no longer fits is drawn anew."""
    changed = True
    while changed:
        changed = False
        now = denial.instance
        for size in sorted(now.sizes, key=lambda s: s.name):
            for count in range(1, now.sizes[size]):
                kept = _kept(now, size, count)
                if kept is None:
                    continue
                sizes = {**now.sizes, size: count}
                env = {i: kept[at] if i.size == size else at for i, at in now.scope.items()}
                blank = type(now)(0, now.spread, bodies=now.bodies)
                found = tried(sizes, _cut(now, size, kept), env) or next(
                    (d for seed in range(3) if (d := tried(sizes, blank, env, mixed(seed, count)))), None
                )
                if found:
                    denial, changed = found, True
                    break
            if changed:
                break
    return denial


def _kept(instance: Instance, size: Size, count: int) -> dict[int, int] | None:
    """Which positions of a size stay, and where they go, where so many are left: first those of the claim's indices."""
    used = sorted({at for i, at in instance.scope.items() if i.size == size})
    order = [*used, *(n for n in range(instance.sizes[size]) if n not in used)]
    return {old: new for new, old in enumerate(order[:count])} if len(used) <= count else None


def _cut(instance: Instance, size: Size, kept: Mapping[int, int]) -> Instance:
    """The numbers of an instance at the positions of a size that stay."""
    new = type(instance)(0, instance.spread, bodies=instance.bodies)

    def moved(sizes: tuple[Size, ...], at: tuple[int, ...]) -> tuple[int, ...] | None:
        places = [kept.get(n) if s == size else n for s, n in zip(sizes, at, strict=True)]
        return None if None in places else tuple(places)  # type: ignore[arg-type]

    for (tensor, at), value in instance.values.items():
        if (place := moved(tensor.sizes, at)) is not None:
            new.values[tensor, place] = value
    for (lookup, at), found in instance.lookups.items():
        place, target = moved(lookup.sizes, at), kept.get(found) if lookup.size == size else found
        if place is not None and target is not None:
            new.lookups[lookup, place] = target
    return new


def _simpler(denial: Denial, tried: Callable[..., Denial | None]) -> Denial:
    """Numbers replaced by simpler ones, and positions that are looked up by the first."""
    for place in sorted(denial.instance.lookups, key=lambda w: (w[0].name, w[1])):
        now = denial.instance
        if looked := now.lookups.get(place):
            now.lookups[place] = 0
            found = tried(now.sizes, now, now.scope)
            now.lookups[place] = looked
            denial = found or denial
    for where in sorted(denial.instance.values, key=lambda w: (w[0].name, w[0].uid, w[1])):
        now = denial.instance
        old = now.values.get(where)
        for simple in SIMPLE:
            if old is None or simple == old:
                break
            if _allowed(simple, where[0].kind):
                now.values[where] = simple
                found = tried(now.sizes, now, now.scope)
                now.values[where] = old
                if found:
                    denial = found
                    break
    return denial


def _allowed(value: Number, kind: str) -> bool:
    match kind:
        case "positive":
            return bool(value > 0)
        case "nonnegative":
            return bool(value >= 0)
        case "indicator":
            return bool(value == 0 or value == 1)
    return True


def described(denial: Denial, terms: Sequence[Term], given: Sequence[Equation]) -> Counterexample:
    """Every size, every position that is looked up and every entry of a letter without a definition, as it was used."""
    instance = denial.instance
    told = [*terms, *(side for g in given for side in (g.lhs, g.rhs))]
    free = {t for term in told for t in tensors_of(term) if t.body is None}
    values = {(t, at): v for (t, at), v in (*instance.values.items(), *instance.computed.items()) if t in free}
    if any(isinstance(v, flint.arb) for v in values.values()):  # the numbers that it was computed from, too
        values |= instance.values
    shown = {
        _entry(t, at): str(v) if isinstance(v, flint.fmpq) else v.str(20, radius=False)
        for (t, at), v in sorted(values.items(), key=lambda kv: (kv[0][0].name, kv[0][0].uid, kv[0][1]))
    }
    named = {thing for thing in everything(told) if isinstance(thing, Lookup)}
    shown |= {_entry(f, at): str(v + 1) for (f, at), v in sorted(instance.lookups.items(), key=str) if f in named}
    sizes = {s.name: n for s, n in sorted(instance.sizes.items(), key=lambda kv: kv[0].name) if s in everything(told)}
    place = {i.name: n + 1 for i, n in instance.scope.items() if i in variables(terms, given)}
    return Counterexample(sizes, shown, place, *two(denial.left, denial.right))


def _entry(thing: Tensor | Lookup, at: tuple[int, ...]) -> str:
    return f"{thing.name}[{','.join(str(n + 1) for n in at)}]" if at else thing.name


def two(left: Number, right: Number) -> tuple[str, str]:
    """Two different numbers with as many digits as it takes to see that they are."""

    def show(value: Number, digits: int) -> str:
        return str(value) if isinstance(value, flint.fmpq) else value.str(digits, radius=False)

    for digits in (12, 25, 50, 60):
        pair = show(left, digits), show(right, digits)
        if len(set(pair)) == 2:
            break
    return pair
