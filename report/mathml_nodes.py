"""Pieces of MathML and how they stand beside each other: TeX's classes and TeX's spaces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.sax.saxutils import escape

RIGID = frozenset((*"+−-=≠≈≡∼≤≥⩽⩾∈∉⊆⊂·⋅×±∝∘≔:", "&lt;", "&gt;"))
"""Operators that no form stretches and whose form says nothing beside explicit spaces: a third of the page's signs."""

_WIDE_SPACE = re.compile(r'(lspace|rspace)="0\.(?:1667|2222|2778)em"')


class BadTeX(ValueError):
    """A formula outside the part of TeX that the report knows: the message says what and where."""


@dataclass(frozen=True)
class Node:
    """A piece of MathML with its TeX class; ``limits`` says that scripts go below and above."""

    xml: str
    kind: str = "ord"
    limits: bool = False
    core: str = ""  # the bare character of an operator, so that it can be drawn again with another form


def tight(xml: str) -> str:
    """Scripts have no room around their signs, as in TeX."""
    return _WIDE_SPACE.sub(r'\1="0.05em"', xml)


def plain_text(source: str) -> str:
    """Text inside a formula: escapes undone, everything else kept as data."""
    undone = re.sub(r"\\([ %&_#${},;])", lambda m: " " if m[1] in " ,;" else m[1], source)
    if "\\" in undone or "$" in undone.replace(r"\$", ""):
        raise BadTeX(f"a command inside text: {source!r}")
    return undone.replace("~", " ").replace("--", "–")


def symbol(char: str, kind: str, before: Node | None) -> Node:
    """A symbol by its command. Raises BadTeX for an unknown one."""
    char = escape(char)
    if kind == "ord":
        if char in "|‖/":
            return Node(f'<mo stretchy="false" lspace="0" rspace="0" form="infix">{char}</mo>', core=char)
        upright = ' mathvariant="normal"' if char in "∞∂∇⊤⊥∅" or "Α" <= char <= "Ω" else ""
        return Node(f"<mi{upright}>{char}</mi>")
    if kind == "op":
        return Node(f"<mo>{char}</mo>", "op", limits=char != "∫")
    if kind in ("open", "close"):
        form = "prefix" if kind == "open" else "postfix"
        return Node(f'<mo form="{form}" stretchy="false" lspace="0" rspace="0">{char}</mo>', kind)
    if kind == "punct":
        return Node(f'<mo separator="true" lspace="0" rspace="0.1667em">{char}</mo>', "punct")
    if kind == "bin" and (before is None or before.kind in ("bin", "rel", "open", "punct", "op", "fn")):
        return Node(f'<mo form="prefix" lspace="0" rspace="0">{char}</mo>')
    space = 0.2222 if kind == "bin" else 0.2778
    attributes = f'lspace="{space}em" rspace="{space}em"'
    if char not in RIGID:
        attributes = f'form="infix" stretchy="false" {attributes}'
    return Node(f"<mo {attributes}>{char}</mo>", kind)


def function(name: str, limits: bool) -> Node:
    """The name of a function, upright."""
    if limits:
        return Node(f'<mo movablelimits="true" form="prefix" lspace="0" rspace="0">{escape(name)}</mo>', "fn", True)
    return Node(word(name), "fn")


def word(name: str) -> str:
    """Words inside a formula."""
    upright = ' mathvariant="normal"' if len(name) == 1 else ""
    return f"<mi{upright}>{escape(name)}</mi>"


def space(width: float) -> Node:
    """A space of ``width`` ems."""
    return Node(f'<mspace width="{width}em"/>', "space")


def fence(char: str, form: str) -> str:
    """A bracket, stretched or not."""
    if not char:
        return ""
    return f'<mo form="{form}" stretchy="true" fence="true" lspace="0" rspace="0">{escape(char)}</mo>'


def table(rows: list[list[str]], align: str, wide: bool) -> str:
    """Rows of cells, aligned."""

    def cell(n: int, xml: str) -> str:
        side = align[n % len(align)]
        return f'<mtd class="{side}">{xml}</mtd>'

    lines = "".join(f"<mtr>{''.join(cell(n, xml) for n, xml in enumerate(row))}</mtr>" for row in rows)
    return f"<mtable{' displaystyle=' + chr(34) + 'true' + chr(34) if wide else ''}>{lines}</mtable>"


def join(nodes: list[Node]) -> Node:
    """A row, with TeX's thin space around the names of functions."""
    nodes = [node for node in nodes if node.kind != "none"]
    # A binary sign with nothing on its right is no operation: "a^+", "(-)".
    parts: list[str] = []
    for n, node in enumerate(nodes):
        last = nodes[n - 1] if n else None
        thin = last is not None and (
            (last.kind in ("fn", "op") and node.kind in ("ord", "fn", "inner", "op"))
            or (node.kind in ("fn", "op") and last.kind in ("ord", "close", "inner"))
            or (last.kind == "fn" and node.kind == "open" and last.limits)
        )
        if thin:
            parts.append('<mspace width="0.1667em"/>')
        parts.append(node.xml)
    if len(nodes) == 1:
        return nodes[0]
    return Node(f"<mrow>{''.join(parts)}</mrow>")
