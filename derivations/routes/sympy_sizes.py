"""SymPy as one more objector: what it computes at explicit sizes is what the engine's evaluator computes.

Every claim is written in SymPy as readers see it, with its definitions. At a few explicit sizes and exact data both
sides are evaluated twice, by SymPy alone and by the engine; the two must agree, the relation must hold in SymPy's
numbers, and so must the hypotheses. That ties what is displayed to what is proved. It can only object: "proved" here
says that nothing was found to object to.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import flint
import sympy as sp
from rich.console import Console
from rich.progress import track

from bayesgrad import evidence
from bayesgrad.symbolic import sampling
from bayesgrad.symbolic.book import Book
from bayesgrad.symbolic.comparison import PRECISION, holds, mixed, variables
from bayesgrad.symbolic.evaluation import NotEvaluated, Real, positions
from bayesgrad.symbolic.naming import everything
from bayesgrad.symbolic.proof import Equation, Induction, Witness
from bayesgrad.symbolic.terms import At, Index, Lookup, Tensor, indices_of, lift
from bayesgrad.symbolic.writer import Written, named, slot_names, write, written
from derivations.laws import Law, labels, law
from derivations.routes.sympy_values import Bodies, NoValue, Sums, Values, is_zero

INSTANCES = (False, True, False)  # whether an instance is a corner: sizes 0 and 1, many entries 0
PLACES = 2  # positions of the free indices, of each instance
TRIES = 40  # instances, until the hypotheses of a claim hold at some position
DIGITS = 40
SOURCES = ("bayesgrad/symbolic/*.py", "derivations/*.py", "derivations/*/*.py", "bayesgrad/theorems.py")


@dataclass
class Found:
    """What the comparison of one claim came to."""

    name: str
    compared: int = 0
    objection: str = ""
    without: list[str] = field(default_factory=list)  # why an instance had no value

    @property
    def verdict(self) -> str:
        return "refuted" if self.objection else "proved" if self.compared else "undecided"

    @property
    def reason(self) -> str:
        if self.objection:
            return self.objection
        if self.compared:
            return f"both evaluations agree at {self.compared} places"
        return f"no instance could be compared ({self.without[0] if self.without else 'no hypothesis could be met'})"


def number(value: Any) -> sp.Rational:
    """An exact number of the evaluator as SymPy's."""
    return sp.Rational(int(value.p), int(value.q))


def differ(mine: Any, theirs: Any) -> bool:
    """Whether SymPy's exact number is not the evaluator's rational number, or lies outside of its ball."""
    if isinstance(theirs, flint.fmpq):
        if mine.is_Rational:
            return bool(mine != number(theirs))
        return not is_zero(mine - number(theirs))
    ball = flint.arb(str(sp.N(mine, DIGITS)))
    return not (abs(ball - theirs) < flint.arb(10) ** (4 - DIGITS) * (1 + abs(ball)))


def holds_here(relation: Any, left: Any, right: Any) -> bool:
    """Whether a relation is true of two of SymPy's numbers."""
    if isinstance(relation, sp.Ne):
        return not is_zero(left - right)
    if is_zero(left - right):
        return not isinstance(relation, sp.Lt | sp.Gt)
    if isinstance(relation, sp.Eq):
        return False
    gap = sp.N(left - right, DIGITS)
    return bool(gap < 0 if isinstance(relation, sp.Le | sp.Lt) else gap > 0)


