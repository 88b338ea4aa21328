"""A picture of the page's first screen, for README.md: ``python -m report.screenshot docs/report.png`` (by hand).

Needs what ``make browser`` fetches and a system Chromium; the report itself never imports this.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from bayesgrad.evidence import ROOT

PAGE = ROOT / "report" / "build" / "index.html"


def take(target: Path, *, page: Path = PAGE, width: int = 1280, height: int = 860, scheme: str = "light") -> None:
    """Write the first screen of ``page`` to ``target``."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        shown = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
        shown.goto(page.resolve().as_uri())
        shown.evaluate("document.fonts.ready")
        shown.screenshot(path=str(target))
        browser.close()


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not PAGE.exists():
        print("python -m report.screenshot: expected one target, and a page made by make report", file=sys.stderr)
        return 2
    take(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
