"""Curves along training: loss and held-out divergence, and the tables beside them."""

from __future__ import annotations

from collections.abc import Sequence

from report import document as doc
from report import figures
from report.document import Figure, Msg, prose, text
from report.draw import Canvas
from report.figures import Curve, lines
from report.filters import number
from report.frames import COLOURS
from report.sections.pieces import (
    Piece,
    Record,
    agree,
    by_task,
    floors_of,
    named,
    panel,
    plates,
    rounded,
    rows_with,
    slot,
    task_of,
)
from report.sections.summary import anchor

HELD_OUT = "held_out_kl_bits"


def _split(arms: Sequence[str]) -> list[list[str]]:
    """No more arms in a figure than there are colours: first by what follows the last comma, then by number."""
    if len(arms) <= len(COLOURS):
        return [list(arms)] if arms else []
    kinds: dict[str, list[str]] = {}
    for arm in arms:
        kinds.setdefault(arm.rpartition(", ")[2] if ", " in arm else "", []).append(arm)
    size = len(COLOURS)
    return [members[at : at + size] for members in kinds.values() for at in range(0, len(members), size)]


def _groups(record: Record, arms: Sequence[str]) -> list[list[str]]:
    """Arms that share axes: those of one task, no more than there are colours."""
    return [part for group in by_task(record, arms) for part in _split(group)]


def _rate(record: Record, arms: Sequence[str]) -> float | None:
    """The entropy rate of the arms' task in nats, where the record has it."""
    first = next(iter(record["arms"]))
    if task_of(record, arms[0]) == task_of(record, first):
        return (record.get("facts") or {}).get("entropy_rate_nats")
    stated = all(arm.endswith(", stated row") for arm in arms)
    return (record.get("stated_row") or {}).get("entropy_rate_nats") if stated else None


def loss(record: Record) -> Piece | None:
    """Training loss over steps with the band of the seeds."""
    curves = {arm: row["curve"] for arm, row in record["arms"].items() if "curve" in row}
    if not curves:
        return None
    unit = next(iter(curves.values()))["unit"]
    groups = _groups(record, list(curves))

    def draw(arms: Sequence[str], narrow: bool) -> Canvas:
        told = [
            Curve(named(record, arm), c["step"], c["mean"], c["low"], c["high"], slot=slot(record, arm))
            for arm, c in curves.items()
            if arm in arms
        ]
        rate = _rate(record, arms)
        floors = [("entropy rate", rate)] if rate is not None else []
        y = f"training loss ({unit})"
        return lines(told, x="step", y=y, floors=floors, legend=not narrow, **panel(record, arms, narrow))

    def alternative(arms: Sequence[str]) -> str:
        ends = {arm: (curves[arm]["mean"][0], curves[arm]["mean"][-1]) for arm in arms}
        told = (f"{named(record, arm)} from {number(a)} to {number(b)} {unit}" for arm, (a, b) in ends.items())
        return "Training loss over steps. " + "; ".join(told)

    seeds = max(len(row.get("seeds", [])) for row in record["arms"].values())
    caption = prose(
        "Training loss ({unit}) over steps: mean of {n} seeds, band from the lowest to the highest.",
        unit=unit,
        n=number(seeds),
    )
    if rates := [rate for group in groups if (rate := _rate(record, group)) is not None]:
        caption += text(" ") + prose(
            "Dotted: the entropy rate, {rate} nats; a training loss below it is memorised, not learnt.",
            rate=" or ".join(dict.fromkeys(number(rate, 4) for rate in rates)),
        )
    told = plates(
        f"{anchor(record)}-loss",
        groups,
        draw,
        caption=caption,
        alternative=alternative,
        data=lambda arms: {arm: curves[arm] for arm in arms},
    )
    if told is None or not rows_with(record, "by_position", "position"):
        return told
    fold = doc.Details((Msg("ui.training"),), told.blocks)  # fresh sequences at every step: held-out KL says the same
    return Piece((fold,), told.drawings)


