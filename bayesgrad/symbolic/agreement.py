"""Generated source against PyTorch's autograd: one more objector, which knows neither the laws nor the kernel.

The loss is computed from the definitions entry by entry, in loops over PyTorch scalars, and differentiated by autograd;
the generated function computes the same gradients from arrays. Hypothesis draws sizes and values. A loss that is known
by its gradient alone is taken linear, and an activation is taken to be a sine: the laws hold for any.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayesgrad.symbolic.claims import Equation
from bayesgrad.symbolic.naming import everything
from bayesgrad.symbolic.source import inputs, source
from bayesgrad.symbolic.terms import (
    Add,
    AnyIndex,
    At,
    Count,
    Delta,
    Entry,
    Fn,
    Index,
    Lookup,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    Term,
    TermError,
    tensors_of,
)

LENGTHS = (1, 3)  # sizes are drawn between these
TOLERANCE = 1e-9  # of the largest entry of a gradient: float64, sums of a few terms, values of size 1

Env = Mapping[Index, int]


@dataclass(frozen=True)
class Agreement:
    """How many gradients were compared, the worst error (relative), and what is wrong, if anything."""

    examples: int
    worst: float
    wrong: str = ""

    @property
    def holds(self) -> bool:
        return not self.wrong and self.examples > 0


def agrees(laws: Sequence[Equation], *, examples: int = 30, library: str = "array-api") -> Agreement:
    """Compare the generated gradients of one loss, dL/dx for each law, with autograd on random examples.

    Needs PyTorch and Hypothesis; raises ImportError without them.
    """
    import torch
    from hypothesis import HealthCheck, Phase, given, settings

    space: dict[str, Any] = {}
    exec(compile(source(laws, library=library), "<generated>", "exec"), space)
    loss = laws[0].lhs.body  # type: ignore[attr-defined]
    things = _tensors(laws)
    compared, worst = 0, 0.0

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(_numbers(laws))
    def compare(drawn: dict[Any, Any]) -> None:
        nonlocal compared, worst
        run = Loops(drawn, torch, things)
        got = space["gradients"](**{name: run.array(thing) for name, thing in inputs(laws).items()})
        for law in laws:
            tensor = law.lhs.wrt.tensor  # type: ignore[attr-defined]
            want = Loops(drawn, torch, things).gradient(loss, tensor)
            mine = torch.as_tensor(got[tensor.name], dtype=torch.float64)
            if not (bool(torch.isfinite(want).all()) and bool(torch.isfinite(mine).all())):
                continue
            scale = max(1.0, float(want.abs().max())) if want.numel() else 1.0
            error = float((mine - want).abs().max()) / scale if want.numel() else 0.0
            if error > TOLERANCE:
                raise AssertionError(f"dL/d{tensor.name}: got {mine.tolist()}, autograd {want.tolist()}; {run.told()}")
            compared, worst = compared + 1, max(worst, error)

    try:
        compare()
    except AssertionError as error:
        return Agreement(compared, worst, str(error))
    return Agreement(compared, worst, "" if compared else "no example had finite values")


def _numbers(laws: Sequence[Equation]) -> Any:
    """A strategy for sizes, free tensors and lookups, by the kinds that they are declared with."""
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as arrays

    ranges = {"real": (-2, 2), "nonnegative": (0, 2), "positive": (0.25, 2)}
    things = _tensors(laws)
    free = sorted({t for t in things if t.body is None and t.through is None}, key=lambda t: t.uid)
    lookups = sorted(
        {x for x in inputs(laws).values() if isinstance(x, Lookup)} | _lookups(things), key=lambda x: x.name
    )
    bodies = [t.definition[1] for t in things if t.body is not None]
    sides = [side for law in laws for side in (law.lhs, law.rhs)]
    sizes = sorted({x for x in everything([*bodies, *sides]) if isinstance(x, Size)}, key=lambda s: s.name)

    @st.composite
    def numbers(draw: Any) -> dict[Any, Any]:
        out: dict[Any, Any] = {size: draw(st.integers(*LENGTHS)) for size in sizes}
        for tensor in free:
            shape = tuple(out[size] for size in tensor.sizes)
            if tensor.kind == "indicator":
                elements = st.sampled_from([0.0, 1.0, 1.0])
            else:
                elements = st.floats(*ranges[tensor.kind], width=32)
            out[tensor] = draw(arrays.arrays("float64", shape, elements=elements, fill=st.nothing()))
        for lookup in lookups:
            shape = tuple(out[size] for size in lookup.sizes)
            out[lookup] = draw(arrays.arrays("int64", shape, elements=st.integers(0, out[lookup.size] - 1)))
        return out

    return numbers()


def _tensors(laws: Sequence[Equation]) -> list[Tensor]:
    found = {t for law in laws for t in (*tensors_of(law.lhs), *tensors_of(law.rhs))}
    return sorted(found, key=lambda t: t.uid)


def _lookups(tensors: Iterable[Tensor]) -> set[Lookup]:
    bodies = [t.definition[1] for t in tensors if t.body is not None]
    return {thing for thing in everything(bodies) if isinstance(thing, Lookup)}


class Loops:
    """The definitions on one example, an entry at a time."""

    def __init__(self, drawn: Mapping[Any, Any], torch: Any, activations: Iterable[Tensor] = ()):
        self.drawn, self.torch = drawn, torch
        self.leaf: tuple[Tensor, Any] | None = None
        self.slopes = {t.through[1]: t.through[0] for t in activations if t.through is not None and t.sizes}
        self.known: dict[tuple[Tensor, tuple[int, ...]], Any] = {}

    def told(self) -> str:
        return ", ".join(f"{thing.name} = {self.drawn[thing]}" for thing in self.drawn).replace("\n", "")

    def number(self, value: Any) -> Any:
        return self.torch.tensor(float(value), dtype=self.torch.float64)

    def array(self, thing: Tensor | Lookup | Size) -> Any:
        """A tensor or a lookup as an array, a size as a number."""
        if isinstance(thing, Size):
            return self.drawn[thing]
        if isinstance(thing, Lookup):
            return self.torch.as_tensor(self.drawn[thing])
        shape = tuple(self.drawn[size] for size in thing.sizes)
        values = [self.entry(thing, at).detach() for at in itertools.product(*map(range, shape))]
        if not values:
            return self.torch.zeros(shape, dtype=self.torch.float64)
        return self.torch.stack(values).reshape(shape)

    def gradient(self, loss: Term, tensor: Tensor) -> Any:
        """The derivative of a loss by all entries of a tensor, which is a variable whatever its definition."""
        leaf = self.array(tensor).clone().requires_grad_()
        self.known.clear()
        self.leaf = tensor, leaf
        value = self.value(loss, {})
        if not value.requires_grad:
            return self.torch.zeros_like(leaf)
        (out,) = self.torch.autograd.grad(value, leaf, allow_unused=True)
        return self.torch.zeros_like(leaf) if out is None else out

    def place(self, index: AnyIndex, env: Env) -> int:
        if isinstance(index, At):
            return int(self.drawn[index.lookup][tuple(self.place(i, env) for i in index.indices)])
        return env[index]

    def entry(self, tensor: Tensor, at: tuple[int, ...]) -> Any:
        if self.leaf is not None and tensor is self.leaf[0]:
            return self.leaf[1][at]
        if (tensor, at) not in self.known:
            self.known[tensor, at] = self._entry(tensor, at)
        return self.known[tensor, at]

    def _entry(self, tensor: Tensor, at: tuple[int, ...]) -> Any:
        if tensor.through is not None:
            g, u = tensor.through
            if tensor.sizes:
                return self.torch.sin(self.entry(g, at))
            shape = (range(self.drawn[size]) for size in g.sizes)
            return sum(
                (self.entry(u, r).detach() * self.entry(g, r) for r in itertools.product(*shape)), self.number(0)
            )
        if tensor.body is not None:
            slots, body = tensor.definition
            return self.value(body, dict(zip(slots, at, strict=True)))
        if tensor in self.slopes:
            return self.torch.cos(self.entry(self.slopes[tensor], at)).detach()
        return self.number(self.drawn[tensor][at])

    def value(self, term: Term, env: Env) -> Any:
        match term:
            case Num(value):
                return self.number(value)
            case Count(size):
                return self.number(self.drawn[size])
            case Delta(left, right):
                return self.number(self.place(left, env) == self.place(right, env))
            case Entry(tensor, indices):
                return self.entry(tensor, tuple(self.place(i, env) for i in indices))
            case Add(terms):
                return sum((self.value(t, env) for t in terms), self.number(0))
            case Mul(factors):
                out = self.number(1)
                for factor in factors:
                    out = out * self.value(factor, env)
                return out
            case Pow(base, exponent):
                return self.value(base, env) ** exponent
            case Sum(index, body):
                return sum((self.value(body, {**env, index: n}) for n in range(self.drawn[index.size])), self.number(0))
            case Fn("inv", arg):
                below = self.value(arg, env)
                return self.number(0) if float(below.detach()) == 0 else 1 / below
            case Fn(name, arg):
                return getattr(self.torch, name)(self.value(arg, env))
        raise TermError(f"agreement: {type(term).__name__} has no value in loops")
