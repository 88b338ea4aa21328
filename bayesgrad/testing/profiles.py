"""How many examples a check draws: quick while working, ci before a merge, thorough over a night."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """``examples``: draws a check; ``least``: the non-vacuous ones among them that there must be."""

    name: str
    examples: int
    least: int


PROFILES = {
    "quick": Profile("quick", 216, 200),
    "ci": Profile("ci", 1024, 800),
    "thorough": Profile("thorough", 25600, 20000),
}
