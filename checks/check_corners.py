"""The corners of the domain, where the values that must come out are known exactly. No examples of the laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import bayesgrad
from bayesgrad import dynamics
from bayesgrad.testing.corners import CORNERS, Corner, violations
from bayesgrad.testing.draws import run_on_draws
from bayesgrad.testing.engine import derived_seed
from checks.profiles import Profile
from checks.registry import LawFailed


def results(corner: Corner, make: Callable[[Any], Any] = np.asarray) -> dict[str, np.ndarray]:
    """Weights, context and gradients from the shipped functions, on arrays of any library."""
    head = corner.head
    q, k, v, u, mask, bias = (
        None if x is None else make(x) for x in (head.q, head.k, head.v, head.u, head.mask, head.bias)
    )
    made = bayesgrad.attention(q, k, v, mask=mask, bias=bias, scale=head.scale)
    got = bayesgrad.attention_gradients(q, k, v, u, mask=mask, bias=bias, scale=head.scale)
    found = {
        "weights": made.weights,
        "context": made.context,
        "scores": got.scores,
        "values": got.values,
        "queries": got.queries,
        "keys": got.keys,
    }
    return {name: np.asarray(x) for name, x in found.items()}


@pytest.mark.parametrize("name", CORNERS)
def check_corner(name: str, profile: Profile, draw_seed: int) -> None:
    """What the corner knows comes out exactly, and nothing else is NaN."""
    __tracebackhide__ = True
    last: list[Corner] = []

    def judge(corner: Corner) -> None:
        last[:] = [corner]
        with np.errstate(under="ignore"):
            for library, make in (("NumPy", np.asarray), ("PyTorch", torch.from_numpy)):
                found = violations(corner, results(corner, make))
                assert not found, f"{library}: {'; '.join(found)}"

    seed = derived_seed(f"corner/{name}", draw_seed)
    try:
        run_on_draws(judge, CORNERS[name], examples=max(profile.examples // 8, 16), seed=seed)
    except AssertionError as error:
        raise LawFailed(
            f"corner {name!r}: what is known exactly does not come out\n  numbers:   {error}\n"
            f"  smallest:  {last[0]!r}\n  reproduce: pytest checks/check_corners.py -k {name!r} --part "
            f"--hypothesis-profile={profile.name} --hypothesis-seed={draw_seed}"
        ) from None


def check_functions_without_keys() -> None:
    """No keys, no rows: each function answers with zeros, or with no entries."""
    for lead in ((2,), (3, 2)):
        none, row = np.zeros((*lead, 0)), np.zeros(lead)
        assert bayesgrad.softmax(none).shape == (*lead, 0)
        assert bayesgrad.log_softmax(none).shape == (*lead, 0)
        assert np.array_equal(bayesgrad.logsumexp(none), row - np.inf)
        assert bayesgrad.fisher(none).shape == (*lead, 0, 0)
        assert np.array_equal(dynamics.frame_precision_bound(none, none), row)
        assert dynamics.saturation_bound(none, none).shape == (*lead, 0)
        assert dynamics.natural_direction(none).shape == (*lead, 0)
    assert dynamics.natural_direction(np.ones((2, 1))).tolist() == [[0.0], [0.0]]
    assert bayesgrad.cross_entropy(np.zeros((0, 3)), np.zeros(0, dtype=int)).loss == 0
    assert bayesgrad.cross_entropy(np.zeros((0, 3)), np.zeros((0, 3))).loss == 0


def check_a_common_offset_costs_no_digits() -> None:
    """Weights that sum to 1: what all compatibilities of a row have in common changes no advantage, and rounds none."""
    a = bayesgrad.softmax(np.array([[0.0, 0.3, -1.7, 2.0], [3.0, 0.1, 0.2, 0.3]]))
    b = np.array([[0.0, 1.0, 2.0, -1.0], [2.0, 0.0, 1.0, 1.0]])
    for shift in (2.0**30, -(2.0**30)):
        for law in (bayesgrad.advantage, bayesgrad.score_gradient):
            assert np.allclose(law(a, b + shift), law(a, b), rtol=0, atol=1e-14)


def check_values_without_width() -> None:
    """d_v = 0: there is nothing to add up, and every gradient that has entries is 0."""
    for lead in ((), (2,), (1, 3)):
        q, k, v, u = (np.ones((*lead, *inner)) for inner in ((2, 4), (3, 4), (3, 0), (2, 0)))
        got = bayesgrad.attention_gradients(q, k, v, u)
        assert got.values.shape == v.shape
        for found in (got.weights, got.scores, got.queries, got.keys):
            assert found.size
            assert not found.any()


def check_the_bias_of_a_block() -> None:
    """A block with an additive bias returns its gradient, which is that of the scores; one without has none."""
    rng = np.random.default_rng(0)
    x, W_Q, W_K, W_V, W_O, bias = (rng.normal(size=s) for s in ((3, 2), (2, 2), (2, 2), (2, 2), (2, 4), (3, 3)))
    block = lambda **more: bayesgrad.attention_block_gradients(
        x, W_Q, W_K, W_V, W_O, targets=np.array([0, 1, 3]), intermediates=True, **more
    )
    got = block(bias=bias)
    assert got.attention is not None
    assert np.array_equal(got.bias, got.attention.gradients.scores[0])
    assert np.abs(got.bias).max() > 1e-3
    assert block().bias is None


def check_functions_on_empty_rows() -> None:
    """A row that sees nothing: weights 0, log-sum-exp -inf, bounds and directions 0; the other row is unaffected."""
    s, b = np.array([[1.0, 2.0, 0.5], [0.25, -1.0, 3.0]]), np.array([[0.5, -1.0, 2.0], [1.0, 2.0, 4.0]])
    mask = np.array([[False, False, False], [True, False, True]])
    a = bayesgrad.softmax(s, mask=mask)
    assert np.array_equal(a[0], np.zeros(3))
    assert bayesgrad.logsumexp(s, mask=mask)[0] == -np.inf
    assert np.isclose(bayesgrad.logsumexp(s, mask=mask)[1], np.log(np.exp(0.25) + np.exp(3.0)))
    assert np.array_equal(bayesgrad.log_softmax(s, mask=mask)[0], np.full(3, -np.inf))
    stacked, masks = np.stack((s, s[:, ::-1])), np.stack((mask[::-1], mask))
    expected = np.array([[np.log(np.exp(1.0) + np.exp(0.5)), -np.inf], [-np.inf, np.log(np.exp(3.0) + np.exp(0.25))]])
    assert np.allclose(bayesgrad.logsumexp(stacked, mask=masks), expected)
    one_key = torch.tensor([[0.5], [2.0]], dtype=torch.float64)
    assert bayesgrad.softmax(one_key, mask=torch.tensor([[True], [False]])).tolist() == [[1.0], [0.0]]
    for make in (np.asarray, torch.from_numpy):
        found = np.asarray(bayesgrad.softmax(make(stacked.copy()), mask=make(masks)))
        assert found[0, 1].tolist() == found[1, 0].tolist() == [0.0, 0.0, 0.0]
        assert np.allclose(found.sum(-1), [[1.0, 0.0], [0.0, 1.0]])
    assert dynamics.natural_direction(b, mask=mask).tolist() == [[0, 0, 0], [-1.5, 0, 1.5]]
    assert np.array_equal(dynamics.saturation_bound(a, b, mask=mask)[0], np.zeros(3))
    assert dynamics.frame_precision_bound(a, b, mask=mask)[0] == 0
    assert np.isclose(dynamics.frame_precision_bound(a, b, mask=mask)[1], 3 * a[1, 0] * a[1, 2])


def check_ignored_targets() -> None:
    """Nothing counted: loss 0 and gradient 0, not NaN; an ignored row has gradient exactly 0."""
    z, y = np.array([[1.0, 2.0, 3.0], [0.0, 0.5, 0.0]]), np.array([-100, -100])
    for reduction in ("mean", "sum"):
        for weights in (None, np.array([1.0, 2.0, 3.0])):
            got = bayesgrad.cross_entropy(z, y, reduction=reduction, class_weights=weights, label_smoothing=0.25)
            assert got.loss == 0
            assert np.array_equal(got.logit_gradient, np.zeros((2, 3)))
    one = bayesgrad.cross_entropy(z, np.array([2, -100]))
    assert np.array_equal(one.logit_gradient[1], np.zeros(3))
    assert np.isclose(one.loss, np.log(np.exp([1.0, 2.0, 3.0]).sum()) - 3.0)
    z3, t3 = np.arange(12.0).reshape(2, 3, 2) / 5, np.arange(1.0, 13.0).reshape(2, 3, 2) / 7
    for mean in (True, False):
        flat = bayesgrad.cross_entropy(z3.reshape(6, 2), t3.reshape(6, 2), reduction="mean" if mean else "sum")
        stacked = bayesgrad.cross_entropy(z3, t3, reduction="mean" if mean else "sum")
        assert np.isclose(flat.loss, stacked.loss, rtol=1e-14)
        assert np.allclose(flat.logit_gradient.reshape(2, 3, 2), stacked.logit_gradient, rtol=1e-13)
    impossible = bayesgrad.cross_entropy(np.array([[0.0, -np.inf]]), np.array([[1.0, 0.0]]))
    assert impossible.loss == 0
    assert np.array_equal(impossible.logit_gradient, np.zeros((1, 2)))


def check_unseen_inputs() -> None:
    """A position that is never seen and sees nothing may be NaN: the block's other gradients stay what they are."""
    rng = np.random.default_rng(5)
    W_Q, W_K, W_V, W_O = (
        rng.normal(size=(3, 4)),
        rng.normal(size=(3, 4)),
        rng.normal(size=(3, 2)),
        rng.normal(size=(2, 5)),
    )
    x, y = rng.normal(size=(3, 3)), rng.normal(size=(4, 3))
    mask = np.array([[True, True, True, False], [True, False, True, False], [False, False, False, False]])
    broken_x, broken_y = x.copy(), y.copy()
    broken_x[2], broken_y[3] = np.nan, np.nan
    targets = np.array([1, 0, 4])
    for heads in (1, 2):
        clean = bayesgrad.attention_block_gradients(x, W_Q, W_K, W_V, W_O, targets, y=y, mask=mask, heads=heads)
        got = bayesgrad.attention_block_gradients(
            broken_x, W_Q, W_K, W_V, W_O, targets, y=broken_y, mask=mask, heads=heads
        )
        for name in ("loss", "W_Q", "W_K", "W_V", "W_O", "x", "y"):
            assert np.allclose(getattr(got, name), getattr(clean, name), rtol=1e-12, atol=1e-15), name
        assert np.array_equal(got.x[2], np.zeros(3))
        assert np.array_equal(got.y[3], np.zeros(3))


