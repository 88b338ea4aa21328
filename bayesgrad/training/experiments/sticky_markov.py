"""X2. Sticky Markov chain: does a larger rate on the values alone converge faster, and is it the values?

Two protocols. *Published*: fixed rates, four arms (the two published ones, and two controls with the same factor on W_O
or on everything), under both transition rows. *Tuned* (full size only): every arm over a ladder of rates in multiples
of its own largest stable one, judged by held-out KL(Bayes || model) after a fixed number of passes on tuning seeds
that the final runs never see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesgrad.training.claims import CONDITIONAL, NOT_SUPPORTED, NOT_TESTED, SUPPORTED, Judgement, criterion, judge
from bayesgrad.training.config import SGD, Alternating, Config, Natural, StickyMarkov
from bayesgrad.training.experiments.base import Done, Experiment, Size, arm_summary, by_arm
from bayesgrad.training.experiments.observations import feedback_figures, observations
from bayesgrad.training.experiments.tuning import rows
from bayesgrad.training.runs import Job, Run
from bayesgrad.training.statistics import first_at_most, interval, sign_flip_p, summary

ID = "sticky-markov"
PLAIN, VALUES, READ_OUT, ALL = "SGD", "EM-like (W_V x 10)", "W_O x 10", "all x 10"
PUBLISHED = {
    PLAIN: SGD(rate=0.01),
    VALUES: SGD(rate=0.01, factors={"W_V": 10.0}),
    READ_OUT: SGD(rate=0.01, factors={"W_O": 10.0}),
    ALL: SGD(rate=0.1),
}
STATED = ", stated row"

# Tuned arms: families of update rules with one free rate each
TUNED: dict[str, tuple[Callable[[float], Any], ...]] = {
    "SGD, tuned": (lambda rate: SGD(rate=rate),),
    "EM-like (W_V x 10), tuned": (lambda rate: SGD(rate=rate, factors={"W_V": 10.0}),),
    "W_O x 10, tuned": (lambda rate: SGD(rate=rate, factors={"W_O": 10.0}),),
    "natural routing, tuned": (lambda rate: Natural(rate=rate, routing=1e-3),),
    "alternating, tuned": (lambda rate: Alternating(rate=rate, e_factor=30.0),),
}
PLAIN_TUNED, VALUES_TUNED, READ_OUT_TUNED = tuple(TUNED)[:3]
LADDER = tuple(0.02 * 4.0**k for k in range(6))
MULTIPLES = (1.0, 1 / 2, 1 / 4, 1 / 16)
TUNING_SEEDS = (1000, 1001)
BUDGET = 400
"""Forward-and-backward passes that every tuned arm may spend."""


def published(size: Size) -> list[Job]:
    quick = size == "quick"
    base = Config(
        task=StickyMarkov(length=500 if quick else 2000, held_out=2 if quick else 4),
        gradients="fused",
        evaluate_every=500 if quick else 100,
        checkpoint_every=500,
        laws=200 if quick else 400,
    )
    rows = {"": base}
    if not quick:
        rows[STATED] = replace(base, task=replace(base.task, row="stated"), evaluate_every=500)
    return [
        Job(ID, arm + suffix, replace(config, update=update), seed)
        for suffix, config in rows.items()
        for seed in range(5)
        for arm, update in PUBLISHED.items()
    ]


def tuned_config(update: Any) -> Config:
    """A run of BUDGET passes that is measured, and whose laws are watched, at its start and at its end."""
    cost = 1 + update.e_steps + update.m_steps if isinstance(update, Alternating) else 1
    steps = round(BUDGET / cost)
    return Config(
        task=StickyMarkov(length=2000, held_out=4),
        update=update,
        steps=steps,
        gradients="fused",
        evaluate_every=steps,
        checkpoint_every=steps,
        laws=400,
    )


def _job(arm: str, update: Any, seed: int, role: str) -> Job:
    return Job(ID, arm, tuned_config(update), seed, role)


def held_out_kl(run: Run) -> float:
    """Held-out KL(Bayes || model) in bits after the last step; infinite for a run that diverged or got worse."""
    if run.result["state"] != "finished" or run.losses[-1] >= run.losses[0]:
        return float("inf")
    kl: float = run.metrics[-1]["held_out_kl_bits"]
    return kl


def plan(size: Size, done: Done) -> list[Job]:
    jobs = published(size)
    if size == "quick":
        return jobs
    for arm, families in TUNED.items():
        scores: dict[tuple[int, float], list[float]] = {}
        complete = True
        for index, family in enumerate(families):
            ladder = [_job(arm, family(rate), TUNING_SEEDS[0], "tuning") for rate in LADDER]
            jobs += ladder
            runs = [done.get(job.name) for job in ladder]
            if any(run is None for run in runs):
                complete = False
                continue
            stable = [rate for rate, run in zip(LADDER, runs, strict=True) if run and np.isfinite(held_out_kl(run))]
            for rate in (max(stable) * multiple for multiple in MULTIPLES if stable):
                tried = [_job(arm, family(rate), seed, "tuning") for seed in TUNING_SEEDS]
                jobs += [job for job in tried if job not in jobs]
                results = [done.get(job.name) for job in tried]
                if any(run is None for run in results):
                    complete = False
                else:
                    scores[index, rate] = [held_out_kl(run) for run in results if run]
        if complete and scores:
            index, rate = min(scores, key=lambda each: float(np.mean(scores[each])))
            jobs += [_job(arm, families[index](rate), seed, "final") for seed in range(5)]
    return jobs


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
    paired by seed. Effect: mean difference of the training loss after the last step (W_V arm minus W_O arm). Supported
    when the bootstrap 95% interval over seeds lies wholly below 0; otherwise not supported."""
    differences = [values.losses[-1] - read_out.losses[-1] for values, read_out in _paired(runs, VALUES, READ_OUT)]
    if not differences:
        return Judgement(NOT_TESTED)
    low, high = interval(differences)
    verdict = SUPPORTED if high < 0 else NOT_SUPPORTED
    detail = {"differences": differences, "sign_flip_p": sign_flip_p(differences)}
    return Judgement(verdict, float(np.mean(differences)), (low, high), "nats, paired", detail)


