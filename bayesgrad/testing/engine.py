"""Running one check: draw examples, compare, count the vacuous ones, and hold wrong laws against the same draws.

A :class:`Check` says which law it is about, how shipped code computes the law's quantities on an example, and which
oracles say what they should be. :func:`run` draws examples and

* fails on the first entry outside the tolerance, shrunk to the smallest example that shows it;
* counts a draw as vacuous, and not as an example, when every expected entry is 0 to rounding;
* evaluates the law's own statement, part by part, as one more witness (a :class:`Claim` says what a quantity equals, or
  what it is at most);
* evaluates every wrong law that has not been rejected yet. Rejected means: the right shape, real numbers, and an entry
  outside the tolerance. A wrong law that raises, or has another shape, is not rejected by that.
"""

from __future__ import annotations

import hashlib
import itertools
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bayesgrad.testing.draws import run_on_draws
from bayesgrad.testing.examples import Example
from bayesgrad.testing.tolerance import Difference, compare, tolerance

VACUOUS_LIMIT = 0.2
"""The largest share of draws in which a law may say 0 = 0."""


@dataclass(frozen=True)
class Reference:
    """What an oracle says a quantity is.

    ``bound``: running error bound in roundings (None: the check's yardstick has it). ``direction``: the oracle knows
    only the inner product of the quantity with this array.
    """

    value: np.ndarray
    bound: np.ndarray | None = None
    direction: np.ndarray | None = None


@dataclass(frozen=True)
class Oracle:
    """An independent way to a law's quantities: name -> :class:`Reference` for one example."""

    name: str
    of: Callable[[Any], Mapping[str, Reference]]
    slow: bool = False


def chosen(example: Example, one_in: int) -> bool:
    """A share of all examples, picked by their content: the same ones in every run."""
    if one_in <= 1:
        return True
    return _content(example) % one_in == 0


def _content(example: Example) -> int:
    content = 0
    for x in vars(example).values():
        if isinstance(x, Example):
            content ^= _content(x)
        elif isinstance(x, np.ndarray):
            content = zlib.crc32(np.ascontiguousarray(x).tobytes(), content)
        elif isinstance(x, float):
            content ^= zlib.crc32(repr(x).encode())
    return content


@dataclass(frozen=True)
class Check:
    """One law against its oracles. ``of`` computes the quantities with shipped code.

    ``states`` says which part of the law's statement gives which quantity, ``letters`` names an example's data for it
    (by default the example does).
    """

    label: str
    of: Callable[[Any], Mapping[str, Any]]
    given: st.SearchStrategy
    oracles: tuple[Oracle, ...]
    states: Mapping[str, str] = field(default_factory=dict)
    letters: Callable[[Any], Mapping[str, Any]] | None = None
    measured: str = ""
    name: str = ""
    share: float = 1.0

    @property
    def main(self) -> str:
        """The quantity that decides whether a draw is vacuous: the first that the statement gives ("": all)."""
        return self.measured or next(iter(self.states.values()), "")


@dataclass(frozen=True)
class Claim:
    """What a statement, or a wrong law, says about the left side of one ``part``: its value, or a bound from above."""

    part: str
    evaluate: Callable[[Mapping[str, np.ndarray]], Any]
    at_most: bool = False


class EnoughDrawn(BaseException):
    """An observer raises it to end the drawing. No Exception: Hypothesis would take one for a counterexample."""


class Observer:
    """Is told what every draw came to, may leave draws out, and may end it all by raising :class:`EnoughDrawn`."""

    def wants(self, number: int, example: Example) -> bool:
        """Whether the draw of this number, counted from 0, is to be judged."""
        return True

    def saw(self, number: int, vacuous: bool, worst: float) -> None:
        """A judged draw: whether the law says 0 = 0 there, and the largest difference in tolerances."""


class LawViolation(AssertionError):
    """A law that fails on an example; the message is the whole report."""


