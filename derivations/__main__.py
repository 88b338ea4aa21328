"""Print, list and record the proofs.

python -m derivations                                 every result that has a proof, and its verdict
python -m derivations attention.routing-law           statement, assumptions, steps, verdict
python -m derivations LABEL --format latex            the same for a paper; --format json for programs
python -m derivations LABEL --tree                    what it rests on
python -m derivations new attention.sink              write the module of a new result, which runs
python -m derivations --missing                       what each result lacks
python -m derivations --evidence                      proofs, exact instances, shipped code, SymPy: run all, record
python -m derivations --certificates DIR              why each result is true, for python -m bayesgrad.checker
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bayesgrad import evidence
from bayesgrad.command import finish
from bayesgrad.evidence import ROOT
from derivations import catalogue, certificates, laws, present, skeleton, trust
from derivations.result import BadModule
from derivations.routes import code_route, exact_instances, sympy_sizes

SOURCES = (
    "bayesgrad/symbolic/*.py",
    "bayesgrad/symbolic/book.json",
    "bayesgrad/checker.py",
    "derivations/*.py",
    "derivations/*/*.py",
    "derivations/formal/*.v",
    "bayesgrad/theorems.py",
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m derivations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("label", nargs="?", help="a result, such as attention.routing-law; or new, then LABEL")
    parser.add_argument("made", nargs="?", metavar="LABEL", help="after new: the label of the result to begin")
    parser.add_argument("--missing", action="store_true", help="say what each result lacks")
    parser.add_argument("--format", choices=("text", "latex", "json"), default="text", help="how to print it")
    parser.add_argument("--tree", action="store_true", help="print what the result rests on instead")
    parser.add_argument("--evidence", action="store_true", help="run everything and write report/build/evidence")
    parser.add_argument("--catalogue", action="store_true", help="write bayesgrad/catalogue.json from what is proved")
    parser.add_argument("--book", action="store_true", help="write bayesgrad/symbolic/book.json, what is claimed")
    parser.add_argument("--certificates", type=Path, metavar="DIR", help="write the certificate of every result")
    parser.add_argument("--force", action="store_true", help="with --evidence: run although nothing has changed")
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except BadModule as error:
        print(f"python -m derivations: {error}", file=sys.stderr)
        return 2


def _run(args: argparse.Namespace) -> int:
    if args.label == "new":
        path = skeleton.new(args.made or "")
        print(f"{path.relative_to(ROOT)}: fill in what says TODO; then python -m derivations {args.made}")
        return 0
    if args.missing:
        print(skeleton.report())
        return 0
    if args.catalogue:
        certificates.write_text(catalogue.DATA, catalogue.data())
        return 0
    if args.book:
        certificates.write_book()
        return 0
    if args.certificates:
        certificates.write_certificates(args.certificates)
        print(f"python -m bayesgrad.checker {certificates.BOOK.relative_to(ROOT)} {args.certificates}")
        return 0
    if args.evidence:
        try:
            for route in ("proof", "exact", "code", "sympy"):
                args.force or evidence.load(route)  # damaged evidence is refused before any work
            return record(force=args.force)
        except evidence.BadEvidence as error:
            print(f"python -m derivations: {error}", file=sys.stderr)
            return 2
    if args.label is None:
        return overview()
    if args.label not in laws.labels():
        return unknown(args.label)
    if args.tree:
        print(present.tree(args.label))
    else:
        formats = {"text": present.as_text, "latex": present.as_latex, "json": _json}
        print(formats[args.format](args.label))
    return 0 if laws.law(args.label).word == "proved" else 1


def _json(label: str) -> str:
    return json.dumps(present.as_dict(label), indent=1, ensure_ascii=False)


def unknown(label: str) -> int:
    """One sentence about a label that is no result or has no proof yet; exit status 2."""
    from bayesgrad.theorems import THEOREMS

    known = [t.label for t in THEOREMS]
    if label in known:
        print(f"label: {label} is in the catalogue, but it has no proof here yet", file=sys.stderr)
    else:
        near = difflib.get_close_matches(label, known, 3, 0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "python -m derivations lists the results"
        print(f"label: {label!r} is no result of the catalogue; {hint}", file=sys.stderr)
    return 2


def overview() -> int:
    for label in laws.labels():
        found = laws.law(label)
        print(f"{found.word:<10}  {label:<32}  {found.seconds:6.2f} s  {len(found.parts)} part(s)")
    print("\npython -m derivations LABEL prints one of them; --help says what else there is")
    return 0


def record(*, force: bool) -> int:
    """Write the evidence of the routes proof, exact and code; a route whose sources have not changed is not run."""
    console = Console(stderr=True)
    routes = (record_proofs, exact_instances.record, code_route.record, sympy_sizes.record)
    return max([route(force, console) for route in routes])


def record_proofs(force: bool, console: Console) -> int:
    """Run every proof and every wrong law and write the evidence; nothing is run when no source has changed."""
    known = None if force else evidence.read("proof")
    if known is not None:
        console.print(f"proofs: up to date ({len(known['results'])} results)")
        return 0 if all(r["verdict"] == "proved" for r in known["results"].values()) else 1
    began, before = time.perf_counter(), evidence.sources(SOURCES)
    labels = laws.labels()
    results = {
        label: present.as_dict(label)
        for label in track(labels, "proofs and wrong laws", console=console, disable=not console.is_terminal)
    }
    for label, second in certificates.verdicts(labels).items():
        results[label] = both(results[label], second)
    path = evidence.write(
        "proof",
        results,
        sources=before,
        patterns=SOURCES,
        versions=evidence.versions("python-flint"),
        seconds=time.perf_counter() - began,
        trusted_base=trust.base(),
    )
    bad = [label for label, entry in results.items() if entry["verdict"] != "proved"]
    held = [(label, row) for label, entry in results.items() for row in entry["detail"]["wrong_laws"]]
    loose = [f"{label}: {row['id']}" for label, row in held if row["verdict"] != "refuted"]
    console.print(
        f"proofs: {len(results) - len(bad)} of {len(results)} proved; {len(held) - len(loose)} of "
        f"{len(held)} wrong laws refuted; {path.relative_to(evidence.ROOT)}"
    )
    for label in bad:
        console.print(f"  {label}: {results[label]['verdict']}: {results[label]['reason']}", markup=False)
    for name in loose:
        console.print(f"  {name}: not refuted", markup=False)
    return 1 if bad or loose else 0


def both(kernel: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """A result with what the checker says of it: proved is what both judges accept."""
    if kernel["verdict"] == "proved" != second["verdict"]:
        kernel |= {
            "verdict": second["verdict"],
            "reason": f"the kernel accepts it, the checker does not: {second['reason']}",
        }
    return {**kernel, "checker": second}


if __name__ == "__main__":
    finish(main)
