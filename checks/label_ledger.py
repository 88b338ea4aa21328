"""The ledger: a line a label, from the evidence of every route; a table in a terminal, plain text elsewhere.

What other routes found is read from their fragments, and a route whose sources changed since counts as "not run". Every
cell is computed; nothing is typed.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayesgrad import evidence as files
from bayesgrad.theorems import THEOREMS, Theorem

Fragment = Mapping[str, Any]
ROUTES = ("proof", "exact", "code", "formal")
NOT_RUN, NOTHING = "not run", "-"


@dataclass(frozen=True)
class Row:
    """One line of the ledger; ``checks``: what the checks of the label found, or None if they did not run."""

    label: str
    routes: dict[str, str]
    checks: Mapping[str, Any] | None
    wrong: str
    observed: str

    @property
    def good(self) -> bool:
        """Whether the checks ran and passed."""
        return self.checks is not None and self.checks["verdict"] == "passed"

    @property
    def sentence(self) -> str:
        """What the checks found: verdict, examples + vacuous draws, worst error in tolerances, oracles."""
        if self.checks is None:
            return NOT_RUN
        of, oracles = self.checks, len(self.checks["oracles"])
        return (
            f"{of['verdict']} {of['examples']}+{of['vacuous']}v {of['worst_in_tolerance']:.2g}tol "
            f"{oracles} oracle{'s' * (oracles != 1)}"
        )


def _cell(route: str, theorem: Theorem, fragment: Fragment | None) -> str:
    found = None if fragment is None else fragment["results"].get(theorem.label)
    if found is None:
        return NOT_RUN if theorem.routes.get(route) in ("required", "optional") else NOTHING
    said = str(found["verdict"])
    return {"not applicable": NOTHING, "refuted": "REFUTED", "not confirmed": "NOT CONFIRMED"}.get(said, said)


def rows(check: Fragment | None, others: Mapping[str, Fragment | None]) -> list[Row]:
    """The ledger, line by line, in the order of the catalogue."""
    out = []
    for theorem in THEOREMS:
        wrong = None if check is None else check.get("wrong_laws", {}).get(theorem.label)
        out.append(
            Row(
                theorem.label,
                {route: _cell(route, theorem, others.get(route)) for route in ROUTES},
                None if check is None else check["results"].get(theorem.label),
                NOTHING if wrong is None else f"{wrong['rejected']}/{wrong['total']}",
                _cell("observed", theorem, others.get("observed")),
            )
        )
    return out


def read_others() -> dict[str, Fragment | None]:
    """The evidence of the routes that pytest does not run; None where it is missing, stale or damaged."""
    found: dict[str, Fragment | None] = {}
    for route in (*ROUTES, "observed"):
        try:
            found[route] = files.read(route)
        except files.BadEvidence:
            found[route] = None
    return found


def show(check: Fragment | None, terminal: bool) -> str:
    """The ledger as it suits the reader: a table in a ``terminal``, plain text anywhere else."""
    return table(check) if terminal else "\n".join(ledger(check))


HEADER = ("label", *ROUTES, "checks: verdict, examples + vacuous, worst error, oracles", "wrong", "observed")


def ledger(check: Fragment | None) -> list[str]:
    """The ledger as lines of plain text."""
    lines = rows(check, read_others())
    table: list[tuple[str, ...]] = [HEADER]
    table += [(row.label, *row.routes.values(), row.sentence, row.wrong, row.observed) for row in lines]
    widths = [max(len(line[c]) for line in table) for c in range(len(HEADER))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    text.insert(1, "-" * (sum(widths) + 2 * len(widths) - 2))
    return [*text, "", *summary(check, lines)]


_SIGNS = {
    "proved": "[green]✓[/]",
    "passed": "[green]✓[/]",
    "REFUTED": "[bold red]✗[/]",
    "failed": "[bold red]✗[/]",
    "undecided": "[yellow]?[/]",
    NOT_RUN: "[dim]·[/]",
    NOTHING: "[dim]–[/]",
}


def table(check: Fragment | None, width: int | None = None) -> str:
    """The ledger as a coloured table for a terminal, with a legend."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    lines = rows(check, read_others())
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    drawn.caption = "✓ proved or passed   ✗ refuted or failed   ? undecided   · not run   – does not apply"
    drawn.add_column("label", no_wrap=True)
    for route in (*ROUTES, "checks"):
        drawn.add_column(route, justify="center")
    for name in ("examples", "vacuous", "worst error", "oracles", "wrong laws"):
        drawn.add_column(name, justify="right")
    drawn.add_column("observed", no_wrap=True)
    for row in lines:
        signs = [_SIGNS.get(cell, escape(cell)) for cell in row.routes.values()]
        found, numbers = row.checks, [""] * 4
        if found is not None:
            worst = f"{found['worst_in_tolerance']:.2g} tol"
            numbers = [str(found["examples"]), str(found["vacuous"]), worst, str(len(found["oracles"]))]
        verdict = NOT_RUN if found is None else str(found["verdict"])
        observed = f"[bold red]{row.observed}[/]" if row.observed == "NOT CONFIRMED" else escape(row.observed)
        label = escape(row.label) if row.good or found is None else f"[bold red]{escape(row.label)}[/]"
        drawn.add_row(label, *signs, _SIGNS.get(verdict, escape(verdict)), *numbers, row.wrong, observed)
    console = Console(file=io.StringIO(), force_terminal=True, width=width or shutil.get_terminal_size().columns)
    console.print(drawn)
    for line in summary(check, lines):
        console.print(line, markup=False, highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def summary(check: Fragment | None, lines: list[Row]) -> list[str]:
    """What stands below the ledger: the counts, the wrong laws that survive, and the code mutants."""
    checked = [row for row in lines if row.checks is not None]
    good = sum(row.good for row in lines)
    text = [
        f"{good} of {len(lines)} labels passed their checks, {len(checked) - good} failed, "
        f"{len(lines) - len(checked)} not run; examples + v(acuous draws), worst error in units of the tolerance, "
        "wrong laws rejected/total"
    ]
    if check is not None:
        laws = check.get("wrong_laws", {}).values()
        total, rejected = sum(law["total"] for law in laws), sum(law["rejected"] for law in laws)
        text.append(f"wrong laws: {rejected} of {total} rejected by a counterexample")
        for label, law in check.get("wrong_laws", {}).items():
            text += [f"  survives: {label}: {name}: {law['laws'][name]['why']}" for name in law["survivors"]]
        text += [f"FAILED: {node}" for node in check.get("failed", [])]
    return text + automatic_mutants()


def automatic_mutants() -> list[str]:
    """What the last hunt for code mutants found, in a few lines."""
    from checks.mutation import mutants

    data = mutants.last()
    if data is None:
        return ["code mutants: not run on these sources (python -m checks --mutants)"]
    found = mutants.summary(data)
    return [found[0], *(line for line in found if line.startswith("  survives") and "NOT EXPLAINED" in line)]
