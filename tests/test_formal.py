"""The machinery around the Coq proofs: what is stated, what the audit lets through, and that it refuses the rest."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from bayesgrad.theorems import THEOREMS
from derivations.formal import audit, build, coq, dependencies, hypotheses
from derivations.formal import coq_statements as statements
from derivations.formal import rational_instances as instances
from derivations.formal import rational_loops as loops
from derivations.formal.__main__ import rows, table
from derivations.formal.rationals import NoNumber, exponential, rationals
from tests._needed import needed

STATED = {statement.name: statement for statement in statements.read()}
PROMISED = {
    "lemma.log-bound", "lemma.gibbs", "lemma.variance-form", "lemma.em-identity", "softmax.shift-invariance",
    "softmax.jacobian", "softmax.fisher", "loss.logit-gradient", "attention.weight-gradient",
    "attention.delta-identity", "attention.routing-law", "attention.value-law", "attention.query-law",
    "attention.key-law", "attention.saturation-bound", "bayes.risk-decomposition", "bayes.posterior-predictive",
    "dynamics.loss-decrease", "dynamics.value-step", "dynamics.feedback", "dynamics.natural-routing",
    "em.proximal-e-step", "em.proximal-m-step", "em.gaussian-mixture", "em.not-variational",
}  # fmt: skip
COROLLARIES = {
    "softmax_shift_invariance_distribution", "attention_routing_law_rows_sum_to_zero",
    "attention_routing_law_gradient", "dynamics_feedback_orthogonal", "dynamics_feedback_reversal",
}  # fmt: skip


# --- statements -------------------------------------------------------------------------------------------------------


def test_everything_promised_is_stated_under_its_label():
    labels = {statement.label for statement in STATED.values()}
    assert labels >= PROMISED
    assert set(STATED) >= COROLLARIES
    assert sum(statement.kind == "refutation" for statement in STATED.values()) >= 5
    for label in labels:
        main = [s for s in STATED.values() if s.label == label and s.kind == "theorem"]
        assert [s.name for s in main] == [statements.theorem_name(label)]


def test_labels_are_those_of_the_catalogue():
    assert {statement.label for statement in STATED.values()} <= {theorem.label for theorem in THEOREMS}


def test_every_theorem_is_stated_and_every_statement_has_a_theorem():
    assert set(statements.theorems()) == set(STATED)


def test_the_longest_label_owns_a_name():
    labels = ["dynamics.feedback", "dynamics.feedback-full"]
    assert statements.owner("dynamics_feedback_full_sign", labels) == "dynamics.feedback-full"
    assert statements.owner("wrong_dynamics_feedback_sign", labels) == "dynamics.feedback"
    assert statements.owner("dynamics_feed", labels) is None


def test_a_statement_without_a_comment_or_label_is_named(tmp_path):
    path = tmp_path / "Statements.v"
    path.write_text("(** [a.b] words *)\nDefinition a_b : Prop :=\n  True.\n\nDefinition a_c : Prop :=\n  True.\n\n")
    with pytest.raises(ValueError, match="a_c"):
        statements.read(path)
    path.write_text("(** [a.b] words *)\nDefinition c_d : Prop :=\n  True.\n\n")
    with pytest.raises(ValueError, match="c_d"):
        statements.read(path)


# --- hypotheses -------------------------------------------------------------------------------------------------------


def test_every_hypothesis_is_in_the_list():
    assert {s.name: hypotheses.unlisted(s.text) for s in STATED.values() if hypotheses.unlisted(s.text)} == {}


def test_the_list_has_no_row_that_nobody_uses():
    used = {hypotheses.meaning(premise) for s in STATED.values() for premise in hypotheses.premises(s.text)}
    assert {words for _, words in hypotheses.LISTED} <= used


def test_premises_are_found_at_any_depth_and_types_are_none():
    text = (
        "forall n (F : (nat -> R) -> R) x, (n < 3)%nat -> (forall k, 0 < x k -> P k) ->\n let y := x in Q y -> A <-> B"
    )
    assert hypotheses.premises(text) == ("(n < 3)%nat", "0 < x k", "(forall k, 0 < x k -> P k)", "Q y")


@pytest.mark.parametrize(
    "added",
    [
        "False",
        "gradient_at n m (fun s => Phi (contexts vis m s v)) s G",
        "gradient_at n d Phi (contexts vis m s v) (value_gradient n a u)",
        "score_gradient m a b j = 0",
        "(forall k, (k < m)%nat -> b k = 0)",
    ],
)
def test_a_hypothesis_that_holds_the_conclusion_is_refused(added):
    text = STATED["attention_routing_law"].text.replace("gradient_at n d Phi", f"{added} ->\n  gradient_at n d Phi")
    assert hypotheses.unlisted(text) == (added,)


# --- the audit, on made-up answers ------------------------------------------------------------------------------------

ONE = STATED["attention_delta_identity"]


def answer(compared: str, assumed: str, walk: str = "") -> str:
    return (
        f"@@compare {ONE.name}\n\n{compared}\n\n@@walk {ONE.name}\n{walk}\n"
        f"@@axioms {ONE.name}\n\n{assumed}\n1 goal\n  \n@@end all\n"
    )


def judged(compared: str, assumed: str) -> audit.Finding:
    return audit.judge(ONE, answer(compared, assumed))


DEFINED = f"audit_{ONE.name} is defined"


def test_listed_axioms_pass():
    known = "\n".join(f"{name} : forall x, x" for name in audit.AXIOMS)
    found = judged(DEFINED, f"Fetching opaque proofs from disk for Coq.Init.Logic\nAxioms:\n{known}\n")
    assert (found.fault, found.axioms) == ("", tuple(sorted(audit.AXIOMS)))
    assert judged(DEFINED, "Closed under the global context") == audit.Finding(ONE.name, (), "")


@pytest.mark.parametrize(
    ("compared", "assumed", "fault"),
    [
        (DEFINED, "Axioms:\nWrong.shortcut : forall n, n = 0\n", "rests on Wrong.shortcut"),
        (DEFINED, f"Axioms:\n{ONE.name} : forall n, n = 0\n", f"rests on {ONE.name}"),
        (DEFINED, "Axioms:\nfoo is assumed to be guarded.\n", "rests on foo is assumed to be guarded"),
        (DEFINED, "Error: something else", "axioms are unknown"),
        (DEFINED, "", "axioms are unknown"),
        ('Error: The term has type "A"\nwhile it is expected to have type "B".', "", "not the committed statement"),
        ("", "Closed under the global context", "Coq gave no answer"),
        ("audit_other is defined", "Closed under the global context", "Coq gave no answer"),
    ],
)
def test_anything_else_is_a_fault(compared, assumed, fault):
    assert fault in judged(compared, assumed).fault


def test_no_answer_at_all_is_a_fault():
    assert audit.judge(ONE, "").fault


# --- verdicts ---------------------------------------------------------------------------------------------------------


def verdicts(faulty: str = "", agreements=None):
    expected = tuple(STATED.values())
    where = statements.theorems()
    findings = {s.name: audit.Finding(s.name, (), "it is weaker" if s.name == faulty else "") for s in expected}
    return build.judge(expected, where, findings, dict.fromkeys(where, 0.25), agreements or {}, dependencies.rests_on())


def test_a_label_is_proved_only_with_its_corollaries_refutations_and_formula():
    assert all(result["verdict"] == "proved" for result in verdicts().values())
    for faulty in ("attention_routing_law", "attention_routing_law_bias", "wrong_attention_routing_law_mean"):
        result = verdicts(faulty)
        bad = {label for label in result if result[label]["verdict"] != "proved"}
        assert bad == {"attention.routing-law"}
        assert f"{faulty}: it is weaker" in result["attention.routing-law"]["reason"]
    differs = {"attention.value-law": instances.Agreement(3, 0.5, "instance 0: 0.5 off")}
    result = verdicts(agreements=differs)
    assert result["attention.value-law"]["verdict"] == "undecided"


def test_evidence_names_statement_axioms_and_place():
    detail = verdicts()["attention.routing-law"]["detail"]
    assert detail["theorem"] == "attention_routing_law"
    assert detail["hypotheses"] == ["u is the gradient of the downstream loss at the contexts"]
    assert detail["statement"].startswith("Theorem attention_routing_law :\n  forall n m d vis")
    lines = (statements.FOLDER.parent.parent / detail["file"]).read_text().splitlines()
    assert lines[detail["line"] - 1].startswith("Theorem attention_routing_law :")
    listed = rows(verdicts())
    assert len(listed) == len(STATED)
    assert {len(row) for row in listed} == {6}
    assert listed[0][:3] == ("lemma.log-bound", "lemma_log_bound", "proved")


# --- what a proof rests on --------------------------------------------------------------------------------------------

STATED_TWICE = """(** [a.one] First. *)
Definition a_one : Prop :=
  True.

