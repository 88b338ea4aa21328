"""Masks with a named alignment, and the bookkeeping of heads and groups with its adjoints."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bayesgrad as bg

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("n", [0, 1, 3, 5])
@pytest.mark.parametrize("m", [0, 1, 4, 5])
@pytest.mark.parametrize(("left", "right"), [(None, 0), (1, 0), (2, 1), (0, None), (None, None)])
def test_windows_from_the_definition(n, m, left, right):
    for align, offset in (("upper-left", 0), ("lower-right", m - n)):
        got = bg.window_mask(n, m, left=left, right=right, align=align)
        assert got.shape == (n, m)
        for i in range(n):
            for j in range(m):
                after, before = j - (i + offset), (i + offset) - j
                assert got[i, j] == ((left is None or before <= left) and (right is None or after <= right))
        if (left, right) == (None, 0):
            np.testing.assert_array_equal(got, bg.causal_mask(n, m, align=align))


def test_masks_of_another_library(xp):
    like = xp(np.ones(1))
    got = bg.causal_mask(2, 3, align="upper-left", like=like)
    assert type(got) is type(like)
    np.testing.assert_array_equal(np.asarray(got), np.tri(2, 3, dtype=bool))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((2, 3, "diagonal"), ValueError, "align: got 'diagonal'"),
        ((2, 3, None), TypeError, "align: got NoneType"),
        ((-1, 3, "upper-left"), ValueError, "n: got -1"),
        ((2.0, 3, "upper-left"), TypeError, "n: got float"),
        ((2, True, "upper-left"), TypeError, "m: got bool"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        bg.causal_mask(*arguments[:2], align=arguments[2])


def test_splitting_and_merging_are_inverse(xp):
    x = RNG.normal(size=(2, 3, 8))
    got = bg.split_heads(xp(x), 4)
    assert tuple(got.shape) == (2, 4, 3, 2)
    np.testing.assert_array_equal(np.asarray(got)[:, 1], x[..., 2:4])
    np.testing.assert_array_equal(np.asarray(bg.merge_heads(got)), x)


def test_summing_groups_is_the_adjoint_of_repeating(xp):
    k, h = RNG.normal(size=(2, 3, 4, 5)), RNG.normal(size=(2, 6, 4, 5))
    repeated = np.asarray(bg.repeat_groups(xp(k), 6))
    assert [int(np.argmax((k[0] == repeated[0, i]).all((-1, -2)))) for i in range(6)] == [0, 0, 1, 1, 2, 2]
    summed = np.asarray(bg.sum_groups(xp(h), 3))
    assert (repeated * h).sum() == pytest.approx((k * summed).sum(), rel=1e-12)


def test_one_group_for_all_is_multi_query(xp):
    q, k, v, u = (RNG.normal(size=s) for s in ((4, 3, 2), (1, 5, 2), (1, 5, 6), (4, 3, 6)))
    got = bg.grouped_attention_gradients(*map(xp, (q, k, v, u)))
    wanted = [bg.attention_gradients(q[h], k[0], v[0], u[h]) for h in range(4)]
    np.testing.assert_allclose(np.asarray(got.values)[0], sum(w.values for w in wanted), atol=1e-13)
    made = bg.grouped_attention(*map(xp, (q, k, v)))
    assert tuple(made.context.shape) == (4, 3, 6)


def test_heads_that_do_not_divide_are_named():
    with pytest.raises(ValueError, match="heads: got 3, expected a divisor of the 8 columns"):
        bg.split_heads(np.zeros((2, 8)), 3)
    with pytest.raises(ValueError, match="heads: got 5, expected a multiple of the 2 key/value heads"):
        bg.repeat_groups(np.zeros((2, 3, 4)), 5)
    with pytest.raises(ValueError, match="v: got 3 heads, expected 2"):
        bg.grouped_attention(np.zeros((6, 2, 2)), np.zeros((2, 3, 2)), np.zeros((3, 3, 2)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_grouped_heads_in_sixteen_bits_are_rounded_after_the_sum(dtype):
    shapes = ((6, 3, 2), (2, 4, 2), (2, 4, 5), (6, 3, 5))
    q, k, v, u = (torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype) for shape in shapes)
    got = bg.grouped_attention_gradients(q, k, v, u, scale=0.5)
    wide = bg.grouped_attention_gradients(q.float(), k.float(), v.float(), u.float(), scale=0.5)
    for name, x, y in zip(got._fields, got, wide, strict=True):
        assert x is None or torch.equal(x, y.to(dtype)), name
