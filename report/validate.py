"""Evidence against its schema: valid, or one sentence that says where it is not."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from bayesgrad.evidence import BadEvidence

SCHEMA = Path(__file__).with_name("evidence.schema.json")


@lru_cache(maxsize=1)
def validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def validate(evidence: Any) -> None:
    """Raise :class:`BadEvidence` unless the schema accepts ``evidence``."""
    found = evidence.get("schema") if isinstance(evidence, dict) else type(evidence).__name__
    if found != 1:
        raise BadEvidence(f"evidence: schema {found!r}, expected 1; delete report/build and run the routes again")
    error = best_match(validator().iter_errors(evidence))
    if error is not None:
        where = "/".join(str(part) for part in error.absolute_path) or "the top level"
        message = error.message if len(error.message) < 300 else error.message[:300] + " ..."
        raise BadEvidence(f"evidence: {where}: {message}; run the route that wrote it again")
