"""What rests on what: the graph of uses."""

from __future__ import annotations

from report.context import Context
from report.document import Msg, Para, Section


def build(context: Context) -> Section:
    return Section("graph", (Msg("heading.graph"),), (Para((Msg("summary.graph"),), kind="lead"),))
