"""Sweeps: grids, executors, a killed worker, a cluster with a killed worker, data parallelism, TensorBoard."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bayesgrad.training import cli, files, runs, sweep
from bayesgrad.training.config import SGD, Config, OneHead, StickyMarkov, from_json

ROOT = Path(__file__).resolve().parents[1]
TOY = Config(
    task=StickyMarkov(length=40, symbols=3, d_x=4, held_out=1),
    model=OneHead(d_k=2, d_v=3),
    update=SGD(rate=0.05),
    steps=10,
    evaluate_every=10,
    checkpoint_every=5,
)
PYTHON = [sys.executable, "-m", "bayesgrad.training"]


@pytest.fixture
def tmp_path(quick_folder):
    """Below which everything of these tests is written."""
    return quick_folder


def jobs(count: int, **changes) -> list[runs.Job]:
    config = from_json(TOY.as_json() | changes)
    return [runs.Job("toy", "SGD", config, seed) for seed in range(count)]


def figures(todo: list[runs.Job], root: Path) -> list[list[dict]]:
    return [files.read_metrics(job.folder(root) / "metrics.jsonl") for job in todo]


def test_a_grid_is_every_combination():
    cells = cli.grid(TOY.as_json(), ["update.rate=0.1,0.2", "gradients=closed,fused"])
    assert [(c.update.rate, c.gradients) for _, c in cells] == [
        (0.1, "closed"),
        (0.1, "fused"),
        (0.2, "closed"),
        (0.2, "fused"),
    ]
    assert cells[0][0] == "update.rate=0.1 gradients=closed"


@pytest.mark.parametrize(
    ("settings", "words"),
    [(["rate"], "expected KEY=VALUE"), (["update.speed=1"], "unknown key 'speed'"), (["steps.x=1"], "is a value")],
)
def test_a_bad_grid_is_one_sentence(settings, words):
    with pytest.raises(ValueError, match=words):
        cli.grid(TOY.as_json(), settings)


def undisturbed(todo: list[runs.Job], root: Path) -> None:
    """The same runs one after the other, here."""
    for job in todo:
        runs.execute(job.config.as_json(), job.seed, str(job.folder(root)), "x", label=job.arm)


def test_any_executor_gives_the_same_numbers(tmp_path):
    todo = jobs(3)
    with ThreadPoolExecutor(1) as threads:
        sweep.run_jobs(todo, tmp_path / "threads", "x", executor=threads)
    sweep.run_jobs(todo, tmp_path / "processes", "x", workers=2)
    assert figures(todo, tmp_path / "threads") == figures(todo, tmp_path / "processes")


def test_a_killed_worker_loses_nothing(tmp_path):
    todo = jobs(2, steps=800, checkpoint_every=50, evaluate_every=800)
    killed = []

    def watch(active):
        # kill one worker, once both runs are under way
        if killed or any(not (job.folder(tmp_path / "a") / "checkpoints").exists() for job in todo):
            return
        worker = multiprocessing.active_children()[-1]
        worker.kill()
        killed.append(worker)

    sweep.run_jobs(todo, tmp_path / "a", "x", workers=2, watch=watch)
    assert killed
    undisturbed(todo, tmp_path / "b")
    assert figures(todo, tmp_path / "a") == figures(todo, tmp_path / "b")


def test_a_worker_ends_when_its_parent_is_killed(tmp_path):
    config = tmp_path / "long.json"
    config.write_text(json.dumps(TOY.as_json() | {"steps": 10**6, "evaluate_every": 10**6, "checkpoint_every": 1000}))
    command = [*PYTHON, "run", str(config), "--runs", str(tmp_path / "runs")]
    parent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        metrics = next_file(tmp_path / "runs", "metrics.jsonl")
    finally:
        parent.kill()
        parent.wait()
    with files.locked(metrics.parent, patience=300):  # the orphan held it
        size = metrics.stat().st_size
        time.sleep(0.3)
        assert metrics.stat().st_size == size


def next_file(root: Path, name: str, seconds: float = 300) -> Path:
    """The first non-empty file of that name below ``root``, waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for path in root.rglob(name):
            if path.stat().st_size:
                return path
        time.sleep(0.05)
    raise AssertionError(f"no {name} appeared below {root}")


CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    options = {"processes": True, "dashboard_address": None, "memory_limit": None}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as c:
        print(c.scheduler_address, *(nanny.pid for nanny in c.workers.values()), flush=True)
        sys.stdin.readline()
"""


def test_a_cluster_that_loses_a_worker_loses_no_run(tmp_path):
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    cluster = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        address, *pids = cluster.stdout.readline().split()
        config = tmp_path / "toy.json"
        config.write_text(json.dumps(TOY.as_json() | {"steps": 500, "evaluate_every": 500, "checkpoint_every": 50}))
        command = [*PYTHON, "run", str(config), "--seeds", "3", "--runs"]
        sweeping = subprocess.Popen(
            [*command, str(tmp_path / "cluster"), "--scheduler", address], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        try:
            next_file(tmp_path / "cluster", "step-0000050.pt")
            os.kill(int(pids[0]), signal.SIGKILL)
            output, _ = sweeping.communicate(timeout=600)
        finally:
            sweeping.kill()
        assert sweeping.returncode == 0, output
    finally:
        cluster.communicate(timeout=300)
    todo = [runs.Job("own", "toy", from_json(json.loads(config.read_text())), seed) for seed in range(3)]
    undisturbed(todo, tmp_path / "local")
    assert figures(todo, tmp_path / "cluster") == figures(todo, tmp_path / "local")


def test_a_scheduler_that_does_not_answer_is_one_sentence(tmp_path, capsys):
    config = tmp_path / "toy.json"
    config.write_text(json.dumps(TOY.as_json()))
    assert cli.main(["run", str(config), "--runs", str(tmp_path), "--scheduler", "nonsense://x"]) == 2
    assert "--scheduler: got 'nonsense://x'" in capsys.readouterr().err


WIDE = {
    "task": {"kind": "bijection", "values": 4, "keys": 4, "batch": 32, "held_out": 32},
    "model": {"kind": "transformer", "layers": 1, "width": 16, "heads": 2},
    "update": {"kind": "adamw", "rate": 0.005},
    "steps": 20,
    "evaluate_every": 10,
    "checkpoint_every": 5,
}


def torchrun(*arguments: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "-m", "bayesgrad.training.distributed", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)


def test_two_processes_give_the_loss_of_one(tmp_path):
    config = tmp_path / "wide.json"
    config.write_text(json.dumps(WIDE))
    done = torchrun(str(config), "--runs", str(tmp_path))
    assert done.returncode == 0, done.stderr
    undisturbed([runs.Job("own", "wide", from_json(WIDE), 0)], tmp_path)
    two = files.read_metrics(next((tmp_path / "distributed").glob("*/metrics.jsonl")))
    one = files.read_metrics(next((tmp_path / "own").glob("*/metrics.jsonl")))
    assert [row["step"] for row in two] == list(range(21))
    for left, right in zip(two, one, strict=True):
        assert left["loss"] == pytest.approx(right["loss"], rel=1e-6)


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    config = tmp_path / "odd.json"
    config.write_text(json.dumps(WIDE | {"task": WIDE["task"] | {"batch": 33}}))
    done = torchrun(str(config), "--runs", str(tmp_path))
    assert done.returncode != 0
    assert "task.batch: got 33, expected a multiple of 2 processes" in done.stderr


def test_tensorboard_mirrors_the_metrics(tmp_path):
    config = tmp_path / "toy.json"
    config.write_text(json.dumps(TOY.as_json()))
    command = [*PYTHON, "run", str(config), "--runs", str(tmp_path / "r"), "--tensorboard", str(tmp_path / "tb")]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    read = """
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]); events.Reload()
print(len(events.Scalars("loss")), events.Scalars("held_out_kl_bits")[-1].step)
"""
    folder = next((tmp_path / "tb" / "own").iterdir())
    shown = subprocess.run([sys.executable, "-c", read, str(folder)], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["11", "10"]
