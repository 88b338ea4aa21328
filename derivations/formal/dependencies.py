"""What a Coq proof rests on, read from its sources: which other labelled theorems its proof reaches through lemmas.

Every item of a proof file (theorem, lemma, definition, tactic) is the set of names that its text uses. From the
theorems of a label the names are followed until they meet a theorem of another label: that one it rests on. This needs
no Coq; where Coq is, :mod:`derivations.formal.audit` compares with what the kernel says and reports a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from derivations.formal import coq_statements as statements

_ITEM = re.compile(r"^\s*(?:Local\s+|Global\s+)?(Theorem|Lemma|Definition|Fixpoint|Ltac|Let)\s+(\w+)", re.M)
_COMMENT = re.compile(r"\(\*|\*\)")
_NAME = re.compile(r"[A-Za-z_][\w']*")


def without_comments(source: str) -> str:
    """Coq source without its comments, which nest."""
    kept, depth, start = [], 0, 0
    for mark in _COMMENT.finditer(source):
        if depth == 0:
            kept.append(source[start : mark.start()])
        depth = max(depth + (1 if mark[0] == "(*" else -1), 0)
        start = mark.end()
    return "".join([*kept, source[start:]])


def items(folder: Path = statements.FOLDER) -> dict[str, frozenset[str]]:
    """``{name: the names that it uses}`` of every item of the proof files; two items of one name count as one."""
    found: dict[str, frozenset[str]] = {}
    for path in sorted(folder.glob("*.v")):
        if path.name == statements.STATEMENTS.name:
            continue  # the committed statements: no proof
        source = without_comments(path.read_text(encoding="utf-8"))
        starts = list(_ITEM.finditer(source))
        for item, after in zip(starts, [*starts, None][1:], strict=True):
            body = source[item.end() : after.start() if after else len(source)]
            found[item[2]] = found.get(item[2], frozenset()).union(_NAME.findall(body))
    return {name: used & found.keys() for name, used in found.items()}


@cache
def rests_on(folder: Path = statements.FOLDER) -> Mapping[str, tuple[str, ...]]:
    """``{label: the labels whose theorems its own theorems use}``, directly or through lemmas of no label."""
    uses = items(folder)
    owner = {statement.name: statement.label for statement in statements.read(folder / statements.STATEMENTS.name)}
    return {label: tuple(sorted(_reached(label, uses, owner))) for label in dict.fromkeys(owner.values())}


def _reached(label: str, uses: Mapping[str, frozenset[str]], owner: Mapping[str, str]) -> set[str]:
    waiting = [name for name, own in owner.items() if own == label]
    seen, found = set(waiting), set()
    while waiting:
        for name in uses.get(waiting.pop(), frozenset()) - seen:
            seen.add(name)
            if owner.get(name, label) == label:
                waiting.append(name)
            else:
                found.add(owner[name])
    return found


def faults(said: Mapping[str, Iterable[str]], folder: Path = statements.FOLDER) -> list[str]:
    """Where the sources and Coq differ; ``said`` maps each theorem to all the theorems that Coq says its proof uses."""
    owner = {statement.name: statement.label for statement in statements.read(folder / statements.STATEMENTS.name)}
    graph = rests_on(folder)
    kernel: dict[str, set[str]] = {label: set() for label in graph}
    for name, used in said.items():
        kernel[owner[name]].update(owner[other] for other in used if other in owner)
    found = []
    for label, direct in graph.items():
        closure, waiting = {label}, [label]
        while waiting:
            waiting += (more := set(graph[waiting.pop()]) - closure)
            closure |= more
        for other in sorted((set(direct) - kernel[label]) | (kernel[label] - closure)):
            found.append(f"{label}: Coq and the sources disagree whether its proof rests on {other}")
    return found
