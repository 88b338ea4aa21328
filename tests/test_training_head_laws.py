"""The laws on every head of small transformers while they train: they hold, and a wrong one does not pass."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from bayesgrad import _head as laws_of_the_head
from bayesgrad.training import first_order, head_graph, watched_heads
from bayesgrad.training.config import from_json
from bayesgrad.training.data import Batch
from bayesgrad.training.experiments import EXPERIMENTS, SIZES, frame_precision
from bayesgrad.training.experiments.observations import observations
from bayesgrad.training.files import plain, read_metrics
from bayesgrad.training.loop import train
from bayesgrad.training.problem import make_problem
from bayesgrad.training.runs import Job, Run
from bayesgrad.training.update_rules import Oracle
from bayesgrad.training.updates import make_update

OPTIONS = [
    {"layers": 2, "heads": 4},
    {"layers": 3, "positions": "rotary", "residual": False},
    {"norm": False, "mlp": 0},
    {"layers": 3, "attention_layers": 1, "positions": "none"},
]


def config(**changes):
    base = {
        "task": {"kind": "bijection", "values": 4, "keys": 4, "batch": 32, "held_out": 8},
        "model": {"kind": "transformer", "layers": 2, "width": 16, "heads": 2} | changes.pop("model", {}),
        "update": {"kind": "adamw", "rate": 0.01, "clip": 1.0, "weight_decay": 0.1},
        "laws": 3,
    }
    return from_json(base | changes)


def watched(steps: int = 20, **changes) -> Run:
    """A short run whose laws are observed at its first and last step, kept as a run on disk would be."""
    c = config(**changes)
    problem = make_problem(c, 0)
    rule = make_update(c.update, steps)
    parameters = problem.initial()
    state, rows = rule.start(parameters), []
    for step in range(steps + 1):
        done = rule(parameters, Oracle(problem.loss_and_gradients, problem.batch(step)), state)
        if step in (0, steps):
            rows.append({"step": step, "loss": float(done.loss), "laws": problem.laws(parameters, done.parameters)})
        parameters, state = done.parameters, done.state
    return Run(Job("toy", "toy", c, 0), {"state": "finished"}, rows)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_laws_hold_on_every_head_of_every_layer(options):
    run = watched(model=options)
    c = run.job.config.model
    layers = c.layers if c.attention_layers is None else c.attention_layers
    for row in (row["laws"] for row in run.metrics):
        assert row["heads"] == layers * c.heads
        assert set(row["gradient_error"]) == {*head_graph.PARTS, "logits", "W_Q", "W_K", "W_V"}
        assert max(row["gradient_error"].values()) < 1e-11
        assert max(row["exact"].values()) < 1e-11
        assert row["feedback"]["law_agrees"] == 1
        assert row["feedback"]["pairs"] > 10
    found = observations([run])
    assert {row["verdict"] for row in found.values()} == {"confirmed"}, found
    assert {row["heads"] for row in found.values() if "heads" in row} == {2 * layers * c.heads}


def verdicts(**changes) -> dict[str, str]:
    return {label: row["verdict"] for label, row in observations([watched(**changes)]).items()}


def test_a_wrong_routing_law_is_seen(monkeypatch):
    right = laws_of_the_head.score_gradient_of
    monkeypatch.setattr(laws_of_the_head, "score_gradient_of", lambda xp, a, b: -right(xp, a, b))
    found = verdicts()
    for label in ("attention.routing-law", "attention.query-law", "attention.key-law", "dynamics.loss-decrease"):
        assert found[label] == "not confirmed", label
    assert found["attention.value-law"] == "confirmed"


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ("score_change", "dynamics.score-step"),
        ("context_change", "dynamics.score-step"),
        ("compatibility_change", "dynamics.feedback-full"),
        ("advantage_change", "dynamics.feedback-full"),
    ],
)
def test_a_first_order_change_that_is_off_by_a_hundredth_is_seen(monkeypatch, change, seen):
    right = getattr(first_order, change)
    monkeypatch.setattr(first_order, change, lambda *given: 1.01 * right(*given))
    assert verdicts(steps=3)[seen] == "not confirmed"


def test_a_head_that_is_wrong_alone_is_seen(monkeypatch):
    """The figure is the worst over heads, not their mean: one wrong head of four is enough."""
    right = watched_heads.moved

    def one_off(head, dq, dk, dv, du):
        change = right(head, dq, dk, dv, du)
        change.g[:, 1] *= 1.01
        return change

    monkeypatch.setattr(watched_heads, "moved", one_off)
    assert verdicts(steps=3)["dynamics.score-step"] == "not confirmed"


def test_the_derivative_along_a_step_is_the_difference_quotient():
    rng = torch.Generator().manual_seed(0)
    x, step = (torch.randn(3, 4, dtype=torch.float64, generator=rng) for _ in range(2))
    leaf = x.clone().requires_grad_()

    def outputs(at):
        return [torch.tanh(at @ at.mT), at.sum(0) ** 3, at.new_ones(2)]

    for got, plus, minus in zip(
        head_graph.along([*outputs(leaf)[:2], leaf * 0 + 1], [leaf], [step]),
        [*outputs(x + 1e-6 * step)[:2], x * 0],
        [*outputs(x - 1e-6 * step)[:2], x * 0],
        strict=True,
    ):
        torch.testing.assert_close(got, (plus - minus) / 2e-6, rtol=1e-7, atol=1e-8)


def test_soft_targets_are_watched_too():
    c = config()
    problem = make_problem(c, 0)
    before = problem.initial()
    after = {name: value - 0.01 * value for name, value in before.items()}
    held = problem.held.batch
    soft = torch.softmax(torch.arange(held.targets.numel() * 4.0).sin().reshape(*held.targets.shape, 4), -1)

    def logits_of(parameters, tokens, attend):
        return problem.module.logits(parameters, tokens, c.model, problem.supervised, attend=attend)

    row = watched_heads.observe_head_laws(logits_of, before, after, Batch(held.x, soft))
    assert row["gradient_error"]["logits"] < 1e-12
    assert abs(row["changes"]["slope"]["loss"] - 2) < 0.1


def test_what_does_not_move_has_no_slope():
    problem = make_problem(config(), 0)
    before = problem.initial()
    row = problem.laws(before, before)
    assert row["changes"] == {}
    assert max(row["gradient_error"].values()) < 1e-11


@pytest.mark.parametrize("model", [{"kind": "lstm"}, {"kind": "mlp"}, {"attention_layers": 0}], ids=str)
def test_a_model_without_heads_cannot_be_watched(model):
    data = config().as_json() | {"model": model if "kind" in model else config().as_json()["model"] | model}
    with pytest.raises(ValueError, match="laws: got 3, expected 0 for a model without attention"):
        from_json(data)


def test_the_record_of_frame_precision_watches_every_run_and_judges_both_protocols(tmp_path):
    task = {"kind": "bijection", "values": 3, "keys": 3, "batch": 16, "held_out": 16}
    routed = config(
        task=task, model={"width": 8}, steps=12, evaluate_every=6, snapshots=5, update={"kind": "adamw", "rate": 0.02}
    )
    replaced = replace(routed, task=replace(routed.task, protocol="with"))
    chain = {"kind": "sticky-markov", "length": 30, "symbols": 3, "d_x": 4, "held_out": 1}
    published = from_json({"task": chain, "steps": 6, "evaluate_every": 3, "snapshots": 3, "laws": 20})
    arms = {frame_precision.ROUTED: routed, frame_precision.REPLACED: replaced, frame_precision.PUBLISHED: published}
    done = []
    for arm, each in arms.items():
        for seed in range(3):
            job = Job("frame-precision", arm, each, seed)
            result = train(each, seed, job.folder(tmp_path))
            rows = read_metrics(job.folder(tmp_path) / "metrics.jsonl")
            rows[-1]["attention_entropy"] = 0.5  # as if routing had formed
            done.append(Run(job, result, rows))
    found = plain(frame_precision.summarise("full", done))
    json.dumps(found, allow_nan=False)
    assert {row["verdict"] for row in found["results"].values()} == {"confirmed"}
    assert found["results"]["dynamics.loss-decrease"]["observations"] == 9 * 3
    assert found["results"]["attention.value-law"]["heads"] == 3 * 3 * (4 + 4 + 1)
    assert set(found["by_position"]) == {frame_precision.ROUTED, frame_precision.REPLACED}
    assert set(found["feedback_by_arm"]) == set(arms)
    # what freezing u costs is known of the one-head model alone
    assert "frozen_error" in found["feedback_by_arm"][frame_precision.PUBLISHED]
    assert "frozen_error" not in found["feedback_by_arm"][frame_precision.ROUTED]
    assert found["with_replacement"]["verdict"] in ("supported", "conditional", "not supported")
    assert found["with_replacement"]["effect"] != found["claims"][0]["effect"]


def test_every_run_of_the_plans_is_watched():
    for name in ("laws-in-training", "sticky-markov", "frame-precision"):
        for size in SIZES:
            assert all(job.config.laws for job in EXPERIMENTS[name].plan(size, {})), (name, size)
