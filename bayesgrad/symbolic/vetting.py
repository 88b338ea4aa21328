"""What is looked at before a term may stand in a proof: positions that exist, and kinds that are true.

A claim speaks of all finite sizes, 0 included. So a position is there only if the claim names it: each index and each
lookup of a proof is one of the claim or of its hypotheses, or is bound by a sum; a lookup into a size that is never
empty exists always. And a tensor is what it was declared to be: its definition depends on its own indices alone, not
on itself, and has the sign that was declared for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from bayesgrad.symbolic import rules
from bayesgrad.symbolic.claims import AtMost, Equation, Minimum
from bayesgrad.symbolic.index_calculus import flatten, positive, same
from bayesgrad.symbolic.terms import (
    AnyIndex,
    Fn,
    Index,
    Mul,
    Num,
    Tensor,
    Term,
    free_of,
    indices_of,
    lift,
    lookups_of,
    rename,
    tensors_of,
)


class ProofError(ValueError):
    """A claim that means nothing or a step that does not follow: names the step, the rule and the two sides."""


class Vetting:
    """What one claim allows in its proof; ``used`` and ``leans`` collect the rules and the facts that kinds rest on."""

    def __init__(self, claim: Equation, is_proved: Callable[[Equation], bool]):
        self.claim, self.is_proved = claim, is_proved
        self.sides = (claim.lhs, claim.rhs, *(side for g in claim.given for side in (g.lhs, g.rhs)))
        # a hypothesis speaks of all positions of its own free indices; every other index is a variable of the claim
        self.fixed = {i for g in claim.given for i in free_of(g.lhs, g.rhs) if i not in g.free}
        self.scope = {*free_of(claim.lhs, claim.rhs), *self.fixed}
        self.lookups = set().union(*map(lookups_of, self.sides))
        self.used: set[str] = set()
        self.leans: list[Equation] = []
        self.vetted: set[Tensor] = set()
        self.free: set[Index] = set()
        self.bound: set[Index] = set()

    # -- the claim -------------------------------------------------------------------------------------------------

    def statement(self) -> None:
        """The claim and its hypotheses mean something, and no hypothesis says what is to be shown."""
        self.well_formed(*self.sides)
        for g in self.claim.given:
            if g.given:
                raise ProofError(f"hypothesis {g.says!r}: it has hypotheses of its own, expected none")
            if self.concludes(g):
                raise ProofError(f"hypothesis {g.says!r} is what is to be shown")

    def concludes(self, given: Equation) -> bool:
        """Whether a hypothesis is the claim itself, at some positions of its own indices."""
        claim = self.claim
        if (given.at_most and type(claim) not in (AtMost, Minimum)) or nonzero(given):
            return False
        aim = claim.lhs if type(claim) is Minimum else claim.rhs - claim.lhs
        if same(aim, lift(0)):
            return False
        own = [i for i in given.free if i in free_of(given.lhs, given.rhs)]
        choices = [[s for s in self.scope if s.size == i.size] for i in own]
        for places in itertools.islice(itertools.product(*choices), 64):
            where: dict[Index, AnyIndex] = dict(zip(own, places, strict=True))
            gap = rename(given.rhs - given.lhs, where)
            if same(gap, aim) or (not given.at_most and same(-gap, aim)):
                return True
        return False

    # -- positions -------------------------------------------------------------------------------------------------

    def placed(self, *terms: Term) -> None:
        """Every free index and every lookup is one of the claim, or leads into a size that is not empty."""
        for term in terms:
            if stray := indices_of(term)[0] - self.scope:
                raise ProofError(f"index {min(i.name for i in stray)} of a step is no index of the claim")
            self.exist(term)

    def exist(self, *terms: Term) -> None:
        """Every lookup is one of the claim, or leads into a size that is not empty."""
        for term in terms:
            if stray := {f for f in lookups_of(term) - self.lookups if not f.size.nonempty}:
                name = min(f.name for f in stray)
                raise ProofError(f"lookup {name} is no lookup of the claim and leads into a size that may be empty")

    def instantiated(self, given: Equation) -> None:
        """Every index that a hypothesis quantifies over is read off its left side, or is a position of the claim."""
        if loose := set(given.free) - set(free_of(given.lhs)) - self.scope:
            name = min(i.name for i in loose)
            raise ProofError(f"rewrite: no position is given for the index {name} of the hypothesis {given.says!r}")

    # -- terms and tensors -----------------------------------------------------------------------------------------

    def well_formed(self, *terms: Term) -> None:
        """No index both free and bound, one thing a name, and every declared kind true of its definition."""
        for term in terms:
            free, bound = indices_of(term)
            self.free |= free
            self.bound |= bound
            if both := self.free & self.bound:
                raise ProofError(f"index {min(i.name for i in both)} is used both free and bound")
            if rules.curvature(term):
                raise ProofError("a second derivative of a function of which only the gradient is known")
            self.tensors(*tensors_of(term))

    def tensors(self, *tensors: Tensor) -> None:
        """Every tensor is what it was declared to be."""
        for tensor in sorted(set(tensors) - self.vetted, key=lambda t: t.uid):
            self.vetted.add(tensor)
            self.vet(tensor)

    def vet(self, tensor: Tensor) -> None:
        """A definition depends on its own indices, not on itself, and has the kind that was declared for it."""
        inner: list[Term] = [t(*(Index("r", size) for size in t.sizes)) for t in tensor.through or ()]
        if tensor.body is not None:
            slots, body = tensor.definition
            inner.append(body)
            if indices_of(body)[0] - set(slots):
                raise ProofError(f"tensor {tensor.name}: its definition depends on an index that is not its own")
            if rules.curvature(body):
                raise ProofError("a second derivative of a function of which only the gradient is known")
            self.exist(body)
        if any(tensor in tensors_of(t) for t in inner):
            raise ProofError(f"tensor {tensor.name}: it is defined by itself")
        if tensor.body is not None and tensor.kind != "real" and not self.kind_holds(tensor):
            raise ProofError(f"tensor {tensor.name}: its definition is not seen to be {tensor.kind}")

    def kind_holds(self, tensor: Tensor) -> bool:
        """Whether a definition has the kind that was declared for it: by its form, or as the gap of an inequality."""
        slots = tuple(Index("r", size) for size in tensor.sizes)
        body = tensor.unfold(slots)
        if tensor.kind == "positive":
            return positive(flatten(body))
        if tensor.kind == "indicator":
            return same(body * body, body)
        if tensor.kind == "nonnegative" and tensor.fact is None:
            return rules.nonnegative(body)
        match tensor.fact:
            case AtMost() as fact if self.known(fact):
                if fact in self.claim.given:
                    self.used.add("hypothesis")
                else:
                    self.used.add("instance")
                    self.leans.append(fact)
                return same(body, rename(fact.rhs - fact.lhs, dict(zip(fact.free, slots, strict=True))))
            case (Minimum() as fact, value) if self.known(fact) and fact.at and callable(value):
                self.used.add("instance")
                self.leans.append(fact)
                point = lift(value(*slots))
                self.well_formed(point)
                return positive(flatten(point)) and same(body, rules.fill(fact.lhs, {fact.at: lambda: point}))
        return False

    def known(self, fact: Equation) -> bool:
        """Whether an inequality holds wherever a tensor may use it: at all its positions, under what is given here."""
        if fact in self.claim.given:
            return True
        if not self.is_proved(fact) or not all(g in self.claim.given for g in fact.given):
            return False
        self.exist(fact.lhs, fact.rhs)
        mine = set(free_of(fact.lhs, fact.rhs))
        return mine == (set(fact.free) if fact.at_most else set()) and not self.fixed & mine


def nonzero(given: Equation) -> bool:
    """Whether a hypothesis says of something that it is not 0: x (1/x) = 1."""
    match given.lhs, given.rhs:
        case Mul((x, Fn("inv", y))), Num(value):
            return value == 1 and not given.at_most and same(x, y)
    return False
