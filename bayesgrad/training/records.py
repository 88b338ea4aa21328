"""Records: what remains of an experiment, and all that a report may read.

``report/records/<experiment>/full.json`` is committed, ``report/build/records/<experiment>/quick.json`` is made by
every report. A record holds the experiment, its configs and their hashes, seeds, versions and machine, the criteria
with text and hash, verdicts, and thinned curves. Comparing two records ignores seconds, host and dates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayesgrad.training import claims
from bayesgrad.training.config import digest
from bayesgrad.training.experiments import SIZES, Experiment
from bayesgrad.training.files import RunError, plain, read_json, write_json
from bayesgrad.training.runs import Job, Run, environment

SCHEMA = 1
IGNORED = {"seconds", "date", "machine", "host"}
REQUIRED = ("experiment", "size", "state", "plan", "fingerprint", "versions", "criteria", "claims", "results")


def path_of(checkout: Path, experiment: str, size: str) -> Path:
    """Where the record of an experiment lives below ``checkout``."""
    base = checkout / "report" / ("records" if size == "full" else "build/records")
    return base / experiment / f"{size}.json"


def plan_digest(jobs: Sequence[Job]) -> str:
    """Names what was to be done: arms, config hashes, seeds, and the criteria that will judge it."""
    rows = sorted([job.role, job.arm, job.config.hash, job.seed] for job in jobs)
    return digest(rows)


def criteria_digest(experiment: Experiment) -> dict[str, str]:
    return {claim: claims.CRITERIA[claim].sha for claim in experiment.claims}


def build(
    experiment: Experiment,
    size: str,
    jobs: Sequence[Job],
    runs: Sequence[Run],
    *,
    fingerprint: str,
    threads: int,
) -> dict[str, Any]:
    """The record of finished ``runs``; state "partial" and no verdicts when some of the ``jobs`` are missing."""
    whole = len(runs) == len(jobs) and all(run.result["state"] == "finished" or run.job.role != "final" for run in runs)
    torn = [f"{run.job.name} lacks steps {a} to {b}" for run in runs for a, b in run.result.get("gaps", ())]
    usable = [run for run in runs if run.result["state"] == "finished"]
    body: dict[str, Any] = experiment.summarise(size, usable) if usable else {}  # type: ignore[arg-type]
    if not whole or torn:
        reason = f"metrics are not whole: {torn[0]}" if torn else f"{len(runs)} of {len(jobs)} runs are done"
        for row in body.get("claims", []):
            row |= {"verdict": claims.NOT_TESTED, "detail": {"reason": reason}}
    record = {
        "schema": SCHEMA,
        "experiment": experiment.id,
        "code": experiment.code,
        "title": experiment.title,
        "question": experiment.question,
        "size": size,
        "state": "finished" if whole else "partial",
        "runs": {"done": len(runs), "planned": len(jobs)},
        "plan": plan_digest(jobs),
        "fingerprint": fingerprint,
        **environment(threads),
        "seconds": round(sum(run.result["seconds"] for run in runs), 1),
        "date": datetime.now(UTC).date().isoformat(),
        "criteria": criteria_digest(experiment),
        "claims": [],
        "results": {},
        "arms": {},
    } | body
    clean: dict[str, Any] = plain(record)
    return clean


def save(record: dict[str, Any], checkout: Path) -> Path:
    """Write a record to its place and return the path."""
    path = path_of(checkout, record["experiment"], record["size"])
    write_json(path, record)
    return path


def load(path: Path) -> dict[str, Any]:
    """Read a record; a missing, damaged or foreign file is refused with one sentence."""
    record = read_json(path, "a record of an experiment")
    if record.get("schema") != SCHEMA:
        raise RunError(f"{path}: schema {record.get('schema')!r}, expected {SCHEMA}; make the record again")
    missing = [name for name in REQUIRED if name not in record]
    if missing:
        raise RunError(f"{path}: no record of an experiment ({', '.join(missing)} missing)")
    if record["size"] not in SIZES:
        raise RunError(f"{path}: size {record['size']!r}, expected one of {', '.join(SIZES)}")
    return record


def is_current(record: dict[str, Any], experiment: Experiment) -> bool:
    """Whether the record was judged by today's criteria (the sources of a committed record may be older)."""
    same: bool = record["criteria"] == criteria_digest(experiment)
    return same


def differences(left: Any, right: Any, where: str = "") -> Iterator[str]:
    """Where two records differ, leaving out seconds, host and dates."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            if key in IGNORED:
                continue
            name = f"{where}.{key}" if where else key
            if key not in left or key not in right:
                yield f"{name}: only in the {'first' if key in left else 'second'}"
            else:
                yield from differences(left[key], right[key], name)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from differences(a, b, f"{where}[{index}]")
    elif left != right:
        yield f"{where}: {_short(left)} against {_short(right)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