(** [a.two] Second. *)
Definition a_two : Prop :=
  True.

(** [a.three] Third. *)
Definition a_three : Prop :=
  True.

"""
PROVED = """(* a_three (* nested *) is only talked about *)
Theorem a_one : True. Proof. exact I. Qed.
Lemma between : True. Proof. exact a_one. Qed.
Ltac finish := apply between.
Theorem a_two : True. Proof. (* a_three *) finish. Qed.
Theorem a_three : True. Proof. apply a_two. Qed.
"""


def test_a_proof_rests_on_what_it_reaches_through_lemmas_and_tactics_and_not_on_comments(tmp_path):
    (tmp_path / "Statements.v").write_text(STATED_TWICE, encoding="utf-8")
    (tmp_path / "Proofs.v").write_text(PROVED, encoding="utf-8")
    found = dependencies.rests_on(tmp_path)
    assert found == {"a.one": (), "a.two": ("a.one",), "a.three": ("a.two",)}
    said = {"a_one": (), "a_two": ("a_one", "Rplus_comm"), "a_three": ("a_two", "a_one")}
    assert dependencies.faults(said, tmp_path) == []
    (fault,) = dependencies.faults({**said, "a_one": ("a_three",)}, tmp_path)
    assert "a.one" in fault
    assert "rests on a.three" in fault
    (fault,) = dependencies.faults({**said, "a_two": ()}, tmp_path)
    assert "a.two: Coq and the sources disagree whether its proof rests on a.one" in fault


def test_what_coq_says_a_proof_uses():
    answer = (
        "Axioms:\nclassic : forall P : Prop, P \\/ ~ P\nOpaque constants:\nBayesgrad.Sums.sum_ext : True\nx : True\n"
    )
    assert audit.used(answer) == ("sum_ext", "x")
    assert audit.used("Closed under the global context") == ()


def test_seconds_are_read_from_the_times_of_the_sentences():
    source = "Lemma é : True.\nProof. exact I. Qed.\n\nTheorem b : True.\nProof. exact I. Qed.\n".encode()
    start = source.index(b"Theorem")
    timing = (
        f"Chars 0 - 9 [Lemma] 1.0 secs (1u,0s)\nChars {start} - {start + 17} [Theorem~b] 0.25 secs (0u,0s)\n"
        f"Chars {start + 18} - {start + 24} [Proof] 0.5 secs (0u,0s)\n"
    )
    assert coq.theorem_seconds(source, timing) == {"b": 0.75}


def test_files_wait_for_what_they_require(tmp_path):
    (tmp_path / "B.v").write_text("From Bayesgrad Require Export A.\n")
    with pytest.raises(ValueError, match=r"B\.v requires A"):
        coq.dependencies(tmp_path)
    (tmp_path / "A.v").write_text("From Bayesgrad Require Export B.\n")
    assert coq.dependencies(tmp_path) == {"A": {"B"}, "B": {"A"}}
    with pytest.raises(ValueError, match="require one another"):
        coq.compile_all(tmp_path)


def test_a_build_starts_from_an_empty_folder_of_its_own(tmp_path):
    for name in ("run-0x", f"run-{os.getpid()}", f"run-{os.getppid()}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Old.vo").touch()
    folder = build.prepare(build=tmp_path)
    assert folder.name == f"run-{os.getpid()}"
    assert {path.suffix for path in folder.iterdir()} == {".v"}
    assert {path.name for path in tmp_path.iterdir()} == {f"run-{os.getpid()}", f"run-{os.getppid()}"}


# --- no Coq -----------------------------------------------------------------------------------------------------------


def command(*arguments: str, path: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "derivations.formal", *arguments],
        cwd=statements.FOLDER.parent.parent,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def script_named_coqc(folder, says: str) -> str:
    path = folder / "coqc"
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return str(path)


def test_a_missing_coq_is_one_sentence_that_names_the_packages(tmp_path):
    done = command("--force", path=str(tmp_path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "coq, libcoq-coquelicot and libcoq-interval" in done.stderr


def test_an_old_coq_or_one_without_a_library_too(tmp_path):
    old = script_named_coqc(tmp_path, 'echo "The Coq Proof Assistant, version 8.12.0"')
    with pytest.raises(coq.CoqMissing, match=r"8\.12\.0 is too old; install coq, libcoq-coquelicot and"):
        coq.version(old)
    mute = script_named_coqc(tmp_path, "exit 0")
    with pytest.raises(coq.CoqMissing, match="which version"):
        coq.version(mute)
    bare = script_named_coqc(tmp_path, "exit 1")
    with pytest.raises(coq.CoqMissing, match="library Coquelicot is not; install coq, libcoq-coquelicot and"):
        coq.libraries(tmp_path, bare)


# --- with Coq ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The definitions, the statements and the sums, compiled."""
    needed(shutil.which("coqc"), coq.PACKAGES)
    folder = tmp_path_factory.mktemp("formal")
    for stem in ("FieldFormulas", "Definitions", "Statements", "Sums"):
        shutil.copyfile(statements.FOLDER / f"{stem}.v", folder / f"{stem}.v")
    assert not any(done.error for done in coq.compile_all(folder).values())
    return folder


