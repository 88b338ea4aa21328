"""A judged statement on a page: plain text for a terminal, TeX for a paper, HTML with MathML for a browser.

What is shown is written from the terms that the kernel decided about.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from bayesgrad.symbolic.assumed import declared, hypothesis
from bayesgrad.symbolic.claims import AtMost, Equation
from bayesgrad.symbolic.mathml import formula
from bayesgrad.symbolic.tex import shown, statement
from bayesgrad.symbolic.text import text

if TYPE_CHECKING:
    from bayesgrad.symbolic.api import Judged

STYLE = "body{font-family:serif;max-width:60em;margin:2em auto;padding:0 1em}.why{color:#555}li{margin:.4em 0}"


def claim_text(claim: Equation) -> str:
    """A claim in one line."""
    return f"{text(claim.lhs)} {'≤' if isinstance(claim, AtMost) else '='} {text(claim.rhs)}"


def assumptions(claim: Equation) -> tuple[str, ...]:
    """What a claim takes for granted: hypotheses, declared kinds, sizes that are not empty."""
    return (*map(hypothesis, claim.given), *declared(claim))


def verdict(judged: Judged) -> str:
    """The verdict in a sentence or two."""
    out: str = judged.verdict.word
    if judged.verdict.word == "refuted" and judged.counterexample is not None:
        out += f": false at {judged.counterexample}"
    elif judged.verdict.word != "proved":
        out += f": {judged.verdict.reason}"
    residual = getattr(judged, "left", None)
    if residual is not None and judged.verdict.word != "proved":
        out += f"; what is left of the difference: {text(residual)}"
    return out


def as_text(judged: Judged, *, given: bool = True) -> str:
    """Statement, what it assumes, steps and verdict for a terminal."""
    claim = judged.claim
    lines = [claim_text(claim)]
    lines += [f"    where {text(letter)} = {text(body)}" for letter, body in getattr(judged, "where", ())]
    lines += [f"    given {line}" for line in assumptions(claim)] if given else []
    if judged.verdict.word == "proved":
        rows = [(text(step.after), step.why) for step in judged.chain.steps]
        width = min(72, max((len(row) for row, _ in rows), default=0))
        lines.append(f"  {text(judged.chain.start)}")
        lines += [f"    = {row:<{width}}   {why}" for row, why in rows]
    return "\n".join([*lines, f"  {verdict(judged)}", ""])


def as_latex(judged: Judged) -> str:
    """The statement as a displayed formula, then its steps as an aligned derivation."""
    lines = [rf"\[ {statement(judged.claim)} \]"]
    lines += [rf"\[ {shown(letter)} = {shown(body)} \]" for letter, body in getattr(judged, "where", ())]
    if judged.verdict.word == "proved" and judged.chain.steps:
        rows = [rf"& {shown(judged.chain.start)} \\"]
        rows += [rf"&\quad = {shown(step.after)} && \text{{{_words(step.why)}}} \\" for step in judged.chain.steps]
        lines += [r"\begin{align*}", *rows, r"\end{align*}"]
    return "\n".join([*lines, f"% {verdict(judged)}", ""])


def _words(why: str) -> str:
    """A reason as words in TeX: what its formulas say stands in the step itself."""
    plain = "by definition" if "=" in why else why
    return "".join(rf"\{c}" if c in "%&#$_{}" else c for c in plain)


def as_html(judged: Judged, *, given: bool = True) -> str:
    """A section of a page, formulas as MathML."""
    sign = "≤" if isinstance(judged.claim, AtMost) else "="
    out = ["<section>", f"<p>{formula(judged.claim.lhs, sign, judged.claim.rhs)}</p>"]
    out += [f"<p>where {formula(letter, '=', body)}</p>" for letter, body in getattr(judged, "where", ())]
    out += [f"<p class=why>given {html.escape(line)}</p>" for line in assumptions(judged.claim)] if given else []
    if judged.verdict.word == "proved":
        out.append(f"<p>{formula(judged.chain.start)}</p><ol>")
        out += [
            f"<li>{formula('=', step.after)} <span class=why>{html.escape(step.why)}</span></li>"
            for step in judged.chain.steps
        ]
        out.append("</ol>")
    return "\n".join([*out, f"<p><b>{html.escape(verdict(judged))}</b></p>", "</section>"])


def page(title: str, sections: list[str]) -> str:
    """A page that opens offline."""
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title><style>{STYLE}</style>"
    return "\n".join([head, f"<h1>{html.escape(title)}</h1>", *sections, "</html>"])
