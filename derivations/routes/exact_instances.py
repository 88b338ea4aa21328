"""The route "exact": every equation of a law, decided at explicit sizes as an identity of rational functions.

The sizes differ pairwise, so that no axis can pass for another. exp(s_ij) is an indeterminate of its own, and so is
1/Z_i; nothing is sampled to accept: left - right is the zero function or it is not. A wrong law is rejected by a
difference that is not 0 together with a rational point at which it is not 0.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import flint
from rich.console import Console
from rich.progress import track

from bayesgrad import evidence
from bayesgrad.symbolic.proof import AtMost, Equation, Induction, Minimum
from bayesgrad.symbolic.terms import (
    Index,
    Term,
    indices_of,
    rename,
)
from derivations.counterexamples import gathered
from derivations.laws import Law, labels, law
from derivations.result import Part
from derivations.routes import enumerations  # noqa: F401  (enters the listings)
from derivations.routes.cases import bodies_of, cases_of, sides, tiny_cases
from derivations.routes.functions import Functions, Poly, Room, Undecided, with_room
from derivations.routes.instances import Bodies, Case, Instance, NoSuchCase, free_of
from derivations.routes.listings import LISTINGS
from derivations.wrong_laws import WrongLaw, wrong_laws

SOURCES = (
    "bayesgrad/symbolic/*.py",
    "derivations/*.py",
    "derivations/*/*.py",
    "bayesgrad/theorems.py",
)
ENOUGH = 500  # equal positions after which a wrong law counts as not told apart
POINTS = 60  # rational points at which an inequality is tried in one case


# --- one claim in one case --------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What one case said about one claim."""

    case: Case
    compared: int = 0
    set_aside: int = 0
    generators: int = 0
    counterexample: str = ""


def holds(instance: Instance, given: Sequence[Equation], env: dict[Index, int]) -> bool:
    """Whether every hypothesis that is an equation is an identity at this position."""
    for equation in given:
        if type(equation) is not Equation:
            continue  # an inequality: the identities do not need it
        for rest in instance.positions([i for i in free_of(equation.lhs, equation.rhs) if i not in env]):
            at = {**env, **rest}
            if not instance.ring.is_zero(instance.value(equation.lhs, at) - instance.value(equation.rhs, at)):
                return False
    return True


def compare(case: Case, bodies: Bodies, claim: Equation, order: Sequence[Index], ring: Functions) -> Outcome:
    """left = right at every position at which the hypotheses hold, up to the first difference."""
    return compare_in(Instance(ring, case, bodies), claim, order)


def compare_in(instance: Instance, claim: Equation, order: Sequence[Index]) -> Outcome:
    """The same in an instance that other claims share."""
    ring = instance.ring
    out = Outcome(instance.case)
    for env in instance.positions(order):
        try:
            if not holds(instance, claim.given, env):
                out.set_aside += 1
                continue
            left, right = instance.value(claim.lhs, env), instance.value(claim.rhs, env)
        except NoSuchCase:
            out.set_aside += 1
            continue
        out.compared += 1
        if not ring.is_zero(left - right):
            out.counterexample = describe(ring, instance.case, env, left, right)
            break
    out.generators = ring.size
    return out


def describe(ring: Functions, case: Case, env: dict[Index, int], left: Poly, right: Poly) -> str:
    """A rational point at which two functions differ: everything that is needed to compute both by hand."""
    for number in range(100):
        values = ring.point(number)
        x, y = ring.value(left, values), ring.value(right, values)
        if x != y:
            break
    else:
        raise Undecided("the two sides differ as functions, but no rational point that shows it was found")
    used = [n for n in ring.used((left, right)) if not ring.names[n].startswith("1/(")]
    point = ", ".join(f"{ring.names[n]} = {values[n]}" for n in used)
    where = ", ".join(f"{index.name} = {n + 1}" for index, n in env.items())
    return f"{case}{f'; at {where}' if where else ''}: left {x}, right {y}; where {point or 'nothing is free'}"