def check_masks_per_head() -> None:
    """Masks (..., H, n, m) differ from head to head: a query may be blind in one head only, a key seen in one only."""
    rng = np.random.default_rng(11)
    x, y, targets = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 4, 3)), np.array([[1, 0, 4], [2, 2, 0]])
    W_Q, W_K, W_V, W_O = (rng.normal(size=size) for size in ((3, 4), (3, 4), (3, 6), (6, 5)))
    mask = rng.random((2, 2, 3, 4)) < 0.6
    mask[:, 0, 1], mask[:, 1, 1] = False, True
    mask[:, 0, :, 2], mask[:, 1, :, 2] = False, True
    got = bayesgrad.attention_block_gradients(x, W_Q, W_K, W_V, W_O, targets, y=y, mask=mask, heads=2, reduction="sum")
    q, k, v = (bayesgrad.split_heads(z @ W, 2) for z, W in ((x, W_Q), (y, W_K), (y, W_V)))
    g = bayesgrad.merge_heads(bayesgrad.grouped_attention(q, k, v, mask=mask).context)
    loss, r = bayesgrad.cross_entropy(g @ W_O, targets, reduction="sum")
    parts = bayesgrad.grouped_attention_gradients(q, k, v, bayesgrad.split_heads(r @ W_O.T, 2), mask=mask)
    dq, dk, dv = (bayesgrad.merge_heads(z) for z in (parts.queries, parts.keys, parts.values))
    expected = {
        "loss": loss,
        "W_Q": np.einsum("bif,bih->fh", x, dq),
        "W_K": np.einsum("bjf,bjh->fh", y, dk),
        "W_V": np.einsum("bjf,bjh->fh", y, dv),
        "W_O": np.einsum("bif,bih->fh", g, r),
        "x": dq @ W_Q.T,
        "y": dk @ W_K.T + dv @ W_V.T,
    }
    for name, wanted in expected.items():
        assert np.allclose(getattr(got, name), wanted, rtol=1e-12, atol=1e-14), name
    alone = bayesgrad.attention_block_gradients(
        x[0], W_Q, W_K, W_V, W_O, targets[0], y=y[0], mask=mask[0], heads=2, reduction="sum"
    )
    assert np.allclose(alone.x, got.x[0], rtol=1e-12, atol=1e-14)
    assert np.allclose(alone.W_Q, np.einsum("if,ih->fh", x[0], dq[0]), rtol=1e-12, atol=1e-14)
    assert np.allclose(alone.W_K, np.einsum("jf,jh->fh", y[0], dk[0]), rtol=1e-12, atol=1e-14)
    shared = mask[:, 1:]
    both = bayesgrad.attention_block_gradients(
        x, W_Q, W_K, W_V, W_O, targets, y=y, mask=shared, heads=2, reduction="sum"
    )
    for at in range(2):
        one = bayesgrad.attention_block_gradients(
            x[at], W_Q, W_K, W_V, W_O, targets[at], y=y[at], mask=shared[at], heads=2, reduction="sum"
        )
        assert np.allclose(both.x[at], one.x, rtol=1e-12, atol=1e-14)
        assert np.allclose(both.y[at], one.y, rtol=1e-12, atol=1e-14)
