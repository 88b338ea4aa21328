"""Nothing that was computed is lost: not by an edit of the sources, not by a damaged checkpoint or metrics file."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from bayesgrad.training import checkpoints, cli, files, records, runs, sources
from bayesgrad.training.config import SGD, Config, OneHead, StickyMarkov
from bayesgrad.training.experiments import EXPERIMENTS
from bayesgrad.training.loop import train

TOY = Config(
    task=StickyMarkov(length=40, symbols=3, d_x=4, held_out=1),
    model=OneHead(d_k=2, d_v=3),
    update=SGD(rate=0.05),
    steps=12,
    evaluate_every=6,
    checkpoint_every=4,
)
JOB = runs.Job("own", "toy", TOY, 0)
MINE = {"config_hash": TOY.hash, "seed": 0}


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_of_other_sources_moves_aside_whole(tmp_path):
    folder = tmp_path / "own" / JOB.name
    for stamp, made in (("first-sources", 0), ("second-sources", 1), ("first-sources", 2), ("third-sources", 3)):
        before = contents(folder) if folder.exists() else {}
        runs.execute(TOY.as_json(), 0, str(folder), stamp)
        aside = sorted((tmp_path / "own" / "stale").glob("*")) if made else []
        assert len(aside) == made
        kept = [contents(each) for each in aside]
        assert not made or {n: data for n, data in before.items() if n != ".lock"} in kept
    assert {each.name.removeprefix(f"{JOB.name}-") for each in aside} == {
        "first-source",
        "second-sourc",
        "first-source-2",
    }


def test_a_move_that_was_interrupted_is_finished(tmp_path):
    folder = tmp_path / "own" / JOB.name
    runs.execute(TOY.as_json(), 0, str(folder), "before")
    whole = contents(folder)
    half = tmp_path / "own" / "stale" / f"{JOB.name}-before"
    half.mkdir(parents=True)
    shutil.move(folder / "metrics.jsonl", half)
    runs.execute(TOY.as_json(), 0, str(folder), "after")
    assert contents(half) == {name: data for name, data in whole.items() if name != ".lock"}


def test_resuming_a_run_of_other_sources_is_refused_and_running_says_where_it_goes(tmp_path, capsys):
    (tmp_path / "toy.json").write_text(json.dumps(TOY.as_json()))
    assert cli.main(["run", str(tmp_path / "toy.json"), "--runs", str(tmp_path / "runs")]) == 0
    (folder,) = (tmp_path / "runs" / "own").iterdir()
    assert cli.main(["resume", str(folder)]) == 0
    for name in ("config.json", "result.json"):
        data = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(data | {"fingerprint": "of an older checkout"}))
    before = contents(folder)
    capsys.readouterr()
    assert cli.main(["resume", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "made by other sources or versions than these, so it cannot go on; it stays as it is" in said
    assert said.count("\n") == 1
    assert contents(folder) == before
    again = said.split("python -m bayesgrad.training ")[1].split()
    assert cli.main(again) == 0
    assert "1 of them were made by other sources" in capsys.readouterr().out.replace("\n", " ")
    (aside,) = (tmp_path / "runs" / "own" / "stale").iterdir()
    assert {name: data for name, data in before.items() if name != ".lock"} == contents(aside)


def test_a_run_of_an_experiment_is_resumed_with_the_sources_of_the_experiment(tmp_path, capsys):
    job = runs.Job("sticky-markov", "toy", TOY, 0)
    stamp = sources.fingerprint(sources.programs(*EXPERIMENTS["sticky-markov"].modules), cli.THREADS)
    runs.execute(TOY.as_json(), 0, str(job.folder(tmp_path)), stamp)
    before = contents(job.folder(tmp_path))
    assert cli.main(["resume", str(job.folder(tmp_path))]) == 0
    assert contents(job.folder(tmp_path)) == before


def test_a_comment_or_a_docstring_makes_no_other_run_and_a_number_does(tmp_path):
    path = tmp_path / "rule.py"
    said = []
    for text in (
        'def step(x):\n    """One."""\n    return 2 * x\n',
        "# why\ndef step(x):\n\n    return 2 * x  # twice\n",
        "def step(x):\n    return 3 * x\n",
    ):
        path.write_text(text)
        said.append(sources._program(path, text))
    assert said[0] == said[1] != said[2]
    assert sources.programs("bayesgrad.training.loop").keys() == sources.closure("bayesgrad.training.loop").keys()


def test_a_damaged_newest_checkpoint_costs_a_few_steps_and_changes_no_number(tmp_path):
    calm, hurt = tmp_path / "calm", tmp_path / "hurt"
    train(TOY, 0, calm)
    asked = []
    train(TOY, 0, hurt, stopping=lambda: asked.append(1) or len(asked) > 10)  # 10 steps done, checkpoints at 8 and 10
    older, newest = sorted((hurt / "checkpoints").glob("*.pt"))
    data = torch.load(newest, weights_only=True)
    next(iter(data["parameters"].values())).view(-1)[0] += 1e-3  # a bit that flipped on disk
    torch.save(data, newest)
    with pytest.raises(checkpoints.Damaged, match="does not have its checksum"):
        checkpoints.load(newest, **MINE)
    assert checkpoints.newest(hurt / "checkpoints", **MINE).step == checkpoints.load(older, **MINE).step == 8
    train(TOY, 0, hurt)
    assert files.read_metrics(hurt / "metrics.jsonl") == files.read_metrics(calm / "metrics.jsonl")
    for path in (hurt / "checkpoints").glob("*.pt"):
        path.write_bytes(b"nothing")
    with pytest.raises(files.RunError, match="damaged or no checkpoint"):
        checkpoints.newest(hurt / "checkpoints", **MINE)


def test_metrics_that_lack_steps_are_told_and_decide_nothing(tmp_path):
    assert files.gaps([{"step": s} for s in (0, 1, 4, 6)], 8) == [[2, 3], [5, 5], [7, 8]]
    folder = JOB.folder(tmp_path)
    asked = []
    runs.claim_folder(folder, TOY, 0, "stamp", "toy")
    train(TOY, 0, folder, fingerprint="stamp", stopping=lambda: asked.append(1) or len(asked) > 10)
    rows = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(rows[:3] + rows[6:]))
    result = runs.execute(TOY.as_json(), 0, str(folder), "stamp")
    assert result["gaps"] == [[3, 5]]
    run = runs.read(JOB, tmp_path, "stamp")
    assert [row["step"] for row in run.metrics] == [0, 1, 2, *range(6, 13)]

    class Judged:
        id, code, title, question, claims = "toy", "X0", "", "", ()

        @staticmethod
        def summarise(size, usable):
            return {"claims": [{"id": "x", "verdict": "supported"}]}

    (row,) = records.build(Judged, "full", [JOB], [run], fingerprint="", threads=1)["claims"]
    assert (row["verdict"], row["detail"]["reason"]) == (
        "not tested",
        f"metrics are not whole: {JOB.name} lacks steps 3 to 5",
    )
    rows = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(rows[:-2]))
    with pytest.raises(files.RunError, match="steps 11 to 12 are missing although the run finished"):
        runs.read(JOB, tmp_path, "stamp")


def test_a_worker_with_other_sources_refuses(tmp_path):
    right = sources.fingerprint(sources.programs(*cli.OWN), 1)
    with pytest.raises(files.RunError, match="are not those of the caller"):
        runs.execute(TOY.as_json(), 0, str(tmp_path / "run"), "the caller's", modules=cli.OWN)
    assert not (tmp_path / "run").exists()
    assert runs.execute(TOY.as_json(), 0, str(tmp_path / "run"), right, modules=cli.OWN)["state"] == "finished"
