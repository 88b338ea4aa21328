"""Wind tunnels: models on tasks whose exact predictive is known, compared with it position by position.

Entropy and KL(Bayes || model) by position, and the memory that a model's KL is worth; single sequences and calibration
are in :mod:`report.sections.single_sequences`. What lies beyond the trained range stands beside what lies within it,
never pooled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from report import panels
from report.document import prose, text
from report.draw import Canvas
from report.figures import Curve, lines
from report.filters import number
from report.sections.pieces import (
    Piece,
    Record,
    agree,
    alike,
    named,
    panel,
    plates,
    rows_with,
    slot,
)
from report.sections.summary import anchor

POSITION = "position $t$"
ROUNDING = 1e-9  # bits; a divergence below this is rounding

MEMORY = "equivalent_memory"
EXACT, MODEL, KL = "exact_entropy_bits", "model_entropy_bits", "kl_bits"

Row = Mapping[str, Any]


def by_position(record: Record) -> dict[str, Row]:
    """The arms' curves over positions, each list as long as its positions. Raises BadRecord."""
    rows = rows_with(record, "by_position", "position")
    for arm, row in rows.items():
        lists = {name: row[name] for name in (EXACT, MODEL, KL)}
        agree(record, f"by_position of {arm}", row["position"], **lists)
        for floor, values in (row.get("floors") or {}).items():
            agree(record, f"floor {floor} of {arm}", row["position"], **{k: v for k, v in values.items() if v})
    return rows


def groups(rows: Mapping[str, Row]) -> list[list[str]]:
    """Arms that share positions and exact entropies."""
    return alike(rows, ("position", EXACT))


def ends(rows: Mapping[str, Row], arms: Sequence[str]) -> list[tuple[str, str, float]]:
    """Where the trained range ends, if positions go beyond it."""
    last = max(rows[arms[0]]["position"])
    found = sorted({rows[arm]["trained_to"] for arm in arms if rows[arm].get("trained_to")})
    return [("trained", "beyond", end + 0.5) for end in found if end < last]


def _called(record: Record, arm: str, narrow: bool) -> str:
    """An arm in a legend; a small figure has its name as the title."""
    return "model" if narrow else named(record, arm)


def _beyond(rows: Mapping[str, Row]) -> str:
    beyond = any(ends(rows, [arm]) for arm in rows)
    return " Right of the dashed line positions lie beyond the trained range." if beyond else ""


def entropy(record: Record) -> Piece | None:
    """The model's entropy against the exact one, by position."""
    rows = by_position(record)

    def draw(arms: Sequence[str], narrow: bool) -> Canvas:
        first = rows[arms[0]]
        curves = [Curve("exact (Bayes)", first["position"], first[EXACT], kind="exact")]
        curves += [
            Curve(_called(record, arm, narrow), rows[arm]["position"], rows[arm][MODEL], slot=slot(record, arm))
            for arm in arms
        ]
        return lines(
            curves,
            x=POSITION,
            y="entropy (bits)" if narrow else "entropy of the prediction (bits)",
            floors=[("uniform output", first["uniform_bits"])] if first.get("uniform_bits") else [],
            marks=ends(rows, arms),
            **panel(record, arms, narrow),
        )

    def alternative(arms: Sequence[str]) -> str:
        exact, at = rows[arms[0]][EXACT], rows[arms[0]]["position"]
        far = (
            f"{named(record, arm)} at most {number(max(rows[arm]['entropy_mae_bits']), 2)} bits away at any position"
            for arm in arms
            if rows[arm].get("entropy_mae_bits")
        )
        ends = f"{number(exact[0])} bits at position {at[0]}, {number(exact[-1])} bits at position {at[-1]}"
        return f"Entropy by position. Exact: {ends}. " + "; ".join(far)

    caption = prose(
        r"""Entropy of the prediction by position, mean over held-out sequences, in bits. The broad pale line is Bayes:
        a model that computes the exact predictive lies on it. Equal entropies are necessary, not sufficient; the
        divergence is what counts."""
    ) + text(_beyond(rows))
    keys = ("position", EXACT, MODEL)
    return plates(
        f"{anchor(record)}-entropy",
        groups(rows),
        draw,
        caption=caption,
        alternative=alternative,
        data=lambda arms: {arm: {key: rows[arm][key] for key in keys} for arm in arms},
    )


def _floors(rows: Mapping[str, Row], arms: Sequence[str]) -> dict[str, Sequence[float | None]]:
    """The floors' divergences by position, of the first arm that has them."""
    found: Mapping[str, Any] = next((rows[arm]["floors"] for arm in arms if rows[arm].get("floors")), {})
    shown = {floor: _shown(values.get(KL) or ()) for floor, values in found.items()}
    return {floor: values for floor, values in shown.items() if any(values)}


