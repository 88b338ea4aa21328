"""Mathematics in text from data: formulas between dollars, names between backticks, letters of the notation.

    lettered("row i sees a key; a_ij > 0")  ->  row $i$ sees a key; $a_{ij}$ > 0

Only what :mod:`report.tex_mathml` accepts becomes a formula; everything else stays the text that it is.
"""

from __future__ import annotations

import re

from report.document import Code, Line, Math, Text
from report.tex_mathml import is_math

_MATH = re.compile(r"\$([^$]+)\$|`([^`]+)`")


def rich(source: object) -> Line:
    """Data that may hold formulas between dollars or names between backticks; anything else in it is plain text."""
    string, parts, at = str(source), [], 0
    for match in _MATH.finditer(string):
        if match[1] is not None and not is_math(match[1]):
            continue
        parts += [Text(string[at : match.start()]), Math(match[1]) if match[1] is not None else Code(match[2])]
        at = match.end()
    return tuple(part for part in (*parts, Text(string[at:])) if part != Text(""))


_NAMES = "eta|omega|tau|pi|mu|theta|rho|alpha|beta|gamma|delta|lambda|sigma|bbar|ubar|sum"
_LETTER = re.compile(
    rf"(?<![\w$\\'])(?:(?:d?[A-Za-z]|{_NAMES})_(?:\{{[a-z0-9+-]+\}}|[a-z]{{1,2}}|[A-Z]|\d)|d[zgubvsALWc]"
    rf"|(?:eta|omega|theta|tau|mu|pi|bbar)|(?<!\()[A-Za-z]|(?<=\()[A-Za-z](?!\)))(?![\w'}}])"
)
_PROSE = frozenset(["a", "A", "I"])
_COMMANDS = {"bbar": r"\bar b", "ubar": r"\bar u"}


def lettered(source: object) -> Line:
    """Words with letters of the notation in them: ``a_ij``, ``W_O`` and ``eta`` are set as mathematics."""
    string, at = str(source).replace("<=", "≤").replace(">=", "≥"), 0
    parts: list[Text | Math] = []
    if "$" in string or "`" in string:
        return rich(source)
    for match in _LETTER.finditer(string):
        if match[0] in _PROSE:
            continue
        letter, _, script = match[0].partition("_")
        plain = len(letter) == 1 or (len(letter) == 2 and letter[0] == "d")
        name = _COMMANDS.get(letter, letter if plain else f"\\{letter}")
        tex = f"{name}_{{{script.strip('{}')}}}" if script else name
        if not is_math(tex):
            continue
        parts += [Text(string[at : match.start()]), Math(tex)]
        at = match.end()
    return tuple(part for part in (*parts, Text(string[at:])) if part != Text(""))
