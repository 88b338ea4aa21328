"""The judges of claims.

A criterion is a function whose docstring says, before any run, what would support
it; the function computes the verdict from finished runs and nobody types one. Its identity is the SHA-256 of its text
and its code together, so that neither can change unnoticed; a changed criterion is a new one.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayesgrad.claims import CLAIMS, CONDITIONAL, NOT_SUPPORTED, NOT_TESTED, SUPPORTED

VERDICTS = (SUPPORTED, CONDITIONAL, NOT_SUPPORTED, NOT_TESTED)


@dataclass(frozen=True)
class Judgement:
    """A verdict with the figure that it rests on; ``interval`` is 95% over seeds."""

    verdict: str
    effect: float | None = None
    interval: tuple[float, float] | None = None
    unit: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


Judge = Callable[[Sequence[Any]], Judgement]


@dataclass(frozen=True)
class Criterion:
    """What decides a claim: its text, its code, and the hash of both."""

    claim: str
    text: str
    sha: str
    judge: Judge


CRITERIA: dict[str, Criterion] = {}


def criterion(claim: str) -> Callable[[Judge], Judge]:
    """Register a judge for ``claim``; its docstring is the criterion's text. It is given the finished runs."""
    if claim not in CLAIMS:
        raise ValueError(f"claim: got {claim!r}, expected one of {', '.join(CLAIMS)}")

    def register(judge: Judge) -> Judge:
        text = inspect.cleandoc(judge.__doc__ or "")
        if not text:
            raise ValueError(f"criterion of {claim}: got no docstring, expected the criterion in words")
        code = inspect.getsource(judge)
        sha = hashlib.sha256(f"{text}\n{code}".encode()).hexdigest()
        CRITERIA[claim] = Criterion(claim, text, sha, judge)
        return judge

    return register


def judge(claim: str, runs: Sequence[Any]) -> dict[str, Any]:
    """The row of ``claim`` in a record: the criterion, its hash, and the computed verdict."""
    rule, about = CRITERIA[claim], CLAIMS[claim]
    found = rule.judge(runs)
    if found.verdict not in VERDICTS:
        raise ValueError(f"verdict of {claim}: got {found.verdict!r}, expected one of {', '.join(VERDICTS)}")
    return {
        "id": claim,
        "statement": about.statement,
        "source": about.source,
        "criterion": rule.text,
        "criterion_sha": rule.sha,
        "verdict": found.verdict,
        "effect": found.effect,
        "interval": None if found.interval is None else list(found.interval),
        "unit": found.unit,
        "detail": found.detail,
    }
