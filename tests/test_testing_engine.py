"""The engine: it accepts what is right, and there is nothing wrong that it lets pass."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import bayesgrad
from bayesgrad.testing.engine import VACUOUS_LIMIT, Check, Claim, Oracle, Reference, named, run, unbounded
from bayesgrad.testing.examples import Head
from bayesgrad.testing.oracles import forward, reverse
from bayesgrad.testing.strategies import heads
from bayesgrad.testing.tolerance import compare, tolerance

ORACLES = (
    Oracle("forward jets", lambda head: named(forward.gradients(head, "s"))),
    Oracle("PyTorch reverse mode", lambda head: unbounded(reverse.gradients(head, "s"))),
)


def right(head: Head) -> dict[str, Any]:
    a = head.weights()
    return {"s": bayesgrad.score_gradient(a, head.multiplier * bayesgrad.compatibility(head.u, head.v))}


def claims(laws: dict[str, Any]) -> dict[str, Claim]:
    return {key: Claim("scores", law) for key, law in laws.items()}


def about(of: Any, **changes: Any) -> Check:
    return dataclasses.replace(Check("attention.routing-law", of, heads(), ORACLES, {"scores": "s"}), **changes)


def test_a_right_law_passes_and_is_counted() -> None:
    tally = run(about(right), examples=60, least=50)
    assert tally.failure == ""
    assert tally.examples >= 50
    assert 0 < tally.worst_in_tolerance < 0.5
    assert tally.worst_error < 1e-9
    assert tally.tolerance < 1e-6
    assert tally.oracles == ["forward jets", "PyTorch reverse mode"]


def test_a_wrong_law_fails_and_the_message_says_everything() -> None:
    tally = run(about(lambda head: {"s": -right(head)["s"]}), examples=60, command="the command")
    for part in ("attention.routing-law does not hold", "forward jets", "expected", "Head(q=np.array(", "the command"):
        assert part in tally.failure
    # The other oracle says what it expects of the same entry.
    assert "others:    PyTorch reverse mode expects" in tally.failure
    # q, k, v and u, and nothing that the failure does not need.
    assert tally.failure.count("array") == 4


@pytest.mark.parametrize("relative", [1e-3, 1e-8])
def test_one_entry_off_by_a_thousandth_fails(relative: float) -> None:
    def off_by_one_entry(head: Head) -> dict[str, Any]:
        s = right(head)["s"].copy()
        largest = np.unravel_index(np.argmax(np.abs(s)), s.shape)
        s[largest] *= 1 + relative
        return {"s": s}

    assert "does not hold" in run(about(off_by_one_entry), examples=20).failure


def test_nan_another_shape_and_missing_quantities_fail() -> None:
    assert "does not hold" in run(about(lambda head: {"s": right(head)["s"] * np.nan}), examples=5).failure
    assert "shape" in run(about(lambda head: {"s": right(head)["s"].T}), examples=5).failure
    assert "dtype" in run(about(lambda head: {"s": right(head)["s"] + 0j}), examples=5).failure
    assert "computes no 's'" in run(about(lambda head: {}), examples=5).failure


def test_an_exception_is_a_failure_and_shows_the_example() -> None:
    def raises(head: Head) -> dict[str, Any]:
        raise RuntimeError("no result")

    failure = run(about(raises), examples=5).failure
    assert "could not be judged: RuntimeError: no result" in failure
    assert "Head(" in failure


def test_too_many_vacuous_draws_fail() -> None:
    silent = heads().map(lambda head: dataclasses.replace(head, u=np.zeros_like(head.u)))
    tally = run(about(right, given=silent), examples=20)
    assert tally.vacuous == 20
    assert f"more than {VACUOUS_LIMIT:.0%}" in tally.failure


def test_too_few_examples_fail() -> None:
    assert (
        "non-vacuous examples" in run(about(right, given=heads(sizes=[(1, 2, 3, 4)])), examples=1, least=10**6).failure
    )


def test_wrong_laws_need_a_counterexample() -> None:
    laws = {
        "sign": lambda t: -t["a"] * (t["b"] - t["bbar"][:, None]),
        "no mean": lambda t: t["a"] * t["b"],
        "another shape": lambda t: t["a"].T * t["b"].T,
        "raises": lambda t: t["no such letter"],
        "not finite": lambda t: t["a"] * np.nan,
        "the truth": lambda t: t["a"] * (t["b"] - t["bbar"][:, None]),
    }
    found = run(about(right, given=heads(squares=False)), examples=60, wrong=claims(laws))
    verdicts = {key: entry["verdict"] for key, entry in found.wrong.items()}
    assert [key for key, verdict in verdicts.items() if verdict == "rejected"] == ["sign", "no mean"]
    assert "Head(" in found.wrong["sign"]["counterexample"]
    assert "raised KeyError" in found.wrong["raises"]["why"]
    assert found.wrong["the truth"]["why"] == "no draw tells it apart"
    for key in ("another shape", "raises", "not finite", "the truth"):
        assert key in found.failure
    assert run(about(right), examples=60, wrong=claims({key: laws[key] for key in ("sign", "no mean")})).failure == ""


def test_a_transposed_law_is_rejected_on_squares() -> None:
    law = {"a_ij and a_ji": lambda t: t["a"].T * (t["b"] - t["bbar"][:, None])}
    assert run(about(right), examples=120, wrong=claims(law)).failure == ""
    assert run(about(right, given=heads(squares=False)), examples=120, wrong=claims(law)).failure != ""


def test_the_statement_is_a_witness_of_its_own() -> None:
    good = run(about(right), examples=40, statement=claims({"": lambda t: t["a"] * (t["b"] - t["bbar"][:, None])}))
    assert (good.failure, good.statement) == ("", "agrees")
    bad = run(about(right), examples=40, statement=claims({"": lambda t: t["a"] * t["b"]}))
    assert "the statement differs" in bad.failure


def test_the_same_seed_gives_the_same_tally_and_another_one_the_same_verdict() -> None:
    tallies = []
    for seed in (0, 0, 1):
        record = run(about(right), examples=40, seed=seed).as_record()
        record.pop("seconds")
        tallies.append(record)
    assert tallies[0] == tallies[1]
    assert tallies[0] != tallies[2]
    assert tallies[2]["failure"] == ""


def test_an_oracle_that_knows_only_a_projection_is_used_as_one() -> None:
    direction = np.array([[1.0, -2.0]])
    head = Head(np.ones((1, 3)), np.arange(6.0).reshape(2, 3), np.array([[1.0], [2.0]]), np.array([[1.0]]))
    value, bound = forward.gradients(head, "s")["s"]
    only = Oracle("a projection", lambda _: {"s": Reference(np.sum(value * direction), direction=direction)})
    from hypothesis import strategies as st

    check = about(right, given=st.just(head), oracles=(ORACLES[0], only))
    assert run(check, examples=1).failure == ""
    wrong = Oracle("a projection", lambda _: {"s": Reference(np.sum(value * direction) * 1.001, direction=direction)})
    assert "a projection" in run(dataclasses.replace(check, oracles=(ORACLES[0], wrong)), examples=1).failure
    assert bound.shape == (1, 2)


def test_comparing_entry_by_entry() -> None:
    expected, admitted = np.array([1.0, 0.0]), tolerance(np.array([2.0, 0.0]))
    assert compare([1.0, 0.0], expected, admitted).agrees
    assert compare([1.0 + 4e-16, 0.0], expected, admitted).agrees
    assert not compare([1.0 + 4e-15, 0.0], expected, admitted).agrees
    # A bound of 0 admits nothing.
    assert compare([1.0, 1e-300], expected, admitted).in_tolerance == np.inf
    assert not compare([1.0, np.nan], expected, admitted).agrees
    assert compare([np.inf, 0.0], np.array([np.inf, 0.0]), admitted).agrees
    assert compare(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 2))).agrees
    found = compare([1.0, 2.0], np.array([1.0, 3.0]), np.array([1.0, 0.5]))
    assert (found.index, found.got, found.expected, found.in_tolerance) == ((1,), 2.0, 3.0, 2.0)


def test_a_bound_from_above_is_wrong_only_where_it_is_exceeded() -> None:
    def claim(law: Any) -> dict[str, Claim]:
        return {"bound": Claim("scores", law, at_most=True)}

    largest = lambda t: 0 * t["a"] + np.abs(t["b"]).max() * 2 + 1e-3
    assert run(about(right), examples=30, statement=claim(largest)).failure == ""
    assert "the statement differs" in run(about(right), examples=30, statement=claim(lambda t: 0 * t["a"])).failure
    assert run(about(right), examples=30, wrong=claim(lambda t: 0 * t["a"])).failure == ""
    assert "bound" in run(about(right), examples=30, wrong=claim(largest)).failure


def test_a_part_that_the_check_does_not_state_is_left_alone() -> None:
    elsewhere = {"x": Claim("another part", lambda t: t["nothing"])}
    tally = run(about(right), examples=10, statement=elsewhere, wrong=elsewhere)
    assert (tally.failure, tally.statement, tally.wrong) == ("", "not evaluated", {})


def test_libraries_may_differ_by_what_one_rounding_of_the_data_moves() -> None:
    from checks import check_backends as backends

    def cancelling(x: Any, *, swap: bool) -> Any:
        """A thousandth as the difference of thousands; which term comes first is the difference of two libraries."""
        terms = x * x.dtype.type(4096.0)
        return (terms[0] + terms[1]) + terms[2] if swap else (terms[1] + terms[2]) + terms[0]

    x = np.array([1.0 / 3, 1.0 / 7, -(1.0 / 3 + 1.0 / 7)]) + np.array([0.0, 0.0, 2.0**-22])
    x = x.astype(np.float32).astype(float)
    plain = [np.asarray(cancelling(x, swap=False))]
    moves = backends.moved(cancelling, (x,), {"swap": False}, plain, backends.SINGLE.u)
    assert moves[0] > 50 * backends.SINGLE.u * abs(plain[0])
    other = [plain[0] + 8 * moves[0]]
    with pytest.raises(AssertionError, match="the plain call says"):
        backends.agree("it", [plain[0] + 1e-2], plain, "here", backends.SINGLE, lambda: moves)
    flat = backends.SINGLE.admitted(plain[0], float(abs(plain[0])))
    assert abs(other[0] - plain[0]) > flat
    backends.agree("it", other, plain, "here", backends.SINGLE, lambda: moves)
    with pytest.raises(AssertionError, match="the plain call says"):
        backends.agree("it", other, plain, "here", backends.SINGLE)
