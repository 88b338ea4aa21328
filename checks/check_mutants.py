"""Code mutants of the core against these checks. In the profiles ci and thorough; quick shows the last result."""

from __future__ import annotations

import time

from checks.mutation import mutants


def check_automatic_mutants() -> None:
    """At least 95% of all mutants are killed or explained as equivalent; the survivors are listed with the ledger."""
    began, sources = time.perf_counter(), mutants.sources()
    data = mutants.write(mutants.hunt(), time.perf_counter() - began, sources)
    assert mutants.enough(data), "\n".join(mutants.summary(data))
