"""Draws that depend on the strategy and the seed alone: the same in every process, order of tests and checkout.

Hypothesis mixes constants that it finds in the source of whatever modules happen to be loaded into one draw in twenty.
That helps to find a bug once and makes a run no reproduction of itself: another test file in the same session changes
the draws. Here that source is closed while examples are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers


@contextmanager
def no_foreign_constants() -> Iterator[None]:
    """Without constants of loaded modules. A version of Hypothesis without this source of draws needs nothing."""
    original = getattr(providers, "_get_local_constants", None)
    if original is None:
        yield
        return
    empty = providers.Constants()
    providers._get_local_constants = lambda: empty
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        yield
    finally:
        providers._get_local_constants = original
        providers.CONSTANTS_CACHE.cache.clear()


def run_on_draws(
    judge: Callable[[Any], None], strategy: st.SearchStrategy, *, examples: int, seed: int, shrink: bool = True
) -> None:
    """Call ``judge`` on ``examples`` draws; what it raises comes from the smallest example that Hypothesis finds."""
    limits = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )

    def run(example: Any) -> None:
        judge(example)

    with no_foreign_constants():
        seeded(seed)(limits(given(strategy)(run)))()
