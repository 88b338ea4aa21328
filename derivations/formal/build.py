"""From clean sources to evidence: compile, audit, compare, judge label by label.

A label is proved if its theorem, every corollary and every refuted wrong variant that belongs to it passed the audit,
if coqchk replayed the modules that hold them, and if its formula agrees with the shipped functions on the rational
instances. Anything else is "undecided", with the
reason: a Coq build that fails refutes nothing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from derivations.formal import audit, commands, coq, coqchk, dependencies, hypotheses, statement_mutants
from derivations.formal import coq_statements as statements
from derivations.formal import rational_instances as instances
from derivations.formal.coq_statements import FOLDER, Statement

BUILD = FOLDER / "build"
# What is proved, what it is compared with, and how it is judged. That bayesgrad agrees with the loops is looked at in
# every build and by the tests, so that its files need not make the proofs stale.
SOURCES = ("derivations/formal/*.v", "derivations/formal/*.py")


@dataclass(frozen=True)
class Outcome:
    """What a build found: ``results`` as evidence wants them, and the faults, each one sentence."""

    results: Mapping[str, Mapping[str, Any]]
    faults: tuple[str, ...]
    coq: str
    seconds: float
    theorems: tuple[tuple[Statement, audit.Finding, float], ...] = field(default=())


def prepare(source: Path = FOLDER, build: Path = BUILD) -> Path:
    """An empty folder with copies of the sources: nothing compiled before is used again.

    It carries the number of this process, so that two builds do not meet. Folders of processes that are gone go too.
    """
    build.mkdir(parents=True, exist_ok=True)
    for old in build.iterdir():
        if old.name.partition("-")[2] == str(os.getpid()) or not _alive(old.name.partition("-")[2]):
            shutil.rmtree(old, ignore_errors=True)
    folder = build / f"run-{os.getpid()}"
    folder.mkdir()
    for path in sorted(source.glob("*.v")):
        shutil.copyfile(path, folder / path.name)
    return folder


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (ValueError, OSError):
        return False
    return True


def run(
    source: Path = FOLDER,
    build: Path = BUILD,
    say: Callable[[str], None] = lambda _: None,
    coqc: str = "coqc",
    coqtop: str = "coqtop",
    compare: bool = True,
) -> Outcome:
    """Compile, audit, replay and compare. Raises CoqMissing; every other trouble becomes a fault.

    ``compare=False`` compiles and audits alone (for builds that are meant to fail in the tests).
    """
    started = time.perf_counter()
    version = coq.version(coqc)
    expected = statements.read(source / "Statements.v")
    where = statements.theorems(source)
    folder = prepare(source, build)
    coq.libraries(folder, coqc)
    total = len(coq.dependencies(folder))
    faults = [f"theorem {name} ({where[name][0]}) has no committed statement"
              for name in sorted(set(where) - {statement.name for statement in expected})]  # fmt: skip
    faults += [
        f"{s.name} assumes what is not in the list of hypotheses: {'; '.join(extra)}"
        for s in expected
        if (extra := hypotheses.unlisted(s.text))
    ]
    faults += (broken := commands.faults(source, commands.library_modules(coqc)))
    count = 0

    def report(done: coq.Compiled) -> None:
        nonlocal count
        count += 1
        trouble = done.error.splitlines()[-1] if done.error else ""
        say(f"[{count:>2}/{total}] {done.name}.v  {done.seconds:5.1f} s  {trouble}")

    compiled = coq.compile_all(folder, coqc, report)
    faults += [f"{stem}.v does not compile: {shorten(done.error)}" for stem, done in compiled.items() if done.error]
    usable = {name: place for name, place in where.items() if not compiled[place[0].removesuffix(".v")].error}
    say(f"comparing {len(expected)} theorems with their statements and listing their axioms")
    findings = _audit(folder, expected, usable, coqtop, bool(compiled["Statements"].error), compare)
    if compare:
        replayed = coqchk.replay(folder, [stem for stem, done in compiled.items() if not done.error], say)
        findings = {name: _replayed(found, where, replayed) for name, found in findings.items()}
        faults += [f"{stem}.v: {fault}" for stem, fault in replayed.items() if fault]
        if not any(done.error for done in compiled.values()):
            changed = statement_mutants.run(folder, statement_mutants.sample(expected), usable, coqtop)
            say(f"{changed.refused} changed statements refused, {changed.same} that say the same")
            faults += changed.faults
    if broken:  # what Coq says of such sources proves nothing
        findings = {name: replace(found, fault=found.fault or broken[0]) for name, found in findings.items()}
    agreements: Mapping[str, instances.Agreement] = {}
    if compare and not compiled["FieldFormulas"].error:
        say(f"evaluating {len(instances.ROWS)} formulas over the rationals, beside bayesgrad")
        agreements = instances.compare(folder, coqtop)
    seconds = {name: time for done in compiled.values() for name, time in done.theorems.items()}
    faults += [f"{finding.name}: {finding.fault}" for finding in findings.values() if finding.fault]
    faults += [
        f"{label}: the formula and bayesgrad differ: {found.fault}"
        for label, found in agreements.items()
        if found.fault
    ]
    if compare and not any(done.error for done in compiled.values()):
        faults += dependencies.faults({name: finding.uses for name, finding in findings.items()}, source)
    results = judge(expected, where, findings, seconds, agreements, dependencies.rests_on(source))
    table = tuple((statement, findings[statement.name], seconds.get(statement.name, 0.0)) for statement in expected)
    return Outcome(results, tuple(faults), version, time.perf_counter() - started, table)


def _audit(
    folder: Path,
    expected: tuple[Statement, ...],
    where: Mapping[str, tuple[str, int]],
    coqtop: str,
    broken: bool,
    each: bool,
) -> dict[str, audit.Finding]:
    """The audit, split over as many processes as the build may use."""
    if broken:
        return {s.name: audit.Finding(s.name, (), "Statements.v does not compile") for s in expected}
    labels = list(dict.fromkeys(s.label for s in expected))  # the theorems of a label are asked about together
    parts = [[s for s in expected if s.label in labels[start :: coq.PROCESSES]] for start in range(coq.PROCESSES)]
    with ThreadPoolExecutor(coq.PROCESSES) as pool:
        found = list(pool.map(lambda part: audit.audit(folder, part, where, coqtop, each), filter(None, parts)))
    return {name: finding for part in found for name, finding in part.items()}


def _replayed(finding: audit.Finding, where: Mapping[str, tuple[str, int]], faults: Mapping[str, str]) -> audit.Finding:
    """A finding with the fault of the module that holds its theorem."""
    stem = where[finding.name][0].removesuffix(".v") if finding.name in where else ""
    return replace(finding, fault=finding.fault or faults.get(stem, ""))


def shorten(text: str, limit: int = 400) -> str:
    """Coq's complaint on one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]} ..."


