"""Parts of a law by name, for the wrong laws that change them."""

from __future__ import annotations

from bayesgrad.symbolic.terms import Tensor, Term, tensors_of
from derivations.common.notation import HEAD
from derivations.common.one_step import c as dynamics_c
from derivations.common.one_step import eta as dynamics_eta
from derivations.laws import law
from derivations.result import Part

Row = tuple[str, str, str, Term, str]

H = HEAD

n, m = H.rows, H.columns

i, j, k, l, c = H.i, H.j, H.k, H.l, dynamics_c

eta = dynamics_eta


def part_of(label: str, name: str) -> Part:
    """One part of a law by name."""
    return next(p for p in law(label).parts if p.name == name)


def tensor_of(part: Part, name: str) -> Tensor:
    """A tensor that a claim mentions, by name."""
    return next(t for t in tensors_of(part.claim.lhs) | tensors_of(part.claim.rhs) if t.name == name)
