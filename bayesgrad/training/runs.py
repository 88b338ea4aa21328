"""Runs on disk: ``runs/<experiment>/<config hash>-<seed>/`` with config, environment, metrics, checkpoints, result.

Executing a job is idempotent: a finished run with the same config, seed, sources, versions and thread count is read and
not redone, an unfinished one goes on from its newest checkpoint. A run whose sources changed starts over, and what was
there moves aside, to ``runs/<experiment>/stale/``. The job is plain data and the function a plain one, so that any
executor (processes, a cluster) can carry it.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayesgrad.training.config import Config, from_json
from bayesgrad.training.files import RunError, gaps, locked, read_json, read_metrics, write_json
from bayesgrad.training.sources import fingerprint as stamp
from bayesgrad.training.sources import programs, versions

FORMAT = 1
RUN_FILES = ("metrics.jsonl", "result.json", "environment.json", "checkpoints", "snapshots", "config.json")
"""What a run leaves; the config, which says whose run it is, moves last."""


@dataclass(frozen=True)
class Job:
    """One run to do: the arm it belongs to, its config and its seed."""

    experiment: str
    arm: str
    config: Config
    seed: int
    role: str = "final"

    @property
    def name(self) -> str:
        return f"{self.config.hash}-{self.seed}"

    def folder(self, root: Path) -> Path:
        return root / self.experiment / self.name


@dataclass(frozen=True)
class Run:
    """A job and what came of it."""

    job: Job
    result: dict[str, Any]
    metrics: list[dict[str, Any]] = field(repr=False)

    @property
    def arm(self) -> str:
        return self.job.arm

    @property
    def seed(self) -> int:
        return self.job.seed

    @property
    def losses(self) -> list[float]:
        return [row["loss"] for row in self.metrics]

    def evaluations(self) -> list[dict[str, Any]]:
        """The metrics rows at which the model was evaluated."""
        return [row for row in self.metrics if len(row) > 3]


def environment(threads: int) -> dict[str, Any]:
    """Versions and machine, as far as they can matter to the numbers."""
    return {
        "versions": versions(),
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
        "threads": threads,
    }


def finished(folder: Path, config: Config, seed: int, fingerprint: str) -> dict[str, Any] | None:
    """The result in ``folder`` if it is a whole one of this run and these sources, otherwise None."""
    path = folder / "result.json"
    if not path.exists():
        return None
    result = read_json(path, "the result of a run")
    if result.get("format") != FORMAT:
        raise RunError(
            f"{path}: format {result.get('format')!r}, expected {FORMAT}; move the run folder away and run again"
        )
    mine = (result.get("config_hash"), result.get("seed"), result.get("fingerprint")) == (
        config.hash,
        seed,
        fingerprint,
    )
    return result if mine and result.get("state") in ("finished", "diverged") else None


def read(job: Job, root: Path, fingerprint: str) -> Run | None:
    """The finished run of ``job``; None when it is not there or stale. RunError where its metrics are not whole."""
    folder = job.folder(root)
    result = finished(folder, job.config, job.seed, fingerprint)
    if result is None:
        return None
    rows = read_metrics(folder / "metrics.jsonl")
    torn = [gap for gap in gaps(rows, result["step"]) if gap not in result.get("gaps", [])]
    if torn and result["state"] == "finished":
        raise RunError(
            f"{folder / 'metrics.jsonl'}: steps {torn[0][0]} to {torn[0][1]} are missing although the run finished; "
            "put the file back, or move the run folder away and run again"
        )
    return Run(job, result, rows)


def execute(
    config_json: dict[str, Any],
    seed: int,
    folder: str,
    fingerprint: str,
    *,
    label: str = "",
    threads: int = 1,
    stop_file: str | None = None,
    modules: Sequence[str] = (),
) -> dict[str, Any]:
    """Do one run in ``folder`` (or find it done) and return its result; the unit of work of every executor.

    ``modules`` are those that the ``fingerprint`` is of. Raises RunError where they are others here than at the caller.
    """
    where = Path(folder)
    if modules and stamp(programs(*modules), threads) != fingerprint:
        raise RunError(
            f"{socket.gethostname()}: the sources or versions of this worker are not those of the caller; "
            "install the same package, Python, numpy and torch there"
        )
    config = from_json(config_json)
    done = finished(where, config, seed, fingerprint)
    if done is not None:
        return done
    import torch

    from bayesgrad.training.loop import train

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)

    def stopping() -> bool:
        return stop_file is not None and os.path.exists(stop_file)

    try:
        with locked(where):
            done = finished(where, config, seed, fingerprint)
            if done is not None:
                return done
            claim_folder(where, config, seed, fingerprint, label)
            write_json(where / "environment.json", environment(threads))
            started = time.perf_counter()
            result = train(config, seed, where, fingerprint=fingerprint, stopping=stopping)
            return finish(where, result, Job("", label, config, seed), fingerprint, started)
    except OSError as error:
        raise RunError(f"{where}: cannot write ({error.strerror}); choose another folder or make room") from error


def finish(folder: Path, result: dict[str, Any], job: Job, fingerprint: str, started: float) -> dict[str, Any]:
    """Add to a result what it belongs to, write it, return it."""
    result |= {
        "format": FORMAT,
        "arm": job.arm,
        "seed": job.seed,
        "config_hash": job.config.hash,
        "fingerprint": fingerprint,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - started, 3),
    }
    write_json(folder / "result.json", result)
    return result


def claim_folder(folder: Path, config: Config, seed: int, fingerprint: str, label: str) -> None:
    """Make ``folder`` this run's own: continue the same run, set one of other sources aside, refuse another's."""
    path = folder / "config.json"
    mine = {
        "format": FORMAT,
        "config": config.as_json(),
        "config_hash": config.hash,
        "seed": seed,
        "arm": label,
        "fingerprint": fingerprint,
    }
    if path.exists():
        there = read_json(path, "the config of a run")
        if (there.get("config_hash"), there.get("seed")) != (config.hash, seed):
            raise RunError(
                f"{folder}: belongs to config {there.get('config_hash')} with seed {there.get('seed')}, "
                f"expected config {config.hash} with seed {seed}; give it its own folder"
            )
        if there.get("fingerprint") != fingerprint:
            set_aside(folder, str(there.get("fingerprint")))
    write_json(path, mine)


def set_aside(folder: Path, fingerprint: str) -> Path:
    """Move a run of other sources to ``stale/`` beside it, and return where it is now. Nothing is deleted."""
    base = folder.parent / "stale" / f"{folder.name}-{fingerprint[:12]}"
    aside, number = base, 1
    while (aside / "config.json").exists():
        number += 1
        aside = base.with_name(f"{base.name}-{number}")
    aside.mkdir(parents=True, exist_ok=True)
    for name in RUN_FILES:
        if (folder / name).exists():
            os.replace(folder / name, aside / name)
    return aside


def is_stale(folder: Path, fingerprint: str) -> bool:
    """Whether ``folder`` holds a run of other sources, versions or threads."""
    path = folder / "config.json"
    return path.exists() and read_json(path, "the config of a run").get("fingerprint") != fingerprint
