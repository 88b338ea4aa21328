"""What evaluation can say against a claim: a veto on what the kernel accepts, and a certain instance of its falsehood.

Nothing here can make a claim proved. The veto compares both sides of a step on formal instances, and on balls where
formal values do not exist; a refutation uses the true exp and log, with every definition as it stands.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import flint

from bayesgrad.symbolic import sampling
from bayesgrad.symbolic.claims import AtMost, Equation, Induction, Minimum, Witness
from bayesgrad.symbolic.comparison import PRECISION, Denial, apart, differs, holds, instances, is_ball, variables, zero
from bayesgrad.symbolic.counterexample import Counterexample, described, smallest, two
from bayesgrad.symbolic.evaluation import Bodies, Formal, Instance, NotEvaluated, Real, positions
from bayesgrad.symbolic.rules import fill
from bayesgrad.symbolic.terms import Index, Tensor, Term, lift

SPREAD = 10**6  # formal entries are drawn from so many numbers of each sign
NARROW = 3  # numbers that balls start from
WAYS: tuple[tuple[type[Instance], int, int], ...] = (
    (Formal, 3, SPREAD),
    (Real, 3, NARROW),
    (Formal, 40, SPREAD),  # hypotheses may be hard to meet
    (Real, 40, NARROW),
)


def veto(left: Term, right: Term, claim: Equation, seed: int) -> tuple[Counterexample | None, int]:
    """An instance on which a step fails, and how many places were compared.

    A sample that replaces a definition is only a faster way: what it denies or cannot evaluate is looked at again with
    every definition as it stands.
    """
    bodies = sampling.bodies(claim)
    found, compared = _denied(left, right, claim.given, bodies, seed)
    if (found or not compared) and any(t.body is not None for t in bodies):
        again, counted = _denied(left, right, claim.given, sampling.bodies(claim, overriding=False), seed)
        if counted:
            found, compared = again, counted
    return (described(found, [left, right], claim.given) if found else None), compared


def _denied(left: Term, right: Term, given: Sequence[Equation], bodies: Bodies, seed: int) -> tuple[Denial | None, int]:
    for kind, tries, spread in WAYS:
        found, compared = differs(
            left, right, given, kind=kind, seed=seed, tries=tries, spread=spread, bodies=bodies, certain=False
        )
        if compared:
            return found, compared
    return None, 0


def vacuous(claim: Equation, seed: int) -> str:
    """The reason why the hypotheses of a claim hold nowhere, as far as was tried; an empty string where they do.

    The numbers are true ones and every definition is as it stands.
    """
    if not claim.given:
        return ""
    bodies = sampling.bodies(claim, overriding=False)
    sides = [side for g in claim.given for side in (g.lhs, g.rhs)]
    free = variables([claim.lhs, claim.rhs], claim.given)
    met = [0] * len(claim.given)
    with flint.ctx.workprec(PRECISION):
        for instance in instances(sides, (), Real, seed, 90, NARROW, bodies):
            for env in itertools.islice(positions(instance, free), 4):
                try:
                    instance.stand(env)
                    each = [holds(instance, (g,), certain=False) for g in claim.given]
                except NotEvaluated:
                    continue
                if all(each) and all(instance.sizes.values()):
                    return ""
                met = [count + one for count, one in zip(met, each, strict=True)]
    worst = claim.given[met.index(min(met))]
    return f"no instance satisfies the hypotheses, as far as was tried: {worst.says!r} held on {min(met)}"


def of_claim(claim: Equation, seed: int) -> Counterexample | None:
    """A certain instance on which a claim is false although its hypotheses hold."""
    if isinstance(claim, Witness):
        return veto_witness(claim)[0]
    if isinstance(claim, Induction):
        return veto_induction(claim, seed, Real)[0]
    sides = (claim.rhs, claim.lhs) if isinstance(claim, Minimum) else (claim.lhs, claim.rhs)
    bound = isinstance(claim, (AtMost, Minimum))
    bodies = sampling.bodies(claim, overriding=False)
    found, _ = differs(*sides, claim.given, kind=Real, seed=seed, tries=40, spread=NARROW, at_most=bound, bodies=bodies)
    if found is None:
        return veto_tight(claim, seed) if isinstance(claim, AtMost) else None

    def judge(instance: Instance) -> Denial | None:
        if not holds(instance, claim.given):
            return None
        x, y = (instance.value(side, instance.scope) for side in sides)
        return Denial(instance, x, y) if apart(x, y, bound) else None

    return described(smallest(found, judge), sides, claim.given)


def veto_tight(claim: AtMost, seed: int, tries: int = 30) -> Counterexample | None:
    """An instance on which equality holds although a named entry is not 0, or fails although all of them are."""
    if claim.tight is None:
        return None
    bodies = sampling.bodies(claim, overriding=False)
    gap = replace(claim, lhs=lift(0), rhs=claim.rhs - claim.lhs, tight=None)
    free = variables([claim.lhs, claim.rhs], claim.given)
    named = [t.tensor(*(i or Index("r", t.tensor.sizes[n]) for n, i in enumerate(t.slots))) for t in claim.tight]
    with flint.ctx.workprec(PRECISION):
        for instance in instances([claim.lhs, claim.rhs], claim.given, Real, seed, tries, NARROW, bodies, True):
            for env in itertools.islice(positions(instance, free), 6):
                try:
                    instance.stand(env)
                    if not holds(instance, claim.given):
                        continue
                    value = instance.value(gap.rhs, env)
                    entries = [
                        (instance.value(t, {**env, **at}), Equation(t, lift(0)), {**env, **at})
                        for t in named
                        for at in positions(instance, [i for i in t.indices if i not in env])  # type: ignore[misc]
                    ]
                    nothing = all(_zero(instance, e, at, v) for v, e, at in entries)
                    if any(apart(v, 0) for v, _, _ in entries) and _zero(instance, gap, env, value):
                        return described(Denial(instance, value, flint.fmpq(0)), [claim.lhs, claim.rhs], claim.given)
                    if nothing and apart(value, 0):
                        return described(Denial(instance, value, flint.fmpq(0)), [claim.lhs, claim.rhs], claim.given)
                except NotEvaluated:
                    continue
    return None


def _zero(instance: Instance, equation: Equation, env: Any, value: Any) -> bool:
    return value == 0 or (is_ball(value) and value.contains(0) and zero(instance, equation, env, value, True))


def veto_witness(claim: Witness) -> tuple[Counterexample | None, int]:
    """The two sides of a written-out instance, certainly related otherwise; and whether they could be evaluated."""
    given: dict[Tensor, None] = {t: None for t in claim.values if isinstance(t, Tensor)}
    instance = Real(0, NARROW, sizes=claim.sizes, bodies=given)
    for thing, table in claim.values.items():
        for at, value in _leaves(table):
            if isinstance(thing, Tensor):
                instance.values[thing, at] = flint.fmpq(value.numerator, value.denominator)
            else:
                instance.lookups[thing, at] = value
    with flint.ctx.workprec(PRECISION):
        try:
            instance.stand(claim.at)
            told = len(instance.values), len(instance.lookups), len(instance.sizes)
            x, y = (instance.value(side, claim.at) for side in (claim.lhs, claim.rhs))
            drawn = told != (len(instance.values), len(instance.lookups), len(instance.sizes))
        except (NotEvaluated, KeyError, IndexError):
            drawn = True
        if drawn:
            return None, 0  # it is not all there
        wrong = apart(x, y) if claim.relation == "=" else x <= y if claim.relation == ">" else x >= y
        if not wrong:
            return None, 1
    sizes = {s.name: n for s, n in claim.sizes.items()}
    values = {t.name: str(v) for t, v in claim.values.items()}
    return Counterexample(sizes, values, {i.name: n + 1 for i, n in claim.at.items()}, *two(x, y)), 1


def _leaves(table: Any, at: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Any]]:
    if not isinstance(table, tuple):
        return [(at, table)]
    return [leaf for n, inner in enumerate(table) for leaf in _leaves(inner, (*at, n))]


def veto_induction(claim: Induction, seed: int, kind: type[Instance] = Formal) -> tuple[Counterexample | None, int]:
    """The claim at the first time and one step later, where what is now is what was first."""
    samples = sampling.bodies(claim)
    now_is_first: Mapping[Tensor, Any] = {now: (lambda *at, t=t: t(*at)) for now, t in claim.first.items()}
    least = None
    for at, bodies in ((claim.first, samples), (claim.later, {**samples, **now_is_first})):
        left, right = (fill(side, dict(at)) for side in (claim.lhs, claim.rhs))
        found, compared = None, 0
        for way, tries, spread in WAYS if kind is Formal else WAYS[1::2]:
            found, compared = differs(
                left,
                right,
                claim.given,
                kind=way,
                seed=seed,
                tries=tries,
                spread=spread,
                bodies=bodies,
                certain=kind is Real,
            )
            if compared:
                break
        if found:
            return described(found, [left, right], claim.given), compared
        least = compared if least is None else min(least, compared)
    return None, least or 0
