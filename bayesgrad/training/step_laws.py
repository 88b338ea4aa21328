r"""Do the laws hold while training? Predicted first-order changes against measured ones, in float64.

For the step d that an update really took, the matrices go to W + t d for a range of t; with D(t) the measured change
and D' the prediction, the residual \|D(t) - t D'\| must shrink as t^2: its slope on log-log axes is 2. What is exactly
linear in the step must agree to rounding instead. Nothing here knows which optimiser produced d.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from bayesgrad import dynamics
from bayesgrad.training import head_gradients
from bayesgrad.training.data import Batch
from bayesgrad.training.first_order import Head, State, fisher_times, predicted, score_change, state_of
from bayesgrad.training.model import Parameters

HALVINGS = 5
LARGEST = 0.002
"""The largest first-order change of a score or of a logit at the largest t: small enough for t^3 not to show."""

SIGN_GUARD = 1e-10
"""Relative size below which a sign is rounding and is not counted."""


def relative(difference: Tensor, size: Tensor) -> float:
    """Norm of the difference over the norm of what is compared; 0 when both vanish."""
    top, bottom = float(difference.norm()), float(size.norm())
    return top / bottom if bottom > 0 else (0.0 if top == 0 else math.inf)


def slope(t: list[float], residual: list[float]) -> float:
    """Least-squares slope of log residual on log t."""
    x, y = torch.tensor(t, dtype=torch.float64).log(), torch.tensor(residual, dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def step_sizes(*changes: Tensor) -> list[float]:
    """The range of t, from the first-order changes of scores and logits at t = 1; empty when nothing moves."""
    largest = max(float(change.abs().max()) for change in changes)
    return [LARGEST / largest / 2**i for i in range(HALVINGS)] if largest else []


def change_slopes(s: State, step: Parameters, batch: Batch) -> dict[str, Any]:
    """Residual slopes of loss, g, b and A along ``step``, and the first-order share of the loss change."""
    first = predicted(s, step)
    ds = score_change(s, s.x @ step["W_Q"], s.x @ step["W_K"])
    dz = first.g @ s.parameters["W_O"] + s.g @ step["W_O"]
    times = step_sizes(ds, dz)
    if not times:
        return {}
    visible = s.visible
    residuals: dict[str, list[float]] = {name: [] for name in ("loss", "g", "b", "A")}
    for t in times:
        moved = state_of({name: p + t * step[name] for name, p in s.parameters.items()}, batch)
        for name in residuals:
            difference = getattr(moved, name) - getattr(s, name) - t * getattr(first, name)
            if name in "bA":
                difference = difference[visible]
            residuals[name].append(float(difference.norm()))
    return {
        "slope": {name: slope(times, values) for name, values in residuals.items()},
        "t": times,
        "residual": residuals,
        "predicted_loss_change": float(first.loss),
    }


def exact_steps(s: Head) -> dict[str, float]:
    """What holds to rounding and not just to first order: relative errors.

    ``value_step``: dg = -eta a a^T u for a step of the values along their gradient. ``score_step``: the score
    gradient is F_i b_i. ``feedback``: db = -eta (u u^T) a with a and u held. ``m_step``: the value step is the
    proximal minimiser, so the surrogate's gradient vanishes there.
    """
    eta = 0.1 / float(s.values.norm()) if float(s.values.norm()) else 1.0
    v = s.v - eta * s.values
    visible = s.visible
    frozen = dynamics.feedback(s.a, s.u, eta=eta).compatibility
    measured = s.u @ v.mT - s.b
    m_step = s.a.mT @ s.u + (v - s.v) / eta
    along = dynamics.value_step(s.a, s.u, eta=eta)
    return {
        "value_step": relative(s.a @ v - s.g - along.context, along.context),
        "score_step": relative(s.scores - fisher_times(s.a, s.b), s.scores),
        "feedback": relative((measured - frozen)[..., visible], measured[..., visible]),
        "m_step": relative(m_step, s.a.mT @ s.u),
    }


def counted_pairs(s: Head) -> tuple[Tensor, Tensor, Tensor]:
    """``(counted, drive, grown)``: which pairs have a sign to compare, the law's, and the measured change of A_ij.

    A value step of size eta with a and u held moves A_ij by eta (sum_l a_lj u_i.u_l - its a_i-weighted mean).
    Counted are visible pairs of rows with at least two visible keys, leaving out those whose change is rounding.
    """
    visible = s.visible & (s.visible.sum(-1, keepdim=True) > 1)
    drive = dynamics.feedback(s.a, s.u, eta=1.0).advantage
    # measured: step the values, hold a and u, and look
    eta = 1e-3 / float(s.values.abs().max())
    b = s.u @ (s.v - eta * s.values).mT
    grown = (s.a * b).sum(-1, keepdim=True) - b - s.A
    counted = visible & (drive.abs() > SIGN_GUARD * drive.abs().max()) & (grown.abs() > 1e-6 * grown.abs().max())
    return counted, drive, grown


def feedback(s: Head) -> dict[str, float]:
    """The conditional law of feedback, and how often its unconditional reading holds."""
    counted, drive, grown = counted_pairs(s)
    law = (torch.sign(drive) == torch.sign(grown))[counted]
    # the unconditional reading: keys that a query attends above its level gain advantage for it
    favoured = counted & above_level(s)
    holds = (grown > 0)[favoured]
    return {
        "pairs": float(counted.sum()),
        "law_agrees": float(law.double().mean()),
        "favoured_pairs": float(favoured.sum()),
        "unconditional_holds": float(holds.double().mean()) if len(holds) else math.nan,
    }


def above_level(s: Head) -> Tensor:
    """Pairs whose weight exceeds the level sum_k a_ik^2 of their row."""
    return s.a > (s.a * s.a).sum(-1, keepdim=True)


def freezing(s: State) -> dict[str, float]:
    """What freezing u costs: the same value step with u free to follow."""
    counted, drive, _ = counted_pairs(s)
    favoured = counted & above_level(s)
    totals = torch.full((len(s.x),), 1 / len(s.x), dtype=s.x.dtype)
    W_O = s.parameters["W_O"]
    full = dynamics.feedback_full(s.a, s.v, s.r, s.p, W_O, totals=totals, eta=1.0).advantage
    holds = (full > 0)[favoured]
    return {
        "frozen_error": relative((full - drive)[s.visible], full[s.visible]),
        "frozen_wrong_sign": float((torch.sign(full) != torch.sign(drive))[counted].double().mean()),
        "unconditional_holds_full": float(holds.double().mean()) if len(holds) else math.nan,
    }


def e_step(s: Head, ds: Tensor, dv: Tensor) -> dict[str, float]:
    """How much the routing part of a real step looks like an E-step: mean cosine over rows with >= 2 visible keys.

    The E-step moves scores along -(b - visible mean). ``tokens`` compares the plain score gradient with it,
    ``weights`` the score change ``ds`` that the step really makes; ``values`` compares the real change ``dv`` of the
    values with the M-step's.
    """
    visible = s.visible
    count = visible.sum(-1, keepdim=True)

    def centred(h: Tensor) -> Tensor:
        h = torch.where(visible, h, torch.zeros_like(h))
        return torch.where(visible, h - h.sum(-1, keepdim=True) / count, torch.zeros_like(h))

    def cosine(left: Tensor, right: Tensor) -> float:
        bottom = left.norm(dim=-1) * right.norm(dim=-1)
        good = bottom > 0
        return float(((left * right).sum(-1)[good] / bottom[good]).mean()) if bool(good.any()) else math.nan

    natural = -centred(s.b)
    return {
        "tokens": cosine(centred(-s.scores), natural),
        "weights": cosine(centred(ds), natural),
        "values": cosine(dv, -s.values),
    }


def observe_laws(before: Parameters, after: Parameters, batch: Batch, positions: int) -> dict[str, Any]:
    """All of the above for the step from ``before`` to ``after``, on the first ``positions`` positions, in float64."""
    batch = Batch(batch.x[:positions].double(), batch.targets[:positions])
    now = {name: value.double() for name, value in before.items()}
    step = {name: after[name].double() - now[name] for name in now}
    s = state_of(now, batch)
    loss, reference = head_gradients.autograd(now, batch)
    errors = {name: relative(s.gradients[name] - reference[name], reference[name]) for name in reference}
    return {
        "gradient_error": errors | {"loss": abs(float(s.loss - loss)) / float(loss)},
        "changes": change_slopes(s, step, batch),
        "exact": exact_steps(s),
        "feedback": feedback(s) | freezing(s),
        "e_step": e_step(s, score_change(s, s.x @ step["W_Q"], s.x @ step["W_K"]), s.x @ step["W_V"]),
    }
