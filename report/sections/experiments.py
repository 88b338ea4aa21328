"""Runs against the theory: what their criteria say, and figures beside the claims that they bear on. Records alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from report import document as doc
from report.context import Context, verdict_id
from report.document import Badge, Code, Details, Emph, Line, Link, Msg, Note, Para, Section, Text, prose, text
from report.draw import Canvas
from report.filters import number
from report.lettering import rich
from report.messages import messages
from report.panels import Strip
from report.sections import searches as tuning
from report.sections import settling_times as stability
from report.sections import single_sequences as sequences
from report.sections import tables, training, wind_tunnels
from report.sections.pieces import Piece, Record
from report.sections.summary import anchor, effect

PIECES: dict[str, Callable[[Record], Piece | None]] = {
    "entropy": wind_tunnels.entropy,
    "divergence": wind_tunnels.divergence,
    "ranges": tables.ranges,
    "sequences": sequences.traces,
    "followed": tables.followed,
    "calibration": sequences.calibration,
    "memory": wind_tunnels.memory,
    "memories": tables.memories,
    "stability": stability.stability,
    "loss": training.loss,
    "held-out": training.held_out,
    "mislabelled": training.mislabelled,
    "arms": tables.arms,
    "floors": tables.floors,
    "tuning": tuning.tuning,
    "advantage": training.advantage,
    "residuals": training.residuals,
}

BESIDE = {  # claim -> what bears on it; each piece is printed once, under the first claim that lists it
    "optimum-is-posterior-predictive": ("entropy", "divergence"),
    "transformer-reaches-bayes": ("entropy", "divergence", "calibration"),
    "tracks-single-sequences": ("sequences", "followed"),
    "hmm-transformer-filters": ("entropy", "memory", "memories"),
    "length-generalisation-smooth": ("divergence", "ranges"),
    "mlp-fails": ("arms",),
    "lstm-fails-on-hmm": ("arms",),
    "attention-early-values-late": ("stability",),
    "em-like-faster": ("loss",),
    "em-like-faster-tuned": ("held-out", "tuning"),
}


BRIEF = ("entropy", "divergence", "memories", "held-out", "arms", "floors")
"""What is printed of a quick record where the full record of its experiment is printed as well."""


def pieces(record: Record, *, brief: bool = False) -> dict[str, Piece]:
    """All that a record has to show, in the order of telling."""
    found = {name: make(record) for name, make in PIECES.items() if not brief or name in BRIEF}
    return {name: piece for name, piece in found.items() if piece is not None}


def _full(context: Context, record: Record) -> Record | None:
    """The full record of the same experiment, if ``record`` is not that."""
    others = (other for other in context.records.values() if other["experiment"] == record["experiment"])
    return None if record["size"] == "full" else next((other for other in others if other["size"] == "full"), None)


def build(context: Context) -> Section:
    """The section: every record, claim by claim."""
    blocks: list[doc.Block] = [Para((Msg("summary.experiments"),), kind="lead")]
    if not context.records:
        blocks.append(Note("info", (Para((Msg("ui.no_records"),)),)))
    for name, record in context.records.items():
        blocks.append(experiment(name, record, _full(context, record)))
    return Section("experiments", (Msg("heading.experiments"),), tuple(blocks))


def drawings(context: Context) -> dict[str, dict[str, bytes]]:
    """Every figure of the experiments, by name."""
    found: dict[str, Canvas | Strip] = {}
    for record in context.records.values() if not context.only else ():
        for piece in pieces(record, brief=_full(context, record) is not None).values():
            found |= piece.drawings
    return {name: {"svg": drawn.svg().encode(), "tikz": drawn.tikz().encode()} for name, drawn in found.items()}


def experiment(name: str, record: Mapping[str, Any], full: Record | None = None) -> Section:
    """The section of a record; a small one refers to the ``full`` record for what it leaves out."""
    told: list[doc.Block] = _about(name, record)
    left = pieces(record, brief=full is not None)
    if full is not None:
        whole = prose(
            "In brief; all figures and tables are those of {full}.", full=Link(f"#{anchor(full)}", "full size")
        )
        told.append(Para(whole, kind="links"))
    if record["size"] == "quick":
        told.append(Para(prose("A smoke run: it shows that everything runs, and it is too small to decide a claim.")))
    for claim in record["claims"]:
        if record["size"] != "quick":
            told.append(judged(claim))
        for wanted in BESIDE.get(claim["id"], ()):
            if wanted in left:
                told += left.pop(wanted).blocks
    for piece in left.values():
        told += piece.blocks
    return Section(anchor(record), _title(record), tuple(told))


def _title(record: Record) -> Line:
    id = f"experiment.{record['experiment']}"
    known = id in messages() and messages().english(id) == record["title"]
    named: Line = (Msg(id),) if known else text(record["title"])
    size: Line = (Msg(f"size.{record['size']}"),) if f"size.{record['size']}" in messages() else text(record["size"])
    return (Text(f"{record['code']}. "), *named, Text(" ("), *size, Text(")"))


def _about(name: str, record: Record) -> list[doc.Block]:
    """The question, the runs, and the circumstances of the runs."""
    runs = record["runs"]
    command = f"python -m bayesgrad.training run {record['experiment']} --size {record['size']}"
    made = prose(
        "{done} of {planned} runs; record {record}; again with {command}.",
        done=number(runs["done"]),
        planned=number(runs["planned"]),
        record=Code(name),
        command=Code(command),
    )
    about = (Para(text(record["question"])), Para(made, kind="links"), Para(rich(_circumstances(record)), kind="links"))
    return list(about)


def _circumstances(record: Record) -> str:
    """Versions and machine of the runs, as their record has them."""
    machine = record.get("machine") or {}
    versions = ", ".join(f"{name} {version}" for name, version in (record.get("versions") or {}).items())
    parts = [versions, ", ".join(f"{name} {number(value)}" for name, value in machine.items())]
    parts += [f"threads {number(record['threads'])}"] if "threads" in record else []
    seconds = record.get("seconds")
    parts += [f"{number(seconds)} s in all"] if isinstance(seconds, int | float) else []
    return "; ".join(part for part in parts if part)


def judged(claim: Mapping[str, Any]) -> doc.Block:
    """A claim with its verdict, its figure, and the criterion that decided it."""
    line: list[doc.Inline] = [
        Badge(verdict_id(claim["verdict"])),
        Text(" "),
        Code(claim["id"]),
        Text(f": {claim['statement']} "),
    ]
    if claim["effect"] is not None:
        line += [Emph((Text(effect(claim)),), strong=True), Text(".")]
    reason = (claim.get("detail") or {}).get("reason")
    if claim["verdict"] == "not tested" and reason:
        line.append(Text(f"Not tested: {reason}."))
    criterion = Details(
        (Msg("ui.criterion"),),
        (Para(text(claim["criterion"])), Para((Text("SHA-256 "), Code(claim["criterion_sha"])), kind="links")),
    )
    return Note("good" if claim["verdict"] == "supported" else "info", (Para(tuple(line)), criterion))
