"""The one form of evidence: what a route writes, when it still counts, and which statuses follow from it.

:mod:`~bayesgrad.evidence.store` holds paths, hashes, atomic writes and freshness; :mod:`~bayesgrad.evidence.shape` says
what a file must look like. No status is stored: :mod:`~bayesgrad.evidence.status`
computes them whenever evidence is read.

>>> ROUTES
('proof', 'exact', 'code', 'sympy', 'formal', 'check', 'code_mutants', 'observed')
"""

from bayesgrad.evidence.store import (
    FOLDER,
    HOW,
    ROOT,
    ROUTES,
    SCHEMA,
    BadEvidence,
    load,
    read,
    sha256,
    sources,
    versions,
    why_stale,
    write,
    write_bytes,
    write_json,
    write_whole,
)

__all__ = [
    "FOLDER",
    "HOW",
    "ROOT",
    "ROUTES",
    "SCHEMA",
    "BadEvidence",
    "load",
    "read",
    "sha256",
    "sources",
    "versions",
    "why_stale",
    "write",
    "write_bytes",
    "write_json",
    "write_whole",
]
