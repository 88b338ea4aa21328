"""Damaged evidence is rendered and nothing damaged counts as proved, or one sentence refuses it.

Hypothesis damages valid evidence in every way that a disk, an editor or a forger can; the commands that read it are
then run as they are. Who is proved is compared with what the file itself says, read here without the package.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgrad import evidence as store
from bayesgrad.evidence import status
from bayesgrad.theorems import THEOREMS
from derivations import __main__ as derivations
from derivations.formal import __main__ as formal
from report import readme
from report.__main__ import main
from tests import _report_sample as sample

LABEL = "attention.routing-law"
BELOW = sorted(sample.GRAPH[LABEL])
ROUTES = {
    theorem.label: [route for route, need in theorem.routes.items() if need == "required"] for theorem in THEOREMS
}
LAST = f" of {len(THEOREMS)} fully proved"

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.sampled_from([10**400, -1, 0.5, float("nan"), float("inf"), -1e308])
    | st.text(max_size=9)
    | st.sampled_from(["proved", "refuted", "undecided", "passed", "not run", LABEL, "x" * 200_000, "\ud800", "$x^a^b$",
                       "</script><b>", "\\input{x}", "\0", "a\nb", "\u202e"])
)  # fmt: skip
OTHER_WORDS = ("refuted", "undecided", "not run", "not applicable", "failed", "survived", "not confirmed", "proved")
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a tree of JSON, but of the many results only one and what it rests on."""
    found = [path]
    if isinstance(data, dict):
        rows = [(key, value) for key, value in data.items() if key not in ROUTES or key in (LABEL, *BELOW)]
    else:
        rows = list(enumerate(data[:3])) if isinstance(data, list) else []
    for key, value in rows:
        found += places(value, (*path, key))
    return found


def at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def nested(depth: int) -> Any:
    found: Any = "proved"
    for n in range(depth):
        found = [found] if n % 2 else {"k": found}
    return found


class Damaged(str):
    """A text that is shown as what was done to it: the whole of it would fill a screen."""

    steps: list[tuple[Any, ...]]

    def __repr__(self) -> str:
        return f"<{len(self)} characters after {ascii(self.steps)[:600]}>"


def told(text: str, steps: list[tuple[Any, ...]]) -> Damaged:
    found = Damaged(text)
    found.steps = steps
    return found


@st.composite
def damaged(draw: Any, whole: Any) -> Damaged:
    """The text of a file that held ``whole``, with one to three things wrong with it."""
    data, steps = copy.deepcopy(whole), []
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(data)))
        if not path:
            continue
        holder, key = at(data, path[:-1]), path[-1]
        kind = draw(
            st.sampled_from(["delete", "replace", "retype", "nest", "rename", "grow", "foreign", "circle", "flip"])
        )
        steps.append((kind, *path))
        if kind == "delete":
            del holder[key]
        elif kind == "replace":
            holder[key] = draw(VALUES)
        elif kind == "retype":
            holder[key] = draw(st.sampled_from([str, lambda old: [old], lambda old: {"k": old}, lambda old: None]))(
                holder[key]
            )
        elif kind == "nest":
            holder[key] = nested(draw(st.sampled_from([30, 45, 300])))
        elif kind == "rename" and isinstance(holder, dict):
            holder[draw(st.sampled_from(["", "no.such", LABEL, "verdict", "x" * 9999]))] = holder.pop(key)
        elif kind == "grow" and isinstance(holder[key], list):
            holder[key] = holder[key] * draw(st.integers(0, 40)) + [draw(VALUES)]
        elif kind in ("foreign", "circle"):
            name = draw(
                st.sampled_from([LABEL, "lemma.gibbs", "dynamics.feedback"] if kind == "circle" else ["a.b", "", "é"])
            )
            lists = [p for p in places(data) if "rests_on" in p and isinstance(at(data, p), list)]
            if lists:
                at(data, draw(st.sampled_from(lists))).append(name)
        elif kind == "flip":
            verdicts = [p for p in places(data) if p and p[-1] == "verdict"]
            if verdicts:
                spot = draw(st.sampled_from(verdicts))
                at(data, spot[:-1])["verdict"] = draw(st.sampled_from(OTHER_WORDS))
    text = json.dumps(data)
    cut = draw(st.sampled_from(["no"] * 8 + ["short", "twice", "zeros", "page"]))
    steps.append((cut,))
    if cut == "short":
        return told(text[: draw(st.integers(0, len(text) - 1))], steps)
    if cut == "twice":
        return told(text.replace('"verdict": "', '"verdict": "refuted", "verdict": "', 1), steps)
    return told({"zeros": "\0" * len(text[:99]), "page": text + text}.get(cut, text), steps)


