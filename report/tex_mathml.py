r"""TeX in, MathML out: a parser of the part of TeX that :mod:`report.symbols` lists, and of nothing else.

    mathml(r"\frac{\partial L}{\partial s_{ij}}")  ->  <math><mfrac>...</mfrac></math>

It is the gate as well: a string that this parser refuses (an unknown command, an unbalanced brace, a comment sign)
reaches neither the page nor the paper as mathematics; both show it as the plain text that it is. Spacing follows TeX's
classes, because MathML alone takes the minus of ``= -a`` for a subtraction and puts ``log t`` as one word.
"""

from __future__ import annotations

import re
from functools import cache
from xml.sax.saxutils import escape

from report import symbols as tex
from report.mathml_nodes import (
    BadTeX,
    Node,
    fence,
    function,
    join,
    plain_text,
    space,
    symbol,
    table,
    tight,
    word,
)  # fmt: skip

_TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|[{}^_&~']|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
_STARRED = frozenset([r"\operatorname*"])


def tokens(source: str) -> list[str]:
    """The tokens of a formula; white space is dropped outside text."""
    found: list[str] = []
    for match in _TOKEN.finditer(source):
        token = match.group()
        if token.startswith("\\") and token.endswith("*") and token not in _STARRED:
            found += [token[:-1], "*"]
        else:
            found.append(token)
    return found


class Parser:
    """Reads one formula, token by token. Raises BadTeX for whatever is not in the tables."""

    def __init__(self, source: str) -> None:
        self.source, self.tokens, self.at = source, tokens(source), 0

    # ---- the token stream

    def peek(self, *, blank: bool = False) -> str:
        """The next token, left where it is."""
        while not blank and self.at < len(self.tokens) and self.tokens[self.at].isspace():
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self, *, blank: bool = False) -> str:
        """The next token, taken."""
        token = self.peek(blank=blank)
        if not token:
            raise BadTeX(f"the formula ends too early: {self.source!r}")
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        """Take ``token``; raises BadTeX if another one comes."""
        found = self.next()
        if found != token:
            raise BadTeX(f"expected {token!r}, found {found!r} in {self.source!r}")

    def raw(self) -> str:
        """The text of a braced group, braces inside balanced."""
        self.expect("{")
        depth = 1
        parts: list[str] = []
        while True:
            token = self.next(blank=True)
            depth += (token == "{") - (token == "}")
            if not depth:
                return "".join(parts)
            parts.append(token)

    def argument(self) -> str:
        """The source of an argument: a braced group's, or one token."""
        return self.raw() if self.peek() == "{" else self.next()

    # ---- grammar

    def row(self, *stop: str) -> Node:
        """Atoms up to one of the ``stop`` tokens (not consumed) or, with none, to the end."""
        nodes: list[Node] = []
        while True:
            token = self.peek()
            if not token or token in stop:
                break
            if token in ("}", "&", r"\\", r"\end", r"\right"):
                raise BadTeX(f"{token!r} without its partner in {self.source!r}")
            nodes.append(self.scripted(nodes[-1] if nodes else None))
        return join(nodes)

    def group(self) -> Node:
        """A braced group, or the single atom that TeX would take as an argument."""
        if self.peek() != "{":
            return self.atom(None)
        self.next()
        node = self.row("}")
        self.expect("}")
        return node

    def scripted(self, before: Node | None) -> Node:
        """An atom with its sub- and superscript."""
        base = Node("<mrow></mrow>") if self.peek() in ("^", "_", "'") else self.atom(before)
        below = above = ""
        primes = ""
        while True:
            token = self.peek()
            if token == "'":
                self.next()
                primes += "′"
            elif token == "^" and not above:
                self.next()
                above = tight(self.group().xml)
            elif token == "_" and not below:
                self.next()
                below = tight(self.group().xml)
            elif token in ("^", "_"):
                raise BadTeX(f"double {token} in {self.source!r}")
            else:
                break
        if primes:
            above = f"<mrow><mo>{primes}</mo>{above}</mrow>"
        if not below and not above:
            return base
        under, over = ("munder", "mover") if base.limits else ("msub", "msup")
        both = "munderover" if base.limits else "msubsup"
        tag = both if below and above else under if below else over
        return Node(f"<{tag}>{base.xml}{below}{above}</{tag}>", "op" if base.limits else base.kind)

    def atom(self, before: Node | None) -> Node:
        """One symbol, number, group or command."""
        token = self.next()
        if token == "{":
            node = self.row("}")
            self.expect("}")
            return Node(node.xml)
        if token.startswith("\\"):
            return self.command(token[1:], before)
        if token[0].isdigit():
            return Node(f"<mn>{token}</mn>")
        if token == "~":
            return space(0.3333)
        if token in tex.CHARACTERS:
            return symbol(*tex.CHARACTERS[token], before)
        if token.isalpha():
            return Node(f"<mi>{token}</mi>")
        raise BadTeX(f"{token!r} is no mathematics in {self.source!r}")

    def command(self, name: str, before: Node | None) -> Node:
        """What a command stands for, with its arguments."""
        if name in tex.SYMBOLS:
            return symbol(*tex.SYMBOLS[name], before)
        if name in tex.TEX_FUNCTIONS:
            return function(name, name in tex.LIMITS)
        if name in tex.SPACES:
            return space(tex.SPACES[name])
        if name in ("operatorname", "operatorname*"):
            return function(plain_text(self.raw()), name.endswith("*"))
        if name in tex.VARIANTS:
            return _variant(self.argument(), tex.VARIANTS[name], self.source)
        if name in tex.TEXTS:
            return Node(f"<mtext>{escape(plain_text(self.raw())).replace(' ', chr(0xA0))}</mtext>")
        if name in ("frac", "tfrac", "dfrac"):
            top, bottom = self.group().xml, self.group().xml
            shown = f"<mfrac>{top}{bottom}</mfrac>"
            display = {"tfrac": "false", "dfrac": "true"}.get(name)
            return Node(f'<mstyle displaystyle="{display}">{shown}</mstyle>' if display else shown, "inner")
        if name == "binom":
            top, bottom = self.group().xml, self.group().xml
            inner = f'<mfrac linethickness="0">{top}{bottom}</mfrac>'
            return Node(f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>", "inner")
        if name == "sqrt":
            return Node(f"<msqrt>{self.group().xml}</msqrt>")
        if name in tex.ACCENTS:
            return self.accent(name)
        if name in ("underbrace", "overbrace"):
            tag, char = ("munder", "⏟") if name == "underbrace" else ("mover", "⏞")
            return Node(f'<{tag}>{self.group().xml}<mo stretchy="true">{char}</mo></{tag}>', "op", limits=True)
        if name in ("overset", "underset", "stackrel"):
            mark, base = self.group().xml, self.group()
            tag = "munder" if name == "underset" else "mover"
            return Node(f"<{tag}>{base.xml}{mark}</{tag}>", "rel" if name == "stackrel" else base.kind)
        if name == "left":
            return self.fenced()
        if name in tex.SIZES:
            return self.sized(name)
        if name == "begin":
            return self.environment()
        if name == "substack":
            return self.substack()
        if name in tex.IGNORED:
            return Node("", "none")
        if name == "not":
            negated = {"=": "≠", r"\in": "∉", "<": "≮", ">": "≯"}.get(self.next())
            if negated:
                return symbol(negated, "rel", before)
        raise BadTeX(f"\\{name} is not in the report's table of mathematics: {self.source!r}")

    def accent(self, name: str) -> Node:
        """A base under an accent."""
        base, char = self.group(), tex.ACCENTS[name]
        stretchy = "true" if name in tex.WIDE else "false"
        tag, mark = ("munder", "accentunder") if name == "underline" else ("mover", "accent")
        return Node(f'<{tag} {mark}="true">{base.xml}<mo stretchy="{stretchy}">{char}</mo></{tag}>', base.kind)

    def delimiter(self) -> str:
        token = self.next()
        if token == ".":
            return ""
        char = tex.SYMBOLS[token[1:]][0] if token[1:] in tex.SYMBOLS and token[0] == "\\" else token
        if char not in "()[]{}|‖⟨⟩⌊⌋⌈⌉/<>":
            raise BadTeX(f"{token!r} is no delimiter in {self.source!r}")
        return {"<": "⟨", ">": "⟩"}.get(char, char)

    def fenced(self) -> Node:
        left = self.delimiter()
        body = self.row(r"\right")
        self.expect(r"\right")
        return Node(f"<mrow>{fence(left, 'prefix')}{body.xml}{fence(self.delimiter(), 'postfix')}</mrow>", "inner")

    def sized(self, name: str) -> Node:
        size = {"big": 1.2, "Big": 1.8, "bigg": 2.4, "Bigg": 3.0}[name.rstrip("lrm")]
        char = escape(self.delimiter())
        form = {"l": "prefix", "r": "postfix"}.get(name[-1], "prefix" if char in "([{⟨⌊⌈" else "postfix")
        kind = "open" if form == "prefix" else "close"
        attributes = f'form="{form}" stretchy="true" symmetric="true" minsize="{size}em" maxsize="{size}em"'
        return Node(f'<mo {attributes} lspace="0" rspace="0">{char}</mo>', kind)

    def cells(self, *stop: str) -> list[list[str]]:
        rows: list[list[str]] = [[]]
        while True:
            rows[-1].append(self.row("&", r"\\", *stop).xml)
            token = self.peek()
            if token not in ("&", r"\\"):
                return rows if rows[-1] != [""] and rows[-1] != ["<mrow></mrow>"] else rows[:-1]
            self.next()
            if token == r"\\":
                if self.peek() == "[":  # extra space after a line
                    while self.next() != "]":
                        pass
                rows.append([])

    def environment(self) -> Node:
        name = self.raw()
        if name not in tex.ENVIRONMENTS:
            raise BadTeX(f"environment {name!r} is not in the report's table of mathematics: {self.source!r}")
        align = tex.ENVIRONMENTS[name]
        if name == "array":
            align = "".join(c for c in self.raw() if c in "lcr") or "c"
        rows = self.cells(r"\end")
        self.expect(r"\end")
        if (closing := self.raw()) != name:
            raise BadTeX(f"\\begin{{{name}}} is closed by \\end{{{closing}}} in {self.source!r}")
        wide = name not in ("smallmatrix", "matrix", "pmatrix", "bmatrix", "vmatrix")
        shown = r"\displaystyle" in self.source if name == "array" else wide and name != "cases"
        body = table(rows, align, shown)
        left, right = tex.ENVIRONMENT_FENCES.get(name, ("", ""))
        return Node(f"<mrow>{fence(left, 'prefix')}{body}{fence(right, 'postfix')}</mrow>", "inner")

    def substack(self) -> Node:
        self.expect("{")
        rows = self.cells("}")
        self.expect("}")
        return Node(table(rows, "c", False))


def _variant(source: str, style: str, whole: str) -> Node:
    if style in ("normal", "sans", "mono") and re.fullmatch(r"[A-Za-z][A-Za-z0-9 .-]*", source):
        text = source if style == "normal" else "".join(tex.variant(c, style) for c in source)
        return Node(word(text), "fn" if len(source) > 1 else "ord")
    restyled = Parser(source)
    node = restyled.row()
    if restyled.peek():
        raise BadTeX(f"unbalanced braces in {whole!r}")
    if style == "normal":
        return Node(re.sub(r"<mi>(.)</mi>", r'<mi mathvariant="normal">\1</mi>', node.xml))
    leaf = re.compile(r"<(mi|mn)(?: [^>]*)?>([^<&]+)</\1>")
    styled = leaf.sub(lambda m: f"<{m[1]}>{''.join(tex.variant(c, style) for c in m[2])}</{m[1]}>", node.xml)
    return Node(styled)


@cache
def mathml(source: str, *, display: bool = False) -> str:
    """The formula as a ``<math>`` element. Raises :class:`BadTeX`."""
    if not isinstance(source, str):
        raise TypeError(f"source: got {type(source).__name__}, expected a TeX string")
    if "%" in source.replace(r"\%", ""):
        raise BadTeX(f"a comment sign in a formula: {source!r}")
    parser = Parser(source)
    body = parser.row()
    shown = ' display="block"' if display else ""
    return f"<math{shown}>{body.xml if body.xml.startswith('<mrow>') else f'<mrow>{body.xml}</mrow>'}</math>"


def is_math(source: str) -> bool:
    """Whether the parser knows all of ``source``."""
    try:
        mathml(source)
    except BadTeX:
        return False
    return True
