"""One result as a reader meets it: statement, assumptions, numbered steps with their rules, verdict."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayesgrad.symbolic.assumed import declared, hypothesis
from bayesgrad.symbolic.proof import AtMost, Entries, Equation, Minimum, Verdict, Witness
from bayesgrad.symbolic.terms import Entry, Index, Tensor, Term, children
from bayesgrad.symbolic.tex import shown, statement
from bayesgrad.symbolic.text import text
from derivations.counterexamples import gathered
from derivations.formal import dependencies
from derivations.laws import Law, law
from derivations.result import Part, result
from derivations.rewritings import counted
from derivations.wrong_laws import wrong_laws

REWRITINGS = 5  # a label: at least 20 in every family


@dataclass(frozen=True)
class Links:
    """What a result rests on (label -> "proof", "Coq" or both), and what it is only read with."""

    rests_on: Mapping[str, str]
    read_with: tuple[str, ...]


def graph(label: str) -> Links:
    """The links of a result, computed from the kernel's verdicts and from the proofs in Coq."""
    found: dict[str, str] = dict.fromkeys(law(label).uses, "proof")
    for other in dependencies.rests_on().get(label, ()):
        found[other] = "proof and Coq" if other in found else "Coq"
    return Links(dict(sorted(found.items())), result(label).read_with)


def headline(found: Law) -> tuple[Part, ...]:
    """The parts of a result that its statement shows."""
    names = result(found.label).headline or (found.parts[0].name,)
    parts = {p.name: p for p in found.parts}
    return tuple(parts[name] for name in names if name in parts) or found.parts


def statement_tex(label: str) -> str:
    """The statement of a result as the catalogue shows it."""
    return r" \qquad ".join(p.tex for p in headline(law(label)))


def claim_text(part: Part) -> str:
    """The claim in one line of plain text."""
    claim = part.claim
    relation = "≤" if isinstance(claim, AtMost) else "≥" if isinstance(claim, Minimum) else "="
    if isinstance(claim, Witness):
        values = ", ".join(f"{t.name} = {_shown(v)}" for t, v in claim.values.items())
        return f"{text(claim.lhs)} {claim.relation} {text(claim.rhs)}, where {values}"
    line = f"{text(claim.lhs)} {relation} {text(claim.rhs)}"
    if isinstance(claim, AtMost) and claim.tight is not None:
        line += f", with equality exactly where {' and '.join(map(_all_of, claim.tight))} is 0"
    return line


def _all_of(entries: Entries) -> str:
    return f"every entry {entries}" if None in entries.slots else str(entries)


def _shown(value: Any) -> str:
    return f"({', '.join(map(_shown, value))})" if isinstance(value, (tuple, list)) else str(value)


def assumptions(part: Part) -> list[str]:
    """What one claim assumes: its hypotheses with their formulas, then what the declarations of its letters say."""
    return list(dict.fromkeys([*map(hypothesis, part.claim.given), *declared(part.claim)]))


def steps(part: Part) -> list[dict[str, str]]:
    """The derivation of one part: each term with the rule that leads to it and why."""
    first = {"rule": "start", "why": _opening(part), "tex": shown(part.proof.start), "text": text(part.proof.start)}
    rest = [{"rule": s.rule, "why": s.why, "tex": shown(s.after), "text": text(s.after)} for s in part.proof.steps]
    return [first, *rest]


def where(parts: Sequence[Part]) -> list[str]:
    """What the defined letters of claims stand for, as TeX equations, in the order in which a reader meets them."""
    seen: dict[Tensor, str] = {}

    def visit(term: Term) -> None:
        if isinstance(term, Entry) and term.tensor.body is not None and term.tensor not in seen:
            slots = tuple(
                Index(name, size) for name, size in zip(_letters(term.tensor), term.tensor.sizes, strict=True)
            )
            body = term.tensor.unfold(slots)
            seen[term.tensor] = statement(Equation(term.tensor(*slots), body))
            visit(body)
        for child in children(term):
            visit(child)

    for part in parts:
        visit(part.claim.lhs)
        visit(part.claim.rhs)
    return list(dict.fromkeys(seen.values()))


def _letters(tensor: Tensor) -> list[str]:
    """The names of the parameters that the definition was written with."""
    names = [p.name for p in inspect.signature(tensor.body).parameters.values()] if tensor.body else []
    return names if len(names) == len(tensor.sizes) else [f"r_{n}" for n in range(1, len(tensor.sizes) + 1)]


def _opening(part: Part) -> str:
    if isinstance(part.claim, AtMost):
        return "right side minus left side"
    return "a function of one positive variable" if isinstance(part.claim, Minimum) else "the left side"


