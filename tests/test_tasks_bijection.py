"""The bijection task against exhaustive enumeration of permutations in exact rationals."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest

from bayesgrad.tasks import bijection


def enumerated(tokens: list[int], values: int) -> list[list[Fraction]]:
    """p(next value | prefix) at each key position, counting the permutations that agree with the prefix."""
    out = []
    for t in range(0, len(tokens), 2):
        pairs = [(tokens[s], tokens[s + 1] - values) for s in range(0, t, 2)]
        left = [p for p in itertools.permutations(range(values)) if all(p[k] == v for k, v in pairs)]
        out.append([Fraction(sum(p[tokens[t]] == v for p in left), len(left)) for v in range(values)])
    return out


@pytest.mark.parametrize("protocol", bijection.PROTOCOLS)
def test_predictive_counts_permutations(protocol):
    values, keys = 4, 4
    drawn = bijection.sample(np.random.default_rng(0), 60, values=values, keys=keys, protocol=protocol)
    got = bijection.predictive(drawn.tokens, values)
    for tokens, found in zip(drawn.tokens.tolist(), got, strict=True):
        expected = [[float(p) for p in row] for row in enumerated(tokens, values)]
        np.testing.assert_allclose(found, expected, atol=1e-15)


def test_every_prefix_of_every_permutation_of_three():
    for permutation in itertools.permutations(range(3)):
        for asked in itertools.product(range(3), repeat=3):
            tokens = [x for key in asked for x in (key, 3 + permutation[key])][:-1]
            expected = [[float(p) for p in row] for row in enumerated(tokens, 3)]
            np.testing.assert_allclose(bijection.predictive(np.array([tokens]), 3)[0], expected, atol=1e-15)


@pytest.mark.parametrize("protocol", bijection.PROTOCOLS)
@pytest.mark.parametrize(("values", "keys"), [(2, 2), (3, 2), (3, 3), (4, 3), (4, 4)])
def test_predictive_is_that_of_the_joint_law(protocol, values, keys):
    """Every permutation with every choice of keys, each with its exact weight: the law of the value given all that
    stands before it, the keys that were asked included (they tell nothing about the permutation)."""
    choices = {
        "without": list(itertools.permutations(range(values), keys)),
        "with": list(itertools.product(range(values), repeat=keys)),
    }[protocol]
    everything = [
        [x for key in asked for x in (key, values + permutation[key])]
        for permutation in itertools.permutations(range(values))
        for asked in choices
    ]
    weight = Fraction(1, len(everything))
    joint: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for tokens in everything:
        for t in range(keys):
            joint[tuple(tokens[: 2 * t + 1])][tokens[2 * t + 1] - values] += weight
    tokens = np.array(everything)[:, :-1]
    want = {  # division of rationals, and only then floats
        prefix: [float(law[v] / law.total()) for v in range(values)] for prefix, law in joint.items()
    }
    expected = [[want[tuple(row[: 2 * t + 1])] for t in range(keys)] for row in tokens.tolist()]
    np.testing.assert_allclose(bijection.predictive(tokens, values), expected, rtol=1e-15)


@pytest.mark.parametrize("protocol", bijection.PROTOCOLS)
def test_every_permutation_and_every_choice_of_keys_comes_equally_often(protocol):
    count = 40_000
    drawn = bijection.sample(np.random.default_rng(4), count, values=3, keys=3, protocol=protocol)
    seen = Counter(map(tuple, np.concatenate([drawn.tokens, drawn.targets[:, -1:]], 1).tolist()))
    laws = Counter(
        tuple(x for s, key in enumerate(asked) for x in (key, permutation[key] + 3 * (s < 2)))
        for permutation in itertools.permutations(range(3))
        for asked in (
            itertools.permutations(range(3)) if protocol == "without" else itertools.product(range(3), repeat=3)
        )
    )
    assert set(seen) <= set(laws)
    for tokens, ways in laws.items():  # five standard deviations of a count
        p = ways / laws.total()
        assert abs(seen[tokens] - count * p) < 5 * (count * p * (1 - p)) ** 0.5


def mislabelled(drawn: bijection.Sequences, values: int) -> bijection.Sequences:
    """The mistake to be afraid of: each supervised position shows its own value, which teaches copying."""
    tokens = drawn.tokens.copy()
    tokens[:, 0::2] = values + drawn.targets
    tokens[:, 1::2] = drawn.tokens[:, 0:-1:2]
    return bijection.Sequences(tokens, drawn.targets)


def leaks(drawn: bijection.Sequences, values: int) -> bool:
    """Whether a supervised position shows a value, or its target anywhere but right after itself."""
    at = drawn.tokens[:, drawn.supervised]
    following = drawn.tokens[:, drawn.supervised[:-1] + 1] - values
    return bool((at >= values).any() or (following != drawn.targets[:, :-1]).any())


@pytest.mark.parametrize("protocol", bijection.PROTOCOLS)
def test_a_label_on_its_own_input_is_told_from_a_right_one(protocol):
    drawn = bijection.sample(np.random.default_rng(5), 100, values=6, keys=5, protocol=protocol)
    assert not leaks(drawn, 6)
    wrong = mislabelled(drawn, 6)
    np.testing.assert_array_equal(wrong.tokens[:, wrong.supervised] - 6, wrong.targets)
    assert leaks(wrong, 6)


@pytest.mark.parametrize("protocol", bijection.PROTOCOLS)
def test_same_seed_same_numbers(protocol):
    one, two, other = (
        bijection.sample(np.random.default_rng(seed), 50, values=9, keys=7, protocol=protocol) for seed in (6, 6, 7)
    )
    for name in ("tokens", "targets"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert (getattr(one, name) != getattr(other, name)).any()


def test_entropy_without_replacement_is_log_of_what_is_left():
    drawn = bijection.sample(np.random.default_rng(1), 50, values=6, keys=6)
    p = bijection.predictive(drawn.tokens, 6)
    entropy = -np.where(p > 0, p * np.log2(np.where(p > 0, p, 1)), 0).sum(-1)
    np.testing.assert_allclose(entropy, np.broadcast_to(np.log2(6 - np.arange(6)), entropy.shape), atol=1e-12)
    assert bijection.floor_bits(20, 19) == pytest.approx(3.2146, abs=5e-5)


def test_the_pipeline_is_a_permutation_and_no_target_is_its_own_input():
    drawn = bijection.sample(np.random.default_rng(2), 200, values=7, keys=7)
    np.testing.assert_array_equal(np.sort(drawn.targets, -1), np.broadcast_to(np.arange(7), (200, 7)))
    np.testing.assert_array_equal(drawn.tokens[:, 1::2] - 7, drawn.targets[:, :-1])
    assert (drawn.tokens[:, 0::2] < 7).all()  # a supervised token is a key, and a target is a value


def test_the_true_value_always_has_positive_probability():
    for protocol in bijection.PROTOCOLS:
        drawn = bijection.sample(np.random.default_rng(3), 500, values=5, keys=5, protocol=protocol)
        p = np.take_along_axis(bijection.predictive(drawn.tokens, 5), drawn.targets[..., None], -1)
        assert (p > 0).all()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"values": 1, "keys": 1}, "values"),
        ({"values": 3, "keys": 0}, "keys"),
        ({"values": 3, "keys": 4}, "keys"),
        ({"values": 3, "keys": 3, "protocol": "sometimes"}, "protocol"),
    ],
)
def test_degenerate_tasks_are_refused(arguments, word):
    with pytest.raises(ValueError, match=rf"^{word}: got .*expected"):
        bijection.sample(np.random.default_rng(0), 2, **arguments)
