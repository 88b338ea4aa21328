"""Evidence: statuses are computed from it alone; what is stale, undecided, missing or contradictory never counts."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesgrad import evidence as store
from bayesgrad.claims import CLAIMS
from bayesgrad.evidence import BadEvidence, shape
from bayesgrad.evidence.status import (
    cycle,
    failures,
    fully_proved,
    merge,
    read_all,
    read_merged,
    rejections,
    rests_on,
    summary,
    unsettled,
)
from bayesgrad.theorems import THEOREMS
from report.__main__ import main
from tests import _report_sample as sample

LABEL = "attention.routing-law"


def merged(folder, change=lambda found: None):
    evidence = merge(THEOREMS, read_all(sample.write(folder, change)))
    assert not shape.fault(evidence, shape.MERGED)
    return evidence


def proved(folder, change=lambda found: None):
    return fully_proved(THEOREMS, merged(folder, change)["results"])


def test_everything_established_is_fully_proved_and_no_status_is_stored(tmp_path):
    evidence = merged(tmp_path)
    status = fully_proved(THEOREMS, evidence["results"])
    assert all(status.values())
    assert list(status) == list(evidence["results"]) == [theorem.label for theorem in THEOREMS]
    assert not failures(evidence)
    assert summary(status) == f"{len(THEOREMS)} of {len(THEOREMS)} fully proved"
    assert evidence["trusted_base"]["lines"] == 321
    assert "fully_proved" not in json.dumps(evidence)


@pytest.mark.parametrize(
    ("route", "entry"),
    [
        ("proof", {"verdict": "undecided"}),
        ("exact", {"verdict": "refuted"}),
        ("code", {"verdict": "not run"}),
        ("check", {"verdict": "failed"}),
    ],
)
def test_a_missing_route_opens_the_result_and_all_that_rest_on_it(tmp_path, route, entry):
    def change(found):
        found[route]["results"][LABEL] |= entry

    users = {LABEL}
    while more := {label for label, below in sample.GRAPH.items() if users & set(below)} - users:
        users |= more
    assert {label for label, status in proved(tmp_path, change).items() if not status} == users
    assert len(users) > 3


def test_a_run_may_be_missing_but_must_not_contradict(tmp_path):
    def drop(found):
        found["observed"]["results"].pop(LABEL, None)

    def contradict(found):
        found["observed"]["results"][LABEL] = {"verdict": "not confirmed", "record": None}

    assert proved(tmp_path / "a", drop)[LABEL]
    assert not proved(tmp_path / "b", contradict)[LABEL]
    assert LABEL in {label for label, _ in failures(merged(tmp_path / "b", contradict))}


@pytest.mark.parametrize("verdict", ["refuted", "undecided"])
def test_an_optional_route_may_be_missing_but_never_wrong(tmp_path, verdict):
    assert merged(tmp_path / "a")["results"][LABEL]["formal"]["verdict"] == "not run"

    def refute(found):
        found["formal"]["results"][LABEL] = {"verdict": verdict, "rests_on": []}

    assert not proved(tmp_path / "b", refute)[LABEL]
    evidence = merged(tmp_path / "b", refute)
    assert failures(evidence) == ([(LABEL, "formal refuted")] if verdict == "refuted" else [])


@pytest.mark.parametrize(
    ("kept", "standing"),
    [(4, ["scores/drop"]), (2, [])],
)
def test_wrong_laws_must_all_be_rejected_and_be_three(tmp_path, kept, standing):
    def change(found):
        found["proof"]["results"][LABEL]["detail"]["wrong_laws"] = []
        counted = found["check"]["wrong_laws"][LABEL]
        counted["laws"] = dict(list(counted["laws"].items())[:kept])
        counted |= {"total": kept, "survivors": standing, "rejected": kept - len(standing)}

    assert not proved(tmp_path, change)[LABEL]
    assert bool(failures(merged(tmp_path, change))) == bool(standing)


@pytest.mark.parametrize("route", ["proof", "exact", "code"])
def test_a_wrong_law_that_one_route_cannot_refute_survives(tmp_path, route):
    def change(found):
        law = {"id": "scores/sign-0", "kind": "sign", "why": "", "verdict": "undecided"}
        found[route]["results"][LABEL]["detail"]["wrong_laws"] = [law]

    assert not proved(tmp_path, change)[LABEL]
    evidence = merged(tmp_path, change)
    assert failures(evidence) == [(LABEL, f"wrong laws survived: scores/sign-0 ({route})")]
    assert rejections(evidence["results"][LABEL])["laws"]["scores/sign-0"]["verdict"] == "undecided"


def test_a_wrong_law_counts_once_however_many_routes_hold_it(tmp_path):
    found = rejections(merged(tmp_path)["results"][LABEL])
    assert (found["rejected"], found["total"], len(found["laws"])) == (4, 4, 4)
    assert found["laws"]["scores/sign-1"]["counterexample"] == "n=1"  # the shortest


def test_a_check_alone_proves_nothing(tmp_path):
    assert not any(proved(tmp_path, lambda found: found.update(proof=None, formal=None)).values())


def test_missing_and_stale_fragments_are_not_run(tmp_path):
    def change(found):
        found["exact"] = None
        found["check"]["sources"] = {"LICENSE": "0" * 64}
        found["code"]["sources"] = {}

    evidence = merged(tmp_path, change)
    result = evidence["results"][LABEL]
    assert result["exact"]["verdict"] == "not run"
    assert "no evidence of this route yet" in result["exact"]["reason"]
    assert result["check"]["verdict"] == "not run"
    assert result["check"]["examples"] == 0
    assert result["check"]["reason"].startswith("stale, LICENSE changed since")
    assert result["code"]["verdict"] == "not run"
    assert rejections(result)["total"] == 3  # those of the proof, the numeric ones are stale
    fragments = read_all(tmp_path)
    told = dict(unsettled(THEOREMS, evidence, fragments, strict=False))
    assert set(told) == {"exact", "check", "code"}
    assert not any(fully_proved(THEOREMS, evidence["results"]).values())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sources": {"LICENSE": "0" * 64}}, "LICENSE changed since"),
        ({"sources": {**sample.SOURCES, "gone.txt": "0" * 64}}, "gone.txt is gone"),
        ({"patterns": ["LICENSE", "docs/form*.md"]}, "docs/formal.md is new"),
        ({"versions": {"numpy": "2.1"}}, "numpy was 2.1, is "),
        ({"versions": {"nosuchpackage": "1"}}, "nosuchpackage was 1, is absent"),
        ({"versions": {"": "1"}}, " was 1, is absent"),
        ({"patterns": [""]}, "patterns cannot be matched"),
        ({"patterns": ["/etc/*"]}, "patterns cannot be matched"),
        ({"sources": {"x" * 5000: "0" * 64}}, "is gone"),
        ({"sources": {"\0": "0" * 64}}, "is gone"),
        ({"sources": {}}, "list of its sources is empty"),
        ({"schema": 1}, "schema 1 of an older version"),
        ({}, ""),
    ],
)
def test_what_makes_evidence_stale(tmp_path, change, why):
    sample.write(tmp_path, lambda found: found["check"].update(change))
    said = store.why_stale(store.load("check", tmp_path))
    assert why in said
    assert bool(said) == bool(why)
    assert (store.read("check", tmp_path) is None) == bool(why)


def test_another_configuration_is_stale(tmp_path):
    sample.write(tmp_path, lambda found: found["check"].update(configuration={"profile": "quick"}))
    assert store.read("check", tmp_path, configuration={"profile": "quick"})
    assert store.read("check", tmp_path, configuration={"profile": "ci"}) is None


def test_what_does_not_apply_says_why(tmp_path):
    results = merged(tmp_path)["results"]
    assert results["lemma.gibbs"]["exact"]["verdict"] == "not applicable"
    assert results["lemma.gibbs"]["exact"]["reason"]


def test_a_claim_is_settled_by_its_theorems_and_falls_with_them(tmp_path):
    def judged(found):
        sample.cell(found, 0)["verdict"] = "supported"

    def rows(evidence):
        return {row["id"]: row for row in evidence["claims"]}

    first = next(iter(CLAIMS))
    evidence = merged(tmp_path / "a", judged)
    assert list(rows(evidence)) == list(CLAIMS)
    assert rows(evidence)[first]["settled_by"] == ["theorem", "experiment"]
    assert rows(evidence)["routing-law"]["settled_by"] == ["theorem"]
    assert rows(evidence)["mlp-fails"]["settled_by"] == []

    def break_(found):
        judged(found)
        found["proof"]["results"][CLAIMS[first].labels[0]]["verdict"] = "undecided"

    assert rows(merged(tmp_path / "b", break_))[first]["settled_by"] == ["experiment"]


def test_claims_name_results_of_the_catalogue_and_a_verdict():
    labels = {theorem.label for theorem in THEOREMS}
    for claim in CLAIMS.values():
        assert set(claim.labels) <= labels
        assert bool(claim.labels) == bool(claim.by_theorem)
        assert claim.by_theorem in ("", *shape.CELL.words)


def test_merged_evidence_taken_apart_and_put_together_is_the_same(tmp_path):
    evidence = merged(tmp_path)
    path = tmp_path / "evidence.json"
    store.write_json(path, evidence)
    assert merge(THEOREMS, read_merged(path)) == evidence


def test_merged_evidence_of_other_sources_counts_as_not_run(tmp_path):
    evidence = merged(tmp_path)
    evidence["routes"]["proof"]["sources"]["LICENSE"] = "0" * 64
    store.write_json(tmp_path / "evidence.json", evidence)
    again = merge(THEOREMS, read_merged(tmp_path / "evidence.json"))
    assert {result["proof"]["verdict"] for result in again["results"].values()} == {"not run"}
    assert not any(fully_proved(THEOREMS, again["results"]).values())


def test_a_typed_verdict_in_merged_evidence_is_judged_again(tmp_path, capsys):
    evidence = merged(tmp_path)
    evidence["results"][LABEL]["proof"]["verdict"] = "undecided"
    store.write_json(tmp_path / "evidence.json", evidence)
    command = ["--evidence", str(tmp_path / "evidence.json"), "--output", str(tmp_path / "out")]
    assert main(command) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "fully proved; not: " in last
    assert LABEL in last
    assert main([*command, "--strict"]) == 1
    assert f"NOT ESTABLISHED {LABEL}: proof undecided" in capsys.readouterr().err


def test_hypotheses_and_coq_theorems_stand_with_the_part_that_they_belong_to(tmp_path):
    def coq(theorem, **more):
        return {"theorem": theorem, "statement": "Theorem", "axioms": [theorem], "verdict": "proved", **more}

    def change(found):
        detail = found["proof"]["results"][LABEL]["detail"]
        names = {"scores": ["row i sees a key"], "row-sum": [], "fisher": ["x > 0"], "bias": [], "sign": []}
        steps = detail["parts"][0]["steps"]
        detail["parts"] = [{"name": name, "assumptions": said, "steps": steps} for name, said in names.items()]
        base = "attention_routing_law"
        corollaries = [coq(f"{base}_row_sum"), coq(f"{base}_fisher", verdict="undecided"), coq(f"{base}_else")]
        refutations = [coq(f"{base}_sign")]
        entry = {"verdict": "proved", "rests_on": []}
        entry["detail"] = coq(base) | {"corollaries": corollaries, "refutations": refutations}
        entry["detail"].pop("verdict")
        found["formal"]["results"][LABEL] = entry

    def twins(result):
        return {part["name"]: (part["assumptions"], part["theorem"], part["axioms"]) for part in result["parts"]}

    base = "attention_routing_law"
    sample.write(tmp_path / "a", change)
    fragments = read_all(tmp_path / "a")
    fragments["formal"].data["results"][LABEL]["detail"]["corollaries"][1]["verdict"] = "not run"
    assert twins(merge(THEOREMS, fragments)["results"][LABEL]) == {
        "scores": (["row i sees a key"], base, [base]),
        "row-sum": ([], f"{base}_row_sum", [f"{base}_row_sum"]),
        "fisher": (["x > 0"], None, []),
        "bias": ([], None, []),
        "sign": ([], None, []),
    }
    fragments["formal"].data["results"][LABEL]["verdict"] = "undecided"
    assert {row[1] for row in twins(merge(THEOREMS, fragments)["results"][LABEL]).values()} == {None, f"{base}_row_sum"}


# --- evidence that contradicts itself or the catalogue ----------------------------------------------------------------


def _of(found, route):
    return found[route]["results"][LABEL]


CONTRADICTIONS = {
    "holds a counterexample": lambda found: _of(found, "proof")["detail"].update(counterexample="n = 1"),
    "'scores' is refuted": lambda found: _of(found, "proof")["detail"]["parts"][0].update(verdict="refuted"),
    "holds no step": lambda found: _of(found, "proof")["detail"].update(parts=[]),
    "tried no example": lambda found: _of(found, "check").update(examples=0),
    "1.5 tolerances": lambda found: _of(found, "check").update(worst_in_tolerance=1.5),
    "together are not the total": lambda found: found["check"]["wrong_laws"][LABEL].update(total=5),
    "the catalogue requires it": lambda found: _of(found, "exact").update(verdict="not applicable"),
    "'no.such' is no result": lambda found: found["check"]["results"].update({"no.such": _of(found, "check")}),
    "'nobody' is no result": lambda found: _of(found, "proof")["rests_on"]["proof"].append("nobody"),
    "'nothing' is no claim": lambda found: found["observed"]["claims"].append({"id": "nothing", "cells": []}),
    "lies above": lambda found: sample.cell(found).update(interval=[2.0, 1.0]),
    f"{LABEL} -> {LABEL} is a circle": lambda found: _of(found, "proof")["rests_on"]["proof"].append(LABEL),
    "killed and survivors": lambda found: found["code_mutants"]["results"].update(killed=9),
    "rests_on is missing": lambda found: _of(found, "proof").pop("rests_on"),
}


@pytest.mark.parametrize("said", CONTRADICTIONS)
def test_a_contradiction_is_one_sentence_and_nothing_is_written(tmp_path, capsys, said):
    sample.write(tmp_path / "evidence", CONTRADICTIONS[said])
    out = tmp_path / "out"
    assert main(["--fragments", str(tmp_path / "evidence"), "--output", str(out)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not out.exists()


def test_a_circle_is_found_wherever_it_lies():
    assert cycle({"a": ["b"], "b": [], "c": ["a", "b"]}) == []
    assert cycle({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}) == ["b", "c", "b"]
    assert cycle({"x": ["elsewhere"]}) == []


# --- whatever a file holds --------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just("proved"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def _places(data, path=()):
    yield path
    if isinstance(data, dict | list):
        for key, value in list(data.items() if isinstance(data, dict) else enumerate(data))[:9]:
            yield from _places(value, (*path, key))


def _put(data, path, value):
    if not path:
        return value
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


PLACES = {route: list(_places(fragment)) for route, fragment in sample.fragments().items()}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), route=st.sampled_from(sorted(PLACES)), value=JSON)
def test_whatever_a_fragment_holds_it_is_evidence_or_one_sentence(tmp_path, data, route, value):
    path = data.draw(st.sampled_from(PLACES[route]))
    found = sample.fragments()
    found[route] = _put(found[route], path, value)
    folder = tmp_path / "fuzz"
    folder.mkdir(exist_ok=True)
    for name, fragment in found.items():
        (folder / f"{name}.json").write_text(json.dumps(fragment), encoding="utf-8")
    said, evidence = "", None
    try:
        evidence = merge(THEOREMS, read_all(folder))
    except BadEvidence as error:
        said = str(error)
    assert "\n" not in said
    if evidence is not None:
        assert not shape.fault(evidence, shape.MERGED)
        fully_proved(THEOREMS, evidence["results"])
        failures(evidence)


RAW = {
    "": "not readable as JSON",
    "null": "schema None",
    "[]": "schema None",
    '{"schema": true}': "schema True",
    '{"schema": 99}': "schema 99, expected 2",
    '{"schema": 2, "schema": 2}': "the key 'schema' stands twice",
    '{"schema": Infinity}': "Infinity is no JSON number",
    '{"schema": 2, "route": NaN}': "NaN is no JSON number",
    "[" * 100_000: "not readable as JSON",
    '{"schema": ' + "9" * 5000 + "}": "not readable as JSON",
    '{"schema": 2, "route": "proof"}': "versions is missing",
}


@pytest.mark.parametrize("text", RAW, ids=lambda text: text[:24] or "empty")
def test_whatever_a_file_holds_it_is_one_sentence_and_status_2(tmp_path, capsys, text):
    sample.write(tmp_path / "evidence")
    path = tmp_path / "evidence" / "proof.json"
    path.write_text(text, encoding="utf-8")
    for command in (["--fragments", str(path.parent)], ["--evidence", str(path)]):
        assert main([*command, "--output", str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "proof.json" in said
    with pytest.raises(BadEvidence, match=r"proof\.json") as error:
        store.load("proof", path.parent)
    assert RAW[text] in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("results", LABEL), None),
        (("results", LABEL), "proved"),
        (("results", LABEL, "detail", "parts"), [None]),
        (("results", LABEL, "detail", "parts", 0, "steps", 0, "tex"), 1),
        (("results", LABEL, "seconds"), 1e999),
        (("results", LABEL, "seconds"), 10**400),
        (("results", LABEL, "reason"), "half \ud800 a pair"),
        (("sources", "LICENSE"), "abc"),
        (("results", LABEL, "verdict"), "maybe"),
        (("results", LABEL, "extra"), 1),
        (("results", LABEL, "rests_on"), {"proof": [1], "formal": []}),
    ],
)
def test_the_field_that_is_wrong_is_named(path, value):
    fragment = sample.fragments()["proof"]
    _put(fragment, path, value)
    said = shape.fault(fragment, shape.FRAGMENTS["proof"])
    assert said.startswith("/".join(map(str, path)) if path[-1] != "extra" else f"results/{LABEL}")
    assert "\n" not in said


def test_older_evidence_is_stale_and_a_route_refuses_to_write_what_nobody_would_read(tmp_path):
    with pytest.raises(BadEvidence, match=r"not written, results/x\.y/verdict: got 'yes'"):
        store.write("exact", {"x.y": {"verdict": "yes"}}, sources={}, versions={}, seconds=0.0, folder=tmp_path)
    with pytest.raises(BadEvidence, match="expected one of proof"):
        store.write("magic", {}, sources={}, versions={}, seconds=0.0, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_failures_that_belong_to_no_result(tmp_path):
    node = "checks/check_corners.py::check_corner[tied scores]"
    evidence = merged(tmp_path / "a", lambda found: found["check"].update(failed=[node]))
    assert failures(evidence) == [("", f"{node} failed")]

    def survive(found):
        found["code_mutants"]["results"]["survivors"] *= 6
        found["code_mutants"]["results"]["total"] += 15

    evidence = merged(tmp_path / "b", survive)
    assert failures(evidence) == [("", "more than one code mutant in a hundred survives unexplained")]
    row = "em.step, sign flipped, 1: killed by em.step 0"
    evidence = merged(tmp_path / "d", lambda found: found["code_mutants"]["results"].update(refuted=[row]))
    assert failures(evidence) == [("", f"a code mutant explained as equivalent is killed: {row}")]
    evidence = merged(tmp_path / "c", lambda found: found.update(code_mutants=None))
    assert evidence["code_mutants"] is None
    assert not failures(evidence)


@pytest.mark.parametrize("ci", ["", "true"])
def test_a_route_without_its_tool_fails_only_in_ci(tmp_path, capsys, monkeypatch, ci):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(store.store, "TOOLS", {"formal": "no-such-program"})
    sample.write(tmp_path / "evidence", lambda found: found.update(formal=None))
    command = ["--fragments", str(tmp_path / "evidence"), "--output", str(tmp_path / "out"), "--strict"]
    assert main(command) == (1 if ci else 0)
    captured = capsys.readouterr()
    assert "formal: not run" in captured.out
    assert ("NOT ESTABLISHED formal" in captured.err) == bool(ci)
    assert captured.out.splitlines()[-1] == f"{len(THEOREMS)} of {len(THEOREMS)} fully proved"
    monkeypatch.setattr(store.store, "TOOLS", {})
    assert main(command) == 1


def test_evidence_is_not_changed_by_being_judged(tmp_path):
    evidence = merged(tmp_path)
    before = copy.deepcopy(evidence)
    fully_proved(THEOREMS, evidence["results"])
    assert evidence == before
    assert all(rests_on(result) == sorted(sample.GRAPH[label]) for label, result in evidence["results"].items())