def _shown(values: Sequence[float | None]) -> list[float | None]:
    return [value if value is not None and value > ROUNDING else None for value in values]


def divergence(record: Record) -> Piece | None:
    """KL(Bayes || model) by position with the floors, on a logarithmic axis."""
    rows = {arm: row for arm, row in by_position(record).items() if any(_shown(row[KL]))}

    def draw(arms: Sequence[str], narrow: bool) -> Canvas:
        curves = [
            Curve(_called(record, arm, narrow), rows[arm]["position"], _shown(rows[arm][KL]), slot=slot(record, arm))
            for arm in arms
        ]
        at = rows[arms[0]]["position"]
        curves += [Curve(floor, at, values, kind="floor") for floor, values in _floors(rows, arms).items()]
        size = panel(record, arms, narrow)
        return lines(curves, x=POSITION, y="KL(Bayes ∥ model) (bits)", marks=ends(rows, arms), log="y", **size)

    def alternative(arms: Sequence[str]) -> str:
        told = []
        for arm in arms:
            values = [value for value in _shown(rows[arm][KL]) if value]
            told.append(f"{named(record, arm)} from {number(min(values), 2)} to {number(max(values), 2)} bits")
        return "KL from the exact predictive by position. " + "; ".join(told)

    def data(arms: Sequence[str]) -> Mapping[str, Any]:
        own = {arm: {"position": rows[arm]["position"], KL: rows[arm][KL]} for arm in arms}
        return {**own, "floors": _floors(rows, arms)}

    caption = prose(
        r"""Divergence of the model from the exact predictive by position, KL(Bayes ∥ model) in bits, logarithmic: what
        the model pays in cross-entropy beyond the unavoidable. Thin dotted and dashed: floors, reached without learning
        anything or with a short memory."""
    ) + text(_beyond(rows))
    return plates(
        f"{anchor(record)}-kl", groups(rows), draw, caption=caption, alternative=alternative, data=data
    )  # fmt: skip


def memory(record: Record) -> Piece | None:
    """KL against the length of a filter's window: the memory that a model's KL is worth."""
    rows = rows_with(record, "memory", "windows")
    for arm, row in rows.items():
        agree(record, f"memory of {arm}", row["windows"], window_kl_bits=row["window_kl_bits"])
    stationary = any(row.get("stationary_kl_bits") for row in rows.values())

    def draw(arms: Sequence[str], narrow: bool) -> Canvas:
        first = rows[arms[0]]
        windows, levels = list(first["windows"]), list(first["window_kl_bits"])
        if first.get("stationary_kl_bits"):
            windows, levels = [0, *windows], [first["stationary_kl_bits"], *levels]
        models = [
            (_called(record, arm, narrow), slot(record, arm), row[KL], None if _unbounded(row) else row[MEMORY])
            for arm in arms
            if (row := rows[arm]).get(KL)
        ]
        return panels.memory(
            windows,
            levels,
            models,
            x="length of the window (observations)",
            y="KL(Bayes ∥ model) (bits)",
            reference="filter with a short window",
            **panel(record, arms, narrow),
        )

    def alternative(arms: Sequence[str]) -> str:
        worth = "; ".join(f"{named(record, arm)}: {equivalent(rows[arm])} observations" for arm in arms)
        return f"KL of window filters and of models; equivalent memory of {worth}"

    caption = prose(
        r"""Divergence from the exact predictive (bits, logarithmic) of filters that see only the last observations,
        against their number, and of the models. Where a model's line meets the filters it drops to its *equivalent
        memory*; a line across the whole width meets none of them."""
    ) + text(" At 0: the stationary distribution, which sees no observation." if stationary else "")
    return plates(
        f"{anchor(record)}-memory",
        alike(rows, ("windows", "window_kl_bits"), tolerance=0.1),
        draw,
        caption=caption,
        alternative=alternative,
        data=lambda arms: {arm: rows[arm] for arm in arms},
    )


def _unbounded(row: Row) -> bool:
    return bool(row.get("at_least")) or row.get("relation") == "<=" or row.get(MEMORY) is None


def equivalent(row: Row) -> str:
    """Equivalent memory in words of a table: what no window bounds is "at least" or "at most"."""
    if row.get(MEMORY) is None:
        return "–"
    shown = number(float(row[MEMORY]), 2)
    bound = "at least " if row.get("at_least") else "at most " if row.get("relation") == "<=" else ""
    return bound + shown
