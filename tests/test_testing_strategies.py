"""The strategies build what they promise, the same for everybody, and print it as code."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, find, settings
from hypothesis import strategies as st

import bayesgrad.testing as kit
from bayesgrad.testing import draws, models, strategies
from bayesgrad.testing.strategies import example_of

ALL = {
    "heads": strategies.heads(),
    "logits": strategies.logits(),
    "layers": strategies.layers(),
    "grouped layers": strategies.layers(heads=((2, 1), (4, 2), (3, 3))),
    "joints": strategies.joints(),
    "simplices": strategies.simplices(),
    "sequences": strategies.sequences(),
    "pairs": strategies.pairs(),
    "hmms": strategies.hmms(),
    "noisy chains": strategies.noisy_chains(),
}


@pytest.mark.parametrize("name", ALL)
def test_an_example_prints_as_the_code_that_rebuilds_it(name: str) -> None:
    names = {"np": np, "Fraction": Fraction, **vars(kit), **vars(models), **vars(strategies)}
    for example in example_of(ALL[name], 25):
        again = eval(repr(example), names)
        assert again == example
        assert hash(again) == hash(example)
        for tensor in example.tensors().values():
            assert np.all(np.isfinite(tensor))


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_examples(name: str) -> None:
    assert example_of(ALL[name], 15, seed=4) == example_of(ALL[name], 15, seed=4)
    assert example_of(ALL[name], 15, seed=4) != example_of(ALL[name], 15, seed=5)


def test_sizes_are_pairwise_different_except_in_squares() -> None:
    squares = 0
    for head in example_of(strategies.heads(), 300):
        n, m, d_k, d_v = head.sizes.values()
        squares += n == m
        assert len({n, m, d_k, d_v}) == (3 if n == m else 4)
        assert m >= 2
    assert 30 < squares < 150
    for layer in example_of(strategies.layers(cross=True), 100):
        assert len({*layer.x.shape, layer.memory.shape[0], layer.d_k, layer.d_v, layer.W_O.shape[1]}) == 6


def test_no_query_is_blind_and_one_sees_two_keys() -> None:
    kinds = set()
    for example in (*example_of(strategies.heads(), 200), *example_of(strategies.layers(), 200)):
        seen = example.visible.sum(-1)
        assert seen.min() >= 1
        assert seen.max() >= 2
        kinds.add(example.mask is None)
    assert kinds == {True, False}


def test_every_option_is_drawn() -> None:
    drawn = example_of(strategies.heads(), 200)
    for name in ("mask", "bias", "dropout", "scale"):
        assert {getattr(head, name) is None for head in drawn} == {True, False}, name
    assert any(head.scale is not None and head.scale < 0 for head in drawn)
    assert any((head.multiplier == 0).any() for head in drawn)
    logits = example_of(strategies.logits(), 200)
    assert any((one.targets == -100).any() for one in logits)
    assert {one.class_weights is None for one in logits} == {True, False}
    assert all((one.targets != -100).any() for one in logits)


def test_entries_are_exact_in_single_precision() -> None:
    for head in example_of(strategies.heads(), 50):
        for x in (head.q, head.k, head.v, head.u):
            assert np.array_equal(x, x.astype(np.float32))


def test_options_switch_parts_off() -> None:
    plain = strategies.heads(masks=False, biases=False, dropout=False, scales=(None,), squares=False)
    for head in example_of(plain, 100):
        assert head.mask is None
        assert head.bias is None
        assert head.dropout is None
        assert head.scale is None
        assert head.sizes["n"] != head.sizes["m"]


def test_probabilities_are_distributions_and_zeros_occur() -> None:
    zeros = 0
    for joint in example_of(strategies.joints(), 100):
        for weights in (joint.contexts, joint.beliefs, joint.inputs, joint.outcomes):
            assert weights.min() >= 0
            assert weights.sum(-1).min() > 0
            np.testing.assert_allclose(models.floats(weights).sum(-1), 1, rtol=1e-15)
        zeros += int((joint.outcomes == 0).sum())
        assert joint.contexts.min() > 0
    assert zeros > 100
    for example in example_of(strategies.sequences(), 50):
        assert example.weights[tuple(example.outcomes)] > 0
        assert sum(example.conditional(0)) == 1


def test_shrinking_ends_at_a_small_readable_block() -> None:
    least = find(
        strategies.heads(),
        lambda head: head.q.shape[0] >= 2 and head.mask is not None,
        settings=settings(max_examples=2000, suppress_health_check=list(HealthCheck)),
    )
    # Every entry is back at its base, an eighth.
    assert np.array_equal(least.q * 8, np.round(least.q * 8))
    assert least.bias is None
    assert len(repr(least)) < 500


def test_a_strategy_that_asks_for_too_many_entries_says_so() -> None:
    entries = strategies.Entries(lambda _: b"\0\0\0", 3)
    entries.reals(3)
    with pytest.raises(AssertionError, match="more entries than it announced"):
        entries.reals(1)


def test_no_profile_runs_out_of_step_sizes() -> None:
    drawn = {example.eta for example in example_of(strategies.rates(), 600)}
    assert len(drawn) > 400
    assert min(drawn) >= 1 / 64
    assert max(drawn) <= 64


def test_draws_do_not_depend_on_what_else_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn() -> list[int]:
        seen: list[int] = []
        draws.run_on_draws(seen.append, st.integers(0, 10**9), examples=300, seed=1, shrink=False)
        return seen

    before = drawn()
    module = tmp_path / "full_of_constants.py"
    module.write_text("\n".join(f"x_{n} = {n * n * n}" for n in range(20, 900)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("full_of_constants", module)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "full_of_constants", importlib.util.module_from_spec(spec))
    assert drawn() == before
    # Left alone, Hypothesis does look there; if this fails, bayesgrad.testing.draws has nothing left to do.
    monkeypatch.setattr(draws, "no_foreign_constants", contextlib.nullcontext)
    assert drawn() != before
