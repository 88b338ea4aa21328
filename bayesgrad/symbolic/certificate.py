"""Proofs written down as data, for a judge that shares no code with the engine: ``bayesgrad.checker``.

A :class:`Claims` says what is claimed: the claims of results, their hypotheses and definitions as terms. Its method
``certificate`` says why: the chain of each claim, with everything in it that no one else can see. The format is
described in ``bayesgrad/checker.py``, and nothing here is trusted: what is written down wrongly is not accepted.

Two things are worked out that a chain does not hold. A rewrite that was found by its pattern gets its context, so that
the checker needs no search for instances. And all names are made anew from the names on the page, with a number where
two things share one, so that the same book is written whatever was made before it.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from bayesgrad import checker
from bayesgrad.symbolic import rules
from bayesgrad.symbolic.chain import Chain, Step
from bayesgrad.symbolic.index_calculus import same
from bayesgrad.symbolic.proof import AtMost, Entries, Equation, Induction, Minimum, Witness, proof_of
from bayesgrad.symbolic.terms import (
    Add,
    AnyIndex,
    At,
    Count,
    Delta,
    Diff,
    Entry,
    Fn,
    Index,
    Lookup,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    Term,
    children,
    lift,
    parts,
    rebuild,
    rename,
    tensors_of,
)

Json = Any
Env = Mapping[Index, str]
ChainOf = Callable[[Equation], Chain | None]
TYPES = {Equation: "equation", AtMost: "at-most", Minimum: "minimum", Witness: "witness", Induction: "induction"}
FORBIDDEN = re.compile(r"[\s\[\](){},;:=<>+·/|^*Σδ∂∈≤≥~-]")


def named(wanted: str, taken: Iterable[str]) -> str:
    """A name for a page: the wanted one, with a number where that is taken."""
    plain = FORBIDDEN.sub("", wanted) or "x"
    choices = itertools.chain([plain], (f"{plain}~{n}" for n in itertools.count(2)))
    return next(name for name in choices if name not in taken)


def free_in_order(*terms: Term) -> list[Index]:
    """The free indices of terms as they appear, which does not depend on when they were made."""
    seen: dict[Index, None] = {}

    def visit(t: Term, bound: frozenset[Index]) -> None:
        match t:
            case Entry(_, places):
                seen.update((i, None) for at in places for i in parts(at) if i not in bound)
            case Delta(left, right):
                seen.update((i, None) for at in (left, right) for i in parts(at) if i not in bound)
            case Sum(index, body):
                return visit(body, bound | {index})
        for inner in children(t):
            visit(inner, bound)

    for term in terms:
        visit(term, frozenset())
    return list(seen)


def variables(claim: Equation) -> list[Index]:
    """The indices of a claim: those of its sides, and those at whose one position its hypotheses hold."""
    fixed = (i for g in claim.given for i in free_in_order(g.lhs, g.rhs) if i not in g.free)
    return list(dict.fromkeys([*free_in_order(claim.lhs, claim.rhs), *fixed]))


def quantified(equation: Equation, assumed: bool) -> list[Index]:
    """The indices for all positions of which a hypothesis or a proved claim is known, in the order of its "for"."""
    if assumed:
        return list(equation.free)
    fixed = {i for g in equation.given for i in free_in_order(g.lhs, g.rhs) if i not in g.free}
    return [i for i in variables(equation) if i not in fixed]


class Writer:
    """Things and their names, in the tables of a book or of a certificate, which has the names of its book as well."""

    def __init__(self, book: Writer | None = None):
        self.names: dict[Any, str] = dict(book.names) if book else {}
        self.places: dict[int, dict[Index, str]] = dict(book.places) if book else {}
        self.taken: dict[str, set[str]] = {t: set(book.taken[t]) if book else set() for t in checker.TABLES}
        self.out: dict[str, Json] = {table: {} for table in checker.TABLES}
        self.lemmas: list[Equation] = []

    def enter(self, table: str, thing: Any, wanted: str, entry: Callable[[], Json]) -> str:
        """The name of a thing; the first time it is asked for, its entry is written."""
        key = thing if isinstance(thing, (Size, Lookup)) else (table, id(thing))
        if key not in self.names:
            written = entry()
            name = wanted if table == "claims" else named(wanted, self.taken[table])
            self.names[key] = name
            self.taken[table].add(name)
            self.out[table][name] = written
        return self.names[key]

    def size(self, size: Size) -> str:
        return self.enter("sizes", size, size.name, lambda: size.nonempty)

    def lookup(self, lookup: Lookup) -> str:
        entry = lambda: {"from": [self.size(s) for s in lookup.sizes], "to": self.size(lookup.size)}
        return self.enter("lookups", lookup, lookup.name, entry)

    def tensor(self, tensor: Tensor) -> str:
        return self.enter("tensors", tensor, tensor.name, lambda: self._tensor(tensor))

    def _tensor(self, tensor: Tensor) -> Json:
        out: dict[str, Json] = {"sizes": [self.size(s) for s in tensor.sizes], "kind": tensor.kind}
        if tensor.body is not None:
            slots = slot_names(tensor)
            out |= {"slots": list(slots.values()), "body": self.term(tensor.definition[1], slots)}
        if tensor.through is not None:
            out["through"] = [self.tensor(t) for t in tensor.through]
        return out

    def index(self, index: AnyIndex, env: Env) -> Json:
        if isinstance(index, At):
            return [self.lookup(index.lookup), *(self.index(i, env) for i in index.indices)]
        return env[index]

    def term(self, term: Term, env: Env, hole: tuple[Tensor, Sequence[int]] | None = None) -> Json:
        """A term; entries of the first of ``hole`` are holes, which take its indices in the order that the second says.

        Raises KeyError for an index that is none of ``env``.
        """

        def go(t: Term) -> Json:
            return self.term(t, env, hole)

        def at(places: Iterable[AnyIndex]) -> Iterator[Json]:
            return (self.index(i, env) for i in places)

        match term:
            case Num(value):
                return ["num", str(value)]
            case Count(size):
                return ["count", self.size(size)]
            case Entry(tensor, places) if hole and tensor is hole[0]:
                return ["hole", *at(places[n] for n in hole[1])]
            case Entry(tensor, places):
                return ["entry", self.tensor(tensor), *at(places)]
            case Delta(left, right):
                return ["delta", *at((left, right))]
            case Add(terms):
                return ["add", *map(go, terms)]
            case Mul(factors):
                return ["mul", *map(go, factors)]
            case Pow(base, exponent):
                return ["pow", go(base), exponent]
            case Sum(index, body):
                name = bound_name(index, env)
                return ["sum", name, self.size(index.size), self.term(body, {**env, index: name}, hole)]
            case Fn(name, arg):
                return [name, go(arg)]
            case Diff(body, Entry(tensor, places)):
                return ["diff", go(body), self.tensor(tensor), *at(places)]
        raise TypeError(f"term: {type(term).__name__} cannot be written down")

    def hypothesis(self, given: Equation) -> str:
        return self.enter("hypotheses", given, f"H{len(self.taken['hypotheses']) + 1}", lambda: self._hypothesis(given))

    def _hypothesis(self, given: Equation) -> Json:
        rest = [i for i in free_in_order(given.lhs, given.rhs) if i not in given.free]
        places = self.places[id(given)] = apart([*rest, *given.free])
        entry = {"type": TYPES[type(given)], "lhs": self.term(given.lhs, places), "rhs": self.term(given.rhs, places)}
        sizes = {i: self.size(i.size) for i in places}
        return entry | {
            "for": {places[i]: sizes[i] for i in given.free},
            "at": {places[i]: sizes[i] for i in rest},
            "says": given.says,
        }

    def claim(self, claim: Equation, name: str = "") -> str:
        """The name of a claim; one that is none of the book's is a lemma, to be proved in this certificate."""
        if ("claims", id(claim)) not in self.names and not name:
            name = f"lemma {len(self.lemmas) + 1}"
            self.lemmas.append(claim)
        return self.enter("claims", claim, name, lambda: self._claim(claim))

    def _claim(self, claim: Equation) -> Json:
        given = [self.hypothesis(g) for g in claim.given]
        known: dict[Index, str] = {}
        for g in claim.given:
            known |= {i: name for i, name in self.places[id(g)].items() if i not in g.free}
        places = self.places[id(claim)] = apart(variables(claim), known)
        out = {
            "type": TYPES[type(claim)],
            "lhs": self.term(claim.lhs, places),
            "rhs": self.term(claim.rhs, places),
            "for": {name: self.size(i.size) for i, name in places.items()},
            "given": given,
        }
        match claim:
            case AtMost():
                out["tight"] = None if claim.tight is None else [self.entries(e, places) for e in claim.tight]
            case Minimum():
                out["variable"] = self.tensor(claim.at) if claim.at else None
            case Witness():
                out |= {
                    "relation": claim.relation,
                    "sizes": {self.size(s): n for s, n in claim.sizes.items()},
                    "at": {places[i]: n for i, n in claim.at.items() if i in places},
                    "values": {self.tensor(t): table(v, str) for t, v in claim.values.items() if isinstance(t, Tensor)},
                    "lookups": {
                        self.lookup(t): table(v, int) for t, v in claim.values.items() if isinstance(t, Lookup)
                    },
                }
            case Induction():
                for when in ("first", "later"):
                    out[when] = {self.tensor(t): self.tensor(u) for t, u in getattr(claim, when).items()}
        return out

    def entries(self, entries: Entries, places: Env) -> Json:
        return [self.tensor(entries.tensor), *("*" if i is None else places[i] for i in entries.slots)]


