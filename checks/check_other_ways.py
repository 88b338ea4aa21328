"""Other ways to the same gradients: in one sweep over tiles, and as a node of PyTorch's graph.

Each way is held against the dense functions, which the other checks hold against oracles. The cases cover every pair of
levels, and once more among causal ones without a mask: sizes on both sides of a tile's edge, alignments with more
queries or more keys, masks of every broadcast form, groups of heads, batches (an empty one too), cross-attention,
biases, every form of the loss, NaN where nobody looks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from allpairspy import AllPairs

import bayesgrad
from bayesgrad import derivatives, fused
from bayesgrad import torch as node
from bayesgrad.transformer_block import LayerOptions
from checks.registry import LawFailed

Case = dict[str, Any]
LIBRARIES: dict[str, Callable[[Any], Any]] = {"NumPy": np.asarray, "PyTorch": lambda x: torch.as_tensor(np.array(x))}
SWEEP: Case = {
    "library": list(LIBRARIES),
    "sizes": [(5, 5), (1, 1), (1, 4), (4, 1), (9, 5), (5, 9), (8, 8), (17, 17), (2, 3), (3, 2), (0, 3), (3, 0)],
    "tile": [2, 1, 3, 4, None],
    "causal": [None, "upper-left", "lower-right"],
    "mask": ["none", "pairs", "keys", "queries", "one row", "heads", "keys of examples", "heads of examples"],
    "heads": [(1, 1), (2, 2), (4, 2), (3, 1)],
    "lead": [(), (2,), (2, 1), (0,)],
    "inputs": ["self", "cross", "cross with NaN at unseen keys", "self with NaN in the padding"],
    "biases": ["", "c_Q c_K c_V c_O", "c_K", "c_V", "c_O"],
    "loss": ["labels", "ignored labels", "soft", "class weights", "smoothing", "sum"],
    "scale": [None, -0.7],
    "offset": [0.0, 2.0**24],
}
NODE: Case = {
    "sizes": [(3, 4), (1, 1), (4, 1), (2, 3)],
    "heads": ["none", "(2, 2)", "(4, 2)"],
    "lead": [(), (2,)],
    "mask": [None, "pairs", "keys"],
    "bias": [None, "given", "differentiated"],
    "scale": [None, "number", "differentiated"],
    "dropout": [False, True],
}


def covering(levels: Case) -> list[Case]:
    """Cases in which every pair of levels meets."""
    return [dict(zip(levels, row, strict=True)) for row in AllPairs(list(levels.values()))]


CAUSAL = SWEEP | {
    "causal": ["upper-left", "lower-right"],
    "mask": ["none", "pairs", "keys"],
    "lead": [()],
    "heads": [(1, 1), (4, 2)],
    "inputs": ["cross", "cross with NaN at unseen keys"],
    "biases": ["", "c_K c_V"],
    "loss": ["labels"],
}
PAIRS = SWEEP | {"sizes": [(2, 2), (2, 3)], "tile": [1]}
SWEEPS, NODES = covering(SWEEP) + covering(CAUSAL) + covering(PAIRS), covering(NODE)


def _masks(case: Case, rng: np.random.Generator, n: int, m: int) -> tuple[Any, np.ndarray]:
    """The mask as it is handed over, and all visible pairs (..., H, n, m)."""
    heads, lead = case["heads"][0], case["lead"]
    shapes = {
        "pairs": (n, m),
        "keys": (m,),
        "queries": (n, 1),
        "one row": (1, m),
        "heads": (heads, n, m),
        "keys of examples": (*lead, 1, 1, m),
        "heads of examples": (*lead, heads, 1, m),
    }
    handed = None if case["mask"] == "none" else rng.random(shapes[case["mask"]]) < 0.7
    seen = np.ones((*lead, heads, n, m), dtype=bool)
    seen &= True if handed is None else handed
    if case["causal"]:
        seen &= bayesgrad.causal_mask(n, m, align=case["causal"])
    return handed, seen


def judge_sweep(number: int) -> None:
    """One case of the sweep: the fields of the result, each within rounding of the dense one, in the same types."""
    case, rng = SWEEPS[number], np.random.default_rng(number)
    make, (n, m), cross = LIBRARIES[case["library"]], case["sizes"], case["inputs"].startswith("cross")
    m = m if cross else n
    (heads, groups), lead, d_x, d_y, d_k, d_v, C = case["heads"], case["lead"], 3, 4 if cross else 3, 2, 3, 4
    draw: Any = lambda *shape: rng.normal(size=shape)
    given: Case = {"x": draw(*lead, n, d_x), "W_Q": draw(d_x, heads * d_k), "W_K": draw(d_y, groups * d_k)}
    given |= {"W_V": draw(d_y, groups * d_v), "W_O": draw(heads * d_v, C)}
    widths = {"c_Q": heads * d_k, "c_K": groups * d_k, "c_V": groups * d_v, "c_O": C}
    given |= {name: draw(widths[name]) for name in case["biases"].split()}
    if "c_V" in given and "c_O" not in given:  # what all values have in common
        given["c_V"] = given["c_V"] + case["offset"]
        given["W_O"] = given["W_O"] - given["W_O"].mean(-1, keepdims=True)
    handed, seen = _masks(case, rng, n, m)
    if cross:
        given["y"] = draw(*lead, m, d_y)
        if "NaN" in case["inputs"]:
            given["y"][~seen.any(axis=(-3, -2))] = np.nan
    targets: np.ndarray = rng.integers(0, C, size=(*lead, n))
    options: Case = {"heads": heads, "kv_heads": groups, "scale": case["scale"]}
    if case["loss"] == "ignored labels":
        targets[rng.random(targets.shape) < 0.3] = -100
    if case["loss"] == "soft":
        targets = rng.random((*targets.shape, C)) * (rng.random((*targets.shape, C)) < 0.7)
    options |= {"class weights": {"class_weights": make(rng.random(C) + 0.1)}, "sum": {"reduction": "sum"}}.get(
        case["loss"], {"label_smoothing": 0.2} if case["loss"] == "smoothing" else {}
    )
    if "padding" in case["inputs"]:
        real = np.arange(n) < max(n - 2, 1)
        handed = seen = np.broadcast_to(real[:, None] & real, (*lead, heads, n, m)) & seen
        given["x"][..., ~real, :] = np.nan
        if case["loss"] == "soft":
            targets[..., ~real, :] = 0
        else:
            targets[..., ~real] = -100
    arrays = {name: make(x) for name, x in given.items()} | {"targets": make(targets)}
    if case["library"] == "PyTorch":
        arrays["x"].requires_grad_()  # the sweep leaves no graph
    wanted = bayesgrad.attention_block_gradients(**arrays, mask=make(seen), **options)
    mask = None if handed is None else make(handed)
    got = fused.attention_block_gradients(**arrays, mask=mask, causal=case["causal"], tile=case["tile"], **options)
    for name, right in wanted._asdict().items():
        found = getattr(got, name)
        if name == "attention" or right is None:
            agrees = found is None
        else:
            agrees = type(found) is type(right) and found.dtype == right.dtype and found.shape == right.shape
            if case["library"] == "PyTorch":
                agrees, right = agrees and not found.requires_grad, right.detach()
            worst = np.abs(np.asarray(right)).max(initial=1.0)
            agrees &= np.allclose(np.asarray(found), np.asarray(right), rtol=1e-9, atol=1e-11 * worst)
        if not agrees:
            raise LawFailed(f"one sweep: {name} is not that of the dense form\n  case: {case}\n  {found}\n  {right}")


def judge_node(number: int) -> None:
    """One case of the node: context, backward, forward mode and double backward are the closed forms of NumPy."""
    case, rng = NODES[number], np.random.default_rng(number)
    (n, m), lead = case["sizes"], case["lead"]
    heads: Any
    groups: Any
    heads, groups = ((), ()) if case["heads"] == "none" else ((int(case["heads"][1]),), (int(case["heads"][4]),))
    draw: Any = lambda *shape: rng.normal(size=shape)
    q, k, v = draw(*lead, *heads, n, 2), draw(*lead, *groups, m, 2), draw(*lead, *groups, m, 3)
    u, pairs = draw(*lead, *heads, n, 3), (*heads, n, m)
    inputs: Case = {"q": q, "k": k, "v": v}
    fixed: Case = {}
    if case["mask"]:
        fixed["mask"] = rng.random(pairs if case["mask"] == "pairs" else (m,)) < 0.8
    if case["dropout"]:
        fixed["dropout"] = (rng.random((*lead, *pairs)) < 0.6) / 0.6
    for name, value in (("bias", draw(*pairs)), ("scale", np.asarray(0.4))):
        if case[name] is not None:
            (inputs if case[name] == "differentiated" else fixed)[name] = value
    if case["scale"] == "number":
        fixed["scale"] = 0.4
    tangents = {name: draw(*np.shape(x)) for name, x in inputs.items()}
    many = lambda x: np.repeat(x, heads[0] // groups[0], axis=-3) if heads else x
    fewer = lambda x: x.reshape(*lead, *groups, heads[0] // groups[0], *x.shape[-2:]).sum(-3) if heads else x
    shown = {**inputs, "k": many(k), "v": many(v)} | fixed
    number_of: Any = lambda x: float(x) if np.shape(x) == () else x
    right = bayesgrad.attention_gradients(**{name: number_of(x) for name, x in shown.items()}, u=u)
    moved = derivatives.attention_jvp(
        **{name: number_of(x) for name, x in shown.items()},
        **{f"{name}_tangent": number_of(many(x) if name in "kv" else x) for name, x in tangents.items()},
    )
    names = {"q": "queries", "k": "keys", "v": "values", "bias": "bias", "scale": "scale"}
    expected = {name: getattr(right, names[name]) for name in inputs}
    expected |= {name: fewer(expected[name]) for name in ("k", "v")}

    make = lambda x: torch.as_tensor(np.array(x)) if isinstance(x, np.ndarray) else x
    leaves = {name: make(x).requires_grad_() for name, x in inputs.items()}
    constants = {name: make(x) for name, x in fixed.items()}
    made = node.attention(**leaves, **constants)
    got = torch.autograd.grad(made, list(leaves.values()), make(u), create_graph=True)
    found = dict(zip(leaves, got, strict=True)) | {"context": made}
    expected["context"] = bayesgrad.attention(**{name: number_of(x) for name, x in shown.items()}).context
    function = lambda *x: node.attention(**dict(zip(leaves, x, strict=True)), **constants)
    plain = tuple(x.detach() for x in leaves.values())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)  # PyTorch's own
        found["forward mode"] = torch.func.jvp(function, plain, tuple(map(make, tangents.values())))[1]
    expected["forward mode"] = moved.context
    # The derivative of <gradient, t> along q is that of the derivative along t, by the symmetry of second derivatives.
    inner: Any = sum((x * make(tangents[name])).sum() for name, x in zip(leaves, got, strict=True))
    found["double backward"] = torch.autograd.grad(inner, leaves["q"])[0]
    step = 1e-5

    def beside(sign: float) -> Any:
        first, *others = (x + sign * step * make(tangents[name]) for name, x in zip(leaves, plain, strict=True))
        first.requires_grad_()
        return torch.autograd.grad(function(first, *others), first, make(u))[0]

    expected["double backward"] = ((beside(1) - beside(-1)) / (2 * step)).numpy()
    for name, value in expected.items():
        tolerance = 1e-6 if name == "double backward" else 1e-10
        if not np.allclose(found[name].detach().numpy(), value, rtol=tolerance, atol=tolerance):
            raise LawFailed(f"node of PyTorch: {name} is wrong\n  case: {case}\n  {found[name]}\n  {value}")


@pytest.mark.parametrize("number", range(len(SWEEPS)))
def check_one_sweep_over_tiles(number: int) -> None:
    """One sweep over tiles gives what the dense form gives."""
    __tracebackhide__ = True
    judge_sweep(number)


@pytest.mark.parametrize("number", range(len(NODES)))
def check_node_of_the_graph(number: int) -> None:
    """The node of PyTorch's graph has the closed forms as its derivatives."""
    __tracebackhide__ = True
    judge_node(number)