def run(arguments: list[str], command: Callable[[list[str]], int] = main) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command(arguments)
    return code, out.getvalue(), err.getvalue()


def refused(err: str, folder: Path) -> bool:
    """One sentence about a file or a field, and every file of the output as it was."""
    assert err.startswith("python -m report: "), err
    assert err.count("\n") == 1, err
    assert len(err) < 2000
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"index.html": "of yesterday"}
    return True


def proved_by(text: str, route: str) -> set[str]:
    """The labels that a fragment's own text calls proved, read with the standard library alone."""
    results = json.loads(text)["results"]
    good = {"check": "passed", "observed": "confirmed"}.get(route, "proved")
    return {label for label, entry in results.items() if entry.get("verdict") == good}


def who_is_proved(out: str) -> set[str]:
    """The last line, as people read it."""
    last = out.splitlines()[-1]
    assert LAST in last
    left = set(last.split("; not: ")[1].split(", ")) if "; not: " in last else set()
    assert int(last.split(" ")[0]) == len(THEOREMS) - len(left)
    return set(ROUTES) - left


@contextlib.contextmanager
def folders():
    """Evidence of a whole run, and an output of yesterday that nobody may touch in vain."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "out").mkdir()
        (root / "out" / "index.html").write_text("of yesterday")
        sample.write(root / "evidence")
        yield root


WHOLE = sample.fragments()


def test_the_evidence_that_is_damaged_here_was_whole():
    with folders() as root:
        code, out, err = run(["--fragments", str(root / "evidence"), "--output", str(root / "out"), "--only", LABEL])
        assert (code, err) == (0, "")
        assert who_is_proved(out) == set(ROUTES)


@settings(max_examples=120)
@given(data=st.data(), route=st.sampled_from(sorted(WHOLE)), strict=st.booleans())
def test_a_damaged_fragment(data, route, strict):
    text = data.draw(damaged(WHOLE[route]))
    with folders() as root:
        (root / "evidence" / f"{route}.json").write_text(text, encoding="utf-8")
        command = ["--fragments", str(root / "evidence"), "--output", str(root / "out"), "--only", LABEL]
        code, out, err = run([*command, *(["--strict"] if strict else [])])
        if code == 2:
            assert refused(err, root / "out")
            return
        assert code in (0, 1)
        proved = who_is_proved(out)
        if route not in ("code_mutants", "observed"):
            held = proved_by(text, route)
            for label in proved:
                assert route not in ROUTES[label] or label in held, f"{label} counts although {route} does not say so"
                assert proved.issuperset(sample.GRAPH[label])
        assert code == 1 or not strict or len(proved) == len(THEOREMS)
        json.loads((root / "out" / "evidence.json").read_text(encoding="utf-8"))


MERGED = status.merge(
    THEOREMS, {route: status.Fragment(route, fragment) for route, fragment in json.loads(json.dumps(WHOLE)).items()}
)


@settings(max_examples=120)
@given(text=damaged(json.loads(json.dumps(MERGED))))
def test_damaged_merged_evidence(text):
    with folders() as root:
        (root / "merged.json").write_text(text, encoding="utf-8")
        command = ["--evidence", str(root / "merged.json"), "--output", str(root / "out"), "--only", LABEL]
        code, out, err = run(command)
        if code == 2:
            assert "merged.json" in err or ": " in err.removeprefix("python -m report: ")
            assert refused(err, root / "out")
            return
        results = json.loads(text)["results"]
        for label in who_is_proved(out):
            for route in set(ROUTES[label]) & {*status.SYMBOLIC, "check"}:
                good = "passed" if route == "check" else "proved"
                assert results[label][route]["verdict"] == good, f"{label} counts although {route} does not say so"


@settings(max_examples=60)
@given(data=st.data(), route=st.sampled_from(sorted(WHOLE)), check=st.booleans())
def test_the_tables_of_the_readme(data, route, check):
    """Damaged evidence writes no table, and a table that it makes calls nobody proved who is not."""
    text = data.draw(damaged(WHOLE[route]))
    with folders() as root:
        page = root / "README.md"
        page.write_text("\n".join(f"{begin}\n{end}" for begin, end in readme.MARKERS), encoding="utf-8")
        before = page.read_text(encoding="utf-8")
        (root / "evidence" / f"{route}.json").write_text(text, encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            for function in (readme.write, readme.differences):
                patch.setattr(function, "__defaults__", (page, root / "report.svg"))
            code, _, err = run(["--fragments", str(root / "evidence"), "--readme", *(["--check"] if check else [])])
        if code == 2:
            assert err.startswith("python -m report: ")
            assert err.count("\n") == 1
        if code == 2 or check:
            assert page.read_text(encoding="utf-8") == before
            assert not (root / "report.svg").exists()
        elif route in ("proof", "check"):
            told = {
                row[0].strip("`")
                for row in readme.cells(page.read_text("utf-8"), page, readme.MARKERS[0])
                if "yes" in row[1]
            }
            assert told <= proved_by(text, route)


# --- commands that read evidence to see whether there is anything to do ---------------------------------------------


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(store.store, "FOLDER", folder)


DAMAGE: dict[str, Callable[[str], str]] = {
    "cut": lambda text: text[:100],
    "empty": lambda text: "",
    "other": lambda text: '{"schema": 99}',
    "retyped": lambda text: text.replace('"seconds": 1.0', '"seconds": "soon"'),
}


def test_damage_is_found_before_any_work(tmp_path, monkeypatch, capsys):
    """The proofs are stale and would be run; the exact instances behind them cannot be read."""
    folder = sample.write(tmp_path / "evidence", lambda found: found["proof"].update(sources={"LICENSE": "0" * 64}))
    elsewhere(monkeypatch, folder)
    (folder / "exact.json").write_text("[", encoding="utf-8")
    monkeypatch.setattr(derivations, "record", lambda **_: pytest.fail("work began"))
    assert derivations.main(["--evidence"]) == 2
    assert "exact.json" in capsys.readouterr().err


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("route", ["proof", "exact", "code", "sympy", "formal"])
def test_a_command_that_would_run_a_route_refuses_damaged_evidence_of_it(tmp_path, monkeypatch, capsys, route, damage):
    """One sentence, exit status 2, and the file is left for whoever wants to see it; no proof is run."""
    folder = sample.write(tmp_path / "evidence")
    elsewhere(monkeypatch, folder)
    path = folder / f"{route}.json"
    text = DAMAGE[damage](path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    command, arguments = (formal.main, []) if route == "formal" else (derivations.main, ["--evidence"])
    assert command(arguments) == 2
    said = capsys.readouterr().err
    assert f"{route}.json" in said.splitlines()[-1]
    assert "Traceback" not in said
    if route == "formal":
        assert command(["--table"]) == 2
    assert path.read_text(encoding="utf-8") == text


@settings(max_examples=60)
@given(text=damaged(WHOLE["formal"]))
def test_the_table_of_the_coq_theorems(text):
    with folders() as root, pytest.MonkeyPatch.context() as patch:
        elsewhere(patch, root / "evidence")
        (root / "evidence" / "formal.json").write_text(text, encoding="utf-8")
        code, _, err = run(["--table"], formal.main)
        assert code in (0, 1, 2)
        assert err.count("\n") == 1 if code == 2 else "Traceback" not in err
