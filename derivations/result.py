"""One result, one module: the record that a module under ``derivations/<family>/`` fills in.

    RESULT = Result("attention.delta-identity", title="...", means="...", source=OURS, routes=IDENTITY)

    @RESULT.proof                                  the parts: each a claim with its derivation
    def proof(): ...

    @RESULT.wrong                                  wrong laws: part, id, kind, changed right side, why it is wrong
    def wrong(): yield "delta", "sign", "sign flipped", -right, "the same sign on both sides"

    @RESULT.code("delta", "bayesgrad.mean_compatibility")      the shipped function that computes a part
    def _(shipped, t): return shipped.gradients.mean_compatibility(t.u, t.g)

What can be computed is not here: what a proof rests on, what each part assumes, TeX, catalogue, the wheel's book.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from bayesgrad.symbolic import proving
from bayesgrad.symbolic.book import Book
from bayesgrad.symbolic.index_calculus import key
from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.rules import unfold
from bayesgrad.symbolic.terms import Index, Tensor, Term
from bayesgrad.symbolic.tex import statement
from bayesgrad.theorems import ROUTES
from derivations.free_axes import axes

P1, P2, OURS = "arXiv 2512.22471", "arXiv 2512.22473", "ours"

# Why a route does not apply.
INEQUALITY = "an inequality is no identity of rational functions"
COUNTING = "a statement about a family of finite models: exhaustive enumeration in exact rationals takes this place"
WITNESS = "the statement is the existence of one certified instance"
LEMMA_CODE = "a lemma: no function implements it"
NO_RUN = "no training run can tell: the statement has no free empirical content"


class BadModule(ValueError):
    """A module under derivations/ that is no result: what is wrong with it, in one sentence."""


def routes(**said: str) -> Mapping[str, str]:
    """Which routes a result takes: "required", "optional" (left out), or why it does not apply."""
    if unknown := sorted(set(said) - set(ROUTES)):
        raise BadModule(f"routes: got {', '.join(unknown)}, expected some of {', '.join(ROUTES)}")
    return MappingProxyType({route: said.get(route, "optional") for route in ROUTES})


IDENTITY = routes(
    proof="required", exact="required", code="required", check="required", wrong_laws="required", observed=NO_RUN
)
IDENTITY_RUN = routes(
    proof="required", exact="required", code="required", check="required", wrong_laws="required", observed="optional"
)
BOUND = routes(proof="required", exact=INEQUALITY, code=INEQUALITY, check="required", observed=NO_RUN)
FAMILY = routes(proof="required", exact="required", code=COUNTING, check="required", observed=NO_RUN)
LEMMA = routes(proof="required", exact=INEQUALITY, code=LEMMA_CODE, check="required", observed=NO_RUN)


@dataclass(frozen=True)
class Part:
    """One claim of a result with its proof; ``says`` is the sentence that a reader needs beside the formula."""

    name: str
    claim: Equation
    proof: Chain
    says: str = ""

    @property
    def tex(self) -> str:
        return statement(self.claim)

    @property
    def order(self) -> tuple[Index, ...]:
        """The free indices in the order in which the left side names them: the axes of its value."""
        return axes(self.claim.lhs, self.claim.rhs)


@dataclass(frozen=True)
class Move:
    """One step of a derivation that is carried out, not typed: why, and the letters that it is about.

    ``goal`` is None where the definitions of these letters are written out; else the term that is arrived at, which is
    the same once they are written out: a right side is typed only where a reader gains by it.
    """

    why: str
    letters: tuple[Any, ...]
    goal: Any = None
    law: Equation | None = None


def opens(why: str, *letters: Any) -> Move:
    """Write the definitions of these letters out."""
    return Move(why, letters)


def becomes(why: str, expression: Any, *letters: Any) -> Move:
    """Arrive at an expression that is the same once these letters are written out."""
    return Move(why, letters, expression)


def uses(why: str, law: Equation, expression: Any) -> Move:
    """Arrive at an expression by a claim that was proved: what it says on the left is replaced by its right side."""
    return Move(why, (), expression, law)


def stated(
    book: Book,
    name: str,
    relation: Any,
    *moves: Move,
    given: Sequence[Any] = (),
    sample: Mapping[Any, Any] | None = None,
    says: str = "",
    by: Chain | None = None,
) -> Part:
    """A part stated in SymPy. Its steps are carried out by the moves; without any the definitions alone decide.

    ``by`` is a derivation that serves several results, such as that of a law of any head.

    Raises LanguageError, one sentence, for what the language does not know.
    """
    claim = book.claim(relation, given=given, sample=sample)
    if by is not None and key(by.steps[-1].after) == key(claim.rhs):
        claim = replace(claim, rhs=by.steps[-1].after)  # the same, in the order in which the derivation writes it
    if not moves:
        return Part(name, claim, by or proving.prove(claim).chain, says)
    chain, term = Chain(claim.lhs), claim.lhs
    for move in moves:
        tensors = tuple(map(book.tensor, move.letters))
        term = unfold(term, tensors) if move.goal is None else book.read(move.goal)
        if move.law is not None:
            chain = chain.rewrite(term, move.why, move.law)
        else:
            chain = chain.definition(term, move.why, *tensors) if tensors else chain.algebra(term, move.why)
    return Part(name, claim, chain, says)


WrongRow = tuple[str, str, str, Term, str]
Named = Mapping[str, Tensor]


@dataclass(frozen=True)
class Row:
    """How the package computes one part.

    ``run(shipped, t)`` returns the array to compare with the right side, axes in the order of the claim's free indices;
    or, with ``puts`` the name of a tensor, the entries that this tensor gets before both sides are compared.
    ``bodies(named)`` replaces what is drawn; ``sizes`` fixes sizes; ``patterns`` restricts masks, ``shapes``
    how many shapes there are.
    """

    label: str
    part: str
    functions: tuple[str, ...]
    run: Callable[[Any, Any], Any]
    bodies: Callable[[Named], dict[Tensor, Any]] | None = None
    puts: str = ""
    sizes: tuple[tuple[str, int], ...] = ()
    patterns: tuple[str, ...] = ("all", "holes", "empty row")
    shapes: int = 2


@dataclass(frozen=True, eq=False)
class Result:
    """A result in the words of its module, and the functions that its module entered.

    ``means`` is the picture in words, ``fails`` the limit that a reader must know; ``implements`` are dotted names of
    shipped functions; ``read_with`` names results that explain this one although no proof needs them; ``naive`` is the
    claim that it refutes; ``headline`` names the parts that its statement shows, the first one where it is left out.
    """

    label: str
    title: str
    means: str
    source: str
    routes: Mapping[str, str]
    fails: str = ""
    implements: tuple[str, ...] = ()
    read_with: tuple[str, ...] = ()
    naive: tuple[str, ...] = ()
    headline: tuple[str, ...] = ()
    makers: list[Callable[[], Sequence[Part]]] = field(default_factory=list, repr=False)
    changes: list[Callable[[], Iterator[WrongRow]]] = field(default_factory=list, repr=False)
    rows: list[Row] = field(default_factory=list, repr=False)

    def proof(self, maker: Callable[[], Sequence[Part]]) -> Callable[[], Sequence[Part]]:
        """Enter the function that returns the parts with their proofs."""
        if self.makers:
            raise BadModule(f"{self.label}: two proofs in one module; put the parts of both into one list")
        self.makers.append(maker)
        return maker

    def wrong(self, maker: Callable[[], Iterator[WrongRow]]) -> Callable[[], Iterator[WrongRow]]:
        """Enter a generator of wrong laws: (part, id, kind, changed right side, why it is wrong)."""
        self.changes.append(maker)
        return maker

    def code(self, part: str, *functions: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Enter a function as the row of a part; several rows may serve one part."""

        def enter(run: Callable[..., Any]) -> Callable[..., Any]:
            self.rows.append(Row(self.label, part, functions, run, **options))
            return run

        return enter