def check_the_sweep_keeps_the_digits_of_a_saturated_row() -> None:
    """One key takes all but 1e-26: what the others move by is as small, and right to its digits."""
    x = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.75]])
    for heads, W in ((1, 1.0), (2, 1.5)):
        given = {"x": x, "W_Q": np.tile([6.0, -6.0], (2, heads)), "W_K": W * np.ones((2, 2 * heads))}
        given["W_K"] *= np.tile([[5.0, -5.0], [-5.0, 5.0]], heads)
        given |= {"W_V": np.tile([[1.0], [-2.0]], heads), "W_O": np.array([[1.0, -1.0, 0.5]] * heads)}
        for make in LIBRARIES.values():
            arrays = {name: make(value) for name, value in given.items()} | {"targets": make(np.array([0, 1, 2]))}
            wanted = bayesgrad.attention_block_gradients(**arrays, heads=heads, scale=1.0)
            got = fused.attention_block_gradients(**arrays, heads=heads, scale=1.0, tile=2)
            for name in ("W_Q", "W_K", "scale"):
                right = np.asarray(getattr(wanted, name))
                assert 0 < np.abs(right).max() < 1e-12, right
                assert np.allclose(np.asarray(getattr(got, name)), right, rtol=1e-6, atol=0), name


def check_parameters_of_a_module() -> None:
    """A torch.nn.MultiheadAttention and our layer with its parameters have the same gradients."""
    for bias, d_y in ((True, None), (False, None), (True, 6)):
        torch.manual_seed(0)
        module: Any = torch.nn.MultiheadAttention(
            4, 2, bias=bias, kdim=d_y, vdim=d_y, batch_first=True, dtype=torch.float64
        )
        for p in module.parameters():
            torch.nn.init.normal_(p)
        x, y = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, d_y or 4, dtype=torch.float64)
        parameters, heads = node.from_torch(module)
        upstream = torch.randn(2, 3, 4, dtype=torch.float64)
        layer = bayesgrad.attention_layer_gradients(
            x, parameters, upstream=upstream, y=y, options=LayerOptions(heads=heads)
        )
        got = layer.parameters
        module(x, y, y, need_weights=False)[0].backward(upstream)
        out = module.out_proj.weight.grad
        assert out is not None
        assert torch.allclose(got["W_O"].mT, out, rtol=1e-12)
        packed = module.in_proj_weight
        wanted = (
            [packed.grad.chunk(3)[i] for i in range(3)]
            if packed is not None
            else [w.grad for w in (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)]
        )
        for name, right in zip(("W_Q", "W_K", "W_V"), wanted, strict=True):
            assert torch.allclose(got[name].mT, right, rtol=1e-10, atol=1e-12), name
        if bias:
            for name, right in zip(("c_Q", "c_K", "c_V"), module.in_proj_bias.grad.chunk(3), strict=True):
                assert torch.allclose(got[name], right, rtol=1e-10, atol=1e-12), name
            assert torch.allclose(got["c_O"], module.out_proj.bias.grad, rtol=1e-12)
        else:
            assert got.get("c_O") is None
