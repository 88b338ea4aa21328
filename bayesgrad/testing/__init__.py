"""Tools for checking attention kernels: strategies, oracles, one tolerance policy, and the engine that uses them.

Needs the extra ``testing`` (PyTorch, Hypothesis, mpmath, pytest). docs/checks.md says how the tolerance is derived.
"""

from .engine import Check, Oracle, Reference, Tally, run
from .examples import Example, Head, Layer, Logits
from .profiles import PROFILES, Profile
from .strategies import heads, layers, logits
from .tolerance import compare, tolerance

__all__ = [
    "PROFILES",
    "Check",
    "Example",
    "Head",
    "Layer",
    "Logits",
    "Oracle",
    "Profile",
    "Reference",
    "Tally",
    "compare",
    "heads",
    "layers",
    "logits",
    "run",
    "tolerance",
]
