"""Drawings: the layered graph, the pen, the pictures of the results, the figures of the experiments."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from bayesgrad.theorems import THEOREMS
from derivations.formal.dependencies import rests_on
from report import figures
from report.draw import Canvas
from report.layered import layers, layout
from report.pictures import PICTURES

USES = {t.label: (*rests_on()[t.label], *t.read_with) for t in THEOREMS}


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


def curve(name="an arm", factor=1.0):
    y = [factor * value for value in (2.0, 1.5, 1.2)]
    return figures.Curve(name, [0, 1, 2], y, [v - 0.1 for v in y], [v + 0.1 for v in y])


def test_names_from_records_are_text():
    nasty = "an arm with $x$ and <tags> & \\more, far too long for any legend to hold it"
    canvas = figures.lines([curve(nasty), curve()], x="step", y="loss (nats)", floors=[(nasty, 1.0)])
    text = "".join(ElementTree.fromstring(canvas.svg()).itertext())
    assert "an arm with ＄x＄ and <tags> &" in text
    assert "hold it" not in text
    assert "\\more" not in canvas.tikz()
    assert (
        canvas.svg() == figures.lines([curve(nasty), curve()], x="step", y="loss (nats)", floors=[(nasty, 1.0)]).svg()
    )


def test_curves_stay_inside_and_carry_units_and_marks():
    canvas = figures.lines([curve(str(n), 1 + n) for n in range(8)], x="step", y="loss (nats)")
    root = ElementTree.fromstring(canvas.svg())
    text = "".join(root.itertext())
    assert "loss (nats)" in text
    assert "step" in text
    drawn = [path for path in root.iter("path") if path.get("class", "").startswith("s-c")]
    assert len({(path.get("class"), path.get("stroke-dasharray")) for path in drawn}) == 8
    numbers = [float(n) for path in drawn for n in re.findall(r"-?\d+\.?\d*", path.get("d"))]
    assert 0 <= min(numbers) <= max(numbers) <= max(canvas.width, canvas.height)


def test_logarithmic_axes_leave_out_what_they_cannot_show():
    rows = figures.Curve("r", [0.0, 0.1, 0.01], [1e-3, 0.0, 1e-7])
    canvas = figures.lines([rows, figures.Curve("s", [0.1, 0.01], [1e-4, 1e-6])], x="t", y="r", log="xy")
    assert r"$10^{-6}$" in canvas.tikz()
    assert "nan" not in canvas.svg()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1e-4, 1.0], ["10−3", "10−1"]),
        ([0.3, 0.9], ["0.5", "0.7"]),
        ([0.02, 0.15], ["0.05"]),
        ([0.334, 0.353], ["0.335", "0.345"]),
        ([2e-7, 9e-7], ["5\u22c510−7"]),
    ],
)
def test_a_logarithmic_axis_always_has_ticks(values, wanted):
    canvas = figures.lines([figures.Curve("r", [1, 2], values)], x="t", y="KL (bits)", log="y")
    labels = {"".join(label.itertext()).strip("\u200b") for label in ElementTree.fromstring(canvas.svg()).iter("text")}
    assert set(wanted) <= labels


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (1.29, 2.1, [1.4, 1.6, 1.8, 2.0]), (-3, 3, [-2, 0, 2]), (5, 5, [5])],
)
def test_ticks_are_round(low, high, wanted):
    assert figures.ticks(low, high) == wanted


def test_a_heat_map_shows_sign_and_size():
    canvas = figures.heat([("one", [[0.0, 0.0], [2.0, -1.0]])], x="$j$", y="$i$", unit="nats")
    cells = [path for path in ElementTree.fromstring(canvas.svg()).iter("path") if path.get("fill-opacity")]
    assert {(path.get("class"), path.get("fill-opacity")) for path in cells[:2]} == {("f-c1", "1.0"), ("f-c2", "0.5")}
    assert canvas.data["matrices"] == [[[0.0, 0.0], [2.0, -1.0]]]
