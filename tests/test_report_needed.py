"""A missing program is a sentence on a reader's machine and a failure in CI."""

from __future__ import annotations

import pytest

from tests._needed import needed


@pytest.mark.parametrize("ci", ["true", "True"])
def test_in_ci_it_fails(monkeypatch, ci):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(pytest.fail.Exception, match="a browser"):
        needed(None, "a browser")


@pytest.mark.parametrize("ci", ["", "false", None])
def test_elsewhere_it_is_not_run(monkeypatch, ci):
    monkeypatch.delenv("CI", raising=False)
    if ci is not None:
        monkeypatch.setenv("CI", ci)
    with pytest.raises(pytest.skip.Exception, match="not run, missing: a browser"):
        needed(None, "a browser")


def test_what_is_there_is_fine(monkeypatch):
    monkeypatch.setenv("CI", "true")
    needed("/usr/bin/chromium", "a browser")
