"""The kernel: the only code that may say "proved".

A claim is an equation or an inequality between terms, for all sizes, all values of its tensors and all positions of its
free indices, under hypotheses that it lists. Its proof is a chain of terms; each link names a rule, and the kernel
carries the rule out and compares canonical keys. Every link is evaluated on small random instances as well. A claim
whose proof fails is *refuted* if an exact instance of it is false, otherwise *undecided*, which is not proved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bayesgrad.symbolic import naming, refutation, rules
from bayesgrad.symbolic.chain import Chain, Step
from bayesgrad.symbolic.evaluation import Counterexample
from bayesgrad.symbolic.index_calculus import flatten, positive, same
from bayesgrad.symbolic.terms import (
    AnyIndex,
    Delta,
    Diff,
    Index,
    Size,
    Tensor,
    Term,
    children,
    indices_of,
    lift,
    tensors_of,
)

Word = Literal["proved", "refuted", "undecided"]


class ProofError(ValueError):
    """A claim that means nothing or a step that does not follow: names the step, the rule and the two sides."""


@dataclass(frozen=True, eq=False)
class Equation:
    """lhs = rhs for all positions of the free indices, under ``given``.

    ``says`` puts a hypothesis into words. ``sample`` tells the evaluator how to draw tensors: by a definition that
    satisfies the hypothesis, or (None) directly, although the tensor has a definition. In a hypothesis ``free`` lists
    the indices that it holds for; its other indices are those of the claim.
    """

    lhs: Term
    rhs: Term
    free: tuple[Index, ...] = ()
    given: tuple[Equation, ...] = ()
    says: str = ""
    sample: Mapping[Tensor, Callable[..., Any] | None] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class AtMost(Equation):
    """lhs <= rhs; where ``tight`` is given, equality holds exactly where every entry of these tensors is 0."""

    tight: tuple[Tensor, ...] | None = None
    at_most: bool = True


@dataclass(frozen=True, eq=False)
class Minimum(Equation):
    """lhs >= 0 for all positive ``at``, with equality only where ``at`` is 1 (rhs is 0)."""

    at: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Witness(Equation):
    """At these sizes, values and positions lhs is related to rhs: one written-out instance, computed exactly."""

    relation: Literal["=", "<", ">"] = "="
    sizes: Mapping[Size, int] = field(default_factory=dict)
    values: Mapping[Any, Any] = field(default_factory=dict)
    at: Mapping[Index, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Induction(Equation):
    """lhs = rhs at every time t >= 1, for tensors that depend on time.

    ``base`` is the claim with each tensor T replaced by ``first[T]``, ``step`` with T replaced by ``later[T]``, all of
    them without definitions. The step may assume this very claim (its first hypothesis) beside hypotheses that hold at
    every time; those, and the ones of the base, are hypotheses of the claim.
    """

    base: Equation | None = None
    step: Equation | None = None
    first: Mapping[Tensor, Tensor] = field(default_factory=dict)
    later: Mapping[Tensor, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What the kernel found; ``primitives`` and ``definitions`` are those that the proof used."""

    word: Word
    reason: str = ""
    counterexample: Counterexample | None = None
    primitives: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    leans: tuple[Equation, ...] = ()
    compared: int = 0
    seconds: float = 0.0


# by identity; the value keeps the equation alive, so that no id is used again
_PROVED: dict[int, tuple[Equation, Chain]] = {}


def worst(words: Sequence[Word]) -> Word:
    """The verdict on a result with several parts: the worst one, and undecided where there are none."""
    return min(words, key=("refuted", "undecided", "proved").index, default="undecided")


def is_proved(equation: Equation) -> bool:
    return proof_of(equation) is not None


def proof_of(equation: Equation) -> Chain | None:
    """The chain by which a claim was proved, or None: what a certificate of it is written from."""
    known, chain = _PROVED.get(id(equation), (None, None))
    return chain if known is equation else None


def check(claim: Equation, proof: Chain, *, seed: int = 0) -> Verdict:
    """Run a proof of a claim. Nothing else makes a verdict that says proved."""
    began = time.perf_counter()
    run = _Run(claim, seed)
    try:
        reason = run.chain(proof)
    except (ProofError, ValueError, TypeError) as error:
        reason = str(error)
    word: Word = "proved"
    found = None
    if reason:
        found = run.refutation()
        word = "refuted" if found else "undecided"
    else:
        _PROVED[id(claim)] = claim, proof
    spent = time.perf_counter() - began
    return Verdict(
        word, reason, found, tuple(sorted(run.used)), tuple(sorted(run.defined)), tuple(run.leans), run.compared, spent
    )


