"""What evaluation can say against a claim: a veto on one step, and a certified instance on which a claim is false.

Nothing here can make a claim proved. The veto compares both sides of a step on formal instances; a refutation uses the
true exp and log as balls, with every definition as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayesgrad.symbolic import rules
from bayesgrad.symbolic.evaluation import Bodies, Counterexample, Formal, Real, differs
from bayesgrad.symbolic.terms import Term

SPREAD = 10**6  # free entries are drawn from so many numbers of each sign


def veto(left: Term, right: Term, given: Sequence[Any], bodies: Bodies, seed: int) -> tuple[Counterexample | None, int]:
    """An instance on which a step fails, and how many places were compared; hypotheses may be hard to meet."""
    for tries in (3, 40):
        found, compared = differs(left, right, given, kind=Formal, seed=seed, tries=tries, spread=SPREAD, bodies=bodies)
        if compared:
            break
    return found, compared


def of(
    left: Term, right: Term, given: Sequence[Any], at_most: bool, bodies: Bodies, seed: int
) -> Counterexample | None:
    """An instance on which left = right (or left <= right) is false although the hypotheses hold."""
    chosen = {t: body for t, body in bodies.items() if t.body is None}  # definitions stay as they are
    try:
        return differs(left, right, given, kind=Real, seed=seed, tries=40, spread=3, at_most=at_most, bodies=chosen)[0]
    except (ValueError, TypeError):
        return None


def of_witness(claim: Any) -> Counterexample | None:
    """The two sides of a false witness, certified to be apart."""
    left, right = (rules.ball(rules.explicit(t, claim.sizes, claim.values, claim.at)) for t in (claim.lhs, claim.rhs))
    apart = not (left - right).contains(0)
    wrong = apart if claim.relation == "=" else left < right if claim.relation == ">" else left > right
    sizes = {s.name: n for s, n in claim.sizes.items()}
    values = {t.name: str(v) for t, v in claim.values.items()}
    where = {i.name: n + 1 for i, n in claim.at.items()}
    shown = (left.str(12, radius=False), right.str(12, radius=False))
    return Counterexample(sizes, values, where, *shown) if wrong else None