TRUE_PROOF = """
Theorem attention_routing_law_advantage : forall m a b j, score_gradient m a b j = - (a j * advantage m a b j).
Proof. intros. unfold score_gradient, advantage. ring. Qed.
"""
VARIANTS = {
    "weakened": (
        "Theorem attention_routing_law_advantage : forall m a b j, (0 < m)%nat ->\n"
        "  score_gradient m a b j = - (a j * advantage m a b j).\n"
        "Proof. intros. unfold score_gradient, advantage. ring. Qed.\n",
        "not the committed statement",
    ),
    "narrowed": (
        "Theorem attention_routing_law_advantage : forall a b j,\n"
        "  score_gradient 3 a b j = - (a j * advantage 3 a b j).\n"
        "Proof. intros. unfold score_gradient, advantage. ring. Qed.\n",
        "not the committed statement",
    ),
    "another": (
        "Theorem attention_routing_law_advantage : forall m a b j, score_gradient m a b j = score_gradient m a b j.\n"
        "Proof. reflexivity. Qed.\n",
        "not the committed statement",
    ),
    "redefined": (
        "Definition advantage (m : nat) (a b : nat -> R) (j : nat) : R := 0.\n"
        "Definition score_gradient (m : nat) (a b : nat -> R) (j : nat) : R := 0.\n" + TRUE_PROOF,
        "not the committed statement",
    ),
    "open": (
        "Theorem attention_routing_law_advantage : forall m a b j,\n"
        "  score_gradient m a b j = - (a j * advantage m a b j).\nProof. Admitted.\n",
        "rests on",
    ),
    "postulated": (
        "Axiom shortcut : forall x y : R, x = y.\n"
        "Theorem attention_routing_law_advantage : forall m a b j,\n"
        "  score_gradient m a b j = - (a j * advantage m a b j).\nProof. intros. apply shortcut. Qed.\n",
        "rests on",
    ),
}