# --- one law ----------------------------------------------------------------------------------------------------------


@dataclass
class Decided:
    """All cases of one part."""

    name: str
    outcomes: list[Outcome] = field(default_factory=list)
    verdict: str = "not applicable"
    reason: str = ""
    gap: bool = False

    def settle(self) -> None:
        bad = next((o for o in self.outcomes if o.counterexample), None)
        if bad:
            self.verdict, self.reason = "refuted", bad.counterexample
        elif not sum(o.compared for o in self.outcomes):
            self.verdict, self.reason = "undecided", "its hypotheses hold in none of the cases"
        else:
            self.verdict = "proved"


def identity_of(part: Part) -> Equation | None:
    """What this route decides of a part: its equation; of an inequality, that the gap is what its proof ends with."""
    claim = part.claim
    if type(claim) is Equation:
        return claim
    if isinstance(claim, AtMost) and part.proof.steps:
        gap = claim.rhs - claim.lhs
        return Equation(gap, part.proof.steps[-1].after, claim.free, claim.given, sample=claim.sample)
    return None


def not_here(claim: Equation) -> str:
    """Why this route does not decide a claim."""
    if isinstance(claim, Minimum):
        return "a minimum by calculus, not an identity"
    if isinstance(claim, Induction):
        return "an induction over all times: its base and its step are decided as parts of their own"
    return "one written-out instance, which the kernel computes exactly"


def decide(found: Law) -> list[Decided]:
    """Every part of a law in every case; parts that draw the same tensors share one ring and its functions."""
    parts = {part.name: Decided(part.name) for part in found.parts}
    groups: dict[Any, list[Part]] = {}
    claims: dict[str, Equation] = {}
    for part in found.parts:
        claim = identity_of(part)
        if claim is None:
            parts[part.name].reason = not_here(part.claim)
            continue
        claims[part.name] = claim
        parts[part.name].gap = claim is not part.claim
        groups.setdefault(frozenset((t, id(body)) for t, body in bodies_of(claim).items()), []).append(part)
    room = Room()
    for group in groups.values():
        chosen = [(claims[part.name], part.order) for part in group]
        bodies = bodies_of(chosen[0][0])
        for case in cases_of([side for claim, _ in chosen for side in sides(claim)], bodies):
            try:
                outcomes = with_room(partial(_together, case, chosen, bodies), room)
            except Undecided as problem:
                for part in group:
                    parts[part.name].verdict, parts[part.name].reason = "undecided", str(problem)
                break
            for part, outcome in zip(group, outcomes, strict=True):
                parts[part.name].outcomes.append(outcome)
        else:
            for part in group:
                parts[part.name].settle()
    return list(parts.values())


def _together(
    case: Case, claims: Sequence[tuple[Equation, Sequence[Index]]], bodies: Bodies, ring: Functions
) -> list[Outcome]:
    instance = Instance(ring, case, bodies)
    return [compare_in(instance, claim, order) for claim, order in claims]


def aligned(term: Term, order: Sequence[Index]) -> Term:
    """``term`` speaking of the indices of a claim: a free index of the same name and size is that of the claim."""
    where: dict[Index, Any] = {}
    for index in indices_of(term)[0] - set(order):
        same = [other for other in order if (other.name, other.size) == (index.name, index.size)]
        if len(same) != 1:
            raise Undecided(f"index {index.name} is none of the claim's")
        where[index] = same[0]
    return rename(term, where) if where else term


def wrong_claim(row: WrongLaw) -> Equation:
    """The wrong law under the hypotheses of the right one."""
    claim, order = row.part.claim, row.part.order
    left = claim.lhs if row.left is None else aligned(row.left, order)
    return replace(claim, lhs=left, rhs=aligned(row.right, order))


