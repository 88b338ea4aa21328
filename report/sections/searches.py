"""What was tried for each arm before arms were compared: every setting, the best marked, the edge of a grid named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from report import document as doc
from report.document import Details, Emph, Msg, Table, Text, prose, text
from report.filters import number
from report.sections.pieces import Piece, Record
from report.sections.summary import anchor


def tuning(record: Record) -> Piece | None:
    """What was tried for each arm before the comparison, the best of it marked."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for row in record.get("tuning") or []:
        found.setdefault(row["arm"], {}).setdefault(_setting(record, row), []).append(row["held_out_kl_bits"])
    if not found:
        return None
    body = []
    for arm, tried in found.items():
        rows = sorted(tried.items(), key=lambda item: _order(item[0]))
        most = max(len(values) for _, values in rows)
        means = {setting: _mean(values) for setting, values in rows}
        full = [setting for setting, values in rows if len(values) == most and means[setting] is not None]
        best = min(full, key=lambda setting: means[setting] or 0.0, default=None)
        line: list[doc.Inline] = []
        for n, (setting, values) in enumerate(rows):
            shown = Text(f"{setting}: {_kl(means[setting])}" + (f" (n = {len(values)})" if len(values) < most else ""))
            line += [Text("; " if n else ""), Emph((shown,), strong=True) if setting == best else shown]
        edge = len(rows) > 1 and best in (rows[0][0], rows[-1][0])
        body.append((text(arm), tuple(line), text(number(most)), text("yes" if edge else "no")))
    header = ((Msg("column.arm"),), text("setting: held-out KL (bits)"), text("seeds"), text("best at the edge"))
    caption = prose(
        """Tuning at a fixed budget, on seeds of its own: mean held-out KL of every setting, the best in bold; a best
        setting at the edge of its grid might still be beaten beyond it."""
    )
    table = Table(header, tuple(body), "llrr", caption, name="tuning", widths=(1.3, 4, 0.6, 0.9))
    return Piece((Details((Msg("ui.tuning"),), (table,), name=f"{anchor(record)}-tuning"),))


def _kl(mean: float | None) -> str:
    return "diverged" if mean is None else number(mean)


def _mean(values: Sequence[float | None]) -> float | None:
    kept = [value for value in values if value is not None]
    return sum(kept) / len(kept) if kept else None


def _setting(record: Record, row: Mapping[str, Any]) -> str:
    """The part of an update that differs between the rows of its arm."""
    update = row["update"]
    if not isinstance(update, Mapping):
        return str(update)
    others = [other["update"] for other in record["tuning"] if other["arm"] == row["arm"]]
    differing = [key for key in update if any(other.get(key) != update[key] for other in others)] or ["rate"]
    return ", ".join(f"{key.replace('_', ' ')} {number(update.get(key))}" for key in differing)


def _order(setting: str) -> tuple[float, str]:
    for word in setting.replace(",", " ").split():
        try:
            return float(word.replace("−", "-")), setting
        except ValueError:
            continue
    return 0.0, setting
