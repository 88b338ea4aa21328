"""Do other seeds change a verdict? The table of a run with ``--seeds N``: one line a seed, and what differs.

The verdict of a test is whether it passed; it differs where the same test passed at one seed and failed at another.
That a law fails at every seed is no difference, and fails the run all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from checks import evidence

_PARAMETERS = re.compile(r"\[(.*)\]$")


def split(node: str) -> tuple[str, int | None]:
    """The test without its seed, and the seed; None for a test that draws nothing."""
    found = _PARAMETERS.search(node)
    parts = found[1].split("-") if found else []
    seeds = [part for part in parts if part.startswith("seed ")]
    if found is None or not seeds:
        return node, None
    rest = "-".join(part for part in parts if part not in seeds)
    return node[: found.start()] + (f"[{rest}]" if rest else ""), int(seeds[0].removeprefix("seed "))


def changes(outcomes: Mapping[str, str]) -> dict[str, dict[int, bool]]:
    """test -> whether it passed by seed, for the tests whose verdict is not the same at every seed."""
    by_test: dict[str, dict[int, bool]] = {}
    for node, outcome in outcomes.items():
        test, seed = split(node)
        if seed is not None:
            by_test.setdefault(test, {})[seed] = outcome == "passed"
    return {test: dict(sorted(found.items())) for test, found in by_test.items() if len(set(found.values())) > 1}


def table(outcomes: Mapping[str, str], tallies: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line a seed, and one for each test whose verdict is not the same at every seed."""
    of_seed: dict[int, list[bool]] = {}
    for node, outcome in outcomes.items():
        seed = split(node)[1]
        if seed is not None:
            of_seed.setdefault(seed, []).append(outcome == "passed")
    drawn: dict[int, list[Mapping[str, Any]]] = {}
    for tally in tallies:
        drawn.setdefault(tally["seed"], []).append(tally)
    lines = ["seed   tests passed   examples  vacuous   worst error   wrong laws rejected"]
    for seed, verdict in sorted(of_seed.items()):
        mine = drawn.get(seed, [])
        laws = evidence.rejections(mine).values()
        rejected, total = (sum(law[name] for law in laws) for name in ("rejected", "total"))
        worst = max((evidence.finite(tally["worst_in_tolerance"]) for tally in mine), default=0.0)
        examples, vacuous = (sum(tally[name] for tally in mine) for name in ("examples", "vacuous"))
        share, wrong = f"{sum(verdict)} of {len(verdict)}", f"{rejected} of {total}"
        lines.append(f"{seed:4}   {share:12}   {examples:8}  {vacuous:7}   {worst:8.2g} tol   {wrong}")
    changed = changes(outcomes)
    for test, found in changed.items():
        failed = ", ".join(str(seed) for seed, passed in found.items() if not passed)
        lines.append(f"VERDICT CHANGES  {test}: fails at {failed}")
    count = len({split(node)[0] for node in outcomes if split(node)[1] is not None})
    lines.append(f"{len(changed)} of {count} verdicts change over {len(of_seed)} seeds")
    return lines
