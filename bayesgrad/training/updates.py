"""The update rule that a configuration describes: one row of a table for each kind."""

from __future__ import annotations

from typing import Any

from bayesgrad.training.config import SGD, AdamW, Alternating, Muon, Natural
from bayesgrad.training.muon import MuonRule
from bayesgrad.training.update_rules import AdamWRule, AlternatingRule, GradientDescent, NaturalRouting, Update

RULES: dict[type, Any] = {
    SGD: GradientDescent,
    AdamW: AdamWRule,
    Natural: NaturalRouting,
    Alternating: AlternatingRule,
    Muon: MuonRule,
}


def make_update(config: Any, steps: int = 0) -> Update:
    """The rule that ``config`` describes, for a run of ``steps`` steps (schedules need the end)."""
    rule: Update = RULES[type(config)](config, steps)
    return rule