def apart(indices: Iterable[Index], known: Mapping[Index, str] | None = None) -> dict[Index, str]:
    """Different names for indices; those of ``known`` keep theirs."""
    known = known or {}
    if len(set(known.values())) < len(known):
        raise ValueError("index: hypotheses of one claim call two of its indices by one name; rename one of them")
    out: dict[Index, str] = {}
    for i in indices:
        out[i] = known.get(i) or named(i.name, {*out.values(), *known.values()})
    return out


def bound_name(index: Index, env: Env) -> str:
    name, taken = named(index.name, ()), set(env.values())
    while name in taken:
        name += "'"
    return name


def slot_names(tensor: Tensor) -> dict[Index, str]:
    """The slots of a definition, named as its author named them."""
    slots, _ = tensor.definition
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    written = [p.name for p in inspect.signature(tensor.body).parameters.values() if p.kind in kinds]  # type: ignore[arg-type]
    names = (written + [s.name for s in slots][len(written) :])[: len(slots)]
    out: dict[Index, str] = {}
    for slot, name in zip(slots, names, strict=True):
        out[slot] = named(name, out.values())
    return out


def table(values: Any, number: Callable[[Any], Json]) -> Json:
    if isinstance(values, (tuple, list)):
        return [table(v, number) for v in values]
    return number(Fraction(values))


