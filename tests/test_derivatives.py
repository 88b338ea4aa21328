"""Forward mode and second derivatives against PyTorch's own transformations, on every array library, tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import bayesgrad as bg
from bayesgrad import derivatives, tiled

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
"""PyTorch warns of itself when forward mode is used for the first time."""

CASES = [  # leading axes, n, m, d_k, d_v
    ((), 3, 4, 2, 5),
    ((2,), 4, 3, 5, 2),
    ((2, 3), 1, 6, 3, 1),
    ((), 5, 1, 2, 3),
    ((), 2, 3, 4, 0),
    ((2,), 3, 0, 2, 2),
]


def context(q: Any, k: Any, v: Any, bias: Any, scale: Any, mask: Any, dropout: Any) -> Any:
    """The definition by explicit operations: the oracle. Empty rows are 0 by a product with the mask."""
    scores = ((q @ k.mT) * scale + bias).masked_fill(~mask, -1e30)
    return (torch.softmax(scores, -1) * mask * dropout) @ v


class Drawn:
    """Arguments, tangents and options of one head, some with an empty row, dropout, a bias for each pair."""

    def __init__(self, case: int, seed: int) -> None:
        made = torch.Generator().manual_seed(1000 * case + seed)
        leading, n, m, d_k, d_v = CASES[case]
        shapes = {"q": (n, d_k), "k": (m, d_k), "v": (m, d_v), "u": (n, d_v)}
        draw = lambda *shape: torch.randn(shape, generator=made, dtype=torch.float64)
        self.x = {name: draw(*leading, *shape) for name, shape in shapes.items()}
        self.d = {name: draw(*leading, *shape) for name, shape in shapes.items()}
        self.bias, self.d_bias = draw(n, m), draw(n, m)
        self.scale, self.d_scale = draw() + 1, draw()
        self.mask = torch.rand(n, m, generator=made) > 0.3
        if seed % 3 == 0 and n > 1:
            self.mask[1] = False
        kept = torch.rand(n, m, generator=made) > 0.2
        self.dropout = None if seed % 2 else kept / 0.8
        everything = torch.ones(n, m, dtype=torch.float64)
        factor = everything if self.dropout is None else self.dropout.double()
        self.of = lambda q, k, v, bias, scale: context(q, k, v, bias, scale, self.mask, factor)
        self.gradients = lambda q, k, v, u, bias, scale: torch.func.vjp(self.of, q, k, v, bias, scale)[1](u)

    @property
    def options(self) -> dict[str, Any]:
        drop = None if self.dropout is None else self.dropout.double()
        return {"mask": self.mask, "bias": self.bias, "scale": self.scale, "dropout": drop}

    def tangents(self, *names: str) -> dict[str, Any]:
        moves = {f"{name}_tangent": self.d[name] for name in names}
        return moves | {"bias_tangent": self.d_bias, "scale_tangent": self.d_scale}


DRAWN = [(case, seed) for case in range(len(CASES)) for seed in range(4)]


def close(got: Any, expected: Any) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("case", "seed"), DRAWN)
def test_forward_mode(case: int, seed: int) -> None:
    drawn = Drawn(case, seed)
    q, k, v, _ = drawn.x.values()
    dq, dk, dv, _ = drawn.d.values()
    _, expected = torch.func.jvp(
        drawn.of, (q, k, v, drawn.bias, drawn.scale), (dq, dk, dv, drawn.d_bias, drawn.d_scale)
    )
    got = derivatives.attention_jvp(q, k, v, **drawn.tangents("q", "k", "v"), **drawn.options)
    close(got.context, expected)
    assert (got.weights[..., ~drawn.mask] == 0).all()
    # the direction meets the gradients: sum u.dg is what backward says, too
    backward = bg.attention_gradients(q, k, v, drawn.x["u"], **drawn.options)
    met = (backward.queries * dq).sum() + (backward.keys * dk).sum() + (backward.values * dv).sum()
    met = met + (backward.bias * drawn.d_bias).sum() + backward.scale * drawn.d_scale
    close((drawn.x["u"] * got.context).sum(), met)


@pytest.mark.parametrize(("case", "seed"), DRAWN)
def test_gradients_move(case: int, seed: int) -> None:
    drawn = Drawn(case, seed)
    at = (*drawn.x.values(), drawn.bias, drawn.scale)
    _, expected = torch.func.jvp(drawn.gradients, at, (*drawn.d.values(), drawn.d_bias, drawn.d_scale))
    got = derivatives.attention_gradients_jvp(*drawn.x.values(), **drawn.tangents(*"qkvu"), **drawn.options)
    for ours, theirs in zip((got.queries, got.keys, got.values, got.bias, got.scale), expected, strict=True):
        close(ours, theirs)


@pytest.mark.parametrize(("case", "seed"), DRAWN)
def test_backward_through_the_gradients(case: int, seed: int) -> None:
    drawn = Drawn(case, seed)
    at = (*drawn.x.values(), drawn.bias, drawn.scale)
    dq, dk, dv, _ = drawn.d.values()
    expected = torch.func.vjp(drawn.gradients, *at)[1]((dq, dk, dv, drawn.d_bias, drawn.d_scale))
    got = derivatives.attention_double_backward(
        *drawn.x.values(),
        d_queries=dq,
        d_keys=dk,
        d_values=dv,
        d_bias=drawn.d_bias,
        d_scale=drawn.d_scale,
        **drawn.options,
    )
    for ours, theirs in zip(got, expected, strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("name", ["q", "k", "v", "u", "bias", "scale"])
def test_a_tangent_alone(name: str) -> None:
    """Each argument may stand still; then its terms are left out, not multiplied by 0."""
    drawn = Drawn(0, 1)
    at = (*drawn.x.values(), drawn.bias, drawn.scale)
    moves = dict(zip("qkvu", drawn.d.values(), strict=True)) | {"bias": drawn.d_bias, "scale": drawn.d_scale}
    direction = tuple(move if which == name else torch.zeros_like(move) for which, move in moves.items())
    _, expected = torch.func.jvp(drawn.gradients, at, direction)
    got = derivatives.attention_gradients_jvp(*drawn.x.values(), **{f"{name}_tangent": moves[name]}, **drawn.options)
    for ours, theirs in zip((got.queries, got.keys, got.values, got.bias, got.scale), expected, strict=True):
        close(ours, theirs)


def backends() -> dict[str, Any]:
    import array_api_strict
    import jax

    to_jax = jax.numpy.asarray
    return {"numpy": np.asarray, "array-api-strict": array_api_strict.asarray, "torch": torch.asarray, "jax": to_jax}


@pytest.mark.parametrize("library", ["numpy", "array-api-strict", "torch", "jax"])
def test_every_array_library(library: str) -> None:
    to = backends()[library]
    drawn = Drawn(1, 0)
    x = [to(z.numpy()) for z in drawn.x.values()]
    d = [to(z.numpy()) for z in drawn.d.values()]
    mask = to(drawn.mask.numpy())
    got = derivatives.attention_double_backward(*x, d_queries=d[0], d_keys=d[1], d_values=d[2], mask=mask)
    moved = derivatives.attention_jvp(*x[:3], q_tangent=d[0], k_tangent=d[1], v_tangent=d[2], mask=mask)
    lean = tiled.attention_double_backward(*x, d_queries=d[0], d_keys=d[1], d_values=d[2], mask=mask, tile=2)
    again = Drawn(1, 0)
    of = lambda q, k, v: context(q, k, v, 0, q.shape[-1] ** -0.5, again.mask, 1.0)
    back = torch.func.vjp(lambda q, k, v, u: torch.func.vjp(of, q, k, v)[1](u), *again.x.values())[1]
    expected = back(tuple(list(again.d.values())[:3]))
    for ours, theirs, tile in zip(got[:4], expected, lean, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs.numpy(), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(np.asarray(tile), theirs.numpy(), rtol=1e-11, atol=1e-12)
    _, tangent = torch.func.jvp(of, tuple(list(again.x.values())[:3]), tuple(list(again.d.values())[:3]))
    np.testing.assert_allclose(np.asarray(moved.context), tangent.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("tile", [1, 2, 3, None])
@pytest.mark.parametrize("causal", [None, "upper-left", "lower-right"])
@pytest.mark.parametrize("masked", ["no", "padding", "pairs"])
def test_tiles_are_the_dense_form(tile: int | None, causal: Any, masked: str) -> None:
    rng = np.random.default_rng(5)
    for n, m in ((4, 5), (5, 3), (0, 3), (3, 0), (1, 1)):
        q, k, v, u, dq, dk, dv = (
            rng.normal(size=(2, *s)) for s in ((n, 2), (m, 2), (m, 3), (n, 3), (n, 2), (m, 2), (m, 3))
        )
        mask = {"no": None, "padding": rng.random((1, m)) > 0.3, "pairs": rng.random((n, m)) > 0.3}[masked]
        full = np.ones((n, m), bool) if mask is None else np.broadcast_to(mask, (n, m))
        if causal is not None:
            full = full & bg.causal_mask(n, m, align=causal)
        options: dict[str, Any] = {"mask": mask, "causal": causal, "tile": tile, "scale": 0.7}
        dense: dict[str, Any] = {"mask": full, "scale": 0.7}
        moves = {"q_tangent": dq, "k_tangent": dk, "v_tangent": dv}
        asked = {"d_queries": dq, "d_keys": dk, "d_values": dv}
        one = bg.attention_gradients(q, k, v, u, **dense)
        two = derivatives.attention_double_backward(q, k, v, u, **asked, **dense)
        pairs = [
            (tiled.attention(q, k, v, **options), bg.attention(q, k, v, **dense).context),
            (tiled.attention_jvp(q, k, v, **moves, **options), derivatives.attention_jvp(q, k, v, **moves, **dense)[2]),
            *zip(tiled.attention_gradients(q, k, v, u, **options), (one.queries, one.keys, one.values), strict=True),
            *zip(tiled.attention_double_backward(q, k, v, u, **asked, **options), two[:4], strict=True),
        ]
        for ours, theirs in pairs:
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)


def test_no_large_array_in_a_tile() -> None:
    """The largest array that a tile makes holds tile x m entries, whatever n is."""
    rng = np.random.default_rng(0)
    n, m, largest = 400, 50, []

    class Watched(np.ndarray):
        def __array_finalize__(self, obj: Any) -> None:
            largest.append(self.size)

    q, k, v = (rng.normal(size=s).view(Watched) for s in ((n, 2), (m, 2), (m, 3)))
    tiled.attention_jvp(q, k, v, q_tangent=q, k_tangent=k, v_tangent=v, tile=16)
    assert max(largest) < 2 * n * 3 < n * m


def test_what_nobody_sees_does_not_matter() -> None:
    drawn = Drawn(0, 1)
    mask = drawn.mask.clone()
    mask[:, 2], mask[1] = False, False
    x, d = ({name: z.clone() for name, z in of.items()} for of in (drawn.x, drawn.d))
    clean = derivatives.attention_gradients_jvp(*x.values(), **{f"{n}_tangent": z for n, z in d.items()}, mask=mask)
    for of in (x, d):
        of["k"][2], of["v"][2], of["q"][1], of["u"][1] = (torch.nan,) * 4
    got = derivatives.attention_gradients_jvp(*x.values(), **{f"{n}_tangent": z for n, z in d.items()}, mask=mask)
    for ours, theirs in zip(got, clean, strict=True):
        hidden = torch.isnan(ours) & ~torch.isnan(theirs)
        if ours is not got.weights:  # b itself is a product of all pairs
            assert not hidden.any()
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_half_precision_accumulates_in_single() -> None:
    rng = np.random.default_rng(1)
    x = [rng.normal(size=s).astype(np.float16) for s in ((3, 4), (5, 4), (5, 2))]
    d = [rng.normal(size=z.shape).astype(np.float16) for z in x]
    wide = [z.astype(np.float32) for z in (*x, *d)]
    got = derivatives.attention_jvp(*x, **dict(zip(("q_tangent", "k_tangent", "v_tangent"), d, strict=True)))
    expected = derivatives.attention_jvp(
        *wide[:3], **dict(zip(("q_tangent", "k_tangent", "v_tangent"), wide[3:], strict=True))
    )
    assert got.context.dtype == np.float16
    np.testing.assert_array_equal(got.context, expected.context.astype(np.float16))


@pytest.mark.parametrize("module", [derivatives, tiled])
def test_malformed_tangents_are_named(module: Any) -> None:
    q, k, v = np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 5))
    with pytest.raises(ValueError, match=r"k_tangent: got shape \(2, 3\), expected \(4, 3\) as k"):
        module.attention_jvp(q, k, v, k_tangent=q)
    with pytest.raises(TypeError, match="v_tangent"):
        module.attention_jvp(q, k, v, v_tangent=[1.0])
    with pytest.raises(TypeError, match="d_values"):
        module.attention_double_backward(q, k, v, np.ones((2, 5)), d_values=v.astype(np.float32))
