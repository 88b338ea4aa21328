"""The page in a real browser with the network off: silent, complete, set in real type, at home in three languages."""

from __future__ import annotations

import re

from bayesgrad.theorems import THEOREMS
from report.messages import NAMES_OF_LIBRARIES


def test_no_request_and_no_word_on_the_console(open_page, address):
    watched = open_page()
    page = watched.page
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.wait_for_timeout(200)
    assert watched.said == []
    assert [url for url in watched.asked if url != address and not url.startswith("data:")] == []


def test_a_page_that_asks_or_stumbles_is_caught(open_page):
    watched = open_page()
    watched.page.evaluate("document.body.append(Object.assign(new Image(), { src: 'https://example.org/x.png' }))")
    watched.page.evaluate("void setTimeout(() => { throw new Error('stumbled'); })")
    watched.page.wait_for_timeout(200)
    assert any("example.org" in line for line in (*watched.asked, *watched.said))
    assert any("stumbled" in line for line in watched.said)


def test_every_anchor_is_there(open_page):
    page = open_page().page
    missing = page.evaluate(
        "labels => labels.filter((label) => !document.getElementById(label))", [theorem.label for theorem in THEOREMS]
    )
    assert missing == []
    dangling = page.evaluate(
        """() => [...document.querySelectorAll("a[href^='#']")].map((a) => a.getAttribute("href").slice(1))
                 .filter((id) => !document.getElementById(id))"""
    )
    assert dangling == []


def test_mathematics_has_a_size_and_no_error(open_page):
    page = open_page().page
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    found = page.evaluate(
        """() => [...document.querySelectorAll("math")].map((math) => {
             const box = math.getBoundingClientRect();
             return [box.width, box.height, math.textContent.slice(0, 60)];
           })"""
    )
    assert len(found) > 200
    assert [row for row in found if row[0] < 2 or row[1] < 4] == []
    assert page.locator("merror, .refused").count() == 0
    text = page.evaluate(
        """() => { const copy = document.querySelector("main").cloneNode(true);
                   copy.querySelectorAll("pre, code, script").forEach((node) => node.remove());
                   return copy.textContent; }"""
    )
    assert "\\" not in text


def test_the_embedded_mathematics_font_is_used(open_page):
    page = open_page().page
    faces = page.evaluate("[...document.fonts].filter((face) => face.status === 'loaded').map((face) => face.family)")
    assert {"Bayesgrad Mathematics", "Bayesgrad Text"} <= {face.strip('"') for face in faces}
    client = page.context.new_cdp_session(page)
    client.send("DOM.enable")
    client.send("CSS.enable")
    root = client.send("DOM.getDocument")["root"]["nodeId"]
    nodes = client.send("DOM.querySelectorAll", {"nodeId": root, "selector": ".result > .display :is(mi, mn, mo)"})[
        "nodeIds"
    ]
    assert len(nodes) > 500
    used = {
        font["familyName"]
        for node in nodes
        for font in client.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
    }
    assert used == {"Bayesgrad Mathematics"}


def test_languages(open_page):
    page = open_page().page
    heading = page.locator("#notation")
    assert "Notation" in heading.inner_text()
    page.select_option("#language", "ja")
    assert "記号" in heading.inner_text()
    assert page.locator("#notation [data-m]").get_attribute("lang") == "ja"
    page.select_option("#language", "zh-Hant")
    assert "符號" in heading.inner_text()
    english = page.evaluate(
        """() => [...document.querySelectorAll("[data-m]")]
             .filter((element) => !/[\\u3040-\\u30ff\\u4e00-\\u9fff]/.test(element.textContent))
             .map((element) => element.dataset.m)"""
    )
    assert set(english) <= NAMES_OF_LIBRARIES
    headings = page.evaluate(
        """() => [...document.querySelectorAll("main h2, main h3, main h4, nav a, .badge, p.lead")]
             .map((element) => element.textContent).filter((text) => !/[\\u3040-\\u30ff\\u4e00-\\u9fff]/.test(text))"""
    )
    assert headings == []
    page.select_option("#language", "en")
    assert "Notation" in heading.inner_text()


def test_a_derivation_opens_and_a_permalink_finds_its_place(open_page):
    page = open_page(anchor="#attention.value-law").page
    assert page.evaluate("Math.abs(document.getElementById('attention.value-law').getBoundingClientRect().top) < 60")
    fold = page.locator("[id='derivation-attention.value-law']")
    assert not fold.evaluate("fold => fold.open")
    fold.locator("summary").click()
    assert fold.locator("math").first.is_visible()
    page.evaluate("location.hash = '#derivation-attention.key-law'")
    page.wait_for_timeout(100)
    assert page.locator("[id='derivation-attention.key-law']").evaluate("fold => fold.open")


def test_the_contents_follow(open_page):
    page = open_page().page
    page.evaluate("document.getElementById('dynamics.feedback').scrollIntoView()")
    page.wait_for_function("document.querySelector('nav.contents [aria-current]').hash === '#dynamics.feedback'")
    assert page.evaluate(
        """() => { const box = document.querySelector("nav.contents [aria-current]").getBoundingClientRect();
                   return box.top >= 0 && box.bottom <= innerHeight; }"""
    )


def test_search(open_page):
    page = open_page().page
    page.keyboard.press("/")
    page.keyboard.type("saturation")
    count = int(re.match(r"\d+", page.locator("#matches").inner_text()).group())
    assert count > 2
    page.keyboard.press("Enter")
    assert page.locator("#matches").inner_text() == f"1 / {count}"
    page.locator("#search").fill("no such word anywhere")
    assert page.locator("#matches").inner_text().startswith("0")


def test_a_phone_needs_no_sideways_scrolling(open_page):
    page = open_page(width=360, height=740).page
    page.evaluate("document.querySelectorAll('main details').forEach((fold) => { fold.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not page.locator("nav.contents .inner").is_visible()


def test_theme(open_page):
    page = open_page(scheme="light").page
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.click("#theme")
    assert page.evaluate(paper) != light
    assert open_page(scheme="dark").page.evaluate(paper) != light


def test_print(open_page):
    page = open_page().page
    page.emulate_media(media="print")
    assert not page.locator("nav.contents").is_visible()
    assert not page.locator(".tools").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_first_paint_within_a_second(open_page):
    page = open_page().page
    page.wait_for_timeout(100)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint > 0
    print(f"first contentful paint after {paint:.0f} ms")
