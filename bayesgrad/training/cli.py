"""The command line.

``--list`` | ``run [EXPERIMENT] --size quick|full`` | ``run CONFIG.json --seeds 5 --set update.rate=0.01,0.1`` |
``show WHAT`` | ``compare A B`` | ``resume FOLDER``; anywhere ``--scheduler tcp://HOST:PORT`` for a Dask cluster

What is finished and fresh is not redone. Bad input is one sentence and exit status 2; Ctrl-C finishes the steps at
hand, saves, says how to go on, and exits with 130.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayesgrad.training import records
from bayesgrad.training.config import Config, digest, from_json
from bayesgrad.training.experiments import EXPERIMENTS, SIZES, Experiment, experiment
from bayesgrad.training.files import RunError, read_json, read_metrics
from bayesgrad.training.runs import Job, Run, is_stale
from bayesgrad.training.sources import HOME, closure, fingerprint, programs

THREADS = 1
OWN = ("bayesgrad.training.loop",)
"""What a run of one's own config executes."""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m bayesgrad.training", description="Run experiments, judge claims.")
    top.add_argument("--list", action="store_true", help="the experiments, their claims, and what has been done")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    run = commands.add_parser("run", help="run an experiment (all of them without a name), or one config file")
    run.add_argument("what", nargs="?", help="an experiment, or a config.json")
    run.add_argument("--size", default="quick", help="quick (minutes) or full (hours); default quick")
    run.add_argument("--seed", type=int, default=0, help="first seed of a config file's runs; default 0")
    run.add_argument("--seeds", type=int, default=1, help="how many seeds of a config file; default 1")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=V1,V2",
        help="a grid over a config file's setting, repeatable",
    )
    _common(run)
    show = commands.add_parser("show", help="print an experiment's record, a record file, or a run folder")
    show.add_argument("what")
    show.add_argument("--size", default=None)
    compare = commands.add_parser("compare", help="where two records or two runs differ (exit status 1 if they do)")
    compare.add_argument("first")
    compare.add_argument("second")
    resume = commands.add_parser("resume", help="go on with a run folder that was interrupted or killed")
    resume.add_argument("folder")
    _common(resume)
    return top


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--runs", default="runs", help="folder of run folders; default runs")
    command.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes; default one a core")
    command.add_argument("--scheduler", default=None, help="address of a Dask scheduler that shares this file system")
    command.add_argument("--tensorboard", default=None, metavar="DIR", help="mirror the metrics into DIR")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    top = parser()
    try:
        options = top.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    for each in (signal.SIGINT, signal.SIGTERM):
        # also where the shell that started us in the background had it ignored
        with contextlib.suppress(ValueError):  # not the main thread: leave it to whoever is
            signal.signal(each, signal.default_int_handler)
    try:
        if options.list:
            return list_experiments()
        if options.command == "run":
            return run(options)
        if options.command == "show":
            return show(options)
        if options.command == "compare":
            return compare(options)
        if options.command == "resume":
            return resume(options)
    except OSError as error:
        where = error.filename or "the disk"
        print(f"bayesgrad.training: {where}: {error.strerror}; expected a place that can be written", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"bayesgrad.training: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; give the same command again to go on", file=sys.stderr)
        return 130
    top.print_help()
    return 2


def list_experiments() -> int:
    for each in EXPERIMENTS.values():
        print(f"{each.id}  ({each.code}) {each.title}\n    {each.question}")
        print(f"    claims: {', '.join(each.claims)}")
        for size in SIZES:
            path = records.path_of(HOME, each.id, size)
            jobs = each.plan(size, {})
            state = f"record {path.relative_to(HOME)}" if path.exists() else "no record"
            print(f"    {size}: {len(jobs)} runs to begin with, {state}")
    return 0


def run(options: argparse.Namespace) -> int:
    if options.size not in SIZES:
        raise ValueError(f"--size: got {options.size!r}, expected one of {', '.join(SIZES)}")
    if options.workers < 1:
        raise ValueError(f"--workers: got {options.workers}, expected at least 1")
    root = Path(options.runs)
    if options.what is not None and options.what.endswith(".json"):
        return run_config(Path(options.what), root, options)
    if options.set or options.seeds != 1 or options.seed:
        raise ValueError(
            "--seed, --seeds, --set: got an experiment, expected a config file (experiments fix their own)"
        )
    chosen = list(EXPERIMENTS.values()) if options.what is None else [experiment(options.what)]
    status = 0
    for each in chosen:
        status = run_experiment(each, options.size, root, options)
        if status:
            break
    if HOME.joinpath("derivations").is_dir():
        from bayesgrad.training import observed

        observed.write()
    return status


