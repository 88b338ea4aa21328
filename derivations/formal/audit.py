"""Which theorems are proved: Coq compares each with its committed statement and names the axioms it rests on.

The statement was elaborated in ``Statements.v`` with the definitions alone, so no notation or redefinition of a proof
file reaches it. A theorem counts exactly if Coq accepts ``Definition audit : <statement> := <theorem>.``,
``Print Assumptions`` names nothing outside :data:`AXIOMS`, and the types of its variables, as Coq inferred them, are
listed. ``Print Assumptions`` shortens names, so each short name must also locate exactly the library's constant, and
that constant must have the type that is written here: a file of ours called ``Classical_Prop`` cannot lend its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from derivations.formal import coq
from derivations.formal.coq_statements import Statement
from derivations.formal.hypotheses import BINDER_TYPES

# The classical real numbers of Coq's library, extensionality of functions, excluded middle; nothing else.
AXIOMS: Mapping[str, str] = {
    "ClassicalDedekindReals.sig_forall_dec": "classical reals: a search over the numbers ends or never finds",
    "ClassicalDedekindReals.sig_not_dec": "classical reals: a negation is decidable",
    "FunctionalExtensionality.functional_extensionality_dep": "functions that agree everywhere are equal",
    "Classical_Prop.classic": "excluded middle",
}
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

# How Coq writes the real numbers where nothing is imported; the last two are Coquelicot's names of the same type.
_REALS = (
    "Rdefinitions.RbaseSymbolsImpl.R",
    "Hierarchy.NormedModule.sort Hierarchy.R_AbsRing Hierarchy.R_NormedModule",
    "Hierarchy.AbsRing.sort Hierarchy.R_AbsRing",
)

# Prints the type of every leading variable of a statement that is not a premise; a proof as a variable is told apart.
_BINDERS = """Ltac bayesgrad_audit_binders := lazymatch goal with
  | |- ?A -> _ => let S := type of A in lazymatch S with Prop => idtac | _ => idtac "@type" A end;
      let h := fresh in intro h; bayesgrad_audit_binders
  | |- forall x : ?A, _ => let S := type of A in lazymatch S with Prop => idtac "@proof" A | _ => idtac "@type" A end;
      let h := fresh in intro h; bayesgrad_audit_binders
  | _ => idtac end.
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


def script(statements: Iterable[Statement], where: Mapping[str, tuple[str, int]]) -> str:
    """The commands that compare every theorem with its statement and print what it assumes."""
    wanted = [statement for statement in statements if statement.name in where]
    files = sorted({where[statement.name][0].removesuffix(".v") for statement in wanted})
    # The library first, so that a file of ours with a library module's name would show.
    modules = sorted({path.rpartition(".")[0] for path, _ in CONSTANTS.values()})
    lines = [f"Require {module}.\n" for module in modules]
    lines += [f"Require {coq.LIBRARY}.{file}.\n" for file in ["Statements", *files]]
    lines.append(f"Set Printing Width 1000000.\n{_BINDERS}")
    for number, (name, (path, kind)) in enumerate(CONSTANTS.items()):
        lines += [mark("locate", name), f"Locate Term {name}.\nDefinition known_{number} : {kind} := @{path}.\n"]
    for statement in wanted:
        name, file = statement.name, where[statement.name][0].removesuffix(".v")
        expected, proved = f"{coq.LIBRARY}.Statements.Expected.{name}", f"{coq.LIBRARY}.{file}.{name}"
        lines += [
            mark("compare", name),
            f"Definition audit_{name} : {expected} := {proved}.\n",
            mark("axioms", name),
            f"Print Assumptions audit_{name}.\n",
            mark("rests", name),
            f"Print Opaque Dependencies audit_{name}.\n",
            mark("binders", name),
            f"Goal {expected}. unfold {expected}. bayesgrad_audit_binders. Abort.\n",
        ]
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
    for long in _REALS:
        short = short.replace(long, "R")
    said = re.findall(r"^(@type|@proof) (.+)$", short, re.M)
    clean = [(word, re.sub(r"^\((.*)\)$", r"\1", kind.strip()) if word == "@type" else kind) for word, kind in said]
    bad = [f"a variable of type {kind}" for word, kind in clean if word == "@proof" or kind not in BINDER_TYPES]
    return tuple(dict.fromkeys([*bad, *(["variables that Coq does not show"] if "Error" in answer else [])]))


def axioms(answer: str) -> tuple[str, ...]:
    """The names that ``Print Assumptions`` lists; an unknown line counts as one, so that nothing slips through."""
    names = []
    for line in answer.splitlines():
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


def judge(statement: Statement, answers: str, known: Iterable[str] = frozenset(AXIOMS)) -> Finding:
    """One theorem's finding from Coq's answers to :func:`script`; ``known`` are the confirmed axioms."""
    name = statement.name
    compared, assumed = between(answers, "compare", name), between(answers, "axioms", name)
    if not re.search(rf"^audit_{name} is defined$", compared, re.M):
        said = compared[compared.find("Error:") :].strip() if "Error:" in compared else "Coq gave no answer"
        return Finding(name, (), f"it is not the committed statement: {' '.join(said.split())[:600]}")
    if "Axioms:" not in assumed and "Closed under the global context" not in assumed:
        return Finding(name, (), f"its axioms are unknown: {' '.join(assumed.split())[:600]}")
    # Goal's own echo stands between the last answer and the next mark.
    found = axioms(assumed.split("\n1 goal")[0])
    strange = [axiom for axiom in found if axiom not in known]
    hidden = binders(between(answers, "binders", name))
    fault = f"it rests on {', '.join(strange)}" if strange else f"it assumes {', '.join(hidden)}" if hidden else ""
    return Finding(name, found, fault, used(between(answers, "rests", name)))


def audit(
    folder: Path, statements: Iterable[Statement], where: Mapping[str, tuple[str, int]], coqtop: str = "coqtop"
) -> dict[str, Finding]:
    """Findings for all statements. ``where`` holds the theorems of files that compiled."""
    statements = tuple(statements)
    answers = coq.evaluate(folder, script(statements, where), coqtop)
    known = confirmed(answers)
    found = {}
    for statement in statements:
        if statement.name in where:
            found[statement.name] = judge(statement, answers, known)
        else:
            found[statement.name] = Finding(statement.name, (), "no file that compiles proves a theorem of this name")
    return found
