r"""A document as LaTeX for pdflatex: the paper.

Every line is either our own command or went through :mod:`report.filters`; a formula is printed as mathematics only if
:func:`report.tex_mathml.is_math` accepts it, so that no ``\input`` and no ``\write18`` of a record can reach TeX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from report import document as doc
from report.filters import code_tex, escape_tex
from report.linebreak import fitted
from report.messages import Messages
from report.tex_mathml import is_math

_LEVELS = ("section", "subsection", "subsubsection", "paragraph")
_MARKS = {
    "good": r"\textcolor{good}{$\checkmark$}",
    "bad": r"\textcolor{bad}{$\times$}",
    "warn": r"\textcolor{warn}{$\circ$}",
    "none": r"--",
}
_ALIGN = {"l": r"\raggedright", "r": r"\raggedleft", "c": r"\centering"}
_LISTING_COLUMNS = 112


class TexRenderer:
    """Prints the document tree as LaTeX."""

    def __init__(
        self,
        messages: Messages,
        labels: frozenset[str],
        tones: dict[str, str],
        figures: Mapping[str, Mapping[str, bytes]],
    ) -> None:
        self.messages, self.labels, self.tones, self.figures = messages, labels, tones, figures

    # ---- in a line

    def line(self, line: Sequence[doc.Inline]) -> str:
        """The parts of a line, one after the other."""
        return "".join(self.inline(part) for part in line)

    def inline(self, part: doc.Inline) -> str:
        """One part of a line. Raises TypeError for an unknown kind."""
        if isinstance(part, doc.Text):
            return escape_tex(part.text)
        if isinstance(part, doc.Math):
            return f"${part.tex}$" if is_math(part.tex) else code_tex(part.tex)
        if isinstance(part, doc.Code):
            return code_tex(part.text)
        if isinstance(part, doc.Emph):
            return rf"\{'textbf' if part.strong else 'emph'}{{{self.line(part.parts)}}}"
        if isinstance(part, doc.Ref):
            shown = code_tex(part.label)
            return rf"\hyperref[{_key(part.label)}]{{{shown}}}" if part.label in self.labels else shown
        if isinstance(part, doc.Link) and part.url.startswith("#"):
            return rf"\hyperref[{_key(part.url[1:])}]{{{escape_tex(part.text)}}}"
        if isinstance(part, doc.Link):
            return rf"\href{{{_url(part.url)}}}{{{escape_tex(part.text)}}}"
        if isinstance(part, doc.Msg):
            return escape_tex(self.messages.english(part.id, part.values))
        word = self.messages.english(f"verdict.{part.verdict}")
        note = f" ({escape_tex(part.note)})" if part.note else ""
        return f"{_MARKS[self.tones[part.verdict]]} {escape_tex(word)}{note}"

    # ---- blocks

    def blocks(self, blocks: Sequence[doc.Block], level: int = 0) -> str:
        """Blocks, one after the other."""
        return "\n".join(filter(None, (self.block(block, level) for block in blocks)))

    def block(self, block: doc.Block, level: int) -> str:
        """One block; empty where it is for the page only."""
        if isinstance(block, doc.Para):
            return self.line(block.line) + "\n"
        if isinstance(block, doc.Display):
            if not is_math(block.tex):
                return f"{code_tex(block.tex)}\n"
            return "\\begin{equation*}\n\\fit{" + fitted(block.tex) + "}\n\\end{equation*}"
        if isinstance(block, doc.Items):
            name = "enumerate" if block.ordered else "itemize"
            items = "\n".join(rf"\item {self.blocks(item, level).strip()}" for item in block.items)
            return f"\\begin{{{name}}}\n{items}\n\\end{{{name}}}" if block.items else ""
        if isinstance(block, doc.Table):
            return self.table(block)
        if isinstance(block, doc.Details):
            if block.page_only:
                return ""
            return rf"\foldtitle{{{self.line(block.summary)}}}" + "\n\n" + self.blocks(block.blocks, level)
        if isinstance(block, doc.Listing):
            return self.listing(block)
        if isinstance(block, doc.Figure):
            return self.figure(block)
        if isinstance(block, doc.Note):
            return f"\\begin{{notice}}{{{block.kind}}}\n{self.blocks(block.blocks, level).strip()}\n\\end{{notice}}"
        if isinstance(block, doc.Raw):
            return self.blocks(block.paper, level)
        return self.section(block, level)

    def figure(self, block: doc.Figure) -> str:
        """A drawing with its words below, where it belongs: nothing floats, so that tables can break around it."""
        known = self.figures.get(block.name, {}).get("tikz")
        drawn = known.decode() if known else f"(figure: {escape_tex(block.alternative)})"
        caption = rf"{{\footnotesize {self.line(block.caption)}\par}}"
        return (
            "\\begin{center}\\begin{minipage}{0.94\\linewidth}\\centering\n"
            f"{drawn}\\par\\smallskip\n{caption}\n\\end{{minipage}}\\end{{center}}"
        )

    def section(self, block: doc.Section, level: int) -> str:
        """A section with its heading at a ``level`` of the outline."""
        command = _LEVELS[min(level, len(_LEVELS) - 1)]
        title = self.line(block.title)
        return (
            f"\\{command}{{{title}}}\\label{{{_key(block.name)}}}\n"
            + (
                rf"\resultline{{{code_tex(block.label)}}}{{{self.inline(doc.Badge(block.badge))}}}" + "\n"
                if block.label
                else ""
            )
            + self.blocks(block.blocks, level + 1)
        )

    def table(self, table: doc.Table) -> str:
        """A table that may break over pages."""
        if not table.rows:
            return ""
        columns = len(table.header) or len(table.rows[0])
        kinds = (table.kinds or "l" * columns)[:columns]
        widths = table.widths or tuple(1.0 / columns for _ in range(columns))
        total = sum(widths)
        spec = "".join(
            rf">{{{_ALIGN[kind]}\arraybackslash}}p{{\dimexpr {share / total:.4f}\linewidth-2\tabcolsep}}"
            for kind, share in zip(kinds, widths, strict=True)
        )
        head = " & ".join(rf"\textbf{{{self.line(cell)}}}" for cell in table.header)
        body = "\n".join(" & ".join(self.line(cell) for cell in row) + r" \\" for row in table.rows)
        caption = rf"\caption{{{self.line(table.caption)}}}\\" + "\n" if table.caption else ""
        top = f"\\toprule\n{head} \\\\\n\\midrule\n" if table.header else "\\toprule\n"
        return (
            f"{{\\footnotesize\\begin{{longtable}}{{@{{}}{spec}@{{}}}}\n{caption}{top}\\endhead\n{body}\n"
            "\\bottomrule\n\\end{longtable}}"
        )

    def listing(self, block: doc.Listing) -> str:
        """Source text, set as it stands."""
        lines: list[str] = []
        for line in block.text.rstrip().splitlines():
            for start in range(0, max(len(line), 1), _LISTING_COLUMNS):
                piece = escape_tex(line[start : start + _LISTING_COLUMNS]).replace(" ", "~")
                lines.append(rf"\codeline{{{piece}}}")
        title = f"{self.line(block.caption)}\\par\n" if block.caption else ""
        return title + "\\begin{listingblock}\n" + "\n".join(lines) + "\n\\end{listingblock}"


def _key(label: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in label)


def _url(url: str) -> str:
    return url.replace("%", r"\%").replace("#", r"\#").replace("{", "").replace("}", "").replace("\\", "")
