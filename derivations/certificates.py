"""The book of claims as data, its certificates, and what the independent checker says of them.

The checker reads what is claimed from the book's file, which the wheel carries, and why it is so from certificates that
are written from the proofs as they ran. So a result counts as proved only if two judges with no code in common accept
it, and if the file says today what the modules say.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from bayesgrad import checker
from bayesgrad.evidence import ROOT, write_whole
from bayesgrad.symbolic.certificate import Claims, deep, dumps
from derivations import laws

BOOK = ROOT / "bayesgrad" / "symbolic" / "book.json"
STALE = "the book's file does not say what the modules say: run python -m derivations --book"


@cache
def claims() -> Claims:
    """Every claim of every result, in the order of the book."""
    return Claims({label: {part.name: part.claim for part in laws.law(label).parts} for label in laws.labels()})


def write_book(path: Path = BOOK) -> None:
    """Write what is claimed. Raises OSError."""
    write_text(path, dumps(claims().json))


def write_certificates(folder: Path) -> None:
    """Write the certificate of every result, each to a file of its own. Raises OSError."""
    for label in laws.labels():
        write_text(folder / f"{label}.json", dumps(claims().certificate(label)))


def write_text(path: Path, text: str) -> None:
    def fill(out: BinaryIO) -> None:
        out.write(text.encode())

    write_whole(path, fill)


def verdicts(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the checker says of each result, as evidence: verdict, reason, seconds."""
    book = BOOK.read_text(encoding="utf-8") if BOOK.exists() else ""
    if book != dumps(claims().json):
        return {label: {"verdict": "undecided", "reason": STALE, "seconds": 0.0} for label in labels}
    seconds: dict[str, float] = {}

    def written() -> Iterator[Any]:
        for label in labels:
            certificate = json.loads(dumps(claims().certificate(label)))
            began = time.perf_counter()
            yield certificate
            seconds[label] = time.perf_counter() - began

    with deep():
        report = checker.Report(json.loads(book), written())
    found = {}
    for label in labels:
        doubts = [f"{c.name}: {why}" for c in report.labels[label] if (why := report.why_not(c))]
        why = "; ".join([*doubts, *report.faults])
        found[label] = {
            "verdict": "undecided" if why else "proved",
            "reason": why or f"{len(report.labels[label])} claims replayed from their certificate",
            "seconds": round(seconds[label], 3),
        }
    return found
