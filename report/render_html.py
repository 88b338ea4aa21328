"""The document tree as HTML: one page that loads nothing from anywhere.

The page is the document tree printed in order; style, script, fonts, catalogue and figures are inlined by the template.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence

from report import document as doc
from report.filters import escape_html
from report.highlight import python_html
from report.linebreak import fitted
from report.messages import Messages
from report.tex_mathml import BadTeX, mathml

MARKS = {"good": "✓", "bad": "✗", "warn": "◐", "none": "–"}


def mark(verdict: str, tones: Mapping[str, str]) -> str:
    """The sign of a verdict, for those who do not see its colour."""
    return {"open": "○", "undecided": "?"}.get(verdict, MARKS[tones[verdict]])


class HtmlRenderer:
    """Prints the document tree as HTML; collects the formulas that it had to refuse in ``refused``."""

    def __init__(
        self,
        messages: Messages,
        labels: frozenset[str],
        tones: dict[str, str],
        figures: Mapping[str, Mapping[str, bytes]],
    ) -> None:
        self.messages, self.labels, self.tones, self.figures = messages, labels, tones, figures
        self.refused: list[str] = []
        self.used: set[str] = set()
        self._names: set[str] = set()

    # ---- in a line

    def line(self, line: Sequence[doc.Inline]) -> str:
        """The parts of a line, one after the other."""
        return "".join(self.inline(part) for part in line)

    def math(self, tex: str, *, display: bool = False) -> str:
        """A formula as MathML; one that cannot be read is printed as its source and noted in ``refused``."""
        try:
            return mathml(tex, display=display)
        except BadTeX as error:
            self.refused.append(str(error))
            return f'<code class="refused">{escape_html(tex)}</code>'

    def message(self, id: str, values: Sequence[tuple[str, str]] = ()) -> str:
        """An entry of the catalogue, marked so that the page's script can change its language."""
        self.used.add(id)
        data = f' data-v="{escape_html(json.dumps(dict(values), sort_keys=True))}"' if values else ""
        return f'<span data-m="{escape_html(id)}"{data}>{escape_html(self.messages.english(id, values))}</span>'

    def inline(self, part: doc.Inline) -> str:
        """One part of a line. Raises TypeError for an unknown kind."""
        if isinstance(part, doc.Text):
            return escape_html(part.text)
        if isinstance(part, doc.Math):
            return self.math(part.tex)
        if isinstance(part, doc.Code):
            words = [escape_html(word) for word in part.text.split(" ")]
            if len(words) > 1:  # a command breaks between its words, never inside an option
                words = [f'<span class="w">{word}</span>' for word in words]
            return f"<code>{' '.join(words)}</code>"
        if isinstance(part, doc.Emph):
            tag = "strong" if part.strong else "em"
            return f"<{tag}>{self.line(part.parts)}</{tag}>"
        if isinstance(part, doc.Ref):
            shown = f"<code>{escape_html(part.label)}</code>"
            return f'<a href="#{escape_html(part.label)}">{shown}</a>' if part.label in self.labels else shown
        if isinstance(part, doc.Link):
            safe = part.url if part.url.startswith(("https://", "#", "./")) else "#"
            return f'<a href="{escape_html(safe)}" rel="noreferrer">{escape_html(part.text)}</a>'
        if isinstance(part, doc.Msg):
            return self.message(part.id, part.values)
        return self.badge(part)

    def badge(self, part: doc.Badge) -> str:
        """A verdict with its sign and its tone."""
        tone = self.tones[part.verdict]
        note = f" <small>{escape_html(part.note)}</small>" if part.note else ""
        sign = f'<span class="mark" aria-hidden="true">{mark(part.verdict, self.tones)}</span>'
        return f'<span class="badge {tone}">{sign}{self.message(f"verdict.{part.verdict}")}{note}</span>'

    # ---- blocks

    def blocks(self, blocks: Sequence[doc.Block], level: int = 2) -> str:
        """Blocks, one after the other."""
        return "\n".join(filter(None, (self.block(block, level) for block in blocks)))

    def block(self, block: doc.Block, level: int) -> str:
        """One block. Raises TypeError for an unknown kind."""
        if isinstance(block, doc.Para):
            kind = f' class="{block.kind}"' if block.kind else ""
            return f"<p{kind}>{self.line(block.line)}</p>"
        if isinstance(block, doc.Display):
            shown = self.math(fitted(block.tex, 92), display=True)
            return f'<div class="display" tabindex="0" role="group" aria-label="formula">{shown}</div>'
        if isinstance(block, doc.Items):
            tag = "ol" if block.ordered else "ul"
            items = "".join(f"<li>{self.item(item, level)}</li>" for item in block.items)
            return f"<{tag}>{items}</{tag}>" if block.items else ""
        if isinstance(block, doc.Table):
            return self.table(block)
        if isinstance(block, doc.Details):
            name = f' id="{escape_html(block.name)}"' if block.name else ""
            body = self.blocks(block.blocks, level)
            return f"<details{name}><summary>{self.line(block.summary)}</summary><div>{body}</div></details>"
        if isinstance(block, doc.Listing):
            title = f"<figcaption>{self.line(block.caption)}</figcaption>" if block.caption else ""
            code = python_html(block.text) if block.language == "python" else escape_html(block.text)
            return f'<figure class="listing">{title}<pre tabindex="0"><code>{code}</code></pre></figure>'
        if isinstance(block, doc.Figure):
            return self.figure(block)
        if isinstance(block, doc.Note):
            return f'<div class="note {block.kind}">{self.blocks(block.blocks, level)}</div>'
        if isinstance(block, doc.Raw):
            return block.html
        return self.section(block, level)

    def item(self, item: Sequence[doc.Block], level: int) -> str:
        if len(item) == 1 and isinstance(item[0], doc.Para):
            return self.line(item[0].line)
        return self.blocks(item, level)

    def section(self, block: doc.Section, level: int) -> str:
        """A section with its heading at a ``level`` of the outline."""
        if block.name in self._names:
            raise ValueError(f"section: the name {block.name!r} is used twice, every anchor needs its own")
        self._names.add(block.name)
        name = escape_html(block.name)
        link = f'<a class="permalink" href="#{name}" aria-label="Link to {name}">#</a>'
        under = ""
        if block.label:
            under = f'<p class="label"><code>{escape_html(block.label)}</code> {self.badge(doc.Badge(block.badge))}</p>'
        kind = ' class="result"' if block.label else ""
        heading = f'<h{level} id="{name}">{self.line(block.title)} {link}</h{level}>'
        return f"<section{kind}>{heading}{under}\n{self.blocks(block.blocks, min(level + 1, 6))}</section>"

    def table(self, table: doc.Table) -> str:
        """A table with its caption."""
        if not table.rows:
            return ""
        kinds = table.kinds or "l" * len(table.rows[0])

        def cells(row: Sequence[doc.Line]) -> str:
            out = []
            for n, (cell, kind) in enumerate(zip(row, kinds, strict=True)):
                tag, scope = ("th", ' scope="row"') if n == 0 and table.row_heads else ("td", "")
                out.append(f'<{tag}{scope} class="{kind}">{self.line(cell)}</{tag}>')
            return "".join(out)

        head = "".join(
            f'<th scope="col" class="{kind}">{self.line(cell)}</th>'
            for cell, kind in zip(table.header, kinds, strict=False)
        )
        caption = f"<caption>{self.line(table.caption)}</caption>" if table.caption else ""
        top = f"<thead><tr>{head}</tr></thead>" if table.header else ""
        body = "".join(f"<tr>{cells(row)}</tr>" for row in table.rows)
        name = escape_html(table.name or "table")
        return (
            f'<div class="scroll" tabindex="0" role="group" aria-label="{name}"><table class="{name}">'
            f"{caption}{top}<tbody>{body}</tbody></table></div>"
        )

    def figure(self, block: doc.Figure) -> str:
        """A figure with its caption and its data."""
        drawn = self.figures.get(block.name, {}).get("svg", b"").decode("utf-8")
        data = ""
        if block.data is not None:
            text = json.dumps(block.data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
            coded = base64.b64encode(text.encode()).decode()
            data = (
                f' <a class="data" download="{escape_html(block.name)}.json" '
                f'href="data:application/json;base64,{coded}">{self.message("ui.data")}</a>'
            )
        return (
            f'<figure id="figure-{escape_html(block.name)}"><div class="drawing" role="img" '
            f'aria-label="{escape_html(block.alternative)}">{drawn}</div>'
            f"<figcaption>{self.line(block.caption)}{data}</figcaption></figure>"
        )
