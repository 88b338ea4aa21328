"""Cross-entropy in every variant against PyTorch, and the corners where PyTorch says NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import bayesgrad as bg

RNG = np.random.default_rng(3)
C = 5


def theirs(z, targets, **options):
    leaf = torch.tensor(z, requires_grad=True)
    flat = torch.as_tensor(targets)
    flat = flat.flatten() if not flat.is_floating_point() else flat.flatten(0, -2)
    loss = torch.nn.functional.cross_entropy(leaf.flatten(0, -2), flat, **options)
    loss.sum().backward()
    return loss.detach().numpy(), leaf.grad.numpy()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["hard", "hard with ignored", "soft"])
def test_every_variant_equals_pytorch(xp, reduction, smoothing, weighted, kind):
    z = RNG.normal(size=(2, 3, C)) * 3
    omega = RNG.random(C) + 0.1
    if kind == "soft":
        targets = RNG.dirichlet(np.ones(C), size=(2, 3))
    else:
        targets = RNG.integers(0, C, size=(2, 3))
        if kind != "hard":
            targets[0, 1] = targets[1, 2] = 77
    options = {"reduction": reduction, "label_smoothing": smoothing}
    if kind != "soft":
        options["ignore_index"] = 77
    wanted = theirs(z, targets, **options, **({"weight": torch.tensor(omega)} if weighted else {}))
    got = bg.cross_entropy(xp(z), xp(targets), **options, **({"class_weights": xp(omega)} if weighted else {}))
    np.testing.assert_allclose(np.asarray(got.loss).ravel(), wanted[0].ravel(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(got.logit_gradient), wanted[1], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_targets_of_every_integer_dtype(dtype):
    """Also where the dtype holds neither the index to ignore nor the number of classes."""
    z = RNG.normal(size=(3, 300))
    y = np.asarray([1, 0, 99])
    wanted = bg.cross_entropy(z, y)
    got = bg.cross_entropy(z, y.astype(dtype), ignore_index=-100)
    np.testing.assert_array_equal(got.logit_gradient, wanted.logit_gradient)
    if dtype in ("int8", "uint8", "int16", "int32", "int64"):
        got = bg.cross_entropy(torch.tensor(z), torch.tensor(y.astype(dtype)))
        np.testing.assert_allclose(got.logit_gradient.numpy(), wanted.logit_gradient, rtol=1e-12)


def test_only_integers_are_ignored_but_numpy_s_own_count():
    z, y = RNG.normal(size=(3, C)), np.asarray([1, 7, 0])
    got, wanted = (bg.cross_entropy(z, y, ignore_index=index).loss for index in (np.int64(7), 7))
    assert got == wanted


def test_half_precision_in_numpy():
    z, y = RNG.normal(size=(300, C)).astype(np.float16), RNG.integers(0, C, size=300)
    got, wanted = bg.cross_entropy(z, y, reduction="sum"), bg.cross_entropy(z.astype(np.float32), y, reduction="sum")
    assert got.loss.dtype == got.logit_gradient.dtype == np.float16
    assert got.loss == wanted.loss.astype(np.float16)


def test_soft_targets_of_any_total(xp):
    z, t = RNG.normal(size=(3, C)), RNG.random((3, C)) * 4
    got = bg.cross_entropy(xp(z), xp(t), reduction="sum")
    leaf = torch.tensor(z, requires_grad=True)
    loss = -(torch.tensor(t) * torch.log_softmax(leaf, -1)).sum()
    loss.backward()
    assert float(got.loss) == pytest.approx(loss.item(), rel=1e-13)
    np.testing.assert_allclose(np.asarray(got.logit_gradient), leaf.grad.numpy(), atol=1e-13)


def test_an_impossible_class_without_target_mass_is_fine(xp):
    z = xp([[0.0, -np.inf, 1.0]])
    got = bg.cross_entropy(z, xp(np.asarray([0])))
    assert float(got.loss) == pytest.approx(math.log(1 + math.e), rel=1e-14)
    assert np.asarray(got.logit_gradient)[0, 1] == 0
    assert float(bg.cross_entropy(z, xp(np.asarray([1]))).loss) == math.inf
    assert float(bg.cross_entropy(z, xp([[0.5, 0.0, 0.5]])).loss) == pytest.approx(0.5 * (2 * math.log(1 + math.e) - 1))


def test_nan_at_an_ignored_position_takes_no_part(xp):
    z = np.zeros((2, C))
    z[1, 2] = np.nan
    got = bg.cross_entropy(xp(z), xp(np.asarray([0, -100])))
    assert float(got.loss) == pytest.approx(math.log(C))
    assert np.isfinite(np.asarray(got.logit_gradient)).all()
    assert np.isnan(float(bg.cross_entropy(xp(z), xp(np.asarray([0, 0]))).loss))


def test_logits_of_any_size(xp):
    got = bg.cross_entropy(xp([[1e300, 0.0]]), xp(np.asarray([0])))
    assert float(got.loss) == 0
    got = bg.cross_entropy(xp([[1e4, 0.0]]), xp(np.asarray([1])))
    assert float(got.loss) == 1e4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits(dtype):
    z, y = torch.tensor(RNG.normal(size=(300, C))).to(dtype), torch.tensor(RNG.integers(0, C, size=300))
    got, wanted = bg.cross_entropy(z, y, reduction="sum"), bg.cross_entropy(z.float(), y, reduction="sum")
    assert got.loss.dtype == got.logit_gradient.dtype == dtype
    assert torch.equal(got.loss, wanted.loss.to(dtype))


def test_no_rows_and_one_class(xp):
    got = bg.cross_entropy(xp(np.zeros((0, C))), xp(np.zeros(0, dtype=int)))
    assert float(got.loss) == 0
    got = bg.cross_entropy(xp([[7.0]]), xp(np.asarray([0])))
    assert float(got.loss) == 0
    assert np.asarray(got.logit_gradient).tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"reduction": "avg"}, ValueError, "reduction: got 'avg'"),
        ({"label_smoothing": 1.5}, ValueError, r"label_smoothing: got 1.5, expected a number in \[0, 1\]"),
        ({"label_smoothing": "a"}, TypeError, "label_smoothing: got str"),
        ({"class_weights": np.ones(3)}, ValueError, r"class_weights: got shape \(3,\)"),
        ({"class_weights": np.ones(C, dtype=int)}, TypeError, "class_weights: got ndarray of dtype int64"),
        ({"ignore_index": 1.0}, TypeError, "ignore_index: got float"),
        ({"targets": np.zeros(2, dtype=bool)}, TypeError, "targets: got ndarray of dtype bool"),
        ({"targets": [0, 1]}, TypeError, "targets: got list"),
        ({"targets": np.zeros((2, 3))}, ValueError, r"targets: got shape \(2, 3\)"),
        ({"targets": np.zeros(3, dtype=int)}, ValueError, r"targets: got shape \(3,\)"),
        ({"logits": np.zeros((2, C), dtype=int)}, TypeError, "logits: got ndarray of dtype int64"),
        ({"logits": np.zeros((2, C), dtype=complex)}, TypeError, "logits: got ndarray of dtype complex128"),
        ({"logits": np.float64(3)}, TypeError, "logits: got float64"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        bg.cross_entropy(**({"logits": np.zeros((2, C)), "targets": np.zeros(2, dtype=int)} | options))


def test_out_of_range_targets_are_let_through_only_on_request():
    z = np.zeros((1, C))
    with pytest.raises(ValueError, match="targets: got 9"):
        bg.cross_entropy(z, np.asarray([9]))
    assert float(bg.cross_entropy(z, np.asarray([9]), validate=False).loss) == 0
