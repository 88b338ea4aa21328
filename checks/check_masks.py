"""Masks, by the definition: every small n, m and pair of bounds, one loop."""

from __future__ import annotations

from itertools import product
from typing import Literal

import numpy as np
import pytest
import torch

import bayesgrad

BOUNDS = (None, 0, 1, 2)


@pytest.mark.parametrize("align", ["upper-left", "lower-right"])
def check_windows(align: Literal["upper-left", "lower-right"]) -> None:
    """Query i stands at key i + o and sees the keys from ``left`` before to ``right`` after it, both included."""
    for n, m, left, right in product(range(5), range(5), BOUNDS, BOUNDS):
        offset = 0 if align == "upper-left" else m - n
        expected = np.zeros((n, m), dtype=bool)
        for i, j in product(range(n), range(m)):
            place = i + offset
            expected[i, j] = (left is None or j >= place - left) and (right is None or j <= place + right)
        got = bayesgrad.window_mask(n, m, left=left, right=right, align=align)
        assert got.dtype == bool
        assert np.array_equal(got, expected), (n, m, left, right, align)
        for like in (np.zeros(1), torch.zeros(1)):
            again = bayesgrad.window_mask(n, m, left=left, right=right, align=align, like=like)
            assert type(again) is type(like)
            assert np.array_equal(np.asarray(again), expected)
        if left is None and right == 0:
            assert np.array_equal(bayesgrad.causal_mask(n, m, align=align), expected), (n, m, align)
