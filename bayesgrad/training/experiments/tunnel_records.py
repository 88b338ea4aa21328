"""What the wind tunnels put into their records: curves by position, traces, calibration, memory, ranges; by arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesgrad.training.experiments.base import arm_summary, by_arm
from bayesgrad.training.experiments.tuning import rows
from bayesgrad.training.runs import Run
from bayesgrad.training.statistics import interval, summary

UNINFORMED = ("uniform", "stationary")
SHARE = 0.9
FAR = 4.5
"""Standard errors from zero at which an observation contradicts its law (a chance of 1 in 100,000)."""
UNITS = {
    "loss_nats": "nats",
    "kl_bits": "bits",
    "entropy_mae_bits": "bits",
    "total_variation": "probability",
    "excluded": "probability",
}
SHOWN_FLOORS = ("uniform", "stationary", "emission", "window 1", "window 2", "window 3", "window 5")


def uninformed_kl(run: Run) -> float:
    """KL in bits of the best predictor that looks at nothing the run's task has shown."""
    floors = run.result["facts"]["floors"]
    return min(float(floors[name]["kl_bits"]) for name in UNINFORMED if name in floors)


def final_kl(run: Run) -> float:
    """Held-out KL(Bayes || model) in bits within the trained range."""
    kl: float = run.result["ranges"]["in_range"]["kl_bits"]
    return kl


def is_trained(runs: Sequence[Run]) -> bool:
    """Whether every run left the uninformed floor: KL below nine tenths of it."""
    return bool(runs) and all(final_kl(run) < SHARE * uninformed_kl(run) for run in runs)


def trained(runs: Sequence[Run]) -> dict[str, Any]:
    worst = max(final_kl(run) / uninformed_kl(run) for run in runs)
    verdict = is_trained(runs)
    reason = f"the worst seed has {worst:.3g} of the uninformed floor's KL, {SHARE} counts as trained"
    return {"trained": verdict, "reason": reason}


def _mean(curves: Sequence[Sequence[float]], digits: int = 6) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in np.mean(np.asarray(curves, float), axis=0)]


def by_position(members: Sequence[Run], *, floors: bool) -> dict[str, Any]:
    """Mean curves of an arm over its seeds, with those of the floors where asked for."""
    rows = [run.result["by_position"] for run in members]
    first = rows[0]
    names = ("exact_entropy_bits", "model_entropy_bits", "entropy_mae_bits", "kl_bits", "total_variation", "excluded")
    shown = [name for name in SHOWN_FLOORS if name in first["floors"]] if floors else []
    return {
        "position": first["position"],
        "trained_to": first["trained_to"],
        "uniform_bits": first["uniform_bits"],
        **{name: _mean([row[name] for row in rows]) for name in names},
        "floors": {
            name: {key: _mean([row["floors"][name][key] for row in rows], 4) for key in ("entropy_mae_bits", "kl_bits")}
            for name in shown
        },
    }


def ranges(members: Sequence[Run]) -> dict[str, Any]:
    """Every metric within the trained range and beyond it, each with its interval over seeds."""
    out: dict[str, Any] = {}
    for part in members[0].result["ranges"]:
        rows = [run.result["ranges"][part] for run in members]
        out[part] = {name: summary([row[name] for row in rows], unit) for name, unit in UNITS.items()}
    return out


def memory(members: Sequence[Run]) -> dict[str, Any] | None:
    """The first seed's table of windows, with the equivalent memory of every seed."""
    rows = [run.result["memory"] for run in members]
    if rows[0] is None:
        return None
    return rows[0] | {
        "kl_bits": float(np.mean([row["kl_bits"] for row in rows])),
        "equivalent_memory": float(np.mean([row["equivalent_memory"] for row in rows])),
        "at_least": any(row["at_least"] for row in rows),
        "interval": list(interval([row["equivalent_memory"] for row in rows])),
        "per_seed": [row["equivalent_memory"] for row in rows],
    }


def followed(members: Sequence[Run]) -> dict[str, Any]:
    """Sequence by sequence: quantiles of the first seed, and the share of sequences followed for every seed."""
    first = members[0].result["by_sequence"]
    shares = [run.result["by_sequence"]["share_followed"] for run in members]
    return first | {"share_followed": None if None in shares else summary(shares, "share of held-out sequences")}


def observed(runs: Sequence[Run], labels: Sequence[str]) -> dict[str, Any]:
    """The exact predictive against what came: mean excess cross-entropy must equal KL within sampling error."""
    scores = [run.result["excess"]["z"] for run in runs]
    worst = max(scores, key=abs)
    row = {
        "verdict": "confirmed" if abs(worst) < FAR else "not confirmed",
        "compared": "excess cross-entropy over the exact predictive on held-out outcomes, against KL(Bayes || model)",
        "worst": worst,
        "unit": f"standard errors ({FAR} contradicts)",
        "runs": len(scores),
    }
    return dict.fromkeys(labels, row)


def body(runs: Sequence[Run], labels: Sequence[str]) -> dict[str, Any]:
    """What both tunnels put into their records."""
    arms = by_arm(runs)
    tables: dict[str, Any] = {arm: arm_summary(members) for arm, members in arms.items()}
    for arm, members in arms.items():
        tables[arm]["model"] = members[0].job.config.model.kind
        tables[arm]["seconds"] = round(float(np.mean([run.result["seconds"] for run in members])), 1)
    tasks: set[str] = set()
    curves = {}
    for arm, members in arms.items():
        task = str(members[0].job.config.task)
        curves[arm] = by_position(members, floors=task not in tasks)
        tasks.add(task)
    memories = {arm: memory(members) for arm, members in arms.items()}
    return {
        "arms": tables,
        "by_position": curves,
        "ranges": {arm: ranges(members) for arm, members in arms.items()},
        "by_sequence": {arm: followed(members) for arm, members in arms.items()},
        "traces": {arm: members[0].result["traces"] for arm, members in arms.items()},
        "calibration": {arm: members[0].result["calibration"] for arm, members in arms.items()},
        "memory": {arm: row for arm, row in memories.items() if row is not None},
        "trained": {arm: trained(members) for arm, members in arms.items()},
        "floors": {arm: members[0].result["facts"]["floors"] for arm, members in arms.items()},
        "facts": next(iter(arms.values()))[0].result["facts"],
        "tuning": rows(runs),
        "results": observed([run for run in runs if run.job.role == "final"], labels),
    }
