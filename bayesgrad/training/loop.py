"""The training loop. It reads top to bottom; everything it needs is a function of (config, seed, step)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayesgrad.training import checkpoints, stability
from bayesgrad.training.checkpoints import Checkpoint
from bayesgrad.training.config import Config
from bayesgrad.training.files import Metrics, gaps
from bayesgrad.training.problem import Problem, make_problem
from bayesgrad.training.update_rules import Oracle
from bayesgrad.training.updates import make_update


def train(
    config: Config,
    seed: int,
    folder: Path,
    *,
    fingerprint: str = "",
    stopping: Callable[[], bool] = lambda: False,
    problem: Problem | None = None,
    lead: bool = True,
    ready: Callable[[], object] = lambda: None,
    device: Any = "cpu",
) -> dict[str, Any]:
    """Run ``config`` with ``seed`` in ``folder``, from its newest checkpoint if it has one; return the result.

    ``stopping`` is asked before each step; when it says yes the run saves a checkpoint and returns with state
    "interrupted". A loss that is not finite ends the run with state "diverged" and the last good checkpoint.
    For a run on several processes each has its own ``problem`` and ``device``, only the ``lead`` writes, and
    ``ready`` is called when the start has been read. Raises RunError when the folder cannot be written or holds
    another run.
    """
    started = time.perf_counter()
    problem = make_problem(config, seed) if problem is None else problem
    rule = make_update(config.update, config.steps)
    identity: Any = {"config_hash": config.hash, "seed": seed, "fingerprint": fingerprint}
    snapshots = snapshot_steps(config)

    def save(at: Checkpoint, into: str = "checkpoints", keep: int = checkpoints.KEEP) -> None:
        if lead:
            checkpoints.save(folder / into, at, **identity, keep=keep)

    now = checkpoints.newest(folder / "checkpoints", **identity, device=device)
    ready()
    if now is None:
        parameters = problem.initial()
        now = Checkpoint(0, parameters, rule.start(parameters), 0)
    metrics = Metrics(folder / "metrics.jsonl", before=now.step) if lead else None
    missing = gaps(metrics.kept, now.step - 1) if metrics else []

    good, state = now, "finished"
    while True:
        if stopping():
            save(now)
            state = "interrupted"
            break
        if now.step in snapshots:
            save(Checkpoint(now.step, now.parameters, {}, now.passes), "snapshots", keep=0)

        oracle = Oracle(problem.loss_and_gradients, problem.batch(now.step))
        after = rule(now.parameters, oracle, now.state)
        loss = float(after.loss)
        if not math.isfinite(loss):
            if lead:
                checkpoints.clear(folder / "checkpoints")  # what was saved after the last good step is of no use
            save(good)
            state = "diverged"
            break
        good = now

        row: dict[str, Any] = {"step": now.step, "loss": loss, "passes": now.passes}
        if now.step % config.evaluate_every == 0 or now.step == config.steps:
            row |= problem.evaluate(now.parameters)
            if config.laws:
                row["laws"] = problem.laws(now.parameters, after.parameters)
        if metrics:
            metrics.append(**row)

        if now.step == config.steps:
            save(now)
            break
        now = Checkpoint(now.step + 1, after.parameters, after.state, now.passes + oracle.passes)
        if now.step % config.checkpoint_every == 0:
            save(now)
    if metrics:
        metrics.close()

    result: dict[str, Any] = {"state": state, "step": good.step if state == "diverged" else now.step}
    if state == "finished" and lead:
        result |= problem.final(now.parameters)
        if snapshots:
            result["stability"] = stability.measure(problem, folder / "snapshots", sorted(snapshots), identity)
    if missing:
        result["gaps"] = missing
    if state == "diverged":
        result["message"] = (
            f"the loss is not finite after step {good.step}: lower the learning rate; "
            f"the last good state is in {checkpoints.path_of(folder / 'checkpoints', good.step).name}"
        )
    result["seconds"] = time.perf_counter() - started
    return result


def snapshot_steps(config: Config) -> set[int]:
    """The steps at which parameters are kept: evenly spaced, the first and the last among them."""
    if not config.snapshots:
        return set()
    return {round(index * config.steps / max(config.snapshots - 1, 1)) for index in range(config.snapshots)}
