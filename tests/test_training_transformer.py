"""The small transformer: its options, its causality, its explicit twin; and distances to a final state."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bayesgrad.training import files, settling, stability, transformer
from bayesgrad.training.config import AdamW, Bijection, Config, Transformer, from_json
from bayesgrad.training.loop import train
from bayesgrad.training.sequence_problem import SequenceModel

TASK = Bijection(values=4, keys=4, batch=16, held_out=32)


def config(**changes) -> Config:
    base = {
        "task": {"kind": "bijection", "values": 4, "keys": 4, "batch": 16, "held_out": 32},
        "model": {"kind": "transformer", "layers": 2, "width": 16, "heads": 2} | changes.pop("model", {}),
        "update": {"kind": "adamw", "rate": 0.005},
        "dtype": "float64",
        "steps": 8,
        "evaluate_every": 4,
        "checkpoint_every": 4,
    }
    return from_json(base | changes)


OPTIONS = [
    {},
    {"positions": "none"},
    {"positions": "rotary"},
    {"residual": False},
    {"norm": False},
    {"mlp": 0},
    {"residual": False, "norm": False, "mlp": 0, "positions": "none", "layers": 1, "heads": 1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_part_can_be_left_out(tmp_path, options):
    c = config(model=options)
    problem = SequenceModel(c, 0)
    parameters = problem.initial()
    batch = problem.batch(0)
    # what the kernel computes is what the explicit operations compute
    fast = transformer.forward(parameters, batch.x, c.model)
    seen = []

    def explicit(asked):
        a = torch.softmax(transformer.scores_of(asked), -1)
        seen.append((a, asked.v))
        return a @ asked.v

    slow = transformer.forward(parameters, batch.x, c.model, attend=explicit)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-12)
    assert len(seen) == c.model.layers
    for a, _ in seen:
        torch.testing.assert_close(a.sum(-1), torch.ones_like(a.sum(-1)))
    # no position sees what comes after it
    later = batch.x.clone()
    later[:, 3:] = (later[:, 3:] + 1) % 8
    changed = transformer.forward(parameters, later, c.model)
    torch.testing.assert_close(changed[:, :3], fast[:, :3], rtol=0, atol=0)
    assert not torch.allclose(changed[:, 3:], fast[:, 3:])
    train(c, 0, tmp_path)
    losses = [row["loss"] for row in files.read_metrics(tmp_path / "metrics.jsonl")]
    assert all(math.isfinite(loss) for loss in losses)


def test_rotary_scores_depend_on_distance_alone():
    rng = np.random.default_rng(0)
    q, k = (torch.tensor(rng.standard_normal(6)).expand(9, 6) for _ in range(2))
    scores = transformer.rotate(q) @ transformer.rotate(k).mT
    for offset in range(1, 9):
        diagonal = scores.diagonal(-offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    torch.testing.assert_close(transformer.rotate(q).norm(dim=-1), q.norm(dim=-1))
    torch.testing.assert_close(transformer.rotate(transformer.rotate(q), back=True), q)


def test_it_learns_the_bijection(tmp_path):
    c = Config(
        task=Bijection(values=3, keys=3, batch=64, held_out=256),
        model=Transformer(layers=1, width=16, heads=2),
        update=AdamW(rate=0.02, clip=1.0),
        steps=120,
        evaluate_every=120,
        snapshots=5,
    )
    result = train(c, 0, tmp_path)
    first, *_, last = (row for row in files.read_metrics(tmp_path / "metrics.jsonl") if "held_out_kl_bits" in row)
    assert last["held_out_kl_bits"] < 0.05 < first["held_out_kl_bits"]
    found = result["stability"]
    assert found["step"] == [0, 30, 60, 90, 120]
    for part in ("attention", "values", "read_out"):
        assert found["distance"][part][0] > 0.05
        assert found["distance"][part][-1] < 1e-6
    assert found["attention_null"] > 0


def test_a_batch_is_a_function_of_seed_and_step():
    one, two = (SequenceModel(config(), 3) for _ in range(2))
    assert torch.equal(one.batch(5).x, two.batch(5).x)
    assert not torch.equal(one.batch(5).x, one.batch(6).x)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"heads": 3}, "heads: got 3, expected a divisor of width = 16"),
        ({"positions": "absolute"}, "positions: got 'absolute'"),
        ({"positions": "rotary", "heads": 16}, "expected an even number for rotary"),
        ({"layers": 0}, "layers: got 0"),
        ({"norm": "yes"}, "norm: got 'yes'"),
    ],
)
def test_impossible_sizes_are_refused(model, words):
    with pytest.raises(ValueError, match=words):
        config(model=model)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"kind": "one-head"}}, r"model\.kind: got 'one-head', expected 'transformer'"),
        ({"update": {"kind": "natural"}}, r"update\.kind: got 'natural'"),
        ({"gradients": "fused"}, "gradients: got 'fused'"),
        ({"task": {"kind": "bijection", "values": 3, "keys": 4}}, "keys: got 4, expected at most 3"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, words):
    base = config().as_json()
    with pytest.raises(ValueError, match=words):
        from_json(base | changes)


def test_settling_is_the_last_time_a_distance_is_large():
    steps = [0, 10, 20, 30, 40]
    assert settling.settled_at(steps, [1.0, 0.05, 0.01, 0.0, 0.0]) == pytest.approx((10 * (0.9 / 0.95)) / 40)
    assert settling.settled_at(steps, [1.0, 0.0, 0.5, 0.0, 0.0]) == pytest.approx((20 + 10 * 0.4 / 0.5) / 40)
    assert settling.settled_at(steps, [0.0, 0.0, 0.0, 0.0, 0.0]) == 0.0


def test_subspace_distance_is_zero_within_and_one_across():
    basis = torch.eye(6, dtype=torch.float64)
    mixed = basis[:, :2] @ torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64)
    assert stability.subspace_distance(basis[:, :2], mixed) == pytest.approx(0, abs=1e-7)
    assert stability.subspace_distance(basis[:, :2], basis[:, 2:4]) == pytest.approx(1)
    assert stability.permutation_null([torch.ones(5, 5)]) is None