@dataclass
class Tally:
    """What one check found."""

    label: str
    oracles: list[str]
    examples: int = 0
    vacuous: int = 0
    worst_in_tolerance: float = 0.0
    worst_error: float = 0.0
    tolerance: float = 0.0
    wrong: dict[str, dict[str, Any]] = field(default_factory=dict)
    statement: str = "not evaluated"
    failure: str = ""
    seconds: float = 0.0
    seed: int = 0
    draws: str = ""

    def as_record(self) -> dict[str, Any]:
        """The tally as JSON data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def references(check: Check, example: Example, sparing: int = 1) -> dict[str, Mapping[str, Reference]]:
    """What each oracle says about one example; slow oracles speak about one example in ``sparing``."""
    whole = chosen(example, sparing)
    said: dict[str, dict[str, Reference]] = {}
    for oracle in check.oracles:
        if oracle.slow and not whole:
            continue
        said.setdefault(oracle.name, {}).update(oracle.of(example))
    return dict(said)


def yardstick(said: Mapping[str, Mapping[str, Reference]]) -> dict[str, Reference]:
    """The references that carry error bounds: the first oracle that knows each quantity with a bound."""
    found: dict[str, Reference] = {}
    for quantities in said.values():
        for name, reference in quantities.items():
            if reference.bound is not None and reference.direction is None:
                found.setdefault(name, reference)
    return found


def difference(got: Any, reference: Reference, bound: np.ndarray, dtype: object = np.float64) -> Difference:
    """One quantity against one reference."""
    if reference.direction is None:
        return compare(got, reference.value, tolerance(bound, dtype))
    shape = np.shape(reference.direction)
    actual = np.asarray(got)
    if actual.shape != shape:
        return compare(actual, np.zeros(shape), tolerance(bound, dtype))
    product = np.sum(actual * reference.direction)
    # The product is taken here, in float64, so it adds one rounding an entry.
    extra = np.sum((np.broadcast_to(bound, shape) + actual.size * np.abs(actual)) * np.abs(reference.direction))
    return compare(product, np.asarray(reference.value), tolerance(extra, dtype))


def is_vacuous(measure: Mapping[str, Reference], states: str) -> bool:
    """Whether the law says 0 = 0 here: every expected entry is within its tolerance of 0."""
    names = [states] if states in measure else list(measure)
    return all(
        bool(np.all(np.abs(measure[name].value) <= tolerance(measure[name].bound)))  # type: ignore[arg-type]
        for name in names
    )


def disagreements(
    check: Check,
    example: Example,
    got: Mapping[str, Any],
    said: Mapping[str, Mapping[str, Reference]],
    dtype: object = np.float64,
) -> Iterable[tuple[str, str, Difference]]:
    """(oracle, quantity, difference) for everything that was computed and that an oracle knows."""
    measure = yardstick(said)
    for oracle, quantities in said.items():
        for name, reference in quantities.items():
            # The yardstick bounds the value under test; an oracle with a bound of its own adds its own error.
            bound = np.asarray(measure[name].bound)
            if reference.bound is not None and reference is not measure[name]:
                bound = bound + reference.bound
            if name not in got:
                raise LawViolation(f"{check.label}: the check computes no {name!r}, which {oracle} knows")
            yield oracle, name, difference(got[name], reference, bound, dtype)


def report_violation(
    check: Check,
    example: Example,
    oracle: str,
    name: str,
    worst: Difference,
    command: str,
    said: Mapping[str, Mapping[str, Reference]] | None = None,
) -> str:
    """The whole story of a failure, for a person: law, oracle, input, both numbers, what others say, command."""
    where = f"{name}{list(worst.index)}" if worst.index else name
    numbers = worst.why or (
        f"{where} = {worst.got!r}, expected {worst.expected!r} "
        f"(off by {worst.in_tolerance:.3g} tolerances of {worst.tolerance:.3g})"
    )
    states = (check.of.__doc__ or "").strip().splitlines()
    lines = [f"{check.label} does not hold"]
    lines += [f"  law:       {states[0]}"] if states and check.name else []
    lines += [f"  against:   {oracle}", f"  numbers:   {numbers}"]
    mine = (said or {}).get(oracle, {}).get(name)
    along = None if mine is None else mine.direction
    for other, quantities in (said or {}).items():
        known = quantities.get(name)
        if other == oracle or known is None or worst.why:
            continue
        if known.direction is not None:
            lines.append(f"  others:    {other} knows {name} along one direction only")
        elif along is not None:
            lines.append(f"  others:    {other} expects {float(np.sum(known.value * along))!r} along that direction")
        else:
            lines.append(f"  others:    {other} expects {float(known.value[worst.index])!r} there")
    return "\n".join((*lines, f"  smallest:  {example!r}", f"  reproduce: {command}"))


def derived_seed(label: str, seed: int) -> int:
    """A seed of its own for each law, the same on every machine and in every order of checks."""
    return int.from_bytes(hashlib.sha256(f"{label}/{seed}".encode()).digest()[:8], "big")


def run(
    check: Check,
    *,
    examples: int,
    seed: int = 0,
    statement: Mapping[str, Claim] | None = None,
    wrong: Mapping[str, Claim] | None = None,
    command: str = "pytest checks/",
    least: int = 0,
    sparing: int = 1,
    observer: Observer | None = None,
) -> Tally:
    """Draw ``examples`` examples and judge the check; the tally's ``failure`` is empty if the law holds on all.

    ``least``: how many non-vacuous examples there must be. ``sparing``: slow oracles, and the statement, look at one
    example in so many; wrong laws look at each until they are rejected, and keep the number of that draw.
    """
    began = time.perf_counter()
    observer = observer or Observer()
    numbers = itertools.count()
    tally = Tally(check.label, list(dict.fromkeys(oracle.name for oracle in check.oracles)), seed=seed)
    statement = {key: claim for key, claim in (statement or {}).items() if claim.part in check.states}
    wrong = {key: claim for key, claim in (wrong or {}).items() if claim.part in check.states}
    tally.wrong = {
        key: {"verdict": "undecided", "counterexample": "", "why": "no draw tells it apart"} for key in wrong
    }
    if statement:
        tally.statement = "agrees"

    def judge(example: Example) -> None:
        number = next(numbers)
        if not observer.wants(number, example):
            return
        said = references(check, example, sparing)
        measure = yardstick(said)
        got = check.of(example)
        furthest = 0.0
        for oracle, name, worst in disagreements(check, example, got, said):
            furthest = max(furthest, worst.in_tolerance)
            tally.worst_in_tolerance = max(tally.worst_in_tolerance, worst.in_tolerance)
            tally.worst_error = max(tally.worst_error, worst.relative)
            if not worst.agrees:
                raise LawViolation(report_violation(check, example, oracle, name, worst, command, said))
        vacuous = is_vacuous(measure, check.main)
        tally.vacuous += vacuous
        tally.examples += not vacuous
        for expected in measure.values():
            largest = float(np.max(np.abs(expected.value), initial=0.0))
            if not vacuous and largest:
                admitted = float(np.max(tolerance(expected.bound)))  # type: ignore[arg-type]
                tally.tolerance = max(tally.tolerance, admitted / largest)
        asked = statement if chosen(example, sparing) else {}
        open_laws = {key: claim for key, claim in wrong.items() if tally.wrong[key]["verdict"] != "rejected"}
        if not asked and not open_laws:
            observer.saw(number, vacuous, furthest)
            return
        named = example.tensors() if check.letters is None else check.letters(example)
        tensors: dict[str, Any] = {**named, "sizes": example.named_sizes()}
        for key, claim in asked.items():
            name = check.states[claim.part]
            if name not in measure:
                continue
            worst = claimed(claim, tensors, measure[name])
            furthest = max(furthest, worst.in_tolerance)
            tally.worst_in_tolerance = max(tally.worst_in_tolerance, worst.in_tolerance)
            if not worst.agrees:
                against = f"{check.oracles[0].name} (the statement differs, part {key}, not the code)"
                raise LawViolation(report_violation(check, example, against, name, worst, command, said))
        for key, claim in open_laws.items():
            name = check.states[claim.part]
            if name in measure:
                tally.wrong[key] = {**hold_against(claim, tensors, example, measure[name]), "draw": number}
        observer.saw(number, vacuous, furthest)

    try:
        wanted = examples
        for batch in range(3):  # more draws where vacuous ones left too few examples
            batch_seed = derived_seed(check.label, seed + 1_000_003 * batch)
            run_on_draws(judge, check.given, examples=wanted, seed=batch_seed)
            if tally.examples >= least:
                break
            wanted = min(max(2 * (least - tally.examples), 16), examples)
    except EnoughDrawn:
        return tally
    except LawViolation as violation:
        tally.failure = str(violation)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", []))
        tally.failure = f"{check.label} could not be judged: {type(error).__name__}: {error}\n{notes}"
    if not tally.failure:
        tally.failure = shortcomings(tally, least)
    tally.seconds = time.perf_counter() - began
    return tally


def claimed(claim: Claim, tensors: Mapping[str, np.ndarray], reference: Reference) -> Difference:
    """A claim against the truth; a bound from above is compared where it is exceeded only."""
    value = np.asarray(claim.evaluate(tensors))
    if claim.at_most and value.shape == reference.value.shape:
        value = np.minimum(value, reference.value)
    return compare(value, reference.value, tolerance(reference.bound))  # type: ignore[arg-type]


def hold_against(
    claim: Claim, tensors: Mapping[str, np.ndarray], example: Example, reference: Reference
) -> dict[str, Any]:
    """Whether this example refutes a wrong law: only by numbers of the right shape that are not the right ones."""
    undecided = {"verdict": "undecided", "counterexample": ""}
    try:
        value = np.asarray(claim.evaluate(tensors))
    except Exception as error:
        return {**undecided, "why": f"raised {type(error).__name__}: {error}"}
    if value.shape != reference.value.shape or value.dtype.kind not in "fiub" or not np.all(np.isfinite(value)):
        return {**undecided, "why": f"shape {value.shape} or dtype {value.dtype}, or numbers that are not finite"}
    worst = claimed(claim, tensors, reference)
    if worst.agrees:
        return {**undecided, "why": "no draw tells it apart"}
    return {
        "verdict": "rejected",
        "counterexample": repr(example),
        "why": f"{worst.got!r} at {list(worst.index)}, the truth is {worst.expected!r}",
    }


def shortcomings(tally: Tally, least: int) -> str:
    """Why a check in which nothing disagreed still fails, or nothing."""
    drawn = tally.examples + tally.vacuous
    if tally.vacuous > VACUOUS_LIMIT * drawn:
        return f"{tally.label}: {tally.vacuous} of {drawn} draws are vacuous (0 = 0), more than {VACUOUS_LIMIT:.0%}"
    if tally.examples < least:
        return f"{tally.label}: only {tally.examples} non-vacuous examples, {least} are asked for"
    spared = [key for key, found in tally.wrong.items() if found["verdict"] != "rejected"]
    if spared:
        reasons = "; ".join(f"{key}: {tally.wrong[key]['why']}" for key in spared)
        return f"{tally.label}: wrong laws that no example rejects: {reasons}"
    return ""


def named(pairs: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, Reference]:
    """name -> (value, bound) as references."""
    return {name: Reference(np.asarray(value), np.asarray(bound)) for name, (value, bound) in pairs.items()}


def unbounded(pairs: Mapping[str, np.ndarray]) -> dict[str, Reference]:
    """name -> value as references whose bounds another oracle has."""
    return {name: Reference(np.asarray(value)) for name, value in pairs.items()}


def labels(checks: Sequence[Check]) -> list[str]:
    """The labels of the checks, each once, in order."""
    return list(dict.fromkeys(check.label for check in checks))
