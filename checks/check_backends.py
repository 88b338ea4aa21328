"""Every array function on every array library and in every precision, and with leading axes.

The laws are checked on NumPy float64 without leading axes. Here each function is called again with the same data as
PyTorch tensors, as array-api-strict arrays, in float32, and with two different examples stacked along a leading axis;
the answers must be those of the plain calls (a result without the leading axis is the sum over it). In fewer bits the
data are rounded first, so that both calls see the same numbers. Two runs of one function may differ by the order of
their sums, so they are compared to :data:`ROUNDINGS` roundings of the largest entry. Where that is exceeded, the plain
call is asked how far its answer moves when every datum moves by one rounding: an answer that is a small difference of
large terms may differ by :data:`STAGES` times as much, because so many roundings follow each other.

The profile ``thorough`` adds JAX, dask, float32 in array-api-strict, and 16 bits. There functions accumulate in float32
and round once, hence

    |got - expected| <= u16 |expected| + (1 + u16) ROUNDINGS u32 (1 + largest) + half the smallest number of the dtype.

JAX compiles each operation anew for each shape, so that it sees heads and layers of a few shapes only.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from bayesgrad.testing.draws import run_on_draws
from bayesgrad.testing.engine import derived_seed
from bayesgrad.testing.tolerance import unit_roundoff
from checks.backend_calls import KINDS, NOT_STACKED, ONE_LAW, SUMMED, WEIGHTS_AT, Arguments
from checks.oracles import padded
from checks.profiles import Profile
from checks.registry import LawFailed

ROUNDINGS = 512.0
STAGES = 16.0
"""The longest chain, a block: projections, scores, weights, context, read-out, loss, and the same way back."""


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

    def admitted(self, expected: np.ndarray, largest: float, moved: np.ndarray | float = 0.0) -> np.ndarray:
        """Entry by entry; ``largest``: the largest finite entry; ``moved``: its move under one rounding of the data."""
        inside = np.full(expected.shape, ROUNDINGS * self.inside * (1 + largest)) + STAGES * moved
        if self.u == self.inside:
            return inside
        return self.u * np.abs(expected) + (1 + self.u) * inside + self.least

    @property
    def inside(self) -> float:
        """The roundoff of what is computed on the way: float32 for 16 bits."""
        return min(self.u, unit_roundoff(np.float32))


def _bfloat16(x: np.ndarray) -> np.ndarray:
    return torch.from_numpy(x.astype(np.float32)).bfloat16().float().numpy()


DOUBLE = Precision(lambda x: x, unit_roundoff(np.float64))
SINGLE = Precision(lambda x: x.astype(np.float32), unit_roundoff(np.float32))
HALF = Precision(lambda x: x.astype(np.float16), unit_roundoff(np.float16), 2.0**-25)
BRAIN = Precision(_bfloat16, 2.0**-8)


def agree(
    name: str,
    got: list[np.ndarray],
    expected: list[np.ndarray],
    where: str,
    precision: Precision = DOUBLE,
    moves: Callable[[], list[np.ndarray]] | None = None,
) -> None:
    """Raise where two lists of arrays differ by more than roundings; the message has both numbers.

    ``moves``: how far one rounding of the data moves each result; asked only where the flat tolerance is exceeded.
    """
    assert len(got) == len(expected), f"{name}, {where}: {len(got)} results, expected {len(expected)}"
    for number, (x, y) in enumerate(zip(got, expected, strict=True)):
        title = f"{name}, {where}: result {number}"
        assert x.shape == y.shape, f"{title} has shape {x.shape}, expected {y.shape}"
        seen = np.isfinite(y)
        largest = float(np.max(np.abs(y[seen]), initial=0.0))
        admitted = precision.admitted(y, largest)
        off = np.where(seen, np.abs(np.where(seen, x, 0.0) - np.where(seen, y, 0.0)), 0.0)
        same = seen | (x == y) | (np.isnan(x) & np.isnan(y))
        if moves is not None and np.any(seen & (off > admitted)):
            admitted = precision.admitted(y, largest, moves()[number])
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


def _dask(x: np.ndarray) -> Any:
    import dask
    import dask.array

    dask.config.set(scheduler="synchronous")  # threads cost more than arrays this small
    return dask.array.from_array(x, chunks=-1)


BACKENDS: dict[str, tuple[Callable[[np.ndarray], Any], Precision]] = {
    "NumPy, read-only": (_read_only, DOUBLE),
    "NumPy float32": (_read_only, SINGLE),
    "PyTorch": (_torch, DOUBLE),
    "PyTorch float32": (_torch, SINGLE),
    "array-api-strict": (_strict, DOUBLE),
}

MORE_BACKENDS: dict[str, tuple[Callable[[np.ndarray], Any], Precision]] = {
    "array-api-strict float32": (_strict, SINGLE),
    "dask": (_dask, DOUBLE),
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
    # Kernels of BLAS may raise the flag of an invalid operation on finite numbers; NaN in a result is noticed below.
    with double(), np.errstate(invalid="ignore"):
        for name, (function, arguments, options) in calls.items():
            if precision is not DOUBLE:
                arguments, options = _rounded(function, arguments, options, precision)
            expected = parts(function(*arguments, **options))
            converted = [convert(x, make, precision) for x in arguments]
            got = function(*converted, **{key: convert(x, make, precision) for key, x in options.items()})
            moves = partial(moved, function, arguments, options, expected, precision.inside)
            agree(name, parts(got), expected, backend, precision, moves)


def moved(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    expected: list[np.ndarray],
    u: float,
) -> list[np.ndarray]:
    """The furthest that each entry of each result moves when every real datum moves by a rounding, up or down."""
    rng, furthest = np.random.default_rng(0), [np.zeros(x.shape) for x in expected]

    def nudged(x: Any) -> Any:
        real = isinstance(x, np.ndarray) and x.dtype.kind == "f"
        return x * (1 + u * rng.choice((-1.0, 1.0), x.shape)) if real else x

    unasked = {"validate": False} if "validate" in inspect.signature(function).parameters else {}
    for _ in range(8):
        named = {key: nudged(x) for key, x in options.items()}
        got = parts(function(*map(nudged, arguments), **{**named, **unasked}))
        furthest = [np.fmax(far, np.abs(x - y)) for far, x, y in zip(furthest, got, expected, strict=True)]
    return furthest


def _rounded(
    function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any], precision: Precision
) -> tuple[list[Any], dict[str, Any]]:
    """The data rounded to fewer bits, in float64. The rows of a rounded distribution do not sum to 1: nobody asks."""

    def double(x: np.ndarray) -> np.ndarray:
        return x.astype(np.float64) if x.dtype.kind == "f" else x

    unasked = {"validate": False} if "validate" in inspect.signature(function).parameters else {}
    named = {key: convert(x, double, precision) for key, x in options.items()}
    return [convert(x, double, precision) for x in arguments], {**named, **unasked}


def judge_stacked(one: Mapping[str, Arguments], two: Mapping[str, Arguments]) -> None:
    """Both examples at once along a leading axis, against one after the other."""
    for name, (function, first, options) in one.items():
        if name in ONE_LAW:
            continue
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


def _fields(name: str, made: Any) -> list[str]:
    if hasattr(made, "_fields"):
        return [field for field in made._fields if getattr(made, field) is not None]
    return [name]


def _judge(
    kind: str, of: st.SearchStrategy, judge: Callable[[Any], None], where: str, profile: Profile, seed: int
) -> None:
    """Draw and judge; a failure of the test ``where`` names the smallest example and the command."""
    __tracebackhide__ = True
    last: list[Any] = []

    def run(example: Any) -> None:
        last[:] = [example]
        judge(example)

    try:
        run_on_draws(run, of, examples=max(profile.examples // 24, 8), seed=derived_seed(kind, seed))
    except AssertionError as error:
        raise LawFailed(
            f"another array library, precision or leading axis changes an answer\n  numbers:   {error}\n"
            f"  smallest:  {last[0]!r}\n  reproduce: pytest 'checks/check_backends.py::{where}' --part "
            f"--hypothesis-profile={profile.name} --hypothesis-seed={seed}"
        ) from None


@pytest.mark.parametrize("backend", [*BACKENDS, *MORE_BACKENDS])
@pytest.mark.parametrize("kind", KINDS)
def check_backend(backend: str, kind: str, profile: Profile, draw_seed: int) -> None:
    """The same answers from every array library, from read-only arrays, and in every precision."""
    __tracebackhide__ = True
    of = KINDS[kind]
    where, drawn = f"check_backend[{kind}-{backend}]", of.few if "JAX" in backend else of.drawn
    _judge(f"backends/{kind}", drawn, lambda x: judge_backend(of.calls(x), backend), where, profile, draw_seed)


@pytest.mark.parametrize("kind", KINDS)
def check_leading_axes(kind: str, profile: Profile, draw_seed: int) -> None:
    """Leading axes are free: two examples at once are the two one after the other."""
    __tracebackhide__ = True
    of = KINDS[kind]

    def judge(example: Any) -> None:
        judge_stacked(of.calls(example), of.calls(of.turned(example)))

    _judge(f"leading/{kind}", of.drawn, judge, f"check_leading_axes[{kind}]", profile, draw_seed)
