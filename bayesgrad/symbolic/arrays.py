"""A law on numbers: the very term that the kernel proved, evaluated on NumPy arrays.

Every index becomes an axis; sums reduce it. Tensors are taken from ``tensors`` by name, and a defined one that is not
given there is computed from its definition. inv(0) = 0, as in the proofs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayesgrad.symbolic.terms import (
    Add,
    AnyIndex,
    At,
    Count,
    Delta,
    Entry,
    Fn,
    Index,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Term,
    indices_of,
    tensors_of,
)


class MissingTensor(KeyError):
    """A tensor or a size that the term needs and that was not given."""


def evaluate(
    term: Term,
    tensors: Mapping[str, np.ndarray],
    order: Sequence[Index],
    *,
    sizes: Mapping[str, int] | None = None,
) -> np.ndarray:
    """The value of ``term`` as a float64 array with one axis for each index of ``order``.

    ``tensors`` maps the names of tensors and of lookups (integer arrays) to arrays, ``sizes`` the names of sizes that
    no given array has. Raises MissingTensor, and ValueError where arrays disagree on a size.
    """
    missing = indices_of(term)[0] - set(order)
    if missing:
        raise ValueError(f"order: index {min(i.name for i in missing)} of the term is not listed")
    run = Evaluation(tensors, dict(sizes or {}))
    for tensor in tensors_of(term):
        if tensor.name in tensors:
            run.learn(tensor.name, tensor.sizes, np.shape(tensors[tensor.name]))
    for index in order:
        run.axis[index] = len(run.axis)
    value = run.visit(term)
    shape = tuple(run.length(i.size) for i in order)
    return np.broadcast_to(value.reshape(value.shape[: len(order)]), shape).copy()


class Evaluation:
    """Arrays of 16 axes, all but the open ones of length 1."""

    depth = 16

    def __init__(self, tensors: Mapping[str, np.ndarray], sizes: dict[str, int]):
        self.tensors, self.sizes = tensors, sizes
        self.axis: dict[Index, int] = {}

    def length(self, size: Size) -> int:
        if size.name not in self.sizes:
            raise MissingTensor(f"size {size.name}: no given array has it; pass it in sizes")
        return self.sizes[size.name]

    def learn(self, name: str, sizes: Sequence[Size], shape: tuple[int, ...]) -> None:
        if len(shape) != len(sizes):
            raise ValueError(f"{name}: got {len(shape)} axes, expected {len(sizes)}")
        for size, length in zip(sizes, shape, strict=True):
            if self.sizes.setdefault(size.name, length) != length:
                raise ValueError(f"{name}: size {size.name} is {length} here and {self.sizes[size.name]} elsewhere")

    def place(self, index: AnyIndex) -> np.ndarray:
        """The positions of an index as an integer array along its own axis."""
        if isinstance(index, At):
            table = np.asarray(self.tensors[index.lookup.name])
            return table[tuple(self.place(i) for i in index.indices)]
        shape = [1] * self.depth
        shape[self.axis[index]] = -1
        return np.arange(self.length(index.size)).reshape(shape)

    def scalar(self, value: float) -> np.ndarray:
        return np.full((1,) * self.depth, value, dtype=np.float64)

    def visit(self, term: Term) -> np.ndarray:
        match term:
            case Num(value):
                return self.scalar(float(value))
            case Count(size):
                return self.scalar(self.length(size))
            case Entry(tensor, indices):
                if tensor.name not in self.tensors:
                    if tensor.body is None:
                        raise MissingTensor(f"tensor {tensor.name}: not given, and it has no definition")
                    return self.visit(tensor.unfold(indices))
                array = np.asarray(self.tensors[tensor.name], dtype=np.float64)
                return array[tuple(self.place(i) for i in indices)] if indices else self.scalar(float(array))
            case Delta(left, right):
                return (self.place(left) == self.place(right)).astype(np.float64)
            case Add(terms):
                return sum((self.visit(t) for t in terms), self.scalar(0.0))
            case Mul(factors):
                out = self.scalar(1.0)
                for factor in factors:
                    out = out * self.visit(factor)
                return out
            case Pow(base, exponent):
                return self.visit(base) ** exponent
            case Sum(index, body):
                self.axis[index] = 1 + max(self.axis.values(), default=-1)
                inner = self.visit(body)
                axis = self.axis.pop(index)
                if inner.shape[axis] == 1:
                    inner = inner * self.length(index.size)
                return inner.sum(axis=axis, keepdims=True)
            case Fn("exp", arg):
                return np.exp(self.visit(arg))
            case Fn("log", arg):
                return np.log(self.visit(arg))
            case Fn("tanh", arg):
                return np.tanh(self.visit(arg))
            case Fn("sqrt", arg):
                return np.sqrt(self.visit(arg))
            case Fn("inv", arg):
                below = self.visit(arg)
                return np.divide(1.0, below, out=np.zeros_like(below), where=below != 0)
        raise ValueError(f"term: {type(term).__name__} has no value on arrays")
