"""Which theorems are proved: Coq compares each with its committed statement and names the axioms it rests on.

The statement was elaborated in ``Statements.v`` with the definitions alone, so no notation or redefinition of a proof
file reaches it. A theorem counts exactly if Coq accepts ``Definition audit : <statement> := <theorem>.``,
``Print Assumptions`` names nothing outside :data:`AXIOMS`, the types of its variables, as Coq inferred them, are
listed, Coq finds as many premises as the text shows, and no conclusion holds by itself. ``Print Assumptions`` shortens
names, so each short name must also locate exactly the library's constant, and that constant must have the type that is
written here: a file of ours called ``Classical_Prop`` cannot lend its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from derivations.formal import coq
from derivations.formal.coq_statements import Statement
from derivations.formal.hypotheses import BINDER_TYPES, premises

# The classical real numbers of Coq's library, extensionality of functions, excluded middle; nothing else.
AXIOMS: Mapping[str, str] = {
    "ClassicalDedekindReals.sig_forall_dec": "classical reals: a search over the numbers ends or never finds",
    "ClassicalDedekindReals.sig_not_dec": "classical reals: a negation is decidable",
    "FunctionalExtensionality.functional_extensionality_dep": "functions that agree everywhere are equal",
    "Classical_Prop.classic": "excluded middle",
}
# What differentiating real functions rests on: all but excluded middle.
CALCULUS = frozenset(AXIOMS) - {"Classical_Prop.classic"}
# {short name: (full path, type)}
CONSTANTS: Mapping[str, tuple[str, str]] = {
    "ClassicalDedekindReals.sig_forall_dec": (
        "Coq.Reals.ClassicalDedekindReals.sig_forall_dec",
        "forall P : nat -> Prop, (forall n, {P n} + {~ P n}) -> {n | ~ P n} + {forall n, P n}",
    ),
    "ClassicalDedekindReals.sig_not_dec": (
        "Coq.Reals.ClassicalDedekindReals.sig_not_dec",
        "forall P : Prop, {~ ~ P} + {~ P}",
    ),
    "FunctionalExtensionality.functional_extensionality_dep": (
        "Coq.Logic.FunctionalExtensionality.functional_extensionality_dep",
        "forall (A : Type) (B : A -> Type) (f g : forall x : A, B x), (forall x : A, f x = g x) -> f = g",
    ),
    "Classical_Prop.classic": ("Coq.Logic.Classical_Prop.classic", "forall P : Prop, P \\/ ~ P"),
}

# How Coq writes our types where nothing is imported; two are Coquelicot's names of the real numbers.
_NAMES: Mapping[str, str] = {
    "Rdefinitions.RbaseSymbolsImpl.R": "R",
    "Hierarchy.NormedModule.sort Hierarchy.R_AbsRing Hierarchy.R_NormedModule": "R",
    "Hierarchy.AbsRing.sort Hierarchy.R_AbsRing": "R",
    "Definitions.plan": "plan",
}

# Walks through a statement: prints the type of every variable that is no proof, marks every premise at any depth, and
# says which conclusions need no proof at all. Nothing is proved here: every goal is given up.
_WALK = """Require Lra.
Ltac bayesgrad_easy := tryif assert_succeeds (solve [reflexivity | assumption | contradiction | tauto | Lra.lra])
  then (lazymatch goal with |- ?A => idtac "@easy" A end) else idtac.
Ltac bayesgrad_walk := lazymatch goal with
  | |- let x := _ in _ => intro; bayesgrad_walk
  | |- ?A <-> ?B => assert A; [bayesgrad_walk | assert B; [bayesgrad_walk | admit]]
  | |- ~ ?A => assert A; [bayesgrad_walk | admit]
  | |- ?A /\\ ?B => split; bayesgrad_walk
  | |- ?A \\/ ?B => assert A; [bayesgrad_walk | assert B; [bayesgrad_walk | admit]]
  | |- @ex ?A _ => idtac "@type" A; eexists; bayesgrad_walk
  | |- ?A -> _ => let S := type of A in lazymatch S with
      | Prop => idtac "@premise"; assert A; [bayesgrad_walk | let h := fresh in intro h; bayesgrad_walk]
      | _ => idtac "@type" A; let h := fresh in intro h; bayesgrad_walk end
  | |- forall x : ?A, _ => let S := type of A in
      lazymatch S with Prop => idtac "@proof" A | _ => idtac "@type" A end; let h := fresh in intro h; bayesgrad_walk
  | _ => admit end.
Ltac bayesgrad_conclude := lazymatch goal with
  | |- let x := _ in _ => intro; bayesgrad_conclude
  | |- _ /\\ _ => split; bayesgrad_conclude
  | |- _ <-> _ => split; bayesgrad_conclude
  | |- ~ _ => bayesgrad_easy; admit
  | |- forall x : _, _ => let h := fresh in intro h; bayesgrad_conclude
  | _ => bayesgrad_easy; admit end.
