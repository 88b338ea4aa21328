"""The harness at toy size: configs, the loop and its resumption, files that survive, caching, the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from bayesgrad.training import (
    checkpoints,
    files,
    head_gradients,
    records,
    runs,
    sources,
    statistics,
    update_rules,
    updates,
)
from bayesgrad.training.cli import main
from bayesgrad.training.config import SGD, Config, OneHead, StickyMarkov, from_json
from bayesgrad.training.data import Batch
from bayesgrad.training.loop import train
from bayesgrad.training.model import initial_parameters

ROOT = Path(__file__).resolve().parents[1]
TOY = Config(
    task=StickyMarkov(length=40, symbols=3, d_x=4, held_out=1),
    model=OneHead(d_k=2, d_v=3),
    update=SGD(rate=0.05),
    steps=12,
    evaluate_every=6,
    checkpoint_every=4,
)


def toy(**changes) -> Config:
    return from_json(TOY.as_json() | changes)


def outcome(folder: Path) -> tuple[list, bytes]:
    newest = checkpoints.newest(folder / "checkpoints", config_hash=TOY.hash, seed=0)
    assert newest is not None
    return files.read_metrics(folder / "metrics.jsonl"), b"".join(
        p.numpy().tobytes() for p in newest.parameters.values()
    )


# configs


def test_a_config_survives_json_and_is_named_by_its_content():
    again = from_json(json.loads(json.dumps(TOY.as_json())))
    assert again == TOY
    assert again.hash == TOY.hash
    assert toy(steps=13).hash != TOY.hash
    assert len(TOY.hash) == 12


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"stepz": 3}, r"config: unknown key 'stepz', .*did you mean 'steps'"),
        ({"task": {"kind": "sticky-markov", "lenght": 9}}, r"config\.task: unknown key 'lenght'.*'length'"),
        ({"task": {"kind": "chess"}}, r"config\.task\.kind: got 'chess', expected one of"),
        ({"update": {"kind": "sgd", "rate": -1}}, r"rate: got -1, expected a positive number"),
        ({"update": {"kind": "sgd", "rate": float("nan")}}, r"rate: got nan"),
        ({"steps": -1}, r"steps: got -1"),
        ({"steps": 1.5}, r"steps: got 1.5"),
        ({"model": {"kind": "one-head", "d_k": 0}}, r"d_k: got 0"),
        ({"gradients": "magic"}, r"gradients: got 'magic', expected one of"),
        ({"task": 3}, r"config\.task: got 3"),
        ([1], r"config: got list"),
    ],
)
def test_a_config_refuses_what_it_does_not_know(data, words):
    with pytest.raises(ValueError, match=words):
        from_json(data)


def test_configs_import_no_torch():
    code = "import sys, bayesgrad.training.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# gradients and updates


def test_all_gradient_paths_agree():
    wide = from_json(TOY.as_json() | {"dtype": "float64"})
    parameters = initial_parameters(wide, 3)
    rng = np.random.default_rng(0)
    batch = Batch(torch.tensor(rng.standard_normal((17, 4))), torch.tensor(rng.integers(0, 3, 17)))
    loss, reference = head_gradients.autograd(parameters, batch)
    for name, path in head_gradients.WAYS.items():
        other, got = path(parameters, batch)
        torch.testing.assert_close(other, loss, rtol=1e-12, atol=0, msg=name)
        for matrix, value in reference.items():
            torch.testing.assert_close(got[matrix], value, rtol=1e-9, atol=1e-15, msg=f"{name} {matrix}")


def test_a_factor_multiplies_the_rate_of_its_matrix_alone():
    parameters = initial_parameters(TOY, 0)
    batch = Batch(torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(9, dtype=torch.long))
    _, slopes = head_gradients.autograd(parameters, batch)
    rule = updates.make_update(SGD(rate=0.5, factors={"W_V": 10.0}))
    oracle = update_rules.Oracle(head_gradients.autograd, batch)
    after = rule(parameters, oracle, rule.start(parameters))
    assert oracle.passes == 1
    for name, before in parameters.items():
        rate = 5.0 if name == "W_V" else 0.5
        torch.testing.assert_close(after.parameters[name], before - rate * slopes[name])


def test_a_factor_for_an_unknown_matrix_is_refused():
    with pytest.raises(ValueError, match=r"factors: got 'W_X', expected one of W_Q"):
        updates.make_update(SGD(factors={"W_X": 2.0})).start(initial_parameters(TOY, 0))


# the loop


def test_training_lowers_the_loss_and_logs_every_step(tmp_path):
    result = train(TOY, 0, tmp_path)
    rows = files.read_metrics(tmp_path / "metrics.jsonl")
    assert result["state"] == "finished"
    assert [row["step"] for row in rows] == list(range(13))
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert [row["step"] for row in rows if "held_out_kl_bits" in row] == [0, 6, 12]
    assert all(row["held_out_kl_bits"] >= 0 for row in rows if "held_out_kl_bits" in row)


def test_a_run_is_a_function_of_config_and_seed(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(TOY, seed, tmp_path / name)
    a, b, c = (files.read_metrics(tmp_path / name / "metrics.jsonl") for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize("stop_at", [0, 1, 4, 5, 11, 12])
def test_an_interrupted_run_resumes_bit_for_bit(tmp_path, stop_at):
    train(TOY, 0, tmp_path / "whole")
    asked = iter(range(100))
    result = train(TOY, 0, tmp_path / "parts", stopping=lambda: next(asked) == stop_at)
    assert result["state"] == "interrupted"
    assert result["step"] == stop_at
    train(TOY, 0, tmp_path / "parts")
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_a_run_that_lost_everything_after_a_checkpoint_resumes_bit_for_bit(tmp_path):
    train(TOY, 0, tmp_path / "whole")
    train(TOY, 0, tmp_path / "parts")
    for step in (8, 12):  # as a kill leaves it: an older checkpoint, newer metrics, half a line
        (tmp_path / "parts" / "checkpoints" / f"step-{step:07d}.pt").unlink()
    asked = iter(range(100))
    train(TOY, 0, tmp_path / "parts", stopping=lambda: next(asked) == 7)
    with open(tmp_path / "parts" / "metrics.jsonl", "ab") as out:
        out.write(b'{"step": 7, "lo')
    (tmp_path / "parts" / "checkpoints" / ".step-0000008.pt.x.part").write_bytes(b"half")
    train(TOY, 0, tmp_path / "parts")
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_a_diverging_rate_stops_with_the_last_good_state_and_a_sentence(tmp_path):
    wild = toy(update={"kind": "sgd", "rate": 1e6}, steps=400)
    result = train(wild, 0, tmp_path)
    assert result["state"] == "diverged"
    assert "lower the learning rate" in result["message"]
    good = checkpoints.newest(tmp_path / "checkpoints", config_hash=wild.hash, seed=0)
    assert good is not None
    assert good.step == result["step"]
    assert all(bool(value.isfinite().all()) for value in good.parameters.values())
    assert all(row["loss"] is not None for row in files.read_metrics(tmp_path / "metrics.jsonl"))


# files


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    train(TOY, 0, tmp_path)
    path = sorted((tmp_path / "checkpoints").glob("*.pt"))[-1]
    assert torch.load(path, weights_only=True)["seed"] == 0
    with pytest.raises(files.RunError, match="belongs to config"):
        checkpoints.load(path, config_hash="0" * 12, seed=0)
    with pytest.raises(files.RunError, match=r"with seed 0, expected config .* with seed 1"):
        checkpoints.load(path, config_hash=TOY.hash, seed=1)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(files.RunError, match="damaged"):
        checkpoints.load(path, config_hash=TOY.hash, seed=0)


def test_a_disk_that_fills_up_at_the_last_moment_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(files.RunError, match=r"cannot write \(No space left on device\)"):
        train(TOY, 0, tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_damage_inside_a_metrics_file_is_refused_and_a_half_line_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 0, "loss": 1.0}\n{"step": 1, "lo')
    assert [row["step"] for row in files.read_metrics(path)] == [0]
    path.write_text('{"step": 0}\nnonsense\n{"step": 2}\n')
    with pytest.raises(files.RunError, match="line 2: not a metrics line"):
        files.read_metrics(path)


def test_a_finished_run_is_not_redone_and_changed_sources_redo_it(tmp_path):
    folder = tmp_path / "run"
    first = runs.execute(TOY.as_json(), 0, str(folder), "print-1")
    again = runs.execute(TOY.as_json(), 0, str(folder), "print-1")
    assert again == json.loads(json.dumps(first))
    other = runs.execute(TOY.as_json(), 0, str(folder), "print-2")
    assert other["fingerprint"] == "print-2"
    with pytest.raises(files.RunError, match="belongs to config"):
        runs.execute(toy(steps=5).as_json(), 0, str(folder), "print-2")


def test_the_sources_of_a_run_are_what_it_imports():
    found = sources.closure("bayesgrad.training.loop")
    for name in ("training/loop.py", "training/updates.py", "tasks/sticky_markov.py", "gradients.py", "_head.py"):
        assert f"bayesgrad/{name}" in found
    assert not {name for name in found if "cli" in name or "progress" in name or "records" in name}


# statistics


def test_intervals_and_paired_tests():
    low, high = statistics.interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert 1 < low < 3 < high < 5
    assert statistics.interval([2.0]) == (2.0, 2.0)
    assert statistics.sign_flip_p([1.0, 1.1, 0.9, 1.2, 1.05]) == pytest.approx(2 / 32)
    assert statistics.sign_flip_p([1.0, -1.0]) == 1.0
    assert statistics.first_at_most([3.0, 2.0, 1.0], 2.0) == 1
    assert statistics.first_at_most([3.0, 2.0], 0.5) is None


# the command line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nonsense"], "experiment: got 'nonsense', expected one of laws-in-training"),
        (["run", "--size", "huge"], "--size: got 'huge', expected one of quick, full"),
        (["run", "--workers", "0"], "--workers: got 0"),
        (["run", "missing.json"], "missing.json: no such file"),
        (["show", "nonsense"], "neither an experiment"),
        (["resume", "nowhere"], "no such file, expected the config of a run"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(arguments, words, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not readable as JSON"),
        ("[]", "holds a JSON list"),
        ('{"schema": 99}', "schema 99"),
        ('{"schema": 1}', "missing"),
    ],
)
def test_damaged_records_are_refused(tmp_path, content, words, capsys):
    path = tmp_path / "record.json"
    path.write_text(content)
    assert main(["show", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_a_config_of_ones_own_runs_shows_and_compares(tmp_path, capsys):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(TOY.as_json()))
    store = str(tmp_path / "runs")
    for seed in ("0", "1"):
        assert main(["run", str(path), "--seed", seed, "--runs", store]) == 0
    folders = sorted((tmp_path / "runs" / "own").iterdir())
    assert [folder.name for folder in folders] == [f"{TOY.hash}-0", f"{TOY.hash}-1"]
    assert main(["show", str(folders[0])]) == 0
    assert main(["compare", str(folders[0]), str(folders[0])]) == 0
    assert main(["compare", *map(str, folders)]) == 1
    assert "differences" in capsys.readouterr().out


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(TOY.as_json()))
    assert main(["run", str(path), "--runs", str(path)]) == 2  # a file stands where the folder should
    assert f"{path}" in (error := capsys.readouterr().err)
    assert error.count("\n") == 1


def test_an_edited_config_is_not_resumed(tmp_path, capsys):
    folder = tmp_path / "own" / f"{TOY.hash}-0"
    runs.execute(TOY.as_json(), 0, str(folder), "x")
    data = json.loads((folder / "config.json").read_text())
    data["config"]["steps"] = 99
    (folder / "config.json").write_text(json.dumps(data))
    assert main(["resume", str(folder)]) == 2
    assert "it was edited" in capsys.readouterr().err


def test_interrupt_saves_says_how_to_go_on_and_goes_on(tmp_path):
    long = toy(steps=200_000, checkpoint_every=100_000, evaluate_every=100_000)
    path = tmp_path / "long.json"
    path.write_text(json.dumps(long.as_json()))
    command = [sys.executable, "-m", "bayesgrad.training", "run", str(path), "--runs", str(tmp_path / "runs")]
    folder = tmp_path / "runs" / "own" / f"{long.hash}-0"
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not (folder / "metrics.jsonl").exists() or (folder / "metrics.jsonl").stat().st_size == 0:
        assert time.monotonic() < deadline, "the run did not start"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 130, error
    assert f"python -m bayesgrad.training resume {folder}" in error
    result = json.loads((folder / "result.json").read_text())
    assert result["state"] == "interrupted"
    saved = checkpoints.newest(folder / "checkpoints", config_hash=long.hash, seed=0)
    assert saved is not None
    assert saved.step == result["step"] > 0


# records


def test_comparing_records_ignores_time_and_place():
    left = {"seconds": 1, "date": "a", "x": [1, {"seconds": 2}], "y": 1}
    right = {"seconds": 2, "date": "b", "x": [1, {"seconds": 3}], "y": 2}
    assert list(records.differences(left, right)) == ["y: 1 against 2"]


def watched(**changes):
    """The laws observed along a few steps of a toy run."""
    return toy(dtype="float64", gradients="closed", laws=39, **changes)


@pytest.mark.parametrize(
    "update",
    [
        {"kind": "sgd", "rate": 0.3},
        {"kind": "sgd", "rate": 0.1, "factors": {"W_V": 10.0}, "momentum": 0.9},
        {"kind": "adamw", "rate": 0.02, "weight_decay": 0.1, "warm_up": 3, "clip": 1.0},
        {"kind": "natural", "rate": 0.3},
        {"kind": "alternating", "rate": 0.3},
    ],
    ids=["sgd", "em-like with momentum", "adamw", "natural", "alternating"],
)
def test_the_laws_hold_along_the_steps_of_every_rule(tmp_path, update):
    train(watched(update=update), 0, tmp_path)
    rows = [row["laws"] for row in files.read_metrics(tmp_path / "metrics.jsonl") if "laws" in row]
    assert len(rows) == 3
    for row in rows:
        assert max(row["gradient_error"].values()) < 1e-12
        assert all(abs(slope - 2) < 0.1 for slope in row["changes"]["slope"].values())
        assert max(row["exact"].values()) < 1e-10
        assert row["feedback"]["law_agrees"] == 1


def test_a_wrong_law_does_not_pass_the_observation(tmp_path, monkeypatch):
    """Negative control: with the sign of the score gradient flipped, errors and slopes say so."""
    from bayesgrad import _head as laws_of_the_head
    from bayesgrad.training.experiments.observations import observations

    right = laws_of_the_head.score_gradient_of
    monkeypatch.setattr(laws_of_the_head, "score_gradient_of", lambda xp, a, b: -right(xp, a, b))
    train(watched(update={"kind": "sgd", "rate": 0.3}), 0, tmp_path)
    job = runs.Job("toy", "SGD", watched(update={"kind": "sgd", "rate": 0.3}), 0)
    rows = files.read_metrics(tmp_path / "metrics.jsonl")
    found = observations([runs.Run(job, {}, rows)])
    for label in ("attention.routing-law", "attention.query-law", "attention.key-law", "dynamics.loss-decrease"):
        assert found[label]["verdict"] == "not confirmed", label
    assert found["attention.value-law"]["verdict"] == "confirmed"


# the bench


def test_the_bench_finds_the_same_losses_by_every_path(capsys):
    from bayesgrad.training import bench

    found = bench.measure(TOY, seeds=1, steps=7, turn=3)
    assert set(found["seconds"]) == set(head_gradients.WAYS)
    assert all(seconds > 0 for part in ("seconds", "processor_seconds") for seconds in found[part].values())
    assert max(found["final_loss_difference"].values()) < 1e-5
    assert bench.main(["--seeds", "0"]) == 2
    assert "--seeds: got 0" in capsys.readouterr().err