@criterion("em-like-faster-tuned")
def em_like_faster_tuned(runs: Sequence[Run]) -> Judgement:
    """Each arm with the rate that gave the lowest held-out KL(Bayes || model) after 400 passes on its tuning seeds,
    over a ladder in multiples of its own largest stable rate; the W_V arm keeps its factor of ten. Effect: the mean
    difference of held-out KL in bits after 400 passes on fresh seeds, W_V arm minus SGD arm, paired by seed.
    Supported when the bootstrap 95% interval lies wholly below 0; otherwise not supported."""
    pairs = _paired(runs, VALUES_TUNED, PLAIN_TUNED)
    if not pairs:
        return Judgement(NOT_TESTED)
    key = "held_out_kl_bits"
    differences = [em.metrics[-1][key] - sgd.metrics[-1][key] for em, sgd in pairs]
    low, high = interval(differences)
    control = [em.metrics[-1][key] - w_o.metrics[-1][key] for em, w_o in _paired(runs, VALUES_TUNED, READ_OUT_TUNED)]
    detail = {
        "differences": differences,
        "sign_flip_p": sign_flip_p(differences),
        "against_tuned_w_o": {"differences": control, "interval": list(interval(control))},
    }
    verdict = SUPPORTED if high < 0 else NOT_SUPPORTED
    return Judgement(verdict, float(np.mean(differences)), (low, high), "bits, paired", detail)


def order(runs: Sequence[Run]) -> dict[str, Any]:
    """Final training losses of the four arms, worst first, and whether SGD is worst and all x 10 best in the mean."""
    means = {arm: float(np.mean([run.losses[-1] for run in members])) for arm, members in by_arm(runs).items()}
    means = {arm: loss for arm, loss in means.items() if arm in PUBLISHED}
    ranked = sorted(means, key=lambda arm: -means[arm])
    expected = len(ranked) == len(PUBLISHED) and ranked[0] == PLAIN and ranked[-1] == ALL
    return {"worst_first": ranked, "mean_loss_nats": means, "sgd_worst_and_all_best": expected}


def to_common_loss(runs: Sequence[Run], reference: str, arms: Sequence[str]) -> dict[str, Any]:
    """Per arm: steps and passes to the ``reference`` arm's final training loss, paired by seed (its own end if
    never)."""
    out: dict[str, Any] = {}
    for arm in arms:
        steps, passes, reached = [], [], 0
        for run, plain in _paired(runs, arm, reference):
            found = first_at_most(run.losses, plain.losses[-1])
            reached += found is not None
            row = run.metrics[-1 if found is None else found]
            steps.append(float(row["step"]))
            passes.append(float(row["passes"]))
        if steps:
            out[arm] = {
                "reached": reached,
                "of": len(steps),
                "steps": summary(steps, "steps"),
                "passes": summary(passes, "forward and backward passes"),
            }
    return out


def _stated(runs: Sequence[Run]) -> dict[str, Any]:
    """The published protocol under the other transition row, by the same criteria."""
    others = [
        Run(replace(run.job, arm=run.arm.removesuffix(STATED)), run.result, run.metrics)
        for run in runs
        if run.arm.endswith(STATED)
    ]
    if not others:
        return {}
    figures = {row["id"]: row for row in (judge(name, others) for name in STICKY_MARKOV.claims[:2])}
    keep = ("verdict", "effect", "interval", "unit", "detail")
    return {
        "order": order(others),
        "to_common_loss": to_common_loss(others, PLAIN, tuple(PUBLISHED)),
        "entropy_rate_nats": others[0].result["facts"]["entropy_rate_nats"],
        "figures": {name: {key: row[key] for key in keep} for name, row in figures.items()},
    }


def summarise(size: Size, runs: Sequence[Run]) -> dict[str, Any]:
    example = next(run for run in runs if run.job.role == "final").result
    arms = by_arm(runs)
    watched = [run for run in runs if run.job.config.laws]
    return {
        "arms": {arm: arm_summary(members) for arm, members in arms.items()},
        "order": order(runs),
        "to_common_loss": to_common_loss(runs, PLAIN, tuple(PUBLISHED)),
        "to_common_loss_tuned": to_common_loss(runs, PLAIN_TUNED, tuple(TUNED)),
        "tuning": rows(runs, held_out_kl),
        "stated_row": _stated(runs),
        "facts": example["facts"],
        "heat_map": {"arm": PLAIN, "seed": 0} | example["heat_map"],
        "values": {arm: members[0].result["values"] for arm, members in arms.items() if arm in PUBLISHED},
        "results": observations(watched),
        "feedback": feedback_figures(watched),
        "claims": [judge(claim, runs) for claim in STICKY_MARKOV.claims],
    }


STICKY_MARKOV = Experiment(
    id=ID,
    code="X2",
    title="Sticky Markov chain",
    question="Does a rate ten times larger on W_V alone converge faster than SGD, and is that due to the values?",
    plan=plan,
    summarise=summarise,
    claims=("em-like-faster", "em-effect-specific-to-values", "em-like-faster-tuned"),
    labels=("bayes.sticky-markov",),
    modules=("bayesgrad.training.loop",),
)
