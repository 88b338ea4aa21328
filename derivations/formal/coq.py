"""Running Coq: find it, compile files in the order of their dependencies, evaluate a script.

Two processes at most. Nothing here knows what is proved: :mod:`derivations.formal.audit` decides that from what Coq
answers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

LIBRARY = "Bayesgrad"
OLDEST = (8, 16)
LIBRARIES = {"Coquelicot": "Coquelicot", "Interval": "Tactic"}
PROCESSES = 2
LIMIT_SECONDS = 900  # for one process, on a machine that is busy with other things
PACKAGES = "coq, libcoq-coquelicot and libcoq-interval (Debian, Ubuntu), in versions 8.16, 3.2 and 4.6 or newer"
_QUIET = ("-q", "-w", "-ambiguous-paths")
_REQUIRE = re.compile(r"^From Bayesgrad Require (?:Import |Export )?([\w\s]+)\.", re.M)
_TIME = re.compile(r"^Chars (\d+) - (\d+) .*?([\d.]+) secs", re.M)
_THEOREM = re.compile(rb"^Theorem (\w+)\b.*?\bQed\.", re.M | re.S)


class CoqMissing(RuntimeError):
    """No Coq, one that is too old, or one without a library: the message is one sentence naming the packages."""


@dataclass(frozen=True)
class Compiled:
    """What became of one file: "" or Coq's complaint, and the seconds of each theorem in it."""

    name: str
    error: str
    seconds: float
    theorems: Mapping[str, float] = field(default_factory=dict)


def version(coqc: str = "coqc") -> str:
    """Coq's version. Raises CoqMissing where there is none that can be used."""
    path = shutil.which(coqc)
    if path is None:
        raise CoqMissing(f"formal: there is no {coqc} here; install {PACKAGES}")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"(\d+)\.(\d+)(?:\.\d+)?", said)
    if number is None:
        raise CoqMissing(f"formal: {path} does not say which version it is; install {PACKAGES}")
    if (int(number[1]), int(number[2])) < OLDEST:
        raise CoqMissing(f"formal: Coq {number[0]} is too old; install {PACKAGES}")
    return number[0]


def libraries(folder: Path, coqc: str = "coqc") -> None:
    """Raise CoqMissing unless Coq can load the libraries; ``folder`` is where the attempt is written."""
    for name, module in LIBRARIES.items():
        probe = folder / "Probe.v"
        probe.write_text(f"From {name} Require {module}.\n", encoding="utf-8")
        done = subprocess.run([coqc, *_QUIET, probe.name], cwd=folder, capture_output=True, text=True, check=False)
        for left in folder.glob("*Probe*"):
            left.unlink()
        if done.returncode:
            raise CoqMissing(f"formal: Coq is here but its library {name} is not; install {PACKAGES}")


def dependencies(folder: Path) -> dict[str, set[str]]:
    """``{file stem: the stems that it requires}`` for every .v file of a folder."""
    out = {}
    for path in sorted(folder.glob("*.v")):
        names = {name for group in _REQUIRE.findall(path.read_text(encoding="utf-8")) for name in group.split()}
        out[path.stem] = names
    for stem, names in out.items():
        if missing := names - set(out):
            raise ValueError(f"{stem}.v requires {', '.join(sorted(missing))}, which is not in {folder}")
    return out


def theorem_seconds(source: bytes, timing: str) -> dict[str, float]:
    """The seconds from ``Theorem`` to ``Qed`` of each theorem, from the output of ``coqc -time`` (byte offsets)."""
    sentences = [(int(start), float(seconds)) for start, _, seconds in _TIME.findall(timing)]
    return {
        match[1].decode(): round(sum(s for start, s in sentences if match.start() <= start < match.end()), 3)
        for match in _THEOREM.finditer(source)
    }


def compile_file(folder: Path, stem: str, coqc: str = "coqc") -> Compiled:
    """Compile one file whose requirements are compiled."""
    started = time.perf_counter()
    command = [coqc, *_QUIET, "-time", "-Q", ".", LIBRARY, f"{stem}.v"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
        error = done.stderr.strip() if done.returncode else ""
    except subprocess.TimeoutExpired:
        return Compiled(stem, f"stopped after {LIMIT_SECONDS} s", time.perf_counter() - started)
    times = theorem_seconds((folder / f"{stem}.v").read_bytes(), done.stdout)
    return Compiled(stem, error or ("exit status 1" if done.returncode else ""), time.perf_counter() - started, times)


def compile_all(
    folder: Path, coqc: str = "coqc", report: Callable[[Compiled], None] = lambda _: None
) -> dict[str, Compiled]:
    """Compile every .v file of ``folder``; a file whose requirements failed is not tried and says so."""
    needs = dependencies(folder)
    done: dict[str, Compiled] = {}
    running: dict[Future[Compiled], str] = {}
    with ThreadPoolExecutor(PROCESSES) as pool:
        while len(done) < len(needs):
            for stem in _ready(needs, done, set(running.values())):
                broken = sorted(name for name in needs[stem] if done[name].error)
                if broken:
                    done[stem] = Compiled(stem, f"it requires {', '.join(broken)}, which did not compile", 0.0)
                    report(done[stem])
                else:
                    running[pool.submit(compile_file, folder, stem, coqc)] = stem
            if running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    stem = running.pop(future)
                    done[stem] = future.result()
                    report(done[stem])
            elif not any(_ready(needs, done, set())):
                circle = sorted(set(needs) - set(done))
                raise ValueError(f"{', '.join(circle)}: these files require one another")
    return done


def _ready(needs: Mapping[str, set[str]], done: Mapping[str, Compiled], running: set[str]) -> Iterator[str]:
    for stem, names in needs.items():
        if stem not in done and stem not in running and names <= set(done):
            yield stem


def evaluate(folder: Path, script: str, coqtop: str = "coqtop") -> str:
    """Coq's answers to a script, which goes on after an error; its prompts are removed. "" if it took too long."""
    command = [coqtop, *_QUIET, "-color", "off", "-Q", ".", LIBRARY]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            input=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return ""
    return re.sub(r"^(?:Coq < )+", "", done.stdout, flags=re.M)