def reject(row: WrongLaw) -> tuple[str, str]:
    """The verdict on a wrong law and its counterexample; the smallest case that tells comes first."""
    claim, order = row.part.claim, row.part.order
    bound = isinstance(claim, (AtMost, Minimum))
    if not bound and type(claim) is not Equation:
        return "not applicable", not_here(claim)
    compared = 0
    try:
        wrong = wrong_claim(row)
        bodies = bodies_of(wrong)
        terms = [*sides(claim), wrong.lhs, wrong.rhs]
        for case in tiny_cases(terms, bodies) if bound else cases_of(terms, bodies):
            outcome = with_room(partial(fails if bound else compare, case, bodies, wrong, order))
            if outcome.counterexample:
                return "refuted", outcome.counterexample
            compared += outcome.compared
            if compared > ENOUGH:
                break
    except Undecided as problem:
        return "undecided", str(problem)
    return "undecided", f"no difference at {compared} positions"


def _bounded(instance: Instance, given: Sequence[Equation], env: dict[Index, int], values: Sequence[Any]) -> bool:
    """Whether every hypothesis that is an inequality is true at some real values."""
    ring = instance.ring
    for bound in given:
        if type(bound) is Equation:
            continue
        for rest in instance.positions([i for i in free_of(bound.lhs, bound.rhs) if i not in env]):
            at = {**env, **rest}
            if not ring.ball(instance.value(bound.rhs, at) - instance.value(bound.lhs, at), values) >= 0:
                return False
    return True


def fails(case: Case, bodies: Bodies, claim: Equation, order: Sequence[Index], ring: Functions) -> Outcome:
    """Look for real numbers at which an inequality is false, certified by balls that contain both sides."""
    instance = Instance(ring, case, bodies)
    out = Outcome(instance.case)
    for env in instance.positions(order):
        if not holds(instance, claim.given, env):
            continue
        left, right = instance.value(claim.lhs, env), instance.value(claim.rhs, env)
        small, large = (right, left) if isinstance(claim, Minimum) else (left, right)
        out.compared += 1
        for number in range(POINTS):
            values = ring.real_point(number)
            if _bounded(instance, claim.given, env, values) and ring.ball(small, values) > ring.ball(large, values):
                used = [n for n in ring.used((left, right)) if isinstance(values[n], flint.fmpq)]
                point = ", ".join(f"{ring.names[n]} = {values[n]}" for n in used)
                shown = [ring.ball(side, values).str(12, radius=False) for side in (left, right)]
                out.counterexample = f"{instance.case}: left {shown[0]}, right {shown[1]}; where {point}"
                return out
    return out


# --- results established by listing every case ------------------------------------------------------------------------


def entry(label: str, route: str) -> dict[str, Any]:
    """The evidence for one label; ``route`` is what the catalogue says: required, optional, or why not."""
    began = time.process_time()
    applies = route in ("required", "optional")
    if label in labels():
        verdict, reason, detail = _by_cases(label)
        if not applies and verdict == "proved":
            verdict, reason = "not applicable", route
    else:
        verdict, reason, detail = ("not run", "it has no statement in symbols yet", {})
        if not applies:
            verdict, reason = "not applicable", route
    if label in LISTINGS:
        verdict, reason, detail = _with_listing(label, verdict, reason, detail)
    return {"verdict": verdict, "reason": reason, "detail": detail, "seconds": round(time.process_time() - began, 3)}


