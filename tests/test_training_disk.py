"""Places that refuse to be written, for real: a limit that the kernel enforces, and a folder of somebody else's."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from bayesgrad.training import checkpoints, files, runs
from bayesgrad.training.config import SGD, Config, OneHead, StickyMarkov
from bayesgrad.training.loop import train

ROOT = Path(__file__).resolve().parents[1]
# checkpoints of some 480 kB, metrics of some 60 bytes a step
CONFIG = Config(
    task=StickyMarkov(length=30, symbols=3, d_x=400, held_out=1),
    model=OneHead(d_k=100, d_v=100),
    update=SGD(rate=0.001),
    steps=40,
    evaluate_every=40,
    checkpoint_every=10,
)
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["bayesgrad.training.loop"])
NOBODY = 65534


@pytest.fixture
def limited():
    """A setter for the largest file that this process may write; beyond it the kernel refuses, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_checkpoint_that_does_not_fit_is_one_sentence_and_leaves_nothing_half(tmp_path, limited):
    limited(200_000)
    with pytest.raises(files.RunError, match=r"step-0000010\.pt: cannot write \(File too large\); make room") as caught:
        train(CONFIG, 0, tmp_path)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "checkpoints").iterdir())
    assert len(files.read_metrics(tmp_path / "metrics.jsonl")) == 10
    limited(resource.RLIM_INFINITY)
    assert train(CONFIG, 0, tmp_path)["state"] == "finished"


def test_metrics_that_do_not_fit_end_at_a_whole_line_and_the_run_goes_on_from_its_checkpoint(tmp_path, limited):
    long = replace(CONFIG, model=OneHead(d_k=2, d_v=2), steps=400, evaluate_every=400)
    limited(12_000)
    with pytest.raises(files.RunError, match=r"metrics\.jsonl: (the disk is full|cannot write \(File too large\))"):
        train(long, 0, tmp_path / "parts")
    kept = files.read_metrics(tmp_path / "parts" / "metrics.jsonl")
    saved = checkpoints.newest(tmp_path / "parts" / "checkpoints", config_hash=long.hash, seed=0)
    assert saved is not None
    assert 0 < saved.step <= len(kept) < 400
    limited(resource.RLIM_INFINITY)
    assert train(long, 0, tmp_path / "parts")["state"] == "finished"
    assert [row["step"] for row in files.read_metrics(tmp_path / "parts" / "metrics.jsonl")] == list(range(401))


def as_somebody_else(folder: str, answer) -> None:
    import torch

    torch.use_deterministic_algorithms(True)  # imports more of torch, which somebody else may not read
    if os.geteuid() == 0:
        os.setuid(NOBODY)  # root may write anywhere
    try:
        runs.execute(CONFIG.as_json(), 0, folder, "x")
        answer.send("done")
    except files.RunError as error:
        answer.send(str(error))


@pytest.mark.parametrize("there", [False, True], ids=["nothing there", "a run there"])
def test_a_folder_that_may_not_be_written_is_one_sentence(there):
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(place) / "run"
        if there:
            runs.execute(CONFIG.as_json(), 0, str(folder), "another fingerprint")
        os.chmod(folder if there else place, 0o555)
        ours, theirs = SERVER.Pipe()
        process = SERVER.Process(target=as_somebody_else, args=(str(folder), theirs))
        process.start()
        theirs.close()
        assert ours.poll(120)
        said = ours.recv()
        process.join(60)
        os.chmod(place, 0o755)
        assert said.startswith(f"{folder}: cannot write (Permission denied); choose another folder")
        assert "\n" not in said


# a limit set by the child itself: nothing may be forked from a process in which JAX has started its threads
SMALL = """
import resource, sys
from bayesgrad.training.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
sys.exit(main(sys.argv[1:]))
"""


def test_the_command_line_says_it_in_one_sentence_and_goes_on_when_there_is_room(tmp_path):
    config = tmp_path / "mine.json"
    config.write_text(json.dumps(CONFIG.as_json()))
    asked = ["run", str(config), "--runs", str(tmp_path / "runs")]
    done = subprocess.run([sys.executable, "-c", SMALL, *asked], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "cannot write (File too large); make room" in done.stderr
    command = [sys.executable, "-m", "bayesgrad.training", *asked]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
