"""``python -m report``: merge the evidence, render the page and the paper; runs no proof, no check, no experiment.

Exit status 0: rendered, nothing failed. 1: rendered, and something failed (the page says what, in red) or a required
route is missing; with --strict also anything undecided, stale, not run or not fully proved. 2: evidence, records or
arguments that cannot be used: nothing is written.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import webbrowser
from pathlib import Path
from typing import Any

from bayesgrad import evidence as store
from bayesgrad.command import finish
from bayesgrad.evidence import BadEvidence, status
from bayesgrad.theorems import THEOREMS


def parser() -> argparse.ArgumentParser:
    """The command line of ``python -m report``."""
    options = argparse.ArgumentParser(
        prog="python -m report", description="Render the report from the evidence on disk."
    )
    options.add_argument("--only", metavar="LABEL", default="", help="one result on a page of its own")
    options.add_argument("--output", metavar="DIR", type=Path, default=None, help="where to (default: report/build)")
    options.add_argument("--open", action="store_true", help="open the page in the browser afterwards")
    options.add_argument("--pdf", action="store_true", help="also build the PDF (needs latexmk)")
    options.add_argument(
        "--require", metavar="ROUTE", action="append", default=[], help="fail if this route has not run"
    )
    options.add_argument(
        "--evidence", metavar="FILE", type=Path, default=None, help="render this merged evidence instead"
    )
    options.add_argument(
        "--strict", action="store_true", help="exit 1 unless everything is established, fresh and decided"
    )
    options.add_argument("--fragments", metavar="DIR", type=Path, default=store.FOLDER, help=argparse.SUPPRESS)
    options.add_argument("--readme", action="store_true", help="write the status table of README.md")
    options.add_argument("--check", action="store_true", help="with --readme: compare only, exit 1 if stale")
    options.add_argument("--quiet", action="store_true", help="print only what went wrong")
    return options


def load(options: argparse.Namespace) -> Any:
    """The context of this call. Raises :class:`BadEvidence`, which :func:`main` turns into exit status 2."""
    from report.context import Context, read_gallery, read_records

    labels = [theorem.label for theorem in THEOREMS]
    if options.only and options.only not in labels:
        import difflib

        near = difflib.get_close_matches(options.only, labels, 3, 0.4)
        hint = ", such as " + ", ".join(near) if near else ""
        raise BadEvidence(f"--only: got {options.only!r}, expected a label{hint}")
    for route in options.require:
        if route not in store.ROUTES:
            raise BadEvidence(f"--require: got {route!r}, expected one of {', '.join(store.ROUTES)}")
    whole = options.evidence is not None
    fragments = status.read_merged(options.evidence) if whole else status.read_all(options.fragments)
    evidence = status.merge(THEOREMS, fragments)
    return Context(THEOREMS, evidence, read_records(evidence), options.only, fragments, read_gallery())


def pdf(folder: Path, say: Any) -> bool:
    """Build the paper where TeX is installed; false only if TeX failed."""
    if shutil.which("latexmk") is None:
        say("no PDF: latexmk is not installed; bayesgrad.tex is ready for it")
        return True
    command = [
        "latexmk",
        "-pdf",
        "-interaction=nonstopmode",
        "-halt-on-error",
        "-latexoption=-no-shell-escape",
        "bayesgrad.tex",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        tail = "\n".join(line for line in done.stdout.splitlines() if line.startswith(("!", "l.")))
        print(f"latexmk failed, see {folder / 'bayesgrad.log'}\n{tail}", file=sys.stderr)
    return done.returncode == 0


def render(context: Any, options: argparse.Namespace) -> int:
    """Write the page, the paper and the merged evidence; returns the exit status, 0 or 1. Raises BadEvidence."""
    from report import render as printer

    started = time.perf_counter()

    def say(message: str) -> None:
        if not options.quiet:
            print(f"report: {message}", flush=True)

    folder = options.output or store.ROOT / "report" / "build"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadEvidence(f"--output: {folder} cannot be made a folder ({error.strerror})") from error
    for route, reason in context.absent:
        say(f"{route}: not run ({reason})")
    store.write_json(folder / "evidence.json", context.evidence)
    say(f"evidence of {len(context.results)} results in {folder / 'evidence.json'}")
    tree = printer.document(context)
    say(f"{len(tree.figures)} figures")
    page, refused = printer.html(context, tree)
    name = f"{options.only}.html" if options.only else "index.html"
    store.write_bytes(folder / name, page.encode("utf-8"))
    say(f"{folder / name} ({len(page.encode('utf-8')) / 2**20:.2f} MiB)")
    built = True
    if not options.only:
        store.write_bytes(folder / "bayesgrad.tex", printer.tex(context, tree).encode("utf-8"))
        say(f"{folder / 'bayesgrad.tex'}")
        if options.pdf:
            built = pdf(folder, say)
    for sentence in refused:
        print(f"report: FAILED a formula is shown as plain text: {sentence}", file=sys.stderr)
    say(f"done in {time.perf_counter() - started:.1f} s")
    if options.open:
        webbrowser.open((folder / name).resolve().as_uri())
    failed = bool(refused)
    for label, what in context.failures:
        failed = True
        print(f"report: FAILED {label + ': ' if label else ''}{what}", file=sys.stderr)
    for route, reason in context.absent:
        if route in options.require:
            failed = True
            print(f"report: FAILED {route} is required: {reason}", file=sys.stderr)
    if options.strict:
        everywhere = os.environ.get("CI", "").lower() == "true"
        for name, why in status.unsettled(THEOREMS, context.evidence, context.fragments, everywhere):
            failed = True
            print(f"report: NOT ESTABLISHED {name}: {why}", file=sys.stderr)
        failed = failed or not all(context.proved.values())
    print(status.summary(context.proved), flush=True)
    return 1 if failed or not built else 0


def table(context: Any, options: argparse.Namespace) -> int:
    """Write or compare the tables of README.md; returns the exit status, 0 or 1. Raises BadEvidence."""
    from report import readme

    if not options.check:
        print(f"README.md: {'status table written' if readme.write(context) else 'already up to date'}")
        return 0
    absent = [route for route, _ in context.absent]
    compared = [route for route in (*status.SYMBOLIC, "check") if route not in absent]
    if not compared:
        print("README.md: nothing to compare with, no route has run: make report", file=sys.stderr)
        return 1
    found = readme.differences(context, absent)
    for sentence in found:
        print(f"README.md is stale: {sentence}", file=sys.stderr)
    if found:
        print("run make readme", file=sys.stderr)
        return 1
    print(f"README.md: up to date (compared: {', '.join(compared)})")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = parser().parse_args(arguments)
    try:
        context = load(options)
        return table(context, options) if options.readme else render(context, options)
    except BadEvidence as error:
        print(f"python -m report: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    finish(main, "python -m report: interrupted, nothing half-written")
