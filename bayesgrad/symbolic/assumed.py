"""What a claim takes for granted, in full: hypotheses with their formulas, declared kinds, sizes that are not empty.

A hypothesis in words alone could say less than its formula; so both are shown.
"""

from __future__ import annotations

from bayesgrad.symbolic.naming import things_of
from bayesgrad.symbolic.proof import AtMost, Equation
from bayesgrad.symbolic.terms import Size, Tensor, tensors_of
from bayesgrad.symbolic.text import text

KINDS = {"positive": "every entry of {} is positive", "nonnegative": "no entry of {} is negative"}
KINDS |= {"indicator": "every entry of {} is 0 or 1"}


def hypothesis(given: Equation) -> str:
    """A hypothesis in words and as the formula that the kernel uses, with the indices that it holds for."""
    relation = "≤" if isinstance(given, AtMost) else "="
    places = f" for all {', '.join(i.name for i in given.free)}" if given.free else ""
    return f"{given.says}: {text(given.lhs)} {relation} {text(given.rhs)}{places}"


def declared(claim: Equation) -> tuple[str, ...]:
    """What the types of a claim say: signs of free tensors, sizes of at least 1, functions known by their gradient."""
    sides = [side for equation in (claim, *claim.given) for side in (equation.lhs, equation.rhs)]
    tensors = sorted({t for side in sides for t in tensors_of(side)}, key=lambda t: t.name)
    sizes: set[Size] = {size for side in sides for size in things_of(side) if isinstance(size, Size)}
    for tensor in tensors:
        sizes |= {*tensor.sizes, *_inside(tensor)}
    out = [KINDS[t.kind].format(t.name) for t in tensors if t.body is None and t.kind in KINDS]
    out += [f"{size.name} is at least 1" for size in sorted(sizes, key=lambda s: s.name) if size.nonempty]
    for t in tensors:
        if t.through is not None:
            g, u = t.through
            alone = f"{g.name} at its own place alone" if t.sizes else f"{g.name} alone"
            out.append(f"{t.name} is differentiable and depends on {alone}, with d{t.name}/d{g.name} = {u.name}")
    return tuple(out)


def _inside(tensor: Tensor) -> set[Size]:
    if tensor.body is None:
        return set()
    return {size for size in things_of(tensor.definition[1]) if isinstance(size, Size)}
