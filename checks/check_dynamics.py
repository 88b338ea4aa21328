"""What a plain gradient step does to loss, context, compatibility, advantage and weights."""

from __future__ import annotations

from typing import Any

import numpy as np

import bayesgrad
from bayesgrad import dynamics
from bayesgrad.testing.engine import LawViolation
from bayesgrad.testing.examples import Head, Mixture, Stepped, SteppedLayer
from bayesgrad.testing.oracles import reverse
from bayesgrad.testing.strategies import heads, mixtures, stepped, stepped_layers, two_keys
from checks.oracles.dynamics import (
    FEEDBACK,
    FEEDBACK_FULL,
    FIRST_KEY,
    FLOW,
    LOSS_DECREASE,
    NATURAL,
    ROW_FLOW,
    SCORE_STEP,
    UNIFORM_FEEDBACK,
    VALUE_STEP,
    VALUES_SEEN_BY_EACH,
    WEIGHT_SPACE,
    bounds,
    uniform,
    upstream_slope,
)
from checks.registry import checks


def weights_and_compatibility(head: Head) -> tuple[np.ndarray, np.ndarray]:
    """a and b of a head without dropout."""
    made = bayesgrad.attention(head.q, head.k, head.v, mask=head.mask, bias=head.bias, scale=head.scale)
    return made.weights, bayesgrad.compatibility(head.u, head.v)


def blocks_in_rows(example: Stepped) -> dict[str, Any]:
    """The gradients of q, k and v as rows of one matrix G0 (filled with zeros), their steps d, one rate a block."""
    gradients = [x.reshape(-1) for x in reverse.gradients(example.head, "q", "k", "v").values()]
    G0 = np.zeros((len(gradients), max(x.size for x in gradients)))
    for row, x in zip(G0, gradients, strict=True):
        row[: x.size] = x
    return {"G0": G0, "d": -example.eta * G0, "eta": np.full(len(G0), example.eta)}


@checks(
    "dynamics.loss-decrease",
    oracle=LOSS_DECREASE,
    given=stepped(heads()),
    states={"any-step": "dL", "gradient-step": "dL"},
    letters=blocks_in_rows,
)
def check_loss_decrease(example: Stepped) -> dict[str, Any]:
    """dL = -eta |gradient|^2, blocks add; and <gradient, step> is the same for that step."""
    head = example.head
    got = bayesgrad.attention_gradients(
        head.q, head.k, head.v, head.u, mask=head.mask, bias=head.bias, scale=head.scale, dropout=head.dropout
    )
    blocks = (got.queries, got.keys, got.values)
    decrease = dynamics.loss_decrease(*blocks, eta=example.eta)
    change = sum(dynamics.loss_change(g, -example.eta * g) for g in blocks)
    if abs(decrease - change) > 1e-12 * (1 + abs(decrease)):
        raise LawViolation(f"dynamics.loss-decrease: -eta |gradient|^2 = {decrease!r}, <gradient, step> = {change!r}")
    return {"dL": np.asarray(decrease)}


@checks("dynamics.value-step", oracle=VALUE_STEP, given=stepped(), states={"context": "dg", "loss": "dL"})
def check_value_step(example: Stepped) -> dict[str, Any]:
    """dv = -eta a^T u; dg = -eta a a^T u exactly; dL = -eta |a^T u|^2."""
    a, _ = weights_and_compatibility(example.head)
    got = dynamics.value_step(a, example.head.u, eta=example.eta)
    return {"dv": got.values, "dg": got.context, "dL": np.asarray(got.loss)}


@checks(
    "dynamics.score-step",
    oracle=SCORE_STEP,
    given=stepped(),
    states={"step": "ds", "loss": "dL", "context": "dg"},
)
def check_score_step(example: Stepped) -> dict[str, Any]:
    """ds = eta a A; dg = sum_j a_j (ds_j - sum_k a_k ds_k) v_j; dL = -eta sum (a A)^2."""
    a, _ = weights_and_compatibility(example.head)
    got = dynamics.score_step(a, example.head.u, example.head.v, eta=example.eta)
    return {"ds": got.scores, "da": got.weights, "dg": got.context, "dL": np.asarray(got.loss)}


@checks("dynamics.feedback", oracle=FEEDBACK, given=stepped(), states={"compatibility": "db", "advantage": "dA"})
def check_feedback(example: Stepped) -> dict[str, Any]:
    """db_ij = -eta sum_l a_lj u_i.u_l, a and u held fixed."""
    a, _ = weights_and_compatibility(example.head)
    got = dynamics.feedback(a, example.head.u, eta=example.eta)
    return {"db": got.compatibility, "dA": got.advantage}


