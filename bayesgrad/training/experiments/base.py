"""What an experiment is, and the pieces that several share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bayesgrad.training.runs import Job, Run
from bayesgrad.training.statistics import summary

Size = Literal["quick", "full"]
SIZES: tuple[Size, ...] = ("quick", "full")

Done = Mapping[str, Run]
"""Finished runs by ``job.name``."""


@dataclass(frozen=True)
class Experiment:
    """``plan(size, done)`` names the runs, given those that are done (a later stage may depend on an earlier one: it is
    asked again until it names nothing new); ``summarise(size, runs)`` fills the record from the runs."""

    id: str
    code: str
    title: str
    question: str
    plan: Callable[[Size, Done], list[Job]]
    summarise: Callable[[Size, Sequence[Run]], dict[str, Any]]
    claims: tuple[str, ...]
    labels: tuple[str, ...]
    modules: tuple[str, ...]
    """Modules whose sources (with all that they import) decide a run."""


def by_arm(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Finished runs of the final stage, by arm, each list in the order of seeds."""
    arms: dict[str, list[Run]] = {}
    for run in runs:
        if run.job.role == "final":
            arms.setdefault(run.arm, []).append(run)
    return {arm: sorted(members, key=lambda run: run.seed) for arm, members in arms.items()}


def thinned(steps: Sequence[int], points: int = 60) -> list[int]:
    """At most about ``points`` of the step numbers, the first and the last among them."""
    keep = np.unique(np.linspace(0, len(steps) - 1, min(points, len(steps))).round().astype(int))
    return [int(steps[index]) for index in keep]


def curve(members: Sequence[Run], digits: int = 5) -> dict[str, Any]:
    """Training loss over steps: mean, lowest and highest over the seeds, in nats, thinned."""
    losses = np.asarray([run.losses for run in members])
    steps = thinned(range(losses.shape[1]))
    at = losses[:, steps]
    return {
        "unit": "nats",
        "step": steps,
        "mean": [round(value, digits) for value in at.mean(0).tolist()],
        "low": [round(value, digits) for value in at.min(0).tolist()],
        "high": [round(value, digits) for value in at.max(0).tolist()],
    }


UNITS = {
    "held_out_loss_nats": "nats",
    "held_out_kl_bits": "bits",
    "held_out_entropy_mae_bits": "bits",
    "held_out_total_variation": "probability",
    "held_out_excluded": "probability",
    "attention_entropy": "share of log(visible keys)",
}


def evaluation_curves(members: Sequence[Run], digits: int = 6) -> dict[str, Any]:
    """Mean over seeds of what was measured at the evaluations."""
    rows = [run.evaluations() for run in members]
    out: dict[str, Any] = {"step": [row["step"] for row in rows[0]]}
    for name in UNITS:
        if name in rows[0][0]:
            mean = np.mean([[row[name] for row in run] for run in rows], axis=0)
            out[name] = [round(value, digits) for value in mean.tolist()]
    return out


def arm_summary(members: Sequence[Run]) -> dict[str, Any]:
    """Final training loss and held-out metrics of one arm, with intervals over seeds."""
    last = [run.metrics[-1] for run in members]
    out: dict[str, Any] = {
        "config": members[0].job.config.as_json(),
        "config_hash": members[0].job.config.hash,
        "seeds": [run.seed for run in members],
        "parameters": members[0].result.get("parameters"),
        "steps": members[0].job.config.steps,
        "passes": last[0]["passes"],
        "final": {"loss": summary([row["loss"] for row in last], "nats, training sequence")},
        "curve": curve(members),
        "evaluations": evaluation_curves(members),
    }
    for name, unit in UNITS.items():
        if name in last[0]:
            out["final"][name] = summary([row[name] for row in last], unit)
    return out
