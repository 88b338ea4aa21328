"""Random graphs of definitions: some inputs, some definitions that use each other, a loss at the end.

No head is among them on purpose: sums, products, quotients, roots, activations, normalised rows, shared inputs and
residual connections in any order. Every definition is of one or two indices over the sizes n and m.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from bayesgrad.symbolic.terms import Entry, Size, Tensor, Term, exp, inv, log, sqrt, tanh, total

N, M = Size("n", nonempty=True), Size("m", nonempty=True)


class Graph:
    """The graph of a seed: its loss, and the tensors that one may differentiate by."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.inputs = [Tensor("x", (N, M)), Tensor("y", (M,)), Tensor("z", (N,)), Tensor("r", (), "positive")]
        self.made: list[Tensor] = []
        for number in range(self.random.randint(3, 6)):
            self.made.append(self.definition(f"h_{number}"))
        last = self.made[-1]
        self.u = Tensor("u", last.sizes)
        self.loss = Tensor("L", through=(last, self.u)) if self.random.random() < 0.5 else self.closed()

    def closed(self) -> Tensor:
        """A loss that is written out, of the last definition and of another one."""
        one, other = self.made[-1], self.random.choice(self.made)

        def body() -> Term:
            parts = [_over(t.sizes, lambda *at, t=t: t(*at) ** 2 + t(*at)) for t in (one, other)]
            return parts[0] + parts[1]

        return Tensor("L", body=body)

    def any_entry(self, *at) -> Entry:
        """An entry at some of the indices, or a number; a late definition rather than an early one."""
        pool = [*self.inputs, *self.made, *self.made[-2:]]
        fits = [t for t in pool if all(any(i.size == size for i in at) for size in t.sizes)]
        tensor = self.random.choice(fits)
        return tensor(*(next(i for i in at if i.size == size) for size in tensor.sizes))

    def definition(self, name: str) -> Tensor:
        sizes = self.random.choice(((N, M), (N, M), (N,), (M,)))
        make = self.random.choice((self.linear, self.product, self.residual, self.bounded, self.scaled, self.rooted))
        if sizes == (N, M) and self.random.random() < 0.3:
            return self.normalised(name)
        return make(name, sizes)

    def _fixed(self, name: str, sizes: tuple[Size, ...], body: Callable[..., Term], kind: str = "real") -> Tensor:
        """A definition whose random choices are made once."""
        tensor = Tensor(name, sizes, kind, body)
        assert tensor.definition
        return tensor

    def linear(self, name: str, sizes: tuple[Size, ...]) -> Tensor:
        other = self.random.choice((N, M))
        return self._fixed(
            name, sizes, lambda *at: total(lambda k: self.any_entry(*at, k) * self.any_entry(k, *at), over=other)
        )

    def product(self, name: str, sizes: tuple[Size, ...]) -> Tensor:
        return self._fixed(name, sizes, lambda *at: self.any_entry(*at) * self.any_entry(*at) - 2 * self.any_entry(*at))

    def residual(self, name: str, sizes: tuple[Size, ...]) -> Tensor:
        return self._fixed(name, sizes, lambda *at: self.any_entry(*at) + tanh(self.any_entry(*at)))

    def bounded(self, name: str, sizes: tuple[Size, ...]) -> Tensor:
        return self._fixed(name, sizes, lambda *at: inv(1 + exp(-self.any_entry(*at))), "positive")

    def scaled(self, name: str, sizes: tuple[Size, ...]) -> Tensor:
        return self._fixed(name, sizes, lambda *at: self.any_entry(*at) * inv(1 + self.any_entry(*at) ** 2))

    def rooted(self, name: str, sizes: tuple[Size, ...]) -> Tensor:
        square = lambda at: self.any_entry(*at) ** 2
        return self._fixed(name, sizes, lambda *at: sqrt(1 + square(at)) * log(2 + square(at)))

    def normalised(self, name: str) -> Tensor:
        """A softmax of something, row by row, whose mass is a definition of its own."""
        score = self.any_entry
        state = self.random.getstate()

        def scored(*at) -> Term:
            self.random.setstate(state)
            return tanh(score(*at))

        mass = self._fixed(f"Z_{name}", (N,), lambda i: total(lambda k: exp(scored(i, k)), over=M), "positive")
        return self._fixed(name, (N, M), lambda i, j: exp(scored(i, j)) * inv(mass(i)), "positive")


def _over(sizes: tuple[Size, ...], body: Callable[..., Term]) -> Term:
    return total(body, over=sizes) if len(sizes) != 1 else total(lambda i: body(i), over=sizes[0])
