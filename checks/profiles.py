"""How many examples a check draws: quick while working, ci before a merge, thorough over a night."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """``examples``: draws a check; ``least``: the non-vacuous ones among them that there must be.

    Slow witnesses (the statement on arrays, differences of whole layers) look at one example in ``sparing``.
    ``mutants``: whether the hunt for mutants of the code is part of it; ``everywhere``: whether the functions are
    called in every array library and every precision, not in the common ones only. ``keep``: whether an interrupted run
    keeps what it has found.
    """

    name: str
    examples: int
    least: int
    sparing: int = 1
    mutants: bool = False
    everywhere: bool = False
    keep: bool = False


PROFILES = {
    "quick": Profile("quick", 216, 200, 4),
    "ci": Profile("ci", 648, 600, 4, mutants=True),
    "thorough": Profile("thorough", 21600, 20000, 16, mutants=True, everywhere=True, keep=True),
}
