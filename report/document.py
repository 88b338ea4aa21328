"""The document tree: what the report says, before it is printed as a page or as a paper.

    section = Section("routing", Msg("heading.head"), (Para(prose("Rows of $F$ sum to zero.")), Display(r"F a = 0")))

Sections build these trees from evidence; :mod:`report.render_html` and :mod:`report.render_tex` print the same tree.
A string that comes from data is always a :class:`Text`, so that no renderer ever sees unescaped data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

# ---- in a line


@dataclass(frozen=True)
class Text:
    """Data or words; printed as they are."""

    text: str


@dataclass(frozen=True)
class Math:
    """A formula in the line."""

    tex: str


@dataclass(frozen=True)
class Code:
    """Names, paths, commands."""

    text: str


@dataclass(frozen=True)
class Emph:
    """Text in italics, or in bold."""

    parts: tuple[Inline, ...]
    strong: bool = False


@dataclass(frozen=True)
class Ref:
    """A result, by its label."""

    label: str


@dataclass(frozen=True)
class Link:
    """Elsewhere: printed as a link that a reader may follow, never fetched."""

    url: str
    text: str


@dataclass(frozen=True)
class Msg:
    """An entry of the message catalogue (it changes with the language of the page)."""

    id: str
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Badge:
    """A verdict: a word, a mark and a colour, never a colour alone."""

    verdict: str
    note: str = ""


Inline = Text | Math | Code | Emph | Ref | Link | Msg | Badge
Line = tuple[Inline, ...]

# ---- on the page


@dataclass(frozen=True)
class Para:
    """A paragraph; ``kind`` names its look."""

    line: Line
    kind: str = ""


@dataclass(frozen=True)
class Display:
    """A formula of its own line."""

    tex: str


@dataclass(frozen=True)
class Items:
    """A list; each item is a few blocks."""

    items: tuple[tuple[Block, ...], ...]
    ordered: bool = False


@dataclass(frozen=True)
class Table:
    """``header`` names the columns; ``kinds`` holds l, r or c for each; ``row_heads``: the first cell heads its row."""

    header: tuple[Line, ...]
    rows: tuple[tuple[Line, ...], ...]
    kinds: str = ""
    caption: Line = ()
    row_heads: bool = True
    name: str = ""
    widths: tuple[float, ...] = ()


@dataclass(frozen=True)
class Details:
    """Folded on the page, printed in the paper (unless ``page_only``)."""

    summary: Line
    blocks: tuple[Block, ...]
    name: str = ""
    page_only: bool = False


@dataclass(frozen=True)
class Listing:
    """Source text, verbatim."""

    text: str
    language: str = "python"
    caption: Line = ()


@dataclass(frozen=True)
class Figure:
    """``name`` is a key of the figures that :mod:`report.figures` drew; ``data`` is what it was drawn from."""

    name: str
    caption: Line
    alternative: str
    data: Mapping[str, object] | None = None


@dataclass(frozen=True)
class Note:
    """A paragraph that stands out: kind is info, good, warn or bad."""

    kind: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Raw:
    """Page-only material of our own making (graph, interactive block), with what the paper prints instead."""

    html: str
    paper: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Section:
    """``name`` is the anchor; ``label`` is set where the section is a result."""

    name: str
    title: Line
    blocks: tuple[Block, ...]
    label: str = ""
    badge: str = ""


Block = Para | Display | Items | Table | Details | Listing | Figure | Note | Raw | Section


@dataclass(frozen=True)
class Document:
    """All sections, with the drawings of their figures."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    figures: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    banner: tuple[Block, ...] = ()


# ---- our own prose, with a little markup

_MARKUP = re.compile(
    r"\$(?P<math>[^$]+)\$|`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<emph>[^*]+)\*|\[\[(?P<ref>[a-z0-9.-]+)\]\]"
    r"|\[(?P<text>[^\]]+)\]\((?P<url>[^)]+)\)|(?<![\w\\])\{(?P<value>[a-z_]+)\}"
)


def prose(source: str, /, **values: Inline | str) -> Line:
    """Our words: ``$math$``, `` `code` ``, ``*emphasis*``, ``**strong**``, ``[[label]]``, ``[text](url)``, ``{value}``.

    A value is data: a string is printed as it is, whatever it contains.
    """
    before, after = " " * source.startswith(" "), " " * source.endswith(" ")
    source = before + " ".join(source.split()) + after if source.strip() else source
    parts: list[Inline] = []
    at = 0
    for match in _MARKUP.finditer(source):
        if match.start() > at:
            parts.append(Text(source[at : match.start()]))
        at = match.end()
        found = match.groupdict()
        if found["math"]:
            parts.append(Math(found["math"]))
        elif found["code"]:
            parts.append(Code(found["code"]))
        elif found["strong"]:
            parts.append(Emph(prose(found["strong"]), strong=True))
        elif found["emph"]:
            parts.append(Emph(prose(found["emph"])))
        elif found["ref"]:
            parts.append(Ref(found["ref"]))
        elif found["text"]:
            parts.append(Link(found["url"], found["text"]))
        else:
            value = values[found["value"]]
            parts.append(Text(value) if isinstance(value, str) else value)
    if at < len(source):
        parts.append(Text(source[at:]))
    return tuple(parts)


def text(value: object) -> Line:
    """Data as a line."""
    return (Text(str(value)),)


def walk(blocks: Sequence[Block]) -> Iterator[Block]:
    """Every block, depth first."""
    for block in blocks:
        yield block
        if isinstance(block, Section | Details | Note):
            yield from walk(block.blocks)
        elif isinstance(block, Items):
            for item in block.items:
                yield from walk(item)
        elif isinstance(block, Raw):
            yield from walk(block.paper)