class _Run:
    def __init__(self, claim: Equation, seed: int):
        self.claim, self.seed = claim, seed
        self.used: set[str] = set()
        self.defined: set[str] = set()
        self.compared = 0
        self.vetted: set[Tensor] = set()
        self.meaningful = False
        self.free: set[Index] = set()
        self.bound: set[Index] = set()
        # a hypothesis speaks of all positions of its own free indices, but of one position of every other
        self.fixed = {i for g in claim.given for i in _free(g.lhs, g.rhs) if i not in g.free}
        self.scope = {*_free(claim.lhs, claim.rhs), *self.fixed}
        self.bodies = {t: body for g in (*claim.given, claim) for t, body in g.sample.items()}
        self.leans: list[Equation] = []

    def chain(self, proof: Chain) -> str:
        """The reason why the chain is no proof of the claim, or an empty string."""
        claim = self.claim
        if isinstance(claim, Witness):
            return self.witness(claim)
        if isinstance(claim, Induction):
            return self.induction(claim)
        if odd := [g for g in claim.given if type(g) not in (Equation, AtMost) or type(claim.given) is not tuple]:
            raise ProofError(f"hypothesis {odd[0].says!r}: expected an equation or an inequality")
        self.well_formed(claim.lhs, claim.rhs, *(side for g in claim.given for side in (g.lhs, g.rhs)))
        told = [claim.lhs, claim.rhs, *(side for g in claim.given for side in (g.lhs, g.rhs)), proof.start]
        if objection := naming.clash([*told, *(step.after for step in proof.steps)], self.scope):
            raise ProofError(objection)
        self.meaningful = True
        for term in (proof.start, *(step.after for step in proof.steps)):
            self.well_formed(term)
            self.placed(term)
        bound = isinstance(claim, (AtMost, Minimum))
        first = claim.rhs - claim.lhs if isinstance(claim, AtMost) else claim.lhs
        links = [(first, Step(proof.start, "algebra", "the proof starts at the left side"))]
        before = proof.start
        for step in proof.steps:
            links.append((before, step))
            before = step.after
        if not bound:
            links.append((before, Step(claim.rhs, "algebra", "the proof arrives at the right side")))
        for number, (left, step) in enumerate(links):
            where = f"step {number} ({step.rule}: {step.why})"
            follows = self.follows(left, step)
            doubt, compared = refutation.veto(left, step.after, claim.given, self.bodies, self.seed + number)
            self.compared += compared
            if not follows:
                return f"{where} does not follow" + (f"; {doubt}" if doubt else "")
            if doubt:
                return f"{where}: the kernel accepts what evaluation denies, so it is at fault; {doubt}"
            if not compared:
                return f"{where}: no instance that satisfies the hypotheses could be evaluated"
        if isinstance(claim, AtMost):
            self.bounded(claim, before)
        elif isinstance(claim, Minimum):
            self.minimum(claim)
        return ""

    def follows(self, before: Term, step: Step) -> bool:
        """Whether the rule of a step leads from ``before`` to ``step.after``."""
        after = step.after
        match step.rule:
            case "algebra":
                pass
            case "definition":
                self.defined.update(t.name for t in step.tensors)
                before, after = rules.unfold(before, step.tensors), rules.unfold(after, step.tensors)
            case "differentiate":
                before = rules.carry_out(before, step.tensors, self.used)
            case "through":
                before = rules.through(before, step.tensors)
                self.used.add("d-through")
            case "rewrite" if step.equation is not None:
                before, after = self.rewritten(before, after, step.equation, step.context)
                self.used.add("rewrite")
            case _:
                raise ProofError(f"rule {step.rule!r} is not admitted")
        self.used.add({"definition": "definition", "algebra": "algebra"}.get(step.rule, "algebra"))
        if _has(before, Delta) or _has(after, Delta):
            self.used.add("delta")
        return same(before, after)

    def rewritten(
        self, before: Term, after: Term, equation: Equation, context: Callable[..., Any] | None
    ) -> tuple[Term, Term]:
        """The two sides after replacing equals by equals."""
        assumed = equation in self.claim.given
        if type(equation) is not Equation or not (assumed or is_proved(equation)):
            raise ProofError("rewrite: this is no equation that was proved or is a hypothesis of this claim")
        if assumed:
            self.used.add("hypothesis")
        else:
            self.leans.append(equation)
        for other in equation.given:
            if other not in self.claim.given:
                raise ProofError(f"rewrite: the equation needs the hypothesis {other.says!r}, which is not given here")
        mine = _free(equation.lhs, equation.rhs)
        free = equation.free if assumed else tuple(mine)
        everywhere = not assumed and not equation.given
        if context is None:
            loose = tuple(i for i in free if assumed or i not in self.fixed)
            replaced, count = rules.replace(before, equation.lhs, equation.rhs, loose, everywhere)
            if not count:
                raise ProofError("rewrite: the left side of the equation does not occur")
            self.placed(replaced)
            return replaced, after
        hole = Tensor("□", tuple(i.size for i in free))
        around = lift(context(hole))
        self.well_formed(around)
        if caught := indices_of(around)[1] & set(mine):
            raise ProofError(f"rewrite: the context binds the index {min(i.name for i in caught)} of the equation")
        self.placed(around)
        if rules.under_derivative(around, hole):
            raise ProofError("rewrite: the hole stands inside a derivative, where an equation of values says nothing")

        def put(side: Term) -> Term:
            return rules.fill(around, {hole: lambda *at: rules.rename(side, placed(at))})

        def placed(at: tuple[AnyIndex, ...]) -> dict[Index, AnyIndex]:
            where = dict(zip(free, at, strict=True))
            if not assumed and any(i in self.fixed and where[i] is not i for i in free):
                raise ProofError("rewrite: the equation is known only where its hypothesis is given")
            return where

        for old, new in ((equation.lhs, equation.rhs), (equation.rhs, equation.lhs)):
            if same(before, put(old)):
                return put(new), after
        raise ProofError("rewrite: the context with one side of the equation in it is not the term before")

    def placed(self, term: Term) -> None:
        """Every free index of a step is one of the claim: no other position need exist."""
        if stray := indices_of(term)[0] - self.scope:
            raise ProofError(f"index {min(i.name for i in stray)} of a step is no index of the claim")

    def bounded(self, claim: AtMost, gap: Term) -> None:
        """The end of a proof of an inequality: the gap is a sum of nonnegative terms, or the kernel objects."""
        self.used.add("nonnegative")
        if not rules.nonnegative(gap):
            raise ProofError("nonnegative: the last term of the chain is not nonnegative by its form")
        if claim.tight is None:
            return
        self.used.add("vanishing-sum")
        if not rules.vanishes_with(gap, claim.tight):
            raise ProofError("vanishing-sum: the last term is not a sum of positive multiples of the named terms")

    def witness(self, claim: Witness) -> str:
        """The reason why a written-out instance is not what the claim says, or an empty string."""
        self.used.add("witness")
        given = tuple(t for t in claim.values if isinstance(t, Tensor) and t.body is not None)
        behind: set[Tensor] = set().union(*(tensors_of(t.definition[1]) for t in given))
        if claim.given or behind & (tensors_of(claim.lhs, given) | tensors_of(claim.rhs, given)):
            return "witness: a tensor is given by value beside what it is defined by"
        if any(count < size.nonempty for size, count in claim.sizes.items()):
            return "witness: a size is empty that may not be"
        left, right = (rules.explicit(t, claim.sizes, claim.values, claim.at) for t in (claim.lhs, claim.rhs))
        if claim.relation == "=":
            return "" if same(left, right) else "witness: the two sides differ"
        gap = rules.ball(left - right if claim.relation == ">" else right - left)
        return "" if gap > 0 else "witness: the difference is not seen to be positive"

    def induction(self, claim: Induction) -> str:
        """The reason why base and step do not make the claim true at every time, or an empty string."""
        self.used.add("induction")
        base, step = claim.base, claim.step
        if base is None or step is None or not (is_proved(base) and is_proved(step)):
            return "induction: base and step must be proved first"
        if any(type(e) is not Equation for e in (base, step)):
            return "induction: base and step must be equations"
        self.leans += [base, step]
        assumed = step.given[:1]
        if not assumed or assumed[0].given or set(assumed[0].free) != set(_free(assumed[0].lhs, assumed[0].rhs)):
            return "induction: the first hypothesis of the step must be the claim itself, for all its indices"
        kept = (*base.given, *step.given[1:])
        if not set(kept) <= set(claim.given) or any(set(_free(g.lhs, g.rhs)) - set(g.free) for g in kept):
            return "induction: base and step may rest on hypotheses of the claim alone, each for all its indices"
        if reason := self.timed(claim):
            return f"induction: {reason}"
        for name, shown, at in (
            ("base", base, claim.first),
            ("step", step, claim.later),
            ("hypothesis", assumed[0], {}),
        ):
            for mine, theirs in ((claim.lhs, shown.lhs), (claim.rhs, shown.rhs)):
                if _has(mine, Diff) or not same(rules.fill(mine, at), theirs):
                    return f"induction: the {name} is not the claim at that time"
        return ""

    def timed(self, claim: Induction) -> str:
        """Why the tensors of an induction are not three free families: now, at the first time, one step later."""
        now, named = set(claim.first), tensors_of(claim.lhs) | tensors_of(claim.rhs)
        if now != set(claim.later):
            return "the first time and the next one must be given for the same tensors"
        every = [*now, *claim.first.values(), *claim.later.values()]
        if len(set(every)) < len(every) or named & set(every) - now:
            return "a tensor at one time must be another tensor than at any other time"
        if any(t.body is not None or t.through is not None for t in every):
            return "a tensor that depends on time must have no definition"
        if any(other.kind != t.kind for at in (claim.first, claim.later) for t, other in at.items()):
            return "a tensor must have one kind at all times"
        if any(rules.mentions(t, other) for t in named - now for other in now):
            return "a definition in the claim depends on time"
        return ""

    def minimum(self, claim: Minimum) -> None:
        """The end of a proof of a minimum: lhs is 0 at 1, and its derivative times (t - 1) is (t - 1)^2 / t."""
        self.used.add("single-minimum")
        if claim.at is None or claim.at.kind != "positive" or claim.at.sizes or not same(claim.rhs, lift(0)):
            raise ProofError("single-minimum: expected a positive variable and the bound 0")
        t = claim.at()
        derivative = rules.derivative(claim.lhs, t, self.used)
        if not same(rules.fill(claim.lhs, {claim.at: lambda: lift(1)}), lift(0)):
            raise ProofError("single-minimum: the function is not 0 at 1")
        if not same(derivative * (t - 1), (t - 1) ** 2 / t):
            raise ProofError("single-minimum: the derivative times (t - 1) is not (t - 1)^2 / t")

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
            for tensor in sorted(tensors_of(term) - self.vetted, key=lambda t: t.uid):
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
            case AtMost() as fact if all(g in self.claim.given for g in fact.given) and (
                fact in self.claim.given
                or (
                    is_proved(fact)
                    and set(_free(fact.lhs, fact.rhs)) == set(fact.free)
                    and not self.fixed.intersection(fact.free)
                )
            ):
                if is_proved(fact):
                    self.leans.append(fact)
                self.used.add("instance" if is_proved(fact) else "hypothesis")
                return same(body, rules.rename(fact.rhs - fact.lhs, dict(zip(fact.free, slots, strict=True))))
            case (Minimum() as fact, value) if is_proved(fact) and not fact.given and fact.at and callable(value):
                self.used.add("instance")
                self.leans.append(fact)
                point = lift(value(*slots))
                self.well_formed(point)
                return positive(flatten(point)) and same(body, rules.fill(fact.lhs, {fact.at: lambda: point}))
        return False

    def refutation(self) -> Counterexample | None:
        """A certified instance on which the claim itself is false, if it means anything."""
        claim = self.claim
        if isinstance(claim, Witness):
            return refutation.of_witness(claim)
        sides = (claim.rhs, claim.lhs) if isinstance(claim, Minimum) else (claim.lhs, claim.rhs)
        bounded = isinstance(claim, (AtMost, Minimum))
        return refutation.of(*sides, claim.given, bounded, self.bodies, self.seed) if self.meaningful else None


def _free(*terms: Term) -> list[Index]:
    found: set[Index] = set().union(*(indices_of(t)[0] for t in terms))
    return sorted(found, key=lambda i: i.uid)


def _has(term: Term, kind: type[Term]) -> bool:
    return isinstance(term, kind) or any(_has(t, kind) for t in children(term))
