"""Drawings: the layered graph, the pen, the pictures of the results, the figures of the experiments."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from bayesgrad.theorems import THEOREMS
from report import figures
from report.draw import Canvas
from report.layered import layers, layout
from report.pictures import PICTURES

USES = {theorem.label: theorem.uses for theorem in THEOREMS}


def test_nodes_stand_apart_and_edges_lead_to_the_right():
    placed = layout(USES)
    assert set(placed.places) == set(USES)
    for (_, (x1, y1)), (_, (x2, y2)) in combinations(placed.places.items(), 2):
        assert x1 != x2 or abs(y1 - y2) >= 0.99
    assert set(placed.paths) == {(parent, child) for child, parents in USES.items() for parent in parents}
    for (parent, child), points in placed.paths.items():
        assert points[0] == placed.places[parent]
        assert points[-1] == placed.places[child]
        columns = [x for x, _ in points]
        assert columns == list(range(int(columns[0]), int(columns[-1]) + 1))
    assert max(y for _, y in placed.places.values()) < placed.rows


def test_edges_pass_no_node():
    placed = layout(USES)
    for points in placed.paths.values():
        for x, y in points[1:-1]:
            assert all(x != a or abs(y - b) > 0.5 for a, b in placed.places.values())


def test_the_same_graph_is_the_same_drawing():
    assert layout(USES) == layout(dict(USES))


def test_a_circle_is_refused():
    with pytest.raises(ValueError, match="expected no circle"):
        layers({"a": ("b",), "b": ("a",)})


@pytest.mark.parametrize("uses", [{}, {"a": ()}, {"a": (), "b": ("a", "elsewhere")}])
def test_small_graphs(uses):
    assert set(layout(uses).places) == set(uses)


def test_every_result_has_a_picture():
    assert set(PICTURES) == set(USES)


@pytest.mark.parametrize("label", list(USES))
def test_pictures_are_drawn_inside_their_frame(label):
    canvas = PICTURES[label].draw()
    root = ElementTree.fromstring(canvas.svg())
    numbers = [float(n) for path in root.iter("path") for n in re.findall(r"-?\d+\.?\d*", path.get("d"))]
    across, down = numbers[::2], numbers[1::2]
    assert min(across) >= -12
    assert max(across) <= canvas.width + 12
    assert min(down) >= -12
    assert max(down) <= canvas.height + 12
    for text in root.iter("text"):
        assert -2 <= float(text.get("x")) <= canvas.width + 2
        assert 0 <= float(text.get("y")) <= canvas.height + 2
    assert any(canvas.data.values())
    assert len(PICTURES[label].caption) > 30
    assert canvas.tikz() == PICTURES[label].draw().tikz()


def test_labels_are_letters_with_scripts():
    canvas = Canvas((0, 1), (0, 1))
    canvas.text(0.5, 0.5, r"mean $\eta |g|^2$ & $u_{ij}$ <b>")
    root = ElementTree.fromstring(canvas.svg())
    assert "".join(root.itertext()).replace("\u200b", "") == "mean η|g|2 & uij <b>".replace("η|", "η |")
    assert r"\&" in canvas.tikz()


def test_figures_carry_no_date_no_foreign_id_and_no_fixed_ink():
    curve = figures.Curve(
        "an arm with $ and <tags> & more", [0, 1, 2], [2.0, 1.5, 1.2], [1.9, 1.4, 1.1], [2.1, 1.6, 1.3]
    )
    drawn = figures.lines("one", [curve, curve], x="step", y="loss (nats)", floors=[("floor $x", 1.0)])
    svg = drawn["svg"].decode()
    ElementTree.fromstring(svg.replace("xlink:href", "href"))
    assert all(name.startswith("one-") for name in re.findall(r'\bid="([^"]+)"', svg))
    assert len(re.findall(r'\bid="', svg)) == len(set(re.findall(r'\bid="([^"]+)"', svg)))
    assert figures.INK not in svg
    assert "var(--ink)" in svg
    assert b"CreationDate" not in drawn["pdf"]
    assert drawn == figures.lines("one", [curve, curve], x="step", y="loss (nats)", floors=[("floor $x", 1.0)])


def test_colours_of_neighbouring_curves_differ_in_lightness_or_dash():
    assert len(set(map(str, figures.DASHES))) == len(figures.DASHES)
    assert len(set(figures.SERIES)) == len(figures.SERIES)
    assert np.unique(list(figures.MARKERS)).size == len(figures.MARKERS)