def entry(
    statement: Statement, where: Mapping[str, tuple[str, int]], finding: audit.Finding, seconds: float
) -> dict[str, Any]:
    """One theorem as the evidence shows it."""
    file, line = where.get(statement.name, ("", 0))
    return {
        "theorem": statement.name,
        "words": statement.words,
        "statement": f"Theorem {statement.name} :\n{statement.text}.",
        "hypotheses": list(hypotheses.said(statement.text)),
        "axioms": list(finding.axioms),
        "file": f"derivations/formal/{file}" if file else "",
        "line": line,
        "replayed": bool(file) and file.removesuffix(".v") not in coqchk.EXCEPTIONS and not finding.fault,
        "seconds": round(seconds, 3),
        "verdict": "undecided" if finding.fault else "proved",
    }


def judge(
    expected: tuple[Statement, ...],
    where: Mapping[str, tuple[str, int]],
    findings: Mapping[str, audit.Finding],
    seconds: Mapping[str, float],
    agreements: Mapping[str, instances.Agreement],
    graph: Mapping[str, tuple[str, ...]],
) -> dict[str, dict[str, Any]]:
    """``{label: verdict, reason, rests_on, detail, seconds}``."""
    results: dict[str, dict[str, Any]] = {}
    for label in dict.fromkeys(statement.label for statement in expected):
        own = [s for s in expected if s.label == label]
        entries = {s.name: entry(s, where, findings[s.name], seconds.get(s.name, 0.0)) for s in own}
        main = next(s for s in own if s.kind == "theorem")
        reasons = [f"{s.name}: {findings[s.name].fault}" for s in own if findings[s.name].fault]
        reasons += [f"{s.name}: a hypothesis is not listed" for s in own if hypotheses.unlisted(s.text)]
        detail = dict(entries[main.name])
        detail.pop("verdict")
        detail["corollaries"] = [entries[s.name] for s in own if s.kind == "corollary"]
        detail["refutations"] = [entries[s.name] for s in own if s.kind == "refutation"]
        if label in agreements:
            found = agreements[label]
            reasons += [f"formula against bayesgrad: {found.fault}"] if found.fault else []
            detail["instances"] = {
                "count": instances.COUNT,
                "numbers": found.numbers,
                "tolerance": instances.TOLERANCE,
            }
        results[label] = {
            "verdict": "undecided" if reasons else "proved",
            "reason": "; ".join(reasons),
            "rests_on": list(graph[label]),
            "detail": detail,
            "seconds": round(sum(e["seconds"] for e in entries.values()), 3),
        }
    return results
