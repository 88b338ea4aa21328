"""Runs against the theory: curves with floors and intervals, and what their criteria say, from records alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from report import document as doc
from report import figures
from report.context import Context, verdict_id
from report.document import (
    Badge,
    Code,
    Details,
    Emph,
    Figure,
    Line,
    Msg,
    Note,
    Para,
    Section,
    Table,
    Text,
    prose,
    text,
)  # fmt: skip
from report.draw import Canvas
from report.filters import number
from report.lettering import rich
from report.messages import messages
from report.sections.summary import anchor, interval

MEASURES = {  # a record's name of a measure -> ours
    "loss": "training loss", "held_out_loss_nats": "held-out loss", "held_out_kl_bits": "KL from the exact predictive",
    "held_out_entropy_mae_bits": "entropy error", "held_out_total_variation": "total variation",
    "held_out_excluded": "mass on excluded outcomes", "attention_entropy": "attention entropy",
}  # fmt: skip


def build(context: Context) -> Section:
    blocks: list[doc.Block] = [Para((Msg("summary.experiments"),), kind="lead")]
    if not context.records:
        blocks.append(Note("info", (Para((Msg("ui.no_records"),)),)))
    for name, record in context.records.items():
        blocks.append(experiment(name, record))
    return Section("experiments", (Msg("heading.experiments"),), tuple(blocks))


def experiment(name: str, record: Mapping[str, Any]) -> Section:
    id = f"experiment.{record['experiment']}"
    known = id in messages() and messages().english(id) == record["title"]
    named: Line = (Msg(id),) if known else text(record["title"])
    size: Line = (Msg(f"size.{record['size']}"),) if f"size.{record['size']}" in messages() else text(record["size"])
    title = (Text(f"{record['code']}. "), *named, Text(" ("), *size, Text(")"))
    runs, blocks = record["runs"], [Para(text(record["question"]))]
    blocks.append(
        Para(
            prose(
                "{done} of {planned} runs; record {record}; again with {command}.",
                done=number(runs["done"]),
                planned=number(runs["planned"]),
                record=Code(name),
                command=Code(f"python -m bayesgrad.training run {record['experiment']} --size {record['size']}"),
            ),
            kind="links",
        )
    )
    blocks.append(Para(rich(_circumstances(record)), kind="links"))
    told: list[doc.Block] = list(blocks)
    for claim in record["claims"]:
        told.append(judged(claim))
    if record["arms"]:
        if any("curve" in arm for arm in record["arms"].values()):
            told.append(_loss_figure(record))
        told.append(_arms(record))
    floors = record.get("facts", {}).get("floors")
    if floors:
        told.append(_floors(floors))
    if record.get("heat_map"):
        told.append(_heat_figure(record))
    if record.get("residuals", {}).get("t"):
        told.append(_residual_figure(record))
    return Section(anchor(record), title, tuple(told))


def _circumstances(record: Mapping[str, Any]) -> str:
    """Versions and machine of the runs, as their record has them."""
    machine = record.get("machine") or {}
    versions = ", ".join(f"{name} {version}" for name, version in (record.get("versions") or {}).items())
    parts = [versions, ", ".join(f"{name} {number(value)}" for name, value in machine.items())]
    parts += [f"threads {number(record['threads'])}"] if "threads" in record else []
    parts += [f"{number(record['seconds'])} s in all"] if "seconds" in record else []
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
    criterion = Details(
        (Msg("ui.criterion"),),
        (Para(text(claim["criterion"])), Para((Text("SHA-256 "), Code(claim["criterion_sha"])), kind="links")),
    )
    return Note("good" if claim["verdict"] == "supported" else "info", (Para(tuple(line)), criterion))


def effect(claim: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (number(claim["effect"]), interval(claim["interval"]), claim["unit"] or "")))


def _estimate(value: Mapping[str, Any]) -> Line:
    return text(f"{number(value['mean'], 4)} {interval(value['interval'])}")


def _arms(record: Mapping[str, Any]) -> doc.Block:
    arms = record["arms"]
    names = [name for name in MEASURES if any(name in arm.get("final", {}) for arm in arms.values())]
    rows = []
    for measure in names:
        finals = [arm["final"].get(measure) for arm in arms.values()]
        unit = next((final["unit"] for final in finals if final), "")
        cells = tuple(_estimate(final) if final else text("–") for final in finals)
        rows.append(((Text(f"{MEASURES[measure]} ({unit})"),), *cells))
    header: tuple[Line, ...] = ((Msg("column.measure"),), *(text(name) for name in arms))
    seeds = max((len(arm.get("seeds", [])) for arm in arms.values()), default=0)
    caption = prose("After the last step: mean over {n} seeds and bootstrap 95% interval.", n=number(seeds))
    return Table(header, tuple(rows), "l" + "r" * len(arms), caption, name="arms", widths=(1.4, *(1.0 for _ in arms)))


def _floors(floors: Mapping[str, Mapping[str, float]]) -> doc.Block:
    columns = [("loss_nats", "loss (nats)"), ("kl_bits", "KL (bits)"), ("entropy_mae_bits", "entropy error (bits)")]
    columns += [("total_variation", "total variation")]
    rows = tuple(
        (text(name), *(text(number(values.get(column))) for column, _ in columns)) for name, values in floors.items()
    )
    header = (text("baseline"), *(text(name) for _, name in columns))
    caption = prose(
        """Floors: what is reached without learning anything, or with a short memory. A model that does not beat them
        is *not trained*."""
    )
    return Table(header, rows, "lrrrr", caption, name="floors", widths=(1.6, 1, 1, 1.2, 1.2))


# ---- figures: the block, and the drawing of the same name


def _loss_figure(record: Mapping[str, Any]) -> Figure:
    arms = {name: arm["curve"] for name, arm in record["arms"].items() if "curve" in arm}
    seeds = max(len(arm.get("seeds", [])) for arm in record["arms"].values())
    unit = next(iter(arms.values()))["unit"]
    rate = record.get("facts", {}).get("entropy_rate_nats")
    caption = prose(
        "Training loss ({unit}) over steps: mean of {n} seeds, band from the lowest to the highest.",
        unit=unit,
        n=number(seeds),
    )
    if rate is not None:
        caption += text(" ") + prose(
            "Dashed: the entropy rate, {rate} nats; a training loss below it is memorised, not learnt.",
            rate=number(rate, 4),
        )
    alternative = "Training loss over steps, one curve for each of: " + ", ".join(arms)
    return Figure(f"{anchor(record)}-loss", caption, alternative, arms)


def _heat_figure(record: Mapping[str, Any]) -> Figure:
    heat = record["heat_map"]
    caption = prose(
        r"""Advantage $N A_{ij}$ of the first positions before and after training ({unit}), arm {arm}, seed {seed}.
        Rows are queries, columns keys; above the diagonal nothing is visible. Each panel has its own symmetric
        scale.""",
        unit=heat["end"]["unit"],
        arm=heat["arm"],
        seed=number(heat["seed"]),
    )
    return Figure(
        f"{anchor(record)}-advantage", caption, "Two heat maps of the advantage, before and after training", heat
    )


def _residual_figure(record: Mapping[str, Any]) -> Figure:
    slopes = ", ".join(f"{name} {number(value, 4)}" for name, value in record["residuals"]["slope"].items())
    caption = prose(
        r"What remains of a measured change after the first-order prediction is subtracted, against the step size. "
        r"A first-order law leaves a slope of 2; measured: {slopes}.",
        slopes=slopes,
    )
    return Figure(
        f"{anchor(record)}-residuals", caption, "Residuals against step size, logarithmic axes", record["residuals"]
    )


def drawings(context: Context) -> dict[str, dict[str, bytes]]:
    """Every figure of the experiments, by name."""
    found: dict[str, Canvas] = {}
    for record in context.records.values() if not context.only else ():
        base = anchor(record)
        arms = {name: arm["curve"] for name, arm in record["arms"].items() if "curve" in arm}
        if arms:
            curves = [figures.Curve(name, c["step"], c["mean"], c["low"], c["high"]) for name, c in arms.items()]
            rate = record.get("facts", {}).get("entropy_rate_nats")
            floors = [("entropy rate", rate)] if rate is not None else []
            unit = next(iter(arms.values()))["unit"]
            found[f"{base}-loss"] = figures.lines(curves, x="step", y=f"training loss ({unit})", floors=floors)
        heat = record.get("heat_map")
        if heat:
            panels = [("before training", heat["start"]["advantage"]), ("after training", heat["end"]["advantage"])]
            found[f"{base}-advantage"] = figures.heat(panels, x="key $j$", y="$i$", unit="$N A_{ij}$ (nats)")
        residuals = record.get("residuals") or {}
        if residuals.get("t"):
            curves = [figures.Curve(name, residuals["t"], values) for name, values in residuals["residual"].items()]
            found[f"{base}-residuals"] = figures.lines(curves, x="share of the step", y="largest residual", log="xy")
    return {name: {"svg": canvas.svg().encode(), "tikz": canvas.tikz().encode()} for name, canvas in found.items()}
