"""Attacks on the audit of the Coq proofs: each would let something false count as proved, and each is refused."""

from __future__ import annotations

import shutil

import pytest

from derivations.formal import audit, build, commands, coq, hypotheses
from derivations.formal import coq_statements as statements
from tests._needed import needed

STATED = {statement.name: statement for statement in statements.read()}
EVERY_SLOPE = "forall (F : R -> R) x G, is_derive F x G"


# --- sources ----------------------------------------------------------------------------------------------------------


def test_no_source_of_ours_assumes_anything_or_has_a_library_modules_name():
    needed(shutil.which("coqc"), coq.PACKAGES)
    library = commands.library_modules()
    assert {"Classical_Prop", "Reals", "Coquelicot"} <= library
    assert commands.faults(statements.FOLDER, library) == []


@pytest.mark.parametrize(
    "source",
    [
        "Axiom a : False.",
        "#[local] Axiom a : False.",
        "Local Axioms a b : False.",
        "Conjecture a : False.",
        "Parameter a : False.",
        "Variable a : False.",
        "Variables (a : False).",
        "Context (a : False).",
        "Hypothesis a : False.",
        "Section S. Variable n : nat. End S. Variable a : False.",
        "Module M. Variable a : False. End M.",
        "Section S. Module M. Context {a : False}. End M. End S.",
        "Module Type T. End T. Declare Module M : T.",
        "Module Type T. End T. Parameter a : False.",
        "Section S. Parameter a : False. End S.",
        "Theorem a : False. Proof. Admitted.",
        "Theorem a : False. Proof. { admit. } Qed.",
        "Theorem a : False. Proof. exact_no_check I; give_up. Qed.",
        "Unset Guard Checking.",
        "Unset Positivity Checking.",
        "#[bypass_check(guard)] Fixpoint f (n : nat) : False := f n.",
        "Primitive int := #int63_type.",
        '(* a "(* no *)" comment *) Axiom a : False.',
        'Definition s := "(*". Axiom a : False. Definition t := "*)".',
        'Load "Elsewhere".',
        'Add LoadPath "elsewhere".',
    ],
)
def test_a_command_that_assumes_or_disarms_is_found(source):
    assert commands.assuming(source)


@pytest.mark.parametrize(
    "source",
    [
        "Section S. Variables (n : nat). Hypothesis p : n = n. Context (q : n = n). End S.",
        "Module Type T. Parameter t : Type. End T.",
        "(* Axiom a : False. (* Variable *) Admitted. *) Definition variable := 1.",
        "Lemma a : True. Proof. - exact I. Qed. Module N := M.",
    ],
)
def test_what_is_local_or_talked_about_is_not(source):
    assert commands.assuming(source) == []


def test_a_file_with_a_library_modules_name_is_refused(tmp_path):
    (tmp_path / "Classical_Prop.v").write_text("Definition one := 1.\n")
    (fault,) = commands.faults(tmp_path, frozenset({"Classical_Prop"}))
    assert "Classical_Prop.v has the name of a library module" in fault


# --- variables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "forall n m (absurd : False) a b j, score_gradient m a b j = 7",
        "forall absurd : False, score_gradient m a b j = 7",
        "forall n, (exists k, True) /\\ forall (h : {x : R | x < x}) j, j = 7",
        "forall n {h : n = 0} j, j = 7",
        "forall n (h : (nat -> False)) j, j = 7",
    ],
)
def test_a_variable_of_a_type_that_is_not_listed_is_a_hypothesis(text):
    assert hypotheses.unlisted(text)


def test_types_that_coq_infers_are_looked_at():
    assert audit.binders("@type (nat -> R)\n@type nat\n") == ()
    assert audit.binders("@type Empty_set\n") == ("a variable of type Empty_set",)
    assert audit.binders("@proof nat\n") == ("a variable of type nat",)
    assert audit.binders("Error: no\n")


# --- axioms -----------------------------------------------------------------------------------------------------------


def located(name: str, said: str) -> str:
    return f"@@locate {name}\n{said}\n@@end all\n"


