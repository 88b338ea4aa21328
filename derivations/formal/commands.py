"""What a proof file may not contain: commands that assume something, and a name that a library module has.

The audit asks Coq what each theorem rests on. These rules keep the sources from making that answer ambiguous: a module
of ours with a library module's name could lend its short name to a false axiom, and a command such as ``Variable`` is
an axiom outside a section and harmless inside one.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

# Allowed nowhere: they leave a proof open, switch a check of the kernel off, or load what is not in the sources.
_NEVER = re.compile(
    r"Admitted|Admit Obligations|Axioms?|Conjectures?|Primitive|Symbols?|Rewrite Rules?|Load|Declare ML Module|"
    r"Declare Module|Add (?:Rec )?LoadPath|Add ML Path|Existing Instance|"
    r"(?:Unset|Set) (?:Guard|Positivity|Universe) Check\w*|Unset Universe Checking|Print Debug GC|Reset|Back|Cd"
)
_TACTICS = re.compile(r"\b(?:admit|give_up|bypass_check|type_in_type|native_cast_no_check|vm_cast_no_check)\b")
# Axioms outside a section (a module type for Parameter), local names inside.
_LOCAL = re.compile(r"(?:Parameters?|Variables?|Hypothes[ie]s|Context)\b")
_OPEN = re.compile(r"(Section|Module Type)\s+(\w+)")
_MODULE = re.compile(r"Module\s+(?:Import\s+|Export\s+)?(\w+)")
_END = re.compile(r"End\s+(\w+)")
_LEXEME = re.compile(r'\(\*|\*\)|"(?:[^"]|"")*"')
_PREFIX = re.compile(r"(?:#\[[^\]]*\]\s*|(?:Local|Global|Polymorphic|Monomorphic|Program|Time|Fail|Timeout \d+)\s+)+")


@cache
def library_modules(coqc: str = "coqc") -> frozenset[str]:
    """The last names of all compiled modules of the installed Coq and its libraries."""
    where = subprocess.run([coqc, "-where"], capture_output=True, text=True, check=False).stdout.strip()
    return frozenset(path.stem for path in Path(where).rglob("*.vo")) if where else frozenset()


def bare(source: str) -> str:
    """Coq source without comments, which nest, and with empty strings. Coq reads strings inside comments too."""
    kept, depth, start = [], 0, 0
    for mark in _LEXEME.finditer(source):
        if depth == 0:
            kept.append(source[start : mark.start()])
            kept.append('""' if mark[0].startswith('"') else " ")
        depth = max(depth + {"(*": 1, "*)": -1}.get(mark[0], 0), 0)
        start = mark.end()
    return "".join([*kept, source[start:]])


def sentences(source: str) -> list[str]:
    """The sentences of Coq source, without comments and without bullets and braces in front."""
    parts = re.split(r"\.(?=\s|$)", bare(source))
    return [" ".join(re.sub(r"^[\s{}*+-]+", "", part).split()) for part in parts]


def assuming(source: str) -> list[str]:
    """The commands of a file that assume something where it would be an axiom, or that disarm the kernel."""
    found, inside = [], []
    for written in sentences(source):
        sentence = _PREFIX.sub("", written)
        if opened := _OPEN.match(sentence):
            inside.append((opened[1], opened[2]))
        elif (module := _MODULE.match(sentence)) and ":=" not in sentence:
            inside.append(("Module", module[1]))
        elif (end := _END.match(sentence)) and inside and inside[-1][1] == end[1]:
            inside.pop()
        elif re.match(rf"(?:{_NEVER.pattern})\b", sentence) or _TACTICS.search(written):
            found.append(sentence)
        elif _LOCAL.match(sentence):
            home = "Module Type" if sentence.startswith("Parameter") else "Section"
            if not inside or inside[-1][0] != home:
                found.append(sentence)
    return found


def faults(folder: Path, library: frozenset[str]) -> list[str]:
    """One sentence for every rule that a source file breaks."""
    out = []
    for path in sorted(folder.glob("*.v")):
        if path.stem in library:
            out.append(f"{path.name} has the name of a library module, which its names could be taken for; rename it")
        for sentence in assuming(path.read_text(encoding="utf-8")):
            short = sentence if len(sentence) <= 80 else f"{sentence[:80]} ..."
            out.append(f"{path.name} assumes or disarms something: {short}")
    return out
