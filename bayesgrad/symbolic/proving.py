"""prove: a claim without a chain, judged by what its definitions and hypotheses say.

Both sides are brought to one form: derivatives carried out, definitions written out, hypotheses used from left to
right. Where the forms agree, the way there is the chain, and the kernel checks it like any other. An inequality needs a
form of its gap that is a sum of nonnegative terms. What cannot be shown is refuted by an instance or stays undecided,
with the difference that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from bayesgrad.symbolic import rules
from bayesgrad.symbolic.chain import Chain
from bayesgrad.symbolic.claims import AtMost, Equation
from bayesgrad.symbolic.deriving import Derivation, Deriver, derivatives, opened
from bayesgrad.symbolic.folding import Rule, at, normalised, places, rules_of, search, times
from bayesgrad.symbolic.index_calculus import Mono, Poly, flatten, same
from bayesgrad.symbolic.proof import Verdict, check
from bayesgrad.symbolic.squares import Form, logarithms, pairs
from bayesgrad.symbolic.terms import (
    Add,
    AnyIndex,
    Diff,
    Entry,
    Index,
    Num,
    Sum,
    Tensor,
    Term,
    indices_of,
    lift,
    move,
    rename,
    tensors_of,
)
from bayesgrad.symbolic.text import text
from bayesgrad.symbolic.tidying import Pool, pool_of, product, tidy, written

USES = 40  # how often one hypothesis is used
DEEP = 4  # definitions between a loss and a variable up to which they are all written out at once


@dataclass(frozen=True)
class Judged:
    """A claim, the verdict of the kernel, the chain that it was about, and the difference that was left."""

    claim: Equation
    verdict: Verdict
    chain: Chain
    residual: Term | None = None
    lemmas: tuple[Any, ...] = ()


def prove(claim: Equation, *, seed: int = 0) -> Judged:
    """Judge an equation or an inequality under its hypotheses."""
    judged = None
    for way in _ways(claim, seed):
        judged = way()
        if judged.verdict.word != "undecided":
            return judged
    assert judged is not None
    return judged


def _ways(claim: Equation, seed: int) -> Iterator[Callable[[], Judged]]:
    """What is tried, the cheaper way first."""
    if isinstance(claim, AtMost):
        yield lambda: _bounded(claim, seed)
        return
    direct = lambda: _compared(claim, seed)
    match claim.lhs:
        case Diff(Entry(loss, ()), Entry(variable, indices)) if (
            loss is not variable and len({*indices}) == len(indices) and all(isinstance(i, Index) for i in indices)
        ):
            derived = lambda: _derived(claim, loss, Entry(variable, indices), seed)
            yield from (direct, derived) if _depth(loss, variable) <= DEEP else (derived, direct)
            return
    yield direct


def _depth(loss: Tensor, variable: Tensor) -> int:
    """The number of definitions on the longest way from a loss down to a variable."""
    known: dict[Tensor, int] = {}

    def visit(tensor: Tensor) -> int:
        if tensor not in known:
            known[tensor] = 0
            inside = tensor.through[:1] if tensor.through else ()
            if tensor.body is not None:
                inside = tuple(t for t in tensors_of(tensor.definition[1], cut=()) if t is not tensor)
            below = [visit(t) for t in inside if t is variable or rules.mentions(t, variable)]
            known[tensor] = 1 + max(below, default=-1)
        return known[tensor]

    return visit(loss)


class _Side:
    """A term on its way to a form that can be compared."""

    def __init__(self, term: Term, claim: Equation, pool: Pool):
        self.claim, self.pool = claim, pool
        self.chain, self.term = Chain(term), term

    def reduce(self) -> None:
        """Every derivative carried out; what stands under one is written out, and nothing else."""
        while found := list(derivatives(self.term)):
            closed = tuple(
                dict.fromkeys(
                    t.body.tensor
                    for t in found
                    if isinstance(t.body, Entry)
                    and t.body.tensor.body is not None
                    and t.body.tensor is not t.wrt.tensor
                )
            )
            if closed:
                self.term = opened(self.term, closed)
                self.chain.definition(self.term, f"the definition of {', '.join(t.name for t in closed)}", *closed)
            self.term = written(flatten(rules.carry_out(self.term, (), set())), self.pool)
            self.chain.differentiate(self.term, "the rules of calculus")

    def use(self, known: Derivation, why: str) -> None:
        """Rewrite by a law that was derived."""
        left, right = known.claim.lhs, known.claim.rhs
        new, count = rules.replace(self.term, left, right, tuple(indices_of(left)[0]), True)
        if count:
            self.term = written(flatten(new), self.pool)
            self.chain.rewrite(self.term, why, known.claim)

    def write_out(self, chosen: tuple[Tensor, ...]) -> None:
        here = tuple(t for t in chosen if t in tensors_of(self.term))
        if here:
            self.term = written(flatten(rules.unfold(self.term, here)), self.pool)
            self.chain.definition(self.term, "definitions written out", *here)

    def assume(self) -> None:
        """Each hypothesis used from left to right as long as its left side occurs."""
        for given in self.claim.given:
            if not isinstance(given, AtMost):
                for _ in range(USES):
                    if not (self._replaced(given) if _atomic(given.lhs) else self._taken_out(given)):
                        break

    def _replaced(self, given: Equation) -> bool:
        new, count = rules.replace(self.term, given.lhs, given.rhs, given.free, False)
        if count and not same(new, self.term):
            self.term = written(flatten(new), self.pool)
            self.chain.rewrite(self.term, given.says or text(given.lhs), given)
        return bool(count)

    def _taken_out(self, given: Equation) -> bool:
        poly = tidy(flatten(self.term))
        body = tidy(flatten(given.lhs))
        if not body:
            return False
        rule = Rule((), given.free, body, flatten(given.rhs))
        for where, cofactor, left in places(poly, rule):
            rest = tidy(left)
            if len(rest) > len(poly) - len(body):
                continue

            def around(
                hole: Callable[..., Term], where: Any = where, cofactor: Any = cofactor, rest: Any = rest
            ) -> Term:
                entry = hole(*(move(i, where) for i in given.free))
                part = product(cofactor, entry)
                return Add((written(rest, self.pool), part)) if rest else part

            self.term = written((*rest, *times(cofactor, at(rule.short, where))), self.pool)
            self.chain.rewrite(self.term, given.says or text(given.lhs), given, around)
            return True
        return False

    @property
    def sums(self) -> list[Rule]:
        """The weights in the term that sum to 1 by their definitions."""
        known = [r for t in _defined(self.term) for r in rules_of(t, self.pool)]
        return [r for t in _defined(self.term) if t.kind != "real" for r in normalised(t, known, self.pool)]

    def fold(self) -> None:
        """Into the letters of the claim."""
        known = [r for t in _defined(self.claim.lhs, self.claim.rhs) for r in rules_of(t, self.pool)]
        for term, tensors, why in search(tidy(flatten(self.term)), (*known, *self.sums), (), self.pool):
            self.term = term
            self.chain.definition(term, why, *tensors)

    def copy(self) -> _Side:
        new = _Side(self.chain.start, self.claim, self.pool)
        new.chain.steps.extend(self.chain.steps)
        new.term = self.term
        return new

    def step(self, form: Form) -> None:
        self.term = form.term
        self.chain.definition(form.term, form.why, *form.tensors)

    def weigh(self, weight: Tensor, given: Equation) -> None:
        """What has one weight gets a second one, whose sum is 1 by a hypothesis."""
        single, rest = [], []
        for mono in tidy(flatten(self.term)):
            degree = sum(p for a, p in mono.factors if a.head is weight)
            (single if degree == 1 and len(mono.bound) == 1 else rest).append(mono)
        free = given.free

        def around(hole: Callable[..., Term]) -> Term:
            parts = []
            for mono in single:
                entry = next(a for a, _ in mono.factors if a.head is weight)
                slots = given.lhs.body.indices  # type: ignore[attr-defined]
                where = dict(zip(slots, entry.indices, strict=True))
                parts.append(product(mono, hole(*(where[i] for i in free))))
            return Add((*parts, written(tuple(rest), self.pool)))

        if single:
            self.term = around(lambda *at: rename(given.lhs, dict(zip(free, at, strict=True))))
            self.chain.rewrite(self.term, given.says or text(given.lhs), given, around)


def _around(cofactor: Mono, positions: tuple[AnyIndex, ...], rest: Term, hole: Callable[..., Term]) -> Term:
    return Add((rest, product(cofactor, hole(*positions))))


def _atomic(term: Term) -> bool:
    return isinstance(term, Entry) or (isinstance(term, Diff) and isinstance(term.body, Entry))


def _defined(*terms: Term) -> list[Tensor]:
    found: set[Tensor] = set().union(*(tensors_of(t) for t in terms))
    return sorted((t for t in found if t.body is not None), key=lambda t: t.uid)


def _choices(claim: Equation, *terms: Term) -> Iterator[tuple[Tensor, ...]]:
    """Which definitions to write out: none, then all but those that hypotheses speak of, then all."""
    every = _defined(*terms)
    spoken = {t for g in claim.given for t in tensors_of(g.lhs)}
    seen = set()
    for chosen in ((), tuple(t for t in every if t not in spoken), tuple(every)):
        if chosen not in seen:
            seen.add(chosen)
            yield chosen


def _compared(claim: Equation, seed: int) -> Judged:
    """Both sides in one form."""
    pool = pool_of(_named(claim), _free(claim))
    gap: Poly | None = None
    for chosen in _choices(claim, claim.lhs, claim.rhs):
        left, right = (_Side(term, claim, pool) for term in (claim.lhs, claim.rhs))
        for side in (left, right):
            side.reduce()
            side.assume()
            side.write_out(chosen)
            side.assume()
        if same(left.term, right.term):
            return _joined(claim, left, right, seed)
        gap = gap or tidy(flatten(left.term - right.term))
    chain = Chain(claim.lhs).algebra(claim.rhs, "both sides in one form")
    verdict = check(claim, chain, seed=seed)
    return Judged(claim, verdict, chain, _residual(claim, gap or (), pool))


def _joined(claim: Equation, left: _Side, right: _Side, seed: int, more: frozenset[Tensor] = frozenset()) -> Judged:
    """The way of the left side, then that of the right side backwards: in one step, by a lemma if it needs more."""
    chain, lemmas = left.chain, []
    rewrites = [s for s in right.chain.steps if s.rule != "definition"]
    if not right.chain.steps:
        pass
    elif not rewrites:
        names = tuple(dict.fromkeys(t for s in right.chain.steps for t in s.tensors))
        chain.definition(claim.rhs, f"the definition of {', '.join(t.name for t in names)}", *names)
    else:
        lemma = replace(claim, lhs=claim.rhs, rhs=right.term)
        lemma = _sampled(lemma, right.chain, more)
        verdict = check(lemma, right.chain, seed=seed)
        lemmas.append(Judged(lemma, verdict, right.chain))
        order = sorted(indices_of(lemma.lhs)[0] | indices_of(lemma.rhs)[0], key=lambda i: i.uid)
        chain.rewrite(claim.rhs, "the right side in the same form", lemma, lambda hole: hole(*order))
    sampled = _sampled(claim, chain, more)
    return Judged(sampled, check(sampled, chain, seed=seed), chain, None, tuple(lemmas))


def _derived(claim: Equation, loss: Tensor, wrt: Entry, seed: int) -> Judged:
    """The law derived, then its right side compared with that of the claim."""
    pool = pool_of(_named(claim), _free(claim))
    letters = [t for t in _defined(claim.rhs) if t is not wrt.tensor]
    known = Deriver(loss, letters=letters, given=claim.given, at=(wrt,), seed=seed)
    law = known.law(wrt.tensor)
    left, right = (_Side(term, claim, pool) for term in (claim.lhs, claim.rhs))
    left.use(law, f"derived: {text(law.claim.lhs)} = {text(law.claim.rhs)}")
    for other in {d.wrt.tensor: None for d in derivatives(claim.rhs) if isinstance(d.body, Entry)}:
        if other in known.graph:
            right.use(known.named(other), f"the gradient in {other.name}")
    right.reduce()
    gap = tidy(flatten(rules.unfold(left.term - right.term, tuple(known.adjoints.values()))))
    for chosen in _choices(claim, left.term, right.term):
        for side in (left, right):
            side.write_out(chosen)
        if same(left.term, right.term):
            judged = _joined(claim, left, right, seed, law.opened)
            return replace(judged, lemmas=(law, *judged.lemmas))
    chain = Chain(claim.lhs).rewrite(law.claim.rhs, "derived", law.claim).algebra(claim.rhs, "is what the claim says")
    sampled = _sampled(claim, chain, law.opened)
    return Judged(sampled, check(sampled, chain, seed=seed), chain, _residual(claim, gap, pool), (law,))


def _sampled(claim: Equation, chain: Chain, opened: frozenset[Tensor] = frozenset()) -> Equation:
    """The same claim, with what no step opens and no derivative passes drawn directly."""
    opened = opened.union(*(step.tensors for step in chain.steps))
    by = {d.wrt.tensor for side in (claim.lhs, claim.rhs) for d in derivatives(side)}
    spoken = {t for g in claim.given for side in (g.lhs, g.rhs) for t in tensors_of(side)}
    drawn = [
        t
        for t in _defined(claim.lhs, claim.rhs)
        if t not in opened and t not in spoken and (t in by or not any(rules.mentions(t, x) for x in by))
    ]
    return replace(claim, sample={**dict.fromkeys(drawn), **claim.sample})


def _named(claim: Equation) -> list[Tensor]:
    return sorted(tensors_of(claim.lhs) | tensors_of(claim.rhs), key=lambda t: t.uid)


def _bounded(claim: AtMost, seed: int) -> Judged:
    """An inequality: a form of its gap that cannot be negative."""
    pool = pool_of(_named(claim), _free(claim))
    gap = written(flatten(claim.rhs - claim.lhs), pool)
    last = None
    for chosen in _choices(claim, gap):
        side = _Side(gap, claim, pool)
        side.reduce()
        side.assume()
        side.write_out(chosen)
        side.assume()
        side.fold()
        last = side
        for attempt in (_by_signs, _by_pairs, _by_logarithms):
            if found := attempt(side):
                sampled = _sampled(claim, found.chain)
                return Judged(sampled, check(sampled, found.chain, seed=seed), found.chain)
    assert last is not None
    verdict = check(claim, last.chain, seed=seed)
    return Judged(claim, verdict, last.chain, written(flatten(last.term), pool))


def _by_signs(side: _Side) -> _Side | None:
    return side if rules.nonnegative(side.term) else None


def _by_pairs(side: _Side) -> _Side | None:
    """Squares, once for each pair of positions of weights that sum to 1, by definition or by hypothesis."""
    for rule in side.sums:
        slot, tensor = rule.first.bound[0], rule.first.factors[0][0]
        if tensor.indices[-1] == slot:
            for form in pairs(tidy(flatten(side.term)), [(tensor.head, rule.tensors)], side.pool):  # type: ignore[list-item]
                new = side.copy()
                new.step(form)
                return new if rules.nonnegative(new.term) else None
    for given in side.claim.given:
        match given.lhs, given.rhs:
            case Sum(slot, Entry(weight, indices)), Num(value) if value == 1 and indices[-1] is slot:
                new = side.copy()
                new.weigh(weight, given)
                for form in pairs(tidy(flatten(new.term)), [(weight, ())], side.pool):
                    new.step(form)
                    return new if rules.nonnegative(new.term) else None
    return None


def _by_logarithms(side: _Side) -> _Side | None:
    """Gibbs' inequality, wherever differences of logarithms have one weight."""
    for form in logarithms(tidy(flatten(side.term)), side.pool):
        new = side.copy()
        new.step(form)
        new.assume()
        new.fold()
        return new if rules.nonnegative(new.term) else None
    return None


def _residual(claim: Equation, gap: Poly, pool: Pool) -> Term:
    """What is left of the difference, in the letters of the claim."""
    folds = [r for t in _defined(claim.lhs, claim.rhs) for r in rules_of(t, pool)]
    path = search(gap, folds, (), pool)
    return path[-1][0] if path else written(gap, pool) if gap else lift(0)


def _free(claim: Equation) -> list[Index]:
    return sorted(indices_of(claim.lhs)[0] | indices_of(claim.rhs)[0], key=lambda i: i.uid)
