"""Which parts of a result make its headline, and the statements that the catalogue shows, written from them.

``bayesgrad/statements.py`` is generated here from the claims that the kernel proved: nobody reads a formula that
nobody proved. Everything that is not listed has its first part as headline.
"""

from __future__ import annotations

import json
from pathlib import Path

from bayesgrad.evidence import ROOT
from derivations import laws
from derivations.laws import Law, Part

FILE = ROOT / "bayesgrad" / "statements.py"

HEADLINES: dict[str, tuple[str, ...]] = {
    "bayes.posterior-predictive": ("optimum", "mixture"),
    "bayes.entropy-is-blind": ("equal-entropies", "divergence"),
    "bayes.hmm-filter": ("every-time", "next-observation"),
    "bayes.sticky-markov": ("predictive", "bound"),
    "softmax.fisher": ("semidefinite", "information", "kernel"),
    "attention.routing-law": ("scores", "advantage", "fisher"),
    "attention.value-law": ("values",),
    "attention.projection-laws": ("W_Q", "W_K", "W_V", "W_O"),
    "attention.multi-head": ("values", "keys", "queries"),
    "attention.saturation-bound": ("upper", "lower"),
    "dynamics.loss-decrease": ("gradient-step",),
    "dynamics.value-step": ("context", "loss"),
    "dynamics.score-step": ("step", "loss", "context"),
    "dynamics.feedback": ("compatibility", "advantage", "one-query"),
    "dynamics.feedback-full": ("upstream", "compatibility"),
    "dynamics.weight-space": ("matrix", "per-token", "rank"),
    "dynamics.natural-routing": ("solutions", "bayes-rule", "replicator", "variance"),
    "dynamics.frame-precision": ("upper", "lower", "value-limit"),
    "em.not-variational": ("minorant", "values-lower", "natural-raises", "plain-raises"),
}


def headline(found: Law) -> tuple[Part, ...]:
    """The parts of a result that its statement shows."""
    names = HEADLINES.get(found.label, (found.parts[0].name,))
    parts = {p.name: p for p in found.parts}
    return tuple(parts[name] for name in names if name in parts) or found.parts


def statement_tex(label: str) -> str:
    """The statement of a result as the catalogue shows it."""
    return r" \qquad ".join(p.tex for p in headline(laws.law(label)))


def source() -> str:
    """The text of the generated module."""
    lines = [
        '"""The statement of every result as TeX, generated from the claims that were proved. Do not edit."""',
        "",
        "STATEMENTS: dict[str, str] = {",
    ]
    for label in laws.labels():
        lines.append(f"    {json.dumps(label)}: (")
        lines += [f"        {json.dumps(piece)}" for piece in _pieces(statement_tex(label))]
        lines.append("    ),")
    return "\n".join([*lines, "}", ""])


def _pieces(text: str, width: int = 96) -> list[str]:
    """A long string in pieces of at most ``width`` characters, broken at blanks."""
    out, line = [], ""
    for word in text.split(" "):
        if line and len(json.dumps(line + word)) > width:
            out.append(line)
            line = ""
        line += word + " "
    return [*out, line[:-1]]


def write(path: Path = FILE) -> None:
    """Write the generated module."""
    path.write_text(source(), encoding="utf-8")
