"""From the tallies of a run to the check evidence, one fragment: ``report/build/evidence/check.json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayesgrad import evidence as files
from bayesgrad.theorems import THEOREMS
from derivations.wrong_laws import wrong_names

SOURCES = (
    "bayesgrad/*.py",
    "bayesgrad/evidence/*.py",
    "bayesgrad/symbolic/**/*.py",
    "bayesgrad/tasks/*.py",
    "bayesgrad/testing/**/*.py",
    "checks/**/*.py",
    "checks/inventory.txt",
    "derivations/*.py",
    "derivations/*/*.py",
    "conftest.py",
    "pyproject.toml",
    *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"),
)
"""All that can change a verdict. The last line is what pytest would read instead of pyproject.toml if it were there."""
VERSIONS = (
    *("numpy", "torch", "jax", "jaxlib", "array-api-strict", "array-api-compat"),
    *("hypothesis", "mpmath", "pytest"),
)


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


def rejections(
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
    return {theorem.label: wrong_names(theorem.label) for theorem in THEOREMS}


def finite(x: float) -> float:
    """A number that JSON can hold."""
    return float(x) if abs(x) < 1e300 else 1e300


def sources() -> dict[str, str]:
    """Every file that can change a verdict of the checks, with its hash; taken before a run."""
    return files.sources(SOURCES)


def of_draws(tally: Mapping[str, Any]) -> dict[str, Any]:
    """What an audit needs of one check: counts, draws, and which draw rejected which wrong law."""
    kept = ("label", "oracles", "examples", "vacuous", "statement", "failure", "draws")
    return {
        **{name: tally[name] for name in kept},
        **{name: finite(tally[name]) for name in ("worst_error", "worst_in_tolerance", "tolerance", "seconds")},
        "wrong": {
            key: found.get("draw", -1) for key, found in tally["wrong"].items() if found["verdict"] == "rejected"
        },
    }


def write(
    tallies: Mapping[str, Mapping[str, Any]],
    *,
    failed: Iterable[str],
    sources: Mapping[str, str],
    profile: str,
    seed: int,
    seconds: float,
) -> dict[str, Any]:
    """Write the check fragment of a complete run, and return it. Raises BadEvidence where it cannot be written.

    ``tallies``: node id -> what the check found; ``failed``: every test that failed, also those that belong to no label
    (a corner, another array library).
    """
    tallies = dict(sorted(tallies.items()))
    files.write(
        "check",
        merge(tallies.values()),
        sources=sources,
        patterns=SOURCES,
        versions=files.versions(*VERSIONS),
        seconds=seconds,
        wrong_laws=rejections(tallies.values(), wrong_law_names()),
        failed=sorted(failed),
        configuration={"profile": profile, "seed": seed},
        checks={node: of_draws(tally) for node, tally in tallies.items()},
    )
    fragment = files.load("check")
    assert fragment is not None
    return fragment


def lacking(fragment: Mapping[str, Any] | None) -> list[str]:
    """What stands against the checks of each label, a clause a label; nothing if every one passed."""
    results = {} if fragment is None else fragment["results"]
    found = []
    for theorem in THEOREMS:
        if theorem.routes["check"] == "required":
            verdict = results.get(theorem.label, {}).get("verdict", "not run")
            if verdict != "passed":
                found.append(f"{theorem.label}: {verdict}")
    laws = {} if fragment is None else fragment.get("wrong_laws", {})
    if fragment is not None:
        for label, names in wrong_law_names().items():
            spared = set(names) - {
                key for key, law in laws.get(label, {}).get("laws", {}).items() if law["verdict"] == "rejected"
            }
            found += [f"{label}: the wrong law {name} is not rejected" for name in sorted(spared)]
        found += [f"{node}: failed" for node in fragment.get("failed", ())]
    return found