def proved_as(library, stem: str, text: str) -> audit.Finding:
    statement = STATED["attention_routing_law_advantage"]
    (library / f"{stem}.v").write_text(f"From Bayesgrad Require Export Sums.\n{text}")
    done = coq.compile_file(library, stem)
    assert not done.error, done.error
    return audit.audit(library, [statement], {statement.name: (f"{stem}.v", 1)})[statement.name]


def test_a_right_proof_passes_the_audit(library):
    found = proved_as(library, "Right", TRUE_PROOF)
    assert found.fault == ""
    assert set(found.axioms) <= set(audit.AXIOMS)
    assert found.axioms


@pytest.mark.parametrize("kind", sorted(VARIANTS))
def test_a_proof_of_something_else_does_not(library, kind):
    text, fault = VARIANTS[kind]
    assert fault in proved_as(library, kind.capitalize(), text).fault


def test_a_renamed_theorem_is_named(library):
    statement = STATED["attention_routing_law_advantage"]
    found = audit.audit(library, [statement], {})
    assert "no file that compiles proves a theorem of this name" in found[statement.name].fault


def test_a_build_with_a_broken_proof_names_file_and_theorems(library, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for stem in ("FieldFormulas", "Definitions", "Sums"):
        shutil.copyfile(statements.FOLDER / f"{stem}.v", source / f"{stem}.v")
    text = (statements.FOLDER / "Statements.v").read_text()
    head = text[: text.index("(** ** Lemmas *)")]
    (source / "Statements.v").write_text(
        f"{head}(** [attention.value-law] words *)\nDefinition attention_value_law : Prop :=\n  True.\n\n"
        "End Expected.\n"
    )
    (source / "Broken.v").write_text(
        "From Bayesgrad Require Export Sums.\nTheorem attention_value_law : True.\nProof. lra. fail. Qed.\n"
        "Theorem attention_unheard_of : True.\nProof. exact I. Qed.\n"
    )
    said: list[str] = []
    outcome = build.run(source, tmp_path / "build", said.append, compare=False)
    assert outcome.results["attention.value-law"]["verdict"] == "undecided"
    faults = "\n".join(outcome.faults)
    assert "Broken.v does not compile" in faults
    assert "attention_value_law: no file that compiles" in faults
    assert "theorem attention_unheard_of (Broken.v) has no committed statement" in faults
    assert any("Broken.v" in line for line in said)


# --- formulas over the rationals --------------------------------------------------------------------------------------


def drawn(count: int = 2, seed: int = 7) -> list[loops.Instance]:
    rng = random.Random(seed)
    return [loops.draw(rng) for _ in range(count)]


def test_bayesgrad_on_fractions_is_what_the_loops_say_exactly():
    found = instances.in_python(drawn())
    assert {label: one.fault for label, one in found.items() if one.fault} == {}
    assert len(found) == len(instances.ROWS) >= 20
    assert all(one.numbers > 0 and one.worst_error <= instances.TOLERANCE for one in found.values())


def test_formulas_belong_to_stated_labels():
    assert {row.label for row in instances.ROWS} <= {statement.label for statement in STATED.values()}


@pytest.mark.parametrize("row", instances.ROWS, ids=lambda row: row.label)
def test_one_wrong_number_is_seen(row, monkeypatch):
    def off(instance, kit, original=row.shipped):
        numbers = instances.flat(original(instance, kit))
        return [numbers[0] + (Fraction(1, 10**6) if kit is instances.EXACT else 1e-6), *numbers[1:]]

    monkeypatch.setattr(instances, "ROWS", (replace(row, shipped=off),))
    assert "differs" in instances.in_python(drawn(1))[row.label].fault


def test_coq_agrees_over_the_rationals(library):
    answers = coq.evaluate(library, instances.script(drawn()))
    assert {label: fault for label, fault in instances.in_coq(answers, 2).items() if fault} == {}


def test_coq_disagrees_where_a_formula_is_wrong(library, tmp_path):
    wrong = (statements.FOLDER / "FieldFormulas.v").read_text()
    changed = wrong.replace("K.t := a j * (b j - mean m a b).", "K.t := a j * b j.")
    assert changed != wrong
    (tmp_path / "FieldFormulas.v").write_text(changed)
    assert not coq.compile_file(tmp_path, "FieldFormulas").error
    answers = coq.evaluate(tmp_path, instances.script(drawn(1)))
    bad = {label for label, fault in instances.in_coq(answers, 1).items() if fault}
    assert {"attention.routing-law", "attention.query-law", "attention.key-law"} <= bad
    assert "attention.value-law" not in bad


def test_no_answer_is_no_agreement():
    faults = instances.in_coq("", 1)
    assert all(faults.values())


def test_the_exponential_is_positive_multiplicative_and_rational():
    assert exponential(Fraction(-3)) == Fraction(1, 8)
    assert exponential(2) * exponential(3) == exponential(5)
    with pytest.raises(ValueError, match="whole number"):
        exponential(Fraction(1, 2))


def test_fractions_go_through_numpys_operators_and_logarithms_do_not():
    x = rationals([[1, Fraction(1, 3)]])
    assert (x + x * 2 - 1).numbers() == [2, 0]
    assert (x > 0.5).tolist() == [[True, False]]
    assert (x * np.asarray([[True, False]])).numbers() == [1, 0]
    with pytest.raises(TypeError):
        x.__array_namespace__().log(x).numbers()
    assert isinstance(1 - NoNumber() * 2, NoNumber)


def test_the_table_needs_evidence(monkeypatch, capsys):
    monkeypatch.setattr("derivations.formal.__main__.fresh", lambda: None)
    assert table() == 1
    assert "make formal" in capsys.readouterr().err
    monkeypatch.setattr("derivations.formal.__main__.fresh", lambda: {"results": verdicts()})
    assert table() == 0
    assert "attention_routing_law " in capsys.readouterr().out
