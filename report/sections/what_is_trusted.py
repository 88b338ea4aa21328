"""What has to be believed, what is open, and how to obtain each figure again."""

from __future__ import annotations

from bayesgrad.evidence import HOW
from report import document as doc
from report.context import Context
from report.document import Code, Items, Msg, Note, Para, Ref, Section, Table, Text, prose, text
from report.filters import number


def build(context: Context) -> list[Section]:
    """The section."""
    return [trusted(context), gaps(context), again(context)]


def trusted(context: Context) -> Section:
    """The files that have to be right for a proof to be one."""
    base = context.evidence["trusted_base"]
    blocks: list[doc.Block] = [Para((Msg("summary.trust"),), kind="lead")]
    if base["files"]:
        told = prose(
            "{files} files with {lines} lines can influence the word *proved*:",
            files=number(len(base["files"])),
            lines=number(base["lines"]),
        )
        blocks += [Para(told), Items(tuple((Para((Code(name),)),) for name in base["files"]))]
    else:
        blocks.append(Note("warn", (Para((Msg("ui.no_trust"),)),)))
    blocks.append(
        Para(
            prose(
                """Beyond these: Python and the libraries listed under versions, for exact instances the arithmetic
                of python-flint, for formal proofs the kernel of Coq with the axioms that each proof names, and
                for numeric checks the automatic differentiation of PyTorch, which no *proved* rests on."""
            )
        )
    )
    return Section("trust", (Msg("heading.trust"),), tuple(blocks))


def gaps(context: Context) -> Section:
    """What is not established, and why."""
    rows = []
    for label in context.by_label:
        missing = context.missing(label)
        if missing:
            rows.append(((Ref(label),), text("; ".join(missing))))
    if not rows:
        return Section("gaps", (Msg("heading.gaps"),), (Para((Msg("summary.no_gaps"),), kind="lead"),))
    header = tuple((Msg(f"column.{name}"),) for name in ("result", "missing"))
    table = Table(header, tuple(rows), "ll", name="gaps", widths=(1, 2.4))
    return Section("gaps", (Msg("heading.gaps"),), (Para((Msg("summary.gaps"),), kind="lead"), table))


def again(context: Context) -> Section:
    """The command that obtains each figure again."""
    rows = [((Msg(f"route.{route}"),), (Code(HOW[route]),)) for route in HOW]
    rows.append(((Msg("route.report"),), (Code("python -m report"),)))
    rows.append(((Msg("route.all"),), (Code("make report"),)))
    header = tuple((Msg(f"column.{name}"),) for name in ("route", "again"))
    return Section(
        "reproduce",
        (Msg("heading.reproduce"),),
        (
            Para((Msg("summary.reproduce"),), kind="lead"),
            Table(header, tuple(rows), "ll", name="commands", widths=(1, 2)),
            Para(
                (
                    *prose("One result alone, with its numbered steps: "),
                    Code("python -m derivations LABEL"),
                    Text(". "),
                    *prose("One result on a page of its own: "),
                    Code("python -m report --only LABEL"),
                    Text("."),
                )
            ),
        ),
    )
