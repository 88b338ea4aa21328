"""Progress on the terminal: a bar over all runs and one for each run at work, with loss, rate and time left.

The bars read the metrics files that the runs append to, so that they work with any executor.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from bayesgrad.training.runs import Job

TAIL = 16_384


def last_row(path: Path) -> dict[str, Any] | None:
    """The last whole line of a metrics file, reading only its end."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    if len(lines) < 2:
        return None
    try:
        row = json.loads(lines[-2])
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


class Bars:
    """A context that shows ``total`` runs of ``title``; ``watch`` and ``finished`` are what a sweep calls."""

    def __init__(self, console: Console, title: str, total: int, done: int, root: Path) -> None:
        self.console, self.root, self.title = console, root, title
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.all = self.progress.add_task(title, total=total, completed=done, note="runs")
        self.active: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def watch(self, jobs: Sequence[Job]) -> None:
        if not self.console.is_terminal:
            return
        for job in jobs:
            row = last_row(job.folder(self.root) / "metrics.jsonl")
            if row is None:
                continue
            if job.name not in self.active:
                description = f"  {job.arm}, seed {job.seed}"
                self.active[job.name] = self.progress.add_task(description, total=job.config.steps, note="")
            task = self.active[job.name]
            speed = self.progress.tasks[self.progress.task_ids.index(task)].speed
            rate = f", {speed:.0f} steps/s" if speed else ""
            self.progress.update(task, completed=row["step"], note=f"loss {row['loss']:.4f} nats{rate}")

    def finished(self, job: Job, result: dict[str, Any]) -> None:
        if job.name in self.active:
            self.progress.remove_task(self.active.pop(job.name))
        self.progress.advance(self.all)
        if result["state"] == "diverged":
            self.console.print(f"{self.title}: {job.arm}, seed {job.seed}: {result['message']}", highlight=False)