@checks(
    "dynamics.feedback",
    oracle=UNIFORM_FEEDBACK,
    given=stepped(heads(masks=False, dropout=False)),
    states={"uniform": "dA"},
    letters=lambda example: {**example.tensors(), "a": uniform(example.head)},
    measured="db",
    share=0.5,
)
def check_uniform_feedback(example: Stepped) -> dict[str, Any]:
    """Uniform unmasked attention of all queries is neutral: dA = 0 although db is not."""
    got = dynamics.feedback(uniform(example.head), example.head.u, eta=example.eta)
    return {"db": got.compatibility, "dA": got.advantage}


def with_slopes(example: SteppedLayer) -> dict[str, Any]:
    """The letters, and the change of u along the step by double backward."""
    return {**example.tensors(), "du/dh": upstream_slope(example), "h": np.asarray(0.0)}


@checks(
    "dynamics.feedback-full",
    oracle=FEEDBACK_FULL,
    given=stepped_layers(),
    states={"upstream": "du", "compatibility": "db"},
    letters=with_slopes,
)
def check_feedback_full(example: SteppedLayer) -> dict[str, Any]:
    """db_ij = u_i.dv_j + du_i.v_j and dA at fixed weights, u moving with the step."""
    layer, t = example.layer, example.layer.tensors()
    r = bayesgrad.cross_entropy(t["z"], layer.targets, reduction=layer.reduction)[1]
    p = bayesgrad.softmax(t["z"])
    v = layer.project()["v"]
    got = dynamics.feedback_full(
        t["a"], v, r, p, layer.W_O, totals=t["tau"], eta=example.eta, W_O_step=example.dW, c_O_step=example.dc
    )
    return {"du": upstream_change(example, r, p), "db": got.compatibility, "dA": got.advantage}


def upstream_change(example: SteppedLayer, r: np.ndarray, p: np.ndarray) -> np.ndarray:
    """du_i from ``feedback_full``: d_v more keys that nobody attends to, with unit values, read it off."""
    layer, t = example.layer, example.layer.tensors()
    v = layer.project()["v"]
    n, width = len(layer.x), v.shape[1]
    a = np.concatenate((t["a"], np.zeros((n, width))), axis=1)
    got = dynamics.feedback_full(
        a,
        np.concatenate((v, np.eye(width))),
        r,
        p,
        layer.W_O,
        totals=t["tau"],
        eta=example.eta,
        W_O_step=example.dW,
        c_O_step=example.dc,
    )
    return got.compatibility[:, v.shape[0] :]


@checks(
    "dynamics.weight-space",
    oracle=WEIGHT_SPACE,
    given=stepped_layers(),
    states={"matrix": "dv", "with-bias": "dv, bias too"},
)
def check_weight_space(example: SteppedLayer) -> dict[str, Any]:
    """Training W_V moves v_j by -eta sum_l (x_j.x_l) dL/dv_l, plus 1 to each product with a value bias."""
    layer, t = example.layer, example.layer.tensors()
    gradient = bayesgrad.value_gradient(t["a"], t["u"])
    return {
        "dv": dynamics.weight_space_value_step(layer.memory, gradient, eta=example.eta),
        "dv, bias too": dynamics.weight_space_value_step(layer.memory, gradient, eta=example.eta, bias=True),
    }


@checks("dynamics.natural-routing", oracle=NATURAL, given=stepped(), share=0.5)
def check_natural_direction(example: Stepped) -> dict[str, Any]:
    """F_i delta = dL/ds_i is solved by b_i minus its unweighted visible mean."""
    _, b = weights_and_compatibility(example.head)
    return {"direction": dynamics.natural_direction(b, mask=example.head.mask)}


@checks(
    "dynamics.natural-routing",
    oracle=FLOW,
    given=stepped(),
    states={"bayes-rule": "a'"},
)
def check_replicator(example: Stepped) -> dict[str, Any]:
    """a exp(-eta b) / Z is the flow a' = -a (b - bbar); d(bbar)/dt = -Var_a(b) <= 0; two steps are one."""
    a, b = weights_and_compatibility(example.head)
    got = dynamics.replicator_velocity(a, b)
    whole = dynamics.replicator_step(a, b, eta=example.eta)
    halves = dynamics.replicator_step(dynamics.replicator_step(a, b, eta=example.eta / 2), b, eta=example.eta / 2)
    if not np.allclose(whole, halves, rtol=1e-11, atol=1e-15) or np.any(got.mean_compatibility > 0):
        raise LawViolation(f"dynamics.natural-routing: two half steps are not one, or the mean grows, at {example!r}")
    return {
        "a'": whole,
        "velocity": got.weights,
        "mean": got.mean_compatibility,
    }


