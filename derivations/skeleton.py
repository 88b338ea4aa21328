"""``python -m derivations new LABEL`` writes a module that runs; ``--missing`` says what each result still lacks.

The skeleton states something small and true, x_i + y_i = y_i + x_i, so that it is proved from its first minute; the
words that it asks for are what ``--missing`` then reports.
"""

from __future__ import annotations

import re
from pathlib import Path

from derivations.laws import law
from derivations.result import FOLDER, BadModule, families, result, results
from derivations.wrong_laws import wrong_laws

_LABEL = re.compile(r"[a-z]+\.[a-z][a-z0-9]*(-[a-z0-9]+)*")
LEAST_WRONG_LAWS = 3
TODO = "TODO"

SKELETON = '''"""TODO: the law as a formula, and what it says."""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Eq, IndexedBase, symbols

from bayesgrad.symbolic import Book
from derivations.result import IDENTITY, OURS, Part, Result, WrongRow, stated

RESULT = Result(
    "{label}",
    title="TODO",
    means="""TODO: the picture in words.""",
    fails="""TODO: where it stops being true.""",
    source=OURS,
    routes=IDENTITY,
)

n = symbols("n", integer=True, nonnegative=True)
i = symbols("i", integer=True)
x, y = (IndexedBase(name, shape=(n,)) for name in "xy")
BOOK = Book()


@RESULT.proof
def proof() -> list[Part]:
    return [stated(BOOK, "law", Eq(x[i] + 2 * y[i], y[i] + x[i] + y[i], evaluate=False), says="TODO")]


@RESULT.wrong
def wrong() -> Iterator[WrongRow]:
    yield "law", "sign", "sign flipped", BOOK.read(x[i] - 2 * y[i]), "TODO"
'''


def new(label: str, folder: Path = FOLDER) -> Path:
    """Write the skeleton of a result. Raises BadModule, one sentence, and writes nothing then."""
    if not _LABEL.fullmatch(label):
        raise BadModule(f"label: got {label!r}, expected a family and a name in small letters, as attention.value-law")
    family, _, name = label.partition(".")
    if family not in families(folder):
        raise BadModule(f"label: no family {family!r} here, only {', '.join(families(folder))}; a family is a package")
    path = folder / family / f"{name.replace('-', '_')}.py"
    if path.exists():
        raise BadModule(f"label: {label} has a module already, {path.relative_to(folder.parent)}")
    path.write_text(SKELETON.replace("{label}", label), encoding="utf-8")
    return path


def missing(label: str) -> list[str]:
    """What a result lacks, each in a few words; an empty list where it is whole."""
    record = result(label)
    words = {"title": record.title, "means": record.means, "fails": record.fails}
    lacks = [name for name, text in words.items() if not text.strip() or TODO in text]
    found = law(label)
    lacks += [f"a proof of {p.name}" for p, v in zip(found.parts, found.verdicts, strict=True) if v.word != "proved"]
    if len(rows := wrong_laws(label)) < LEAST_WRONG_LAWS and record.routes["wrong_laws"] in ("required", "optional"):
        lacks.append(f"{LEAST_WRONG_LAWS - len(rows)} more wrong laws")
    if record.routes["code"] == "required" and not record.rows:
        lacks.append("a code row")
    if record.routes["code"] == "required" and not record.implements:
        lacks.append("the shipped function that implements it")
    return lacks


def report() -> str:
    """One line a result that lacks something."""
    lines = [f"{label:<32}  {', '.join(lacks)}" for label in results() if (lacks := missing(label))]
    return "\n".join(lines) or "no result lacks anything"