class Comparison:
    """One claim with its two evaluations."""

    def __init__(self, claim: Equation, seed: int = 0):
        self.claim, self.seed, self.book = claim, seed, Book()
        self.written: Written = written(self.book, claim)
        sides = [claim.lhs, claim.rhs, *(side for g in claim.given for side in (g.lhs, g.rhs))]
        self.names = named(self.book, *sides)
        self.samples = dict(sampling.bodies(claim))
        self.bodies = self._bodies()
        self.lookups = {thing for thing in everything(sides) if isinstance(thing, Lookup)}
        self.sums: dict[tuple[int, ...], Sums] = {}

    def _bodies(self) -> Bodies:
        """What defined letters stand for on an instance: their definitions, or what a sample puts in their place."""
        out: dict[Any, tuple[tuple[Any, ...], Any]] = {}
        for letter in self.written.definitions:
            if letter.body is not None and not isinstance(letter.body, sp.Derivative):
                out[getattr(letter.head, "base", letter.head)] = letter.slots, letter.body
        for tensor, body in self.samples.items():
            spelt = self.book.spelling.letter(tensor)
            out.pop(spelt, None)
            if body is not None:
                slots = tuple(Index("r", size) for size in tensor.sizes)
                at = slot_names(self.book, slots, body, self.names.values())
                out[spelt] = tuple(at.values()), write(self.book, lift(body(*slots)), {**self.names, **at})
        return out

    def values(self, instance: Real) -> Values:
        """SymPy's evaluation with the numbers of an instance of the evaluator."""
        sizes = {symbol: instance.size(size) for symbol, size in self.book.sizes.items()}
        sums = self.sums.setdefault(tuple(sizes.values()), Sums(sizes))
        tensors, lookups = self.book.tensors, self.book.lookups

        def drawn(letter: Any, at: tuple[int, ...]) -> sp.Rational:
            value = instance.entry(tensors[letter], at)
            if not isinstance(value, flint.fmpq):
                raise NoValue(f"{letter} is not drawn as a rational number")
            return number(value)

        def position(letter: Any, at: tuple[int, ...]) -> int:
            return looked_up(instance, lookups[letter], at)

        scope = {self.names[index]: n for index, n in instance.scope.items() if index in self.names}
        return Values(sums, self.bodies, self.book.gradients, drawn, position, self.book.shape, scope)

    def run(self) -> Found:
        """Compare at the first instances on which the hypotheses hold somewhere."""
        found = Found("")
        done = 0
        for attempt in range(TRIES):
            corner = INSTANCES[attempt % len(INSTANCES)]
            instance = Real(mixed(self.seed, attempt), 3, bodies=self.samples, corner=corner)
            if any(instance.size(f.size) == 0 and all(map(instance.size, f.sizes)) for f in self.lookups):
                continue  # there is no such lookup
            before = found.compared
            for env in self._places(instance):
                try:
                    self._compare(instance, env, found)
                except (NotEvaluated, NoValue, ZeroDivisionError) as problem:
                    found.without.append(str(problem))
                if found.objection:
                    return found
            done += found.compared > before
            if done == len(INSTANCES):
                break
        return found

    def _places(self, instance: Real) -> Iterator[Mapping[Index, int]]:
        where = positions(instance, variables([self.claim.lhs, self.claim.rhs], self.claim.given))
        tried = 0
        for env in instance.random.sample(where, len(where)):
            instance.stand(env)
            try:
                fits = holds(instance, self.claim.given)
            except NotEvaluated:
                continue
            if fits:
                yield env
                tried += 1
            if tried == PLACES:
                return

    def _compare(self, instance: Real, env: Mapping[Index, int], found: Found) -> None:
        flint.ctx.prec = PRECISION
        theirs = [instance.value(side, env) for side in (self.claim.lhs, self.claim.rhs)]
        mine = self.values(instance)
        at = {self.names[index]: n for index, n in env.items() if index in self.names}
        relation = self.written.relation
        pair = [mine.of(side, at) for side in (relation.lhs, relation.rhs)]
        where = self._where(instance, at)
        for side, x, y, expression in zip(("left", "right"), pair, theirs, (relation.lhs, relation.rhs), strict=True):
            if differ(x, y):
                found.objection = f"{side} side {expression}: SymPy has {sp.N(x, 12)}, the evaluator {y} ({where})"
                return
        if not holds_here(relation, *pair):
            found.objection = f"{relation} is false in SymPy: {sp.N(pair[0], 12)} and {sp.N(pair[1], 12)} ({where})"
            return
        for given, fact in zip(self.written.given, self.claim.given, strict=True):
            if not self._assumed(mine, instance, given, fact, env):
                found.objection = f"hypothesis {given.relation}: the evaluator says that it holds, SymPy not ({where})"
                return
        found.compared += 1

    def _assumed(self, mine: Values, instance: Real, given: Any, fact: Equation, env: Mapping[Index, int]) -> bool:
        """Whether a hypothesis is true in SymPy at the claim's position, and at a few of its own."""
        free = sorted(indices_of(fact.lhs)[0] | indices_of(fact.rhs)[0], key=lambda i: i.uid)
        own = [i for i in free if i not in env or i in fact.free]
        for rest in itertools.islice(positions(instance, own), PLACES):
            at = {self.names[index]: n for index, n in {**env, **rest}.items() if index in self.names}
            if not holds_here(
                given.relation, *(mine.of(side, at) for side in (given.relation.lhs, given.relation.rhs))
            ):
                return False
        return True

    @staticmethod
    def _where(instance: Real, at: Mapping[Any, int]) -> str:
        sizes = ", ".join(f"{size.name}={n}" for size, n in sorted(instance.sizes.items(), key=lambda kv: kv[0].name))
        return f"sizes {sizes}" + (f", position {at}" if at else "")