class Claims:
    """What is claimed: ``results`` holds, by label, the claims of each result by name."""

    def __init__(self, results: Mapping[str, Mapping[str, Equation]]):
        self.results = results
        self.writer = Writer()
        self.labels = {
            label: [self.writer.claim(claim, f"{label}#{name}") for name, claim in claims.items()]
            for label, claims in results.items()
        }

    @property
    def json(self) -> dict[str, Json]:
        return {"format": checker.FORMAT, **self.writer.out, "labels": self.labels}

    def certificate(self, label: str, chain_of: ChainOf = proof_of) -> dict[str, Json]:
        """Why the claims of a result are true, as far as they have a chain; lemmas that are no result stand in it."""
        return Certificate(self, self.results[label].values(), chain_of).json


class Certificate:
    """The proofs of some claims of a book and of the lemmas that they need."""

    def __init__(self, book: Claims, claims: Iterable[Equation], chain_of: ChainOf = proof_of):
        self.writer = Writer(book.writer)
        self.kinds: dict[str, Json] = {}
        self.proofs: dict[str, Json] = {}
        self.writer.lemmas = todo = list(claims)  # a lemma that a proof names is appended
        for claim in todo:
            if (chain := chain_of(claim)) is not None:
                self.proofs[self.writer.claim(claim)] = self.proof(claim, chain)

    @property
    def json(self) -> dict[str, Json]:
        return {"format": checker.FORMAT, **self.writer.out, "kinds": self.kinds, "proofs": self.proofs}

    def proof(self, claim: Equation, chain: Chain) -> Json:
        self.reasons(claim.lhs, claim.rhs, *(side for g in claim.given for side in (g.lhs, g.rhs)))
        match claim:
            case Witness():
                return {}
            case Induction():
                return {when: self.writer.claim(getattr(claim, when)) for when in ("base", "step")}
        before = claim.rhs - claim.lhs if isinstance(claim, AtMost) else claim.lhs
        steps = []
        for step in (Step(chain.start, "algebra", ""), *chain.steps):
            if step.after is not before:
                steps.append(self.step(claim, before, step))
            before = step.after
        return {"steps": steps}

    def step(self, claim: Equation, before: Term, step: Step) -> Json:
        env = self.writer.places[id(claim)]
        self.reasons(step.after, *(t(*(Index("r", size) for size in t.sizes)) for t in step.tensors))
        out = {"rule": step.rule, "after": self.writer.term(step.after, env)}
        if step.rule in ("definition", "differentiate", "through"):
            out["tensors"] = [self.writer.tensor(t) for t in step.tensors]
        if step.rule == "rewrite" and step.equation is not None:
            out |= self.rewrite(claim, before, step.equation, step.context)
        return out

    def rewrite(self, claim: Equation, before: Term, equation: Equation, context: Callable[..., Any] | None) -> Json:
        """By what, in which context, and whether from right to left."""
        assumed = equation in claim.given
        order = list(equation.free) if assumed else by_age(equation.lhs, equation.rhs)
        hole = Tensor("□", tuple(i.size for i in order))
        reverse = False
        if context is None:
            around = punched(before, equation, order, claim, assumed, hole)
        else:
            around = lift(context(hole))
            put = {hole: lambda *at: rename(equation.lhs, dict(zip(order, at, strict=True)))}
            reverse = not same(before, rules.fill(around, put))
        self.reasons(around, equation.lhs, equation.rhs)
        own = [order.index(i) for i in quantified(equation, assumed)]
        return {
            "by": self.writer.hypothesis(equation) if assumed else self.writer.claim(equation),
            "context": self.writer.term(around, self.writer.places[id(claim)], (hole, own)),
            "reverse": reverse,
        }

    def reasons(self, *terms: Term) -> None:
        """Why the definitions that terms reach are nonnegative, where that rests on an inequality."""
        for tensor in sorted(set().union(*map(tensors_of, terms)), key=lambda t: t.uid):
            if tensor.fact is not None and self.writer.tensor(tensor) not in self.kinds:
                self.kinds[
                    self.writer.tensor(tensor)
                ] = {}  # it is being written: a fact may speak of the tensor itself
                self.kinds[self.writer.tensor(tensor)] = self.reason(tensor)

    def reason(self, tensor: Tensor) -> Json:
        slots = slot_names(tensor)
        if isinstance(tensor.fact, tuple):
            fact, value = tensor.fact
            point = lift(value(*slots))
            self.reasons(point)
            return {"by": self.writer.claim(fact), "point": self.writer.term(point, slots)}
        fact = tensor.fact
        assert isinstance(fact, AtMost)
        known = ("hypotheses", id(fact)) in self.writer.names
        name = self.writer.hypothesis(fact) if known else self.writer.claim(fact)
        places = self.writer.places[id(fact)]
        return {"by": name, "at": {places[i]: slot for i, slot in zip(fact.free, slots.values(), strict=True)}}


