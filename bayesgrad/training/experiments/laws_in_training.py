"""X1. The laws hold while training: closed forms against autograd, predicted changes against measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayesgrad.training.claims import judge
from bayesgrad.training.config import SGD, AdamW, Alternating, Config, Natural, StickyMarkov
from bayesgrad.training.experiments.base import Done, Experiment, Size, arm_summary, by_arm
from bayesgrad.training.experiments.observations import feedback_figures, observations
from bayesgrad.training.runs import Job, Run

QUICK = {
    "SGD": SGD(rate=0.1),
    "EM-like (W_V x 10)": SGD(rate=0.02, factors={"W_V": 10.0}),
    "AdamW": AdamW(rate=0.001),
}
FULL = QUICK | {
    "momentum": SGD(rate=0.02, momentum=0.9),
    "natural routing": Natural(rate=0.1),
    "alternating": Alternating(rate=0.1),
}
CLAIMS = ("routing-law", "value-law", "positive-feedback", "em-structure")


def plan(size: Size, done: Done) -> list[Job]:
    length, steps, every, seeds = (200, 300, 60, 3) if size == "quick" else (300, 300, 30, 5)
    return [
        Job("laws-in-training", arm, _config(length, steps, every, update), seed)
        for seed in range(seeds)
        for arm, update in (QUICK if size == "quick" else FULL).items()
    ]


def _config(length: int, steps: int, every: int, update: Any) -> Config:
    return Config(
        task=StickyMarkov(length=length, held_out=2),
        update=update,
        steps=steps,
        dtype="float64",
        gradients="closed",
        evaluate_every=every,
        laws=length - 1,
    )


def summarise(size: Size, runs: Sequence[Run]) -> dict[str, Any]:
    example: dict[str, Any] = next((row["laws"]["changes"] for row in runs[0].metrics if "laws" in row), {})
    return {
        "arms": {arm: arm_summary(members) for arm, members in by_arm(runs).items()},
        "results": observations(runs),
        "feedback": feedback_figures(runs),
        "residuals": example,
        "claims": [judge(claim, runs) for claim in CLAIMS],
    }


LAWS_IN_TRAINING = Experiment(
    id="laws-in-training",
    code="X1",
    title="The laws hold while training",
    question="Do the closed forms predict, to first order, what a real step changes?",
    plan=plan,
    summarise=summarise,
    claims=CLAIMS,
    labels=(
        "loss.logit-gradient", "attention.routing-law", "attention.value-law", "attention.query-law",
        "attention.key-law", "attention.projection-laws", "dynamics.loss-decrease", "dynamics.value-step",
        "dynamics.score-step", "dynamics.feedback", "dynamics.feedback-full", "em.proximal-m-step",
    ),
    modules=("bayesgrad.training.loop",),
)  # fmt: skip
