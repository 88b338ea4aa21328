"""The table of the results that are established by listing every case, and the decorator that enters a listing.

It stands apart from the listings and from the route that asks for them, so that neither has to import the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Listing = Callable[[], tuple[str, str, dict[str, Any]]]  # verdict, reason, detail
LISTINGS: dict[str, Listing] = {}


def exact(label: str) -> Callable[[Listing], Listing]:
    """Enter a function that establishes a label by enumeration in exact rationals."""

    def enter(listing: Listing) -> Listing:
        if label in LISTINGS:
            raise ValueError(f"exact: {label} has an enumeration already, in {LISTINGS[label].__module__}")
        LISTINGS[label] = listing
        return listing

    return enter
