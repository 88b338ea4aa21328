"""What the laws say about finished runs: one observation a label, and the judges of the claims about single steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesgrad.training.claims import CONDITIONAL, NOT_SUPPORTED, NOT_TESTED, SUPPORTED, Judgement, criterion
from bayesgrad.training.runs import Run
from bayesgrad.training.statistics import interval

ROUNDING = 1e-10
SLOPE, BAND = 2.0, 0.1


def observed_steps(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Every logged observation of the laws in every run."""
    return [row["laws"] for run in runs for row in run.metrics if "laws" in row]


def per_seed(runs: Sequence[Run], pick: Any) -> list[float]:
    """Mean of ``pick(observation)`` over arms and logged steps, one number a seed."""
    seeds: dict[int, list[float]] = {}
    for run in runs:
        for row in run.metrics:
            if "laws" in row and (value := pick(row["laws"])) is not None:
                seeds.setdefault(run.seed, []).append(value)
    return [float(np.mean(seeds[seed])) for seed in sorted(seeds)]


def _worst(rows: Sequence[dict[str, Any]], part: str, *names: str) -> float:
    """The largest of these figures over the observations; infinite where none of them was taken, or one is missing."""
    taken = [value for row in rows for name, value in row[part].items() if name in names]
    return max((math.inf if value is None else value for value in taken), default=math.inf)


def second_order_slope(t: Sequence[float], residual: Sequence[float]) -> float:
    """The slope on log-log axes of the t^2 part of a scalar residual, the t^3 part eliminated by halving.

    With R = c_2 t^2 + c_3 t^3 and t halved from one entry to the next, 8 R(t/2) - R(t) = c_2 t^2. Where the curvature
    along a step passes through zero, c_2 is tiny and the slope of R itself lies between 2 and 3; a wrong first-order
    prediction (R = c_1 t) gives slope 1 here as there.
    """
    r = np.asarray(residual)
    pure = np.abs(8 * r[1:] - r[:-1])
    if not (pure > 0).all():
        return math.nan
    return float(np.polyfit(np.log(t[:-1]), np.log(pure), 1)[0])


def _slope(changes: dict[str, Any], name: str) -> float | None:
    """The slope that judges: of the residual's norm, for the scalar loss of its second-order part."""
    raw: float | None = changes["slope"][name]
    return raw if name != "loss" else second_order_slope(changes["t"], changes["residual"][name])


