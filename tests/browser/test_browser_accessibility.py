"""axe-core with its default rules: nothing serious, in light and in dark, folded and unfolded, wide and narrow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests._needed import needed

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.parametrize(
    ("scheme", "unfolded", "width"),
    [("light", False, 1280), ("light", True, 1280), ("dark", True, 1280), ("light", True, 360)],
)
def test_axe_finds_nothing_serious(open_page, scheme, unfolded, width):
    needed(AXE.exists(), "axe-core (npm ci --prefix tests/browser)")
    page = open_page(scheme=scheme, width=width).page
    if unfolded:
        page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    serious = [
        f"{rule['id']} ({rule['impact']}): {rule['help']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"][:3]
    ]
    assert serious == []
    assert found["passes"] is not None
    assert found["testEngine"]["version"]


def test_axe_sees_a_fault(open_page):
    """The rules can fail: an image without a name, a button without a word and grey on grey are found."""
    needed(AXE.exists(), "axe-core (npm ci --prefix tests/browser)")
    page = open_page().page
    page.evaluate(
        """() => { document.querySelector("main").insertAdjacentHTML("afterbegin",
             "<div id='fault'><button></button><p style='color:#bbb;background:#fff'>faint</p></div>"); }"""
    )
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run('#fault')")
    assert {"button-name", "color-contrast"} <= {rule["id"] for rule in found["violations"]}


def test_every_node_of_the_graph_is_reached_by_the_keyboard(open_page):
    page = open_page().page
    nodes = page.locator("#dependency-graph a.node")
    page.locator(".graph").focus()
    reached = set()
    for _ in range(nodes.count()):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.label"))
    assert None not in reached
    assert len(reached) == nodes.count()
    assert page.locator(".graph.tracing").count() == 1
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash.slice(1)") in reached


def test_the_graph_zooms(open_page):
    page = open_page().page
    width = "document.getElementById('dependency-graph').getBoundingClientRect().width"
    before = page.evaluate(width)
    page.click("#graph-larger")
    assert page.evaluate(width) > 1.4 * before
    page.click("#graph-smaller")
    assert abs(page.evaluate(width) - before) < 2
