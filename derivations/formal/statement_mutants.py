"""Statements with one letter, sign or relation changed: the theorem must not pass for any of them.

The audit compares each theorem with its committed statement. How sharp that is shows by changing the statement: Coq
must refuse the theorem for the mutant. A mutant that is no proposition at all tells nothing and is counted apart. One
that the theorem still proves says the same if Coq finds the two propositions equal by computation (v c c for v j c,
where v is constant); otherwise it is a survivor and a fault.

    python -m derivations.formal --mutate COUNT      that many, drawn with a fixed seed; 0 for all
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from derivations.formal import audit, coq
from derivations.formal.coq_statements import Statement

SAMPLE, SEED = 300, 20250301
_PART = 150  # mutants in one process
# What may stand in place of what; white space on both sides keeps arrows and comparisons whole.
_SIGNS: Mapping[str, str] = {
    "+": "-", "-": "+", "*": "+", "/": "*", "<=": "<", "<": "<=", "/\\": "\\/", "<->": "->", "=": "<>",
}  # fmt: skip
_SIGN = re.compile(rf"(?<=\s)(?:{'|'.join(re.escape(sign) for sign in _SIGNS)})(?=\s)")
_LETTER = re.compile(r"(?<![\w'.%])[A-Za-z](?:_[A-Z]|')?(?![\w'])")
_DIGIT = re.compile(r"(?<![\w'.])[0-9](?![\w'.])")
# Letters of one kind, which may stand in each other's place without the statement losing its sense.
_KINDS = ("i j k l c e r h x y", "n m d C H", "q k v", "a b s", "u G g", "p q r t", "lo hi", "F I J M N")


@dataclass(frozen=True)
class Mutant:
    """One changed statement. ``change`` is what was changed, and where: "a -> b at 17"."""

    statement: Statement
    change: str
    text: str


def mutants(statement: Statement) -> Iterator[Mutant]:
    """Every single change of a statement's text: each sign, each digit, each letter into those of its kind."""
    text = statement.text
    letters = set(_LETTER.findall(text))
    for found in _SIGN.finditer(text):
        yield _changed(statement, found, _SIGNS[found[0]])
    for found in _DIGIT.finditer(text):
        yield _changed(statement, found, "1" if found[0] == "0" else "0")
    for found in _LETTER.finditer(text):
        alike = {other for kind in _KINDS if found[0] in kind.split() for other in kind.split()} & letters
        for other in sorted(alike - {found[0]}):
            yield _changed(statement, found, other)


def _changed(statement: Statement, found: re.Match[str], other: str) -> Mutant:
    text = statement.text[: found.start()] + other + statement.text[found.end() :]
    return Mutant(statement, f"{found[0]} -> {other} at {found.start()}", text)


def sample(statements: Iterable[Statement], count: int | None = SAMPLE, seed: int = SEED) -> list[Mutant]:
    """A seeded sample of all mutants, spread over the statements; all of them for None."""
    everyone = [list(mutants(statement)) for statement in statements]
    if count is None:
        return [mutant for own in everyone for mutant in own]
    rng = random.Random(seed)
    chosen: list[Mutant] = []
    for own in everyone:
        rng.shuffle(own)
    while len(chosen) < count and any(everyone):
        for own in everyone:
            if own and len(chosen) < count:
                chosen.append(own.pop())
    return chosen


def script(chosen: Iterable[Mutant], where: Mapping[str, tuple[str, int]]) -> str:
    """The commands that state every mutant and offer it the theorem of its statement."""
    chosen = list(chosen)
    files = sorted({where[mutant.statement.name][0].removesuffix(".v") for mutant in chosen})
    lines = [f"From {coq.LIBRARY} Require {file}.\n" for file in ["Statements", *files]]
    lines.append(f"From {coq.LIBRARY} Require Import Definitions.\nModule Mutants.\n")
    for number, mutant in enumerate(chosen):
        file = where[mutant.statement.name][0].removesuffix(".v")
        lines += [
            audit.mark("mutant", str(number)),
            f"Definition mutant_{number} : Prop :=\n{mutant.text}.\n",
            f"Timeout 5 Definition audit_{number} : mutant_{number} := {coq.LIBRARY}.{file}.{mutant.statement.name}.\n",
            f"Timeout 5 Definition same_{number} : mutant_{number} = "
            f"{coq.LIBRARY}.Statements.Expected.{mutant.statement.name} := eq_refl.\n",
        ]
    return "".join([*lines, audit.mark("end", "all")])


@dataclass(frozen=True)
class Outcome:
    """How many mutants were refused, say the same, or are no proposition; and those that survived."""

    refused: int
    same: int
    senseless: int
    survivors: tuple[Mutant, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """One sentence a survivor; and one where nothing was refused, so that nothing was tried."""
        found = [
            f"{mutant.statement.name} is proved although its statement was changed ({mutant.change})"
            for mutant in self.survivors
        ]
        return (*found, *(() if self.refused else ("no changed statement was refused: none was tried",)))


def run(folder: Path, chosen: list[Mutant], where: Mapping[str, tuple[str, int]], coqtop: str = "coqtop") -> Outcome:
    """Offer the theorems to the mutants of their statements, in as many processes as a build may use."""
    usable = [mutant for mutant in chosen if mutant.statement.name in where]
    parts = [usable[start : start + _PART] for start in range(0, len(usable), _PART)]
    with ThreadPoolExecutor(coq.PROCESSES) as pool:
        answers = list(pool.map(lambda part: coq.evaluate(folder, script(part, where), coqtop), parts))
    refused = same = senseless = 0
    survivors = []
    for part, answer in zip(parts, answers, strict=True):
        for number, mutant in enumerate(part):
            said = audit.between(answer, "mutant", str(number))
            if f"mutant_{number} is defined" not in said:
                senseless += 1
            elif f"audit_{number} is defined" not in said:
                refused += 1
            elif f"same_{number} is defined" in said:
                same += 1
            else:
                survivors.append(mutant)
    return Outcome(refused, same, senseless, tuple(survivors))
