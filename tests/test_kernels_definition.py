"""The truth that kernels are held against: it agrees with autograd and with 50 digits, and its bounds bound."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from bayesgrad.testing.kernels.blocks import Block
from bayesgrad.testing.kernels.claims import Claims
from bayesgrad.testing.kernels.definition import truth
from bayesgrad.testing.kernels.formats import FORMATS
from bayesgrad.testing.kernels.recipes import Recipe
from bayesgrad.testing.oracles import forward
from bayesgrad.testing.strategies import example_of, heads
from bayesgrad.testing.tolerance import SAFETY

EX1 = {
    "q": np.array([[1.0, 0.0], [0.0, 1.0]]),
    "k": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    "v": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    "u": np.eye(2),
}
EVERYTHING = Claims.parse(
    "layout=bhnd,groups,bias=gradient,alibi=lower-right,softcap,sink=gradient,dropout,lse=gradient,empty_rows,unseen_nan"
)


def explicit(block: Block, second: dict[str, Any], dtype: torch.dtype = torch.float64) -> dict[str, np.ndarray]:
    """The same by PyTorch's reverse mode on explicit operations."""

    def tensor(x: Any) -> torch.Tensor:
        return torch.tensor(np.asarray(x, dtype=float)).to(dtype)

    seen = torch.tensor(np.array(block.visible))
    leaf = {}
    for name in ("q", "k", "v", "u", "bias", "slopes", "sink"):
        if getattr(block, name) is not None:
            leaf[name] = tensor(np.nan_to_num(getattr(block, name))).requires_grad_()
    share = block.q.shape[1] // block.k.shape[1]
    s = block.the_scale * leaf["q"] @ leaf["k"].repeat_interleave(share, 1).mT
    s = s if block.cap is None else block.cap * torch.tanh(s / block.cap)
    s = s + leaf["bias"] if "bias" in leaf else s
    s = s - leaf["slopes"][:, None, None] * tensor(block.distance) if "slopes" in leaf else s
    s = s.masked_fill(~seen, -torch.inf)
    if "sink" in leaf:
        s = torch.cat((s, leaf["sink"][None, :, None, None].expand(*s.shape[:3], 1)), -1)
    some = torch.isfinite(s).any(-1, keepdim=True)
    s = torch.where(some, s, torch.zeros_like(s))
    lse = s.logsumexp(-1)
    a = ((s - lse[..., None]).exp() * some)[..., : block.k.shape[2]] * seen
    a = a if block.dropout is None else a * tensor(block.dropout)
    g = a @ leaf["v"].repeat_interleave(share, 1)
    loss = (g * leaf["u"]).sum()
    if block.dlse is not None:
        loss = loss + (torch.where(some[..., 0], lse, torch.zeros_like(lse)) * tensor(block.dlse)).sum()
    wrt = [name for name in leaf if name != "u"]
    out = dict(zip(wrt, torch.autograd.grad(loss, [leaf[name] for name in wrt], create_graph=True), strict=True))
    total = sum((out[name] * tensor(x)).sum() for name, x in second.items())
    more = torch.autograd.grad(total, [leaf[name] for name in "qkvu"])
    out |= {f"second {name}": x for name, x in zip("qkvu", more, strict=True)}
    return {name: x.detach().double().numpy() for name, x in {**out, "context": g, "lse": lse}.items()}


def blocks(can: Claims, masks: tuple[str, ...] = ("random", "empty", "none")) -> list[Recipe]:
    return [
        Recipe(
            3, 5, 2, 4, 2, 6, 2, mask=mask, scale=scale, bias=bias, slopes=True, cap=1.5, sink=0.5, dropout=0.25,
            dlse=True, seed=seed,
        )
        for seed, (mask, scale, bias) in enumerate(
            zip(masks, (None, -0.7, 2.0), ("pairs", "heads", "keys"), strict=True)
        )
    ]  # fmt: skip


