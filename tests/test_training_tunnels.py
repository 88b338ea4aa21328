"""Wind tunnels in the harness: models that see no future, measures against loops, baselines of equal size, the mistake
that a tunnel must not make, and the published sizes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bayesgrad.tasks import bijection, hmm_encoding
from bayesgrad.training import files, transformer, tunnels, wind_tunnel
from bayesgrad.training.config import LSTM, MLP, AdamW, Bijection, Config, Hmm, Muon, Transformer, from_json
from bayesgrad.training.experiments import EXPERIMENTS, tuning
from bayesgrad.training.experiments import bijection as x4
from bayesgrad.training.experiments import hmm as x5
from bayesgrad.training.loop import train
from bayesgrad.training.muon import inner, orthogonalised
from bayesgrad.training.runs import Run
from bayesgrad.training.sequence_problem import SequenceModel
from bayesgrad.training.sources import CHECKOUT
from bayesgrad.training.update_rules import Oracle
from bayesgrad.training.updates import make_update

TASKS = {
    "bijection": Bijection(values=4, keys=4, batch=8, held_out=16),
    "with": Bijection(values=4, keys=6, protocol="with", batch=8, held_out=16),
    "rows": Hmm(steps=4, test_steps=7, batch=8, held_out=16),
    "published": Hmm(steps=3, test_steps=4, generator="published", header="published", batch=4, held_out=8),
    "posterior": Hmm(states=3, symbols=4, steps=4, test_steps=6, target="posterior", batch=8, held_out=16),
}
MODELS = {
    "transformer": Transformer(layers=2, width=16, heads=2),
    "rotary": Transformer(layers=2, width=16, heads=2, positions="rotary"),
    "upper": Transformer(layers=3, width=16, heads=2, attention_layers=1),
    "alone": Transformer(layers=2, width=16, heads=2, attention_layers=0),
    "lstm": LSTM(layers=2, width=12),
    "mlp": MLP(layers=2, width=12),
}


def config(task, model, **changes) -> Config:
    given = {"update": AdamW(rate=0.005, clip=1.0), "steps": 6, "evaluate_every": 3, "checkpoint_every": 2}
    return Config(task=TASKS[task], model=MODELS[model], **given | changes)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("task", TASKS)
def test_every_model_runs_on_every_task_and_sees_no_future(task, model):
    c = config(task, model, dtype="float64")
    problem = SequenceModel(c, 0)
    parameters, x = problem.initial(), problem.held.batch.x
    z = problem.logits(parameters, x)
    assert z.shape == problem.held.bayes.shape
    last = c.task.context - 1  # the last token is the last supervised one: only its own logits may know it
    changed = x.clone()
    changed[:, last] = changed[:, last].roll(1, -1) if x.is_floating_point() else (changed[:, last] + 1) % 3
    w = problem.logits(parameters, changed)
    torch.testing.assert_close(w[:, :-1], z[:, :-1], rtol=0, atol=1e-12)
    assert not torch.allclose(w[:, -1], z[:, -1])
    if model == "alone":
        earlier = x.clone()
        earlier[:, :last] = earlier[:, :last].flip(0)
        torch.testing.assert_close(problem.logits(parameters, earlier)[:, -1], z[:, -1], rtol=0, atol=1e-12)
    # a shorter sequence is the beginning of a longer one
    short = problem.probabilities(parameters, positions=2)
    np.testing.assert_allclose(short, torch.softmax(z[:, :2], -1).numpy(), atol=1e-12)


@pytest.mark.parametrize("model", ["transformer", "rotary", "upper", "alone"])
def test_what_nobody_asks_about_is_not_computed_and_the_rest_is_the_same(model):
    for task in ("bijection", "rows"):
        c = config(task, model, dtype="float64")
        problem = SequenceModel(c, 1)
        parameters = {k: v.requires_grad_() for k, v in problem.initial().items()}
        batch, at = problem.batch(0), c.task.supervised
        z = transformer.logits(parameters, batch.x, c.model, at)
        whole = transformer.forward(parameters, batch.x, c.model)[:, at] @ parameters["read_out"]
        torch.testing.assert_close(z, whole, rtol=1e-10, atol=1e-12)
        seed = torch.randn(z.shape, dtype=z.dtype, generator=torch.Generator().manual_seed(0))
        left = torch.autograd.grad((z * seed).sum(), list(parameters.values()))
        right = torch.autograd.grad((whole * seed).sum(), list(parameters.values()))
        for a, b in zip(left, right, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("model", MODELS)
def test_nothing_is_left_on_another_device(model):
    """The meta device takes part in no computation with a processor's tensor, as a GPU takes part in none."""
    for task in ("bijection", "rows"):
        c = config(task, model)
        problem = SequenceModel(c, 0)
        parameters = {name: value.to("meta") for name, value in problem.initial().items()}
        z = problem.logits(parameters, problem.batch(0).x.to("meta"))
        assert z.is_meta
        assert z.shape[-1] == c.task.classes
        if c.model.kind == "transformer":
            transformer.look(parameters, problem.batch(0).x.to("meta"), c.model)


