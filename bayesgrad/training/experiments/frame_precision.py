"""X3. Frame and precision: does routing settle before the values do?

On a task where routing forms (the bijection: keys without replacement, and at full size with replacement beside it),
and on the published sticky chain, where attention is still close to uniform and moving when training ends. Distances to
the final state along snapshots: see :mod:`bayesgrad.training.stability`. The laws are watched in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesgrad.training.claims import CONDITIONAL, NOT_SUPPORTED, NOT_TESTED, SUPPORTED, Judgement, criterion, judge
from bayesgrad.training.config import SGD, AdamW, Bijection, Config, StickyMarkov, Transformer
from bayesgrad.training.experiments.base import Done, Experiment, Size, arm_summary, by_arm
from bayesgrad.training.experiments.observations import feedback_figures, observations
from bayesgrad.training.runs import Job, Run
from bayesgrad.training.settling import settled_at
from bayesgrad.training.statistics import interval, sign_flip_p, summary

ID = "frame-precision"
ROUTED, REPLACED, PUBLISHED = "bijection", "bijection, with replacement", "sticky chain, SGD"
PARTS = ("attention", "values", "read_out")


def plan(size: Size, done: Done) -> list[Job]:
    quick = size == "quick"
    steps, symbols = (500, 5) if quick else (3000, 8)
    routed = Config(
        task=Bijection(values=symbols, keys=symbols, batch=64, held_out=512),
        model=Transformer(layers=2, width=32, heads=2) if quick else Transformer(layers=2, width=64, heads=4),
        update=AdamW(rate=0.005 if quick else 0.003, warm_up=steps // 20, cosine=True, clip=1.0),
        steps=steps,
        evaluate_every=steps // 5,
        checkpoint_every=steps // 5,
        snapshots=26 if quick else 51,
        laws=8,
    )
    published = Config(
        task=StickyMarkov(length=400 if quick else 2000, held_out=2),
        update=SGD(rate=0.01),
        gradients="fused",
        evaluate_every=500,
        checkpoint_every=500,
        snapshots=21,
        laws=200 if quick else 400,
    )
    arms = {ROUTED: routed}
    if not quick:
        arms[REPLACED] = replace(routed, task=replace(routed.task, protocol="with"))
    jobs = [Job(ID, arm, config, seed) for arm, config in arms.items() for seed in range(3 if quick else 5)]
    return jobs + [Job(ID, PUBLISHED, published, seed) for seed in range(3)]


def settled(run: Run) -> dict[str, float]:
    """Per part, the fraction of training after which it stays within a tenth of its first distance to the final
    state."""
    found = run.result["stability"]
    return {part: settled_at(found["step"], found["distance"][part]) for part in PARTS}


@criterion("attention-early-values-late")
def attention_early_values_late(runs: Sequence[Run]) -> Judgement:
    """Bijection task, seeds whose routing formed (normalised attention entropy below 0.9 at the end). Per seed and
    part, the fraction of training after which its distance to the final state stays within a tenth of what it was at
    the start: attention by mean row total variation, values by relative norm, read-out by principal angles. Effect:
    mean of the attention fraction minus the values fraction, paired by seed. Supported when the bootstrap 95%
    interval lies wholly below 0 against the values and against the read-out; conditional when only against one of
    them; otherwise not supported. Not tested when routing formed in fewer than 3 seeds."""
    formed = [run for run in runs if run.arm == ROUTED and run.metrics[-1]["attention_entropy"] < 0.9]
    if len(formed) < 3:
        return Judgement(NOT_TESTED)
    rows = [settled(run) for run in formed]
    against_values = [row["attention"] - row["values"] for row in rows]
    against_read_out = [row["attention"] - row["read_out"] for row in rows]
    below = sum(interval(differences)[1] < 0 for differences in (against_values, against_read_out))
    verdict = (NOT_SUPPORTED, CONDITIONAL, SUPPORTED)[below]
    detail = {
        "differences": against_values,
        "sign_flip_p": sign_flip_p(against_values),
        "against_read_out": {"differences": against_read_out, "interval": list(interval(against_read_out))},
    }
    unit = "fraction of training"
    return Judgement(verdict, float(np.mean(against_values)), interval(against_values), unit, detail)


def stability(members: Sequence[Run]) -> dict[str, Any]:
    """Distances along training, mean over seeds, and the settling fractions with intervals."""
    rows = [run.result["stability"] for run in members]
    fractions = [settled(run) for run in members]
    nulls = [row["attention_null"] for row in rows if row["attention_null"] is not None]
    return {
        "step": rows[0]["step"],
        "distance": {
            part: [round(value, 5) for value in np.mean([row["distance"][part] for row in rows], axis=0).tolist()]
            for part in PARTS
        },
        "kl_bits": [round(value, 6) for value in np.mean([row["kl_bits"] for row in rows], axis=0).tolist()],
        "attention_null": float(np.mean(nulls)) if nulls else None,
        "settled_at": {part: summary([row[part] for row in fractions], "fraction of training") for part in PARTS},
        "attention_entropy_at_end": summary(
            [run.metrics[-1]["attention_entropy"] for run in members], "share of log(visible keys)"
        ),
    }


def _replaced(runs: Sequence[Run]) -> dict[str, Any]:
    """The protocol with replacement, judged by the same criterion."""
    others = [Run(replace(run.job, arm=ROUTED), run.result, run.metrics) for run in runs if run.arm == REPLACED]
    if not others:
        return {}
    row = judge("attention-early-values-late", others)
    return {key: row[key] for key in ("id", "verdict", "effect", "interval", "unit", "detail")}


def summarise(size: Size, runs: Sequence[Run]) -> dict[str, Any]:
    arms = by_arm(runs)
    last = {arm: members[0].result for arm, members in arms.items()}
    return {
        "arms": {arm: arm_summary(members) for arm, members in arms.items()},
        "stability": {arm: stability(members) for arm, members in arms.items()},
        "with_replacement": _replaced(runs),
        "by_position": {arm: result["by_position"] for arm, result in last.items() if "by_position" in result},
        "facts": {arm: result["facts"] for arm, result in last.items()},
        "results": observations(runs),
        "feedback_by_arm": {arm: feedback_figures(members) for arm, members in arms.items()},
        "claims": [judge(claim, runs) for claim in FRAME_PRECISION.claims],
    }


FRAME_PRECISION = Experiment(
    id=ID,
    code="X3",
    title="Frame and precision",
    question="Does routing settle early while the values keep refining?",
    plan=plan,
    summarise=summarise,
    claims=("attention-early-values-late",),
    labels=("dynamics.frame-precision",),
    modules=("bayesgrad.training.loop",),
)
