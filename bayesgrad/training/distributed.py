"""One large run on several processes: ``torchrun --nproc-per-node 2 -m bayesgrad.training.distributed CONFIG.json``.

Data parallelism: every process holds all parameters, differentiates its share of the batch, and the gradients are
averaged; since all then take the same step, the run is the single-process run up to the rounding of one sum. gloo on
CPUs, nccl where there are GPUs. The first process alone writes files; a stop is agreed on before each step.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bayesgrad.training.config import Config, from_json
from bayesgrad.training.data import Batch
from bayesgrad.training.files import RunError, locked, read_json
from bayesgrad.training.loop import train
from bayesgrad.training.model import Parameters
from bayesgrad.training.problem import Problem, make_problem
from bayesgrad.training.runs import Job, claim_folder, finish
from bayesgrad.training.sources import fingerprint, programs

MODULE = "bayesgrad.training.distributed"


class Sharded:
    """A problem whose batch is split over the processes of the default group; everything else is as it was."""

    def __init__(self, inner: Problem, device: torch.device) -> None:
        self.inner, self.device = inner, device
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def initial(self) -> Parameters:
        return {name: value.to(self.device) for name, value in self.inner.initial().items()}

    def batch(self, step: int) -> Batch:
        whole = self.inner.batch(step)
        own = slice(self.rank, None, self.size)
        return Batch(whole.x[own].to(self.device), whole.targets[own].to(self.device))

    def loss_and_gradients(self, parameters: Parameters, batch: Batch) -> tuple[Tensor, Parameters]:
        """The mean over processes, in one message: equal shares make it the mean over the batch."""
        loss, gradients = self.inner.loss_and_gradients(parameters, batch)
        flat = torch.cat([loss.reshape(1), *(value.reshape(-1) for value in gradients.values())])
        dist.all_reduce(flat)
        flat /= self.size
        parts = flat[1:].split([value.numel() for value in gradients.values()])
        shaped = {name: part.view_as(parameters[name]) for name, part in zip(gradients, parts, strict=True)}
        return flat[0], shaped

    def _here(self, parameters: Parameters) -> Parameters:
        return {name: value.cpu() for name, value in parameters.items()}

    def evaluate(self, parameters: Parameters) -> dict[str, Any]:
        return self.inner.evaluate(self._here(parameters)) if self.rank == 0 else {}

    def laws(self, before: Parameters, after: Parameters) -> dict[str, Any]:
        return self.inner.laws(before, after)

    def look(self, parameters: Parameters) -> list[tuple[Tensor, Tensor]]:
        return self.inner.look(self._here(parameters))

    def read_out(self, parameters: Parameters) -> Tensor:
        return self.inner.read_out(self._here(parameters))

    def final(self, parameters: Parameters) -> dict[str, Any]:
        return self.inner.final(self._here(parameters)) if self.rank == 0 else {}


def agreed(own: Callable[[], bool], device: torch.device) -> Callable[[], bool]:
    """True on all processes as soon as it is true on one."""

    def stopping() -> bool:
        flag = torch.tensor([float(own())], device=device)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag.item())

    return stopping


def check(config: Config, processes: int) -> None:
    """ValueError where there is nothing to share out."""
    if not hasattr(config.task, "batch"):
        raise ValueError(
            f"task.kind: got {config.task.kind!r}, expected a task with a batch to share between processes"
        )
    if config.task.batch % processes:
        raise ValueError(f"task.batch: got {config.task.batch}, expected a multiple of {processes} processes")


def run(config: Config, seed: int, root: Path, device: torch.device, stop: Callable[[], bool]) -> dict[str, Any]:
    """Train on all processes of the group; the result is whole on the first."""
    lead = dist.get_rank() == 0
    job = Job("distributed", f"{dist.get_world_size()} processes", config, seed)
    folder = job.folder(root)
    stamp = fingerprint(programs(MODULE), dist.get_world_size())
    started = time.perf_counter()
    with locked(folder) if lead else contextlib.nullcontext():
        if lead:
            claim_folder(folder, config, seed, stamp, job.arm)
        dist.barrier()  # nobody reads a checkpoint before the folder is this run's own
        result = train(
            config,
            seed,
            folder,
            fingerprint=stamp,
            stopping=agreed(stop, device),
            problem=Sharded(make_problem(config, seed), device),
            lead=lead,
            ready=dist.barrier,
            device=device,
        )
        return finish(folder, result, job, stamp, started) if lead else result


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of every process that torchrun starts."""
    parser = argparse.ArgumentParser(prog=f"torchrun -m {MODULE}", description=__doc__)
    parser.add_argument("config")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", default="runs")
    options = parser.parse_args(argv)
    if "RANK" not in os.environ:
        print(f"{MODULE}: start it with torchrun --nproc-per-node N -m {MODULE} CONFIG.json", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    stopped = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stopped.append(True))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    lead = dist.get_rank() == 0
    try:
        path = Path(options.config)
        data = read_json(path, "a config")
        config = from_json(data.get("config", data))
        check(config, dist.get_world_size())
        result = run(config, options.seed, Path(options.runs), device, lambda: bool(stopped))
    except (RunError, ValueError) as error:
        if lead:
            print(f"{MODULE}: {error}", file=sys.stderr)
        return 2
    finally:
        dist.destroy_process_group()
    if lead:
        print(f"{result['state']} at step {result['step']}")
        if result["state"] == "interrupted":
            print("to go on, give the same command again")
    return {"finished": 0, "interrupted": 130}.get(result["state"], 1)


if __name__ == "__main__":
    sys.exit(main())
