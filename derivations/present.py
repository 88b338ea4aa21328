"""One result as a reader meets it: statement, assumptions, numbered steps with their rules, verdict."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from bayesgrad.symbolic.assumed import declared, hypothesis
from bayesgrad.symbolic.proof import AtMost, Entries, Equation, Minimum, Verdict, Witness
from bayesgrad.symbolic.terms import Entry, Index, Tensor, Term, children
from bayesgrad.symbolic.tex import shown, statement
from bayesgrad.symbolic.text import text
from derivations.headlines import statement_tex
from derivations.laws import Law, Part, law
from derivations.rewritings import counted
from derivations.wrong_laws import wrong_laws

REWRITINGS = 5  # a label: at least 20 in every family


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
    found = law(label)
    lines = [f"{label}: {found.word}", ""]
    for part, verdict in zip(found.parts, found.verdicts, strict=True):
        lines += [f"{part.name}", f"    {claim_text(part)}"]
        lines += [f"    {part.says}"] if part.says else []
        lines += [f"    assume  {hypothesis(given)}" for given in part.claim.given]
        lines += [f"    assume  {line}" for line in declared(part.claim)]
        lines.append("")
        for number, step in enumerate(steps(part)):
            lines.append(f"    {number:2d}. {step['text']}")
            lines.append(f"        {step['rule']}: {step['why']}")
        lines += [f"    {_verdict_line(verdict)}", ""]
    lines += [
        f"primitives   {', '.join(found.collected('primitives'))}",
        f"definitions  {', '.join(found.collected('definitions')) or 'none'}",
        f"rests on     {', '.join(found.uses) or 'nothing else'}",
    ]
    return "\n".join(lines)


def _verdict_line(verdict: Verdict) -> str:
    line = f"{verdict.word} in {verdict.seconds:.2f} s; every step evaluated, {verdict.compared} exact comparisons"
    if verdict.reason:
        line += f"\n    {verdict.reason}"
    if verdict.counterexample:
        line += f"\n    counterexample: {verdict.counterexample}"
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
    holds = not any(v.reason for v in found.verdicts)  # a near miss of what fails itself says nothing
    reasons = [f"{p.name}: {v.reason}" for p, v in zip(found.parts, found.verdicts, strict=True) if v.reason]
    examples = [str(v.counterexample) for v in found.verdicts if v.counterexample]
    return {
        "verdict": found.word,
        "reason": "; ".join(reasons) or "every step follows by an admitted rule",
        "seconds": round(found.seconds, 3),
        "detail": {
            "statement_tex": statement_tex(label),
            "where": where(found.parts),
            "assumptions": list(found.assumptions),
            "parts": [{"name": p.name, "statement_tex": p.tex, "says": p.says, "steps": steps(p)} for p in found.parts],
            "steps": [step for p in found.parts for step in steps(p)],
            "primitives": list(found.collected("primitives")),
            "definitions": list(found.collected("definitions")),
            "uses": list(found.uses),
            "comparisons": sum(v.compared for v in found.verdicts),
            "counterexample": examples[0] if examples else None,
            "wrong_laws": [_rejection(row) for row in wrong_laws(label)] if refute and holds else [],
            "rewritings": counted(found, REWRITINGS if refute and holds else 0),
        },
    }


def _rejection(row: Any) -> dict[str, Any]:
    verdict = row.refute()
    return {
        "id": row.id,
        "kind": row.kind,
        "why": row.why,
        "verdict": verdict.word,
        "counterexample": str(verdict.counterexample) if verdict.counterexample else None,
    }


def tree(label: str, depth: int = 0, seen: frozenset[str] = frozenset()) -> str:
    """What a result rests on, indented."""
    found: Law = law(label)
    line = f"{'  ' * depth}{label}  ({found.word})"
    if label in seen:
        return line + "  above"
    return "\n".join([line, *(tree(u, depth + 1, seen | {label}) for u in found.uses)])