@checks(
    "dynamics.natural-routing",
    oracle=ROW_FLOW,
    given=mixtures(),
    states={"replicator": "velocity", "variance": "mean"},
    share=0.5,
)
def check_replicator_of_one_row(example: Mixture) -> dict[str, Any]:
    """a_j' = -a_j (b_j - bbar) and d(bbar)/dt = -Var_a(b), on any point of the simplex."""
    got = dynamics.replicator_velocity(example.pi[None], example.costs[None])
    return {"velocity": got.weights[0], "mean": got.mean_compatibility[0]}


def excess(label: str, ds: np.ndarray, bound: np.ndarray, example: Stepped) -> None:
    """Raise where a gradient exceeds its bound by more than rounding."""
    if np.any(np.abs(ds) > bound * (1 + 1e-12) + 1e-300):
        raise LawViolation(
            f"{label} does not hold: |dL/ds| = {np.abs(ds).tolist()}, bound {bound.tolist()}, {example!r}"
        )


@checks(
    "attention.saturation-bound",
    oracle=bounds("ds", "-ds", "bound"),
    given=stepped(),
    states={"upper": "ds", "lower": "-ds"},
)
def check_saturation_bound(example: Stepped) -> dict[str, Any]:
    """|dL/ds_ij| <= a_ij (1 - a_ij) (max b - min b over visible keys), with equality in rows of two keys."""
    a, b = weights_and_compatibility(example.head)
    ds, bound = bayesgrad.score_gradient(a, b), dynamics.saturation_bound(a, b, mask=example.head.mask)
    two = example.head.visible.sum(-1) == 2
    excess("attention.saturation-bound", ds, bound + 1e-15 * np.abs(b).max(-1, keepdims=True), example)
    gap = np.abs(np.abs(ds[two]) - bound[two])
    if np.any(gap > 1e-14 * (1 + np.abs(b).max())):
        raise LawViolation(f"attention.saturation-bound: no equality in a row of two keys, {example!r}")
    return {"ds": ds, "-ds": -ds, "bound": bound}


def first_two_keys(example: Stepped) -> dict[str, Any]:
    """a and b of queries that see keys j = 0 and k = 1 only."""
    t = example.tensors()
    return {"a": t["a"], "b": t["b"], "j": np.asarray(0), "k": np.asarray(1)}


@checks(
    "attention.saturation-bound",
    oracle=FIRST_KEY,
    given=two_keys(),
    states={"two-keys": "ds of one key"},
    letters=first_two_keys,
    share=0.5,
)
def check_rows_of_two_keys(example: Stepped) -> dict[str, Any]:
    """With two visible keys j and k, dL/ds_ij = a_ij (1 - a_ij) (b_ij - b_ik)."""
    a, b = weights_and_compatibility(example.head)
    return {"ds of one key": bayesgrad.score_gradient(a, b)[:, 0]}


@checks(
    "dynamics.frame-precision",
    oracle=VALUES_SEEN_BY_EACH,
    given=stepped(),
    states={"value-limit": "dv for each query"},
    share=0.5,
)
def check_value_limit(example: Stepped) -> dict[str, Any]:
    """dL/dv_j = u_i + sum_{l != i} a_lj u_l - (1 - a_ij) u_i for every query i: not small when a_ij is 1."""
    a, _ = weights_and_compatibility(example.head)
    gradient = bayesgrad.value_gradient(a, example.head.u)
    return {"dv for each query": np.repeat(gradient[..., None], len(a), axis=-1)}


@checks(
    "dynamics.frame-precision",
    oracle=bounds("ds", "-ds", "row bound"),
    given=stepped(),
    states={"upper": "ds", "lower": "-ds"},
)
def check_frame_precision(example: Stepped) -> dict[str, Any]:
    """|dL/ds_ij| <= M (1 - M) R with M the largest weight of the row and R the visible range of b."""
    a, b = weights_and_compatibility(example.head)
    ds, bound = bayesgrad.score_gradient(a, b), dynamics.frame_precision_bound(a, b, mask=example.head.mask)
    excess("dynamics.frame-precision", ds, (bound + 1e-15 * np.abs(b).max(-1))[:, None], example)
    return {"ds": ds, "-ds": -ds, "row bound": bound}