def as_text(label: str) -> str:
    """What ``python -m derivations LABEL`` prints."""
    found, links = law(label), graph(label)
    lines = [f"{label}: {found.word}", ""]
    for part, verdict in zip(found.parts, found.verdicts, strict=True):
        lines += [f"{part.name}", f"    {claim_text(part)}"]
        lines += [f"    {part.says}"] if part.says else []
        lines += [f"    assume  {line}" for line in assumptions(part)]
        lines.append("")
        for number, step in enumerate(steps(part)):
            lines.append(f"    {number:2d}. {step['text']}")
            lines.append(f"        {step['rule']}: {step['why']}")
        lines += [f"    {_verdict_line(verdict)}", ""]
    lines += [
        f"primitives   {', '.join(found.collected('primitives'))}",
        f"definitions  {', '.join(found.collected('definitions')) or 'none'}",
        f"rests on     {', '.join(f'{other} ({by})' for other, by in links.rests_on.items()) or 'nothing else'}",
        f"read with    {', '.join(links.read_with) or 'nothing else'}",
    ]
    return "\n".join(lines)


def _verdict_line(verdict: Verdict) -> str:
    line = f"{verdict.word} in {verdict.seconds:.2f} s; every step evaluated, {verdict.compared} exact comparisons"
    if verdict.reason:
        line += f"\n    {verdict.reason}"
    if verdict.counterexample:
        line += f"\n    counterexample: {gathered(str(verdict.counterexample))}"
    return line


def as_latex(label: str) -> str:
    """The derivation as LaTeX, one aligned display a part."""
    lines = []
    for part in law(label).parts:
        lines += [rf"\paragraph{{{part.name}}}", rf"\[ {statement(part.claim)} \]", r"\begin{align*}"]
        for number, step in enumerate(steps(part)):
            mark = "&" if number == 0 else "&="
            lines.append(rf"  {mark} {step['tex']} && \text{{{step['rule']}}} \\")
        lines.append(r"\end{align*}")
    return "\n".join(lines)


def as_dict(label: str, *, refute: bool = True) -> dict[str, Any]:
    """The result as evidence: verdict, reason, detail and seconds."""
    found = law(label)
    holds = not any(v.reason for v in found.verdicts)  # a wrong law beside what fails itself says nothing
    reasons = [f"{p.name}: {v.reason}" for p, v in zip(found.parts, found.verdicts, strict=True) if v.reason]
    examples = [gathered(str(v.counterexample)) for v in found.verdicts if v.counterexample]
    return {
        "verdict": found.word,
        "reason": "; ".join(reasons) or "every step follows by an admitted rule",
        "seconds": round(found.seconds, 3),
        "rests_on": {"proof": list(found.uses), "formal": list(dependencies.rests_on().get(label, ()))},
        "detail": {
            "statement_tex": statement_tex(label),
            "where": where(found.parts),
            "parts": [
                {
                    "name": p.name,
                    "statement_tex": p.tex,
                    "says": p.says,
                    "assumptions": assumptions(p),
                    "verdict": v.word,
                    "steps": steps(p),
                }
                for p, v in zip(found.parts, found.verdicts, strict=True)
            ],
            "primitives": list(found.collected("primitives")),
            "definitions": list(found.collected("definitions")),
            "comparisons": sum(v.compared for v in found.verdicts),
            "counterexample": examples[0] if examples else None,
            "wrong_laws": [_rejection(row) for row in wrong_laws(label)] if refute and holds else [],
            "rewritings": counted(found, REWRITINGS if refute and holds else 0),
        },
    }


def _rejection(row: Any) -> dict[str, Any]:
    verdict = row.refute()
    return {
        "id": row.name,
        "kind": row.kind,
        "why": row.why,
        "verdict": verdict.word,
        "counterexample": gathered(str(verdict.counterexample)) if verdict.counterexample else None,
    }


def tree(label: str, depth: int = 0, arrow: str = "", seen: set[str] | None = None) -> str:
    """What a result rests on, indented; an arrow says by what, and what it is only read with carries no status."""
    seen = set() if seen is None else seen
    line = f"{'  ' * depth}{label}  ({arrow}{law(label).word})"
    if label in seen:
        return line + "  as above" if graph(label).rests_on else line
    seen.add(label)
    links = graph(label)
    below = [tree(other, depth + 1, f"by {by}; ", seen) for other, by in links.rests_on.items()]
    beside = [f"{'  ' * (depth + 1)}{other}  (only read with)" for other in links.read_with]
    return "\n".join([line, *below, *beside])
