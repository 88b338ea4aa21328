"""The graph node: first and second derivatives, forward mode, vmap and compile, against autograd over plain
operations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import bayesgrad as bg
import bayesgrad.torch as bt
from bayesgrad import bayes, dynamics, em
from tests.reference import attend

# PyTorch warns about itself: its forward-mode rules about its scripting, its tracer about how it makes a context.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]


def draw(seed=0, lead=(), heads=None, groups=None, n=3, m=4, d_k=2, d_v=3):
    rng = np.random.default_rng(seed)
    q_lead, k_lead = (lead, lead) if heads is None else ((*lead, heads), (*lead, groups))
    shapes = ((*q_lead, n, d_k), (*k_lead, m, d_k), (*k_lead, m, d_v))
    return [torch.tensor(rng.normal(size=s), requires_grad=True) for s in shapes]


def variants(n=3, m=4):
    rng = np.random.default_rng(1)
    mask = torch.tensor(rng.random((n, m)) < 0.6)
    mask[:, 0] = True
    empty = mask.clone()
    empty[1] = False
    empty[:, 2] = False
    bias = torch.tensor(rng.normal(size=(n, m)), requires_grad=True)
    hiding = bias.detach().masked_fill(~empty, -torch.inf)
    dropout = torch.tensor((rng.random((n, m)) < 0.7) / 0.7)
    return {
        "plain": {},
        "mask": {"mask": mask},
        "empty row": {"mask": empty},
        "bias of -inf": {"bias": hiding},
        "bias": {"bias": bias, "mask": mask},
        "bias of one row": {"bias": torch.tensor(rng.normal(size=(1, m)), requires_grad=True)},
        "scale": {"scale": torch.tensor(0.7, dtype=torch.float64, requires_grad=True)},
        "number": {"scale": -1.3},
        "dropout": {"dropout": dropout, "mask": empty},
    }


@pytest.mark.parametrize("name", list(variants()))
@pytest.mark.parametrize("shape", ["one head", "batch", "groups"])
def test_derivatives_of_first_and_second_order(name, shape):
    options = variants()[name]
    inputs = {"one head": draw(), "batch": draw(lead=(2,)), "groups": draw(heads=4, groups=2)}[shape]
    leaves = [x for x in options.values() if isinstance(x, torch.Tensor) and x.requires_grad]
    names = [x for x, value in options.items() if isinstance(value, torch.Tensor) and value.requires_grad]

    def function(q, k, v, *rest):
        return bt.attention(q, k, v, **(options | dict(zip(names, rest, strict=True))))

    fast = shape != "one head"  # a random direction instead of every entry
    assert gradcheck(function, (*inputs, *leaves), check_forward_ad=True, check_batched_grad=True, fast_mode=fast)
    assert gradgradcheck(function, (*inputs, *leaves), check_fwd_over_rev=not fast, fast_mode=fast)


@pytest.mark.parametrize("name", list(variants()))
def test_equal_to_autograd_over_plain_operations(name):
    options = variants()[name]
    q, k, v = draw(lead=(2,))
    if name == "bias of -inf":
        bias = options["bias"]
        theirs = {"mask": bias > -torch.inf, "bias": bias.masked_fill(bias == -torch.inf, 0)}
    else:
        theirs = options
    ours = bt.attention(q, k, v, **options)
    plain = attend(q, k, v, **theirs)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-13)
    u = torch.randn(ours.shape, dtype=ours.dtype, generator=torch.Generator().manual_seed(0))
    leaves = [q, k, v, *(x for x in options.values() if isinstance(x, torch.Tensor) and x.requires_grad)]
    got = torch.autograd.grad(ours, leaves, u, create_graph=True)
    wanted = torch.autograd.grad(plain, leaves, u, create_graph=True)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)
    second = [torch.autograd.grad(sum((g**2).sum() for g in x), leaves) for x in (got, wanted)]
    torch.testing.assert_close(*second, rtol=1e-9, atol=1e-11)


def test_vmap_jacobians_and_hessians():
    q, k, v = (x.detach() for x in draw(lead=(5,)))
    mask = variants()["empty row"]["mask"]

    def f(q, k, v):
        return bt.attention(q, k, v, mask=mask)

    def plain(q, k, v):
        return attend(q, k, v, mask=mask)

    torch.testing.assert_close(torch.func.vmap(f)(q, k, v), plain(q, k, v))
    torch.testing.assert_close(torch.func.vmap(f, in_dims=(0, None, 0))(q, k[0], v), plain(q, k[0].expand_as(k), v))
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(f)(q[0], k[0], v[0]), transform(plain)(q[0], k[0], v[0]))
    hessian = torch.func.hessian(lambda q: f(q, k[0], v[0]).square().sum())
    other = torch.func.hessian(lambda q: plain(q, k[0], v[0]).square().sum())
    torch.testing.assert_close(hessian(q[0]), other(q[0]))
    per_sample = torch.func.vmap(torch.func.grad(lambda q, k, v: f(q, k, v).square().sum(), argnums=(0, 1, 2)))
    expected = torch.func.vmap(torch.func.grad(lambda q, k, v: plain(q, k, v).square().sum(), argnums=(0, 1, 2)))
    torch.testing.assert_close(per_sample(q, k, v), expected(q, k, v))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_in_one_graph(dynamic):
    q, k, v = draw(lead=(2,))
    mask = variants()["empty row"]["mask"]
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def f(q, k, v, scale):
        return bt.attention(q, k, v, mask=mask, scale=scale)

    compiled = torch.compile(f, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    got, wanted = compiled(q, k, v, scale), f(q, k, v, scale)
    torch.testing.assert_close(got, wanted)
    u = torch.ones_like(got)
    leaves = (q, k, v, scale)
    torch.testing.assert_close(torch.autograd.grad(got, leaves, u), torch.autograd.grad(wanted, leaves, u))


@pytest.mark.parametrize("function", ["gradients", "block", "cross entropy"])
def test_the_closed_forms_compile_too(function):
    q, k, v = (x.detach() for x in draw())
    u, mask = torch.ones(3, 3, dtype=torch.float64), variants()["empty row"]["mask"]
    rng = torch.Generator().manual_seed(1)
    x, y = torch.randn(4, 3, dtype=torch.float64, generator=rng), torch.tensor([0, 4, -100, 1])
    W = [torch.randn(s, dtype=torch.float64, generator=rng) for s in ((3, 4), (3, 2), (3, 2), (4, 5))]
    calls = {
        "gradients": lambda: bg.attention_gradients(q, k, v, u, mask=mask)[:5],
        "block": lambda: bg.attention_block_gradients(x, *W, y, heads=2, kv_heads=1)[:6],
        "cross entropy": lambda: bg.cross_entropy(x, y.clamp(max=2), label_smoothing=0.1),
    }
    compiled = torch.compile(calls[function], backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(tuple(compiled()), tuple(calls[function]()))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_nobody_sees_never_matters_in_forward_mode_either(bad):
    q, k, v = (x.detach() for x in draw())
    mask = variants()["empty row"]["mask"]
    tangents = tuple(torch.ones_like(x) for x in (q, k, v))
    f = lambda *t: bt.attention(*t, mask=mask)
    wanted = torch.func.jvp(f, (q, k, v), tangents)
    q[1], k[2], v[2] = bad, bad, bad
    tangents[0][1], tangents[1][2], tangents[2][2] = bad, bad, bad
    torch.testing.assert_close(torch.func.jvp(f, (q, k, v), tangents), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits(dtype):
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in draw(n=30, m=40))
    out = bt.attention(q, k, v)
    out.sum().backward()
    assert out.dtype == q.grad.dtype == v.grad.dtype == dtype


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": np.ones((3, 2))}, TypeError, "q: got ndarray, expected a PyTorch tensor"),
        ({"k": torch.ones(4, 5, dtype=torch.float64)}, ValueError, "k: got shape"),
        ({"k": torch.ones(4, 2)}, TypeError, "k: got Tensor of dtype float32"),
        ({"mask": torch.ones(3, 4)}, TypeError, "mask: got Tensor of dtype float32"),
        ({"dropout": torch.ones(3, 4, requires_grad=True)}, ValueError, "dropout: got a tensor that requires"),
        ({"dropout": 0.1}, TypeError, "dropout: got float"),
        ({"scale": "a"}, TypeError, "scale: got str"),
    ],
)
def test_bad_arguments_are_named(change, error, message):
    q, k, v = (x.detach() for x in draw())
    arguments = {"q": q, "k": k, "v": v} | change
    with pytest.raises(error, match=message):
        bt.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)


# "meta" tensors have a device and no values: a constant made on another device would show, without a GPU to test on.
DEVICES = ["cpu", "meta", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
def test_results_live_where_the_inputs_live(device):
    q, k, v = (x.detach().to(device) for x in draw(lead=(2,)))
    u = torch.ones(2, 3, 3, dtype=torch.float64, device=device)
    mask = bg.causal_mask(3, 4, align="upper-left", like=q)
    z = torch.ones(2, 5, dtype=torch.float64, device=device)
    y = torch.ones(2, dtype=torch.int64, device=device)
    W = [torch.ones(s, dtype=torch.float64, device=device) for s in ((2, 4), (2, 2), (2, 2), (4, 5))]
    a, b = bg.attention(q, k, v, mask=mask).weights, bg.compatibility(u, v)
    found = [
        *bg.attention(q, k, v, mask=mask),
        *bg.attention_gradients(q, k, v, u, mask=mask, bias=torch.zeros(3, 4, dtype=torch.float64, device=device)),
        *bg.cross_entropy(z, y, label_smoothing=0.1, class_weights=torch.ones(5, dtype=torch.float64, device=device)),
        *bg.attention_block_gradients(q, *W, torch.ones(2, 3, dtype=torch.int64, device=device), heads=2, kv_heads=1),
        bg.logsumexp(b, mask=mask),
        bg.fisher(a),
        dynamics.natural_direction(b, mask=mask),
        dynamics.replicator_step(a, b, eta=0.1),
        dynamics.saturation_bound(a, b, mask=mask),
        em.gaussian_mixture_responsibilities(
            q, k, priors=torch.ones(2, 4, dtype=torch.float64, device=device), scale=1.0
        ),
        bayes.entropy(a[:, :1] if device != "meta" else a, units="nats"),
        bt.attention(q, k, v, mask=mask),
    ]
    for x in found:
        assert x is None or x.device.type == device
