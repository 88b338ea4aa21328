"""Files that survive: whole or absent, never half.

JSON and checkpoints are written to a temporary neighbour and moved into place; a metrics line goes out in one write,
and a last line without its newline (a process killed in the middle) is dropped by the reader.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from bayesgrad import evidence


class RunError(ValueError):
    """Something a person can mend; the message is one sentence that says what and how."""


def write_whole(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    """Let ``fill`` write the file that ``path`` becomes in one move, on disk before it is visible."""
    try:
        evidence.write_whole(path, fill)
    except OSError as error:
        raise RunError(
            f"{path}: cannot write ({error.strerror}); make room or choose another folder, then run again"
        ) from error


def plain(data: Any) -> Any:
    """``data`` as JSON can hold it: a number that is not finite becomes null."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    return data


def write_bytes(path: Path, data: bytes) -> None:
    """Make ``path`` hold ``data``, whole or not at all."""

    def fill(out: BinaryIO) -> None:
        out.write(data)

    write_whole(path, fill)


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` as indented JSON."""
    try:
        evidence.write_json(path, plain(data))
    except OSError as error:
        raise RunError(f"{path}: cannot write ({error.strerror}); make room, then run again") from error


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in ``path``; a missing, damaged or foreign file gives one sentence that names it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"{path}: no such file, expected {what}") from error
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: not readable as JSON ({error}), expected {what}") from error
    if not isinstance(data, dict):
        raise RunError(f"{path}: holds a JSON {type(data).__name__}, expected {what}")
    return data


@contextmanager
def locked(folder: Path, patience: float = 10.0) -> Iterator[None]:
    """Hold ``folder`` for this process; the lock ends with the process, however it ends. RunError if another has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RunError(f"{folder}: another process is at work there; wait for it or stop it") from None
                time.sleep(0.1)
        yield


class Metrics:
    """metrics.jsonl: one JSON object a line, each with its ``step``; appended atomically."""

    def __init__(self, path: Path, before: int = 0) -> None:
        """Open for appending, keeping only the whole lines of steps < ``before``."""
        self.path = path
        self.kept = [row for row in read_metrics(path) if row["step"] < before]
        write_bytes(path, "".join(json.dumps(row) + "\n" for row in self.kept).encode())
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def append(self, **row: Any) -> None:
        line = (json.dumps(plain(row), allow_nan=False) + "\n").encode()
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot write ({error.strerror}); make room, then give the same command again"
            ) from error
        if written != len(line):
            raise RunError(f"{self.path}: the disk is full; make room, then give the same command again")

    def close(self) -> None:
        os.close(self._file)


def gaps(rows: list[dict[str, Any]], last: int) -> list[list[int]]:
    """The steps from 0 to ``last`` that no row has, as [first, last] of each gap."""
    found: list[list[int]] = []
    for step in sorted(set(range(last + 1)) - {row["step"] for row in rows}):
        if found and found[-1][1] == step - 1:
            found[-1][1] = step
        else:
            found.append([step, step])
    return found


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics file; none when there is no file. Damage in the middle is refused."""
    if not path.exists():
        return []
    rows = []
    *lines, _unfinished = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            row["step"] + 0
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{path}, line {number}: not a metrics line; move the run folder away and run again"
            ) from error
        rows.append(row)
    return rows
