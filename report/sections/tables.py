"""Tables of an experiment: what each arm is, how far from Bayes it ends, the floors, ranges, memory, tuning.

Arms are rows: there may be many of them, and a cell holds a mean with its interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from report import document as doc
from report.document import Line, Msg, Note, Para, Table, prose, text
from report.filters import number
from report.sections.pieces import Piece, Record, by_task, floors_of, named, rows_with, trained
from report.sections.summary import interval
from report.sections.wind_tunnels import equivalent

MEASURES = {  # a record's name of a measure -> ours
    "loss": "training loss", "held_out_loss_nats": "held-out loss", "held_out_kl_bits": "KL from Bayes",
    "held_out_entropy_mae_bits": "entropy error", "held_out_total_variation": "total variation",
    "held_out_excluded": "mass on excluded outcomes", "attention_entropy": "attention entropy",
}  # fmt: skip
HELD_OUT = [name for name in MEASURES if name.startswith("held_out")]
UNITS = {"probability": "", "share of log(visible keys)": "share", "nats, training sequence": "nats"}


def estimate(value: Mapping[str, Any] | None, digits: int = 4) -> Line:
    """Mean and interval; the interval may stand on a line of its own."""
    if not value or value.get("mean") is None:
        return text("–")
    alone = len(value.get("per_seed") or (0, 0)) < 2  # one seed has no interval
    return text(f"{number(value['mean'], digits)} {'' if alone else interval(value.get('interval'))}".strip())


def _measure(name: str, unit: str) -> Line:
    shown = UNITS.get(unit, unit)
    words = MEASURES.get(name) or MEASURES.get(f"held_out_{name}") or name.replace("_", " ")
    return text(f"{words} ({shown})" if shown else words)


def _columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, str]:
    """The measures that some row has, each with its unit."""
    found = {}
    for name in names:
        units = [row[name].get("unit") or "" for row in rows if row.get(name)]
        if units:
            found[name] = units[0]
    return found


def arms(record: Record) -> Piece | None:
    """What each arm is, and how far from the exact predictive it ends."""
    rows = record["arms"]
    if not rows:
        return None
    seeds = max((len(arm.get("seeds", [])) for arm in rows.values()), default=0)
    blocks: list[doc.Block] = [_models(record)]
    finals = [arm.get("final", {}) for arm in rows.values()]
    columns = _columns(finals, HELD_OUT)
    if columns:
        body = tuple(
            (text(named(record, arm)), *(estimate(row.get("final", {}).get(name)) for name in columns))
            for arm, row in rows.items()
        )
        header = ((Msg("column.arm"),), *(_measure(name, unit) for name, unit in columns.items()))
        caption = prose(
            "On held-out sequences after the last step: mean over {n} seeds and bootstrap 95% interval.",
            n=number(seeds),
        )
        widths = (1.5, *(1.2 for _ in columns))
        blocks.append(Table(header, body, "l" + "r" * len(columns), caption, name="arms", widths=widths))
    failed = [arm for arm in rows if not trained(record, arm)]
    if failed:
        reasons = tuple(
            (Para((*text(f"{arm}: "), *text(record["trained"][arm].get("reason") or "–"))),) for arm in failed
        )
        blocks.append(Note("warn", (Para((Msg("ui.not_trained"),)), doc.Items(reasons))))
    return Piece(tuple(blocks))


def _models(record: Record) -> Table:
    """Size, seeds, time and training loss of the arms, and whether they beat the floors."""
    rows = record["arms"]
    columns: list[tuple[Line, list[Line]]] = []
    sizes = [row.get("parameters") for row in rows.values()]
    base, of_its_size = _base([size for size in sizes if size])
    if any(sizes):
        columns.append((text("parameters"), [_size(size, base) for size in sizes]))
    columns.append((text("seeds"), [text(number(len(row.get("seeds", [])))) for row in rows.values()]))
    columns.append((text("steps"), [text(number(row.get("steps"))) for row in rows.values()]))
    seconds = record.get("seconds")
    each = [seconds.get(arm) if isinstance(seconds, Mapping) else row.get("seconds") for arm, row in rows.items()]
    if any(each):
        columns.append((text("seconds a run"), [text(number(value)) for value in each]))
    for name in ("loss", "attention_entropy"):
        finals = [row.get("final", {}).get(name) for row in rows.values()]
        unit = next((final["unit"] for final in finals if final), "")
        if any(finals):
            columns.append((_measure(name, unit), [estimate(final) for final in finals]))
    if rows_with(record, "trained", "reason") or record.get("trained"):
        told = record["trained"]
        columns.append((text("beats the floors"), [_beats(told.get(arm)) for arm in rows]))
    header = ((Msg("column.arm"),), *(head for head, _ in columns))
    body = tuple((text(named(record, arm)), *(cells[n] for _, cells in columns)) for n, arm in enumerate(rows))
    caption = prose("The arms.")
    if of_its_size > 1 and len(set(sizes)) > 1:
        caption += text(" ") + prose(
            "Percentages: parameters against {arm}, where they are of its size.",
            arm=next(arm for arm, row in rows.items() if row.get("parameters") == base),
        )
    widths = (1.5, *(0.9 if n < len(columns) - 3 else 1.1 for n in range(len(columns))))
    return Table(header, body, "l" + "r" * len(columns), caption, name="models", widths=widths)


def _base(sizes: Sequence[int]) -> tuple[int, int]:
    """The size that most arms are within a tenth of, the first of equals, and how many they are."""
    found = [(sum(abs(size / base - 1) < 0.1 for size in sizes), base) for base in sizes]
    many, base = max(found, key=lambda pair: pair[0], default=(0, 1))
    return base, many


def _size(size: int | None, base: int) -> Line:
    if not size:
        return text("–")
    share = 100 * (size / base - 1)
    near = size != base and abs(share) < 10
    return text(f"{number(size)} ({'+' if share > 0 else ''}{number(share, 2)}\u00a0%)" if near else number(size))


def _beats(found: Mapping[str, Any] | None) -> Line:
    if found is None:
        return text("–")
    return text("yes" if found.get("trained") else "no: not trained")


def floors(record: Record) -> Piece | None:
    """What is reached without learning, for the whole record or for each of its tasks."""
    found = {group: floors_of(record, group[0]) for group in map(tuple, by_task(record, list(record["arms"])))}
    told = {", ".join(group) if len(found) > 1 else "": rows for group, rows in found.items() if rows}
    return Piece(tuple(_floors(arms, values) for arms, values in told.items())) if told else None


def _floors(arms: str, values: Mapping[str, Mapping[str, float]]) -> Table:
    names = [("loss_nats", "loss (nats)"), ("kl_bits", "KL (bits)"), ("entropy_mae_bits", "entropy error (bits)")]
    names += [("total_variation", "total variation"), ("excluded", "mass on excluded outcomes")]
    columns = [(key, words) for key, words in names if any(row.get(key) is not None for row in values.values())]
    rows = tuple((text(name), *(text(number(row.get(key))) for key, _ in columns)) for name, row in values.items())
    header = (text("baseline"), *(text(words) for _, words in columns))
    caption = prose(
        """Floors: what is reached without learning anything, or with a short memory. A model that does not beat them
        is *not trained*."""
    )
    if arms:
        caption += text(f" Task of: {arms}.")
    widths = (1.6, *(1.1 for _ in columns))
    return Table(header, rows, "l" + "r" * len(columns), caption, name="floors", widths=widths)


def ranges(record: Record) -> Piece | None:
    """Within the trained range and beyond it, apart."""
    rows = record.get("ranges") or {}
    entries = [
        (arm, _positions(record, arm, kind), row[kind])
        for arm, row in rows.items()
        for kind in ("in_range", "beyond")
        if row.get(kind)
    ]
    if not any(row.get("beyond") for row in rows.values()):
        return None  # nothing to keep apart
    names = list(dict.fromkeys(name for _, _, row in entries for name in row if isinstance(row[name], Mapping)))
    columns = _columns([row for _, _, row in entries], names)
    body = tuple(
        (text(named(record, arm)), text(words), *(estimate(row.get(name)) for name in columns))
        for arm, words, row in entries
    )
    header = ((Msg("column.arm"),), text("positions"), *(_measure(name, unit) for name, unit in columns.items()))
    caption = prose("Positions within the trained range and beyond it, never pooled: mean over seeds and 95% interval.")
    widths = (1.4, 1.2, *(1.1 for _ in columns))
    return Piece((Table(header, body, "ll" + "r" * len(columns), caption, name="ranges", widths=widths),))


def _worth(row: Mapping[str, Any]) -> str:
    bounds = row.get("interval")
    return f"{equivalent(row)} {interval(bounds)}" if bounds and bounds[0] < bounds[1] else equivalent(row)


def followed(record: Record) -> Piece | None:
    """Each held-out sequence by itself: how many are followed, and how far off the typical and the worst ones are."""
    rows = rows_with(record, "by_sequence", "quantiles")
    if not rows:
        return None
    levels = next(iter(rows.values()))["quantiles"]["level"]
    body = tuple(
        (
            text(named(record, arm)),
            estimate(row.get("share_followed")),
            *(text(number(value)) for value in row["quantiles"]["entropy_mae_bits"]),
        )
        for arm, row in rows.items()
    )
    heads = (text("worst" if level == 1 else f"{number(100 * level)} %") for level in levels)
    header = ((Msg("column.arm"),), text("share of sequences followed"), *heads)
    caption = prose(
        """Sequence by sequence: share of held-out sequences followed (entropy error below a tenth of what knowing the
        position alone leaves; a dash where position says it all), and quantiles of the entropy error (bits) over
        sequences."""
    )
    kinds, widths = "l" + "r" * (len(levels) + 1), (1.5, 1.4, *(0.8 for _ in levels))
    return Piece((Table(header, body, kinds, caption, name="followed", widths=widths),))


def _positions(record: Record, arm: str, kind: str) -> str:
    """Which positions a range holds, as far as the record says."""
    row = rows_with(record, "by_position", "position").get(arm) or {}
    end, last = row.get("trained_to"), max(row.get("position") or (0,))
    words = "trained" if kind == "in_range" else "beyond"
    if not end or end >= last:
        return words
    first, final = (min(row["position"]), end) if kind == "in_range" else (end + 1, last)
    return f"{words}, {first}\u00a0to\u00a0{final}"


def memories(record: Record) -> Piece | None:
    """Equivalent memory: the window whose filter has the model's KL."""
    rows = rows_with(record, "memory", "windows")
    if not rows:
        return None
    body = tuple(
        (text(named(record, arm)), text(number(row.get("kl_bits"))), text(_worth(row))) for arm, row in rows.items()
    )
    header = ((Msg("column.arm"),), text("KL (bits)"), text("equivalent memory (observations)"))
    caption = prose(
        "The length of the window whose filter lies as far from Bayes, interpolated in the logarithm of KL."
    )
    return Piece((Table(header, body, "lrr", caption, name="memory", widths=(1.6, 1, 1.4)),))
