"""Wind tunnels, without averages: single sequences token by token, and every pair of probabilities.

Averaging entropies before they are compared hides errors of opposite sign; here nothing is averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from report import panels
from report.document import Details, Figure, Line, Msg, prose
from report.filters import number
from report.panels import Strip
from report.sections.pieces import Piece, Record, agree, named, rounded, rows_with, slot, together, trained
from report.sections.summary import anchor

SEQUENCES = 4
CROWD = 25
PANELS = 4


def traces(record: Record) -> Piece | None:
    """Single sequences: several of the arm that lies closest to Bayes where sequences differ, the first one of every
    other arm."""
    found = record.get("traces")
    rows = {arm: list(row)[:SEQUENCES] for arm, row in found.items() if row} if isinstance(found, Mapping) else {}
    if not rows:
        return None
    for arm, sequences in rows.items():
        for row in sequences:
            lists = {name: row[name] for name in ("exact_entropy_bits", "model_entropy_bits")}
            agree(record, f"traces of {arm}", row["position"], **lists)
    best = min(rows, key=lambda arm: (not _differ(rows[arm]), not trained(record, arm), _mean_kl(rows[arm])))
    own = [(f"sequence {n}", best, row) for n, row in enumerate(rows[best], 1)]
    others = [(named(record, arm), arm, sequences[0]) for arm, sequences in rows.items() if arm != best]
    caption = prose(
        r"""Single held-out sequences, {arm}: entropy in bits, token by token, of the exact predictive (line) and of the
        model (marks). Averages cannot show this: errors of opposite sign would cancel.""",
        arm=named(record, best),
    )
    pieces = [_traces(record, f"{anchor(record)}-sequences", own, caption)]
    if others:
        caption = prose("The first of these sequences, or one like it, as every other arm sees it.")
        told = _traces(record, f"{anchor(record)}-sequences-of-others", others, caption, crowd=CROWD)
        pieces.append(Piece((Details((Msg("ui.others"),), told.blocks),), told.drawings))
    return together(pieces)


def _differ(sequences: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the exact entropies depend on the sequence; where they do not, following them means little."""
    first, *others = (row["exact_entropy_bits"] for row in sequences)
    return any(abs(a - b) > 1e-6 for other in others for a, b in zip(first, other, strict=False))


def _mean_kl(sequences: Sequence[Mapping[str, Any]]) -> float:
    values = [value for row in sequences for value in row.get("kl_bits") or () if value is not None]
    return sum(values) / len(values) if values else float("inf")


def _traces(
    record: Record, name: str, told: Sequence[tuple[str, str, Mapping[str, Any]]], caption: Any, crowd: int = 1000
) -> Piece:
    """Panels side by side; a sequence of more than ``crowd`` positions has a mark at every second one."""
    top = 1.05 * max(
        value
        for _, _, row in told
        for key in ("exact_entropy_bits", "model_entropy_bits")
        for value in row[key]
        if value is not None
    )
    ends = {
        arm: row["trained_to"]
        for arm, row in rows_with(record, "by_position", "position").items()
        if "trained_to" in row
    }
    strip = Strip(
        tuple(
            panels.sequence(
                title,
                row["position"],
                row["exact_entropy_bits"],
                row["model_entropy_bits"],
                slot=slot(record, arm),
                y="entropy (bits)",
                top=top,
                every=1 + (len(row["position"]) > crowd),
                marks=[ends[arm] + 0.5] if arm in ends and ends[arm] < max(row["position"]) else (),
            )
            for title, arm, row in told
        )
    )
    far = (f"{title}: at most {number(_largest_gap(row), 2)} bits apart" for title, _, row in told)
    data = {
        title: {key: row[key] for key in ("position", "exact_entropy_bits", "model_entropy_bits")}
        for title, _, row in told
    }
    alternative = "Entropy token by token, model against exact. " + "; ".join(far)
    return Piece((Figure(name, caption, alternative, rounded(data, 4)),), {name: strip})


def _largest_gap(row: Mapping[str, Any]) -> float | None:
    pairs = zip(row["exact_entropy_bits"], row["model_entropy_bits"], strict=True)
    return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=None)


def calibration(record: Record) -> Piece | None:
    """Model probabilities against exact ones, as histograms on a common logarithmic scale."""
    rows = rows_with(record, "calibration", "counts")
    if not rows:
        return None
    for arm, row in rows.items():
        bins = row["edges"][1:]
        agree(record, f"calibration of {arm}", bins, counts=row["counts"])
        for line in row["counts"]:
            agree(record, f"calibration of {arm}", bins, counts=line)
    limit = max(panels.counts_limit(row["counts"]) for row in rows.values())
    first = [arm for arm in rows if trained(record, arm)][:PANELS] or list(rows)[:PANELS]
    caption = prose(
        r"""Probability that the model gives an outcome against its exact probability, over all held-out positions and
        outcomes. Strength is the number of pairs on a logarithmic scale; on the dashed diagonal the two agree."""
    )
    name = f"{anchor(record)}-calibration"
    told = _calibration(record, name, {arm: rows[arm] for arm in first}, limit, caption)
    others = {arm: row for arm, row in rows.items() if arm not in first}
    if not others:
        return told
    more = _calibration(record, f"{name}-of-others", others, limit, prose("Calibration of the other arms."))
    return together([told, Piece((Details((Msg("ui.others"),), more.blocks),), more.drawings)])


def _calibration(
    record: Record, name: str, rows: Mapping[str, Mapping[str, Any]], limit: float, caption: Line
) -> Piece:
    x, y = "exact probability", "probability of the model"
    strip = Strip(
        tuple(
            panels.calibration(named(record, arm), row["edges"], row["counts"], limit=limit, x=x, y=y)
            for arm, row in rows.items()
        )
    )
    near = (
        f"{named(record, arm)}: {number(100 * _on_diagonal(row['counts']), 3)} % of the pairs"
        for arm, row in rows.items()
    )
    lies = "Histograms of model against exact probability. In the bins of the diagonal lie, for "
    return Piece((Figure(name, caption, lies + "; ".join(near), dict(rows)),), {name: strip})


def _on_diagonal(counts: Sequence[Sequence[float]]) -> float:
    total = sum(map(sum, counts))
    return sum(row[n] for n, row in enumerate(counts)) / total if total else 0.0
