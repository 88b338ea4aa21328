"""Attacks on the audit of the Coq proofs: each would let something false count as proved, and each is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from derivations.formal import audit, build, commands, coq, coqchk, hypotheses, statement_mutants
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


# --- premises and conclusions -----------------------------------------------------------------------------------------


TAUTOLOGIES = {
    "both sides": "forall n a u j c, value_gradient n a u j c = value_gradient n a u j c",
    "unfolded": "forall m a b j, score_gradient m a b j = a j * (b j - mean m a b)",
    "assumed": "forall (P : nat -> bool) j, P j = true -> P j = true",
    "one of two": "forall m a b j, score_gradient m a b j = - (a j * advantage m a b j) /\\ m = m",
    "either": "forall x : R, 0 < x -> x = 3 \\/ 0 < x",
    "equivalent to itself": "forall x : R, 0 < x <-> 0 < x",
    "vacuous": "forall x : R, x < 0 -> 1 < x -> x = 3",
}
OTHERS = {
    "law": "forall m a b j, score_gradient m a b j = - (a j * advantage m a b j)",
    "notation": "forall x : R, only x",
    "deep": "forall x : R, (exists e : Empty_set, x = 1) -> x = 1 /\\ forall e : unit, e = e",
}


@pytest.fixture(scope="module")
def walked(compiled):
    """What Coq says of each statement: its variables and premises, and conclusions that need no proof."""
    laws = TAUTOLOGIES | OTHERS
    lines = [f"From Bayesgrad Require Import Definitions.\nSet Printing Width 100000.\n{audit._WALK}"]
    lines.append("Notation \"'only' x\" := (x < x -> x = 3) (at level 10).\n")
    for number, law in enumerate(laws.values()):
        lines += [audit.mark("law", str(number)), f"Goal {law}. bayesgrad_walk. Abort.\n",
                  f"Goal {law}. bayesgrad_conclude. Abort.\n"]  # fmt: skip
    answers = coq.evaluate(compiled, "".join([*lines, audit.mark("end", "all")]))
    return {kind: audit.between(answers, "law", str(number)) for number, kind in enumerate(laws)}


@pytest.mark.parametrize("kind", TAUTOLOGIES)
def test_a_conclusion_that_needs_no_proof_is_named(walked, kind):
    assert audit.easy(walked[kind])


def test_a_law_needs_its_proof(walked):
    assert audit.easy(walked["law"]) == ()
    assert audit.binders(walked["law"]) == ()


def test_a_premise_behind_a_notation_is_counted(walked):
    one = replace(STATED["attention_delta_identity"], text=OTHERS["notation"])
    assert audit.hidden(one, walked["notation"]) == "Coq finds 1 premises where the text shows 0"
    assert audit.hidden(replace(one, text=OTHERS["law"]), walked["law"]) == ""


def test_variables_are_looked_at_at_any_depth(walked):
    assert audit.binders(walked["deep"]) == ("a variable of type Empty_set", "a variable of type unit")


def test_what_coq_finds_is_a_fault_of_the_theorem():
    one = STATED["attention_delta_identity"]
    said = f"@@compare {one.name}\naudit_{one.name} is defined\n@@walk {one.name}\n@premise\n@@easy {one.name}\n"
    known = "@@axioms together\nClosed under the global context\n"
    fault = audit.judge(one, f"{said}@easy (0 = 0)\n{known}@@end all\n", group="together").fault
    assert "it assumes Coq finds 1 premises where the text shows 0" in fault
    assert "it says nothing, being true by itself: (0 = 0)" in fault
    assert "its axioms are unknown" in audit.judge(one, f"{said}@@end all\n").fault


# --- the independent checker ------------------------------------------------------------------------------------------

SUMMARY = """CONTEXT SUMMARY
===============

* Theory: Set is predicative

* Axioms:
    Coq.Logic.Classical_Prop.classic
{axioms}
* Constants/Inductives relying on type-in-type: {type_in_type}

* Constants/Inductives relying on unsafe (co)fixpoints: <none>

