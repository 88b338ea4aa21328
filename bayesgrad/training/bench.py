"""``python -m bayesgrad.training.bench``: X2's two published arms by each gradient path, same steps, same threads.

The paths take turns every few steps, so that whatever else the machine does falls on all of them alike. Printed:
seconds a path and its speed-up over eager autograd, on the clock and in processor time (which other people's work
does not touch), how far its final losses are from autograd's, and the peak memory of a run of its own with evaluation,
observed laws and checkpoints. Beside them the budgets.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayesgrad.training.config import GRADIENTS, Config
from bayesgrad.training.experiments.sticky_markov import PLAIN, PUBLISHED, VALUES, published

FASTER, APART, GIBIBYTES = 5.0, 1e-5, 2.0
"""Budgets: speed-up of the fused closed form over eager autograd, difference of final losses, memory of any run."""
TURN = 10


def measure(config: Config, seeds: int, steps: int, turn: int = TURN) -> dict[str, Any]:
    """Seconds of each path over all arms and seeds, and the largest difference of final losses from autograd's."""
    from bayesgrad.training.head_gradients import way
    from bayesgrad.training.problem import make_problem
    from bayesgrad.training.update_rules import Oracle
    from bayesgrad.training.updates import make_update

    seconds, processor = dict.fromkeys(GRADIENTS, 0.0), dict.fromkeys(GRADIENTS, 0.0)
    apart = dict.fromkeys(GRADIENTS, 0.0)
    for arm in (PLAIN, VALUES):
        for seed in range(seeds):
            problem = make_problem(config, seed)
            rule = make_update(PUBLISHED[arm], steps)
            start = problem.initial()
            at = {name: (start, rule.start(start)) for name in GRADIENTS}
            final: dict[str, float] = {}
            for begin in range(0, steps, turn):
                for name in GRADIENTS:
                    parameters, state = at[name]
                    path = way(name)
                    started, used = time.perf_counter(), time.process_time()
                    for step in range(begin, min(begin + turn, steps)):
                        done = rule(parameters, Oracle(path, problem.batch(step)), state)
                        parameters, state = done.parameters, done.state
                        final[name] = float(done.loss)
                    seconds[name] += time.perf_counter() - started
                    processor[name] += time.process_time() - used
                    at[name] = parameters, state
            for name in GRADIENTS:
                apart[name] = max(apart[name], abs(final[name] - final["autograd"]))
    return {
        "steps": steps,
        "seeds": seeds,
        "seconds": seconds,
        "speed_up": {name: seconds["autograd"] / seconds[name] for name in GRADIENTS},
        "processor_seconds": processor,
        "processor_speed_up": {name: processor["autograd"] / processor[name] for name in GRADIENTS},
        "final_loss_difference": apart,
    }


def own_peak() -> int:
    """The most memory, in bytes, that this process has held so far."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike getrusage, it knows nothing of the program that started this one
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run_and_weigh(config_json: dict[str, Any], threads: int) -> int:
    """Peak memory in bytes of a process that does one run as a worker of a sweep does."""
    from bayesgrad.training.runs import execute

    with tempfile.TemporaryDirectory() as folder:
        execute(config_json, 0, folder, "bench", threads=threads)
    return own_peak()


def peaks(config: Config, threads: int) -> dict[str, float]:
    """Peak memory in GiB of one run by each path, each in a fresh process."""
    fresh = multiprocessing.get_context("spawn")
    out: dict[str, float] = {}
    for name in GRADIENTS:
        with ProcessPoolExecutor(1, mp_context=fresh) as pool:
            job = replace(config, gradients=name).as_json()
            out[name] = pool.submit(run_and_weigh, job, threads).result() / 2**30
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; exit status 1 when a budget is missed."""
    parser = argparse.ArgumentParser(prog="python -m bayesgrad.training.bench", description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="plain data in place of the table")
    options = parser.parse_args(argv)
    for name in ("steps", "seeds", "threads"):
        if getattr(options, name) < 1:
            print(f"--{name}: got {getattr(options, name)}, expected at least 1", file=sys.stderr)
            return 2
    import torch

    torch.set_num_threads(options.threads)
    config = published("full")[0].config
    found = measure(config, options.seeds, options.steps)
    # memory does not grow with steps: two of them, evaluated and watched at both ends
    found["peak_gib"] = peaks(replace(config, steps=2, evaluate_every=1, checkpoint_every=1), options.threads)
    speed, apart = found["speed_up"]["fused"], max(found["final_loss_difference"].values())
    kept = {
        f"fused at least {FASTER:g} x eager": speed >= FASTER,
        f"final losses within {APART:g} nats": apart <= APART,
        f"memory at most {GIBIBYTES:g} GiB": max(found["peak_gib"].values()) <= GIBIBYTES,
    }
    if options.json:
        print(json.dumps(found | {"budgets": kept}))
    else:
        print_table(found, config.task.length - 1, options.threads)
        for budget, fine in kept.items():
            print(f"budget: {budget}: {'met' if fine else 'MISSED'}")
    return 0 if all(kept.values()) else 1


def print_table(found: dict[str, Any], positions: int, threads: int) -> None:
    print(f"n = {positions}, {found['seeds']} seeds, 2 arms, {found['steps']} steps, {threads} thread(s)")
    print("            seconds  x eager   processor  x eager   final losses within   peak memory")
    for name in GRADIENTS:
        print(
            f"  {name:8s} {found['seconds'][name]:9.2f} {found['speed_up'][name]:8.2f}"
            f"  {found['processor_seconds'][name]:10.2f} {found['processor_speed_up'][name]:8.2f}"
            f"   {found['final_loss_difference'][name]:14.1e} nats   {found['peak_gib'][name]:7.2f} GiB"
        )


if __name__ == "__main__":
    sys.exit(main())