"""
_HEADINGS = ("Axioms:", "Closed under the global context", "Fetching opaque proofs", "[Loading ML file")
_MARK = re.compile(r"^@@(\w+) (\S+)$", re.M)


@dataclass(frozen=True)
class Finding:
    """What Coq said about one theorem: ``fault`` is "" exactly if it is proved as stated from listed axioms."""

    name: str
    axioms: tuple[str, ...]
    fault: str
    uses: tuple[str, ...] = ()  # every proved constant that its proof uses, also through others


def mark(word: str, name: str) -> str:
    """A command that makes Coq print ``@@word name``, so that answers can be told apart."""
    return f'Goal True. idtac "@@{word} {name}". Abort.\n'


def between(answers: str, word: str, name: str) -> str:
    """What Coq printed from one mark to the next; "" if the mark never came."""
    start = re.search(rf"^@@{word} {re.escape(name)}$", answers, re.M)
    if start is None:
        return ""
    stop = _MARK.search(answers, start.end())
    return answers[start.end() : stop.start() if stop else len(answers)]


def _constant(statement: Statement, where: Mapping[str, tuple[str, int]]) -> str:
    return f"{coq.LIBRARY}.{where[statement.name][0].removesuffix('.v')}.{statement.name}"


def _opening(statements: Iterable[Statement], where: Mapping[str, tuple[str, int]]) -> str:
    files = sorted({where[statement.name][0].removesuffix(".v") for statement in statements})
    # The library first, so that a file of ours with a library module's name would show.
    modules = sorted({path.rpartition(".")[0] for path, _ in CONSTANTS.values()})
    lines = [f"Require {module}.\n" for module in modules]
    lines += [f"Require {coq.LIBRARY}.{file}.\n" for file in ["Statements", *files]]
    return "".join([*lines, "Set Printing Width 1000000.\n"])


def script(statements: Iterable[Statement], where: Mapping[str, tuple[str, int]]) -> str:
    """The commands that compare every theorem with its statement and walk through it."""
    wanted = [statement for statement in statements if statement.name in where]
    lines = [_opening(wanted, where), _WALK]
    for number, (name, (path, kind)) in enumerate(CONSTANTS.items()):
        lines += [mark("locate", name), f"Locate Term {name}.\nDefinition known_{number} : {kind} := @{path}.\n"]
    for statement in wanted:
        name, expected = statement.name, f"{coq.LIBRARY}.Statements.Expected.{statement.name}"
        lines += [
            mark("compare", name),
            f"Definition audit_{name} : {expected} := {_constant(statement, where)}.\n",
            mark("walk", name),
            f"Goal {expected}. unfold {expected}. bayesgrad_walk. Abort.\n",
            mark("easy", name),
            f"Goal {expected}. unfold {expected}. bayesgrad_conclude. Abort.\n",
        ]
    return "".join([*lines, mark("end", "all")])


def listing(command: str, groups: Mapping[str, Iterable[Statement]], where: Mapping[str, tuple[str, int]]) -> str:
    """The commands that ask ``command`` of each group of theorems together: each is a walk through the real numbers."""
    groups = {name: tuple(group) for name, group in groups.items()}
    lines = [_opening([statement for group in groups.values() for statement in group], where)]
    for number, (name, group) in enumerate(groups.items()):
        together = ", ".join(["I", *(_constant(statement, where) for statement in group)])
        lines += [mark("group", name), f"Definition together_{number} := ({together}).\n", mark("axioms", name),
                  f"Print {command} together_{number}.\n"]  # fmt: skip
    return "".join([*lines, mark("end", "all")])


def confirmed(answers: str) -> frozenset[str]:
    """The listed axioms whose short name is the library's constant, with the type that is written here."""
    found = set()
    for number, (name, (path, _)) in enumerate(CONSTANTS.items()):
        said = between(answers, "locate", name)
        located = re.findall(r"^\s*(?:Constant|Inductive|Constructor|Notation|Variable) (\S+)", said, re.M)
        if located == [path] and re.search(rf"^known_{number} is defined$", said, re.M):
            found.add(name)
    return frozenset(found)


def binders(answer: str) -> tuple[str, ...]:
    """What is wrong with the types of a statement's variables, as Coq inferred them."""
    short = answer
    for long, name in _NAMES.items():
        short = short.replace(long, name)
    said = re.findall(r"^(@type|@proof) (.+)$", short, re.M)
    clean = [(word, re.sub(r"^\((.*)\)$", r"\1", kind.strip()) if word == "@type" else kind) for word, kind in said]
    bad = [f"a variable of type {kind}" for word, kind in clean if word == "@proof" or kind not in BINDER_TYPES]
    return tuple(dict.fromkeys([*bad, *(["variables that Coq does not show"] if "Error" in answer else [])]))


def hidden(statement: Statement, answer: str) -> str:
    """How Coq's count of the premises differs from what is read in the text: a notation can hide one."""
    counted, read = len(re.findall(r"^@premise$", answer, re.M)), len(premises(statement.text))
    return "" if counted == read else f"Coq finds {counted} premises where the text shows {read}"


def easy(answer: str) -> tuple[str, ...]:
    """The conclusions that hold without a proof, so that they say nothing."""
    return tuple(dict.fromkeys(re.findall(r"^@easy (.+)$", answer, re.M)))


