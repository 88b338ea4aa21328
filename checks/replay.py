"""Does the evidence say what these checks find? ``python -m checks --audit`` draws again, and compares.

Everything that can be computed without judging is compared for all checks: the totals from their parts, the number of
draws, the names of the oracles, the list of checks. Of each check a few draws are then judged again: the worst, those
that rejected a wrong law, and some that nobody can foresee; each must be the same example and come to the same number.
The errors are compared to three digits, on the kind of machine that made them; on another kind they may differ.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from bayesgrad import evidence as files
from bayesgrad.testing.engine import Check, run
from checks import evidence, inventory
from checks.kept_draws import KEPT, Draw, Replay, parse, rounded
from checks.profiles import PROFILES, Profile
from checks.registry import BY_NODE, examples_of, statement_of, wrong_laws_of

UNFORESEEN = 2
"""How many draws of each check are picked anew in every audit."""


def audit(fragment: Mapping[str, Any], pick: random.Random | None = None) -> Iterator[str]:
    """Every sentence in which the evidence of the checks differs from what they find; needs all checks loaded."""
    stale = files.why_stale(fragment)
    if stale:
        yield f"the evidence is stale: {stale}"
        return
    profile, seed = PROFILES.get(fragment["configuration"].get("profile")), fragment["configuration"].get("seed")
    stored = fragment.get("checks")
    if profile is None or not isinstance(seed, int) or not isinstance(stored, dict):
        yield "configuration, checks: not what a run writes; python -m checks --force writes them anew"
        return
    try:
        yield from _totals(fragment, stored)
        yield from _rows(stored, profile, seed, pick or random.Random(secrets.randbits(64)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        yield f"checks: not what a run writes ({type(error).__name__}: {error})"


def _totals(fragment: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[str]:
    """The figures of a label must be those of its checks, and the list of checks complete."""
    tallies = [{**row, "wrong": {}} for row in stored.values()]
    expected = evidence.merge(tallies)
    for label in sorted({*expected, *fragment["results"]}):
        said, made = fragment["results"].get(label, {}), expected.get(label, {})
        for name in sorted({*said, *made}):
            if said.get(name) != made.get(name):
                yield f"{label}: {name} is {said.get(name)!r}, its checks make {made.get(name)!r}"
    rejected = {(row["label"], key) for row in stored.values() for key in row["wrong"]}
    registered = {label: names for label, names in evidence.wrong_law_names().items() if names}
    for label in sorted({*registered, *fragment.get("wrong_laws", {})}):
        said = fragment.get("wrong_laws", {}).get(label, {"rejected": 0, "total": 0, "survivors": []})
        names = registered.get(label, [])
        made = {
            "rejected": sum((label, name) in rejected for name in names),
            "total": len(names),
            "survivors": sorted(name for name in names if (label, name) not in rejected),
        }
        for name, value in made.items():
            if said.get(name) != value:
                yield f"{label}: wrong laws: {name} is {said.get(name)!r}, its checks make {value!r}"
    profile = PROFILES[fragment["configuration"]["profile"]]
    nodes = inventory.expected(inventory.read(), profile) & set(BY_NODE)
    for node in sorted(nodes ^ set(stored)):
        yield f"{node}: {'no record of it' if node in nodes else 'there is no such check'}"
    failing = {node for node, row in stored.items() if row["failure"]}
    for node in sorted(failing - set(fragment.get("failed", ()))):
        yield f"{node}: failed, and is not among the failed"


def _rows(stored: Mapping[str, Any], profile: Profile, seed: int, pick: random.Random) -> Iterator[str]:
    for node, row in stored.items():
        if node in BY_NODE and not row["failure"]:
            yield from (f"{node}: {sentence}" for sentence in _row(BY_NODE[node], row, profile, seed, pick))


def _row(check: Check, row: Mapping[str, Any], profile: Profile, seed: int, pick: random.Random) -> Iterator[str]:
    examples, least = examples_of(check, profile)
    oracles = list(dict.fromkeys(oracle.name for oracle in check.oracles))
    for name, said, made in (("label", row["label"], check.label), ("oracles", row["oracles"], oracles)):
        if said != made:
            yield f"{name} is {said!r}, the check has {made!r}"
    draws, total = parse(row["draws"]), row["examples"] + row["vacuous"]
    # More than one batch is drawn only where vacuous draws left too few examples.
    first = total == examples or (examples < total <= 3 * examples and row["vacuous"] > examples - least)
    if not first or len(draws) != min(total, KEPT):
        yield f"{row['examples']} examples and {row['vacuous']} vacuous draws, {len(draws)} kept; it draws {examples}"
        return
    whole = total <= KEPT
    vacuous = sum(draw.vacuous for draw in draws)
    if vacuous > row["vacuous"] or (whole and vacuous != row["vacuous"]):
        yield f"{row['vacuous']} vacuous draws, {vacuous} are marked"
    furthest = max((float(draw.worst) for draw in draws), default=0.0)
    worst = float(rounded(row["worst_in_tolerance"]))
    if furthest > worst or (whole and furthest != worst):
        yield f"the worst error is {worst} tolerances, that of its draws {furthest}"
    yield from _replayed(check, row, draws[:examples], profile, seed, pick)


def _replayed(
    check: Check, row: Mapping[str, Any], draws: list[Draw], profile: Profile, seed: int, pick: random.Random
) -> Iterator[str]:
    wrong = {key: claim for key, claim in wrong_laws_of(check.label).items() if key in row["wrong"]}
    worst = max(range(len(draws)), key=lambda number: float(draws[number].worst))
    numbers = {worst, *(pick.randrange(len(draws)) for _ in range(UNFORESEEN))}
    numbers |= {number for number in row["wrong"].values() if 0 <= number < len(draws)}
    replay = Replay(numbers)
    tally = run(
        check,
        examples=examples_of(check, profile)[0],
        seed=seed,
        sparing=profile.sparing,
        statement=statement_of(check.label),
        wrong=wrong,
        observer=replay,
    )
    if tally.failure:
        yield f"fails: {tally.failure.splitlines()[0]}"
    for number in sorted(numbers):
        said, made = draws[number], replay.draws.get(number)
        if said != made:
            yield f"draw {number} is recorded as {said}, and is {made or 'not there'}"
    for key, number in row["wrong"].items():
        found = tally.wrong.get(key, {"verdict": "no such wrong law"})
        if number in numbers and (found["verdict"], found.get("draw")) != ("rejected", number):
            yield f"draw {number} does not reject the wrong law {key}: {found['verdict']}"
