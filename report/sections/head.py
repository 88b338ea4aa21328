"""A small attention head that a reader can drag."""

from __future__ import annotations

from report.context import Context
from report.document import Msg, Para, Section


def build(context: Context) -> Section:
    return Section("play", (Msg("heading.head"),), (Para((Msg("summary.play"),), kind="lead"),))