def test_it_agrees_with_reverse_mode_up_to_second_derivatives() -> None:
    rng = np.random.default_rng(0)
    for recipe in blocks(EVERYTHING):
        block = recipe.block(EVERYTHING, FORMATS["float64"])
        second = {name: rng.normal(size=getattr(block, name).shape) for name in "qkv"}
        got = truth(block, FORMATS["float64"], second=second, tangents=second)
        for name, x in explicit(block, second).items():
            expected, admitted = got[name]
            assert expected.shape == x.shape, name
            off = ~np.isnan(expected)
            assert np.all(np.abs(expected - x)[off] <= admitted[off]), name
        np.testing.assert_allclose(got["jvp"][0], got["second u"][0], rtol=1e-12, atol=1e-13)


def test_single_precision_stays_inside_its_bounds_and_they_are_not_slack() -> None:
    worst = []
    rng = np.random.default_rng(1)
    for recipe in blocks(EVERYTHING):
        block = recipe.block(EVERYTHING, FORMATS["float32"])
        second = {name: FORMATS["float32"].round(rng.normal(size=getattr(block, name).shape)) for name in "qkv"}
        got = truth(block, FORMATS["float32"], second=second)
        for name, x in explicit(block, second, torch.float32).items():
            expected, admitted = got[name]
            off = ~np.isnan(expected) & (expected != x)
            worst.append(np.max(np.abs(expected - x)[off] / admitted[off], initial=0))
    assert 0.01 < max(worst) < 1


def test_it_agrees_with_fifty_digits_to_more_than_float64() -> None:
    block = Recipe(2, 3, 2, 2, score="level 100", seed=3).block(Claims(), FORMATS["float64"])
    with mpmath.workdps(50):
        q, k, v, u = (mpmath.matrix(x[0, 0].tolist()) for x in (block.q, block.k, block.v, block.u))
        scale = mpmath.mpf(block.the_scale)

        def loss(entry: Any = 0, at: tuple[int, int] = (0, 0)) -> Any:
            x = q.copy()
            x[at] += entry
            total = mpmath.mpf(0)
            for i in range(2):
                e = [mpmath.exp(scale * sum(x[i, c] * k[j, c] for c in range(2))) for j in range(3)]
                for c in range(2):
                    total += u[i, c] * sum(w * v[j, c] for j, w in enumerate(e)) / sum(e)
            return total

        step = mpmath.mpf(10) ** -20
        dq = [[(loss(step, (i, c)) - loss(-step, (i, c))) / (2 * step) for c in range(2)] for i in range(2)]
    exact = np.array([[float(x) for x in row] for row in dq])
    got, admitted = truth(block, FORMATS["float64"])["q"]
    assert np.all(np.abs(got[0, 0] - exact) <= admitted[0, 0] / 100)


@pytest.mark.parametrize(
    ("more", "name", "expected"),
    [
        ({"dlse": np.array([0.5, -1.0])}, "dlse", 0.0),
        ({"sink": np.array([0.7])}, "sink", [-1.5087573608]),
        ({"sink": np.array([0.7])}, "q", [[0.3466556352, 0.6644755915], [0.4626252894, 0.749903486]]),
        ({}, "q", [[0, 0.5672581615], [0.1153441632, 0.3365698350]]),
        ({"mask": np.array([[True] * 3, [False] * 3])}, "k", [[-0.5672581615, 0], [0, 0], [0.5672581615, 0]]),
    ],
)
def test_known_answers(more: dict[str, Any], name: str, expected: Any) -> None:
    block = Block(**EX1, **more)
    got = truth(block, FORMATS["float64"])
    if name != "dlse":
        np.testing.assert_allclose(got[name][0].reshape(np.shape(expected)), expected, atol=2e-10)
        return
    ds = np.array([[-0.601668139, 0.0988879073, 1.0027802317], [-0.67375744, -0.5642333727, 0.2379908127]])
    np.testing.assert_allclose(got["q"][0][0, 0], ds @ EX1["k"] / 2**0.5, atol=1e-9)


