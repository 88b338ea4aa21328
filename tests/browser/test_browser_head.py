"""The interactive head against the shipped functions: dragged at random, it must say what bayesgrad says."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from bayesgrad import attention, softmax
from bayesgrad.dynamics import feedback, saturation_bound, value_step
from bayesgrad.gradients import advantage, compatibility, score_gradient, value_gradient

TOLERANCE = 1e-12


def expected(state):
    """What the shipped functions make of the state of the page."""
    s, v, u = (np.asarray(state[name], dtype=float) for name in ("scores", "values", "upstream"))
    a, b = softmax(s), compatibility(u, v)
    made = attention(s, np.eye(3), v, scale=1.0)  # queries whose scores with the unit keys are s
    assert np.allclose(made.weights, a)
    return {
        "weights": a,
        "compatibility": b,
        "advantage": advantage(a, b),
        "gradient": score_gradient(a, b),
        "scoreStep": -state["eta"] * score_gradient(a, b),
        "valueGradient": value_gradient(a, u),
        "valueStep": -state["eta"] * value_gradient(a, u),
        "feedback": feedback(a, u, eta=state["eta"]).advantage,
        "bound": saturation_bound(a, b),
        "context": made.context,
        "contextStep": value_step(a, u, eta=state["eta"]).context,
    }


def compare(page):
    found = page.evaluate("document.getElementById('head-block').head()")
    wanted = expected(found["state"])
    assert set(found["made"]) == set(wanted)
    for name, values in wanted.items():
        np.testing.assert_allclose(found["made"][name], values, rtol=0, atol=TOLERANCE, err_msg=name)
    # what a reader reads is what was computed
    names = ("weights", "compatibility", "advantage", "scoreStep", "feedback", "gradient", "bound")
    rows = page.locator("tr[data-pair]")
    for n in range(rows.count()):
        i, j = (int(part) for part in rows.nth(n).get_attribute("data-pair").split(","))
        cells = rows.nth(n).locator("td").all_inner_texts()
        for name, cell in zip(names, cells, strict=True):
            value = wanted[name][i][j]
            shown = float(re.sub(r"[↑↓= ]", "", cell).replace("−", "-"))
            assert abs(shown - (abs(value) if name == "gradient" else value)) <= 0.000501, (name, cell, value)
            if name in ("scoreStep", "feedback"):
                assert cell[0] == ("↑" if value > 1e-12 else "↓" if value < -1e-12 else "=")
    return found["state"]


def drag(page, rng):
    """One random gesture: a handle in the plane, or a score, or the step size."""
    kind = rng.choice(["values", "upstream", "score", "eta"], p=[0.35, 0.3, 0.25, 0.1])
    if kind in ("values", "upstream"):
        handles = page.locator(f".handle.{kind} .dot")
        box = handles.nth(int(rng.integers(handles.count()))).bounding_box()
        plane = page.locator("#head-plane").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        for _ in range(2):
            page.mouse.move(
                plane["x"] + rng.uniform(0, 1) * plane["width"], plane["y"] + rng.uniform(0, 1) * plane["height"]
            )
        page.mouse.up()
    else:
        sliders = page.locator("[data-score]" if kind == "score" else "#head-eta")
        box = sliders.nth(int(rng.integers(sliders.count()))).bounding_box()
        page.mouse.move(box["x"] + rng.uniform(0.1, 0.9) * box["width"], box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + rng.uniform(0.05, 0.95) * box["width"], box["y"] + box["height"] / 2)
        page.mouse.up()


def test_dragged_twenty_times_it_agrees_with_the_package(open_page):
    watched = open_page()
    page = watched.page
    page.evaluate("document.getElementById('head-block').scrollIntoView({ block: 'start' })")
    rng = np.random.default_rng(0)
    states = [compare(page)]
    for _ in range(20):
        drag(page, rng)
        states.append(compare(page))
    changes = [before != after for before, after in pairwise(states)]
    assert sum(changes) >= 18, "the gestures must move something"
    assert watched.said == []


def test_arrow_keys_move_a_handle_and_the_start_comes_back(open_page):
    page = open_page().page
    before = page.evaluate("document.getElementById('head-block').head().state")
    page.locator(".handle.upstream").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowUp")
    after = compare(page)
    np.testing.assert_allclose(np.subtract(after["upstream"][0], before["upstream"][0]), [0.05, 0.25])
    page.click("#head-reset")
    assert compare(page) == before


def test_an_update_fits_into_a_frame(open_page):
    page = open_page().page
    spent = page.evaluate(
        """() => {
             const knob = document.getElementById("score-0-0"), times = [];
             for (let n = 0; n < 60; n += 1) {
               knob.value = String(-3 + n / 10);
               const from = performance.now();
               knob.dispatchEvent(new Event("input"));
               document.getElementById("head-block").getBoundingClientRect();
               times.push(performance.now() - from);
             }
             return times.sort((x, y) => x - y)[30];
           }"""
    )
    print(f"update of the interactive head: {spent:.2f} ms in the median, budget 16 ms")
    assert spent > 0
