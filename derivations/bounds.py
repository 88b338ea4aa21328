"""How seldom evaluation misses a false step: the bound of Schwartz and Zippel, size by size.

A step says left = right. At explicit sizes both sides are quotients of polynomials in the free entries and the formal
exps. If they differ, the numerator of left - right is a polynomial that is not zero, of some degree D, and a random
point is one of its zeros with probability at most

    D * max(1 / (2 SPREAD), 1 / P)        P the number of primes that formal exps are drawn from

so k independent instances all miss with at most the k-th power. Logs are drawn freely and count as entries.

python -m derivations.bounds    prints the table of docs/trusted-base.md
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import flint

from bayesgrad.symbolic.evaluation import PRIMES, ROOT, Bodies
from bayesgrad.symbolic.refutation import SPREAD
from bayesgrad.symbolic.terms import (
    Add,
    Count,
    Delta,
    Diff,
    Entry,
    Fn,
    Index,
    Mul,
    Num,
    Pow,
    Sum,
    Term,
    indices_of,
    lift,
    meaning,
)
from derivations import laws
from derivations.result import Part

INSTANCES = 2  # of full size; every third one is a corner and not counted
SIZES = (2, 3, 4)
SHOWN = (
    "softmax.jacobian",
    "loss.logit-gradient",
    "attention.weight-gradient",
    "attention.routing-law",
    "attention.value-law",
    "attention.query-law",
    "dynamics.feedback",
    "em.fisher-identity",
)


@cache
def primes() -> int:
    """How many primes formal exps are drawn from."""
    return sum(flint.fmpz(n).is_prime() for n in range(PRIMES[0] | 1, PRIMES[1], 2))


@dataclass(frozen=True)
class Quotient:
    """Degree of a numerator, and the factors below it: degree, power, and the indices that tell copies apart."""

    above: int
    below: dict[Any, tuple[int, int, frozenset[Index]]] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return sum(degree * power for degree, power, _ in self.below.values())


class Degrees:
    """Upper bounds on degrees where every size is ``size`` and ``bodies`` says what is drawn."""

    def __init__(self, size: int, bodies: Bodies):
        self.size, self.bodies = size, bodies

    def inside(self, entry: Entry) -> Term | None:
        """The definition that evaluation opens, if it does."""
        tensor = entry.tensor
        body = self.bodies.get(tensor, tensor.body)
        if body is None:
            return None
        return tensor.unfold(entry.indices) if body is tensor.body else lift(body(*entry.indices))

    def weight(self, term: Term) -> tuple[int, int]:
        """How many monomials an exponent has at most, with their coefficients: positive ones, negative ones."""
        match term:
            case Num(value):
                whole = math.ceil(abs(value))
                return (whole, 0) if value > 0 else (0, whole)
            case Count():
                return self.size, 0
            case Entry() if (body := self.inside(term)) is not None:
                return self.weight(body)
            case Add(terms):
                both = [self.weight(t) for t in terms]
                return sum(p for p, _ in both), sum(q for _, q in both)
            case Mul(factors):
                up, down = 1, 0
                for p, q in map(self.weight, factors):
                    up, down = up * p + down * q, up * q + down * p
                return up, down
            case Pow(base, exponent):
                return self.weight(Mul((base,) * exponent))
            case Sum(_, body):
                p, q = self.weight(body)
                return self.size * p, self.size * q
        return 1, 0

    def of(self, term: Term) -> Quotient:
        """The degrees of a term as a quotient of polynomials."""
        match term:
            case Num() | Count() | Delta():
                return Quotient(0)
            case Entry(tensor, _):
                body = self.inside(term)
                return self.of(body) if body is not None else Quotient(int(tensor.kind != "indicator"))
            case Add(terms):
                return _sum([self.of(t) for t in terms])
            case Mul(factors):
                return _product([self.of(f) for f in factors])
            case Pow(base, exponent):
                return _product([self.of(base)] * exponent)
            case Sum(index, body):
                one = self.of(body)
                below = {
                    at: (degree * (self.size if index in seen else 1), power, seen - {index})
                    for at, (degree, power, seen) in one.below.items()
                }
                return Quotient(one.above + Quotient(0, below).depth - one.depth, below)
            case Fn("inv", arg):
                one = self.of(arg)
                key = (arg.tensor, arg.indices) if isinstance(arg, Entry) else id(arg)
                return Quotient(one.depth, {key: (one.above, 1, frozenset(indices_of(arg)[0]))})
            case Fn("exp", arg):
                up, down = self.weight(arg)
                return Quotient(ROOT * up, {id(term): (ROOT * down, 1, frozenset(indices_of(arg)[0]))})
            case Fn("tanh" | "sqrt"):
                return self.of(meaning(term))
            case Diff(body, _):
                one = self.of(body)
                twice = {at: (degree, 2 * power, seen) for at, (degree, power, seen) in one.below.items()}
                return Quotient(one.above + one.depth + self.steepest(body), twice)
        return Quotient(1)  # a log

    def steepest(self, term: Term) -> int:
        """The largest degree of an exponent: what the derivative of an exp brings down."""
        match term:
            case Fn("exp", arg):
                return max(self.of(arg).above, self.steepest(arg))
            case Entry():
                body = self.inside(term)
                return 0 if body is None else self.steepest(body)
            case Add(parts) | Mul(parts):
                return max((self.steepest(t) for t in parts), default=0)
            case Pow(inner, _) | Fn(_, inner) | Sum(_, inner) | Diff(inner, _):
                return self.steepest(inner)
        return 0


def _sum(parts: list[Quotient]) -> Quotient:
    below: dict[Any, tuple[int, int, frozenset[Index]]] = {}
    for part in parts:
        for at, (degree, power, seen) in part.below.items():
            below[at] = (degree, max(power, below.get(at, (0, 0, seen))[1]), seen)
    depth = Quotient(0, below).depth
    return Quotient(max((part.above + depth - part.depth for part in parts), default=0), below)


def _product(parts: list[Quotient]) -> Quotient:
    below: dict[Any, tuple[int, int, frozenset[Index]]] = {}
    for part in parts:
        for at, (degree, power, seen) in part.below.items():
            below[at] = (degree, power + below.get(at, (0, 0, seen))[1], seen)
    return Quotient(sum(part.above for part in parts), below)


def degree(part: Part, size: int) -> int:
    """The largest degree of left - right among the steps of a proof."""
    claim = part.claim
    degrees = Degrees(size, {t: body for g in (*claim.given, claim) for t, body in g.sample.items()})
    chain = [part.proof.start, *(step.after for step in part.proof.steps)]
    return max((degrees.of(left - right).above for left, right in itertools.pairwise(chain)), default=0)


def missed(largest: int, instances: int = INSTANCES) -> float:
    """The probability that a false step of this degree passes so many independent instances, at most."""
    return min(1.0, largest * max(1 / (2 * SPREAD), 1 / primes())) ** instances


def table() -> str:
    """The bounds of a few results as a Markdown table."""
    lines = ["| result | " + " | ".join(f"D, all sizes {n}" for n in SIZES) + " | missed at 3, at most |"]
    lines.append("|---|" + "---:|" * (len(SIZES) + 1))
    for label in SHOWN:
        part = laws.law(label).parts[0]
        row = [f"{degree(part, n)}" for n in SIZES]
        lines.append(f"| `{label}` | " + " | ".join(row) + f" | {missed(degree(part, 3)):.0e} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