def test_the_soft_cap_and_the_alignment_are_those_of_the_known_answers() -> None:
    dt = np.array([[-0.6411347176, 0, 0.6411347176], [-0.4898437565, -0.1229188011, 0.5182159166]])
    got = truth(Block(**EX1, cap=1.5), FORMATS["float64"])
    np.testing.assert_allclose(got["q"][0][0, 0], dt @ EX1["k"] / 2**0.5, atol=1e-9)
    one = np.ones((2, 1))
    block = Block(one, np.array([[1.0], [2], [3]]), np.array([[1.0], [0], [2]]), one, align="lower-right", right=0)
    for name, expected in {
        "context": [0.26894, 1.42051],
        "q": [-0.19661, 0.42336],
        "k": [0.15875, -0.54425, 0.38550],
        "v": [0.35897, 0.97579, 0.66524],
    }.items():
        np.testing.assert_allclose(truth(block, FORMATS["float64"])[name][0].ravel(), expected, atol=6e-6)
    assert block.visible.tolist() == [[[[True, True, False], [True, True, True]]]]


def test_masked_pairs_are_exact_and_what_nobody_sees_does_not_matter() -> None:
    mask = np.array([[True, False, True], [True, False, False]])
    k = EX1["k"].copy()
    k[1] = np.nan
    got = truth(Block(**{**EX1, "k": k}, mask=mask), FORMATS["float32"])
    for name in "kv":
        assert np.all(got[name][0][0, 0, 1] == 0)
        assert np.all(got[name][1][0, 0, 1] == 0)
    assert np.isfinite(got["q"][0]).all()
    empty = truth(Block(**EX1, mask=np.zeros((2, 3), bool)), FORMATS["float32"])
    assert all(not empty[name][0].any() and not empty[name][1].any() for name in ("q", "k", "v", "context"))
    assert np.isnan(empty["lse"][0]).all()


def test_no_keys_and_no_queries() -> None:
    for n, m in ((2, 0), (0, 3), (0, 0)):
        got = truth(Block(np.ones((n, 2)), np.ones((m, 2)), np.ones((m, 4)), np.ones((n, 4))), FORMATS["float64"])
        assert got["q"][0].shape == (1, 1, n, 2)
        assert got["v"][0].shape == (1, 1, m, 4)
        assert not any(np.any(got[name][0]) for name in ("q", "k", "v", "context"))


def test_bounds_are_not_looser_than_those_of_the_jets() -> None:
    for head in example_of(heads(biases=False, dropout=False), 30):
        jets = forward.gradients(head, "q", "k", "v")
        block = Block(head.q, head.k, head.v, head.u, mask=head.mask, scale=head.scale)
        got = truth(block, FORMATS["float64"])
        for name, (value, bound) in jets.items():
            np.testing.assert_allclose(got[name][0][0, 0], value, rtol=1e-12, atol=1e-14)
            assert np.all(got[name][1][0, 0] <= 4 * SAFETY * 2.0**-53 * bound + 1e-300), name


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_rounds_to_its_own_numbers(name: str) -> None:
    format = FORMATS[name]
    x = np.ldexp(np.random.default_rng(0).uniform(-2, 2, 2000), 0)
    y = format.round(x)
    if name in ("float64", "float32", "float16"):
        np.testing.assert_array_equal(y, x.astype(name).astype(float))
        tiny = x * 20 * float(np.finfo(name).smallest_subnormal)
        again = format.round(tiny)
        np.testing.assert_array_equal(again, again.astype(name).astype(float))
        assert np.all(np.abs(again - tiny) <= float(np.finfo(name).smallest_subnormal))
    elif name == "bfloat16":
        np.testing.assert_array_equal(y, torch.tensor(x).to(torch.bfloat16).double().numpy())
    few = format.round(x, 3)
    assert len(np.unique(np.abs(np.frexp(few)[0]))) <= 5
    assert np.isnan(format.round(np.array([np.nan]))).all()
    assert format.levels[0] == 10
    assert len(format.levels) == {"float64": 3, "float32": 3, "tf32": 3, "float16": 3, "bfloat16": 1}[name]
