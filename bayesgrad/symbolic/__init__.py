"""The proof engine: a language of indexed sums and derivatives, rules, and the kernel that decides.

Only :mod:`bayesgrad.symbolic.proof` may say "proved". What a caller needs, SymPy in and SymPy out, is here: ``let``,
``derive``, ``prove``, ``read``, ``write``, ``Book``, ``Given``. It is imported when it is first asked for, since it
needs SymPy and python-flint (``pip install bayesgrad[symbolic]``).
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    **dict.fromkeys(("derive", "let", "open_book", "prove", "read", "the_book", "write"), "api"),
    "Book": "book",
    "Given": "statements",
    "LanguageError": "language",
    "TermError": "terms",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
