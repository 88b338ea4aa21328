"""Compile the proofs from clean, audit them, write the evidence.

python -m derivations.formal             nothing to do when no source has changed since the last evidence
python -m derivations.formal --force     compile from clean whatever there is (what `make formal` does)
python -m derivations.formal --table     print label, theorem, axioms, hypotheses, seconds of the evidence that there is
python -m derivations.formal --mutate N  offer the theorems to N changed statements, drawn with a fixed seed; 0 for all

Exit status: 0 all proved; 1 something failed, named on standard error; 2 no Coq that can be used, or evidence that
is damaged: --force writes it again.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bayesgrad import evidence
from bayesgrad.command import finish
from derivations.formal import audit, build, coq, statement_mutants
from derivations.formal import coq_statements as statements


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m derivations.formal", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--force", action="store_true", help="compile although no source has changed")
    parser.add_argument("--table", action="store_true", help="print the table of the evidence and stop")
    parser.add_argument("--mutate", type=int, metavar="N", help="try N changed statements (0: all) and stop")
    args = parser.parse_args(argv)
    if args.mutate is not None and args.mutate < 0:
        parser.error(f"--mutate: {args.mutate} is less than 0; give a number of changed statements, or 0 for all")
    try:
        if args.mutate is not None:
            return mutate(args.mutate)
        if args.table:
            return table()
        if not args.force and (known := fresh()) is not None:
            told = f"formal: {summary(known['results'])}; no source has changed (--force compiles again)"
            print(told, file=sys.stderr)
            return exit_status(known["results"])
        return record()
    except evidence.BadEvidence as error:
        print(f"python -m derivations.formal: {error}", file=sys.stderr)
        return 2


def fresh() -> Mapping[str, Any] | None:
    """The evidence if every source is what it was, and no source is new."""
    return evidence.read("formal")


def exit_status(results: Mapping[str, Any]) -> int:
    return 0 if all(result["verdict"] == "proved" for result in results.values()) else 1


def record() -> int:
    """Build and write the evidence."""
    before = evidence.sources(build.SOURCES)
    outcome = build.run(say=lambda line: print(line, file=sys.stderr, flush=True))
    evidence.write(
        "formal",
        outcome.results,
        sources=before,
        patterns=build.SOURCES,
        versions=evidence.versions("bayesgrad", "numpy", "coq"),
        seconds=outcome.seconds,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = used.ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    for fault in outcome.faults:
        print(f"formal: {fault}", file=sys.stderr)
    if outcome.faults:
        print(f"formal: {summary(outcome.results)}; {len(outcome.faults)} fault(s) above", file=sys.stderr)
        return 1
    print(
        f"formal: {summary(outcome.results)}, axioms only from the list of {len(audit.AXIOMS)}; "
        f"{outcome.seconds:.0f} s ({used.ru_utime + used.ru_stime:.0f} s of processor time), "
        f"largest process {peak:.0f} MiB, Coq {outcome.coq}",
        file=sys.stderr,
    )
    return exit_status(outcome.results)


def mutate(count: int) -> int:
    """Compile, and offer the theorems to changed statements."""
    folder = build.prepare()
    coq.version()
    coq.libraries(folder)
    if broken := [f"{done.name}.v: {done.error}" for done in coq.compile_all(folder).values() if done.error]:
        print(f"formal: {broken[0]}", file=sys.stderr)
        return 1
    chosen = statement_mutants.sample(statements.read(), count or None)
    found = statement_mutants.run(folder, chosen, statements.theorems())
    for fault in found.faults:
        print(f"formal: {fault}", file=sys.stderr)
    print(
        f"formal: {len(chosen)} changed statements: {found.refused} refused, {found.same} that Coq finds to say the "
        f"same, {found.senseless} that are no propositions, {len(found.survivors)} survivors",
        file=sys.stderr,
    )
    return 1 if found.faults else 0


def summary(results: Mapping[str, Any]) -> str:
    proved = sum(result["verdict"] == "proved" for result in results.values())
    return f"{proved} of {len(results)} labels proved"


SHORT = {name: name.split(".")[-1] for name in audit.AXIOMS}


def rows(results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """label, theorem, verdict, axioms, seconds, hypotheses; corollaries and refutations under their label."""
    out: list[tuple[str, ...]] = []
    for label, result in results.items():
        detail = result.get("detail", {})
        inner = [*detail.get("corollaries", ()), *detail.get("refutations", ())]
        for index, item in enumerate([{**detail, "verdict": result["verdict"]}, *inner]):
            axioms = ", ".join(SHORT.get(name, name) for name in item.get("axioms", ())) or "none"
            seconds, verdict = item.get("seconds"), item.get("verdict", "not run")
            told = f"{seconds:.2f}" if isinstance(seconds, int | float) else "-"
            out.append(
                (
                    "" if index else label,
                    item.get("theorem", "-"),
                    verdict,
                    axioms,
                    told,
                    "; ".join(item.get("hypotheses", ())),
                )
            )
    return out


def table() -> int:
    known = fresh()
    if known is None:
        print("formal: there is no evidence of these sources; run make formal", file=sys.stderr)
        return 1
    listed = [("label", "theorem", "verdict", "axioms", "seconds", "hypotheses"), *rows(known["results"])]
    widths = [max(len(row[column]) for row in listed) for column in range(len(listed[0]))]
    for row in listed:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return exit_status(known["results"])


def _status() -> int:
    """The status of :func:`main`; what a person can mend is one line."""
    try:
        return main()
    except coq.CoqMissing as missing:
        print(missing, file=sys.stderr)
        return 2
    except ValueError as trouble:
        print(f"formal: {trouble}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    finish(_status, "formal: interrupted; no evidence was written")