def record_key(each: Experiment, jobs: Sequence[Job]) -> str:
    """What a record must match to be fresh: the plan, and the sources of the runs and of what judges them."""
    files = closure(each.plan.__module__, "bayesgrad.training.records", *each.modules)
    return digest({"plan": records.plan_digest(jobs), "files": fingerprint(files, THREADS)})


def run_experiment(each: Experiment, size: Any, root: Path, options: argparse.Namespace) -> int:
    """Bring the record of an experiment up to date; 0, or 130 after an interrupt."""
    first = each.plan(size, {})
    key = record_key(each, first)
    path = records.path_of(HOME, each.id, size)
    if path.exists():
        try:
            record = records.load(path)
        except RunError:
            record = None
        if record and record["state"] == "finished" and record["fingerprint"] == key:
            print_summary(record, f"fresh, {path.relative_to(HOME)}")
            return 0

    from bayesgrad.training.sweep import Stopped, collect

    stamp = fingerprint(programs(*each.modules), THREADS)
    done: dict[str, Run] = {}
    jobs, status = first, 0
    while True:
        found = collect([job for job in jobs if job.name not in done], root, stamp)
        done |= found
        jobs = each.plan(size, done)
        if found:
            continue  # what is named now may have been done before, too
        todo = [job for job in jobs if job.name not in done]
        if not todo:
            break
        try:
            carry_out(
                todo, root, stamp, options, each.modules, title=f"{each.id} ({size})", before=len(jobs) - len(todo)
            )
        except Stopped:
            done |= collect(todo, root, stamp)
            status = 130
            break
    runs = [Run(job, done[job.name].result, done[job.name].metrics) for job in jobs if job.name in done]
    record = records.build(each, size, jobs, runs, fingerprint=key, threads=THREADS)
    if status and size == "full" and path.exists():
        print(f"stopped with {len(runs)} of {len(jobs)} runs done; {path} is left as it was")
    else:
        records.save(record, HOME)
        print_summary(record, str(path.relative_to(HOME)))
    if status:
        print(
            f"stopped: every run has saved its state; to go on, give the same command again:\n"
            f"  python -m bayesgrad.training run {each.id} --size {size} --runs {root}",
            file=sys.stderr,
        )
    return status


def carry_out(
    jobs: Sequence[Job],
    root: Path,
    stamp: str,
    options: argparse.Namespace,
    modules: Sequence[str],
    *,
    title: str,
    before: int = 0,
) -> None:
    """Do ``jobs`` on the executor that the options name, with bars and, if asked for, TensorBoard."""
    from rich.console import Console

    from bayesgrad.training.progress import Bars
    from bayesgrad.training.sweep import cluster, run_jobs

    console = Console()
    console.print(f"{title}: {before + len(jobs)} runs, {before} of them done before", highlight=False)
    stale = sum(is_stale(job.folder(root), stamp) for job in jobs)
    if stale:
        console.print(
            f"  {stale} of them were made by other sources or versions and begin anew; what was there moves to "
            f"{root / jobs[0].experiment / 'stale'}",
            highlight=False,
        )
    mirror = None
    if options.tensorboard:
        from bayesgrad.training.tensorboard import Mirror

        mirror = Mirror(Path(options.tensorboard), root)

    with cluster(options.scheduler) as executor, Bars(console, title, before + len(jobs), before, root) as bars:

        def watch(active: Sequence[Job]) -> None:
            bars.watch(active)
            if mirror:
                mirror.update(active)

        def finished(job: Job, result: dict[str, Any]) -> None:
            bars.finished(job, result)
            if mirror:
                mirror.update([job])

        try:
            run_jobs(
                jobs,
                root,
                stamp,
                executor=executor,
                workers=options.workers,
                modules=modules,
                watch=watch,
                finished=finished,
            )
        finally:
            if mirror:
                mirror.close()


