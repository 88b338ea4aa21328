"""Merging: statuses are computed over what a result uses, and nothing old, undecided or missing counts."""

from __future__ import annotations

import json

import pytest

from bayesgrad.evidence import BadEvidence
from bayesgrad.theorems import THEOREMS
from report.merge import failures, merge, read_fragments
from report.validate import validate
from tests import _report_sample as sample

LABEL = "attention.routing-law"
ABOVE = "attention.weight-gradient"


def merged(folder, change=lambda found: None):
    evidence = merge(THEOREMS, read_fragments(sample.write(folder, change)))
    validate(evidence)
    return evidence


def test_everything_established_is_fully_proved(tmp_path):
    evidence = merged(tmp_path)
    assert all(result["fully_proved"] for result in evidence["results"].values())
    assert list(evidence["results"]) == [theorem.label for theorem in THEOREMS]
    assert not failures(evidence)
    assert evidence["trusted_base"]["lines"] == 321


@pytest.mark.parametrize(
    ("route", "entry"),
    [
        ("proof", {"verdict": "undecided"}),
        ("exact", {"verdict": "refuted"}),
        ("code", {"verdict": "not run"}),
        ("check", {"verdict": "failed"}),
    ],
)
def test_a_missing_route_opens_the_result_and_all_that_use_it(tmp_path, route, entry):
    def change(found):
        found[route]["results"][LABEL] |= entry

    results = merged(tmp_path, change)["results"]
    open_ = {label for label, result in results.items() if not result["fully_proved"]}
    users = {LABEL}
    while more := {t.label for t in THEOREMS if users & set(t.uses)} - users:
        users |= more
    assert open_ == users
    assert len(users) > 3


def test_a_run_may_be_missing_but_must_not_contradict(tmp_path):
    def drop(found):
        found["observed"]["results"].pop(LABEL, None)

    def contradict(found):
        found["observed"]["results"][LABEL] = {"verdict": "not confirmed", "record": None}

    assert merged(tmp_path / "a", drop)["results"][LABEL]["fully_proved"]
    contradicted = merged(tmp_path / "b", contradict)
    assert not contradicted["results"][LABEL]["fully_proved"]
    assert LABEL in {label for label, _ in failures(contradicted)}


def test_an_optional_route_may_be_missing_but_never_wrong(tmp_path):
    assert merged(tmp_path / "a")["results"][LABEL]["formal"]["verdict"] == "not run"

    def refute(found):
        found["formal"]["results"][LABEL] = {"verdict": "refuted", "reason": "", "detail": {}, "seconds": 0.0}

    evidence = merged(tmp_path / "b", refute)
    assert not evidence["results"][LABEL]["fully_proved"]
    assert failures(evidence) == [(LABEL, "formal refuted")]


@pytest.mark.parametrize(
    "counted", [{"rejected": 3, "total": 4, "survivors": ["x"]}, {"rejected": 2, "total": 2, "survivors": []}]
)
def test_wrong_laws_must_all_be_rejected_and_be_three(tmp_path, counted):
    evidence = merged(tmp_path, lambda found: found["check"]["wrong_laws"].update({LABEL: counted}))
    assert not evidence["results"][LABEL]["fully_proved"]
    assert bool(failures(evidence)) == bool(counted["survivors"])


@pytest.mark.parametrize("route", ["proof", "exact", "code"])
def test_a_wrong_law_that_one_route_cannot_refute_survives(tmp_path, route):
    def change(found):
        law = {"id": "x/sign", "kind": "sign", "why": "", "verdict": "undecided"}
        found[route]["results"][LABEL]["detail"]["wrong_laws"] = [law]

    evidence = merged(tmp_path, change)
    assert not evidence["results"][LABEL]["fully_proved"]
    assert failures(evidence) == [(LABEL, f"wrong laws survived: x/sign ({route})")]


