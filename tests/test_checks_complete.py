"""A run that left anything out is no evidence: it fails and says so, and what evidence there was stays as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bayesgrad.evidence import ROOT
from bayesgrad.theorems import THEOREMS
from checks import complete, inventory
from checks.profiles import PROFILES
from tests._small_checkout import LAWS, MORE, Checkout

LAWS_FILE, MORE_FILE, LIST = "checks/check_laws.py", "checks/check_more.py", "checks/inventory.txt"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A small checkout with the evidence of a complete run."""
    made = Checkout(tmp_path_factory.mktemp("small"))
    try:
        listed = made.run("checks/", "--inventory")
        assert listed["status"] == 0, listed["said"]
        whole = made.run()
        assert (whole["status"], whole["written"]) == (0, True), whole["said"]
        yield made
    finally:
        made.close()


def marked(mark: str, body: str = "assert True") -> dict[str, str]:
    """The last check with a decorator, or another body."""
    return {
        MORE_FILE: MORE.replace(
            "def check_edge():\n    assert True", f"import pytest\n\n{mark}\ndef check_edge():\n    {body}"
        )
    }


FAILING = "def check_new():\n    assert False\n"
AGAIN = "--override-ini=xfail_strict=false"
ATTACKS: dict[str, tuple[tuple[str, ...], Mapping[str, str | None], str]] = {
    # what the run was asked for
    "a keyword": (
        ("checks/", "-k", "corner"),
        {},
        "40 of 41 checks did not run: checks/check_laws.py::check_first and 39 more",
    ),
    "a mark": (("checks/", "-m", "gpu"), {}, "41 of 41 checks did not run"),
    "one deselected": (
        ("checks/", f"--deselect={MORE_FILE}::check_edge"),
        {},
        f"1 of 41 checks did not run: {MORE_FILE}::check_edge",
    ),
    "a file ignored": (("checks/", f"--ignore={MORE_FILE}"), {}, "2 of 41 checks did not run"),
    "files ignored by a pattern": (("checks/", "--ignore-glob=checks/check_[a-l]*"), {}, "39 of 41 checks did not run"),
    "a single file": ((LAWS_FILE,), {}, "2 of 41 checks did not run"),
    "a single check": ((f"{MORE_FILE}::check_edge",), {}, "40 of 41 checks did not run"),
    "every file by name but one": ((LAWS_FILE, f"{MORE_FILE}::check_corner"), {}, "1 of 41 checks did not run"),
    "stopped at the first failure": (
        ("checks/", "-x"),
        {LAWS_FILE: LAWS.replace("tell(record_property, LABELS[0])", "assert False")},
        "2 of 41 checks did not run",
    ),
    "only what failed last": (
        ("checks/", "-p", "cacheprovider", "--lf", "-k", "edge"),
        {},
        "40 of 41 checks did not run",
    ),
    "another rootdir": (("checks/", "--rootdir=checks"), {}, "41 of 41 checks did not run"),
    "another configuration file": (
        (
            "checks/",
            "-c",
            "/dev/null",
            "-o",
            "pythonpath=.",
            "-o",
            "python_files=check_*.py",
            "-o",
            "python_functions=check_*",
        ),
        {},
        "",
    ),
    "an option against the configuration": (
        ("checks/", AGAIN),
        {},
        "options change the configuration: -o xfail_strict=false",
    ),
    "warnings let through": (("checks/", "-W", "ignore"), {}, "options change the configuration: -W ignore"),
    # what the checks say
    "skipped by a mark": (("checks/",), marked("@pytest.mark.skip"), f"skipped: {MORE_FILE}::check_edge"),
    "skipped where it is": (("checks/",), marked("", "pytest.skip('not today')"), f"skipped: {MORE_FILE}::check_edge"),
    "skipped as a file": (
        ("checks/",),
        {MORE_FILE: "import pytest\npytest.skip('no', allow_module_level=True)\n" + MORE},
        "2 of 41 checks did not run",
    ),
    "expected to fail, and fails": (
        ("checks/",),
        marked("@pytest.mark.xfail", "assert False"),
        f"expected to fail: {MORE_FILE}::check_edge",
    ),
    "expected to fail, and passes": (
        ("checks/",),
        marked("@pytest.mark.xfail(strict=False)"),
        f"expected to fail: {MORE_FILE}::check_edge",
    ),
    "ends the run with status 0": (
        ("checks/",),
        marked("", "pytest.exit('enough', returncode=0)"),
        f"1 of 41 checks did not run: {MORE_FILE}::check_edge",
    ),
    # what stands in the files
    "deleted": (
        ("checks/",),
        {MORE_FILE: MORE.partition("def check_edge")[0]},
        f"no longer there: {MORE_FILE}::check_edge",
    ),
    "a file deleted": (("checks/",), {MORE_FILE: None}, f"no longer there: {MORE_FILE}::check_corner and 1 more"),
    "renamed": (
        ("checks/",),
        {MORE_FILE: MORE.replace("check_edge", "check_ridge")},
        f"not in the list of checks: {MORE_FILE}::check_ridge",
    ),
    "no longer collected": (
        ("checks/",),
        {MORE_FILE: MORE + "\n\ncheck_edge.__test__ = False\n"},
        "1 of 41 checks did not run",
    ),
    "renamed so that pytest overlooks it": (
        ("checks/",),
        {MORE_FILE: MORE.replace("check_edge", "_check_edge")},
        f"no longer there: {MORE_FILE}::check_edge",
    ),
    "another label": (
        ("checks/",),
        {LAWS_FILE: LAWS.replace("tell(record_property, LABELS[0])", 'tell(record_property, "lemma.no-such-label")')},
        "labels that the catalogue lacks: lemma.no-such-label",
    ),
    "a label twice, another never": (
        ("checks/",),
        {LAWS_FILE: LAWS.replace("tell(record_property, LABELS[0])", "tell(record_property, LABELS[1])")},
        f"labels that no check looked at: {THEOREMS[0].label}",
    ),
    "no tally": (
        ("checks/",),
        {LAWS_FILE: LAWS.replace("tell(record_property, LABELS[0])", "pass")},
        f"labels that no check looked at: {THEOREMS[0].label}",
    ),
    "a new check, left out": (
        ("checks/", "--ignore=checks/check_new.py"),
        {"checks/check_new.py": FAILING},
        "not in the list of checks: checks/check_new.py::check_new",
    ),
    "a new case, left out": (
        ("checks/", f"--deselect={LAWS_FILE}::check_law[x]"),
        {LAWS_FILE: LAWS.replace("LABELS[1:])", "[*LABELS[1:], 'x'])")},
        f"not in the list of checks: {LAWS_FILE}::check_law[x]",
    ),
    "a new check that is hidden from pytest": (
        ("checks/",),
        {MORE_FILE: MORE + "\n\ndef check_new():\n    assert False\n\n\ncheck_new.__test__ = False\n"},
        f"not in the list of checks: {MORE_FILE}::check_new",
    ),
    "files ignored by a conftest": (
        ("checks/",),
        {"conftest.py": "collect_ignore = ['checks/check_more.py']\n"},
        "2 of 41 checks did not run",
    ),
    "a configuration that goes first": (
        ("checks/",),
        {"pytest.ini": "[pytest]\npython_files = check_*.py\npython_functions = check_*\npythonpath = .\n"},
        "pytest's configuration is",
    ),
    "an edit while it runs": (
        ("checks/",),
        {MORE_FILE: MORE + "\n\nopen('checks/check_laws.py', 'a').write('# later')\n", LAWS_FILE: LAWS},
        "changed while the checks ran: checks/check_laws.py",
    ),
    "a list without one check": (
        ("checks/",),
        {LIST: f"quick {MORE_FILE}::check_corner\n"},
        "not in the list of checks",
    ),
    "no list": (("checks/",), {LIST: None}, "not in the list of checks"),
    "a damaged list": (("checks/",), {LIST: "quickly everything\n"}, "expected a profile and a node id"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_left_out_fails_the_run_and_keeps_the_evidence(checkout: Checkout, attack: str) -> None:
    arguments, files, sentence = ATTACKS[attack]
    found = checkout.run(*arguments, files=files)
    assert found["kept"], found["said"]
    assert found["status"] == 1, found["said"]
    assert sentence in " ".join(found["said"].split()), found["said"]


def test_so_do_options_from_the_environment(checkout: Checkout) -> None:
    found = checkout.run(PYTEST_ADDOPTS="-k corner")
    assert (found["status"], found["kept"]) == (1, True)
    assert "40 of 41 checks did not run" in found["said"]


def test_a_crash_keeps_the_evidence(checkout: Checkout) -> None:
    for body in ("import os; os._exit(0)", "import os; os._exit(3)", "raise KeyboardInterrupt"):
        found = checkout.run(files=marked("", body))
        assert found["kept"], body


def test_a_worker_that_crashes_keeps_the_evidence(checkout: Checkout) -> None:
    found = checkout.process("checks/", "-n", "2", files=marked("", "import os; os._exit(0)"))
    assert (found["status"], found["kept"]) == (1, True), found["said"]


def test_a_disk_that_cannot_be_written_is_a_sentence(checkout: Checkout) -> None:
    folder = checkout.evidence.parent
    hidden = folder.with_name("hidden")
    folder.rename(hidden)
    try:
        folder.write_text("no folder")
        found = checkout.run()
    finally:
        folder.unlink()
        hidden.rename(folder)
    assert found["status"] == 1, found["said"]
    assert "This run is no evidence" in found["said"]
    assert "INTERNALERROR" not in found["said"]


def test_a_part_that_is_meant_is_no_failure_and_no_evidence(checkout: Checkout) -> None:
    found = checkout.run(MORE_FILE, "--part")
    assert (found["status"], found["kept"]) == (0, True), found["said"]
    assert "This run is no evidence" in found["said"]
    found = checkout.run("checks/", "--part", "-k", "edge", files=marked("", "assert False"))
    assert (found["status"], found["kept"]) == (1, True), found["said"]


@pytest.mark.parametrize("options", [(), ("-n", "2"), ("-p", "no:randomly"), ("--part",)])
def test_a_complete_run_is_evidence_however_it_is_spread(checkout: Checkout, options: tuple[str, ...]) -> None:
    path = checkout.evidence
    path.unlink(missing_ok=True)
    found = (checkout.process if "-n" in options else checkout.run)("checks/", *options)
    assert (found["status"], found["written"]) == (0, True), found["said"]
    fragment = json.loads(path.read_text())
    assert {label: row["examples"] for label, row in fragment["results"].items()} == {t.label: 3 for t in THEOREMS}


def test_a_failure_is_evidence_of_a_failure(checkout: Checkout) -> None:
    path = checkout.evidence
    found = checkout.run(files=marked("", "assert False"))
    assert (found["status"], found["kept"]) == (1, False), found["said"]
    assert json.loads(path.read_text())["failed"] == [f"{MORE_FILE}::check_edge"]
    assert checkout.run()["status"] == 0


def test_the_list_is_that_of_the_files_and_says_which_profile_runs_what() -> None:
    listed = inventory.read()
    assert {inventory.function_of(node) for node in listed} == inventory.defined()
    sizes = {name: len(inventory.expected(listed, profile)) for name, profile in PROFILES.items()}
    assert sizes["quick"] == sizes["fresh"] < sizes["ci"] < sizes["thorough"] == len(listed)
    command = [sys.executable, "-m", "pytest", "checks/", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    collected = {line for line in done.stdout.splitlines() if line.startswith("checks/")}
    assert collected == inventory.expected(listed, PROFILES["quick"]), done.stdout + done.stderr


def test_what_stands_in_a_file_is_read_without_running_it(tmp_path: Path) -> None:
    (tmp_path / "checks" / "deep").mkdir(parents=True)
    text = (
        "check_a = made()\n\ndef check_b(): ...\n\nasync def test_c(): ...\n\nclass TestD: ...\n\ndef helper(): ...\n"
    )
    (tmp_path / "checks" / "deep" / "check_it.py").write_text(text)
    (tmp_path / "checks" / "other.py").write_text(text)
    where = "checks/deep/check_it.py"
    assert inventory.defined(tmp_path) == {f"{where}::{name}" for name in ("check_a", "check_b", "test_c", "TestD")}


def test_nothing_is_missing_from_a_complete_run() -> None:
    listed = {"checks/a.py::check_a": "quick", "checks/a.py::check_b[x]": "thorough"}
    labels, defined = set(complete.REQUIRED), {"checks/a.py::check_a", "checks/a.py::check_b"}
    quick = {"checks/a.py::check_a": "passed"}
    assert complete.missing(quick, listed, labels, PROFILES["quick"], listed, defined) == []
    found = complete.missing(quick, listed, labels, PROFILES["thorough"], listed, defined)
    assert found == ["1 of 2 checks did not run: checks/a.py::check_b[x]"]
    assert complete.missing(
        {**quick, "checks/a.py::check_b[x]": "rerun"}, (), labels, PROFILES["quick"], listed, defined
    ) == ["rerun: checks/a.py::check_b[x]"]


def test_each_label_that_needs_a_check_is_required() -> None:
    assert set(complete.REQUIRED) == {theorem.label for theorem in THEOREMS}