def grid(data: dict[str, Any], settings: Sequence[str]) -> list[tuple[str, Config]]:
    """Every combination of ``KEY=V1,V2`` settings (dots go into parts, values are JSON or plain words), named."""
    cells: list[tuple[str, dict[str, Any]]] = [("", data)]
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not key or not equals or not text:
            raise ValueError(f"--set: got {setting!r}, expected KEY=VALUE or KEY=V1,V2,...")
        grown = []
        for name, cell in cells:
            for word in text.split(","):
                try:
                    value = json.loads(word)
                except ValueError:
                    value = word
                copy = json.loads(json.dumps(cell))
                *path, last = key.split(".")
                inner = copy
                for part in path:
                    inner = inner.setdefault(part, {})
                    if not isinstance(inner, dict):
                        raise ValueError(f"--set: {part!r} of {key!r} is a value, expected a part with settings")
                inner[last] = value
                grown.append((f"{name} {key}={word}".strip(), copy))
        cells = grown
    return [(name, from_json(cell)) for name, cell in cells]


def run_config(path: Path, root: Path, options: argparse.Namespace) -> int:
    """Runs of a config of one's own: one, or a sweep over seeds and settings."""
    data = read_json(path, "a config")
    data = data.get("config", data)
    if options.seed < 0 or options.seeds < 1:
        raise ValueError(f"--seed, --seeds: got {options.seed} and {options.seeds}, expected at least 0 and at least 1")
    jobs = [
        Job("own", name or path.stem, config, options.seed + index)
        for name, config in grid(data, options.set)
        for index in range(options.seeds)
    ]
    return own_runs(jobs, root, options)


def resume(options: argparse.Namespace) -> int:
    folder = Path(options.folder)
    data = read_json(folder / "config.json", "the config of a run")
    for name in ("config", "seed", "config_hash"):
        if name not in data:
            raise RunError(f"{folder / 'config.json'}: no config of a run ({name} missing)")
    config = from_json(data["config"])
    if config.hash != data["config_hash"]:
        raise RunError(
            f"{folder / 'config.json'}: its hash is {config.hash}, expected {data['config_hash']}; it was edited"
        )
    job = Job(folder.parent.name, str(data.get("arm", "")), config, int(data["seed"]))
    if job.name != folder.name:
        raise RunError(f"{folder}: named {folder.name!r}, expected {job.name!r}; give the folder its name back")
    modules = EXPERIMENTS[job.experiment].modules if job.experiment in EXPERIMENTS else OWN
    if is_stale(folder, fingerprint(programs(*modules), THREADS)):
        what = job.experiment if job.experiment in EXPERIMENTS else f"{folder / 'config.json'} --seed {job.seed}"
        raise RunError(
            f"{folder}: made by other sources or versions than these, so it cannot go on; it stays as it is. "
            f"To begin anew and set it aside: python -m bayesgrad.training run {what} --runs {folder.parent.parent}"
        )
    return own_runs([job], folder.parent.parent, options, modules)


def own_runs(jobs: Sequence[Job], root: Path, options: argparse.Namespace, modules: Sequence[str] = OWN) -> int:
    """Do ``jobs`` and print what came of each; 1 if one diverged, 130 after an interrupt."""
    from bayesgrad.training.sweep import Stopped, collect

    stamp = fingerprint(programs(*modules), THREADS)
    done = collect(jobs, root, stamp)
    todo = [job for job in jobs if job.name not in done]
    try:
        if todo:
            carry_out(todo, root, stamp, options, modules, title=jobs[0].experiment, before=len(done))
    except Stopped:
        again = [job.folder(root) for job in todo if not read_result(job.folder(root))]
        print("stopped; to go on, give the same command again, or:", file=sys.stderr)
        for folder in again[:1]:
            print(f"  python -m bayesgrad.training resume {folder}", file=sys.stderr)
        return 130
    done |= collect(todo, root, stamp)
    for job in jobs:
        print(f"{job.arm}, seed {job.seed}:")
        print_run(job.folder(root), done[job.name].result, done[job.name].metrics)
    return 0 if all(done[job.name].result["state"] == "finished" for job in jobs) else 1


def read_result(folder: Path) -> bool:
    """Whether the run in ``folder`` came to its end."""
    path = folder / "result.json"
    return path.exists() and read_json(path, "the result of a run").get("state") in ("finished", "diverged")