* Inductives whose positivity is assumed: <none>
"""


def test_coqchk_is_read_strictly():
    good = SUMMARY.format(axioms="", type_in_type="<none>")
    assert coqchk.verdict(0, good) == ""
    assert "refuses" in coqchk.verdict(1, good)
    assert "Bayesgrad.Cheat.classic" in coqchk.verdict(
        0, SUMMARY.format(axioms="    Bayesgrad.Cheat.classic\n", type_in_type="<none>")
    )
    assert "type-in-type: Bayesgrad.Cheat.u" in coqchk.verdict(
        0, SUMMARY.format(axioms="", type_in_type="\n    Bayesgrad.Cheat.u")
    )
    assert coqchk.verdict(0, "") != ""


def test_coqchk_sees_an_axiom_that_the_sources_would_not_show(compiled, tmp_path):
    for name in ("Cheat.v", "Plain.v"):
        (compiled / name).write_text(
            "Axiom hidden : False.\n" if name == "Cheat.v" else "Lemma one : 1 = 1. Proof. reflexivity. Qed.\n"
        )
        assert not coq.compile_file(compiled, name.removesuffix(".v")).error
    assert "Bayesgrad.Cheat.hidden" in coqchk.one(compiled, "Cheat")
    assert coqchk.one(compiled, "Plain") == ""
    assert "stopped after" in coqchk.one(compiled, "Plain", limit=0.01)


def test_a_theorem_of_a_module_that_was_not_replayed_is_not_proved():
    finding = audit.Finding("a", (), "")
    assert build._replayed(finding, {"a": ("Cheat.v", 1)}, {"Cheat": "coqchk refuses it"}).fault == "coqchk refuses it"
    assert build._replayed(finding, {"a": ("Cheat.v", 1)}, {"Cheat": "", "Other": "no"}) == finding


def test_the_page_names_what_is_not_replayed():
    page = (statements.FOLDER.parent.parent / "docs" / "formal.md").read_text()
    assert {stem for stem in coqchk.EXCEPTIONS if f"`{stem}.v`" in page} == set(coqchk.EXCEPTIONS)


# --- changed statements -----------------------------------------------------------------------------------------------


def test_every_sign_digit_and_letter_is_changed_once_at_a_time():
    one = replace(STATED["attention_delta_identity"], text="forall a b, a + 0 <= b")
    changes = {mutant.change: mutant.text for mutant in statement_mutants.mutants(one)}
    assert changes["+ -> - at 14"] == "forall a b, a - 0 <= b"
    assert changes["0 -> 1 at 16"] == "forall a b, a + 1 <= b"
    assert changes["<= -> < at 18"] == "forall a b, a + 0 < b"
    assert changes["a -> b at 12"] == "forall a b, b + 0 <= b"
    some = statement_mutants.sample(STATED.values(), 120)
    assert some == statement_mutants.sample(STATED.values(), 120)
    assert {mutant.statement.name for mutant in some} == set(STATED)


def test_a_theorem_passes_for_no_changed_statement(compiled):
    one = STATED["attention_routing_law_advantage"]
    (compiled / "Right.v").write_text(
        f"From Bayesgrad Require Export Sums.\nTheorem {one.name} :\n{one.text}.\n"
        "Proof. intros. unfold score_gradient, advantage. ring. Qed.\n"
    )
    assert not coq.compile_file(compiled, "Right").error
    where = {one.name: ("Right.v", 2)}
    found = statement_mutants.run(compiled, list(statement_mutants.mutants(one)), where)
    assert found.faults == ()
    assert found.refused >= 5
    assert statement_mutants.run(compiled, [], where).faults  # a run that tries nothing says so
    renamed = statement_mutants.Mutant(one, "none", one.text)
    assert statement_mutants.run(compiled, [renamed], where).same == 1


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
def compiled(folder, tmp_path_factory):
    """The words of the statements and the statements, compiled."""
    out = tmp_path_factory.mktemp("compiled")
    for path in (*folder.glob("*.v"), statements.STATEMENTS):
        shutil.copyfile(path, out / path.name)
    assert not any(done.error for done in coq.compile_all(out).values())
    return out


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
