"""From the tallies of a run to the check evidence, and from all evidence to the ledger.

The check route writes one fragment (``report/build/evidence/check.json``); what the other routes found is read from
theirs, and a route whose sources changed since counts as "not run". ``ledger()`` computes every cell; nothing is typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks.registry import law_name
from derivations import evidence as files
from derivations.wrong_laws import wrong_laws

SOURCES = ("bayesgrad/*.py", "bayesgrad/tasks/*.py", "bayesgrad/testing/**/*.py", "checks/**/*.py", "derivations/*.py")
VERSIONS = ("numpy", "torch", "jax", "hypothesis", "mpmath")


def merge(tallies: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """label -> the verdict over all its checks."""
    results: dict[str, dict[str, Any]] = {}
    for tally in sorted(tallies, key=lambda t: (t["label"], sorted(t["oracles"]))):
        found = results.setdefault(
            tally["label"],
            {
                "verdict": "passed",
                "reason": "",
                "oracles": [],
                "examples": 0,
                "vacuous": 0,
                "worst_error": 0.0,
                "worst_in_tolerance": 0.0,
                "tolerance": 0.0,
                "statement": "not evaluated",
                "seconds": 0.0,
            },
        )
        found["oracles"] = sorted({*found["oracles"], *tally["oracles"]})
        for name in ("examples", "vacuous"):
            found[name] += tally[name]
        for name in ("worst_error", "worst_in_tolerance", "tolerance"):
            found[name] = max(found[name], finite(tally[name]))
        found["seconds"] = round(found["seconds"] + tally["seconds"], 3)
        if tally["statement"] != "not evaluated":
            found["statement"] = tally["statement"]
        if tally["failure"]:
            found["verdict"], found["reason"] = "failed", tally["failure"]
            if found["statement"] == "agrees":
                found["statement"] = "not settled"
    return results


def mutants(
    tallies: Iterable[Mapping[str, Any]], registered: Mapping[str, Iterable[str]] | None = None
) -> dict[str, dict[str, Any]]:
    """label -> {"rejected", "total", "survivors", "laws"} over the wrong laws; one check that rejects is enough.

    A law that is ``registered`` and that no check evaluated is a survivor.
    """
    nobody = {"verdict": "undecided", "counterexample": "", "why": "no check states the part that it changes"}
    seen: dict[str, dict[str, Any]] = {
        label: {key: dict(nobody) for key in keys} for label, keys in (registered or {}).items()
    }
    for tally in sorted(tallies, key=lambda t: (t["label"], sorted(t["oracles"]))):
        for key, found in tally["wrong"].items():
            laws = seen.setdefault(tally["label"], {})
            if laws.get(key, {}).get("verdict") != "rejected":
                laws[key] = found
    return {
        label: {
            "rejected": sum(found["verdict"] == "rejected" for found in laws.values()),
            "total": len(laws),
            "survivors": sorted(key for key, found in laws.items() if found["verdict"] != "rejected"),
            "laws": dict(sorted(laws.items())),
        }
        for label, laws in seen.items()
        if laws
    }


def wrong_law_names() -> dict[str, list[str]]:
    """label -> the names of all its registered wrong laws."""
    return {theorem.label: [law_name(row) for row in wrong_laws(theorem.label)] for theorem in _theorems()}


def finite(x: float) -> float:
    """A number that JSON can hold."""
    return float(x) if abs(x) < 1e300 else 1e300


def sources() -> dict[str, str]:
    """Every file that can change a verdict of the checks, with its hash; taken before a run."""
    return files.sources(SOURCES)


def write(
    tallies: Sequence[Mapping[str, Any]], *, sources: Mapping[str, str], profile: str, seed: int, seconds: float
) -> dict[str, Any]:
    """Write the check fragment of a complete run, and return it."""
    results = merge(tallies)
    files.write(
        "check",
        results,
        sources=sources,
        versions=files.versions(*VERSIONS),
        seconds=seconds,
        mutants=mutants(tallies, wrong_law_names()),
        profile=profile,
        seed=seed,
    )
    fragment = files.load("check")
    assert fragment is not None
    return fragment


@dataclass(frozen=True)
class Row:
    """One line of the ledger."""

    label: str
    routes: dict[str, str]
    checks: str
    wrong: str
    observed: str
    good: bool


ROUTES = ("proof", "exact", "code", "formal")
_SHORT = {
    "not run": "not run",
    "not applicable": "-",
    "proved": "proved",
    "refuted": "REFUTED",
    "undecided": "undecided",
}


def _theorems() -> list[Any]:
    from bayesgrad.theorems import THEOREMS

    return list(THEOREMS)


def _cell(route: str, theorem: Any, fragment: Mapping[str, Any] | None) -> str:
    wanted = theorem.routes.get(route, "not applicable")
    found = None if fragment is None else fragment["results"].get(theorem.label)
    if found is not None:
        return _SHORT.get(found["verdict"], found["verdict"])
    return "not run" if wanted in ("required", "optional") else "-"


def rows(check: Mapping[str, Any] | None, others: Mapping[str, Mapping[str, Any] | None]) -> list[Row]:
    """The ledger, line by line, in the order of the catalogue."""
    out = []
    for theorem in _theorems():
        label = theorem.label
        found = None if check is None else check["results"].get(label)
        wrong = None if check is None else check.get("mutants", {}).get(label)
        if found is None:
            said = "not run" if theorem.routes.get("check", "required") in ("required", "optional") else "-"
        else:
            said = (
                f"{found['verdict']} {found['examples']}+{found['vacuous']}v {found['worst_in_tolerance']:.2g}tol "
                f"{len(found['oracles'])} oracle{'s' * (len(found['oracles']) != 1)}"
            )
        observed = others.get("observed")
        seen = None if observed is None else observed["results"].get(label)
        out.append(
            Row(
                label,
                {route: _cell(route, theorem, others.get(route)) for route in ROUTES},
                said,
                "-" if wrong is None else f"{wrong['rejected']}/{wrong['total']}",
                "-" if seen is None else str(seen["verdict"]),
                found is not None and found["verdict"] == "passed",
            )
        )
    return out


def read_others() -> dict[str, Mapping[str, Any] | None]:
    """The evidence of the routes that pytest does not run; None where it is missing, stale or damaged."""
    found: dict[str, Mapping[str, Any] | None] = {}
    for route in (*ROUTES, "observed"):
        try:
            found[route] = files.read(route)
        except files.DamagedEvidence:
            found[route] = None
    return found


HEADER = ("label", *ROUTES, "checks: verdict, examples + vacuous, worst error, oracles", "wrong", "observed")


def ledger(check: Mapping[str, Any] | None) -> list[str]:
    """The ledger as lines of plain text."""
    table: list[tuple[str, ...]] = [HEADER]
    lines = rows(check, read_others())
    table += [(row.label, *row.routes.values(), row.checks, row.wrong, row.observed) for row in lines]
    widths = [max(len(line[c]) for line in table) for c in range(len(HEADER))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    text.insert(1, "-" * (sum(widths) + 2 * len(widths) - 2))
    checked = [row for row in lines if row.checks not in ("not run", "-")]
    text.append("")
    text.append(
        f"{sum(row.good for row in lines)} of {len(lines)} labels passed their checks, "
        f"{len(checked) - sum(row.good for row in checked)} failed, "
        f"{sum(row.checks == 'not run' for row in lines)} not run; "
        "examples + v(acuous draws), worst error in units of the tolerance, wrong laws rejected/total"
    )
    if check is not None:
        laws = check.get("mutants", {}).values()
        total, rejected = sum(law["total"] for law in laws), sum(law["rejected"] for law in laws)
        text.append(f"wrong laws: {rejected} of {total} rejected by a counterexample")
        for label, law in check.get("mutants", {}).items():
            text += [f"  survives: {label}: {name}: {law['laws'][name]['why']}" for name in law["survivors"]]
    return text + automatic_mutants()


def automatic_mutants() -> list[str]:
    """What the last hunt for automatic mutants found, in a few lines."""
    from checks import mutants

    data = mutants.last()
    if data is None:
        return ["automatic mutants: not run since a source changed (python -m checks --mutants)"]
    summary = mutants.summary(data)
    return [summary[0], *(line for line in summary if line.startswith("  survives") and "NOT EXPLAINED" in line)]