def observations(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Per label: verdict "confirmed" or "not confirmed", what was compared, and the worst figure."""
    rows = observed_steps(runs)
    if not rows:
        return {}
    stepped = [row for row in rows if row["changes"]]
    out: dict[str, dict[str, Any]] = {}
    # a transformer is observed head by head, the one-head model at its matrices
    heads = sum(row.get("heads", 1) for row in rows)

    def to_rounding(label: str, what: str, part: str, *names: str) -> None:
        worst = _worst(rows, part, *names)
        out[label] = {
            "verdict": "confirmed" if worst <= ROUNDING else "not confirmed",
            "what": what,
            "worst_error": worst,
            "tolerance": ROUNDING,
            "observations": len(rows),
            "heads": heads,
        }

    def to_second_order(label: str, what: str, *names: str) -> None:
        slopes = [_slope(row["changes"], name) for row in stepped for name in names]
        good = bool(slopes) and all(s is not None and abs(s - SLOPE) <= BAND for s in slopes)
        known = [s for s in slopes if s is not None and math.isfinite(s)]
        raw = [s for row in stepped for name in names if (s := row["changes"]["slope"][name]) is not None]
        out[label] = {
            "verdict": "confirmed" if good else "not confirmed",
            "what": what,
            "slope": [min(known), max(known)] if known else None,
            "slope_of_whole_residual": [min(raw), max(raw)] if raw else None,
            "band": [SLOPE - BAND, SLOPE + BAND],
            "observations": len(slopes),
        }

    gradient = "closed-form gradient against autograd"
    read = ("W_Q", "W_K", "W_V")
    one_head = ("W_O",) if any("W_O" in row["gradient_error"] for row in rows) else ()
    logits = one_head + (("logits",) if any("logits" in row["gradient_error"] for row in rows) else ())
    many = any("scores" in row["gradient_error"] for row in rows)

    def to_autograd(label: str, parts: tuple[str, ...], matrices: tuple[str, ...]) -> None:
        names = (*(parts if many else ()), *matrices)
        to_rounding(label, f"{gradient}: {', '.join(names)}", "gradient_error", *names)

    to_autograd("loss.logit-gradient", (), logits)
    to_autograd("attention.routing-law", ("scores",), ("W_Q", "W_K"))
    to_autograd("attention.value-law", ("values",), ("W_V",))
    to_autograd("attention.query-law", ("queries",), ("W_Q",))
    to_autograd("attention.key-law", ("keys",), ("W_K",))
    to_autograd("attention.projection-laws", (), read + one_head)
    to_rounding("dynamics.value-step", "change of g in a value step, exact", "exact", "value_step")
    to_rounding("em.proximal-m-step", "gradient of the surrogate at the value step", "exact", "m_step")
    to_second_order(
        "dynamics.loss-decrease", "second-order part of the residual of the loss change against step size", "loss"
    )
    to_second_order("dynamics.score-step", "residual of the change of g against step size", "g")
    to_second_order("dynamics.feedback-full", "residuals of the changes of b and A against step size", "b", "A")
    to_rounding("dynamics.feedback", "change of b in a value step with a and u held", "exact", "feedback")
    # null where no pair had a sign to compare
    agrees = min((share for row in rows if (share := row["feedback"]["law_agrees"]) is not None), default=None)
    out["dynamics.feedback"]["sign_agreement"] = agrees
    if agrees is None or agrees < 1:
        out["dynamics.feedback"]["verdict"] = "not confirmed"
    return out


def feedback_figures(runs: Sequence[Run]) -> dict[str, Any]:
    """Shares behind the feedback claim, mean over logged steps and arms, with intervals over seeds; those that the runs
    have (what freezing u costs is known of the one-head model)."""
    out: dict[str, Any] = {}
    for name in ("unconditional_holds", "unconditional_holds_full", "frozen_error", "frozen_wrong_sign", "law_agrees"):
        values = per_seed(runs, lambda row, name=name: row["feedback"].get(name))
        if not values:
            continue
        out[name] = {"mean": float(np.mean(values)), "interval": list(interval(values))}
    return out


def _errors_within(runs: Sequence[Run], matrices: Sequence[str], bound: float) -> Judgement:
    """Supported when no error exceeds ``bound``; the effect is the mean over seeds of each seed's worst error."""
    worst: dict[int, float] = {}
    for run in runs:
        for row in observed_steps([run]):
            worst[run.seed] = max(worst.get(run.seed, 0.0), *(row["gradient_error"][name] for name in matrices))
    if not worst:
        return Judgement(NOT_TESTED)
    verdict = SUPPORTED if max(worst.values()) <= bound else NOT_SUPPORTED
    errors = [worst[seed] for seed in sorted(worst)]
    return Judgement(verdict, float(np.mean(errors)), interval(errors), "worst relative error of a seed")


@criterion("routing-law")
def routing_law(runs: Sequence[Run]) -> Judgement:
    """At every logged step of every run the closed-form gradients in W_Q and W_K, which the routing law feeds, are
    compared with autograd in float64. Supported when the worst relative error is at most 1e-10; otherwise not
    supported."""
    return _errors_within(runs, ("W_Q", "W_K"), 1e-10)


@criterion("value-law")
def value_law(runs: Sequence[Run]) -> Judgement:
    """At every logged step of every run the closed-form gradient in W_V, which the value law feeds, is compared with
    autograd in float64. Supported when the worst relative error is at most 1e-10; otherwise not supported."""
    return _errors_within(runs, ("W_V",), 1e-10)


@criterion("positive-feedback")
def positive_feedback(runs: Sequence[Run]) -> Judgement:
    """At every logged step of every run, take the visible pairs whose weight a_ij exceeds the level sum_k a_ik^2 of
    their row, and step the values along their gradient with a and u held. Effect: the share of these pairs whose
    advantage grows, averaged over steps and arms, interval over seeds. Supported (as stated, unconditionally) when
    the interval lies at or above 0.99. Otherwise conditional when the conditional law (the advantage grows exactly
    where sum_l a_lj u_i.u_l exceeds its a_i-weighted mean) has the measured sign at every counted pair. Otherwise not
    supported."""
    shares = per_seed(runs, lambda row: row["feedback"]["unconditional_holds"])
    if not shares:
        return Judgement(NOT_TESTED)
    low, high = interval(shares)
    law = min(row["feedback"]["law_agrees"] for row in observed_steps(runs))
    verdict = SUPPORTED if low >= 0.99 else CONDITIONAL if law == 1 else NOT_SUPPORTED
    return Judgement(verdict, float(np.mean(shares)), (low, high), "share of pairs", {"conditional_law_agrees": law})


@criterion("em-structure")
def em_structure(runs: Sequence[Run]) -> Judgement:
    """At every logged step of every run, compare the plain score gradient's direction with that of the E-step, -(b -
    its visible mean), row by row. Effect: the mean cosine, interval over seeds. The M-step half holds when the value
    step annuls the gradient of the surrogate to a relative 1e-10. Supported (as an identity of steps) when that half
    holds everywhere and the interval of the cosine lies at or above 0.99. Conditional when that half holds and the
    score gradient equals the Fisher matrix times b to a relative 1e-10 everywhere (the E-step after a change of
    metric). Otherwise not supported."""
    rows = observed_steps(runs)
    if not rows:
        return Judgement(NOT_TESTED)
    cosines = per_seed(runs, lambda row: row["e_step"]["tokens"])
    low, high = interval(cosines)
    m_step = max(row["exact"]["m_step"] for row in rows)
    fisher = max(row["exact"]["score_step"] for row in rows)
    if m_step > 1e-10:
        verdict = NOT_SUPPORTED
    elif low >= 0.99:
        verdict = SUPPORTED
    else:
        verdict = CONDITIONAL if fisher <= 1e-10 else NOT_SUPPORTED
    detail = {
        "m_step_error": m_step,
        "fisher_error": fisher,
        "cosine_of_weight_step": float(np.mean(per_seed(runs, lambda row: row["e_step"]["weights"]))),
        "cosine_of_value_step": float(np.mean(per_seed(runs, lambda row: row["e_step"]["values"]))),
    }
    return Judgement(verdict, float(np.mean(cosines)), (low, high), "cosine", detail)
