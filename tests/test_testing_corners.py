"""Corners are at the edge that they name, and what they know exactly is noticed when it is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgrad.testing import corners
from bayesgrad.testing.corners import CORNERS, Corner, violations
from bayesgrad.testing.strategies import example_of


def answers(corner: Corner) -> dict[str, np.ndarray]:
    """What the corner knows, and 0 where it says nothing."""
    return {name: np.where(np.isnan(x), 0.0, x) for name, x in corner.exact.items()}


@pytest.mark.parametrize("name", CORNERS)
def test_a_wrong_entry_nan_and_another_shape_are_noticed(name: str) -> None:
    judged = 0
    for corner in example_of(CORNERS[name], 12):
        assert violations(corner, answers(corner)) == []
        for result, exact in corner.exact.items():
            right = answers(corner)
            if not exact.size:
                continue
            assert violations(corner, {**right, result: right[result][:, :-1]})
            at = np.unravel_index(np.argmax(~np.isnan(exact)), exact.shape)
            if np.isnan(exact[at]):
                continue
            changed = right[result].copy()
            changed[at] += 1.0 + 2 * float(np.max(corner.atol.get(result, 0.0)))
            found = violations(corner, {**right, result: changed})
            assert len(found) == 1
            assert found[0].startswith(f"{result}[")
            changed[at] = np.nan
            assert violations(corner, {**right, result: changed})
            judged += 1
    assert judged > 0 or name == "no keys"


def test_each_corner_is_where_it_says() -> None:
    for corner in example_of(corners.empty_rows(), 20):
        assert (corner.head.visible.sum(-1) == 0).any()
    for corner in example_of(corners.single_keys(), 20):
        assert (corner.head.visible.sum(-1) == 1).all()
    for corner in example_of(corners.tied_scores(), 20):
        s = np.where(corner.head.visible, corner.head.scores(), np.nan)
        assert np.all((np.nanmax(s, axis=-1) - np.nanmin(s, axis=-1)) == 0)
    for corner in example_of(corners.saturated_scores(), 20):
        s = np.sort(corner.head.scores(), axis=-1)
        assert np.all(s[:, -1] - s[:, -2] > 700)
    for corner in example_of(corners.nearly_saturated_scores(), 20):
        a = np.sort(corner.head.weights(), axis=-1)
        assert np.all((a[:, -1] > 1 - 1e-3) & (a[:, -1] < 1))
        assert 0 < np.abs(corner.exact["scores"]).max() < 1e-2
    for corner in example_of(corners.saturating_queries(), 20):
        s = np.sort(corner.head.scores(), axis=-1)
        assert np.all(s[:, -1] - s[:, -2] > 700)
    for corner in example_of(corners.subnormal_gradients(), 20):
        assert 0 < np.abs(corner.head.u).max() < np.finfo(float).tiny
    for corner in example_of(corners.unseen_nan(), 20):
        assert np.isnan(corner.head.k[-1]).all()
        assert not corner.head.visible[:, -1].any()
    for corner in example_of(corners.shifted_values(), 20):
        assert np.abs(corner.head.v).min() > 2.0**39
