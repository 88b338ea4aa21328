"""The observed route of the evidence: what training runs say about labels and claims, read from records alone.

Laws are read from the quick records, which are redone whenever a source changes, so that "confirmed" is about today's
code; the full record stands in where there is no quick one. Claims are judged by full records alone, where today's
criteria judged them: a quick run is too small to decide anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bayesgrad import evidence
from bayesgrad.training import records
from bayesgrad.training.experiments import EXPERIMENTS
from bayesgrad.training.sources import CHECKOUT, closure, versions

MODULE = "bayesgrad.training.cli"
PATTERNS = ("report/records/*/full.json", "report/build/records/*/quick.json")
TOLD = ("criterion", "criterion_sha", "verdict", "effect", "interval", "unit")


def best_records(checkout: Path, sizes: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """By its path the first record of each experiment, in the order of ``sizes``, that today's criteria judged."""
    found = {}
    for name, experiment in EXPERIMENTS.items():
        for size in sizes:
            path = records.path_of(checkout, name, size)
            if not path.exists():
                continue
            record = records.load(path)
            if record["state"] == "finished" and records.is_current(record, experiment):
                found[path.relative_to(checkout).as_posix()] = record
                break
    return found


def fragment(checkout: Path = CHECKOUT) -> dict[str, Any]:
    """What :func:`bayesgrad.evidence.write` needs beside the route."""
    for_laws, for_claims = best_records(checkout, ("quick", "full")), best_records(checkout, ("full",))
    results: dict[str, Any] = {}
    for name, record in for_laws.items():
        for label, row in record["results"].items():
            # the experiment about the laws themselves comes first and speaks for a label
            results.setdefault(label, row | {"record": name})
    cells: dict[str, list[dict[str, Any]]] = {}
    for name, record in for_claims.items():
        for row in record["claims"]:
            cell = {"task": record["experiment"], **{key: row[key] for key in TOLD}, "record": name}
            cells.setdefault(row["id"], []).append(cell)
    read = {path.relative_to(checkout).as_posix(): path for pattern in PATTERNS for path in checkout.glob(pattern)}
    used = for_laws | for_claims
    return {
        "results": results,
        "claims": [{"id": name, "cells": rows} for name, rows in cells.items()],
        "records": sorted(used),
        "sources": closure(MODULE) | {name: evidence.sha256(path) for name, path in sorted(read.items())},
        "patterns": PATTERNS,
        "versions": versions(),
        "seconds": sum(record["seconds"] for record in used.values()),
    }


def write(checkout: Path = CHECKOUT) -> Path:
    """Write the fragment and return its path."""
    return evidence.write("observed", **fragment(checkout), folder=checkout / "report" / "build" / "evidence")
