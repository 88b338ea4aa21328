"""Two sides compared on instances: where a claim is evaluated, and where it is false.

An instance counts where all hypotheses hold on it. Every third one is a corner, with sizes 0 and 1 and many entries 0,
where a convention such as inv(0) = 0 shows; a corner can deny, but a claim that was compared in corners alone was not
evaluated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flint

from bayesgrad.symbolic.claims import Equation
from bayesgrad.symbolic.evaluation import Bodies, Env, Formal, Instance, NotEvaluated, Number, Real, positions
from bayesgrad.symbolic.naming import everything
from bayesgrad.symbolic.terms import Index, Lookup, Term, free_of

PRECISION = 200  # bits of a ball
SMALL = flint.arb(2) ** -100  # a ball must be so small, relative to its size, to count as a comparison


@dataclass(frozen=True)
class Denial:
    """An instance on which two sides differ at the positions where it stands."""

    instance: Instance
    left: Number
    right: Number


def variables(terms: Sequence[Term], given: Sequence[Equation]) -> list[Index]:
    """The free indices of terms, and those of hypotheses that these do not list as their own: variables of a claim."""
    more = [i for g in given for i in free_of(g.lhs, g.rhs) if i not in g.free]
    return sorted({*free_of(*terms), *more}, key=lambda i: i.uid)


def holds(instance: Instance, given: Sequence[Equation], *, certain: bool = True) -> bool:
    """Whether every hypothesis is true where an instance stands, and at all places of its own indices.

    An equation of balls is certain where it follows from the laws of exp and log; otherwise a small ball will do.
    Formal values have no order, so that there an inequality is passed over: no equation follows from it.
    """
    for equation in given:
        if equation.at_most and isinstance(instance, Formal):
            continue
        for position in positions(instance, equation.free):
            env = {**instance.scope, **position}
            gap = instance.value(equation.lhs, env) - instance.value(equation.rhs, env)
            if gap == 0 or (equation.at_most and gap <= 0):
                continue
            if not is_ball(gap) or not gap.contains(0) or not zero(instance, equation, env, gap, certain):
                return False
    return True


def zero(instance: Instance, equation: Any, env: Env, gap: Number, certain: bool) -> bool:
    """Whether a gap whose ball holds 0 is 0."""
    if not isinstance(instance, Real):
        return False
    try:
        twin = instance.twin()
        if twin.value(equation.lhs, env) - twin.value(equation.rhs, env) == 0:
            return True
    except NotEvaluated:
        pass
    return not certain and small(gap)


def is_ball(value: Number) -> bool:
    return isinstance(value, flint.arb)


def small(value: Number) -> bool:
    """Whether a number is known well."""
    return not is_ball(value) or bool(flint.arb(value.rad()) <= SMALL * (1 + abs(value.mid())))


def apart(left: Number, right: Number, at_most: bool = False) -> bool:
    """Whether two numbers are certainly different, or the left one certainly greater."""
    gap = left - right
    return bool(gap > 0) if at_most else bool(gap != 0) and not (is_ball(gap) and gap.contains(0))


def instances(
    terms: Sequence[Term],
    given: Sequence[Equation],
    kind: type[Instance],
    seed: int,
    tries: int,
    spread: int,
    bodies: Any,
    sparse: bool = False,
) -> list[Instance]:
    """Instances for a comparison; one in which a lookup leads into an empty size does not exist."""
    out = []
    sides = [side for equation in given for side in (equation.lhs, equation.rhs)]
    lookups = [thing for thing in everything([*terms, *sides]) if isinstance(thing, Lookup)]
    for attempt in range(tries):
        instance = kind(mixed(seed, attempt), spread, bodies=bodies, corner=attempt % 3 == 2, sparse=sparse)
        if not any(instance.size(f.size) == 0 and all(map(instance.size, f.sizes)) for f in lookups):
            out.append(instance)
    return out


def mixed(*numbers: int) -> int:
    """One seed from several numbers, the same in every run."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=4).digest(), "big")


def differs(
    left: Term,
    right: Term,
    given: Sequence[Equation],
    *,
    kind: type[Instance],
    seed: int,
    tries: int,
    spread: int,
    at_most: bool = False,
    bodies: Bodies | None = None,
    places: int = 6,
    certain: bool = True,
) -> tuple[Denial | None, int]:
    """Look for an instance on which left = right (or left <= right) fails; and how many places outside corners were
    compared. Each of ``tries`` instances is compared at up to ``places`` positions of the claim's indices."""
    compared = 0
    free = variables([left, right], given)
    with flint.ctx.workprec(PRECISION):
        for instance in instances([left, right], given, kind, seed, tries, spread, bodies):
            where = positions(instance, free)
            for env in instance.random.sample(where, min(places, len(where))):
                try:
                    instance.stand(env)
                    if not holds(instance, given, certain=certain):
                        continue
                    x, y = instance.value(left, env), instance.value(right, env)
                except NotEvaluated:
                    continue
                if apart(x, y, at_most):
                    return Denial(instance, x, y), compared + 1
                compared += not instance.corner and small(x - y)
    return None, compared