def axioms(answer: str) -> tuple[str, ...]:
    """The names that ``Print Assumptions`` lists; an unknown line counts as one, so that nothing slips through."""
    names = []
    for line in answer.partition("Opaque constants:")[0].splitlines():
        if not line.strip() or line.startswith((" ", "\t", *_HEADINGS)):
            continue
        if line in ("1 goal", "1 subgoal") or line.startswith("@@"):
            continue
        names.append(line.split(" : ")[0].strip())
    return tuple(sorted(set(names)))


def used(answer: str) -> tuple[str, ...]:
    """The last names of the constants that ``Print Opaque Dependencies`` lists as proved."""
    _, _, listed = answer.partition("Opaque constants:")
    names = (line.split(" : ")[0].strip() for line in listed.splitlines() if " : " in line and line[:1].strip())
    return tuple(sorted({name.rpartition(".")[2] for name in names}))


def defined(statement: Statement, answers: str) -> bool:
    """Whether Coq accepted the theorem as its statement."""
    return bool(re.search(rf"^audit_{statement.name} is defined$", between(answers, "compare", statement.name), re.M))


def _assumed(answers: str, name: str) -> tuple[str, ...] | None:
    """The axioms that Coq names; None where it gave no answer of a known kind."""
    # Goal's own echo stands between the last answer and the next mark.
    said = between(answers, "axioms", name).split("\n1 goal")[0]
    known = any(heading in said for heading in ("Axioms:", "Opaque constants:", "Closed under the global context"))
    return axioms(said) if known else None


def judge(
    statement: Statement, answers: str, known: Iterable[str] = frozenset(AXIOMS), group: str | None = None
) -> Finding:
    """One theorem's finding from Coq's answers; ``known`` are the confirmed axioms.

    ``group`` is the name under which Coq was asked what it rests on, where that was not its own.
    """
    name = statement.name
    if not defined(statement, answers):
        compared = between(answers, "compare", name)
        said = compared[compared.find("Error:") :].strip() if "Error:" in compared else "Coq gave no answer"
        return Finding(name, (), f"it is not the committed statement: {' '.join(said.split())[:600]}")
    found = _assumed(answers, name)
    if found is None:
        found = _assumed(answers, group or name)
    if found is None:
        said = " ".join(between(answers, "axioms", group or name).split())[:600]
        return Finding(name, (), f"its axioms are unknown: {said}")
    faults = []
    if strange := [axiom for axiom in found if axiom not in known]:
        faults.append(f"it rests on {', '.join(strange)}")
    walk = between(answers, "walk", name)
    if shown := [*binders(walk), *filter(None, [hidden(statement, walk)])]:
        faults.append(f"it assumes {', '.join(shown)}")
    if said_nothing := easy(between(answers, "easy", name)):
        faults.append(f"it says nothing, being true by itself: {'; '.join(said_nothing)}")
    return Finding(name, found, "; ".join(faults), used(between(answers, "axioms", group or name)))


def audit(
    folder: Path,
    statements: Iterable[Statement],
    where: Mapping[str, tuple[str, int]],
    coqtop: str = "coqtop",
    each: bool = True,
) -> dict[str, Finding]:
    """Findings for all statements. ``where`` holds the theorems of files that compiled.

    What they rest on is asked of all together, and that decides. ``each`` asks for the page, label by label, and
    theorem by theorem where a label rests on more than differentiating real functions does (:data:`CALCULUS`). The
    theorems are asked one by one too where the joint answer is not clear, to name the one at fault.
    """
    statements = tuple(statements)
    answers = coq.evaluate(folder, script(statements, where), coqtop)
    known = confirmed(answers)
    true = [statement for statement in statements if statement.name in where and defined(statement, answers)]
    labels = {label: [s for s in true if s.label == label] for label in dict.fromkeys(s.label for s in true)}
    told = coq.evaluate(folder, listing("Assumptions", {"together": true}, where), coqtop)
    together = _assumed(told, "together")
    cleared = together is not None and set(together) <= known
    if each:
        told += coq.evaluate(folder, listing("Opaque Dependencies", labels, where), coqtop)
    heavy = [s for s in true if not cleared or (each and set(_assumed(told, s.label) or ()) - CALCULUS)]
    if heavy:
        told += coq.evaluate(folder, listing("Assumptions", {s.name: [s] for s in heavy}, where), coqtop)
    answers = (answers + told).replace(mark("end", "all"), "")
    found = {}
    for statement in statements:
        if statement.name in where:
            found[statement.name] = judge(statement, answers, known, statement.label if each else "together")
        else:
            found[statement.name] = Finding(statement.name, (), "no file that compiles proves a theorem of this name")
    alone = {axiom for finding in found.values() for axiom in finding.axioms}
    if alone != set(together or ()):
        differ = f"Coq's answers differ: all theorems together rest on {together}, one by one on {sorted(alone)}"
        found = {name: replace(finding, fault=finding.fault or differ) for name, finding in found.items()}
    return found
