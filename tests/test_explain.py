"""The explanation holds what the laws say, reads well, and can be drawn."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import bayesgrad as bg
from bayesgrad import dynamics


def draw(lead=()):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(*lead, *s)) for s in ((3, 2), (4, 2), (4, 5), (3, 5))]


def test_its_parts_are_those_of_the_laws(xp):
    q, k, v, u = draw((2,))
    mask = np.tri(3, 4, dtype=bool)
    got = bg.explain(*map(xp, (q, k, v, u)), mask=xp(mask), eta=0.1)
    a = bg.attention(q, k, v, mask=mask).weights
    b = bg.attention_gradients(q, k, v, u, mask=mask).weights
    close = {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(np.asarray(got.weights), a, **close)
    np.testing.assert_allclose(np.asarray(got.compatibility), b, **close)
    np.testing.assert_allclose(np.asarray(got.advantage), bg.advantage(a, b), **close)
    np.testing.assert_allclose(np.asarray(got.mean_compatibility), (a * b).sum(-1), **close)
    np.testing.assert_allclose(np.asarray(got.effective_count), bg.effective_count(a), **close)
    scores, values = dynamics.score_step(a, u, v, eta=0.1), dynamics.value_step(a, u, eta=0.1)
    np.testing.assert_allclose(np.asarray(got.score_step), scores.scores, **close)
    np.testing.assert_allclose(np.asarray(got.value_step), values.values, **close)
    np.testing.assert_allclose(float(got.loss_by_scores), scores.loss, rtol=1e-12)
    np.testing.assert_allclose(float(got.loss_by_values), values.loss, rtol=1e-12)
    wanted = dynamics.feedback(a, u, eta=0.1).advantage
    np.testing.assert_allclose(np.asarray(got.advantage_change)[:, mask], wanted[:, mask], **close)


def test_it_reads_well():
    text = repr(bg.explain(*draw((2,))))
    assert text.startswith("Explanation: the first of (2,) heads, 3 queries, 4 keys, step eta = 1")
    assert all(len(line) <= 120 for line in text.splitlines())
    rng = np.random.default_rng(0)
    big = repr(bg.explain(*(rng.normal(size=s) for s in ((30, 2), (40, 2), (40, 5), (30, 5)))))
    assert "..." in big
    assert len(big.splitlines()) < 50
    empty = bg.explain(np.ones((2, 3)), np.ones((0, 3)), np.ones((0, 5)), np.ones((2, 5)))
    assert "0 keys" in repr(empty)


def test_it_can_be_drawn(monkeypatch):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = bg.explain(*draw((2,))).plot()
    assert [ax.get_title() for ax in figure.axes[:3]] == ["weights a", "advantage A", "score step ds"]
    plt.close(figure)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="matplotlib is not installed"):
        bg.explain(*draw()).plot()


def test_bad_arguments_are_named():
    q, k, v, u = draw()
    with pytest.raises(TypeError, match="u: got NoneType"):
        bg.explain(q, k, v, None)
    with pytest.raises(TypeError, match="eta: got str"):
        bg.explain(q, k, v, u, eta="a")