def test_an_axiom_is_known_by_its_full_path_and_type():
    name, path = "Classical_Prop.classic", "Coq.Logic.Classical_Prop.classic"
    number = list(audit.CONSTANTS).index(name)
    assert set(audit.CONSTANTS) == set(audit.AXIOMS)
    assert audit.confirmed(located(name, f"Constant {path}\nknown_{number} is defined")) == {name}
    for said in (
        f"Constant Bayesgrad.Classical_Prop.classic\nknown_{number} is defined",
        f"Constant {path}\nConstant Bayesgrad.Classical_Prop.classic\nknown_{number} is defined",
        f"Constant {path}\nError: the term has another type",
        f"known_{number} is defined",
        "",
    ):
        assert audit.confirmed(located(name, said)) == frozenset()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The words of the statements, and nothing proved."""
    needed(shutil.which("coqc"), coq.PACKAGES)
    source = tmp_path_factory.mktemp("source")
    for stem in ("FieldFormulas", "Definitions", "Sums"):
        shutil.copyfile(statements.FOLDER / f"{stem}.v", source / f"{stem}.v")
    return source


def attacked(folder, tmp_path, law: str, **files: str) -> build.Outcome:
    """The build of one statement, ``law``, with the files that claim to prove it."""
    source = tmp_path / "source"
    shutil.copytree(folder, source)
    head = (statements.FOLDER / "Statements.v").read_text().split("(** ** Lemmas *)")[0]
    (source / "Statements.v").write_text(
        f"{head}(** [attention.routing-law] false *)\nDefinition attention_routing_law : Prop :=\n  {law}.\n\n"
        "End Expected.\n"
    )
    for stem, text in files.items():
        (source / f"{stem}.v").write_text(text)
    return build.run(source, tmp_path / "build", compare=False)


def cheat(module: str) -> str:
    return f"""From Bayesgrad Require Export Sums.
From Bayesgrad Require Import {module}.
Theorem attention_routing_law : {EVERY_SLOPE}.
Proof. intros F x G. apply (is_derive_ext_R (fun _ => 0)); [intro; apply Bayesgrad.{module}.classic|].
  rewrite (Bayesgrad.{module}.classic G 0). apply (is_derive_const (V := R_NormedModule)). Qed.
"""


def test_a_false_axiom_under_a_librarys_short_name(folder, tmp_path):
    outcome = attacked(
        folder,
        tmp_path,
        EVERY_SLOPE,
        Classical_Prop="From Bayesgrad Require Export Definitions.\nVariable classic : forall x y : R, x = y.\n",
        Cheat=cheat("Classical_Prop"),
    )
    assert outcome.results["attention.routing-law"]["verdict"] == "undecided"
    faults = "\n".join(outcome.faults)
    assert "Classical_Prop.v has the name of a library module" in faults
    assert "Classical_Prop.v assumes or disarms something: Variable classic" in faults
    assert "attention_routing_law: it rests on Classical_Prop.classic" in faults  # the audit alone sees it as well


def test_a_module_inside_a_file_that_takes_a_librarys_name(folder, tmp_path):
    text = cheat("Other").replace("From Bayesgrad Require Import Other.", "Import Classical_Prop.").replace(
        "Bayesgrad.Other.classic", "Cheat.Classical_Prop.classic"
    ).replace("Theorem", "Module Classical_Prop.\nSection S.\nVariable u : nat.\nEnd S.\n"
              "Parameter classic : forall x y : R, x = y.\nEnd Classical_Prop.\nTheorem", 1).replace(
        "Import Classical_Prop.\n", "", 1)  # fmt: skip
    outcome = attacked(folder, tmp_path, EVERY_SLOPE, Cheat=text)
    assert outcome.results["attention.routing-law"]["verdict"] == "undecided"
    assert "it rests on" in "\n".join(outcome.faults)


def test_a_variable_whose_inferred_type_is_empty(folder, tmp_path):
    law = "forall absurd, (match absurd : Empty_set with end : nat) = 7%nat"
    proof = f"From Bayesgrad Require Export Sums.\nTheorem attention_routing_law : {law}.\nProof. intros []. Qed.\n"
    outcome = attacked(folder, tmp_path, law, Cheat=proof)
    assert outcome.results["attention.routing-law"]["verdict"] == "undecided"
    assert "a variable of type Empty_set" in "\n".join(outcome.faults)
