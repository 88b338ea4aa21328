"""Wind tunnels: models on tasks whose exact predictive is known, held against it position by position.

Entropy and KL(Bayes || model) by position, and the memory that a model's KL is worth; single sequences and calibration
are in :mod:`report.sections.sequences`. Beyond the trained range stands beside what lies within it, never pooled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from report import panels
from report.document import Figure, prose, text
from report.figures import Curve, lines
from report.filters import number
from report.sections.pieces import (
    Piece,
    Record,
    agree,
    alike,
    named,
    numbered,
    rounded,
    rows_with,
    slot,
    together,
)
from report.sections.summary import anchor

POSITION = "position $t$"
ROUNDING = 1e-9  # bits; a divergence below this is rounding


def by_position(record: Record) -> list[dict[str, Mapping[str, Any]]]:
    """Arms by position, in groups that share the exact entropies."""
    rows = rows_with(record, "by_position", "position")
    for arm, row in rows.items():
        lists = {name: row[name] for name in ("exact_entropy_bits", "model_entropy_bits", "kl_bits")}
        agree(record, f"by_position of {arm}", row["position"], **lists)
    return [{arm: rows[arm] for arm in group} for group in alike(rows, ("position", "exact_entropy_bits"))]


def _ranges(group: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, float]]:
    """Where the trained range ends, if positions go beyond it."""
    ends = {row["trained_to"] for row in group.values() if row.get("trained_to")}
    last = max(next(iter(group.values()))["position"])
    return [("trained", "beyond", end + 0.5) for end in sorted(ends) if end < last]


def _beyond(group: Mapping[str, Mapping[str, Any]]) -> str:
    return " Right of the dashed line positions lie beyond the trained range." if _ranges(group) else ""


def entropy(record: Record) -> Piece | None:
    """The model's entropy against the exact one, by position."""
    groups = by_position(record)
    return together([_entropy(record, *each) for each in zip(_names(record, "entropy", groups), groups, strict=True)])


def _names(record: Record, kind: str, groups: Sequence[Any]) -> list[str]:
    return numbered(f"{anchor(record)}-{kind}", len(groups))


def _entropy(record: Record, name: str, group: Mapping[str, Mapping[str, Any]]) -> Piece:
    first = next(iter(group.values()))
    curves = [Curve("exact (Bayes)", first["position"], first["exact_entropy_bits"], kind="exact")]
    curves += [
        Curve(named(record, arm), row["position"], row["model_entropy_bits"], slot=slot(record, arm))
        for arm, row in group.items()
    ]
    floors = [("uniform output", first["uniform_bits"])] if first.get("uniform_bits") else []
    drawing = lines(curves, x=POSITION, y="entropy of the prediction (bits)", floors=floors, marks=_ranges(group))
    caption = prose(
        r"""Entropy of the prediction by position, mean over held-out sequences, in bits. The broad pale line is Bayes:
        a model that computes the exact predictive lies on it. Equal entropies are necessary, not sufficient; the
        divergence is what counts."""
    ) + text(_beyond(group))
    far = (
        f"{named(record, arm)} at most {number(max(row['entropy_mae_bits']), 2)} bits away at any position"
        for arm, row in group.items()
        if row.get("entropy_mae_bits")
    )
    alternative = (
        f"Entropy by position. Exact: {number(first['exact_entropy_bits'][0])} bits at position "
        f"{first['position'][0]}, {number(first['exact_entropy_bits'][-1])} bits at position {first['position'][-1]}. "
        + "; ".join(far)
    )
    shown = {
        arm: {key: row[key] for key in ("position", "exact_entropy_bits", "model_entropy_bits")}
        for arm, row in group.items()
    }
    return Piece((Figure(name, caption, alternative, rounded(shown)),), {name: drawing})


def divergence(record: Record) -> Piece | None:
    """KL(Bayes || model) by position with the floors, on a logarithmic axis."""
    groups = by_position(record)
    return together([_divergence(record, *each) for each in zip(_names(record, "kl", groups), groups, strict=True)])


