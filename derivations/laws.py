"""The book of proofs: what came out of the proof of each label, run once.

:func:`law` runs the proof of a result's module; a proof that rests on another result asks for it by :func:`equation`,
which runs that one first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from bayesgrad.symbolic import proof as kernel
from bayesgrad.symbolic.proof import Chain, Equation, ProofError, Verdict
from bayesgrad.symbolic.terms import Term, indices_of
from bayesgrad.theorems import THEOREMS
from derivations.result import Part, result, results


@dataclass(frozen=True)
class Law:
    """A result as it was proved: its parts and the verdict of each."""

    label: str
    parts: tuple[Part, ...]
    verdicts: tuple[Verdict, ...]
    seconds: float

    @property
    def word(self) -> kernel.Word:
        return kernel.worst([v.word for v in self.verdicts])

    def collected(self, what: str) -> tuple[str, ...]:
        """The union over parts of ``primitives`` or ``definitions``."""
        return tuple(sorted({x for v in self.verdicts for x in getattr(v, what)}))

    @property
    def uses(self) -> tuple[str, ...]:
        """The labels of the results that the proof rests on, as the kernel's verdicts recorded them.

        What was derived on the way, such as the Jacobian of an edge, belongs to no label: it follows from the
        definitions alone.
        """
        owners = (_OWNER.get(id(e)) for v in self.verdicts for e in v.leans)
        return tuple(sorted({owner for owner in owners if owner is not None} - {self.label}))


class Unproved(ProofError):
    """A claim that a proof needs and that is not proved; it keeps the kernel's verdict on it."""

    def __init__(self, label: str, part: Part, verdict: Verdict):
        super().__init__(f"{label}: not proved, so nothing can rest on it ({verdict.reason})")
        self.label, self.part, self.verdict = label, part, verdict


_OWNER: dict[int, str] = {}


@cache
def labels() -> tuple[str, ...]:
    """Every label, in the order of the catalogue; what the catalogue does not have yet comes last."""
    known = {theorem.label: number for number, theorem in enumerate(THEOREMS)}
    return tuple(sorted(results(), key=lambda label: (known.get(label, len(known)), label)))


@cache
def law(label: str) -> Law:
    """The result, proved or not, after running its proof. Raises ValueError where the book has none."""
    record = result(label)
    began = time.perf_counter()
    try:
        parts = tuple(record.makers[0]())
    except Unproved as stop:
        own = stop.label == label
        verdict = (
            stop.verdict if own else replace(stop.verdict, word="undecided", reason=str(stop), counterexample=None)
        )
        return Law(label, (stop.part,), (verdict,), time.perf_counter() - began)
    verdicts = []
    for part in parts:
        _OWNER[id(part.claim)] = label
        verdicts.append(_checked(part.claim, part.proof))
    return Law(label, parts, tuple(verdicts), time.perf_counter() - began)


_CHECKED: dict[
    tuple[int, int], tuple[Equation, Chain, Verdict]
] = {}  # the objects keep their ids from being used again


_STATED = False


def state_only() -> None:
    """From now on this process states the laws and proves none: no verdict of it says proved.

    For commands that only evaluate statements, and whose proofs have a command of their own. Raises ProofError after a
    proof was asked for, so that no process mixes both.
    """
    global _STATED
    if _CHECKED and not _STATED:
        raise ProofError("state_only: this process has asked for proofs already; say it before the first law")
    _STATED = True


def _checked(claim: Equation, proof: Chain) -> Verdict:
    """The kernel's verdict, asked for once a claim and proof."""
    if _STATED:
        return kernel.NOT_ASKED
    at = id(claim), id(proof)
    if at not in _CHECKED:
        _CHECKED[at] = claim, proof, kernel.check(claim, proof)
    return _CHECKED[at][2]


def equation(label: str, part: str = "") -> Equation:
    """A proved claim of another result, to rewrite by; without ``part`` the first one."""
    found = law(label)
    for candidate, verdict in zip(found.parts, found.verdicts, strict=True):
        if candidate.name == part or not part:
            if verdict.word != "proved" and verdict is not kernel.NOT_ASKED:
                raise Unproved(label, candidate, verdict)
            return candidate.claim
    for candidate, verdict in zip(found.parts, found.verdicts, strict=True):
        if verdict.word != "proved":  # the proof stopped before it came to that part
            raise Unproved(label, candidate, verdict)
    raise ProofError(f"{label}: has no part {part!r}, only {', '.join(p.name for p in found.parts)}")


def instance_of(label: str, claim: Equation, proof: Chain) -> Equation:
    """Prove one more case of a lemma that is stated for any set, by the same proof; it counts as a use of the lemma."""
    _OWNER[id(claim)] = label
    verdict = _checked(claim, proof)
    if verdict.word != "proved" and verdict is not kernel.NOT_ASKED:
        raise Unproved(label, Part("what does not hold", claim, proof), verdict)
    return claim


def whole(claim: Equation) -> Callable[..., Term]:
    """The context that is nothing but one side of a proved claim: for rewriting a whole term."""
    free = sorted(set().union(*(indices_of(t)[0] for t in (claim.lhs, claim.rhs))), key=lambda i: i.uid)
    return lambda hole: hole(*free)