def _with_listing(label: str, verdict: str, reason: str, detail: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """A listing of every case beside the instances: both must agree with the statement."""
    listed, why, more = LISTINGS[label]()
    detail = {**detail, "listing": {"verdict": listed, "reason": why, **more}}
    if verdict in ("refuted", "undecided"):
        return verdict, reason, detail
    return listed, f"{why}; {reason}" if verdict == "proved" else why, detail


def _by_cases(label: str) -> tuple[str, str, dict[str, Any]]:
    decided = decide(law(label))
    equations = [part for part in decided if part.verdict != "not applicable"]
    verdicts = {part.verdict for part in equations}
    for word in ("refuted", "undecided"):
        if word in verdicts:
            reason = "; ".join(f"{part.name}: {part.reason}" for part in equations if part.verdict == word)
            break
    else:
        aside = [part.name for part in decided if part.verdict == "not applicable"]
        gaps = [part.name for part in equations if part.gap]
        compared = sum(o.compared for part in equations for o in part.outcomes)
        word = "proved" if equations else "not applicable"
        reason = f"{compared} differences are the zero function" if equations else "no part is an identity"
        if gaps:
            reason += f"; of the inequalities ({', '.join(gaps)}): that the gap is the last term of the proof"
        if equations and aside:
            reason += f"; not decided here: {', '.join(aside)}"
    cases = dict.fromkeys(str(o.case) for part in equations for o in part.outcomes)
    detail = {
        "cases": list(cases),
        "indeterminates": max((o.generators for part in equations for o in part.outcomes), default=0),
        "comparisons": sum(o.compared for part in equations for o in part.outcomes),
        "parts": [
            {
                "name": part.name,
                "verdict": part.verdict,
                "reason": part.reason,
                "comparisons": sum(o.compared for o in part.outcomes),
                "set_aside": sum(o.set_aside for o in part.outcomes),
            }
            for part in decided
        ],
        "wrong_laws": [_rejection(row) for row in wrong_laws(label)],
    }
    return word, reason, detail


def _rejection(row: WrongLaw) -> dict[str, Any]:
    return told(row, *reject(row))


def told(row: WrongLaw, verdict: str, example: str) -> dict[str, Any]:
    """A wrong law and what became of it, as the evidence lists it."""
    said = {"verdict": verdict, "counterexample": gathered(example)}
    return {"id": row.name, "kind": row.kind, "why": row.why, **said}


def summary(results: dict[str, Any], routes: dict[str, str], name: str) -> tuple[str, list[str]]:
    """One line about a route, and what is not as it should be."""
    required = [label for label, route in routes.items() if route == "required"]
    done = [label for label in required if results[label]["verdict"] == "proved"]
    held = [(label, row) for label, entry in results.items() for row in entry["detail"].get("wrong_laws", [])]
    held = [(label, row) for label, row in held if row["verdict"] != "not applicable"]
    loose = [(label, row) for label, row in held if row["verdict"] != "refuted"]
    problems = [
        f"{label}: {entry['verdict']}: {entry['reason']}"
        for label, entry in results.items()
        if entry["verdict"] in ("refuted", "undecided") or (label in required and entry["verdict"] != "proved")
    ]
    problems += [f"{label}: {row['id']}: wrong law not rejected ({row['counterexample']})" for label, row in loose]
    return (
        f"{name}: {len(done)} of {len(required)} required; {len(held) - len(loose)} of {len(held)} wrong laws refuted",
        problems,
    )


def record(force: bool, console: Console) -> int:
    """Decide everything and write the evidence of this route; nothing is run when no source has changed."""
    from bayesgrad.theorems import THEOREMS

    routes = {theorem.label: theorem.routes["exact"] for theorem in THEOREMS}
    known = None if force else evidence.read("exact")
    if known is not None:
        line, problems = summary(known["results"], routes, "exact instances")
        console.print(f"{line} (up to date)", markup=False)
        return 1 if problems else 0
    began, before = time.process_time(), evidence.sources(SOURCES)
    progress = track(routes.items(), "exact instances", console=console, disable=not console.is_terminal)
    results = {label: entry(label, route) for label, route in progress}
    spent = time.process_time() - began
    evidence.write(
        "exact",
        results,
        sources=before,
        patterns=SOURCES,
        versions=evidence.versions("python-flint"),
        seconds=spent,
    )
    line, problems = summary(results, routes, "exact instances")
    console.print(f"{line}; {spent:.0f} s", markup=False)
    for problem in problems:
        console.print(f"  {problem}", markup=False)
    return 1 if problems else 0