def test_a_check_alone_proves_nothing(tmp_path):
    def change(found):
        found["proof"] = found["formal"] = None

    assert not any(result["fully_proved"] for result in merged(tmp_path, change)["results"].values())


def test_a_circle_proves_nothing(tmp_path):
    class Circular:
        def __init__(self, theorem, uses):
            self._theorem, self.uses = theorem, uses

        def __getattr__(self, name):
            return getattr(self._theorem, name)

    by_label = {theorem.label: theorem for theorem in THEOREMS}
    table = [
        Circular(by_label["lemma.gibbs"], ("lemma.log-bound",)),
        Circular(by_label["lemma.log-bound"], ("lemma.gibbs",)),
    ]
    evidence = merge(table, read_fragments(sample.write(tmp_path)))
    assert not any(result["fully_proved"] for result in evidence["results"].values())


def test_missing_and_stale_fragments_are_not_run(tmp_path):
    def change(found):
        found["exact"] = None
        found["check"]["sources"] = {"LICENSE": "0" * 64}
        found["code"]["sources"] = {}

    results = merged(tmp_path, change)["results"]
    assert results[LABEL]["exact"]["verdict"] == "not run"
    assert "no evidence of this route yet" in results[LABEL]["exact"]["reason"]
    assert results[LABEL]["check"]["verdict"] == "not run"
    assert results[LABEL]["check"]["examples"] == 0
    assert results[LABEL]["check"]["reason"].startswith("stale, LICENSE changed since")
    assert results[LABEL]["code"]["verdict"] == "not run"
    assert results[LABEL]["mutants"]["total"] == 3  # those of the proof, the numeric ones are stale


def test_what_does_not_apply_says_why(tmp_path):
    results = merged(tmp_path)["results"]
    assert results["lemma.gibbs"]["exact"]["verdict"] == "not applicable"
    assert results["lemma.gibbs"]["exact"]["reason"]


def test_another_version_is_stale(tmp_path):
    evidence = merged(tmp_path, lambda found: found["check"].update(versions={"numpy": "2.1"}))
    assert evidence["results"][LABEL]["check"]["reason"].startswith("stale, numpy was 2.1, is ")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 0}', '{"schema": 2, "route": "exact", "results": {}}'])
def test_damaged_and_older_fragments_are_refused(tmp_path, text):
    sample.write(tmp_path)
    (tmp_path / "proof.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadEvidence, match=r"proof\.json"):
        read_fragments(tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("results", LABEL, "proof", "verdict"), "yes", "'yes' is not one of"),
        (("results", LABEL, "check", "examples"), -1, "examples"),
        (("results", LABEL, "title"), "", "title"),
        (("schema",), 0, "schema 0, expected 1"),
        (("claims", 0, "verdict"), "true", "'true' is not one of"),
        (("extra",), 1, "extra"),
        (("results", LABEL, "proof", "extra"), 1, "extra"),
    ],
)
def test_the_schema_names_what_is_wrong(tmp_path, path, value, named):
    evidence = json.loads(json.dumps(merged(tmp_path)))
    at = evidence
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(BadEvidence, match=named):
        validate(evidence)


def test_the_schema_is_a_schema():
    from report.validate import validator

    validator().check_schema(validator().schema)


def test_a_failed_test_of_no_label_and_unexplained_mutants_are_failures(tmp_path):
    def fail(found):
        found["check"]["failed"] = ["checks/check_corners.py::check_corner[tied scores]"]

    evidence = merged(tmp_path / "a", fail)
    assert failures(evidence) == [("", "checks/check_corners.py::check_corner[tied scores] failed")]

    def survive(found):
        found["code_mutants"]["results"]["survivors"] *= 6

    evidence = merged(tmp_path / "b", survive)
    assert failures(evidence) == [("", "more than one mutant of the code in twenty survives unexplained")]

    def nothing(found):
        found["code_mutants"] = None

    evidence = merged(tmp_path / "c", nothing)
    assert evidence["checks"] == {"failed": [], "mutants": None}
    assert not failures(evidence)
