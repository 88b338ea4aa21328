"""The observed route of the evidence: what training runs say about labels and claims, read from records alone.

One fragment, ``report/build/evidence/observed.json``, in the common form of all routes: results by label, the sources
whose content it depends on, and the table of claims. Laws are read from the quick records, which are redone whenever a
source changes, so that "confirmed" is about today's code; claims from the full records, where today's criteria judged
them. Either stands in where the other is missing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from bayesgrad.training import records
from bayesgrad.training.claims import CLAIMS, CRITERIA, NOT_TESTED
from bayesgrad.training.experiments import EXPERIMENTS
from bayesgrad.training.files import write_json
from bayesgrad.training.sources import CHECKOUT, closure, versions

SCHEMA = 1
MODULE = "bayesgrad.training.cli"


def best_records(checkout: Path, sizes: tuple[str, str]) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Per experiment the first record in the order of ``sizes`` that is whole and judged by today's criteria."""
    found = {}
    for name, experiment in EXPERIMENTS.items():
        for size in sizes:
            path = records.path_of(checkout, name, size)
            if not path.exists():
                continue
            record = records.load(path)
            if record["state"] == "finished" and records.is_current(record, experiment):
                found[name] = (path, record)
                break
    return found


def fragment(checkout: Path = CHECKOUT) -> dict[str, Any]:
    """The observed fragment as plain data."""
    for_laws = best_records(checkout, ("quick", "full"))
    for_claims = best_records(checkout, ("full", "quick"))
    results: dict[str, Any] = {}
    judged: dict[str, dict[str, Any]] = {}
    for path, record in for_laws.values():
        name = path.relative_to(checkout).as_posix()
        for label, row in record["results"].items():
            # the experiment about the laws themselves comes first and speaks for a label
            results.setdefault(label, row | {"record": name})
    for path, record in for_claims.values():
        name = path.relative_to(checkout).as_posix()
        for row in record["claims"]:
            judged.setdefault(row["id"], row | {"record": name})
    claims = []
    for claim in CLAIMS.values():
        row = judged.get(claim.id)
        rule = CRITERIA.get(claim.id)
        if row is None:
            row = {
                "criterion": rule.text if rule else "",
                "criterion_sha": rule.sha if rule else "",
                "verdict": NOT_TESTED,
                "effect": None,
                "interval": None,
                "unit": "",
                "record": None,
            }
        keys = ("criterion", "criterion_sha", "verdict", "effect", "interval", "unit", "record")
        claims.append(
            {"id": claim.id, "statement": claim.statement, "source": claim.source} | {key: row[key] for key in keys}
        )
    sources = closure(MODULE)
    used = [*for_laws.values(), *for_claims.values()]
    for path, _ in used:
        sources[path.relative_to(checkout).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "schema": SCHEMA,
        "route": "observed",
        "versions": versions(),
        "sources": sources,
        "results": results,
        "seconds": round(
            sum(record["seconds"] for _, record in {path: (path, record) for path, record in used}.values()), 3
        ),
        "claims": claims,
    }


def write(checkout: Path = CHECKOUT) -> Path:
    """Write the fragment and return its path."""
    path = checkout / "report" / "build" / "evidence" / "observed.json"
    write_json(path, fragment(checkout))
    return path
