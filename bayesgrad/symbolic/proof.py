"""The kernel: the only code that may say "proved".

A claim is an equation or an inequality between terms, for all sizes, all values of its tensors and all positions of its
free indices, under hypotheses that it lists. Its proof is a chain of terms; each link names a rule, and the kernel
carries the rule out and compares canonical keys. Every link is evaluated on small random instances as well. A claim
whose proof fails is *refuted* if an exact instance of it is false, otherwise *undecided*, which is not proved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bayesgrad.symbolic import naming, refutation, rules
from bayesgrad.symbolic.chain import Chain, Step
from bayesgrad.symbolic.claims import CLAIMS, AtMost, Entries, Equation, Induction, Minimum, Witness, every
from bayesgrad.symbolic.counterexample import Counterexample
from bayesgrad.symbolic.index_calculus import same
from bayesgrad.symbolic.terms import (
    AnyIndex,
    Delta,
    Diff,
    Index,
    Tensor,
    Term,
    children,
    free_of,
    indices_of,
    lift,
    tensors_of,
)
from bayesgrad.symbolic.vetting import ProofError, Vetting

__all__ = [
    "AtMost",
    "Chain",
    "Entries",
    "Equation",
    "Induction",
    "Minimum",
    "ProofError",
    "Step",
    "Verdict",
    "Witness",
    "check",
    "every",
    "is_proved",
    "proof_of",
    "worst",
]

Word = Literal["proved", "refuted", "undecided"]


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


NOT_ASKED = Verdict("undecided", "this process states the laws and asks for no proof")
"""The verdict of a process that only states."""

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
    reason = _told(lambda: run.chain(proof))
    word: Word = "proved"
    found = None
    if reason:
        found = run.refutation()
        word = "refuted" if found else "undecided"
    else:
        _PROVED[id(claim)] = claim, proof
    return Verdict(
        word,
        reason,
        found,
        tuple(sorted(run.used)),
        tuple(sorted(run.defined)),
        tuple(run.leans),
        run.compared,
        time.perf_counter() - began,
    )


def _told(judge: Callable[[], str]) -> str:
    """What a judgement returns, or the reason why it came to nothing: an error is never a proof."""
    try:
        return judge()
    except RecursionError:
        return "the terms are nested too deeply to be looked at"
    except (ProofError, ValueError, TypeError) as error:
        return str(error) or type(error).__name__
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class _Run:
    """One claim with its proof: what was used, what it leans on, how much of it was evaluated."""

    def __init__(self, claim: Equation, seed: int):
        self.claim, self.seed = claim, seed
        self.used: set[str] = set()
        self.defined: set[str] = set()
        self.leans: list[Equation] = []
        self.compared = 0
        self.meaningful = False

    def chain(self, proof: Chain) -> str:
        """The reason why the chain is no proof of the claim, or an empty string."""
        claim = self.claim
        if type(claim) not in CLAIMS or type(proof) is not Chain:
            raise ProofError(f"got {type(claim).__name__} and {type(proof).__name__}, expected a claim and a chain")
        vetting = self.vetting = Vetting(claim, is_proved)
        vetting.used, vetting.leans = self.used, self.leans
        steps = tuple(proof.steps)
        vetting.statement()
        parts = [side for e in (getattr(claim, "base", None), getattr(claim, "step", None)) if e for side in _sides(e)]
        told = [*vetting.sides, *parts, proof.start, *(step.after for step in steps)]
        if objection := naming.clash(told, vetting.scope):
            raise ProofError(objection)
        self.meaningful = True
        if reason := refutation.vacuous(claim, self.seed):
            return reason
        if isinstance(claim, Witness):
            return self.witness(claim)
        if isinstance(claim, Induction):
            return self.induction(claim)
        for term in (proof.start, *(step.after for step in steps)):
            vetting.well_formed(term)
            vetting.placed(term)
        bound = isinstance(claim, (AtMost, Minimum))
        first = claim.rhs - claim.lhs if isinstance(claim, AtMost) else claim.lhs
        links = [(first, Step(proof.start, "algebra", "the proof starts at the left side"))]
        before = proof.start
        for step in steps:
            links.append((before, step))
            before = step.after
        if not bound:
            links.append((before, Step(claim.rhs, "algebra", "the proof arrives at the right side")))
        for number, (left, step) in enumerate(links):
            where = f"step {number} ({step.rule}: {step.why})"
            follows = self.follows(left, step)
            doubt, compared = refutation.veto(left, step.after, claim, self.seed + number)
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
                self.vetting.tensors(*step.tensors)
                self.defined.update(t.name for t in step.tensors)
                before, after = rules.unfold(before, step.tensors), rules.unfold(after, step.tensors)
            case "differentiate":
                before = rules.carry_out(before, step.tensors, self.used)
            case "through":
                self.vetting.tensors(*step.tensors)
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
        vetting = self.vetting
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
        vetting.exist(equation.lhs, equation.rhs)
        mine = free_of(equation.lhs, equation.rhs)
        free = equation.free if assumed else tuple(mine)
        everywhere = not assumed and not equation.given
        if context is None:
            loose = tuple(i for i in free if assumed or i not in vetting.fixed)
            replaced, count = rules.replace(before, equation.lhs, equation.rhs, loose, everywhere)
            if not count:
                raise ProofError("rewrite: the left side of the equation does not occur")
            if assumed:
                vetting.instantiated(equation)
            vetting.placed(replaced)
            return replaced, after
        hole = Tensor("□", tuple(i.size for i in free))
        around = lift(context(hole))
        vetting.well_formed(around)
        if caught := indices_of(around)[1] & set(mine):
            raise ProofError(f"rewrite: the context binds the index {min(i.name for i in caught)} of the equation")
        vetting.placed(around)
        if rules.under_derivative(around, hole):
            raise ProofError("rewrite: the hole stands inside a derivative, where an equation of values says nothing")

        def put(side: Term) -> Term:
            return rules.fill(around, {hole: lambda *at: rules.rename(side, placed(at))})

        def placed(at: tuple[AnyIndex, ...]) -> dict[Index, AnyIndex]:
            where = dict(zip(free, at, strict=True))
            if not assumed and any(i in vetting.fixed and where[i] is not i for i in free):
                raise ProofError("rewrite: the equation is known only where its hypothesis is given")
            return where

        for old, new in ((equation.lhs, equation.rhs), (equation.rhs, equation.lhs)):
            if same(before, put(old)):
                return put(new), after
        raise ProofError("rewrite: the context with one side of the equation in it is not the term before")

    def bounded(self, claim: AtMost, gap: Term) -> None:
        """The end of a proof of an inequality: the gap is a sum of nonnegative terms, or the kernel objects."""
        self.used.add("nonnegative")
        if not rules.nonnegative(gap):
            raise ProofError("nonnegative: the last term of the chain is not nonnegative by its form")
        if claim.tight is None:
            return
        self.used.add("vanishing-sum")
        self.vetting.tensors(*(entries.tensor for entries in claim.tight))
        if not rules.vanishes_with(gap, {(entries.tensor, entries.slots) for entries in claim.tight}):
            raise ProofError("vanishing-sum: the last term is not a sum of positive multiples of the named entries")
        if doubt := refutation.veto_tight(claim, self.seed, 12):
            raise ProofError(f"vanishing-sum: the kernel accepts what evaluation denies, so it is at fault; {doubt}")

    def witness(self, claim: Witness) -> str:
        """The reason why a written-out instance is not what the claim says, or an empty string."""
        self.used.add("witness")
        given = tuple(t for t in claim.values if isinstance(t, Tensor) and t.body is not None)
        behind: set[Tensor] = set().union(*(tensors_of(t.definition[1]) for t in given))
        if claim.given or behind & (tensors_of(claim.lhs, given) | tensors_of(claim.rhs, given)):
            return "witness: a tensor is given by value beside what it is defined by"
        rules.complete(claim.sizes, claim.values)
        left, right = (rules.explicit(t, claim.sizes, claim.values, claim.at) for t in (claim.lhs, claim.rhs))
        doubt, self.compared = refutation.veto_witness(claim)
        if doubt:
            return f"witness: evaluation denies it; {doubt}"
        if not self.compared:
            return "witness: it could not be evaluated"
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
        if not assumed or set(assumed[0].free) != set(free_of(assumed[0].lhs, assumed[0].rhs)):
            return "induction: the first hypothesis of the step must be the claim itself, for all its indices"
        kept = (*base.given, *step.given[1:])
        if not set(kept) <= set(claim.given) or any(set(free_of(g.lhs, g.rhs)) - set(g.free) for g in kept):
            return "induction: base and step may rest on hypotheses of the claim alone, each for all its indices"
        self.vetting.placed(*_sides(base), *_sides(step), *_sides(assumed[0]))
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
        doubt, self.compared = refutation.veto_induction(claim, self.seed)
        if doubt:
            return f"induction: the kernel accepts what evaluation denies, so it is at fault; {doubt}"
        return "" if self.compared else "induction: no instance that satisfies the hypotheses could be evaluated"

    def timed(self, claim: Induction) -> str:
        """Why the tensors of an induction are not three free families: now, at the first time, one step later."""
        now, named = set(claim.first), tensors_of(claim.lhs) | tensors_of(claim.rhs)
        if now != set(claim.later):
            return "the first time and the next one must be given for the same tensors"
        all_times = [*now, *claim.first.values(), *claim.later.values()]
        if len(set(all_times)) < len(all_times) or named & set(all_times) - now:
            return "a tensor at one time must be another tensor than at any other time"
        if any(t.body is not None or t.through is not None for t in all_times):
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

    def refutation(self) -> Counterexample | None:
        """A certified instance on which the claim itself is false, if it means anything."""
        if not self.meaningful:
            return None
        try:
            return refutation.of_claim(self.claim, self.seed)
        except Exception:  # what cannot be evaluated refutes nothing
            return None


def _sides(claim: Equation) -> tuple[Term, Term]:
    return claim.lhs, claim.rhs


def _has(term: Term, kind: type[Term]) -> bool:
    return isinstance(term, kind) or any(_has(t, kind) for t in children(term))
