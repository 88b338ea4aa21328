"""Every array function on every array library and in every precision, and with leading axes.

The laws are checked on NumPy float64 without leading axes. Here each function is called again with the same data as
PyTorch tensors, as array-api-strict arrays, in float32, and with two different examples stacked along a leading axis;
the answers must be those of the plain calls (a result without the leading axis is the sum over it). Two runs of one
function may differ by the order of their sums, so they are compared to :data:`ROUNDINGS` roundings of the largest
entry.

The profile ``thorough`` adds JAX, float32 in array-api-strict, and 16 bits. There the data are rounded to 16 bits
first, so that both calls see the same numbers; the functions accumulate in float32 and round once, hence

    |got - expected| <= u16 |expected| + (1 + u16) ROUNDINGS u32 (1 + largest) + half the smallest number of the dtype.

JAX compiles each operation anew for each shape, so that it sees a few shapes only (:data:`FEW`).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

import bayesgrad
from bayesgrad import bayes, block, dynamics, em, gradients
from bayesgrad.testing.engine import derived_seed
from bayesgrad.testing.examples import Head, Layer
from bayesgrad.testing.oracles import padded
from bayesgrad.testing.profiles import Profile
from bayesgrad.testing.strategies import heads, layers
from bayesgrad.testing.tolerance import unit_roundoff
from checks.registry import LawFailed

ROUNDINGS = 512.0

Arguments = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]


def _head(head: Head) -> dict[str, Arguments]:
    """Calls on the parts of one head."""
    t = head.tensors()
    q, k, v, u, a, b, s, g = (t[name] for name in "qkvuabsg")
    mask = head.visible
    pairs = {"mask": mask, "bias": t["beta"], "dropout": t["D"]}
    priors, ds = t["M"] + 0.5, a * (b - t["bbar"][:, None])
    dw = np.cos(np.arange(k.shape[0] * 3.0)).reshape(-1, 3)
    return {
        "softmax": (bayesgrad.softmax, (s,), {"mask": mask}),
        "log_softmax": (bayesgrad.log_softmax, (s,), {}),
        "logsumexp": (bayesgrad.logsumexp, (s,), {"mask": mask}),
        "fisher": (bayesgrad.fisher, (a,), {}),
        "attention": (bayesgrad.attention, (q, k, v), {**pairs, "scale": 0.75}),
        "attention, plain": (bayesgrad.attention, (q, k, v), {}),
        "attention_gradients": (bayesgrad.attention_gradients, (q, k, v, u), {**pairs, "scale": 0.75}),
        "attention_gradients, plain": (bayesgrad.attention_gradients, (q, k, v, u), {}),
        "attention_gradients, masked": (bayesgrad.attention_gradients, (q, k, v, u), {"mask": mask}),
        "compatibility": (bayesgrad.compatibility, (u, v), {}),
        "advantage": (bayesgrad.advantage, (a, b), {}),
        "score_gradient": (bayesgrad.score_gradient, (a, b), {}),
        "mean_compatibility": (gradients.mean_compatibility, (u, g), {}),
        "responsibility": (bayesgrad.responsibility, (a,), {}),
        "value_gradient": (bayesgrad.value_gradient, (a, u), {}),
        "query_gradient": (bayesgrad.query_gradient, (ds, k), {"scale": -0.5}),
        "key_gradient": (bayesgrad.key_gradient, (ds, q), {"scale": -0.5}),
        "loss_decrease": (dynamics.loss_decrease, (q, k, v), {"eta": 0.5}),
        "loss_change, sum": (dynamics.loss_change, (q, 0.5 * q), {}),
        "value_step": (dynamics.value_step, (a, u), {"eta": 0.5}),
        "score_step": (dynamics.score_step, (a, u, v), {"eta": 0.5}),
        "feedback": (dynamics.feedback, (a, u), {"eta": 0.5}),
        "weight_space_value_step": (dynamics.weight_space_value_step, (k, v), {"eta": 0.5, "bias": True}),
        "natural_direction": (dynamics.natural_direction, (b,), {"mask": mask}),
        "natural_direction, plain": (dynamics.natural_direction, (b,), {}),
        "replicator_velocity": (dynamics.replicator_velocity, (a, b), {}),
        "replicator_step": (dynamics.replicator_step, (a, b), {"eta": 0.5}),
        "saturation_bound": (dynamics.saturation_bound, (a, b), {"mask": mask}),
        "saturation_bound, plain": (dynamics.saturation_bound, (a, b), {}),
        "frame_precision_bound": (dynamics.frame_precision_bound, (a, b), {"mask": mask}),
        "proximal_e_step": (em.proximal_e_step, (a, b), {"eta": 0.5}),
        "proximal_m_step": (em.proximal_m_step, (v, a, u), {"eta": 0.5}),
        "mixture_loss": (em.mixture_loss, (a, b), {}),
        "mixture_responsibilities": (em.mixture_responsibilities, (a, b), {}),
        "mixture_loss_change": (em.mixture_loss_change, (a, b, s), {}),
        "em_identity": (em.em_identity, (a, b, s), {}),
        "gaussian_mixture": (
            em.gaussian_mixture_responsibilities,
            (q, k),
            {"priors": priors[0], "scale": 0.5},
        ),
        "entropy": (bayes.entropy, (a,), {"units": "bits"}),
        "posterior": (bayes.posterior, (a, b), {}),
        "posterior_predictive": (bayes.posterior_predictive, (a[:, None, :], _rows(dw, len(a))), {}),
        "soft targets": (bayesgrad.cross_entropy, (s, a), {"reduction": "sum"}),
    }


def _rows(x: np.ndarray, n: int) -> np.ndarray:
    p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    return np.broadcast_to(p, (n, 1, *p.shape)).copy()


def _layer(layer: Layer) -> dict[str, Arguments]:
    """Calls on a layer with several heads."""
    names = ("W_Q", "W_K", "W_V", "W_O")
    t = layer.tensors()
    shared = {name: layer.bias(name) for name in ("c_Q", "c_K", "c_V", "c_O")}
    options = {"y": layer.memory, "mask": layer.visible, "heads": layer.heads, "kv_heads": layer.kv_heads}
    weights = tuple(getattr(layer, name) for name in names)
    q, k, v, u = t["q"], t["k"], t["v"], t["u"]
    every = np.repeat(layer.visible[None], layer.heads, axis=0)
    back = (t["a"] @ np.repeat(k, layer.heads // layer.kv_heads, 0))[0], k[0], v[0]
    return {
        "block": (
            block.attention_block_gradients,
            (layer.x, *weights, layer.targets),
            {**options, **shared, "reduction": "sum", "scale": 0.5},
        ),
        "block, soft targets": (
            block.attention_block_gradients,
            (layer.x, *weights, np.abs(t["z"]) + 0.25),
            {"y": layer.memory, "heads": layer.heads, "kv_heads": layer.kv_heads, "reduction": "sum"},
        ),
        "grouped": (bayesgrad.grouped_attention, (q, k, v), {"mask": every}),
        "grouped gradients": (bayesgrad.grouped_attention_gradients, (q, k, v, u), {"mask": every}),
        "split": (bayesgrad.split_heads, (layer.x @ layer.W_Q,), {"heads": layer.heads}),
        "merge": (bayesgrad.merge_heads, (q,), {}),
        "cross-entropy": (
            bayesgrad.cross_entropy,
            (t["z"], layer.targets),
            {"reduction": "sum", "label_smoothing": 0.25, "class_weights": np.abs(layer.bias("c_O")) + 0.5},
        ),
        "cross-entropy, none": (bayesgrad.cross_entropy, (t["z"], layer.targets), {"reduction": "none"}),
        "inputs": (
            bayesgrad.input_gradients,
            back,
            {"W_Q": _thin(layer, "W_Q"), "W_K": _thin(layer, "W_K"), "W_V": _thin(layer, "W_V"), "cross": True},
        ),
        "projections": (
            bayesgrad.projection_gradients,
            (layer.x, *back),
            {"y": layer.memory, "context": t["g"][0], "logits": t["z"]},
        ),
        "feedback_full": (
            dynamics.feedback_full,
            (t["a"][0], v[0], t["r"], t["p"], t["W_O"][0]),
            {"totals": t["tau"], "eta": 0.5},
        ),
    }


def _thin(layer: Layer, name: str) -> np.ndarray:
    width = layer.d_v if name == "W_V" else layer.d_k
    return getattr(layer, name)[:, :width].copy()


NOT_STACKED = frozenset(("W_Q", "W_K", "W_V", "W_O", "c_Q", "c_K", "c_V", "c_O", "priors", "class_weights"))
"""Arguments that have no leading axes, by name; :data:`WEIGHTS_AT` has those by position."""

WEIGHTS_AT = {"block": range(1, 5), "block, soft targets": range(1, 5), "feedback_full": range(4, 5)}


def parts(result: Any) -> list[np.ndarray]:
    """The arrays of a result, in order, as float64; None is left out."""
    flat = result if isinstance(result, tuple) else (result,)
    return [np.asarray(_plain(x), dtype=np.float64) for x in flat if x is not None]


def _plain(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy()
    return np.asarray(x._array) if hasattr(x, "_array") else x


@dataclass(frozen=True)
class Precision:
    """A floating dtype: how data get there, and how far a result may be from that of the plain call."""

    round: Callable[[np.ndarray], np.ndarray]
    u: float
    least: float = 0.0

    def admitted(self, expected: np.ndarray, largest: float) -> np.ndarray:
        """Entry by entry; ``largest``: the largest finite entry."""
        single = unit_roundoff(np.float32)
        if self.u <= single:
            return np.full(expected.shape, ROUNDINGS * self.u * (1 + largest))
        return self.u * np.abs(expected) + (1 + self.u) * ROUNDINGS * single * (1 + largest) + self.least


def _bfloat16(x: np.ndarray) -> np.ndarray:
    return torch.from_numpy(x.astype(np.float32)).bfloat16().float().numpy()


DOUBLE = Precision(lambda x: x, unit_roundoff(np.float64))
SINGLE = Precision(lambda x: x.astype(np.float32), unit_roundoff(np.float32))
HALF = Precision(lambda x: x.astype(np.float16), unit_roundoff(np.float16), 2.0**-25)
BRAIN = Precision(_bfloat16, 2.0**-8)


def agree(
    name: str, got: list[np.ndarray], expected: list[np.ndarray], where: str, precision: Precision = DOUBLE
) -> None:
    """Raise where two lists of arrays differ by more than roundings; the message has both numbers."""
    assert len(got) == len(expected), f"{name}, {where}: {len(got)} results, expected {len(expected)}"
    for number, (x, y) in enumerate(zip(got, expected, strict=True)):
        title = f"{name}, {where}: result {number}"
        assert x.shape == y.shape, f"{title} has shape {x.shape}, expected {y.shape}"
        seen = np.isfinite(y)
        admitted = precision.admitted(y, float(np.max(np.abs(y[seen]), initial=0.0)))
        off = np.where(seen, np.abs(np.where(seen, x, 0.0) - np.where(seen, y, 0.0)), 0.0)
        same = seen | (x == y) | (np.isnan(x) & np.isnan(y))
        wrong = np.argwhere(~same | ~(off <= admitted))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            raise AssertionError(
                f"{title}{list(at)} = {float(x[at])!r}, the plain call says {float(y[at])!r} "
                f"(off by {float(off[at]):.3g}, admitted {float(admitted[at]):.3g})"
            )


def convert(x: Any, make: Callable[[np.ndarray], Any], precision: Precision) -> Any:
    """An array in another library, floating ones in the wanted precision."""
    if not isinstance(x, np.ndarray):
        return x
    return make(precision.round(x) if x.dtype.kind == "f" else x)


def _strict(x: np.ndarray) -> Any:
    import array_api_strict

    return array_api_strict.asarray(x)


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def _torch(x: np.ndarray) -> Any:
    return torch.from_numpy(x.copy())


def _torch_bfloat16(x: np.ndarray) -> Any:
    return _torch(x).bfloat16() if x.dtype.kind == "f" else _torch(x)


def _jax(x: np.ndarray) -> Any:
    import jax

    return jax.numpy.asarray(x)


BACKENDS: dict[str, tuple[Callable[[np.ndarray], Any], Precision]] = {
    "NumPy, read-only": (_read_only, DOUBLE),
    "NumPy float32": (_read_only, SINGLE),
    "PyTorch": (_torch, DOUBLE),
    "PyTorch float32": (_torch, SINGLE),
    "array-api-strict": (_strict, DOUBLE),
}

MORE_BACKENDS: dict[str, tuple[Callable[[np.ndarray], Any], Precision]] = {
    "array-api-strict float32": (_strict, SINGLE),
    "NumPy float16": (_read_only, HALF),
    "PyTorch float16": (_torch, HALF),
    "PyTorch bfloat16": (_torch_bfloat16, BRAIN),
    **({"JAX": (_jax, DOUBLE), "JAX float32": (_jax, SINGLE)} if padded.installed() else {}),
}
"""Those of the profile ``thorough`` alone."""


def judge_backend(calls: Mapping[str, Arguments], backend: str) -> None:
    """Each call in another library or precision, against the plain one on the same numbers."""
    make, precision = {**BACKENDS, **MORE_BACKENDS}[backend]
    double = padded.double if "JAX" in backend and precision is DOUBLE else contextlib.nullcontext
    with double():
        for name, (function, arguments, options) in calls.items():
            if precision.u > SINGLE.u:
                arguments, options = _rounded(function, arguments, options, precision)
            expected = parts(function(*arguments, **options))
            converted = [convert(x, make, precision) for x in arguments]
            got = function(*converted, **{key: convert(x, make, precision) for key, x in options.items()})
            agree(name, parts(got), expected, backend, precision)


def _rounded(
    function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any], precision: Precision
) -> tuple[list[Any], dict[str, Any]]:
    """The data rounded to 16 bits, in float64. The rows of a rounded distribution do not sum to 1: nobody asks."""

    def double(x: np.ndarray) -> np.ndarray:
        return x.astype(np.float64) if x.dtype.kind == "f" else x

    unasked = {"validate": False} if "validate" in inspect.signature(function).parameters else {}
    named = {key: convert(x, double, precision) for key, x in options.items()}
    return [convert(x, double, precision) for x in arguments], {**named, **unasked}


def judge_stacked(one: Mapping[str, Arguments], two: Mapping[str, Arguments]) -> None:
    """Both examples at once along a leading axis, against one after the other."""
    for name, (function, first, options) in one.items():
        _, second, more = two[name]
        plain = [parts(function(*first, **options)), parts(function(*second, **more))]
        fixed = WEIGHTS_AT.get(name, range(0))
        positional = [x if at in fixed else np.stack((x, second[at])) for at, x in enumerate(first)]
        named = {
            key: np.stack((x, more[key])) if isinstance(x, np.ndarray) and key not in NOT_STACKED else x
            for key, x in options.items()
        }
        if "priors" in named:
            named["priors"] = np.stack((options["priors"], more["priors"]))
        made = function(*positional, **named)
        got, fields = parts(made), _fields(name, made)
        assert len(got) == len(plain[0]) == len(fields), name
        expected = [
            one_ + two_ if field in SUMMED and name != "cross-entropy, none" else np.stack((one_, two_))
            for field, one_, two_ in zip(fields, *plain, strict=True)
        ]
        agree(name, got, expected, "leading axes")


SUMMED = frozenset(
    ("W_Q", "W_K", "W_V", "W_O", "c_Q", "c_K", "c_V", "c_O", "loss", "scale", "loss_decrease", "loss_change, sum")
)
"""Results without leading axes: what belongs to all examples together is summed over them."""


def _fields(name: str, made: Any) -> list[str]:
    if hasattr(made, "_fields"):
        return [field for field in made._fields if getattr(made, field) is not None]
    return [name]


def turned(head: Head) -> Head:
    """Another head of the same shapes."""
    return replace(head, q=head.k.mean() - head.q[::-1], v=head.v[::-1] * 0.5 + 0.25, u=-head.u[::-1])


def turned_layer(layer: Layer) -> Layer:
    """The same layer on other inputs."""
    y = None if layer.y is None else 0.5 - layer.y[::-1]
    mask = None if layer.mask is None else layer.mask[::-1].copy()
    return replace(layer, x=layer.x[::-1] * 0.5, y=y, targets=layer.targets[::-1].copy(), mask=mask)


GROUPS = ((2, 1), (4, 2), (2, 2))
HEADS, LAYERS = heads(scales=(None,)), layers(heads=GROUPS)
FEW = {
    "heads": heads(scales=(None,), sizes=[(2, 3, 1, 4), (3, 2, 4, 1), (4, 4, 2, 3)], squares=False),
    "layers": layers(heads=GROUPS[:1], sizes=([(2, 3, 1, 4, 5, 6)], [(3, 2, 4, 5, 1)])),
}
"""Heads and layers of few shapes."""


def _judge(
    kind: str, of: st.SearchStrategy, judge: Callable[[Any], None], where: str, profile: Profile, seed: int
) -> None:
    """Draw and judge; a failure of the test ``where`` names the smallest example and the command."""
    __tracebackhide__ = True
    last: list[Any] = []

    @seeded(derived_seed(kind, seed))
    @_limits(profile)
    @given(of)
    def run(example: Any) -> None:
        last[:] = [example]
        judge(example)

    try:
        run()
    except AssertionError as error:
        raise LawFailed(
            f"another array library, precision or leading axis changes an answer\n  numbers:   {error}\n"
            f"  smallest:  {last[0]!r}\n  reproduce: pytest 'checks/check_backends.py::{where}' "
            f"--hypothesis-profile={profile.name} --hypothesis-seed={seed}"
        ) from None


@pytest.mark.parametrize("backend", [*BACKENDS, *MORE_BACKENDS])
@pytest.mark.parametrize("kind", ["heads", "layers"])
def check_backend(backend: str, kind: str, profile: Profile, draw_seed: int) -> None:
    """The same answers from every array library, from read-only arrays, and in every precision."""
    calls: Callable[[Any], dict[str, Arguments]] = _head if kind == "heads" else _layer
    of: st.SearchStrategy = FEW[kind] if "JAX" in backend else HEADS if kind == "heads" else LAYERS
    where = f"check_backend[{kind}-{backend}]"
    _judge(f"backends/{kind}", of, lambda example: judge_backend(calls(example), backend), where, profile, draw_seed)


@pytest.mark.parametrize("kind", ["heads", "layers"])
def check_leading_axes(kind: str, profile: Profile, draw_seed: int) -> None:
    """Leading axes are free: two examples at once are the two one after the other."""

    def judge(example: Any) -> None:
        if kind == "heads":
            judge_stacked(_head(example), _head(turned(example)))
        else:
            judge_stacked(_layer(example), _layer(turned_layer(example)))

    where = f"check_leading_axes[{kind}]"
    _judge(f"leading/{kind}", HEADS if kind == "heads" else LAYERS, judge, where, profile, draw_seed)


def _limits(profile: Profile) -> settings:
    return settings(
        max_examples=max(profile.examples // 24, 8),
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
