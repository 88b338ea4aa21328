"""How fast the tasks draw sequences: a training loop with fresh data at every step must not wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from bayesgrad.tasks import bijection, hmm, hmm_encoding
from benchmarks.speed import Budget

PER_SECOND = 100_000  # sequences of 20 values and 19 keys, one core
BATCH_MS = 3.0  # 128 chains with 20 observations, encoded


def best(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the best round; the first one, which warms up, does not count."""
    seconds = []
    for _ in range(rounds + 1):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds[1:])


def batch(rng: np.random.Generator, generator: hmm.Generator, encoding: hmm_encoding.Encoding) -> hmm_encoding.Encoded:
    """What one step of training asks for."""
    drawn = hmm.sample(rng, 128, steps=20, generator=generator)
    return hmm_encoding.encode(drawn.T, drawn.E, drawn.shown, encoding)


WAYS: tuple[tuple[hmm.Generator, hmm_encoding.Encoding], ...] = (
    ("published", "published"),
    ("published", "rows"),
    ("long-memory", "rows"),
)


def samplers(rounds: int = 30) -> list[Budget]:
    """Every sampler beside its budget, on one core."""
    rng, rows = np.random.default_rng(0), []
    for protocol in bijection.PROTOCOLS:
        draw = partial(bijection.sample, rng, 4096, values=20, keys=19, protocol=protocol)
        rate = 4096 / best(draw, rounds)
        what = f"bijection {protocol} replacement, sequences a second over {PER_SECOND}: V = 20, L = 19"
        rows.append(Budget(what, f"{rate:.0f}", f"{PER_SECOND}", rate / PER_SECOND, 1.0, True))
    for generator, encoding in WAYS:
        found = 1e3 * best(partial(batch, rng, generator, encoding), rounds)
        what = f'HMM, {generator}, "{encoding}" encoding, CPU time over {BATCH_MS:g} ms: 128 sequences, K = 20'
        rows.append(Budget(what, f"{found:.2f} ms", f"{BATCH_MS:g} ms", found / BATCH_MS, 1.0, False))
    return rows
