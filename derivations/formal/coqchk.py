"""An independent checker: ``coqchk`` replays every compiled module of ours and says what it found.

It reads the compiled files, not the sources, and shares no code with the tactics that made them. ``-norec`` replays one
module and trusts those it requires, which have their own turn; the modules of Coq's libraries are not replayed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from derivations.formal import coq

LIMIT_SECONDS = 120  # for one module; the slowest takes two on an idle core
# Modules that are not replayed, with the reason; docs/formal.md names them.
EXCEPTIONS: Mapping[str, str] = {
    "Numbers": "interval arithmetic by reflection, which coqchk evaluates without Coq's virtual machine",
}
# What the summary must say in every section but that of the axioms.
_SECTION = re.compile(r"^\* ([^:\n]+):[ ]*(.*?)(?=^\* |\Z)", re.M | re.S)
_WANTED = {
    "Theory": "Set is predicative",
    "Constants/Inductives relying on type-in-type": "<none>",
    "Constants/Inductives relying on unsafe (co)fixpoints": "<none>",
    "Inductives whose positivity is assumed": "<none>",
}


def verdict(status: int, said: str) -> str:
    """What is wrong with one module's answer; "" if it was replayed and assumes nothing of its own."""
    if status:
        return f"coqchk refuses it: {' '.join(said.split())[-400:]}"
    sections = {name: " ".join(text.split()) for name, text in _SECTION.findall(said)}
    for name, wanted in _WANTED.items():
        if sections.get(name) != wanted:
            return f"coqchk says of {name.lower()}: {sections.get(name, 'nothing')}"
    if "Axioms" not in sections:
        return "coqchk names no axioms, not even those of the real numbers"
    own = [name for name in sections["Axioms"].split() if name.startswith(f"{coq.LIBRARY}.")]
    return f"coqchk finds axioms of ours: {', '.join(own)}" if own else ""


def one(folder: Path, stem: str, program: str = "coqchk", limit: float = LIMIT_SECONDS) -> str:
    """Replay one compiled module."""
    command = [program, "-silent", "-o", "-norec", f"{coq.LIBRARY}.{stem}", "-Q", ".", coq.LIBRARY]
    try:
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return f"coqchk was stopped after {limit:g} s"
    return verdict(done.returncode, done.stdout)


def replay(
    folder: Path, stems: Iterable[str], say: Callable[[str], None] = lambda _: None, program: str = "coqchk"
) -> dict[str, str]:
    """``{module: what is wrong}`` of all modules but the exceptions. Raises CoqMissing where there is no coqchk."""
    if shutil.which(program) is None:
        raise coq.CoqMissing(f"formal: there is no {program} here, which belongs to Coq; install {coq.PACKAGES}")
    wanted = [stem for stem in stems if stem not in EXCEPTIONS]
    with ThreadPoolExecutor(coq.PROCESSES) as pool:
        found = dict(zip(wanted, pool.map(lambda stem: one(folder, stem, program), wanted), strict=True))
    say(f"coqchk replayed {sum(not fault for fault in found.values())} of {len(wanted)} modules")
    return found
