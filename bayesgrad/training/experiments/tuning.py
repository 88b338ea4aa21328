"""Every arm gets the same search: a ladder of rates in factors of two, on a seed of its own, that grows until its best
rate is not at an end.

The measure is held-out KL(Bayes || model) in bits after the last step; a run that diverges counts as infinite, so that
the ladder finds each arm's largest stable rate by itself. Final runs take the best rate on seeds 0, 1, 2, ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bayesgrad.training.config import Config
from bayesgrad.training.experiments.base import Done
from bayesgrad.training.runs import Job, Run

SEED = 1000
START = (0.002, 0.004, 0.008)
LOWEST, HIGHEST = 0.00025, 0.064


def held_out_kl(run: Run) -> float:
    """Held-out KL(Bayes || model) in bits after the last step; infinite for a run that diverged."""
    if run.result["state"] != "finished":
        return float("inf")
    kl: float = run.metrics[-1]["held_out_kl_bits"]
    return kl


def _search(make: Callable[[float], Job], done: Done) -> tuple[list[Job], float | None]:
    """The tuning runs so far, and the best rate once the ladder has ended."""
    rates = list(START)
    while True:
        jobs = [make(rate) for rate in rates]
        runs = [done.get(job.name) for job in jobs]
        found = [held_out_kl(run) for run in runs if run is not None]
        if len(found) < len(jobs):
            return jobs, None
        best = min(range(len(rates)), key=found.__getitem__)
        if best == len(rates) - 1 and rates[-1] < HIGHEST:
            rates.append(2 * rates[-1])
        elif best == 0 and rates[0] > LOWEST:
            rates.insert(0, rates[0] / 2)
        else:
            return jobs, rates[best]


def tuned(
    experiment: str, arms: Mapping[str, Callable[[float], Config]], seeds: int, done: Done
) -> tuple[list[Job], dict[str, float]]:
    """The runs of the search and, for each arm whose search has ended, its final runs; the best rates so far."""
    jobs: list[Job] = []
    best: dict[str, float] = {}
    for arm, make in arms.items():

        def tuning(rate: float, arm: str = arm, make: Callable[[float], Config] = make) -> Job:
            return Job(experiment, arm, make(rate), SEED, "tuning")

        tried, rate = _search(tuning, done)
        jobs += tried
        if rate is not None:
            best[arm] = rate
            jobs += [Job(experiment, arm, make(rate), seed) for seed in range(seeds)]
    return jobs, best


def rows(runs: Sequence[Run], score: Callable[[Run], float] = held_out_kl) -> list[dict[str, Any]]:
    """What the tuning runs gave: arm, update, seed, held-out KL in bits (null where ``score`` is infinite)."""
    return [
        {
            "arm": run.arm,
            "update": run.job.config.as_json()["update"],
            "seed": run.seed,
            "held_out_kl_bits": round(score(run), 6),
        }
        for run in runs
        if run.job.role == "tuning"
    ]
