"""``python -m bayesgrad.training.bench``: X2's two published arms by each gradient path, same steps, same threads.

The paths take turns every few steps, so that whatever else the machine does falls on all of them alike. Printed:
seconds a path, its speed-up over eager autograd against the budget, and how far its final losses are from autograd's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bayesgrad.training.config import GRADIENTS, Config
from bayesgrad.training.experiments.sticky_markov import PLAIN, PUBLISHED, VALUES, published

BUDGET = {"speed-up of the fused closed form": 5.0, "largest difference of final losses": 1e-5}
TURN = 10


def measure(config: Config, seeds: int, steps: int, turn: int = TURN) -> dict[str, Any]:
    """Seconds of each path over all arms and seeds, and the largest difference of final losses from autograd's."""
    from bayesgrad.training.gradients import way
    from bayesgrad.training.subject import make_subject
    from bayesgrad.training.updates import Oracle, make_update

    seconds = dict.fromkeys(GRADIENTS, 0.0)
    apart = dict.fromkeys(GRADIENTS, 0.0)
    for arm in (PLAIN, VALUES):
        for seed in range(seeds):
            subject = make_subject(config, seed)
            rule = make_update(PUBLISHED[arm], steps)
            start = subject.initial()
            at = {name: (start, rule.start(start)) for name in GRADIENTS}
            final: dict[str, float] = {}
            for begin in range(0, steps, turn):
                for name in GRADIENTS:
                    parameters, state = at[name]
                    path = way(name)
                    started = time.perf_counter()
                    for step in range(begin, min(begin + turn, steps)):
                        done = rule(parameters, Oracle(path, subject.batch(step)), state)
                        parameters, state = done.parameters, done.state
                        final[name] = float(done.loss)
                    seconds[name] += time.perf_counter() - started
                    at[name] = parameters, state
            for name in GRADIENTS:
                apart[name] = max(apart[name], abs(final[name] - final["autograd"]))
    speed = {name: seconds["autograd"] / seconds[name] for name in GRADIENTS}
    return {"seconds": seconds, "speed_up": speed, "final_loss_difference": apart, "steps": steps, "seeds": seeds}


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
    config = replace(published("full")[0].config, laws=0)
    found = measure(config, options.seeds, options.steps)
    if options.json:
        print(json.dumps(found))
    else:
        print(
            f"n = {config.task.length - 1}, {options.seeds} seeds, 2 arms, {options.steps} steps, "
            f"{options.threads} thread(s)"
        )
        for name in GRADIENTS:
            print(
                f"  {name:9s} {found['seconds'][name]:9.2f} s   {found['speed_up'][name]:6.2f} x eager   "
                f"final losses within {found['final_loss_difference'][name]:.1e} nats"
            )
    speed, apart = found["speed_up"]["fused"], max(found["final_loss_difference"].values())
    fine = (
        speed >= BUDGET["speed-up of the fused closed form"] and apart <= BUDGET["largest difference of final losses"]
    )
    if not options.json:
        print(f"budget: fused at least 5 x eager, final losses within 1e-5 nats: {'met' if fine else 'MISSED'}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
