"""Softmax, log-softmax, log-sum-exp with hidden entries; the Fisher matrix as Jacobian and as covariance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import torch

import bayesgrad as bg

RNG = np.random.default_rng(4)


def test_equal_to_scipy_on_the_visible_entries(xp):
    s, mask = RNG.normal(size=(2, 6, 5)) * 30, RNG.random((6, 5)) < 0.6
    mask[0] = False
    mask[1] = True
    got = [np.asarray(f(xp(s), mask=xp(mask))) for f in (bg.softmax, bg.log_softmax, bg.logsumexp)]
    for b, i in np.ndindex(2, 6):
        seen = s[b, i][mask[i]]
        assert np.all(got[0][b, i][~mask[i]] == 0)
        assert np.all(got[1][b, i][~mask[i]] == -np.inf)
        if seen.size:
            np.testing.assert_allclose(got[0][b, i][mask[i]], scipy.special.softmax(seen), rtol=1e-13)
            np.testing.assert_allclose(got[1][b, i][mask[i]], scipy.special.log_softmax(seen), rtol=1e-13, atol=1e-15)
            assert got[2][b, i] == pytest.approx(scipy.special.logsumexp(seen), rel=1e-13)
        else:
            assert got[2][b, i] == -math.inf


def test_empty_rows_and_empty_axes(xp):
    low = xp([[-np.inf, -np.inf]])
    assert np.asarray(bg.softmax(low)).tolist() == [[0, 0]]
    assert np.asarray(bg.logsumexp(low)).tolist() == [-math.inf]
    assert np.asarray(bg.log_softmax(low)).tolist() == [[-math.inf, -math.inf]]
    none = xp(np.zeros((2, 0)))
    assert tuple(bg.softmax(none).shape) == (2, 0)
    assert tuple(bg.log_softmax(none).shape) == (2, 0)
    assert np.asarray(bg.logsumexp(none)).tolist() == [-math.inf] * 2


def test_shifts_and_sizes(xp):
    s = RNG.normal(size=(3, 4))
    near = np.asarray(bg.softmax(xp(s + 2.0**30)))
    np.testing.assert_allclose(near, np.asarray(bg.softmax(xp((s + 2.0**30) - 2.0**30))), rtol=1e-15)
    assert np.asarray(bg.softmax(xp([[1e308, -1e308]]))).tolist() == [[1, 0]]
    # log-softmax of a certain class keeps its tiny surprise.
    assert np.asarray(bg.log_softmax(xp([[0.0, -1e3]])))[0].tolist() == [0, -1000]


@pytest.mark.filterwarnings("ignore:invalid value")
def test_nan_and_plus_infinity_propagate(xp):
    got = np.asarray(bg.softmax(xp([[np.nan, 0.0], [np.inf, 0.0], [0.0, 0.0]])))
    assert np.isnan(got[:2]).all()
    assert got[2].tolist() == [0.5, 0.5]


def test_the_fisher_matrix_is_the_jacobian_and_the_covariance(xp):
    s = RNG.normal(size=(2, 3))
    a = bg.softmax(s)
    F = np.asarray(bg.fisher(xp(a)))
    for i in range(2):
        J = torch.func.jacrev(lambda x: torch.softmax(x, -1))(torch.tensor(s[i]))
        np.testing.assert_allclose(F[i], J.numpy(), atol=1e-15)
        one_hot = np.eye(3)
        scores = one_hot - a[i]  # the score of class c is e_c - a
        np.testing.assert_allclose(
            F[i], (a[i][:, None, None] * scores[:, :, None] * scores[:, None, :]).sum(0), atol=1e-15
        )
    np.testing.assert_allclose(F @ np.ones(3), 0, atol=1e-15)
    assert np.all(np.linalg.eigvalsh(F) > -1e-15)
    assert np.all(np.asarray(bg.fisher(xp([[0.0, 1.0, 0.0]]))) == 0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.zeros(3), np.zeros(3)), TypeError, "mask: got ndarray of dtype float64"),
        ((np.zeros(3), np.zeros(2, dtype=bool)), ValueError, r"mask: got shape \(2,\)"),
        ((np.zeros(3), [True, True, True]), TypeError, "mask: got list"),
        ((np.zeros(()), None), ValueError, r"scores: got shape \(\), expected \(\.\.\., keys\)"),
        ((np.zeros(3, dtype="float32"), torch.ones(3, dtype=torch.bool)), TypeError, "mask: got Tensor"),
        ((np.ma.masked_array(np.zeros(3)), None), TypeError, "scores: got MaskedArray"),
        ((None, None), TypeError, "scores: got NoneType"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        bg.softmax(arguments[0], mask=arguments[1])