def looked_up(instance: Real, lookup: Lookup, at: tuple[int, ...]) -> int:
    """The position that an instance gives to a lookup."""
    slots = tuple(Index("r", size) for size in lookup.sizes)
    return instance.index(At(lookup, slots), dict(zip(slots, at, strict=True)))


class Stated(Comparison):
    """A witness: its sizes, values and positions are part of the claim."""

    def run(self) -> Found:
        claim, found = self.claim, Found("")
        assert isinstance(claim, Witness)
        instance = Real(0, 3, sizes=claim.sizes)
        for thing, table in claim.values.items():
            for at in itertools.product(*(range(claim.sizes[size]) for size in thing.sizes)):
                value = table
                for n in at:
                    value = value[n]
                if isinstance(thing, Tensor):
                    exact = lift(value).value  # type: ignore[attr-defined]
                    instance.values[thing, at] = flint.fmpq(exact.numerator, exact.denominator)
                else:
                    instance.lookups[thing, at] = value
        self.samples = {t: None for t in claim.values if isinstance(t, Tensor)}
        instance.bodies = self.samples
        self.bodies = self._bodies()
        self._compare(instance, claim.at, found)
        return found


def claims_of(claim: Equation) -> Iterator[tuple[str, Equation]]:
    """The claims whose evaluation says something: of an induction, its base and its step."""
    if isinstance(claim, Induction):
        for name, part in (("base", claim.base), ("step", claim.step)):
            if part is not None:
                yield name, part
    else:
        yield "", claim


def compare(claim: Equation, seed: int = 0) -> Found:
    """Evaluate one claim twice."""
    return (Stated if isinstance(claim, Witness) else Comparison)(claim, seed).run()


def entry(label: str, found: Law | None = None) -> dict[str, Any]:
    """The evidence for one label: every claim of it evaluated twice."""
    began = time.process_time()
    parts = []
    for part in (found or law(label)).parts:
        for name, claim in claims_of(part.claim):
            outcome = compare(claim)
            outcome.name = f"{part.name} ({name})" if name else part.name
            parts.append(outcome)
    verdicts = [part.verdict for part in parts]
    word = next((w for w in ("refuted", "undecided") if w in verdicts), "proved" if parts else "not run")
    told = [part for part in parts if part.verdict == word]
    reason = "; ".join(f"{part.name}: {part.reason}" for part in told)
    if word == "proved":
        places = sum(part.compared for part in parts)
        reason = f"SymPy and the evaluator agree on both sides at {places} places; SymPy can only object"
    detail = {
        "parts": [
            {"name": part.name, "verdict": part.verdict, "reason": part.reason, "without_value": len(part.without)}
            for part in parts
        ]
    }
    return {"verdict": word, "reason": reason, "detail": detail, "seconds": round(time.process_time() - began, 3)}


def record(force: bool, console: Console) -> int:
    """Evaluate every claim twice and write the evidence; nothing is run when no source has changed."""
    known = None if force else evidence.read("sympy")
    if known is None:
        began, before = time.process_time(), evidence.sources(SOURCES)
        progress = track(labels(), "SymPy at explicit sizes", console=console, disable=not console.is_terminal)
        results = {label: entry(label) for label in progress}
        spent = time.process_time() - began
        versions = evidence.versions("sympy", "python-flint")
        evidence.write("sympy", results, sources=before, patterns=SOURCES, versions=versions, seconds=spent)
    else:
        results, spent = known["results"], None
    good = [label for label, found in results.items() if found["verdict"] == "proved"]
    told = "up to date" if spent is None else f"{spent:.0f} s"
    console.print(
        f"SymPy at explicit sizes: no objection to {len(good)} of {len(results)} results ({told})", markup=False
    )
    for label, found in results.items():
        if label not in good:
            console.print(f"  {label}: {found['verdict']}: {found['reason']}", markup=False)
    return 0 if len(good) == len(results) else 1
