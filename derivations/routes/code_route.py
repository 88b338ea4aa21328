"""The route "code": the shipped functions, run unchanged on symbols, equal what the theorem says, entry by entry.

One row of a result's module says how a part of a law is computed by the package: which
functions, on which tensors of its claim. The route makes these tensors as symbolic arrays of a few small shapes, some
with hidden pairs and a row that sees nothing, runs the functions, and decides output - right side = 0 for every entry
as an identity of functions. A label without a row is open; nothing stands in for it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from bayesgrad import evidence
from bayesgrad.symbolic.proof import Equation
from bayesgrad.symbolic.terms import Lookup, Tensor, Term, children
from derivations.laws import labels, law
from derivations.result import Part, Row, results
from derivations.routes.cases import bodies_of, cases_of, sides
from derivations.routes.exact_instances import describe, holds, summary, told, wrong_claim
from derivations.routes.functions import Functions, Undecided, with_room
from derivations.routes.instances import Bodies, Case, Instance
from derivations.routes.symbolic_array import SymbolicArray, SymbolicNamespace
from derivations.wrong_laws import wrong_laws

SOURCES = ("bayesgrad/*.py", "bayesgrad/symbolic/*.py", "derivations/*.py", "derivations/*/*.py")


class Shipped:
    """The package under test: ``shipped.softmax`` is its function, ``shipped.gradients`` its module."""

    def __init__(self, root: str = "bayesgrad"):
        self._root = root

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._root), name)


class Tensors:
    """The tensors of a claim by name, as symbolic arrays of one instance: ``t.a``, ``t["W_O"]``, ``t.mask("M")``."""

    def __init__(self, instance: Instance, named: Mapping[str, Tensor], lookups: Mapping[str, Lookup]):
        self._instance, self._named, self._lookups = instance, named, lookups
        self.xp = SymbolicNamespace(instance.ring)

    def __getitem__(self, name: str) -> SymbolicArray:
        tensor = self._named[name]
        shape = tuple(self._instance.size(size) for size in tensor.sizes)
        out = np.empty(shape, dtype=object)
        for at in np.ndindex(*shape):
            out[at] = self._instance.entry(tensor, at).value
        return SymbolicArray(self.xp, out)

    def __getattr__(self, name: str) -> SymbolicArray:
        if name not in self._named:
            raise AttributeError(name)
        return self[name]

    def mask(self, name: str = "M") -> np.ndarray:
        """An indicator as exact booleans."""
        return np.vectorize(lambda p: not p.is_zero(), otypes=[bool])(self[name].data)

    def labels(self, name: str) -> np.ndarray:
        """A lookup as integers."""
        lookup = self._lookups[name]
        shape = tuple(self._instance.size(size) for size in lookup.sizes)
        out = np.empty(shape, dtype=np.int64)
        for at in np.ndindex(*shape):
            out[at] = self._instance.lookup(lookup, at)
        return out

    def size(self, name: str) -> int:
        """A size by its name."""
        return self._instance.sizes[name]


def rows(label: str, part: str = "") -> list[Row]:
    """The rows of a label, or of one part of it."""
    known = results()
    return [row for row in known[label].rows if part in ("", row.part)] if label in known else []


def named_in(terms: Sequence[Term], bodies: Bodies) -> tuple[dict[str, Tensor], dict[str, Lookup]]:
    """Every tensor and lookup of some terms by name, inside definitions as well."""
    tensors: dict[str, Tensor] = {}
    lookups: dict[str, Lookup] = {}
    probe = Instance(Functions.probe(), Case(()), bodies)
    todo = list(terms)
    while todo:
        term = todo.pop()
        todo += children(term)
        for index in (*getattr(term, "indices", ()), getattr(term, "left", None), getattr(term, "right", None)):
            if (lookup := getattr(index, "lookup", None)) is not None:
                lookups[lookup.name] = lookup
        tensor = getattr(term, "tensor", None)
        if tensor is None or tensors.get(tensor.name) is tensor:
            continue
        if tensor.name in tensors:
            raise Undecided(f"two tensors of this claim are called {tensor.name}")
        tensors[tensor.name] = tensor
        if probe.body(tensor) is not None:
            todo.append(probe.definition(tensor))
        elif tensor.through is not None:
            todo += [probe.whole(t) for t in tensor.through]
    return tensors, lookups


@dataclass
class Ran:
    """What came of one row: entries compared, shapes, and the first difference."""

    compared: int = 0
    cases: list[str] = field(default_factory=list)
    generators: int = 0
    counterexample: str = ""


def drawn(row: Row, claim: Equation) -> tuple[dict[Tensor, Any], list[Case]]:
    """What a row draws and in which cases."""
    bodies = bodies_of(claim)
    terms = list(sides(claim))
    if row.bodies is not None:
        everything = named_in(terms, {})[0]
        bodies |= row.bodies(everything)
    cases = []
    fixed = dict(row.sizes)
    for case in cases_of([*terms, *_extra(bodies)], bodies, shapes=row.shapes):
        if case.visible in row.patterns:
            cases.append(Case(tuple((name, fixed.get(name, length)) for name, length in case.sizes), case.visible))
    return bodies, list(dict.fromkeys(cases))


def run_row(row: Row, part: Part, shipped: Any, claim: Equation | None = None) -> Ran:
    """Run a row in its cases and compare with the claim of its part, or with a wrong one."""
    bodies, cases = drawn(row, part.claim)
    claim = part.claim if claim is None else claim
    out = Ran()
    for case in cases:
        compared, generators, example = with_room(partial(_run, row, part, claim, shipped, bodies, case))
        out.compared += compared
        out.cases.append(str(case))
        out.generators = max(out.generators, generators)
        if example:
            out.counterexample = example
            break
    return out


def _run(
    row: Row, part: Part, claim: Equation, shipped: Any, bodies: Bodies, case: Case, ring: Functions
) -> tuple[int, int, str]:
    instance, order = Instance(ring, case, bodies), part.order
    named, lookups = named_in([*sides(part.claim), *sides(claim), *_extra(bodies)], bodies)
    tensors = Tensors(instance, named, lookups)
    # The right side first: its exponentials then are the ones that all others are expressed by.
    places = [env for env in instance.positions(order) if holds(instance, claim.given, env)]
    expected = None if row.puts else [instance.value(claim.rhs, env) for env in places]
    got = row.run(shipped, tensors)
    shape = tuple(instance.size(index.size) for index in order)
    if row.puts:
        instance.put(named[row.puts], got.data)
    elif got.shape != shape:
        raise Undecided(f"the shipped function gives shape {got.shape}, the statement has {shape}")
    compared = 0
    for number, env in enumerate(places):
        if expected is None:
            left, right = instance.value(claim.lhs, env), instance.value(claim.rhs, env)
        else:
            left, right = got.data[tuple(env[index] for index in order)], expected[number]
        compared += 1
        if not ring.is_zero(left - right):
            return compared, ring.size, describe(ring, case, env, left, right)
    return compared, ring.size, ""


def _extra(bodies: Bodies) -> Iterator[Term]:
    from bayesgrad.symbolic.terms import Index, lift

    for tensor, body in bodies.items():
        if body is not None:
            yield lift(body(*(Index("r", size) for size in tensor.sizes)))


def entry(label: str, route: str, shipped: Any = None) -> dict[str, Any]:
    """The evidence for one label. ``route`` is what the catalogue says: required, optional, or why not."""
    began = time.process_time()
    shipped = Shipped() if shipped is None else shipped
    detail: dict[str, Any] = {"parts": [], "functions": [], "cases": [], "wrong_laws": []}
    table = rows(label)
    if not table or label not in labels():
        applies = route in ("required", "optional")
        verdict = "not run" if applies else "not applicable"
        reason = "open: no row says how the package computes it" if applies else route
        return {"verdict": verdict, "reason": reason, "detail": detail, "seconds": 0.0}
    parts = {part.name: part for part in law(label).parts}
    words, reasons, compared, generators = [], [], 0, 0
    for row in table:
        word, reason, ran = judged(row, parts, shipped)
        words.append(word)
        if word != "proved":
            reasons.append(f"{row.part} by {', '.join(row.functions)}: {reason}")
        compared += ran.compared
        generators = max(generators, ran.generators)
        detail["parts"].append({"name": row.part, "functions": list(row.functions), "verdict": word, "reason": reason})
        detail["functions"] = list(dict.fromkeys([*detail["functions"], *row.functions]))
        detail["cases"] = list(dict.fromkeys([*detail["cases"], *ran.cases]))
    detail |= {"comparisons": compared, "indeterminates": generators}
    detail["open_parts"] = [name for name in parts if not rows(label, name)]
    detail["wrong_laws"] = [rejection(row, shipped) for row in wrong_laws(label)]
    word = next((w for w in ("refuted", "undecided") if w in words), "proved")
    reason = "; ".join(reasons) or f"{compared} entries of what the package computes equal the statement"
    return {"verdict": word, "reason": reason, "detail": detail, "seconds": round(time.process_time() - began, 3)}


def judged(row: Row, parts: Mapping[str, Part], shipped: Any) -> tuple[str, str, Ran]:
    """The verdict on one row, its reason, and what was run."""
    if row.part not in parts:
        return "undecided", f"the law has no part {row.part}", Ran()
    part = parts[row.part]
    try:
        ran = run_row(row, part, shipped)
    except (Undecided, TypeError, ValueError, ZeroDivisionError, KeyError, AttributeError) as problem:
        return "undecided", f"{type(problem).__name__}: {problem}", Ran()
    if ran.counterexample:
        return "refuted", ran.counterexample, ran
    if not ran.compared:
        return "undecided", "no entry was compared", ran
    return "proved", "", ran


def rejection(wrong: Any, shipped: Any) -> dict[str, Any]:
    """Whether what the package computes differs from a wrong law."""
    verdict, example = "not applicable", "no function of the package computes this part"
    for row in rows(wrong.label, wrong.part.name):
        try:
            ran = run_row(row, wrong.part, shipped, wrong_claim(wrong))
        except (Undecided, TypeError, ValueError, ZeroDivisionError, KeyError, AttributeError) as problem:
            verdict, example = "undecided", f"{type(problem).__name__}: {problem}"
            continue
        if ran.counterexample:
            verdict, example = "refuted", ran.counterexample
            break
        verdict, example = "undecided", f"no difference in {ran.compared} entries"
    return told(wrong, verdict, example)


def record(force: bool, console: Console) -> int:
    """Run the whole table and write the evidence of this route; nothing is run when no source has changed."""
    from bayesgrad.theorems import THEOREMS

    routes = {theorem.label: theorem.routes["code"] for theorem in THEOREMS}
    known = None if force else evidence.read("code")
    if known is not None:
        line, problems = summary(known["results"], routes, "shipped code")
        console.print(f"{line} (up to date)", markup=False)
        return 1 if problems else 0
    began, before = time.process_time(), evidence.sources(SOURCES)
    progress = track(routes.items(), "shipped code", console=console, disable=not console.is_terminal)
    results = {label: entry(label, route) for label, route in progress}
    spent = time.process_time() - began
    evidence.write(
        "code",
        results,
        sources=before,
        patterns=SOURCES,
        versions=evidence.versions("numpy", "array-api-compat", "python-flint"),
        seconds=spent,
    )
    line, problems = summary(results, routes, "shipped code")
    console.print(f"{line}; {spent:.0f} s", markup=False)
    for problem in problems:
        console.print(f"  {problem}", markup=False)
    return 1 if problems else 0
