"""The training loop. It reads top to bottom; everything it needs is a function of (config, seed, step)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bayesgrad.training import checkpoints, evaluation, model
from bayesgrad.training.checkpoints import Checkpoint
from bayesgrad.training.config import Config
from bayesgrad.training.data import make_data
from bayesgrad.training.files import Metrics
from bayesgrad.training.gradients import way
from bayesgrad.training.laws import observe_laws
from bayesgrad.training.updates import Oracle, make_update

HEAT_MAP = 24


def train(
    config: Config,
    seed: int,
    folder: Path,
    *,
    fingerprint: str = "",
    stopping: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run ``config`` with ``seed`` in ``folder``, from its newest checkpoint if it has one; return the result.

    ``stopping`` is asked before each step; when it says yes the run saves a checkpoint and returns with state
    "interrupted". A loss that is not finite ends the run with state "diverged" and the last good checkpoint.
    Raises RunError when the folder cannot be written or holds another run's checkpoint.
    """
    started = time.perf_counter()
    dtype = getattr(torch, config.dtype)
    data = make_data(config.task, seed, dtype)
    rule = make_update(config.update, config.steps)
    loss_and_gradients = way(config.gradients)
    identity: Any = {"config_hash": config.hash, "seed": seed, "fingerprint": fingerprint}

    now = checkpoints.newest(folder / "checkpoints", **identity)
    if now is None:
        parameters = model.initial_parameters(config, seed)
        now = Checkpoint(0, parameters, rule.start(parameters), 0)
    metrics = Metrics(folder / "metrics.jsonl", before=now.step)

    def save(at: Checkpoint) -> None:
        checkpoints.save(folder / "checkpoints", at, **identity)

    good, loss, state = now, math.nan, "finished"
    while True:
        if stopping():
            save(now)
            state = "interrupted"
            break

        oracle = Oracle(loss_and_gradients, data.batch(now.step))
        after = rule(now.parameters, oracle, now.state)
        loss = float(after.loss)
        if not math.isfinite(loss):
            for path in (folder / "checkpoints").glob("step-*.pt"):
                path.unlink()  # what was saved after the last good step is of no use
            save(good)
            state = "diverged"
            break
        good = now

        row: dict[str, Any] = {"step": now.step, "loss": loss, "passes": now.passes}
        if now.step % config.evaluate_every == 0 or now.step == config.steps:
            row |= evaluation.evaluate(now.parameters, data.held_out(), data.train.x)
            if config.laws:
                row["laws"] = observe_laws(now.parameters, after.parameters, data.train, config.laws)
        metrics.append(**row)

        if now.step == config.steps:
            save(now)
            break
        now = Checkpoint(now.step + 1, after.parameters, after.state, now.passes + oracle.passes)
        if now.step % config.checkpoint_every == 0:
            save(now)
    metrics.close()

    result: dict[str, Any] = {"state": state, "step": good.step if state == "diverged" else now.step}
    if state == "finished":
        x, targets = data.train.x, data.train.targets
        start = model.initial_parameters(config, seed)
        result["values"] = evaluation.value_geometry(now.parameters, torch.tensor(data.problem.mu, dtype=dtype))
        result["heat_map"] = {
            "start": evaluation.advantage_map(start, x, targets, HEAT_MAP),
            "end": evaluation.advantage_map(now.parameters, x, targets, HEAT_MAP),
        }
        result["facts"] = data.facts()
        result["parameters"] = sum(value.numel() for value in now.parameters.values())
    if state == "diverged":
        result["message"] = (
            f"the loss is not finite after step {good.step}: lower the learning rate; "
            f"the last good state is in {checkpoints.path_of(folder / 'checkpoints', good.step).name}"
        )
    result["seconds"] = time.perf_counter() - started
    return result