def _divergence(record: Record, name: str, group: Mapping[str, Mapping[str, Any]]) -> Piece | None:
    def shown(values: Sequence[float | None]) -> list[float | None]:
        return [value if value is not None and value > ROUNDING else None for value in values]

    floors: Mapping[str, Any] = next((row["floors"] for row in group.values() if row.get("floors")), {})
    first = next(iter(group.values()))
    curves = [
        Curve(named(record, arm), row["position"], shown(row["kl_bits"]), slot=slot(record, arm))
        for arm, row in group.items()
    ]
    for floor, values in floors.items():
        if any(shown(values.get("kl_bits") or ())):
            agree(record, f"floor {floor}", first["position"], kl_bits=values["kl_bits"])
            curves.append(Curve(floor, first["position"], shown(values["kl_bits"]), kind="floor"))
    if not any(value for curve in curves for value in curve.y):
        return None
    drawing = lines(curves, x=POSITION, y="KL(Bayes ∥ model) (bits)", marks=_ranges(group), log="y")
    caption = prose(
        r"""Divergence of the model from the exact predictive by position, KL(Bayes ∥ model) in bits, logarithmic: what
        the model pays in cross-entropy beyond the unavoidable. Thin dotted and dashed: floors, reached without learning
        anything or with a short memory."""
    ) + text(_beyond(group))
    ends = (
        f"{named(record, arm)} from {number(min(filter(None, row['kl_bits']), default=None), 2)} to "
        f"{number(max(filter(None, row['kl_bits']), default=None), 2)} bits"
        for arm, row in group.items()
    )
    data = {arm: {"position": row["position"], "kl_bits": row["kl_bits"]} for arm, row in group.items()}
    data["floors"] = {floor: values["kl_bits"] for floor, values in floors.items() if values.get("kl_bits")}
    alternative = "KL from the exact predictive by position. " + "; ".join(ends)
    return Piece((Figure(name, caption, alternative, rounded(data)),), {name: drawing})


def memory(record: Record) -> Piece | None:
    """KL against the length of a filter's window: the memory that a model's KL is worth."""
    rows = rows_with(record, "memory", "windows")
    for arm, row in rows.items():
        agree(record, f"memory of {arm}", row["windows"], window_kl_bits=row["window_kl_bits"])
    groups = [{arm: rows[arm] for arm in group} for group in alike(rows, ("windows", "window_kl_bits"), tolerance=0.1)]
    return together([_memory(record, *each) for each in zip(_names(record, "memory", groups), groups, strict=True)])


def _memory(record: Record, name: str, group: Mapping[str, Mapping[str, Any]]) -> Piece:
    first = next(iter(group.values()))
    models = [
        (
            named(record, arm),
            slot(record, arm),
            row["kl_bits"],
            None if row.get("at_least") else row["equivalent_memory"],
        )
        for arm, row in group.items()
        if row.get("kl_bits")
    ]
    drawing = panels.memory(
        first["windows"],
        first["window_kl_bits"],
        models,
        x="length of the window (observations)",
        y="KL(Bayes ∥ model) (bits)",
        reference="filter with a short window",
    )
    caption = prose(
        r"""Divergence from the exact predictive (bits, logarithmic) of filters that see only the last observations,
        against their number, and of the models. Where a model's line meets the filters it drops to its *equivalent
        memory*; a line across the whole width is better than the longest of them."""
    )
    worth = "; ".join(f"{named(record, arm)}: {equivalent(row)} observations" for arm, row in group.items())
    alternative = f"KL of window filters and of models; equivalent memory of {worth}"
    return Piece((Figure(name, caption, alternative, rounded(dict(group))),), {name: drawing})


def equivalent(row: Mapping[str, Any]) -> str:
    """Equivalent memory in words of a table: what the longest window does not bound is "at least"."""
    if row.get("equivalent_memory") is None:
        return "–"
    shown = number(float(row["equivalent_memory"]), 2)
    return f"at least {shown}" if row.get("at_least") else shown
