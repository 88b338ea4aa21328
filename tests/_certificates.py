"""Claims handed to the checker the way everybody hands them over: written to JSON text and read back."""

from __future__ import annotations

import json
from typing import Any

from bayesgrad import checker
from bayesgrad.symbolic.certificate import Claims, dumps
from bayesgrad.symbolic.proof import Chain, Equation, proof_of
from bayesgrad.symbolic.terms import Term

EMPTY: dict[str, Any] = {"format": checker.FORMAT, **{t: {} for t in checker.TABLES}, "kinds": {}, "proofs": {}}


def read(data: Any) -> Any:
    return json.loads(dumps(data))


def replay(claim: Equation, chain: Chain) -> tuple[str, list[str]]:
    """Why the checker refuses a chain for a claim (empty if it does not), and what it prints the claim as."""
    claims = Claims({"x": {"x": claim}})
    certificate = claims.certificate("x", lambda other: chain if other is claim else proof_of(other))
    return verdict(read(claims.json), read(certificate))


def verdict(book: Any, *certificates: Any) -> tuple[str, list[str]]:
    """Why the first claim of a book is not proved (empty if it is), and what it is printed as."""
    report = checker.Report(book, certificates)
    ((claim, *_), *_) = report.labels.values()
    return "; ".join(filter(None, (*report.faults, report.why_not(claim)))), checker.statement(claim)


def equal(left: Term, right: Term) -> bool:
    """Whether the checker takes two terms for one by the laws of sums alone."""
    book = read(Claims({"x": {"x": Equation(left, right)}}).json)
    return not verdict(book, EMPTY | {"proofs": {"x#x": {"steps": []}}})[0]
