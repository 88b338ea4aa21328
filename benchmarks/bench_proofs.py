"""Proofs: all of them against their budgets, and one law at explicit sizes beside SymPy's own diff and simplify.

The general proof is one computation for every size. The exact instance decides the same claim at one size. SymPy gets
the loss as an explicit expression of its scores, differentiates it by every one of them, and simplifies the difference
to the law; it stops where it needs more than LIMIT seconds. All three run in the same process tree, one after another.

``python -m benchmarks.bench_proofs``
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass

LIMIT = 60.0  # seconds that SymPy gets for one size
SIZES = ((2, 3, 1), (2, 3, 4), (3, 4, 2), (3, 4, 5), (4, 5, 3), (5, 6, 4), (6, 7, 5))
LABEL = "attention.routing-law"

SYMPY = r"""
import sys, time
import sympy as sp

n, m, d = map(int, sys.argv[1:4])
def real(name, rows, columns):
    return [[sp.Symbol(f"{name}_{i}_{j}", real=True) for j in range(columns)] for i in range(rows)]
s, v, u = real("s", n, m), real("v", m, d), real("u", n, d)
began = time.perf_counter()
e = [[sp.exp(x) for x in row] for row in s]
a = [[x / sum(row) for x in row] for row in e]
g = [[sum(a[i][j] * v[j][c] for j in range(m)) for c in range(d)] for i in range(n)]
loss = sum(u[i][c] * g[i][c] for i in range(n) for c in range(d))
b = [[sum(u[i][c] * v[j][c] for c in range(d)) for j in range(m)] for i in range(n)]
for i in range(n):
    mean = sum(a[i][k] * b[i][k] for k in range(m))
    for j in range(m):
        assert sp.simplify(sp.diff(loss, s[i][j]) - a[i][j] * (b[i][j] - mean)) == 0
print(time.perf_counter() - began)
"""

# One line of JSON: seconds of the general proof, or of the exact instance at one size, in a fresh interpreter.
OURS = r"""
import json, sys, time
from derivations import laws, proof
from derivations.routes.cases import bodies_of
from derivations.routes.exact_instances import compare
from derivations.routes.functions import with_room
from derivations.routes.instances import Case

part = laws.law(sys.argv[1]).parts[0]
if len(sys.argv) == 2:
    began = time.perf_counter()
    verdict = proof.check(part.claim, part.proof)
    assert verdict.word == "proved", verdict.reason
    print(json.dumps([time.perf_counter() - began, verdict.compared]))
else:
    n, m, d = map(int, sys.argv[2:5])
    case = Case((("n", n), ("m", m), ("d_v", d)))
    began = time.perf_counter()
    found = with_room(lambda ring: compare(case, bodies_of(part.claim), part.claim, part.order, ring))
    assert not found.counterexample, found.counterexample
    print(json.dumps([time.perf_counter() - began, found.compared]))
"""

# Budgets: processor seconds of every proof and of every exact instance, and the peak of memory.
TOTALS = r"""
import json, resource, sys, time
from bayesgrad.theorems import THEOREMS
from derivations import laws, proof

if sys.argv[1] == "proofs":
    spent = {}
    for label in laws.labels():
        found = laws.law(label)
        began = time.process_time()
        for part in found.parts:
            assert proof.check(part.claim, part.proof).word == "proved", label
        spent[label] = time.process_time() - began
else:
    from derivations import code_route, exact_instances, enumerations
    route = exact_instances if sys.argv[1] == "exact" else code_route
    spent = {}
    for theorem in THEOREMS:
        began = time.process_time()
        route.entry(theorem.label, theorem.routes[sys.argv[1]])
        spent[theorem.label] = time.process_time() - began
slow = max(spent, key=spent.get)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([sum(spent.values()), slow, spent[slow], peak]))
"""


def _ask(script: str, *arguments: object, limit: float | None = None) -> str | None:
    """What a script prints in an interpreter of its own; None where it needs more time than it has."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise RuntimeError(f"{command[3:]}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


@dataclass(frozen=True)
class Row:
    """One size: seconds of the general proof, of the exact instance and of SymPy (None: gave up)."""

    size: tuple[int, int, int]
    general: float
    exact: float
    sympy: float | None


def sizes(limit: float = LIMIT) -> list[Row]:
    """The routing law at explicit sizes. SymPy is not asked again after it gave up once."""
    out: list[Row] = []
    general = json.loads(_ask(OURS, LABEL) or "[0]")[0]
    gave_up = False
    for size in SIZES:
        exact = json.loads(_ask(OURS, LABEL, *size) or "[0]")[0]
        answer = None if gave_up else _ask(SYMPY, *size, limit=limit)
        gave_up = answer is None
        out.append(Row(size, general, exact, None if answer is None else float(answer)))
    return out


def sizes_markdown(rows: list[Row], limit: float = LIMIT) -> str:
    """The table as Markdown."""
    lines = [
        "| n x m, d | general proof, every size at once | exact instance | SymPy diff + simplify |",
        "|---|---|---|---|",
    ]
    for row in rows:
        peer = f"{row.sympy:.1f} s" if row.sympy is not None else f"more than {limit:.0f} s, or given up before"
        n, m, d = row.size
        lines.append(f"| {n} x {m}, {d} | {row.general:.2f} s | {row.exact:.2f} s | {peer} |")
    return "\n".join(lines)


def totals_markdown() -> str:
    """All proofs, all exact instances and all shipped code against their budgets, in processor seconds."""
    lines = ["| what | measured | budget | kept |", "|---|---|---|---|"]
    for what, name, budget, each in (
        ("proofs", "general proofs", 20.0, 2.0),
        ("exact", "exact instances and their wrong laws", 60.0, None),
        ("code", "shipped code on symbols and its wrong laws", None, None),
    ):
        total, slow, most, peak = json.loads(_ask(TOTALS, what) or "[0, '', 0, 0]")
        lines.append(_line(f"all {name}", f"{total:.1f} s", total, budget, "s"))
        lines.append(_line(f"the slowest of them, {slow}", f"{most:.2f} s", most, each, "s"))
        lines.append(_line(f"memory of the {name}", f"{peak:.0f} MiB", peak, 1024.0, "MiB"))
    return "\n".join(lines)


def _line(what: str, shown: str, measured: float, budget: float | None, unit: str) -> str:
    said = "none" if budget is None else f"<= {budget:g} {unit}"
    kept = "" if budget is None else "yes" if measured <= budget else "NO"
    return f"| {what} | {shown} | {said} | {kept} |"


def sections(limit: float = LIMIT) -> list[tuple[str, str]]:
    """Title and table of each part, as ``python -m benchmarks`` prints them."""
    return [
        ("Proofs: processor seconds and memory", totals_markdown()),
        (f"The routing law at explicit sizes (SymPy has {limit:.0f} s a size)", sizes_markdown(sizes(limit), limit)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_proofs", description=__doc__)
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds for SymPy a size (default {LIMIT:.0f})")
    chosen = parser.parse_args()
    if not chosen.limit > 0:
        parser.error(f"--limit: got {chosen.limit}, expected a positive number of seconds")
    for title, table in sections(chosen.limit):
        print(f"## {title}\n\n{table}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
