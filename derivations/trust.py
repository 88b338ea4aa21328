"""The trusted base, the file without whose consent nothing is called proved, and its size."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Any

from bayesgrad.evidence import ROOT

FILES = ("bayesgrad/checker.py",)


def code_lines(source: str) -> int:
    """Lines that hold code: no blank lines, no comments, no docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            lines.update(range(token.start[0], token.end[0] + 1))
    lines.discard(0)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False):
            text = node.body[0]
            lines -= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len([n for n in lines if n <= source.count("\n")])


def base() -> dict[str, Any]:
    """The files and how many lines of code they hold together."""
    return {"files": list(FILES), "lines": sum(code_lines((ROOT / f).read_text(encoding="utf-8")) for f in FILES)}