def module_of(label: str) -> str:
    """The module of a label: attention.routing-law is derivations.attention.routing_law."""
    family, _, name = label.partition(".")
    return f"derivations.{family}.{name.replace('-', '_')}"


FOLDER = Path(__file__).parent
NO_FAMILIES = ("common", "routes", "formal")


def families(folder: Path = FOLDER) -> dict[str, str]:
    """The families: each a package beside this file, and the heading that its docstring opens with."""
    found = {}
    for entry in pkgutil.iter_modules([str(folder)]):
        if entry.ispkg and entry.name not in NO_FAMILIES:
            package = importlib.import_module(f"derivations.{entry.name}")
            found[entry.name] = (package.__doc__ or entry.name).strip().splitlines()[0].rstrip(".")
    return found


def recorded(module: ModuleType) -> Result:
    """The record of a module. Raises BadModule, one sentence, where it has none or not its own."""
    name = module.__name__
    record = getattr(module, "RESULT", None)
    if not isinstance(record, Result):
        raise BadModule(f"{name}: expected RESULT = Result(...), as derivations/result.py says, got {record!r:.40}")
    if module_of(record.label) != name:
        raise BadModule(f"{name}: its label is {record.label}, which belongs into {module_of(record.label)}")
    if not record.makers:
        raise BadModule(f"{name}: it has no proof; put @RESULT.proof above the function that returns its parts")
    return record


def result(label: str) -> Result:
    """The record of a label; no other result is looked at. Raises BadModule, or ValueError for no label."""
    name = module_of(label)
    if importlib.util.find_spec(name.rpartition(".")[0]) is None or importlib.util.find_spec(name) is None:
        raise ValueError(f"label: {label!r} has no proof here; python -m derivations lists those that have")
    return recorded(importlib.import_module(name))


@cache
def results() -> Mapping[str, Result]:
    """Every result by label, found by discovery. Raises BadModule."""
    found: dict[str, Result] = {}
    for family in families():
        package = importlib.import_module(f"derivations.{family}")
        for entry in pkgutil.iter_modules(package.__path__):
            record = recorded(importlib.import_module(f"{package.__name__}.{entry.name}"))
            found[record.label] = record
    return MappingProxyType(found)
