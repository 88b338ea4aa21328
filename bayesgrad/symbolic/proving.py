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
from bayesgrad.symbolic.folding import Rule, at, followed, normalised, places, rules_of, search, times
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
    if any(True for side in (claim.lhs, claim.rhs) for _ in _gradients(side)):
        yield lambda: _derived(claim, seed)
    yield lambda: _compared(claim, seed)


def _gradients(term: Term) -> Iterator[tuple[Tensor, Entry]]:
    """The derivatives of one number by an entry in a term: the number and the entry."""
    for d in derivatives(term):
        match d:
            case Diff(Entry(loss, ()), Entry(variable, indices)) if (
                loss is not variable
                and (loss.body is not None or loss.through is not None)
                and len({*indices}) == len(indices)
                and all(isinstance(i, Index) for i in indices)
            ):
                yield loss, Entry(variable, indices)


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
        poly = tidy(flatten(self.term))
        for term, tensors, why in followed(self.term, poly, (*known, *self.sums), (), self.pool):
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
        single, rest = list[Mono](), list[Mono]()
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


def _derived(claim: Equation, seed: int) -> Judged:
    """Gradients of one number replaced by the laws that are derived for them, then both sides in one form."""
    pool = pool_of(_named(claim), _free(claim))
    left, right = (_Side(term, claim, pool) for term in (claim.lhs, claim.rhs))
    known: dict[Tensor, Deriver] = {}
    laws: list[Derivation] = []
    for side in (left, right):
        for loss, wrt in list(_gradients(side.chain.start)):
            if loss not in known:
                letters = [t for t in _defined(claim.lhs, claim.rhs) if t is not loss]
                known[loss] = Deriver(loss, letters=letters, given=claim.given, seed=seed)
            if wrt.tensor not in known[loss].graph:
                continue
            laws.append(known[loss].law(wrt.tensor))
            side.use(laws[-1], f"{text(laws[-1].claim.lhs)} = {text(laws[-1].claim.rhs)}")
        side.reduce()
        side.assume()
    more = frozenset().union(*(law.opened for law in laws))
    adjoints = tuple(d for deriver in known.values() for d in deriver.adjoints.values())
    gap = tidy(flatten(rules.unfold(left.term - right.term, adjoints)))
    for chosen in _choices(claim, left.term, right.term):
        for side in (left, right):
            side.write_out(chosen)
            side.assume()
        if same(left.term, right.term):
            judged = _joined(claim, left, right, seed, more)
            return replace(judged, lemmas=(*laws, *judged.lemmas))
    chain = Chain(claim.lhs).algebra(claim.rhs, "is what the claim says")
    sampled = _sampled(claim, chain, more)
    return Judged(sampled, check(sampled, chain, seed=seed), chain, _residual(claim, gap, pool), tuple(laws))


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
    letters = _defined(claim.lhs, claim.rhs)
    folds = [r for t in letters for r in rules_of(t, pool)]
    sums = [r for t in letters if t.kind != "real" for r in normalised(t, folds, pool)]
    path = search(gap, (*folds, *sums), (), pool)
    return path[-1][0] if path else written(gap, pool) if gap else lift(0)


def _free(claim: Equation) -> list[Index]:
    return sorted(indices_of(claim.lhs)[0] | indices_of(claim.rhs)[0], key=lambda i: i.uid)
