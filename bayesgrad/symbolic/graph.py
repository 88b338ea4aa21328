"""Which tensor is defined by which: the graph that a derivation walks backwards, from the loss to its inputs.

An arrow runs from x to each tensor whose definition names x (its *uses*). The chain rule needs tensors through which
alone x acts on the loss, none of which depends on another; ``middles`` and ``gate`` find them.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayesgrad.symbolic.terms import Entry, Tensor, Term, TermError, children


def named_in(term: Term) -> dict[Tensor, None]:
    """The tensors that a term names itself, in the order in which it names them."""
    own = {term.tensor: None} if isinstance(term, Entry) else {}
    for child in children(term):
        own |= named_in(child)
    return own


def parents(tensor: Tensor) -> tuple[Tensor, ...]:
    """The tensors that a definition is written with, or what a function known by its gradient depends on."""
    if tensor.through is not None:
        return (tensor.through[0],)
    return tuple(named_in(tensor.definition[1])) if tensor.body is not None else ()


class Graph:
    """The tensors that a loss depends on; ``order`` lists each after everything that it is defined by."""

    def __init__(self, loss: Tensor):
        self.loss = loss
        self.order: list[Tensor] = []
        self._used: dict[Tensor, list[Tensor]] = {}
        state: dict[Tensor, bool] = {}

        def visit(tensor: Tensor) -> None:
            if state.get(tensor):
                return
            if tensor in state:
                raise TermError(f"tensor {tensor.name}: it is defined by itself")
            state[tensor] = False
            for parent in parents(tensor):
                visit(parent)
                self._used.setdefault(parent, []).append(tensor)
            state[tensor] = True
            self.order.append(tensor)

        visit(loss)

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor in set(self.order)

    def uses(self, tensor: Tensor) -> list[Tensor]:
        return self._used.get(tensor, [])

    def above(self, tensor: Tensor, without: Iterable[Tensor] = ()) -> set[Tensor]:
        """What depends on a tensor, on ways that avoid ``without``."""
        stop, found, todo = set(without), set(), [tensor]
        while todo:
            for use in self.uses(todo.pop()):
                if use not in found and use not in stop:
                    found.add(use)
                    todo.append(use)
        return found

    def independent(self, tensors: Iterable[Tensor]) -> bool:
        """Whether none of some tensors depends on another."""
        chosen = set(tensors)
        return not any(self.above(t) & chosen for t in chosen)

    def middles(self, tensor: Tensor, tops: Iterable[Tensor] = ()) -> list[Tensor]:
        """The uses of a tensor on its ways to ``tops``, without the statistics that only other uses see.

        A statistic, such as a softmax's Z or a norm's mean, has fewer indices than the uses that see it; it is written
        out in their Jacobians. A top that is a use itself and sees no other use is no way that a statistic could take.
        """
        ends = set(tops) or {self.loss}
        direct = {t for t in ends if t in self.uses(tensor) and not self._below(t) & set(self.uses(tensor))}
        out = sorted((t for t in self.uses(tensor) if t in ends or self.above(t) & ends), key=self.order.index)
        ends -= direct
        for use in reversed(out):
            others = [t for t in out if t is not use]
            inside = {t for t in (use, *self.above(use, others)) if t in ends or self.above(t) & ends}
            hit = [t for t in others if any(t in self.uses(x) for x in inside)]
            if hit and not ends & inside and max(len(t.sizes) for t in inside) < min(len(t.sizes) for t in hit):
                out = others
        return out

    def _below(self, tensor: Tensor) -> set[Tensor]:
        """What a tensor depends on."""
        return {t for t in self.order if tensor in self.above(t)}

    def gate(self, tensor: Tensor) -> Tensor:
        """The nearest tensor that every way from ``tensor`` to the loss passes; the loss itself at the latest."""
        above = self.above(tensor)
        ways = [t for t in self.order if t in above]
        return next(t for t in ways if t is self.loss or self.loss not in self.above(tensor, [t]))
