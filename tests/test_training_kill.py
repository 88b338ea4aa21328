"""kill -9 at any moment: twenty kills, five of them inside a checkpoint write, and the same record as without them."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from bayesgrad.training import files, runs
from bayesgrad.training.config import SGD, Config, OneHead, StickyMarkov
from bayesgrad.training.progress import last_row

STEPS = 260
CONFIG = Config(
    task=StickyMarkov(length=120, symbols=4, d_x=6, held_out=1),
    model=OneHead(d_k=3, d_v=4),
    update=SGD(rate=0.05, momentum=0.9, factors={"W_V": 2.0}),
    gradients="fused",
    steps=STEPS,
    evaluate_every=50,
    checkpoint_every=3,
)
SERVER = multiprocessing.get_context("forkserver")
# PyTorch imports its compiler when it is told to be deterministic: two seconds that each process would spend anew.
SERVER.set_forkserver_preload(["bayesgrad.training.loop", "torch._inductor"])


@pytest.fixture
def tmp_path(quick_folder):
    """Below which everything of these tests is written."""
    return quick_folder


def work(folder: str, brake: int | None = None) -> None:
    """The run; from the step ``brake`` on it waits for its end, so that a busy machine cannot finish before a kill."""
    append = files.Metrics.append

    def braked(metrics, **row) -> None:
        append(metrics, **row)
        while brake is not None and row["step"] >= brake:
            time.sleep(1)

    files.Metrics.append = braked
    runs.execute(CONFIG.as_json(), 0, folder, "kill-test")


class Dying:
    """A file whose write stops after ``share`` of the bytes, with the process."""

    def __init__(self, out, share: float) -> None:
        self.out, self.share = out, share

    def write(self, data: bytes) -> None:
        self.out.write(data[: int(self.share * len(data))])
        self.out.flush()
        if self.share == 1.0:
            os.fsync(self.out.fileno())  # all there, but not yet moved into place
        os.kill(os.getpid(), signal.SIGKILL)


def work_and_die_in_a_checkpoint(folder: str, writes: int, share: float) -> None:
    """Kill the process inside its ``writes``-th checkpoint write, after ``share`` of the bytes."""
    write_whole, left = files.write_whole, [writes]

    def dying(path, fill):
        left[0] -= path.suffix == ".pt"
        write_whole(path, fill if left[0] else lambda out: fill(Dying(out, share)))

    files.write_whole = dying
    work(folder)


def record(folder: Path) -> tuple[dict, list, dict]:
    """What must be the same: the result without times, every metrics line, the last checkpoint to the bit."""
    import torch

    result = files.read_json(folder / "result.json", "a result")
    for name in ("seconds", "finished"):
        result.pop(name)
    newest = sorted((folder / "checkpoints").glob("step-*.pt"))[-1]
    state = torch.load(newest, weights_only=True)
    tensors = state["parameters"] | {f"m.{name}": value for name, value in state["state"]["m"].items()}
    return result, files.read_metrics(folder / "metrics.jsonl"), {k: v.numpy().tobytes() for k, v in tensors.items()}


def step_of(folder: Path) -> int:
    row = last_row(folder / "metrics.jsonl")
    return -1 if row is None else row["step"]


def test_twenty_kills_leave_the_same_record(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    first = SERVER.Process(target=work, args=(str(whole),))
    first.start()
    moments = random.Random(0)
    inside = 0
    for kill in range(20):
        if kill % 4 == 3:
            share = (0.0, 0.3, 0.7, 0.99, 1.0)[inside]
            process = SERVER.Process(
                target=work_and_die_in_a_checkpoint, args=(str(parts), moments.randint(1, 4), share)
            )
            process.start()
            process.join(120)
            inside += 1
        else:
            before = step_of(parts)
            goal = before + moments.randint(1, 12)
            process = SERVER.Process(target=work, args=(str(parts), goal + 6))
            process.start()
            deadline = time.monotonic() + 120
            while step_of(parts) < goal and process.is_alive() and time.monotonic() < deadline:
                time.sleep(0.0005)
            time.sleep(moments.random() * 0.003)
            process.kill()
            process.join(120)
        assert process.exitcode == -signal.SIGKILL, f"kill {kill}: ended with {process.exitcode} before it was killed"
    assert inside == 5
    assert not (parts / "result.json").exists()
    last = SERVER.Process(target=work, args=(str(parts),))
    last.start()
    for process in (first, last):
        process.join(300)
        assert process.exitcode == 0
    assert step_of(whole) == STEPS
    assert record(parts) == record(whole)
