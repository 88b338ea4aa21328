"""Automatic mutants of the shipped core against the checks: what the checks would not notice.

Each check is prepared once: a few examples with their references. A mutant is *killed* by the first check that touches
the mutated function and then disagrees with an oracle, misses an exact corner, or raises; it *survives* if all of them
pass. The denominator is every mutant that was generated. A survivor that cannot change any result in exact arithmetic
within the checked domain is explained by a row of :data:`EQUIVALENT`; the others are shown as they are.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from bayesgrad.testing.corners import CORNERS, violations
from bayesgrad.testing.engine import Check, derived_seed, disagreements, references
from bayesgrad.testing.mutate import Mutant, functions_of, living, mutants_of
from bayesgrad.testing.strategies import example_of
from checks.registry import CHECKS
from derivations import evidence as files

CORE = (
    "softmax",
    "cross_entropy",
    "attention",
    "gradients",
    "heads",
    "projections",
    "block",
    "masks",
    "dynamics",
    "em",
    "bayes",
)
"""The modules whose functions are mutated."""

EXAMPLES = 10


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
    from checks.calls import KINDS
    from checks.check_backends import judge_backend, judge_stacked

    for kind, of in KINDS.items():
        for number, example in enumerate(_spread(of.drawn, 5, kind)):
            one, two = of.calls(example), of.calls(of.turned(example))
            for backend in ("PyTorch", "array-api-strict"):
                yield Bench(f"{kind} in {backend} {number}", partial(judge_backend, one, backend))
            yield Bench(f"{kind} stacked {number}", partial(judge_stacked, one, two))


def load_checks() -> None:
    """Import every file of checks, so that the registry is complete."""
    for path in sorted(set(Path(__file__).parent.glob("check_*.py")) - {Path(__file__).parent / "check_mutants.py"}):
        importlib.import_module(f"checks.{path.stem}")


def benches(modules: dict[str, ModuleType]) -> list[Bench]:
    """All prepared checks, each with the functions of the core that it runs through."""
    load_checks()
    found = [bench for check in CHECKS for bench in _of_check(check)]
    found += [*_of_corners(), *_of_masks(), *_of_backends()]
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


@dataclass(frozen=True)
class Explained:
    """Why a mutant cannot change a result: ``function``, and where given what stood there ``before`` and ``after``."""

    function: str
    before: str
    after: str
    reason: str

    def covers(self, name: str) -> bool:
        """Whether this explains the mutant of that name."""
        where, _, change = name.partition(": ")
        before, _, after = change.partition(" -> ")
        return where == self.function and self.before in ("", before) and self.after in ("", after)


_NEGATIVE = "axes counted from the end instead of from the start: the same axes"
_NOTHING = "it fills an array that has no entries"
_SQUARED = "only the square of the difference is used"
_SHIFT = "a common shift of the scores changes nothing (softmax.shift-invariance)"
_CHECKS = "it only chooses what an argument check looks at"

_SYMMETRIC = "the distance is symmetric"

EQUIVALENT: tuple[Explained, ...] = (
    Explained("bayes.kl_divergence", "total < 0", "total <= 0", "a total of 0 is replaced by 0"),
    Explained("bayes.kl_divergence", "xp.ones_like", "xp.zeros_like", "it stands where another branch is taken"),
    Explained("bayes.total_variation", "_two(p, q, validate)", "_two(q, p, validate)", _SYMMETRIC),
    Explained("bayes.total_variation", "p_ - q_", "q_ - p_", _SYMMETRIC),
    Explained("bayes.bijection_predictive", "xp.ones", "xp.zeros", "only its dtype is used"),
    Explained("bayes._forward", "xp.zeros_like", "xp.ones_like", _NOTHING),
    *(
        Explained(
            f"bayes.{name}", f"_forward({given}, validate, '{of}')", f"_forward({given}, '{of}', validate)", _CHECKS
        )
        for name, given, of in (
            ("hmm_filter", "xp, pi, T, likelihood", "observations"),
            ("sticky_markov_predictive", "xp, pi, P, likelihood", "x"),
        )
    ),
    Explained(
        "bayes.sticky_markov_predictive",
        "xp.expand_dims(wide_x, axis=-2) - xp.expand_dims(mu, axis=-3)",
        "xp.expand_dims(mu, axis=-3) - xp.expand_dims(wide_x, axis=-2)",
        _SQUARED,
    ),
    Explained("cross_entropy.cross_entropy", "xp.zeros_like", "xp.ones_like", "it is multiplied by a target mass of 0"),
    *(
        Explained("dynamics._visible_range", before, after, "without keys the bound has no entries to put it into")
        for before, after in (
            ("xp.sum(b, axis=-1, keepdims=True)", "xp.sum(b, axis=-2, keepdims=True)"),
            ("-1", "1"),
            ("1", "0"),
        )
    ),
    Explained("softmax.weights_of", "xp.zeros_like", "xp.ones_like", _NOTHING),
    Explained("softmax.log_weights_of", "xp.zeros_like", "xp.ones_like", _NOTHING),
    Explained(
        "softmax.weights_of",
        "weights.device.type == 'cpu'",
        "weights.device.type != 'cpu'",
        "both branches give the same weights; which is quicker depends on the device",
    ),
    Explained("softmax.fisher", "-1", "1", "the axis is added to a vector: its last place is also its second"),
    Explained("cross_entropy.target_mass", "1", "2", "with one class probabilities and gradients do not depend on it"),
    Explained(
        "cross_entropy.target_mass", "1", "0", "without classes or positions it divides an array without entries"
    ),
    Explained(
        "cross_entropy.cross_entropy", "0", "1", "a row without target mass has gradient 0 from the formula as well"
    ),
    Explained(
        "attention.centre_of", "1", "2", "any centre of the values gives the same results, and with m = 1 half is one"
    ),
    Explained(
        "attention._scores_and_weights",
        "None if not _arrays.symbolic(xp) else head.mask",
        "head.mask if not _arrays.symbolic(xp) else None",
        "the scores of hidden pairs are -inf already, so that the mask changes nothing a second time",
    ),
    Explained("gradients.mean_compatibility", "", "_arrays.widen(xp, context, u)", "the product of u and g commutes"),
    Explained(
        "gradients.backward", "u * made.relative", "u", "the mean is taken out a second time: it costs digits only"
    ),
    *(
        Explained(f"heads.{name}", f"axes - {number}", f"-{number}", _NEGATIVE)
        for name in ("split_heads", "merge_heads")
        for number in (1, 2, 3)
    ),
    Explained("projections.over_positions", "", "len(product.shape) >= 2", "a sum over no axes is the array itself"),
    *(
        Explained(
            "projections.projection_gradients",
            f"{given} if {test} else {{}}",
            f"{{}} if {test} else {given}",
            _CHECKS,
        )
        for given, test in (
            ("{'keys': (keys, 'n d_k'), 'values': (values, 'n d_v')}", "y is None"),
            ("{'y': (y, 'm d_y'), 'keys': (keys, 'm d_k'), 'values': (values, 'm d_v')}", "y is not None"),
        )
    ),
    Explained("block.attention_block_gradients", "True", "False", _CHECKS),
    Explained("dynamics.loss_decrease", "0", "1", "which gradient gives the sum its dtype: all have the same"),
    Explained("dynamics.loss_change", "", "_arrays.widen(xp, step, gradient)", "gradient times step commutes"),
    Explained(
        "em.gaussian_mixture_responsibilities",
        "xp.expand_dims(wide_q, axis=-2) - xp.expand_dims(wide_k, axis=-3)",
        "xp.expand_dims(wide_k, axis=-3) - xp.expand_dims(wide_q, axis=-2)",
        _SQUARED,
    ),
    Explained(
        "em.not_variational_witness", "np.ones", "np.zeros", "queries of 0 and of 1 have the same scores on keys of 0"
    ),
    Explained("em.not_variational_witness", "np.zeros", "np.ones", _SHIFT),
    Explained(
        "em.not_variational_witness",
        "v - eta * got.values",
        "eta * got.values - v",
        "the two classes that are not the target change roles: the losses are symmetric in them",
    ),
    Explained("em.not_variational_witness", "s - eta * got.scores", "-(eta * got.scores)", "the scores s are 0"),
    Explained("em.not_variational_witness", "s - eta * got.weights", "-(eta * got.weights)", "the scores s are 0"),
)
"""Survivors that are no defects of the checks, each with its reason."""


def explanation(name: str) -> str:
    """Why the mutant of that name is equivalent, or nothing."""
    return next((row.reason for row in EQUIVALENT if row.covers(name)), "")


def sources() -> dict[str, str]:
    """Every file that can change the result, with its hash; taken before a hunt."""
    return files.sources(("bayesgrad/*.py", "bayesgrad/testing/**/*.py", "checks/**/*.py"))


def write(verdicts: list[Verdict], seconds: float, sources: dict[str, str]) -> dict[str, Any]:
    """Write what was found as evidence, with the hashes of its sources, and return it."""
    survivors = [
        {
            "mutant": verdict.mutant.name,
            "line": verdict.mutant.line,
            "operator": verdict.mutant.operator,
            "checks": verdict.tried,
            "equivalent": explanation(verdict.mutant.name),
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
    }
    versions = files.versions("numpy", "torch", "array-api-strict")
    files.write("mutants", data, sources=sources, versions=versions, seconds=seconds)
    return data


def summary(data: dict[str, Any]) -> list[str]:
    """What was found, as lines of text."""
    share = data["killed"] / max(data["total"], 1)
    lines = [
        f"automatic mutants: {data['killed']} of {data['total']} killed ({share:.1%}), "
        f"{len(data['survivors'])} survive, {data['explained']} of these explained as equivalent"
    ]
    lines += [f"  {name}: {row['killed']}/{row['total']}" for name, row in data["operators"].items()]
    for row in data["survivors"]:
        reason = row["equivalent"] or ("no check runs through it" if not row["checks"] else "NOT EXPLAINED")
        lines.append(f"  survives: {row['mutant']}  [{row['operator']}, line {row['line']}; {reason}]")
    return lines


def last() -> dict[str, Any] | None:
    """The last result, or None if there is none, or if a source changed since."""
    try:
        fragment = files.read("mutants")
    except files.DamagedEvidence:
        return None
    return None if fragment is None else fragment["results"]


def enough(data: dict[str, Any]) -> bool:
    """Whether at most one mutant in twenty survives without an explanation."""
    return len(data["survivors"]) - data["explained"] <= 0.05 * data["total"]


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
