"""Mirror metrics into TensorBoard event files (extra ``tensorboard``): scalars only, one folder a run.

The writer follows the metrics files, as the progress bars do, so that it works with any executor and costs a run
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayesgrad.training.files import read_metrics
from bayesgrad.training.runs import Job


def scalars(row: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a metrics row under slash-separated names; lists and missing values are left out."""
    out: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            out |= scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name != "step":
            out[f"{prefix}{name}"] = float(value)
    return out


class Mirror:
    """``update`` what is new in the metrics of ``jobs``; call it as often as you like, and ``close`` it."""

    def __init__(self, folder: Path, root: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ValueError(
                "--tensorboard: TensorBoard is not installed, expected the extra: pip install 'bayesgrad[tensorboard]'"
            ) from error
        self._make: Any = SummaryWriter
        self.folder, self.root = folder, root
        self._writers: dict[str, Any] = {}
        self._written: dict[str, int] = {}

    def update(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            rows = read_metrics(job.folder(self.root) / "metrics.jsonl")
            done = self._written.get(job.name, 0)
            if len(rows) <= done:
                continue
            if job.name not in self._writers:
                self._writers[job.name] = self._make(str(self.folder / job.experiment / job.name))
            for row in rows[done:]:
                for name, value in scalars(row).items():
                    self._writers[job.name].add_scalar(name, value, row["step"])
            self._written[job.name] = len(rows)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