def by_age(*terms: Term) -> list[Index]:
    """The free indices of terms in the order in which a context takes them."""
    return sorted(free_in_order(*terms), key=lambda i: i.uid)


def punched(
    term: Term, equation: Equation, order: Sequence[Index], claim: Equation, assumed: bool, hole: Tensor
) -> Term:
    """The context in which every instance of the left side of an equation is replaced."""
    fixed = {i for g in claim.given for i in free_in_order(g.lhs, g.rhs) if i not in g.free}
    loose = tuple(i for i in order if assumed or i not in fixed)
    everywhere = not assumed and not equation.given

    def visit(t: Term) -> Term:
        where = rules.instance(equation.lhs, t, loose)
        if where is not None:
            return hole(*(where.get(i, i) for i in order))
        if isinstance(t, Diff):
            return Diff(visit(t.body), t.wrt) if everywhere and t.wrt.tensor.body is None else t
        return rebuild(t, visit)

    return visit(term)


def dumps(data: Mapping[str, Any]) -> str:
    """JSON with one line for each thing, so that a change of one is a change of one line."""
    line = lambda x: json.dumps(x, ensure_ascii=False, separators=(",", ":"))
    rows = [
        f"{line(key)}: {{\n" + ",\n".join(f"{line(k)}: {line(v)}" for k, v in entry.items()) + "\n}"
        if isinstance(entry, dict) and entry
        else f"{line(key)}: {line(entry)}"
        for key, entry in data.items()
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


@contextmanager
def deep() -> Iterator[None]:
    """Room for the checker to look into terms that are nested deeply."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def doubt(claim: Equation, chain: Chain | None = None) -> str:
    """Why the checker does not accept the proof of a claim, or an empty string; ``chain`` if it was not proved here."""
    claims = Claims({"it": {"it": claim}})
    certificate = claims.certificate("it", lambda other: chain if chain and other is claim else proof_of(other))
    texts = (dumps(claims.json), dumps(certificate))
    with deep():
        book, certificate = (json.loads(text) for text in texts)
        report = checker.Report(book, [certificate])
    own = {*report.labels["it"]}
    lemmas = [f"{lemma.name}: {why}" for lemma, why in report.refused.items() if lemma not in own]
    return "; ".join(filter(None, (*report.faults, *map(report.why_not, report.labels["it"]), *lemmas)))
