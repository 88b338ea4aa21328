"""When parts of a model settle: distances of attention, values and read-out to their final state along training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from report import document as doc
from report.document import Figure, prose, text
from report.draw import Canvas
from report.figures import Curve, lines
from report.filters import number
from report.frames import NARROW, plain
from report.panels import Strip
from report.sections.pieces import Piece, Record, rounded, rows_with
from report.sections.summary import anchor
from report.sections.tables import estimate

PARTS = {"attention": "attention", "values": "values", "read_out": "read-out", "kl_bits": "KL from Bayes"}


def stability(record: Record) -> Piece | None:
    """How far attention, values and read-out still are from their final state, along training; when they settle."""
    rows = rows_with(record, "stability", "distance")
    if not rows:
        return None
    strip = Strip(tuple(_settling(arm, row) for arm, row in rows.items()))
    caption = prose(
        r"""Distance to the final state along training, each relative to its start: attention (mean total variation of
        its rows), values (relative norm), read-out (principal angles), and the divergence from Bayes. A part has
        settled once it stays below a tenth."""
    )
    name = f"{anchor(record)}-stability"
    settled = "; ".join(
        f"{arm}: " + ", ".join(f"{PARTS.get(p, p)} {number(v['mean'])}" for p, v in row.get("settled_at", {}).items())
        for arm, row in rows.items()
    )
    alternative = f"Distance to the final state along training. Settled after this fraction of training: {settled}"
    data = {arm: {key: row[key] for key in ("step", "distance", "kl_bits") if key in row} for arm, row in rows.items()}
    blocks: list[doc.Block] = [Figure(name, caption, alternative, rounded(data))]
    blocks.append(_settled(rows))
    return Piece(tuple(blocks), {name: strip})


def _settling(arm: str, row: Mapping[str, Any]) -> Canvas:
    end = row["step"][-1] or 1
    share = [step / end for step in row["step"]]
    told = {**row["distance"], **({"kl_bits": row["kl_bits"]} if row.get("kl_bits") else {})}
    curves = [
        Curve(PARTS.get(part, part), share, [value / values[0] for value in values], slot=n)
        for n, (part, values) in enumerate(told.items())
        if values and values[0]
    ]
    top = max(1.0, *(value for curve in curves for value in curve.y if value is not None))
    return lines(
        curves,
        x="fraction of training",
        y="distance / distance at the start",
        width=NARROW,
        title=plain(arm, 38),
        floors=[("a tenth", 0.1)],
        y_range=(0.0, top),
    )


def _settled(rows: Mapping[str, Mapping[str, Any]]) -> doc.Table:
    parts = list(dict.fromkeys(part for row in rows.values() for part in row.get("settled_at", {})))
    body = tuple(
        (
            text(arm),
            *(estimate(row["settled_at"][part]) if part in row["settled_at"] else text("–") for part in parts),
            estimate(row["attention_entropy_at_end"]) if "attention_entropy_at_end" in row else text("–"),
        )
        for arm, row in rows.items()
        if "settled_at" in row
    )
    header = (text("task"), *(text(PARTS.get(part, part)) for part in parts), text("attention entropy at the end"))
    caption = prose(
        """Fraction of training after which a part stays within a tenth of its first distance, with bootstrap 95%
        interval; attention entropy as a share of that of uniform attention: near 1 no routing has formed."""
    )
    return doc.Table(header, body, "l" + "r" * (len(parts) + 1), caption, name="settled")
