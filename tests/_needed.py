"""Programs that a test needs and a reader's machine may lack: there it shows as not run, in CI it is a failure."""

from __future__ import annotations

import os
from typing import Any

import pytest


def needed(found: Any, what: str) -> None:
    """Go on if ``found`` is true; otherwise skip with a sentence, or fail where CI=true says that all is installed."""
    if found:
        return
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"CI installs everything, but this is missing: {what}", pytrace=False)
    pytest.skip(f"not run, missing: {what}")