def test_the_flattened_context_is_a_dense_layer_on_what_has_been_shown():
    c = config("bijection", "mlp", dtype="float64")
    problem = SequenceModel(c, 0)
    p, x = problem.initial(), problem.held.batch.x[:3]
    z = problem.logits(p, x)
    for b in range(3):
        for t in range(4):
            at = 2 * t
            flat = torch.zeros(c.task.context, c.task.vocabulary, dtype=torch.float64)
            for j in range(at + 1):
                flat[j, x[b, j]] = 1.0
            h = flat.flatten() @ p["slots"].flatten(0, 1) + p["current"][x[b, at]] + p["offset"][at]
            h = F.gelu(h)
            y = F.layer_norm(h, (12,), p["layer1.gain"], p["layer1.bias"])
            h = h + F.gelu(y @ p["layer1.W_in"] + p["layer1.b_in"]) @ p["layer1.W_out"] + p["layer1.b_out"]
            expected = F.layer_norm(h, (12,), p["norm.gain"], p["norm.bias"]) @ p["read_out"]
            torch.testing.assert_close(z[b, t], expected)


@pytest.mark.parametrize(("task", "model"), [("rows", "lstm"), ("posterior", "rotary"), ("with", "mlp")])
def test_a_resumed_run_is_the_same_run(tmp_path, task, model):
    for update in (AdamW(rate=0.005, clip=1.0, warm_up=2, cosine=True), Muon(clip=1.0, warm_up=2, cosine=True)):
        c = config(task, model, update=update)
        one, two = tmp_path / f"one-{update.kind}", tmp_path / f"two-{update.kind}"
        whole = train(c, 0, one)
        asked = iter(range(100))
        assert train(c, 0, two, stopping=lambda asked=asked: next(asked) == 3)["state"] == "interrupted"
        rest = train(c, 0, two)
        for result in (whole, rest):
            result.pop("seconds")
        assert json.dumps(whole) == json.dumps(rest)
        assert (one / "metrics.jsonl").read_bytes() == (two / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("task", ["with", "rows"])
def test_measures_are_what_loops_over_sequences_say(task):
    c = config(task, "transformer")
    problem = SequenceModel(c, 2)
    found = problem.final(problem.initial())
    p, q = problem.held.bayes, problem.probabilities(problem.initial())
    n = problem.tunnel.trained_to

    def entropy(row) -> float:
        return -sum(v * math.log2(v) for v in row if v > 0)

    kl = [[sum(a * math.log2(a / b) for a, b in zip(*rows, strict=True) if a > 0) for rows in zip(*each, strict=True)]
          for each in zip(p, q, strict=True)]  # fmt: skip
    gap = [[abs(entropy(a) - entropy(b)) for a, b in zip(*each, strict=True)] for each in zip(p, q, strict=True)]
    np.testing.assert_allclose(found["by_position"]["kl_bits"], np.mean(kl, 0), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found["by_position"]["entropy_mae_bits"], np.mean(gap, 0), rtol=1e-6, atol=1e-12)
    assert found["ranges"]["in_range"]["kl_bits"] == pytest.approx(np.mean([row[:n] for row in kl]))
    if task == "rows":
        assert found["ranges"]["beyond"]["kl_bits"] == pytest.approx(np.mean([row[n:] for row in kl]))
        assert found["memory"]["windows"] == [1, 2, 3]
    else:
        assert found["memory"] is None
        assert "beyond" not in found["ranges"]
    cells = np.zeros((wind_tunnel.BINS, wind_tunnel.BINS), int)
    for said, exactly in zip(q[:, :n].ravel(), p[:, :n].ravel(), strict=True):
        row, column = (
            min(int(np.searchsorted(found["calibration"]["edges"], v, "right")) - 1, 19) for v in (said, exactly)
        )
        cells[row, column] += 1  # the model's probability first
    assert np.array_equal(found["calibration"]["counts"], cells)
    assert found["traces"][1]["kl_bits"] == pytest.approx(kl[1], rel=1e-6)
    # Bayes itself is followed everywhere, remembers most, and has no excess
    exact = wind_tunnel.measure(p, p, problem.held.batch.targets.numpy(), problem.held.floors, n)
    assert exact["ranges"]["in_range"]["kl_bits"] == pytest.approx(0, abs=1e-12)
    assert exact["by_sequence"]["share_followed"] in (1.0, None)
    assert abs(exact["excess"]["mean_bits"]) < 1e-12
    if task == "rows":
        assert exact["memory"]["at_least"]


def test_a_wrong_exact_predictive_shows_as_excess():
    tunnel = tunnels.make_tunnel(replace(TASKS["bijection"], values=5, keys=5, held_out=3000))
    held = tunnel.held_out(np.random.default_rng(0), torch.float32)
    outcomes, uniform = held.batch.targets.numpy(), np.full_like(held.bayes, 0.2)
    assert abs(wind_tunnel.excess(held.bayes, uniform, outcomes)["z"]) < 4.5
    wrong = held.bayes.copy()
    wrong[:, 1] = 0.9 * wrong[:, 1] + 0.1 * uniform[:, 1]  # a little mass on the value that is gone
    assert abs(wind_tunnel.excess(wrong, uniform, outcomes)["z"]) > 4.5


class Mislabelled(SequenceModel):
    """The mistake: the label of each value token is that value, its own input."""

    def _loss(self, parameters, batch):
        z = transformer.logits(parameters, batch.x, self.model, slice(1, None, 2))
        return F.cross_entropy(z.flatten(0, 1), batch.targets[:, :-1].flatten())


def test_training_on_its_own_input_teaches_copying_and_stays_at_the_uniform_floor():
    c = Config(
        task=Bijection(values=4, keys=4, batch=64, held_out=256),
        model=Transformer(layers=1, width=24, heads=2),
        update=AdamW(rate=0.02, clip=1.0),
        steps=150,
    )
    losses, distances = [], []
    for kind in (SequenceModel, Mislabelled):
        problem = kind(c, 0)
        rule, parameters = make_update(c.update), problem.initial()
        state = rule.start(parameters)
        for step in range(c.steps):
            done = rule(parameters, Oracle(problem.loss_and_gradients, problem.batch(step)), state)
            parameters, state = done.parameters, done.state
        losses.append(float(done.loss))
        distances.append(problem.evaluate(parameters)["held_out_kl_bits"])
    uniform = problem.final(parameters)["facts"]["floors"]["uniform"]["kl_bits"]
    assert losses[1] < 0.01 < losses[0]  # its own loss looks splendid
    assert distances[0] < 0.25 * uniform < uniform <= distances[1] * 1.05


def test_the_pipeline_refuses_a_label_on_its_own_input(monkeypatch):
    right = bijection.sample

    def wrong(*given, **named):
        drawn = right(*given, **named)
        tokens = drawn.tokens.copy()
        tokens[:, 0::2] = named["values"] + drawn.targets
        return bijection.Sequences(tokens, drawn.targets)

    monkeypatch.setattr(bijection, "sample", wrong)
    with pytest.raises(AssertionError, match="its own target as its input"):
        SequenceModel(config("bijection", "transformer"), 0).batch(0)


@pytest.mark.parametrize("task", ["rows", "published"])
def test_the_pipeline_refuses_an_observation_that_is_its_own_target(monkeypatch, task):
    right = hmm_encoding.encode
    monkeypatch.setattr(hmm_encoding, "encode", lambda T, E, shown, header: right(T, E, np.roll(shown, -1, 1), header))
    with pytest.raises(AssertionError, match="its own target as its input"):
        SequenceModel(config(task, "transformer"), 0).batch(0)


@pytest.mark.parametrize("shape", [(3, 6, 6), (2, 5, 9), (2, 9, 5)])
def test_muon_moves_singular_values_to_one_and_keeps_the_vectors(shape):
    x = torch.tensor(np.random.default_rng(0).standard_normal(shape))
    y = orthogonalised(x)
    for a, b in zip(x, y, strict=True):
        u, _, v = torch.linalg.svd(a, full_matrices=False)
        inside = u.mT @ b @ v.mT
        torch.testing.assert_close(inside, torch.diag(inside.diagonal()), rtol=0, atol=1e-9)
        assert inside.diagonal().min() > 0.3
        assert inside.diagonal().max() < 1.3


class Given:
    """An oracle with gradients that are chosen: theirs iterates in bfloat16, which wants a matrix that is no limit
    case."""

    def __init__(self, gradients) -> None:
        self.given = gradients

    def gradients(self, parameters):
        return torch.zeros(()), self.given


def test_muon_is_pytorchs_on_matrices_and_adam_elsewhere():
    start = SequenceModel(config("bijection", "transformer"), 0).initial()
    rng = np.random.default_rng(0)
    direction = {}
    for name, value in start.items():
        g = torch.tensor(rng.standard_normal(value.shape), dtype=value.dtype)
        if inner(name, value):
            u, _, v = torch.linalg.svd(g, full_matrices=False)
            g = u @ torch.diag(torch.linspace(1, 2, min(g.shape))) @ v
        direction[name] = g
    rule = make_update(Muon(rate=0.02, rate_other=0.005))
    ours, state = start, rule.start(start)
    theirs = {k: v.clone() for k, v in start.items()}
    matrices = [v for k, v in theirs.items() if inner(k, v)]
    rest = [v for k, v in theirs.items() if not inner(k, v)]
    both = [torch.optim.Muon(matrices, lr=0.02, weight_decay=0), torch.optim.AdamW(rest, 0.005, (0.9, 0.99), 1e-8, 0)]
    for size in (1.0, -0.9, 2.0, 0.5):  # the second turns what looks ahead and leaves the momentum
        gradients = {k: size * g for k, g in direction.items()}
        done = rule(ours, Given(gradients), state)
        ours, state = done.parameters, done.state
        for name, value in theirs.items():
            value.grad = gradients[name]
        for each in both:
            each.step()
    for name, value in theirs.items():
        moved = (value - start[name]).norm()
        tolerance = 0.02 if inner(name, value) else 1e-5
        assert (ours[name] - value).norm() < tolerance * moved, name


def sizes(arms, task) -> dict[str, int]:
    made = {arm: SequenceModel(Config(task=task, model=model), 0).initial() for arm, model in arms.items()}
    return {arm: sum(v.numel() for k, v in p.items()) for arm, p in made.items()}


def test_baselines_have_the_transformers_number_of_parameters():
    task = Bijection(values=8, keys=8, held_out=2)
    found = sizes(x4.SMALL, task)
    assert all(abs(n / found[x4.TRANSFORMER] - 1) < 0.02 for n in found.values()), found
    hidden = Hmm(held_out=2)
    found = sizes(x5.SMALL, hidden)
    table = hidden.context * x5.SMALL[x5.LEARNED].width
    assert found.pop(x5.ROTARY) == found[x5.LEARNED] - table
    assert all(abs(n / found[x5.LEARNED] - 1) < 0.02 for n in found.values()), found


def test_the_search_goes_on_until_its_best_rate_is_inside():
    def make(rate: float) -> Config:
        return Config(task=TASKS["bijection"], model=MODELS["lstm"], update=AdamW(rate=rate), steps=1)

    for best, tried in ((0.004, {0.002, 0.004, 0.008}), (0.032, {0.002, 0.004, 0.008, 0.016, 0.032, 0.064})):
        done: dict[str, Run] = {}
        while True:
            jobs, found = tuning.tuned("toy", {"arm": make}, 2, done)
            new = [job for job in jobs if job.name not in done]
            if not new:
                break
            for job in new:
                rate = job.config.update.rate
                state = "finished" if rate < 0.05 else "diverged"
                row = {"step": 1, "loss": 0.0, "held_out_kl_bits": abs(math.log(rate / best))}
                done[job.name] = Run(job, {"state": state}, [row])
        assert found == {"arm": best}
        assert {job.config.update.rate for job in jobs if job.role == "tuning"} == tried
        assert {job.seed for job in jobs if job.role == "tuning"} == {tuning.SEED}
        finals = [job for job in jobs if job.role == "final"]
        assert [(job.seed, job.config.update.rate) for job in finals] == [(0, best), (1, best)]


@pytest.mark.parametrize("each", EXPERIMENTS.values(), ids=lambda each: each.id)
@pytest.mark.parametrize("size", ["quick", "full"])
def test_an_arm_is_one_config_and_each_seed_runs_once(each, size):
    """With every search answered at once: rates near the bottom of the ladder do best."""
    done: dict[str, Run] = {}
    for _ in range(20):
        jobs = each.plan(size, done)
        new = [job for job in jobs if job.name not in done]
        if not new:
            break
        for job in new:
            row = {"step": 1, "loss": 0.5, "held_out_kl_bits": getattr(job.config.update, "rate", 0.0)}
            done[job.name] = Run(job, {"state": "finished"}, [{"step": 0, "loss": 1.0}, row])
    else:
        raise AssertionError("the plan never ends")
    finals = [job for job in jobs if job.role == "final"]
    for arm in {job.arm for job in finals}:
        members = [job for job in finals if job.arm == arm]
        assert len({job.config.hash for job in members}) == 1, arm
        assert sorted(job.seed for job in members) == list(range(len(members))), arm


PUBLISHED = sorted((CHECKOUT / "configs").glob("*.json"))


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_published_sizes_build_run_three_steps_and_resume(tmp_path, path: Path):
    """At the published width and depth; a small batch, because this is one core."""
    whole = from_json(files.read_json(path, "a config"))
    assert (whole.model.layers, whole.model.width, whole.model.heads) == (6, 192, 6)
    assert (whole.task.batch, whole.steps, whole.update.warm_up) == (256, 50_000, 2_000)
    c = replace(
        whole, task=replace(whole.task, batch=2, held_out=2), steps=3, evaluate_every=3, checkpoint_every=1, snapshots=0
    )
    asked = iter(range(100))
    stopped = train(c, 0, tmp_path, stopping=lambda: next(asked) == 2)
    assert (stopped["state"], stopped["step"]) == ("interrupted", 2)
    result = train(c, 0, tmp_path)
    assert (result["state"], result["step"]) == ("finished", 3)
    assert 2.6e6 < result["parameters"] < 2.75e6
    rows = files.read_metrics(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]


def test_there_are_published_sizes():
    assert {path.stem for path in PUBLISHED} >= {"published-bijection", "published-hmm"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": {"kind": "bijection", "values": 1}}, "values: got 1"),
        ({"task": {"kind": "bijection", "values": 4, "keys": 5}}, "keys: got 5, expected at most 4"),
        ({"task": {"kind": "hmm", "test_steps": 3}}, "test_steps: got 3, expected a whole number of at least 20"),
        ({"task": {"kind": "hmm", "rho": 1.0}}, "rho: got 1.0"),
        ({"task": {"kind": "hmm", "generator": "sticky"}}, "generator: got 'sticky'"),
        ({"task": {"kind": "hmm", "header": "matrix"}}, "header: got 'matrix'"),
        ({"task": {"kind": "hmm", "header": "published"}}, "header: got 'published' with the generator 'long-memory'"),
        ({"task": {"kind": "hmm", "target": "state"}}, "target: got 'state'"),
        ({"model": {"kind": "transformer", "attention_layers": 3}}, "attention_layers: got 3, expected at most"),
        ({"model": {"kind": "lstm", "width": 0}}, "width: got 0"),
        ({"model": {"kind": "lstm"}, "snapshots": 3}, "snapshots: got 3, expected 0"),
        ({"model": {"kind": "one-head"}}, r"model\.kind: got 'one-head'"),
    ],
)
def test_tasks_that_are_none_are_refused(change, words):
    base = {"task": {"kind": "bijection"}, "model": {"kind": "transformer"}, "update": {"kind": "adamw"}}
    with pytest.raises(ValueError, match=words):
        from_json(base | change)
