"""Derive and judge what a SymPy file says.

    python -m bayesgrad.symbolic FILE.py                     every derive(...) and prove(...) of the file, judged
    python -m bayesgrad.symbolic FILE.py --format tex|html   the same for a paper or a browser
    python -m bayesgrad.symbolic FILE.py --source            and array-API source of the gradients, against autograd

The file is Python: it says definitions with ``let`` and asks with ``derive`` and ``prove``.
Exit status: 0 all proved, 1 something is refuted, 2 the file cannot be read, 3 something is undecided.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayesgrad.command import finish

PROVED, REFUTED, BAD, UNDECIDED = range(4)
STATUS = {"proved": PROVED, "refuted": REFUTED, "undecided": UNDECIDED}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bayesgrad.symbolic", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "file", type=Path, help="a Python file that states definitions and asks for gradients or proofs"
    )
    parser.add_argument("--format", choices=("text", "tex", "html"), default="text", help="how to print (text)")
    parser.add_argument("--source", action="store_true", help="print and check source of the gradients too")
    args = parser.parse_args(argv)
    try:
        return run(args.file, args.format, args.source)
    except BrokenPipeError:  # the reader has had enough: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROVED


def run(file: Path, shape: str, with_source: bool) -> int:
    """Print everything that a file asks for; returns the exit status."""
    missing = [name for name in ("sympy", "flint") if importlib.util.find_spec(name) is None]
    if missing:
        return bad(f"{missing[0]} is not installed; pip install 'bayesgrad[symbolic]'")
    if not file.is_file():
        return bad(f"{file}: no such file; expected a Python file that calls let, derive and prove")
    from bayesgrad.symbolic import api, printing

    results: list[Any] = []
    api.LISTENERS.append(results.append)
    try:
        api.open_book()
        runpy.run_path(str(file))
    except SyntaxError as error:
        return bad(f"{file}, line {error.lineno}: {error.msg}")
    except SystemExit as error:
        return bad(f"{file}: it ends the program with status {error.code}; expected it to come to its end")
    except Exception as error:
        return bad(f"{file}{_line(file, error)}: {_sentence(error)}")
    finally:
        api.LISTENERS.remove(results.append)
    if not results:
        return bad(f"{file}: it asks for nothing; expected derive(loss, variable) or prove(statement)")
    status = max((STATUS[r.word] for r in results), key=(PROVED, UNDECIDED, REFUTED).index)
    if shape == "html":
        print(printing.page(file.stem, [printing.as_html(r) for r in results]))
    elif shape == "tex":
        print("\n".join(printing.as_latex(r) for r in results))
    else:
        print("\n".join(printing.as_text(r, given=False) for r in results))
        for line in dict.fromkeys(line for r in results for line in printing.assumptions(r.claim)):
            print(f"given {line}")
    if with_source:
        status = max(status, write_source([r for r in results if isinstance(r, api.Derived)]))
    sys.stdout.flush()
    return status


def write_source(derived: Sequence[Any]) -> int:
    """Print the source of the gradients of each loss, and how it compares with autograd."""
    from bayesgrad.symbolic.agreement import agrees
    from bayesgrad.symbolic.source import source

    status = PROVED
    losses = dict.fromkeys(r.claim.lhs.body.tensor for r in derived)
    for loss in losses:
        laws = [r.claim for r in derived if r.claim.lhs.body.tensor is loss and r.word == "proved"]
        if not laws:
            continue
        print(f"\n{source(laws)}")
        lacking = [name for name in ("torch", "hypothesis") if importlib.util.find_spec(name) is None]
        if lacking:
            print(f"# not compared with autograd: {lacking[0]} is not installed")
            continue
        found = agrees(laws)
        if found.holds:
            print(f"# {found.examples} gradients compared with autograd, worst relative error {found.worst:.1e}")
        else:
            print(f"# not what autograd says: {found.wrong}")
            status = REFUTED
    return status


def bad(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return BAD


def _line(file: Path, error: BaseException) -> str:
    """Where in the file it went wrong."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == file]
    return f", line {lines[-1]}" if lines else ""


def _sentence(error: Exception) -> str:
    """An error in one line; one that is not of the language says its type."""
    from bayesgrad.symbolic import LanguageError, TermError

    said = " ".join(str(error).split())
    return said if isinstance(error, LanguageError | TermError) else f"{type(error).__name__}: {said}"


if __name__ == "__main__":
    finish(main)