def _record_or_run(what: str, size: str | None = None) -> tuple[str, dict[str, Any]]:
    path = Path(what)
    if what in EXPERIMENTS:
        for each in (size,) if size else ("full", "quick"):
            there = records.path_of(HOME, what, each)
            if there.exists():
                return "record", records.load(there)
        raise RunError(f"{what}: no record yet; python -m bayesgrad.training run {what} --size quick makes one")
    if path.is_dir():
        result = read_json(path / "result.json", "the result of a run") if (path / "result.json").exists() else {}
        return "run", {"result": result, "metrics": read_metrics(path / "metrics.jsonl")} | read_json(
            path / "config.json", "the config of a run"
        )
    if path.suffix == ".json" or path.exists():
        return "record", records.load(path)
    raise RunError(f"{what}: neither an experiment ({', '.join(EXPERIMENTS)}) nor a record file nor a run folder")


def show(options: argparse.Namespace) -> int:
    kind, data = _record_or_run(options.what, options.size)
    if kind == "record":
        print_summary(data, options.what, long=True)
    else:
        print_run(Path(options.what), data["result"], data["metrics"])
    return 0


def compare(options: argparse.Namespace) -> int:
    (left_kind, left), (right_kind, right) = _record_or_run(options.first), _record_or_run(options.second)
    if left_kind != right_kind:
        raise RunError(f"compare: got a {left_kind} and a {right_kind}, expected two of a kind")
    for side in (left, right):
        if "result" in side:
            side["result"].pop("finished", None)
    found = list(records.differences(left, right))
    found.sort(key=lambda line: not line.startswith(("state", "claims")))  # what was concluded comes first
    for line in found[:40]:
        print(line)
    if len(found) > 40:
        print(f"and {len(found) - 40} more")
    print("no difference" if not found else f"{len(found)} differences")
    return 1 if found else 0


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def print_summary(record: dict[str, Any], where: str, *, long: bool = False) -> None:
    """What a record holds. Claims of a quick run get their figures and no verdict: it is too small to decide one."""
    state = (
        ""
        if record["state"] == "finished"
        else f", PARTIAL: {record['runs']['done']} of {record['runs']['planned']} runs"
    )
    print(f"{record['experiment']} ({record['code']}, {record['size']}{state}): {where}")
    for arm, row in record["arms"].items():
        loss = row["final"]["loss"]
        low, high = loss["interval"]
        kl = row["final"].get("held_out_kl_bits")
        tail = f", held-out KL(Bayes || model) {kl['mean']:.4f} bits" if kl else ""
        print(f"  {arm:22s} loss {loss['mean']:.4f} [{low:.4f}, {high:.4f}] nats{tail}, {len(row['seeds'])} seeds")
    for label, row in record["results"].items():
        if long or row["verdict"] != "confirmed":
            print(f"  {label}: {row['verdict']}")
    if record["results"]:
        good = sum(row["verdict"] == "confirmed" for row in record["results"].values())
        print(f"  laws observed: {good} of {len(record['results'])} confirmed")
    for row in record["claims"]:
        span = "" if not row["interval"] else f" [{_number(row['interval'][0])}, {_number(row['interval'][1])}]"
        word = f"{row['verdict']} " if record["size"] == "full" else ""
        print(f"  {row['id']}: {word}({_number(row['effect'])}{span} {row['unit']})")
        if long:
            criterion = f"criterion {row['criterion_sha'][:12]}: {row['criterion']}"
            for paragraph in (f"{row['statement']} ({row['source']})", criterion):
                print(textwrap.fill(paragraph, 110, initial_indent=" " * 6, subsequent_indent=" " * 6))
    if record["claims"] and record["size"] != "full":
        print("  a quick run decides no claim; --size full does")


def print_run(folder: Path, result: dict[str, Any], metrics: list[dict[str, Any]]) -> None:
    state = result.get("state", "unfinished")
    print(f"{folder}: {state}, {len(metrics)} logged steps")
    if metrics:
        print(f"  loss {metrics[0]['loss']:.6f} -> {metrics[-1]['loss']:.6f} nats at step {metrics[-1]['step']}")
        for name, value in metrics[-1].items():
            if name.startswith("held_out"):
                print(f"  {name} {value:.6f}")
    for first, last in result.get("gaps", ()):
        print(f"  steps {first} to {last} have no metrics: their file was damaged before the run went on")
    if "message" in result:
        print(f"  {result['message']}")
    if state not in ("finished", "diverged"):
        print(f"  to go on: python -m bayesgrad.training resume {folder}")
