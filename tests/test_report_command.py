"""``python -m report``: exit statuses, refusals in one sentence, the README's status table."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from bayesgrad.evidence import ROOT
from report import cover, readme
from report.__main__ import main
from tests import _report_sample as sample

LABEL = "attention.routing-law"


def call(folder, *arguments):
    return main(["--fragments", str(folder / "evidence"), "--output", str(folder / "out"), *arguments])


def test_everything_is_written(tmp_path, capsys):
    sample.write(tmp_path / "evidence")
    assert call(tmp_path) == 0
    out = tmp_path / "out"
    assert {"index.html", "bayesgrad.tex", "evidence.json"} <= {path.name for path in out.iterdir()}
    evidence = json.loads((out / "evidence.json").read_text(encoding="utf-8"))
    assert evidence["results"][LABEL]["proof"]["verdict"] == "proved"
    first = {name: (out / name).read_bytes() for name in ("index.html", "bayesgrad.tex", "evidence.json")}
    assert call(tmp_path, "--quiet") == 0
    assert first == {name: (out / name).read_bytes() for name in first}
    assert main(["--evidence", str(out / "evidence.json"), "--output", str(tmp_path / "again"), "--quiet"]) == 0
    assert (tmp_path / "again" / "index.html").read_bytes() == first["index.html"]
    assert not list(out.glob("*.part"))
    assert "index.html" in capsys.readouterr().out


def test_other_processes_write_the_same_bytes(tmp_path):
    """The build folder deleted between, another hash seed, another folder, another time zone."""
    sample.write(
        tmp_path / "evidence",
        lambda found: sample.cell(found).update(record=str(tmp_path / "r.json")),
    )
    (tmp_path / "r.json").write_text(json.dumps(sample.record()), encoding="utf-8")
    written = []
    for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo")):
        out = tmp_path / "out"
        command = [
            sys.executable,
            "-m",
            "report",
            "--fragments",
            str(tmp_path / "evidence"),
            "--output",
            str(out),
            "--quiet",
        ]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone}
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        written.append({path.name: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()})
        shutil.rmtree(out)
    assert set(written[0]) >= {"index.html", "bayesgrad.tex", "evidence.json"}
    assert [name for name in written[0] if written[0][name] != written[1][name]] == []


def test_a_failure_is_rendered_and_is_status_1(tmp_path, capsys):
    sample.write(tmp_path / "evidence", lambda found: found["proof"]["results"][LABEL].update(verdict="refuted"))
    assert call(tmp_path) == 1
    assert f"FAILED {LABEL}: proof refuted" in capsys.readouterr().err
    assert 'class="note bad"' in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_formula_that_cannot_be_set_is_status_1(tmp_path, capsys):
    def change(found):
        found["proof"]["results"][LABEL]["detail"]["parts"][0]["steps"][0]["tex"] = "x^a^b"

    sample.write(tmp_path / "evidence", change)
    assert call(tmp_path) == 1
    assert "shown as plain text: double ^" in capsys.readouterr().err


def test_nothing_has_run_yet(tmp_path, capsys):
    assert call(tmp_path) == 0
    evidence = json.loads((tmp_path / "out" / "evidence.json").read_text(encoding="utf-8"))
    assert {result["proof"]["verdict"] for result in evidence["results"].values()} == {"not run"}
    said = capsys.readouterr().out
    assert "not run" in said
    assert f"0 of {len(evidence['results'])} fully proved; not: " in said.splitlines()[-1]
    assert call(tmp_path, "--strict") == 1
    assert call(tmp_path, "--require", "proof") == 1
    assert "FAILED proof is required" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", '{"schema": 0}', '{"schema": 2, "route": "proof", "results": {}}', "null"])
def test_damaged_evidence_is_refused(tmp_path, capsys, text):
    sample.write(tmp_path / "evidence")
    (tmp_path / "evidence" / "proof.json").write_text(text, encoding="utf-8")
    assert call(tmp_path) == 2
    said = capsys.readouterr().err
    assert said.startswith("python -m report: ")
    assert said.count("\n") == 1
    assert not (tmp_path / "out" / "index.html").exists()


def test_evidence_that_the_schema_refuses(tmp_path, capsys):
    sample.write(tmp_path / "evidence", lambda found: found["proof"]["results"][LABEL].update(verdict="maybe"))
    assert call(tmp_path) == 2
    assert "got 'maybe', expected one of proved" in capsys.readouterr().err
    old = tmp_path / "old.json"
    old.write_text('{"schema": 0}', encoding="utf-8")
    assert main(["--evidence", str(old)]) == 2
    assert "schema 0, expected 2" in capsys.readouterr().err


def test_a_damaged_record_is_refused(tmp_path, capsys):
    record = tmp_path / "record.json"
    record.write_text('{"experiment": "x"}', encoding="utf-8")
    sample.write(tmp_path / "evidence", lambda found: sample.cell(found).update(record=str(record)))
    assert call(tmp_path) == 2
    assert "no record of an experiment" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--only", "attention.routing"], "attention.routing-law"), (["--require", "magic"], "expected one of proof")],
)
def test_unknown_arguments(tmp_path, capsys, arguments, named):
    sample.write(tmp_path / "evidence")
    assert call(tmp_path, *arguments) == 2
    assert named in capsys.readouterr().err


def test_only_one_result(tmp_path):
    sample.write(tmp_path / "evidence")
    assert call(tmp_path, "--only", LABEL) == 0
    assert (tmp_path / "out" / f"{LABEL}.html").exists()
    assert not (tmp_path / "out" / "index.html").exists()


@pytest.fixture
def own_readme(tmp_path, monkeypatch):
    path = tmp_path / "README.md"
    tables = "\n".join(f"{begin}\n{end}" for begin, end in readme.MARKERS)
    path.write_text(f"before\n{tables}\nafter\n", encoding="utf-8")
    for function in (readme.write, readme.differences):
        monkeypatch.setattr(function, "__defaults__", (path, tmp_path / "report.svg"))
    return path


def test_the_status_table(tmp_path, own_readme, capsys):
    sample.write(tmp_path / "evidence")
    assert call(tmp_path, "--readme", "--check") == 1  # empty
    assert call(tmp_path, "--readme") == 0
    text = own_readme.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert f"| `{LABEL}` | **yes** | ✓ | ✓ | ✓ | ✓ | – | ✓ | 4/4 |" in text
    assert call(tmp_path, "--readme", "--check") == 0
    assert call(tmp_path, "--readme") == 0
    assert own_readme.read_text(encoding="utf-8") == text
    sample.write(tmp_path / "evidence", lambda found: found["proof"]["results"][LABEL].update(verdict="undecided"))
    capsys.readouterr()
    assert call(tmp_path, "--readme", "--check") == 1
    assert f"`{LABEL}`, proof: README.md says ✓, the evidence says ?" in capsys.readouterr().err
    own_readme.write_text("no markers", encoding="utf-8")
    assert call(tmp_path, "--readme") == 2


def judged(verdict: str):
    def change(found) -> None:
        found["observed"]["claims"][0]["cells"][0] |= {
            "verdict": verdict,
            "effect": 2.5,
            "interval": [2.0, 3.0],
            "unit": "bits, KL(p || q)",
        }

    return change


def test_what_the_claims_came_to(tmp_path, own_readme, capsys):
    sample.write(tmp_path / "evidence", judged("supported"))
    assert call(tmp_path, "--readme") == 0
    text = own_readme.read_text(encoding="utf-8")
    begin, end = readme.MARKERS[1]
    inside = text[text.index(begin) : text.index(end)]
    assert "| **supported** | 2.50 [2.00, 3.00] bits, KL(p ‖ q) |" in inside
    assert "| theorem | **supported** | `bayes.posterior-predictive` |" in inside
    assert "**not tested**" in inside
    assert call(tmp_path, "--readme", "--check") == 0
    sample.write(tmp_path / "evidence", judged("not supported"))
    capsys.readouterr()
    assert call(tmp_path, "--readme", "--check") == 1
    assert "is not what the records say" in capsys.readouterr().err
    (tmp_path / "evidence" / "observed.json").unlink()
    assert call(tmp_path, "--readme", "--check") == 0


def test_a_route_that_did_not_run_here_is_not_compared(tmp_path, own_readme, capsys):
    sample.write(tmp_path / "evidence")
    assert call(tmp_path, "--readme") == 0
    (tmp_path / "evidence" / "exact.json").unlink()
    assert call(tmp_path, "--readme", "--check") == 0
    assert "compared: proof, code, sympy, formal, check" in capsys.readouterr().out
    for path in (tmp_path / "evidence").iterdir():
        path.unlink()
    assert call(tmp_path, "--readme", "--check") == 1
    assert "nothing to compare with" in capsys.readouterr().err


def test_the_picture_shows_what_the_tables_say():
    """Without any evidence: the picture that lies here is the one of the tables that lie here."""
    text = readme.README.read_text(encoding="utf-8")
    rows, claims = (readme.cells(text, readme.README, markers)[1:] for markers in readme.MARKERS)
    assert cover.difference(readme.HEADER, rows, claims, None, cover.PATH) == ""
    assert f"({cover.PATH.relative_to(ROOT).as_posix()})" in text
    assert not re.search(r"!\[[^]]*\]\((?!docs/report\.svg)", text), "a picture that nothing compares with the evidence"


CHANGES = {
    "a count": ("wrong laws rejected: 156 of 156", "wrong laws rejected: 157 of 157", "157 of 157"),
    "a status": ('<rect class="yes"', '<rect class="no"', "shows 'other lines'|shows '✓"),
    "a name": (">routing-law<", ">rooting-law<", "rooting-law"),
    "an arrow": ('data-from="softmax.jacobian"', 'data-from="lemma.gibbs"', "another graph than the evidence"),
    "a line less": ("</defs>\n", "</defs>", "README.md's tables say"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_picture_of_other_numbers_is_stale(tmp_path, own_readme, capsys, change):
    sample.write(tmp_path / "evidence")
    assert call(tmp_path, "--readme") == 0
    picture = tmp_path / "report.svg"
    old, new, said = CHANGES[change]
    text = picture.read_text(encoding="utf-8")
    assert old in text
    picture.write_text(text.replace(old, new, 1), encoding="utf-8")
    capsys.readouterr()
    assert call(tmp_path, "--readme", "--check") == 1
    assert re.search(said, capsys.readouterr().err)
    assert call(tmp_path, "--readme") == 0
    assert picture.read_text(encoding="utf-8") == text
    picture.unlink()
    assert call(tmp_path, "--readme", "--check") == 1
    assert "report.svg is missing" in capsys.readouterr().err


def test_a_changed_count_of_the_evidence_turns_the_check_red(tmp_path, own_readme, capsys):
    sample.write(tmp_path / "evidence")
    assert call(tmp_path, "--readme") == 0

    def fewer(found):
        laws = found["check"]["wrong_laws"][LABEL]
        laws |= {"total": 3, "rejected": 3, "laws": dict(list(laws["laws"].items())[1:])}

    sample.write(tmp_path / "evidence", fewer)
    capsys.readouterr()
    assert call(tmp_path, "--readme", "--check") == 1
    assert "README.md says 4/4, the evidence says 3/3" in capsys.readouterr().err
    picture = (tmp_path / "report.svg").read_text(encoding="utf-8")
    assert call(tmp_path, "--readme") == 0
    assert (tmp_path / "report.svg").read_text(encoding="utf-8") != picture


def test_a_table_with_a_cell_too_few_is_stale(tmp_path, own_readme, capsys):
    sample.write(tmp_path / "evidence")
    assert call(tmp_path, "--readme") == 0
    text = own_readme.read_text(encoding="utf-8")
    own_readme.write_text(text.replace(f"| `{LABEL}` | **yes** |", f"| `{LABEL}` |"), encoding="utf-8")
    capsys.readouterr()
    assert call(tmp_path, "--readme", "--check") == 1
    assert "cells, expected 9" in capsys.readouterr().err
