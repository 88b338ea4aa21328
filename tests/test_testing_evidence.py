"""Evidence and ledger: merged from tallies, stale when a source changes, the same from one process or several."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bayesgrad import evidence as files
from bayesgrad.theorems import THEOREMS
from checks import evidence, seeds
from checks import label_ledger as ledger
from checks.registry import CHECKS, load_checks, statement_of
from derivations.wrong_laws import wrong_laws


def tally(label: str, **changes: Any) -> dict[str, Any]:
    return {
        "label": label,
        "oracles": ["one", "two"],
        "examples": 10,
        "vacuous": 1,
        "worst_in_tolerance": 0.25,
        "worst_error": 1e-15,
        "tolerance": 1e-13,
        "wrong": {},
        "statement": "agrees",
        "failure": "",
        "draws": "",
        "seconds": 0.5,
        "seed": 0,
        **changes,
    }


def test_checks_of_one_label_are_merged() -> None:
    label = "attention.value-law"
    second = tally(label, oracles=["three"], examples=5, worst_in_tolerance=0.5, statement="not evaluated")
    merged = evidence.merge([tally(label), second])[label]
    assert merged["oracles"] == ["one", "three", "two"]
    assert (merged["examples"], merged["vacuous"], merged["worst_in_tolerance"]) == (15, 2, 0.5)
    assert (merged["verdict"], merged["statement"]) == ("passed", "agrees")
    failed = evidence.merge([tally(label), tally(label, failure="no", worst_in_tolerance=float("inf"))])[label]
    assert (failed["verdict"], failed["reason"]) == ("failed", "no")
    assert json.dumps(failed, allow_nan=False)


def test_one_check_that_rejects_a_wrong_law_is_enough() -> None:
    def law(verdict: str) -> dict[str, Any]:
        return {"verdict": verdict, "counterexample": "", "why": ""}

    label = "attention.value-law"
    first = tally(label, wrong={"sign": law("rejected"), "drop": law("undecided")})
    second = tally(label, oracles=["zero"], wrong={"sign": law("undecided"), "drop": law("undecided")})
    found = evidence.rejections([first, second])[label]
    assert (found["rejected"], found["total"], found["survivors"]) == (1, 2, ["drop"])
    registered = evidence.rejections([first], {label: ["sign", "drop", "scale"], "lemma.gibbs": []})
    assert registered[label]["survivors"] == ["drop", "scale"]
    assert "no check states" in registered[label]["laws"]["scale"]["why"]
    assert list(registered) == [label]


def test_every_registered_wrong_law_is_stated_by_a_check() -> None:
    load_checks()
    stated = {(check.label, part) for check in CHECKS for part in check.states}
    missing = [
        (row.label, row.id)
        for theorem in THEOREMS
        for row in wrong_laws(theorem.label)
        if (row.label, row.part.name) not in stated
    ]
    assert not missing


def test_every_label_has_two_oracles_and_no_state_is_misspelt() -> None:
    load_checks()
    for theorem in THEOREMS:
        mine = [check for check in CHECKS if check.label == theorem.label]
        oracles = {oracle.name for check in mine for oracle in check.oracles}
        assert len(oracles) >= 2, theorem.label
        parts = set(statement_of(theorem.label))
        assert {part for check in mine for part in check.states} <= parts, theorem.label


def test_the_ledger_has_every_label_and_shows_what_did_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "read_others", lambda: dict.fromkeys((*ledger.ROUTES, "observed")))
    monkeypatch.setattr(ledger, "automatic_mutants", list)
    fragment = {"results": evidence.merge([tally("attention.value-law")]), "wrong_laws": {}}
    lines = ledger.ledger(fragment)
    for theorem in THEOREMS:
        assert any(line.startswith(theorem.label + " ") for line in lines)
    row = next(line for line in lines if line.startswith("attention.value-law"))
    assert "passed 10+1v 0.25tol 2 oracles" in row
    assert "not run" in row
    assert lines[-2].startswith("1 of ")
    assert lines[-1] == "wrong laws: 0 of 0 rejected by a counterexample"
    everything = ledger.ledger(None)
    assert "passed" not in "".join(everything[:-1])
    proved = {"results": {"attention.value-law": {"verdict": "refuted"}}}
    monkeypatch.setattr(ledger, "read_others", lambda: {"proof": proved})
    assert "REFUTED" in next(line for line in ledger.ledger(fragment) if line.startswith("attention.value-law"))


def test_the_table_of_a_terminal_says_what_the_text_says(monkeypatch: pytest.MonkeyPatch) -> None:
    label, other, third = "attention.value-law", "attention.key-law", "attention.routing-law"
    verdicts = {label: {"verdict": "proved"}, other: {"verdict": "refuted"}, third: {"verdict": "undecided"}}
    observed = {label: {"verdict": "confirmed"}, other: {"verdict": "not confirmed"}}
    found = {"proof": {"results": verdicts}, "observed": {"results": observed}}
    monkeypatch.setattr(ledger, "read_others", lambda: found)
    fragment = {"results": evidence.merge([tally(label), tally(other, failure="no")]), "wrong_laws": {}}
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", ledger.table(fragment, 160))
    rows = {line.split()[0]: line.rstrip() for line in drawn.splitlines() if line.strip()}
    assert {theorem.label for theorem in THEOREMS} <= set(rows)
    assert rows[label].split() == [label, "✓", "·", "·", "·", "✓", "10", "1", "0.25", "tol", "2", "-", "confirmed"]
    assert rows[other].split()[1] == "✗"
    assert rows[other].split()[5] == "✗"
    assert rows[other].endswith("NOT CONFIRMED")
    assert rows[third].split() == [third, "?", "·", "·", "·", "·", "-", "not", "run"]
    assert "\x1b[" in ledger.show(fragment, terminal=True)
    assert ledger.show(fragment, terminal=False) == "\n".join(ledger.ledger(fragment))
    for line in ledger.ledger(fragment)[-3:]:
        assert line[:60] in " ".join(drawn.split())


def test_a_changed_source_makes_the_evidence_stale(tmp_path: Path) -> None:
    sources = evidence.sources()
    assert {"checks/conftest.py", "bayesgrad/gradients.py", "bayesgrad/testing/jets.py"} <= set(sources)
    kept: dict[str, Any] = {"versions": {}, "seconds": 1.0, "folder": tmp_path}
    files.write("check", {}, sources=sources, **kept)
    assert files.read("check", tmp_path) is not None
    files.write("check", {}, sources={**sources, "bayesgrad/gradients.py": "0" * 64}, **kept)
    assert files.read("check", tmp_path) is None


def test_a_failed_test_of_no_label_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from checks.__main__ import _serves
    from checks.profiles import PROFILES

    monkeypatch.setattr(files.store, "FOLDER", tmp_path)
    corner = "checks/check_corners.py::check_corner[tied scores]"
    for failed in ([], [corner]):
        given: dict[str, Any] = {"sources": evidence.sources(), "profile": "ci", "seed": 0, "seconds": 1.0}
        fragment = evidence.write({corner: tally("attention.value-law")}, failed=failed, **given)
        assert fragment["failed"] == failed
        assert [clause for clause in evidence.lacking(fragment) if corner in clause] == [
            f"{node}: failed" for node in failed
        ]
        with monkeypatch.context() as only_these:
            only_these.setattr(evidence, "lacking", lambda found: found["failed"])
            served = {name for name in PROFILES if _serves(fragment, name)}
        assert served == (set() if failed else {"quick", "fresh", "ci"})
        assert (f"FAILED: {corner}" in ledger.ledger(fragment)) == bool(failed)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bayesgrad.testing import engine
    from checks import check_lemmas, kept, profiles, registry

    calls: list[int] = []

    def counted(*arguments: Any, **options: Any) -> engine.Tally:
        calls.append(options["seed"])
        return engine.run(*arguments, **options)

    monkeypatch.setattr(registry, "run", counted)
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    small = profiles.Profile("small", 24, 12, keep=True)
    records: list[Any] = []

    def check(profile: profiles.Profile, seed: int) -> None:
        check_lemmas.check_variance_form(lambda name, value: records.append(value), profile, seed)

    check(small, 0)
    check(small, 0)
    assert calls == [0]
    assert records[0] == records[1]
    check(small, 1)  # another seed
    check(profiles.Profile("small", 25, 12, keep=True), 0)  # another profile
    check(profiles.Profile("small", 24, 12), 0)  # a profile that keeps nothing
    assert calls == [0, 1, 0, 0]
    for file in tmp_path.iterdir():
        file.write_text("{", encoding="utf-8")
    check(small, 0)  # damaged
    assert calls == [0, 1, 0, 0, 0]
    where = "checks/check_lemmas.py::check_variance_form"
    assert kept.read(where, small, 0) is not None
    monkeypatch.setattr(kept, "_state", lambda: "another source")
    assert kept.read(where, small, 0) is None
    kept.write(where, small, 0, engine.Tally("lemma.variance-form", [], failure="no"))
    assert kept.read(where, small, 0) is None
    kept.clear()
    assert not tmp_path.exists()


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=files.ROOT, capture_output=True, text=True, check=False)


def test_a_part_of_the_checks_writes_no_evidence_and_processes_and_order_change_nothing() -> None:
    path = files.FOLDER / "check.json"
    before = path.read_bytes() if path.exists() else None
    both = [f"checks/check_bayes.py::check_{name}" for name in ("chain_rule", "bijection")]
    alone = run_pytest(*both, "--part")
    shared = run_pytest(*reversed(both), "-n", "2", "--part")
    assert alone.returncode == shared.returncode == 0
    assert (path.read_bytes() if path.exists() else None) == before

    def tallies(output: str) -> list[str]:
        return sorted(line for line in output.splitlines() if ": passed, " in line)

    assert len(tallies(alone.stdout)) == 2
    assert tallies(alone.stdout) == tallies(shared.stdout)


def test_a_verdict_that_depends_on_the_seed_is_named() -> None:
    assert seeds.split("checks/a.py::check_it[seed 3]") == ("checks/a.py::check_it", 3)
    assert seeds.split("checks/a.py::check_it[seed 12-tied scores]") == ("checks/a.py::check_it[tied scores]", 12)
    assert seeds.split("checks/a.py::check_it[heads-seed 4]") == ("checks/a.py::check_it[heads]", 4)
    assert seeds.split("checks/a.py::check_it[heads]") == ("checks/a.py::check_it[heads]", None)
    words = {"good": "passed", "bad": "failed"}
    same = {f"a.py::{name}[seed {seed}]": word for name, word in words.items() for seed in (0, 1)}
    assert seeds.changes(same) == {}
    lines = seeds.table({**same, "a.py::good[seed 1]": "failed", "a.py::masks": "passed"}, [tally("x", seed=1)])
    assert "VERDICT CHANGES  a.py::good: fails at 1" in lines
    assert lines[-1] == "1 of 2 verdicts change over 2 seeds"
    assert lines[2].split()[:4] == ["1", "0", "of", "2"]


def test_the_command_for_seeds_prints_a_line_a_seed_and_writes_no_evidence() -> None:
    path = files.FOLDER / "check.json"
    before = path.read_bytes() if path.exists() else None
    command = [sys.executable, "-m", "checks", "--seeds", "3", "-k", "variance_form", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=files.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of 1 verdicts change over 3 seeds" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if line.endswith("3 of 3")] == ["0", "1", "2"]
    assert (path.read_bytes() if path.exists() else None) == before
    refused = subprocess.run([*command[:4], "1"], cwd=files.ROOT, capture_output=True, text=True, check=False)
    assert (refused.returncode, "expected at least 2" in refused.stderr) == (2, True)


def test_ledger_only_runs_nothing() -> None:
    done = run_pytest("checks/", "--ledger-only")
    assert done.returncode == 0
    assert "attention.routing-law" in done.stdout
    assert " in " not in done.stdout.splitlines()[-1] or "passed in" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--hypothesis-profile=endless",), "expected one of quick, ci, thorough"),
        (("--hypothesis-seed=often",), "expected a whole number"),
    ],
)
def test_bad_options_are_refused_with_status_4(arguments: tuple[str, ...], said: str) -> None:
    done = run_pytest("checks/", "--collect-only", *arguments)
    assert done.returncode == 4, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
