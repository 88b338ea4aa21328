"""The audit of the checks' evidence: what a run wrote passes, every figure that somebody writes by hand is named."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bayesgrad import evidence as files
from checks import check_lemmas, evidence, inventory, profiles, registry, replay

LABEL = "lemma.variance-form"
NODE = "checks/check_lemmas.py::check_variance_form"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The fragment of a run over one check, in a checkout that lists no other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.store, "FOLDER", tmp_path_factory.mktemp("evidence"))
        patch.setattr(inventory, "read", lambda: {NODE: "quick"})
        names = [row.name for row in registry.wrong_laws(LABEL)]
        patch.setattr(evidence, "wrong_law_names", lambda: {LABEL: names})
        said: dict[str, Any] = {}
        check_lemmas.check_variance_form(said.__setitem__, profiles.PROFILES["quick"], 0)
        tallies = {NODE: said[registry.PROPERTY]}
        how: dict[str, Any] = {"profile": "quick", "seed": 0, "seconds": 1.0}
        yield evidence.write(tallies, failed=[], sources=evidence.sources(), **how)


def differences(fragment: dict[str, Any]) -> list[str]:
    return list(replay.audit(fragment, random.Random(3)))


def test_what_a_run_wrote_passes(written: dict[str, Any]) -> None:
    assert differences(written) == []


def row_of(fragment: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = fragment["checks"][NODE]
    return row


def both(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Somebody who changes a figure in the check and in its label."""

    def change(fragment: dict[str, Any]) -> None:
        row_of(fragment)[name] = value
        fragment["results"][LABEL][name] = value

    return change


def another_draw(fragment: dict[str, Any]) -> None:
    draws = row_of(fragment)["draws"].split(", ")
    worst = max(range(len(draws)), key=lambda number: float(draws[number].split()[1].removesuffix("v")))
    draws[worst] = "00000000" + draws[worst][8:]
    row_of(fragment)["draws"] = ", ".join(draws)


def smaller_errors(fragment: dict[str, Any]) -> None:
    draws = [draw.split()[0] + " 0.001" for draw in row_of(fragment)["draws"].split(", ")]
    row_of(fragment)["draws"] = ", ".join(draws)
    both("worst_in_tolerance", 0.001)(fragment)


def a_draw_that_rejects_nothing(fragment: dict[str, Any]) -> None:
    wrong = row_of(fragment)["wrong"]
    wrong[next(iter(wrong))] += 1


BY_HAND: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a thousand million examples": (both("examples", 10**9), "examples"),
    "the oracle of Delphi": (both("oracles", ["Oracle of Delphi", "numbers"]), "oracles is"),
    "an error of nothing": (both("worst_in_tolerance", 0.0), "the worst error is 0.0 tolerances"),
    "errors that are smaller everywhere": (smaller_errors, "is recorded as"),
    "another draw": (another_draw, "is recorded as 00000000"),
    "a draw too few": (lambda f: row_of(f).update(draws=row_of(f)["draws"].rpartition(", ")[0]), "kept"),
    "draws that are no draws": (lambda f: row_of(f).update(draws="many"), "expected a hash"),
    "another label": (lambda f: row_of(f).update(label="lemma.gibbs"), "label is 'lemma.gibbs'"),
    "a label from nowhere": (lambda f: f["results"].update({"lemma.new": dict(f["results"][LABEL])}), "lemma.new"),
    "a wrong law that another draw rejects": (a_draw_that_rejects_nothing, "does not reject the wrong law"),
    "a wrong law more": (lambda f: f["wrong_laws"][LABEL].update(total=99), "wrong laws: total is 99"),
    "a verdict": (
        lambda f: f["results"][LABEL].update(verdict="failed"),
        "verdict is 'failed', its checks make 'passed'",
    ),
    "no check": (lambda f: f["checks"].clear(), "no record of it"),
    "a check that is none": (lambda f: f["checks"].update({NODE + "_": row_of(f)}), "there is no such check"),
    "a failure that is kept quiet": (lambda f: row_of(f).update(failure="no"), "is not among the failed"),
    "another seed": (lambda f: f["configuration"].update(seed=1), "is recorded as"),
    "a profile that is none": (lambda f: f["configuration"].update(profile="endless"), "not what a run writes"),
    "a row that is none": (lambda f: f["checks"].update({NODE: {}}), "not what a run writes"),
    "another version": (lambda f: f["versions"].update(numpy="1.0"), "stale"),
    "another source": (lambda f: f["sources"].update({"pyproject.toml": "0" * 64}), "stale"),
    "a source left out": (lambda f: f["sources"].pop("checks/registry.py"), "stale"),
}


@pytest.mark.parametrize("change", BY_HAND)
def test_what_is_written_by_hand_is_named(written: dict[str, Any], change: str) -> None:
    by_hand, sentence = BY_HAND[change]
    fragment = copy.deepcopy(written)
    by_hand(fragment)
    found = differences(fragment)
    assert any(sentence in said for said in found), found


def test_require_asks_for_each_label(
    tmp_path: Path, written: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from checks.__main__ import _require

    assert _require(written, "") == 1
    said = capsys.readouterr().out
    assert "lemma.gibbs: not run" in said
    assert f"{LABEL}: " not in said
    assert _require(None, "there is none") == 1
    assert "no evidence of the checks counts: there is none" in capsys.readouterr().out
