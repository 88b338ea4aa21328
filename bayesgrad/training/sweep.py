"""Many runs at once, through any ``concurrent.futures`` executor.

Processes by default, one thread each, so that as many runs go at once as there are cores. A job is plain data and a run
is idempotent, so a job whose worker died is simply given out again: it goes on from its newest checkpoint. To stop, a
file appears; every run looks for it before each step, saves, and returns.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayesgrad.training.files import RunError
from bayesgrad.training.runs import Job, Run, execute, read

POLL = 0.2
ATTEMPTS = 3
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

Watch = Callable[[Sequence[Job]], None]
"""Told the jobs that may be at work, again and again while one waits."""


def _start_worker(parent: int) -> None:
    """Leave interrupts to the parent, and end with it: an orphan would hold its run folder for nobody."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL)
        os._exit(1)  # a run can be killed at any moment

    threading.Thread(target=watch, daemon=True).start()


def processes(workers: int, threads: int = 1) -> ProcessPoolExecutor:
    """A pool of fresh processes whose numerical libraries use ``threads`` threads each."""
    if workers < 1 or threads < 1:
        raise ValueError(f"workers, threads: got {workers} and {threads}, expected at least 1 of each")
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(os.getpid(),),
    )


@contextmanager
def pinned_threads(threads: int) -> Iterator[None]:
    """Processes started inside inherit the thread count."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextmanager
def cluster(address: str | None) -> Iterator[Executor | None]:
    """The executor of the Dask cluster at ``address``; None without one (the sweep then makes its own processes)."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError(
            "--scheduler: Dask is not installed, expected the extra: pip install 'bayesgrad[dask]'"
        ) from error
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise ValueError(f"--scheduler: got {address!r}, where no Dask scheduler answers ({error})") from error
    try:
        # a run may be begun again at any time, so a task whose worker died may be given out again
        yield client.get_executor(pure=False, retries=ATTEMPTS)
    finally:
        client.close()


class Stopped(Exception):
    """The runs were asked to stop and have saved their state."""


def run_jobs(
    jobs: Sequence[Job],
    root: Path,
    fingerprint: str,
    *,
    executor: Executor | None = None,
    workers: int = 2,
    threads: int = 1,
    modules: Sequence[str] = (),
    watch: Watch = lambda jobs: None,
    finished: Callable[[Job, dict[str, Any]], None] = lambda job, result: None,
) -> None:
    """Do ``jobs``; raises Stopped after an interrupt (everything saved), RunError for what a person can mend.

    ``executor``: any executor whose workers see ``root``; None makes ``workers`` processes. ``modules`` are those that
    the ``fingerprint`` is of: a worker with other sources refuses.
    """
    root = root.resolve()  # workers elsewhere have another current folder
    root.mkdir(parents=True, exist_ok=True)
    stop = root / f".stop-{os.getpid()}"
    stop.unlink(missing_ok=True)
    left = {job.name: job for job in jobs}
    try:
        for attempt in range(1, ATTEMPTS + 1):
            stop.unlink(missing_ok=True)
            with pinned_threads(threads):
                own = processes(min(workers, len(left)), threads) if executor is None else None
                try:
                    _drain(own or executor, left, root, fingerprint, threads, modules, stop, watch, finished)
                except BrokenProcessPool:
                    if attempt == ATTEMPTS:
                        raise RunError(
                            f"{root}: a worker process died {ATTEMPTS} times (out of memory?); "
                            "the runs are saved, give the same command again with fewer workers"
                        ) from None
                    continue
                finally:
                    if own is not None:
                        own.shutdown(wait=True, cancel_futures=True)
            return
    finally:
        stop.unlink(missing_ok=True)


def _drain(
    pool: Executor | None,
    left: dict[str, Job],
    root: Path,
    fingerprint: str,
    threads: int,
    modules: Sequence[str],
    stop: Path,
    watch: Watch,
    finished: Callable[[Job, dict[str, Any]], None],
) -> None:
    """Submit what is ``left`` and take results in as they come; a job leaves ``left`` when its result is in."""
    if pool is None:
        raise ValueError("pool: got None, expected an executor")
    futures: dict[Future[dict[str, Any]], Job] = {}
    stopped = False
    try:
        for job in left.values():
            future = pool.submit(
                execute,
                job.config.as_json(),
                job.seed,
                str(job.folder(root)),
                fingerprint,
                label=job.arm,
                threads=threads,
                stop_file=str(stop),
                modules=tuple(modules),
            )
            futures[future] = job
        waiting = set(futures)
        while waiting:
            try:
                done, waiting = wait(waiting, timeout=POLL)
                watch([futures[future] for future in waiting])
            except KeyboardInterrupt:
                stopped = True
                stop.touch()
                for future in waiting:
                    future.cancel()
                waiting = {future for future in waiting if not future.cancelled()}
                continue
            for future in done:
                job = futures[future]
                result = future.result()
                if result["state"] == "interrupted":
                    stopped = True
                    continue
                left.pop(job.name, None)
                finished(job, result)
    except BaseException:
        # a run that cannot go on (a full disk, a damaged file) stops the others at their next step
        stop.touch()
        for future in futures:
            future.cancel()
        raise
    if stopped:
        raise Stopped


def collect(jobs: Sequence[Job], root: Path, fingerprint: str) -> dict[str, Run]:
    """The finished, fresh runs among ``jobs``, by name."""
    found = {job.name: read(job, root, fingerprint) for job in jobs}
    return {name: run for name, run in found.items() if run is not None}
