"""Code mutants of the shipped core against the checks: what the checks would not notice.

Each check is prepared once: a few examples with their references. A mutant is *killed* by the first check that touches
the mutated function and then disagrees with an oracle, misses an exact corner, or raises; it *survives* if all of them
pass. The denominator is every mutant that was generated. A survivor that cannot change any result in exact arithmetic
within the checked domain is explained in :mod:`checks.mutation.equivalent`; the others are shown as they are.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch

from bayesgrad import evidence as files
from bayesgrad.evidence.status import TOLERATED
from bayesgrad.testing.corners import CORNERS, violations
from bayesgrad.testing.engine import Check, derived_seed, disagreements, references
from bayesgrad.testing.strategies import example_of
from checks.mutation.equivalent import explanation
from checks.mutation.mutate import Mutant, functions_of, living, mutants_of
from checks.registry import CHECKS, load_checks

CORE = (
    "_softmax",
    "_cross_entropy",
    "_head",
    "_attention",
    "_parameters",
    "gradients",
    "heads",
    "projections",
    "block",
    "masks",
    "dynamics",
    "em",
    "bayes",
    "fused",
    "_tiles",
    "torch",
)
"""The modules whose functions are mutated."""

EXAMPLES = 10
SOURCES = ("bayesgrad/*.py", "bayesgrad/testing/**/*.py", "checks/**/*.py")


@dataclass
class Bench:
    """One prepared check: a call that raises if something is wrong, and the functions that it runs through."""

    name: str
    judge: Callable[[], None]
    touches: set[int] = field(default_factory=set)

    def passes(self) -> bool:
        """Whether everything is as it should be; a warning or an exception is not."""
        try:
            with warnings.catch_warnings(), np.errstate(under="ignore"):
                warnings.simplefilter("error")
                self.judge()
        except Exception:
            return False
        return True


class Wrong(AssertionError):
    """A prepared check that disagrees."""


def _spread(strategy: Any, number: int, name: str) -> list[Any]:
    """Examples from all over a longer row of draws: Hypothesis varies the last one again and again."""
    drawn = example_of(strategy, 4 * number, derived_seed(f"mutants/{name}", 0))
    return drawn[len(drawn) // number - 1 :: len(drawn) // number][:number]


def _of_check(check: Check) -> Iterable[Bench]:
    for number, example in enumerate(_spread(check.given, EXAMPLES, f"{check.label}/{check.name}")):
        said = references(check, example)

        def judge(example: Any = example, said: Any = said) -> None:
            for _, name, worst in disagreements(check, example, check.of(example), said):
                if not worst.agrees:
                    raise Wrong(name)

        yield Bench(f"{check.label} ({check.name}) {number}", judge)


def _of_corners() -> Iterable[Bench]:
    from checks import check_corners, check_corners_of_prediction

    for name, strategy in CORNERS.items():
        for number, corner in enumerate(_spread(strategy, 12, name)):

            def judge(corner: Any = corner) -> None:
                for make in (np.asarray, torch.from_numpy):
                    if violations(corner, check_corners.results(corner, make)):
                        raise Wrong("corner")

            yield Bench(f"corner: {name} {number}", judge)
    for name, judge in {**vars(check_corners), **vars(check_corners_of_prediction)}.items():
        if name.startswith("check_") and name != "check_corner":
            yield Bench(f"corner: {name}", judge)


def _of_masks() -> Iterable[Bench]:
    from checks.check_masks import check_windows

    for align in ("upper-left", "lower-right"):
        yield Bench(f"masks {align}", lambda align=align: check_windows(align))  # type: ignore[misc]


def _of_backends() -> Iterable[Bench]:
    from checks.backend_calls import KINDS
    from checks.check_backends import judge_backend, judge_stacked

    for kind, of in KINDS.items():
        for number, example in enumerate(_spread(of.drawn, 5, kind)):
            one, two = of.calls(example), of.calls(of.turned(example))
            for backend in ("PyTorch", "array-api-strict"):
                yield Bench(f"{kind} in {backend} {number}", partial(judge_backend, one, backend))
            yield Bench(f"{kind} stacked {number}", partial(judge_stacked, one, two))


def _of_other_ways() -> Iterable[Bench]:
    from checks import check_other_ways as ways

    for name, judge, cases in (("sweep", ways.judge_sweep, ways.SWEEPS), ("node", ways.judge_node, ways.NODES)):
        yield from (Bench(f"other ways: {name} {n}", partial(judge, n)) for n in range(len(cases)))
    yield Bench("other ways: a module", ways.check_parameters_of_a_module)
    yield Bench("other ways: digits", ways.check_the_sweep_keeps_the_digits_of_a_saturated_row)


def benches(modules: dict[str, ModuleType]) -> list[Bench]:
    """All prepared checks, each with the functions of the core that it runs through."""
    load_checks()
    found = [bench for check in CHECKS for bench in _of_check(check)]
    found += [*_of_corners(), *_of_masks(), *_of_backends(), *_of_other_ways()]
    known = {
        function.__code__: id(function) for module in modules.values() for function in functions_of(module).values()
    }
    for bench in found:

        def watch(frame: Any, event: str, _: Any, bench: Bench = bench) -> None:
            if event == "call" and frame.f_code in known:
                bench.touches.add(known[frame.f_code])

        sys.setprofile(watch)
        try:
            bench.judge()
        finally:
            sys.setprofile(None)
    return found


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant: the check that killed it, or "" for a survivor."""

    mutant: Mutant
    killed_by: str
    tried: int


