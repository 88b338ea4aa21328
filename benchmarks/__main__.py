"""``python -m benchmarks``: every budget beside its measurement; ``--write FILE`` also writes the tables as
Markdown."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

import numpy as np
import torch

from benchmarks import accuracy, bench_proofs, samplers, speed
from benchmarks import tunnel_throughput as tunnels

TABLES = ("speed", "memory", "import", "samplers", "training", "accuracy", "proofs")


def machine() -> str:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
        model = names[0] if names else model
    packages = f"Python {platform.python_version()}, NumPy {np.__version__}, PyTorch {torch.__version__}"
    return f"{model}, {os.cpu_count()} cores; {packages}"


def sections(chosen: list[str], rounds: int, threads: tuple[int, ...]) -> list[tuple[str, str]]:
    """Title and table of each chosen part."""
    out = []
    if "speed" in chosen:
        out.append(
            (
                "Speed, float32, best of the rounds in which all ways take turns",
                speed.markdown(speed.speed(rounds, threads)),
            )
        )
    if "memory" in chosen:
        out.append(("Memory", speed.markdown(speed.memory())))
    if "import" in chosen:
        out.append(("Import", speed.markdown(speed.importing())))
    if "samplers" in chosen:
        out.append(("Samplers, one core", speed.markdown(samplers.samplers(rounds))))
    if "training" in chosen:
        title = "Training on the wind tunnels, one core, the same losses as a plain loop"
        out.append((title, speed.markdown(tunnels.throughput(rounds))))
    if "accuracy" in chosen:
        title = "Accuracy: relative error against 50 digits, ours beside PyTorch's explicit operations"
        out.append((title, accuracy.markdown(accuracy.table())))
    if "proofs" in chosen:
        out += bench_proofs.sections()
    return out


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write if asked. The exit status is 0 whether or not budgets are kept: the table says it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"any of {', '.join(TABLES)}; all by default")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each timing (default 15)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (default 1 2)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the tables to this Markdown file")
    chosen = parser.parse_args(arguments)
    for name in chosen.tables:
        if name not in TABLES:
            parser.error(f"TABLE: got {name!r}, expected any of {', '.join(TABLES)}")
    if min(chosen.threads) < 1:
        parser.error(f"--threads: got {min(chosen.threads)}, expected at least 1")
    if chosen.rounds < 1:
        parser.error(f"--rounds: got {chosen.rounds}, expected at least 1")
    text = f"# Budgets and measurements\n\nWritten by `make bench`. Measured on {machine()}.\n"
    print(text)
    for title, table in sections(chosen.tables or list(TABLES), chosen.rounds, tuple(chosen.threads)):
        part = f"\n## {title}\n\n{table}\n"
        print(part, flush=True)
        text += part
    if chosen.write is not None:
        part_file = chosen.write.with_suffix(".part")
        part_file.write_text(text, encoding="utf-8")
        part_file.replace(chosen.write)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped: nothing was written", file=sys.stderr)
        sys.exit(130)
