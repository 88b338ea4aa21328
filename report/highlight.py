"""Python source as HTML with classes for comments, strings, keywords and numbers (the tokenizer is Python's own)."""

from __future__ import annotations

import io
import keyword
import tokenize

from report.filters import escape_html


def python_html(source: str) -> str:
    """Escaped source with ``<span>`` around what deserves a colour; unreadable source is only escaped."""
    kinds: list[tuple[tuple[int, int], tuple[int, int], str]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                kinds.append((token.start, token.end, "c"))
            elif token.type == tokenize.STRING:
                kinds.append((token.start, token.end, "s"))
            elif token.type == tokenize.NUMBER:
                kinds.append((token.start, token.end, "n"))
            elif token.type == tokenize.NAME and keyword.iskeyword(token.string):
                kinds.append((token.start, token.end, "k"))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return escape_html(source)
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    out, at = [], 0
    for (row, column), (last, end), kind in kinds:
        begin, stop = starts[row - 1] + column, starts[last - 1] + end
        out += [escape_html(source[at:begin]), f'<span class="{kind}">', escape_html(source[begin:stop]), "</span>"]
        at = stop
    return "".join([*out, escape_html(source[at:])])
