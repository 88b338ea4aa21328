r"""Long formulas for a page of fixed width: broken before relations and signs at the outermost level.

a = b + c  ->  \begin{array}{l} a \\ \qquad = b + c \end{array}      where it is too wide for one line
"""

from __future__ import annotations

from report.tex_mathml import tokens


def _commands(names: str) -> frozenset[str]:
    return frozenset(names.split())


_OPEN = _commands(r"{ ( [ \left \begin \{ \langle \lfloor \bigl \Bigl \biggl")
_CLOSE = _commands(r"} ) ] \right \end \} \rangle \rfloor \bigr \Bigr \biggr")
_RELATIONS = _commands(
    r"= < > \le \leq \ge \geq \ne \iff \implies \Longrightarrow \Rightarrow \in \equiv \propto \quad \qquad "
    r"\Longleftrightarrow \wedge \land"
)
_SIGNS = _commands(r"+ - \pm")
_SIZED = _commands(r"\bigl \bigr \Bigl \Bigr \biggl \biggr \left \right")
_NO_WIDTH = _commands(r"{ } ^ _ & \left \right \, \; \! \mathrm \text \operatorname \frac")


def width(source: str) -> float:
    """Roughly how many characters wide a formula is."""
    total, small, depth = 0.0, 0, 0
    for token in tokens(source):
        if token.isspace():
            continue
        if token in ("^", "_"):
            small = depth + 1
        depth += (token == "{") - (token == "}")
        if token not in _NO_WIDTH:
            wide = 2.4 if token in _RELATIONS or token in _SIGNS else 1.0
            total += wide * (0.6 if small and depth >= small else 1.0)
        if depth < small:
            small = 0
    return total


def pieces(source: str, before_relations: bool = True) -> list[str]:
    r"""The formula cut before each outermost relation or sign, or, if not that, at each outermost ``\qquad``."""
    found, current, depth, before = [], "", 0, ""
    skip = False
    for token in tokens(source):
        if skip:  # the delimiter that follows \left, \bigl and their kin
            current += token
            skip = token.isspace()
            continue
        if before_relations:
            sign = token in _SIGNS and before not in ("", *_RELATIONS, *_SIGNS, *_OPEN, "^", "_")
            cut = token in _RELATIONS or sign
        else:
            cut = token in (r"\qquad", r"\quad")
        if depth == 0 and cut and current.strip():
            found.append(current)
            current = ""
        depth += (token in _OPEN) - (token in _CLOSE)
        if not (cut and depth == 0 and not before_relations):
            current += token + (" " if token.startswith("\\") and token[1:].isalpha() else "")
        skip = token in _SIZED
        if not token.isspace():
            before = token
    return [*found, current]


def fitted(source: str, columns: float = 78.0) -> str:
    """``source`` as it is where it fits, otherwise as lines that do: each statement on its own, long ones broken."""
    if width(source) <= columns or r"\begin" in source or r"\\" in source:
        return source
    lines: list[str] = []
    for statement in pieces(source, before_relations=False):
        broken: list[str] = []
        for piece in pieces(statement):
            if broken and width(broken[-1]) + width(piece) <= columns - 4:
                broken[-1] += piece
            else:
                broken.append(piece)
        lines += [broken[0], *(rf"\qquad {rest}" for rest in broken[1:])]
    if len(lines) == 1:
        return source
    # an array and not aligned: amsmath's \operatorname breaks at the start of an aligned cell
    shown = [rf"\displaystyle {line}" for line in lines]
    return r"\begin{array}{@{}l@{}}" + r"\\[3pt]".join(shown) + r"\end{array}"
