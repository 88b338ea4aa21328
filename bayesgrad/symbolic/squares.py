"""Forms that cannot be negative, looked for in the gap of an inequality.

    by its signs      sums and products of squares and of what is nonnegative by its kind
    pairs             weights w that sum to 1: sum_cd w_c w_d (alpha x_c^2 + beta x_c x_d) + gamma sum_c w_c^2 x_c^2
                      = sum_(c != d) w_c w_d (|beta|/2 (x_c +- x_d)^2 + (alpha - |beta|)/2 (x_c^2 + x_d^2)) + ...
    logarithms        W (log x - log z) = W phi(z/x) + W - W z/x,  phi(t) = t - 1 - log t >= 0

Each is offered with what it rests on; the kernel compares it with the gap and looks at its signs itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from bayesgrad.symbolic import index_calculus as calculus
from bayesgrad.symbolic.chain import Chain
from bayesgrad.symbolic.claims import Minimum
from bayesgrad.symbolic.index_calculus import ONE, Atom, Mono, Poly
from bayesgrad.symbolic.proof import check
from bayesgrad.symbolic.terms import Add, Index, Mul, Num, Pow, Size, Sum, Tensor, Term, delta, lift, log, rename
from bayesgrad.symbolic.tidying import Pool, label, named, product, tidy, written

Factors = tuple[tuple[Atom, Fraction], ...]


@dataclass(frozen=True)
class Form:
    """A term that equals a gap by some definitions, and why that helps."""

    term: Term
    why: str
    tensors: tuple[Tensor, ...] = ()


# -- pairs -----------------------------------------------------------------------------------------------------


def pairs(poly: Poly, weights: Sequence[tuple[Tensor, tuple[Tensor, ...]]], pool: Pool) -> Iterator[Form]:
    """Quadratic forms in x with weights that sum to 1 over their last slot; each comes with why they do."""
    for weight, because in weights:
        found = _quadratic(poly, weight)
        if found is None:
            continue
        (alpha, beta, gamma), x, where, c = found
        if alpha < abs(beta) or alpha + beta + gamma < 0:
            continue
        size = c.size
        d, e = Index(c.name, size), Index(c.name, size)
        other = Tensor("other", (size, size), "indicator", lambda i, j: 1 - delta(i, j), tex=r"\bar\delta")
        at = lambda term, index, c=c: rename(term, {c: index})
        sign = lift(1 if beta >= 0 else -1)
        inside: list[Term] = []
        if beta:
            inside.append(Mul((Num(abs(beta) / 2), Pow(Add((at(x, d), Mul((sign, at(x, e))))), 2))))
        if alpha > abs(beta):
            inside.append(Mul((Num((alpha - abs(beta)) / 2), Add((Pow(at(x, d), 2), Pow(at(x, e), 2))))))
        both: Term = Mul(
            (at(where, d), at(where, e), other(d, e), Add(tuple(inside)) if len(inside) > 1 else inside[0])
        )
        parts: list[Term] = [Sum(d, Sum(e, both))]
        if rest := alpha + beta + gamma:
            parts.append(Mul((Num(rest), Sum(d, Mul((Pow(at(where, d), 2), Pow(at(x, d), 2)))))))
        term = named(Add(tuple(parts)) if len(parts) > 1 else parts[0], pool)
        yield Form(term, "squares, once for each pair", (*because, other))


def _quadratic(poly: Poly, weight: Tensor) -> tuple[tuple[Fraction, Fraction, Fraction], Term, Term, Index] | None:
    """alpha, beta, gamma; x and w at an index c, and c; None for anything else than such a form."""
    alpha = beta = gamma = Fraction(0)
    known: tuple[str, Term, Term, Index] | None = None
    for mono in poly:
        held = [(a, p) for a, p in mono.factors if a.head is weight and a.indices[-1] in mono.bound]
        rest = [(a, p) for a, p in mono.factors if not any(a is b for b, _ in held)]
        degree = sum(int(p) for _, p in held)
        if degree not in (1, 2) or not 1 <= len(mono.bound) <= 2 or {a.indices[-1] for a, _ in held} - set(mono.bound):
            return None
        groups = [[f for f in rest if b in calculus.indices_inside(f[0])] for b in mono.bound]
        if sum(map(len, groups)) != len(rest):
            return None
        roots = []
        for b, group in zip(mono.bound, groups, strict=True):
            halves = tuple((a, p / 2) for a, p in group)
            square = bool(group) and all(p.denominator == 1 for _, p in halves)
            roots.append((b, halves if square else tuple(group), square))
        full = [r for r in roots if r[1]]
        if len(mono.bound) == 1 or len(full) == 1:
            if not full or not full[0][2]:
                return None
            at, root, _ = full[0]
            single, double = degree == 2 and len(held) == 1, degree == 1 or len(held) == 2
            if single == double:
                return None
            alpha, gamma = (alpha, gamma + mono.coefficient) if single else (alpha + mono.coefficient, gamma)
        else:
            if len(held) != 2:
                return None
            beta += mono.coefficient
            at, root = roots[0][0], tuple(groups[0])
            if _placed(root, at) != _placed(tuple(groups[1]), roots[1][0]):
                return None
        name = _placed(root, at)
        entry = next(a for a, _ in held if a.indices[-1] == at or len(held) == 1)
        if known is None:
            x = product(Mono(ONE, (), root))
            known = name, x, weight(*entry.indices[:-1], at), at
        elif known[0] != name:
            return None
    return ((alpha, beta, gamma), *known[1:]) if known else None


def _placed(factors: Factors, index: Index) -> str:
    """What factors are, whatever the index is called that they stand at."""
    marked = calculus.Naming(((index, "here"),))
    return "·".join(sorted(f"{calculus.atom_key(a, marked)}^{p}" for a, p in factors))


# -- logarithms ------------------------------------------------------------------------------------------------


@cache
def log_bound() -> Minimum:
    """t - 1 - log t >= 0 for t > 0, proved once."""
    t = Tensor("t", kind="positive")
    claim = Minimum(t() - 1 - log(t()), lift(0), at=t)
    check(claim, Chain(claim.lhs))
    return claim


def logarithms(poly: Poly, pool: Pool) -> Iterator[Form]:
    """Differences of logarithms with the same nonnegative weight, each as an excess over the bound on log."""
    logs = [(m, *parted) for m in poly if (parted := _parted(m))]
    todo, out = list(poly), list[Mono]()
    used: list[Tensor] = []
    for plus, x, weight in logs:
        if plus.coefficient <= 0 or plus not in todo:
            continue
        for minus, z, other in logs:
            if minus not in todo or minus.coefficient != -plus.coefficient:
                continue
            where = _as(minus, plus, other, weight)
            if where is None:
                continue
            z_there = calculus.move_atom(z, where)
            phi = _excess(x, z_there, len(used))
            slots = _slots_of(x, z_there)
            out.append(Mono(plus.coefficient, plus.bound, (*weight, (Atom("entry", slots, phi), ONE))))
            ratio = ((z_there, ONE), (x, -ONE))
            out += [
                Mono(plus.coefficient, plus.bound, weight),
                Mono(-plus.coefficient, plus.bound, (*weight, *ratio)),
            ]
            todo.remove(plus)
            todo.remove(minus)
            used.append(phi)
            break
    if used:
        term = written(tidy((*todo, *out)), pool)
        yield Form(term, "log t is t - 1 less an excess that is never negative", tuple(used))


def _parted(mono: Mono) -> tuple[Atom, Factors] | None:
    """The positive entry that a monomial has the logarithm of, and the other factors."""
    logs = [(n, a) for n, (a, p) in enumerate(mono.factors) if a.kind == "log" and p == 1]
    if len(logs) != 1 or len(logs[0][1].arg) != 1 or len(logs[0][1].arg[0].factors) != 1:
        return None
    n, atom = logs[0]
    (inner, power), coefficient = atom.arg[0].factors[0], atom.arg[0].coefficient
    if inner.kind != "entry" or power != 1 or coefficient != 1 or not calculus.positive_atom(inner):
        return None
    return inner, mono.factors[:n] + mono.factors[n + 1 :]


def _as(mono: Mono, target: Mono, mine: Factors, theirs: Factors) -> dict | None:
    """How the bound indices of a monomial become those of another so that their weights are one."""
    for way in itertools.permutations(target.bound):
        if len(mono.bound) == len(way) and all(a.size == b.size for a, b in zip(mono.bound, way, strict=True)):
            where = dict(zip(mono.bound, way, strict=True))
            moved = calculus.moved_factors(mine, where)  # type: ignore[arg-type]
            if sorted((label(a), p) for a, p in moved) == sorted((label(a), p) for a, p in theirs):
                return where
    return None


def _slots_of(*atoms: Atom) -> tuple[Index, ...]:
    return tuple(dict.fromkeys(i for a in atoms for i in a.indices))  # type: ignore[misc]


def _excess(x: Atom, z: Atom, number: int) -> Tensor:
    """phi(z/x) at the positions that they have."""
    slots = _slots_of(x, z)
    sizes: tuple[Size, ...] = tuple(i.size for i in slots)

    def ratio(*at: Index) -> Term:
        where = dict(zip(slots, at, strict=True))
        top, below = (a.head(*(where[i] for i in a.indices)) for a in (z, x))  # type: ignore[operator, misc, index]
        return top / below

    def body(*at: Index) -> Term:
        return ratio(*at) - 1 - log(ratio(*at))

    name = f"phi_{number}" if number else "phi"
    return Tensor(name, sizes, "nonnegative", body, fact=(log_bound(), ratio), tex=r"\varphi")
