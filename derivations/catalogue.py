"""docs/catalogue.md: every result with its statement, assumptions, source and routes, from the theorem table."""

from __future__ import annotations

from bayesgrad.evidence import ROOT
from bayesgrad.theorems import THEOREMS, Theorem
from derivations.present import graph

FILE = ROOT / "docs" / "catalogue.md"
FAMILIES = {
    "lemma": "Lemmas that carry the inequalities",
    "bayes": "Cross-entropy and Bayes",
    "softmax": "The head",
    "dynamics": "Dynamics",
    "em": "What EM means exactly",
}


def source() -> str:
    """The page as Markdown."""
    lines = [
        "# Catalogue of results",
        "",
        "Written by `make docs` from `bayesgrad.theorems`; the statements are those that the kernel proved.",
        "A result is cited by its label, never by a number. `python -m derivations LABEL` prints its derivation.",
        "*Rests on* is computed: what the proofs use, here and in Coq. *Read with* carries no status.",
    ]
    for theorem in THEOREMS:
        family = _heading(theorem, lines)
        if family:
            lines += ["", f"## {family}"]
        lines += _entry(theorem)
    return "\n".join(lines) + "\n"


def _heading(theorem: Theorem, lines: list[str]) -> str | None:
    """The family's heading, where the theorem opens it."""
    family = FAMILIES.get(theorem.label.split(".")[0])
    return family if family and f"## {family}" not in lines else None


def _entry(theorem: Theorem) -> list[str]:
    required = [route for route in theorem.routes if theorem.routes[route] == "required"]
    lines = ["", f"### {theorem.label}", "", f"{theorem.title}.", "", f"$${theorem.statement}$$", ""]
    lines += [f"- assumes: {'; '.join(theorem.assumptions)}"] if theorem.assumptions else []
    links = graph(theorem.label)
    rests = [f"`{label}`{' (in Coq)' if by == 'Coq' else ''}" for label, by in links.rests_on.items()]
    lines += [f"- rests on: {', '.join(rests)}"] if rests else []
    lines += [f"- read with: {', '.join(f'`{label}`' for label in links.read_with)}"] if links.read_with else []
    lines += [f"- source: {theorem.source}"]
    lines += [f"- shipped as: {', '.join(f'`{f}`' for f in theorem.implements)}"] if theorem.implements else []
    lines += [f"- established by: {', '.join(r.replace('_', ' ') for r in required)}"]
    lines += [f"- refutes the naive claim: {claim}" for claim in theorem.naive]
    return lines


def write() -> None:
    """Write the page."""
    FILE.write_text(source(), encoding="utf-8")


if __name__ == "__main__":
    write()
