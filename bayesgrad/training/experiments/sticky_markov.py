"""X2. Sticky Markov chain: does a larger rate on the values alone converge faster, and is it the values?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesgrad.training.claims import CONDITIONAL, NOT_SUPPORTED, NOT_TESTED, SUPPORTED, Judgement, criterion, judge
from bayesgrad.training.config import SGD, Config, StickyMarkov
from bayesgrad.training.experiments.base import Done, Experiment, Size, arm_summary, by_arm
from bayesgrad.training.experiments.observations import feedback_figures, observations
from bayesgrad.training.runs import Job, Run
from bayesgrad.training.statistics import first_at_most, interval, sign_flip_p

PLAIN, VALUES, READ_OUT, ALL = "SGD", "EM-like (W_V x 10)", "W_O x 10", "all x 10"
PUBLISHED = {
    PLAIN: SGD(rate=0.01),
    VALUES: SGD(rate=0.01, factors={"W_V": 10.0}),
    READ_OUT: SGD(rate=0.01, factors={"W_O": 10.0}),
    ALL: SGD(rate=0.1),
}


def plan(size: Size, done: Done) -> list[Job]:
    length, seeds, every = (500, 5, 500) if size == "quick" else (2000, 5, 100)
    return [
        Job(
            "sticky-markov",
            arm,
            Config(
                task=StickyMarkov(length=length, held_out=2 if size == "quick" else 4),
                update=update,
                gradients="kernel",
                evaluate_every=every,
                checkpoint_every=500,
                laws=200 if size == "quick" else 400,
            ),
            seed,
        )
        for seed in range(seeds)
        for arm, update in PUBLISHED.items()
    ]


def _paired(runs: Sequence[Run], left: str, right: str) -> list[tuple[Run, Run]]:
    arms = by_arm(runs)
    rights = {run.seed: run for run in arms.get(right, [])}
    return [(run, rights[run.seed]) for run in arms.get(left, []) if run.seed in rights]


@criterion("em-like-faster")
def em_like_faster(runs: Sequence[Run]) -> Judgement:
    """Published setting, both arms from the same start and on the same sequence. Per seed: the first step at which the
    training loss of the arm with ten times the rate on W_V is at or below the SGD arm's loss after its last step, as a
    share of all steps (1 when it never is). Effect: the speed-up, 1 / mean share. Supported when the bootstrap 95%
    interval of the speed-up over seeds lies above 2; conditional when it lies above 1; otherwise not supported."""
    shares = []
    for em, sgd in _paired(runs, VALUES, PLAIN):
        step = first_at_most(em.losses, sgd.losses[-1])
        shares.append(1.0 if step is None else step / (len(sgd.losses) - 1))
    if not shares:
        return Judgement(NOT_TESTED)
    low_share, high_share = interval(shares)
    low, high = 1 / high_share, 1 / low_share
    verdict = SUPPORTED if low > 2 else CONDITIONAL if low > 1 else NOT_SUPPORTED
    steps = [share * (len(runs[0].losses) - 1) for share in shares]
    return Judgement(verdict, float(1 / np.mean(shares)), (low, high), "times fewer steps", {"steps": steps})


@criterion("em-effect-specific-to-values")
def em_effect_specific_to_values(runs: Sequence[Run]) -> Judgement:
    """Published setting: the arm with ten times the rate on W_V against the control with ten times the rate on W_O,
    paired by seed. Effect: mean difference of the training loss after the last step (W_V arm minus W_O arm).
    Supported when the bootstrap 95% interval over seeds lies wholly below 0; otherwise not supported."""
    differences = [values.losses[-1] - read_out.losses[-1] for values, read_out in _paired(runs, VALUES, READ_OUT)]
    if not differences:
        return Judgement(NOT_TESTED)
    low, high = interval(differences)
    verdict = SUPPORTED if high < 0 else NOT_SUPPORTED
    detail = {"differences": differences, "sign_flip_p": sign_flip_p(differences)}
    return Judgement(verdict, float(np.mean(differences)), (low, high), "nats, paired", detail)


def order(runs: Sequence[Run]) -> dict[str, Any]:
    """Final training losses of the four arms, worst first, and whether SGD is worst and all x 10 best in the mean."""
    means = {arm: float(np.mean([run.losses[-1] for run in members])) for arm, members in by_arm(runs).items()}
    ranked = sorted((arm for arm in means if arm in PUBLISHED), key=lambda arm: -means[arm])
    expected = len(ranked) == len(PUBLISHED) and ranked[0] == PLAIN and ranked[-1] == ALL
    return {"worst_first": ranked, "mean_loss_nats": means, "sgd_worst_and_all_best": expected}


def summarise(size: Size, runs: Sequence[Run]) -> dict[str, Any]:
    example = runs[0].result
    return {
        "arms": {arm: arm_summary(members) for arm, members in by_arm(runs).items()},
        "order": order(runs),
        "facts": example["facts"],
        "heat_map": {"arm": runs[0].arm, "seed": runs[0].seed} | example["heat_map"],
        "values": {arm: members[0].result["values"] for arm, members in by_arm(runs).items()},
        "results": observations(runs),
        "feedback": feedback_figures(runs),
        "claims": [judge(claim, runs) for claim in STICKY_MARKOV.claims],
    }


STICKY_MARKOV = Experiment(
    id="sticky-markov",
    code="X2",
    title="Sticky Markov chain",
    question="Does a rate ten times larger on W_V alone converge faster than SGD, and is that due to the values?",
    plan=plan,
    summarise=summarise,
    claims=("em-like-faster", "em-effect-specific-to-values"),
    labels=("bayes.sticky-markov",),
    modules=("bayesgrad.training.loop",),
)
