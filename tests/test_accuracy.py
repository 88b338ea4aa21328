"""The accuracy table holds: per dtype and output no worse than twice PyTorch's explicit operations, against 50
digits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bayesgrad as bg
from bayesgrad import fused
from benchmarks import accuracy


@pytest.mark.parametrize("dtype", list(accuracy.DTYPES))
def test_no_worse_than_twice_the_explicit_operations(dtype, monkeypatch):
    monkeypatch.setattr(accuracy, "DTYPES", {dtype: accuracy.DTYPES[dtype]})
    rows = accuracy.table(200)
    assert [row.output for row in rows] == list(accuracy.OUTPUTS)
    for row in rows:
        assert row.cases == 200
        assert row.holds, row


def test_the_table_can_say_no(monkeypatch):
    """A relative error of 1e-5 put into the values' gradient is seen, and only there."""
    right = accuracy.ours

    def wrong(t, mask):
        out = right(t, mask)
        return out | {"values": out["values"] * (1 + 1e-5)}

    monkeypatch.setattr(accuracy, "ours", wrong)
    monkeypatch.setattr(accuracy, "DTYPES", {"float32": torch.float32})
    rows = accuracy.table(20)
    assert [row.output for row in rows if not row.holds] == ["values"]
    assert "NO" in accuracy.markdown(rows)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_the_fused_form_keeps_the_small_gradients_of_saturated_rows(backend):
    """float32 against float64 of the same numbers, where every row is nearly one-hot."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6)).astype(np.float32)
    W = [rng.normal(size=s).astype(np.float32) for s in ((6, 6), (6, 6), (6, 5), (5, 7))]
    W[0] *= 4
    y = rng.integers(0, 7, size=40)
    wide = bg.attention_block_gradients(
        *(z.astype(np.float64) for z in (x, *W)), y, mask=bg.causal_mask(40, 40, align="upper-left")
    )
    make = np.asarray if backend == "numpy" else torch.as_tensor
    got = fused.attention_block_gradients(*map(make, (x, *W, y)), causal="upper-left", tile=16)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        wanted = getattr(wide, name)
        assert np.abs(np.asarray(getattr(got, name)) - wanted).max() < 3e-5 * np.abs(wanted).max()
