"""A headless Chromium without a network, and the page that it looks at.

The page is rendered from sample evidence; set ``BAYESGRAD_PAGE`` to the path of another page to look at that one.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests import _report_sample as sample
from tests._needed import needed

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-default-apps", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND",
]  # fmt: skip


def build(folder: Path) -> Path:
    """The whole report from sample evidence with sample records."""
    from report.__main__ import main

    record, *others = sample.write_records(folder)

    def change(found):
        sample.cell(found).update(record=str(record), verdict="supported", effect=1.0, unit="bits")
        for number, other in enumerate(others, 1):
            sample.cell(found, number)["record"] = str(other)
        found["formal"]["results"]["attention.routing-law"] = {
            "verdict": "proved", "reason": "", "seconds": 1.0, "rests_on": [],
            "detail": {
                "theorem": "t", "statement": "Theorem t : forall n, n = n.", "axioms": ["classic"], "file": "t.v",
            },
        }  # fmt: skip

    sample.write(folder / "evidence", change)
    assert main(["--fragments", str(folder / "evidence"), "--output", str(folder), "--quiet"]) == 0
    return folder / "index.html"


@pytest.fixture(scope="session")
def address(tmp_path_factory) -> str:
    given = os.environ.get("BAYESGRAD_PAGE")
    return (Path(given) if given else build(tmp_path_factory.mktemp("page"))).resolve().as_uri()


@pytest.fixture(scope="module")  # no longer: playwright keeps an event loop of its own running
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        needed(False, "playwright (pip install --group browser)")
    needed(CHROMIUM, "Chromium, found neither in the path nor in $CHROMIUM")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Watched:
    """A page with everything that it said or asked for."""

    def __init__(self, page):
        self.page, self.said, self.asked = page, [], []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))


@pytest.fixture
def open_page(browser, address):
    """``open_page(width=..., scheme=...)`` opens the report in a fresh profile and watches it."""
    contexts = []

    def open_it(width: int = 1280, height: int = 900, scheme: str = "light", anchor: str = "", **options):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            offline=True,
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        watched = Watched(context.new_page())
        watched.page.goto(address + anchor, wait_until="load")
        watched.page.evaluate("document.fonts.ready")
        return watched

    yield open_it
    for context in contexts:
        context.close()
