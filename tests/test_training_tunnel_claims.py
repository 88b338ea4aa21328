"""The judges of the wind tunnels can say each of their verdicts, and say "not tested" of a baseline that was not
trained."""

from __future__ import annotations

from typing import Any

import pytest

from bayesgrad.training import claims
from bayesgrad.training.config import Config
from bayesgrad.training.experiments import bijection as x4
from bayesgrad.training.experiments import hmm as x5
from bayesgrad.training.experiments import tunnel_records
from bayesgrad.training.runs import Job, Run

UNIFORM = 0.5


def run(arm: str, seed: int, kl: float, **result: Any) -> Run:
    near = {"kl_bits": kl, "entropy_mae_bits": kl / 2}
    floors = {"uniform": {"kl_bits": UNIFORM}}
    body = {"state": "finished", "ranges": {"in_range": near}, "facts": {"floors": floors}, **result}
    return Run(Job("toy", arm, Config(steps=1), seed), body, [])


def arm(name: str, kls: list[float], **result: Any) -> list[Run]:
    return [run(name, seed, kl, **result) for seed, kl in enumerate(kls)]


def verdict(claim: str, runs: list[Run]) -> str:
    row = claims.judge(claim, runs)
    assert len(row["criterion_sha"]) == 64
    return str(row["verdict"])


GOOD = [0.001, 0.002, 0.0015]


@pytest.mark.parametrize(
    ("kls", "expected"),
    [
        (GOOD, claims.SUPPORTED),
        ([0.02, 0.03, 0.04], claims.CONDITIONAL),
        ([0.001, 0.001, 0.2], claims.NOT_SUPPORTED),
        ([], claims.NOT_TESTED),
    ],
)
def test_reaching_bayes(kls, expected):
    assert verdict("transformer-reaches-bayes", arm(x4.TRANSFORMER, kls)) == expected


@pytest.mark.parametrize(
    ("kls", "expected"),
    [
        ([0.2, 0.21, 0.22], claims.SUPPORTED),
        ([0.01, 0.012, 0.011], claims.CONDITIONAL),
        ([0.001, 0.0021, 0.0014], claims.NOT_SUPPORTED),
        ([0.5, 0.2, 0.2], claims.NOT_TESTED),  # one seed sits at the uniform floor: not trained, so nothing is shown
        ([], claims.NOT_TESTED),
    ],
)
def test_the_perceptron(kls, expected):
    runs = [*arm(x4.TRANSFORMER, GOOD), *arm(x4.FLATTENED, kls), *arm(x4.ALONE, [UNIFORM] * 3)]
    assert verdict("mlp-fails", runs) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.99, claims.SUPPORTED), (0.8, claims.CONDITIONAL), (0.3, claims.NOT_SUPPORTED), (None, claims.NOT_TESTED)],
)
def test_following_single_sequences(share, expected):
    runs = [] if share is None else arm(x4.REPLACED, GOOD, by_sequence={"share_followed": share})
    assert verdict("tracks-single-sequences", runs) == expected
    untrained = arm(x4.REPLACED, [UNIFORM, *GOOD[1:]], by_sequence={"share_followed": share})
    assert verdict("tracks-single-sequences", untrained) == claims.NOT_TESTED


def remembering(name: str, kls: list[float], memories: list[float]) -> list[Run]:
    return [
        run(name, seed, kl, memory={"equivalent_memory": memory, "at_least": False})
        for seed, (kl, memory) in enumerate(zip(kls, memories, strict=True))
    ]


@pytest.mark.parametrize(
    ("memories", "larger", "expected"),
    [
        ([2.6, 2.7, 2.8], [], claims.SUPPORTED),
        ([1.8, 2.3, 2.4], [5.0], claims.CONDITIONAL),
        ([1.8, 2.3, 2.4], [1.9], claims.NOT_SUPPORTED),
        ([], [], claims.NOT_TESTED),
    ],
)
def test_filtering(memories, larger, expected):
    runs = remembering(x5.LEARNED, [0.01] * len(memories), memories)
    runs += remembering(x5.LONG, [0.004] * len(larger), larger)
    assert verdict("hmm-transformer-filters", runs) == expected


@pytest.mark.parametrize(
    ("kls", "memories", "expected"),
    [
        ([0.03, 0.04, 0.05], [1.5, 1.3, 1.1], claims.SUPPORTED),
        ([0.03, 0.04, 0.05], [1.5, 1.3, 2.1], claims.CONDITIONAL),
        ([0.001, 0.001, 0.001], [9.0, 9.0, 9.0], claims.NOT_SUPPORTED),
        ([0.03, 0.04, 0.49], [1.5, 1.3, 0.0], claims.NOT_TESTED),
    ],
)
def test_the_lstm(kls, memories, expected):
    runs = remembering(x5.LEARNED, [0.01, 0.011, 0.012], [3.0, 3.0, 3.0]) + remembering(x5.RECURRENT, kls, memories)
    assert verdict("lstm-fails-on-hmm", runs) == expected


def beyond(name: str, factors: list[float]) -> list[Run]:
    curves = [{"trained_to": 10, "kl_bits": [0.01] * 10 + [0.01 * factor] * 5 + [9.0] * 5} for factor in factors]
    return [run(name, seed, 0.01, by_position=curve) for seed, curve in enumerate(curves)]


@pytest.mark.parametrize(
    ("learned", "rotary", "expected"),
    [
        ([1.1, 1.2, 1.3], [9.0, 9.0, 9.0], claims.SUPPORTED),
        ([3.0, 4.0, 5.0], [1.1, 1.2, 1.3], claims.CONDITIONAL),
        ([3.0, 4.0, 5.0], [1.1, 1.2, 3.0], claims.NOT_SUPPORTED),
        ([], [], claims.NOT_TESTED),
    ],
)
def test_lengths_beyond_the_trained(learned, rotary, expected):
    assert verdict("length-generalisation-smooth", beyond(x5.LEARNED, learned) + beyond(x5.ROTARY, rotary)) == expected


def test_a_contradicted_predictive_is_said_so():
    for z, expected in ((1.0, "confirmed"), (-5.0, "not confirmed")):
        runs = [run("a", 0, 0.1, excess={"z": 0.3}), run("a", 1, 0.1, excess={"z": z})]
        row = tunnel_records.observed(runs, ("bayes.bijection",))["bayes.bijection"]
        assert (row["verdict"], row["worst"]) == (expected, z)
