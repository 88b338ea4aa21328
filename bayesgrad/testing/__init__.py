"""Tools for checking attention kernels: strategies, oracles, one tolerance policy, and the engine that uses them.

Needs the extra ``testing``. ``python -m bayesgrad.testing`` and :func:`judge` judge an attention kernel (see
docs/judge.md), :mod:`bayesgrad.testing.plugin` does so in pytest. docs/checks.md says how the tolerance is derived.

Names are imported when they are first used, so that a plugin does not load PyTorch before pytest is ready.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "engine": ("Check", "Claim", "LawViolation", "Oracle", "Reference", "Tally", "run"),
    "examples": (
        "Clusters",
        "Example",
        "Head",
        "Layer",
        "Logits",
        "Mixture",
        "Moved",
        "Rate",
        "Stepped",
        "SteppedLayer",
    ),
    "models": ("Hmm", "Joint", "NoisyChain", "Pairs", "Sequences", "Simplex"),
    "corners": ("CORNERS", "Corner", "violations"),
    "kernels.blocks": ("Block",),
    "kernels.claims": ("Claims",),
    "kernels.judging": ("Court", "judge"),
    "kernels.ledger": ("Case", "Judgement"),
    "kernels.recipes": ("Recipe",),
    "plugin": ("each_case",),
    "strategies": ("heads", "hmms", "joints", "layers", "logits", "pairs", "sequences", "simplices"),
    "tolerance": ("compare", "tolerance"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """A public name, from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