def hunt(names: Iterable[str] = CORE, progress: Callable[[int, int], None] | None = None) -> list[Verdict]:
    """Every mutant of the named modules against every check that runs through it."""
    modules = {name: importlib.import_module(f"bayesgrad.{name}") for name in names}
    prepared = benches(modules)
    everyone = [(module, mutant) for module in modules.values() for mutant in mutants_of(module)]
    verdicts: list[Verdict] = []
    last_killers: dict[int, Bench] = {}
    for number, (module, mutant) in enumerate(everyone):
        target = functions_of(module)[mutant.function]
        touching = [bench for bench in prepared if id(target) in bench.touches]
        # The check that killed the last mutant of this function is likely to kill this one too.
        killer = last_killers.get(id(target))
        order = ([killer] if killer else []) + [bench for bench in touching if bench is not killer]
        with living(module, mutant):
            found = next((bench for bench in order if not bench.passes()), None)
        if found is not None:
            last_killers[id(target)] = found
        verdicts.append(Verdict(mutant, found.name if found else "", len(touching)))
        if progress is not None:
            progress(number + 1, len(everyone))
    return verdicts


def sources() -> dict[str, str]:
    """Every file that can change the result, with its hash; taken before a hunt."""
    return files.sources(SOURCES)


def refuted(verdicts: Iterable[Verdict]) -> list[str]:
    """The mutants that are explained as equivalent and that a check killed all the same: the explanation is wrong.

    Either the function has changed and the key now means another mutant, or the reason never held.
    """
    return [
        f"{', '.join(map(str, verdict.mutant.key))} ({verdict.mutant.name}): killed by {verdict.killed_by}"
        for verdict in verdicts
        if verdict.killed_by and explanation(verdict.mutant.key)
    ]


def write(verdicts: list[Verdict], seconds: float, sources: dict[str, str]) -> dict[str, Any]:
    """Write what was found as evidence, with the hashes of its sources, and return it."""
    survivors = [
        {
            "mutant": verdict.mutant.name,
            "function": verdict.mutant.key[0],
            "operator": verdict.mutant.operator,
            "nth": verdict.mutant.nth,
            "line": verdict.mutant.line,
            "checks": verdict.tried,
            "equivalent": explanation(verdict.mutant.key),
        }
        for verdict in verdicts
        if not verdict.killed_by
    ]
    by_operator: dict[str, list[int]] = {}
    for verdict in verdicts:
        row = by_operator.setdefault(verdict.mutant.operator, [0, 0])
        row[0] += bool(verdict.killed_by)
        row[1] += 1
    data = {
        "killed": len(verdicts) - len(survivors),
        "total": len(verdicts),
        "explained": sum(bool(row["equivalent"]) for row in survivors),
        "operators": {name: {"killed": row[0], "total": row[1]} for name, row in sorted(by_operator.items())},
        "survivors": survivors,
        "refuted": refuted(verdicts),
    }
    versions = files.versions("numpy", "torch", "array-api-strict")
    files.write("code_mutants", data, sources=sources, patterns=SOURCES, versions=versions, seconds=seconds)
    return data


def summary(data: dict[str, Any]) -> list[str]:
    """What was found, as lines of text."""
    share = data["killed"] / max(data["total"], 1)
    lines = [
        f"code mutants: {data['killed']} of {data['total']} killed ({share:.1%}), "
        f"{len(data['survivors'])} survive, {data['explained']} of these explained as equivalent"
    ]
    lines += [f"  {name}: {row['killed']}/{row['total']}" for name, row in data["operators"].items()]
    for row in data["survivors"]:
        reason = row["equivalent"] or ("no check runs through it" if not row["checks"] else "NOT EXPLAINED")
        where = f"{row['operator']} {row['nth']}, line {row['line']}"
        lines.append(f"  survives: {row['mutant']}  [{where}; {reason}]")
    return lines + [f"  explained as equivalent, but {row}" for row in data["refuted"]]


def last() -> dict[str, Any] | None:
    """The last result, or None if there is none, or if a source changed since."""
    try:
        fragment = files.read("code_mutants")
    except files.BadEvidence:
        return None
    return None if fragment is None else fragment["results"]


def enough(data: dict[str, Any]) -> bool:
    """Whether at most one mutant in a hundred survives without an explanation, and no explanation is wrong."""
    return len(data["survivors"]) - data["explained"] <= TOLERATED * data["total"] and not data["refuted"]


def main(force: bool = True) -> int:
    """Hunt, write, print; unless ``force``, what was found before is printed if no source changed since."""
    from rich.console import Console
    from rich.progress import Progress

    found = None if force else last()
    if found is not None:
        print("\n".join([*summary(found), "nothing changed since this hunt; --force repeats it"]))
        return int(not enough(found))
    began, before = time.perf_counter(), sources()
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("mutants", total=None)
        verdicts = hunt(progress=lambda done, total: bar.update(task, completed=done, total=total))
    data = write(verdicts, time.perf_counter() - began, before)
    print("\n".join(summary(data)))
    return int(not enough(data))
