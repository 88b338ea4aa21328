"""Whether a run asked everything that there is to ask: the one condition under which it may become evidence.

It did if every check of the list ran to its end, none was skipped or expected to fail, none stands in the files that is
not in the list, each label of the catalogue has been looked at, and code and configuration are those of the checkout.
Whatever is missing is a sentence; a run with such a sentence leaves the evidence as it was, and fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import bayesgrad
from bayesgrad.evidence import ROOT
from bayesgrad.theorems import THEOREMS
from checks import inventory
from checks.profiles import Profile

REQUIRED = tuple(theorem.label for theorem in THEOREMS if theorem.routes["check"] == "required")
"""The labels that need a check."""

STRICTER = ("strict_markers=true", "strict_config=true")
"""What pytest makes of the options --strict-markers and --strict-config, which stand in the configuration."""


def few(names: Iterable[str]) -> str:
    """The first of some names, and how many more there are."""
    ordered = sorted(names)
    return ordered[0] + (f" and {len(ordered) - 1} more" if len(ordered) > 1 else "")


def missing(
    outcomes: Mapping[str, str],
    collected: Iterable[str],
    labels: Iterable[str],
    profile: Profile,
    listed: Mapping[str, str] | None = None,
    defined: Iterable[str] | None = None,
) -> list[str]:
    """What a run left out, one sentence each; nothing for a complete one.

    ``outcomes``: node id -> "passed", "failed" or any other word for a check that ran; ``collected``: all node ids
    before options took some away; ``labels``: those that a tally was made for; ``listed`` and ``defined``: what the
    inventory and the files say (by default those of this checkout).
    """
    listed = inventory.read() if listed is None else listed
    defined = inventory.defined() if defined is None else set(defined)
    wanted = inventory.expected(listed, profile)
    gone = {node for node in listed if inventory.function_of(node) not in defined}
    strangers = {node for node in {*collected, *outcomes} if node not in listed}
    known = {inventory.function_of(node) for node in listed}
    strangers |= {name for name in defined if name not in known and not any(s.startswith(name) for s in strangers)}
    absent = wanted - set(outcomes) - gone
    found = []
    if gone:
        found.append(f"no longer there: {few(gone)}; if that is meant, {inventory.HOW}")
    if strangers:
        found.append(f"not in the list of checks: {few(strangers)}; {inventory.HOW} adds it")
    if absent:
        found.append(f"{len(absent)} of {len(wanted)} checks did not run: {few(absent)}")
    for word in sorted(set(outcomes.values()) - {"passed", "failed"}):
        found.append(f"{word}: {few(node for node, outcome in outcomes.items() if outcome == word)}")
    unseen = set(REQUIRED) - set(labels)
    unknown = set(labels) - {theorem.label for theorem in THEOREMS}
    if unseen and not absent and not gone:
        found.append(f"labels that no check looked at: {few(unseen)}")
    if unknown:
        found.append(f"labels that the catalogue lacks: {few(unknown)}")
    return found


def foreign(config: pytest.Config, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What in this run is not that of the checkout: its configuration, its code, or what the code was at the start."""
    found = []
    if config.inipath is None or config.inipath.resolve() != (ROOT / "pyproject.toml").resolve():
        found.append(f"pytest's configuration is {config.inipath}, expected {ROOT / 'pyproject.toml'}")
    changed = [f"-o {value}" for value in config.getoption("override_ini", None) or () if value not in STRICTER]
    changed += [f"-W {value}" for value in config.getoption("pythonwarnings", None) or ()]
    if changed:
        found.append(f"options change the configuration: {', '.join(changed)}")
    if not __debug__:
        found.append("Python runs without assertions (-O)")
    home = Path(bayesgrad.__file__).resolve().parents[1]
    if home != ROOT:
        found.append(f"bayesgrad comes from {home}, expected {ROOT}")
    edited = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    if edited:
        found.append(f"changed while the checks ran: {few(edited)}")
    return found
