"""Wrong laws: false variants of each statement, which every route must reject by a counterexample.

One row is one changed expression. From it come the symbolic version (the kernel must refute it), the exact and the
numeric ones. Rejected means refuted by an instance of the right shape, never by an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from bayesgrad.symbolic import arrays, proof
from bayesgrad.symbolic.terms import Term, indices_of, lift, rename
from derivations.laws import labels, law
from derivations.result import Part, result


@dataclass(frozen=True)
class WrongLaw:
    """One changed expression: ``right`` (and for a reversed inequality ``left``) replace the sides of ``part``."""

    label: str
    id: str
    kind: str
    why: str
    part: Part
    right: Term
    left: Term | None = None

    @property
    def name(self) -> str:
        """part/word, unique within a label: the name under which every route's evidence lists it."""
        return f"{self.part.name}/{self.id.rpartition('/')[2]}"

    def refute(self) -> proof.Verdict:
        """What the kernel says of it, given the proof of the right law."""
        claim = replace(self.part.claim, rhs=self.right, lhs=self.part.claim.lhs if self.left is None else self.left)
        return proof.check(claim, self.part.proof)

    def evaluate(self, tensors: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None) -> np.ndarray:
        """Its value on arrays, with the axes of the right law's."""
        return arrays.evaluate(self.right, tensors, self.part.order, sizes=sizes)

    def evaluate_right(self, tensors: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None) -> np.ndarray:
        """The right law's value on the same arrays."""
        return arrays.evaluate(self.part.claim.rhs, tensors, self.part.order, sizes=sizes)


def aligned(right: Term, part: Part) -> Term:
    """A changed side at the positions of the claim: a row names its indices, and the names decide."""
    mine = {i.name: i for i in part.order}
    return rename(right, {i: mine.get(i.name, i) for i in indices_of(right)[0]})


@cache
def wrong_laws(label: str) -> tuple[WrongLaw, ...]:
    """The rows of one label; an empty tuple where there are none."""
    parts = {p.name: p for p in law(label).parts}
    return tuple(
        WrongLaw(label, f"{label}/{name}", kind, why, parts[part], aligned(lift(right), parts[part]))
        for changes in result(label).changes
        for part, name, kind, right, why in changes()
    )


def wrong_names(label: str) -> list[str]:
    """The names of a label's rows, without a proof: part/word, as :attr:`WrongLaw.name`."""
    return [f"{part}/{word}" for changes in result(label).changes for part, word, *_ in changes()]


def all_wrong_laws() -> tuple[WrongLaw, ...]:
    """Every row of every result, label by label."""
    return tuple(row for label in labels() for row in wrong_laws(label))