def held_out(record: Record) -> Piece | None:
    """Held-out KL over steps on a logarithmic axis, with the floors that lie in its range."""
    rows = {
        arm: row["evaluations"]
        for arm, row in record["arms"].items()
        if len([v for v in row.get("evaluations", {}).get(HELD_OUT, ()) if v]) > 2
    }
    for arm, row in rows.items():
        agree(record, f"evaluations of {arm}", row["step"], held_out_kl_bits=row[HELD_OUT])

    def draw(arms: Sequence[str], narrow: bool) -> Canvas:
        least = min(value for arm in arms for value in rows[arm][HELD_OUT] if value)
        floors = [
            (floor, values["kl_bits"])
            for floor, values in floors_of(record, arms[0]).items()
            if (values.get("kl_bits") or 0.0) > least / 2
        ]
        told = [
            Curve(named(record, arm), rows[arm]["step"], rows[arm][HELD_OUT], slot=slot(record, arm)) for arm in arms
        ]
        return lines(
            told,
            x="step",
            y="held-out KL (bits)",
            floors=floors,
            log="y",
            legend=not narrow,
            **panel(record, arms, narrow),
        )

    def alternative(arms: Sequence[str]) -> str:
        ends = {arm: (rows[arm][HELD_OUT][0], rows[arm][HELD_OUT][-1]) for arm in arms}
        told = (f"{named(record, arm)} from {number(a)} to {number(b)} bits" for arm, (a, b) in ends.items())
        return "Held-out KL over steps. " + "; ".join(told)

    caption = prose(
        r"""Divergence from the exact predictive on held-out sequences, KL(Bayes ∥ model) in bits, over steps: mean of
        the seeds, logarithmic. Dotted, where they lie in the range: floors."""
    )
    return plates(
        f"{anchor(record)}-held-out",
        _groups(record, list(rows)),
        draw,
        caption=caption,
        alternative=alternative,
        data=lambda arms: {arm: {"step": rows[arm]["step"], HELD_OUT: rows[arm][HELD_OUT]} for arm in arms},
    )


def advantage(record: Record) -> Piece | None:
    """The advantage of the first positions before and after training."""
    heat = record.get("heat_map")
    if not heat:
        return None
    caption = prose(
        r"""Advantage $N A_{ij}$ of the first positions before and after training ({unit}), arm {arm}, seed {seed}.
        Rows are queries, columns keys; above the diagonal nothing is visible. Each panel has its own symmetric
        scale.""",
        unit=heat["end"]["unit"],
        arm=heat["arm"],
        seed=number(heat["seed"]),
    )
    name = f"{anchor(record)}-advantage"
    panels = [("before training", heat["start"]["advantage"]), ("after training", heat["end"]["advantage"])]
    drawing = figures.heat(panels, x="key $j$", y="$i$", unit="$N A_{ij}$ (nats)")
    block = Figure(name, caption, "Two heat maps of the advantage, before and after training", heat)
    return Piece((block,), {name: drawing})


def residuals(record: Record) -> Piece | None:
    """What a first-order prediction leaves, against the step size."""
    found = record.get("residuals") or {}
    if not found.get("t"):
        return None
    slopes = ", ".join(f"{name} {number(value, 4)}" for name, value in found["slope"].items())
    caption = prose(
        r"What remains of a measured change after the first-order prediction is subtracted, against the step size. "
        r"A first-order law leaves a slope of 2; measured: {slopes}.",
        slopes=slopes,
    )
    name = f"{anchor(record)}-residuals"
    curves = [Curve(what, found["t"], values) for what, values in found["residual"].items()]
    drawing = lines(curves, x="share of the step", y="largest residual", log="xy")
    block = Figure(name, caption, "Residuals against step size, logarithmic axes", found)
    return Piece((block,), {name: drawing})


def mislabelled(record: Record) -> Piece | None:
    """The known mistake: targets on their own input token against the right ones."""
    found = record.get("mislabelled")
    if not found:
        return None
    kinds = {"right": "target not among the inputs", "wrong": "target on its own input token"}
    curves = [Curve(words, found[kind]["step"], found[kind]["loss"]) for kind, words in kinds.items() if kind in found]
    level = found["uniform_loss_nats"]
    name = f"{anchor(record)}-mislabelled"
    drawing = lines(curves, x="step", y="loss (nats)", floors=[("uniform output", level)])
    caption = prose(
        """A known mistake, made on purpose: labels placed on their own input token teach copying. Loss (nats) over
        steps; dotted: uniform output, {level} nats.""",
        level=number(level),
    )
    ends = "; ".join(f"{curve.name} ends at {number(curve.y[-1])} nats" for curve in curves)
    return Piece((Figure(name, caption, f"Loss over steps. {ends}", rounded(found)),), {name: drawing})
