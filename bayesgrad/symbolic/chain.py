"""A proof as it is written down: a first term, then one term a step with its rule and its reason.

It is what the kernel is given, not what it trusts: each step is carried out and compared before it counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayesgrad.symbolic.claims import CLAIMS, Equation
from bayesgrad.symbolic.terms import NODES, Tensor, Term, TermError, exact, exact_tuple, lift


@dataclass(frozen=True)
class Step:
    """One link: the term it arrives at, the rule, one sentence of why, and what the rule needs."""

    after: Term
    rule: str
    why: str
    tensors: tuple[Tensor, ...] = ()
    equation: Equation | None = None
    context: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        exact("step", self.after, *NODES)
        exact_tuple("step: rule and reason", (self.rule, self.why), str)
        exact_tuple("step: tensors", self.tensors, Tensor)
        exact("step: equation", self.equation, *CLAIMS, type(None))
        if self.context is not None and not callable(self.context):
            raise TermError("step: expected a function of the hole, or None, for its context")


class Chain:
    """A proof in the order in which one reads it: the first term, then one term a step."""

    def __init__(self, start: Any):
        self.start = lift(start)
        self.steps: list[Step] = []

    def algebra(self, after: Any, why: str) -> Chain:
        return self._add(Step(lift(after), "algebra", why))

    def definition(self, after: Any, why: str, *tensors: Tensor) -> Chain:
        return self._add(Step(lift(after), "definition", why, tensors))

    def differentiate(self, after: Any, why: str, *variables: Tensor) -> Chain:
        return self._add(Step(lift(after), "differentiate", why, variables))

    def through(self, after: Any, why: str, *middles: Tensor) -> Chain:
        return self._add(Step(lift(after), "through", why, middles))

    def rewrite(self, after: Any, why: str, by: Equation, within: Callable[..., Any] | None = None) -> Chain:
        return self._add(Step(lift(after), "rewrite", why, (), by, within))

    def _add(self, step: Step) -> Chain:
        self.steps.append(step)
        return self
