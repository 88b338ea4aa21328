"""Pictures of queries, keys, projections, inputs, heads and saturation."""

from __future__ import annotations

import numpy as np

from bayesgrad import softmax
from bayesgrad.gradients import advantage, key_gradient, query_gradient, score_gradient
from report.draw import Canvas
from report.pictures.head import matrix, row_gradient
from report.pictures.table import picture


def _plane() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    k = np.array([[1.5, 0.7], [-1.2, 0.9], [0.2, -0.9], [-1.6, -0.5]])
    q = np.array([[0.5, 0.15], [-0.3, 0.4]])
    b = np.array([[-0.9, 0.5, 0.1, 0.8], [0.4, -0.6, 0.5, 0.2]])
    return k, q, b


@picture(
    "attention.query-law",
    "A query (square) moves towards keys whose values help (filled) and away from those whose values hurt (hollow).",
)
def query_law() -> Canvas:
    k, q, b = _plane()
    a = softmax(q @ k.T)
    step = -query_gradient(score_gradient(a, b), k, scale=1.0)[0]
    helps = advantage(a, b)[0]
    canvas = Canvas((-2.6, 2.6), (-1.3, 1.3))
    for j, key in enumerate(k):
        canvas.dot(
            (float(key[0]), float(key[1])),
            "c1",
            size=3 + 9 * float(a[0, j]),
            shape="round" if helps[j] > 0 else "hollow",
        )
        canvas.text(float(key[0]), float(key[1]), f"$k_{j + 1}$", shift=(15, 4))
    start = (float(q[0, 0]), float(q[0, 1]))
    canvas.line(
        [start, (start[0] + 1.6 * float(step[0]), start[1] + 1.6 * float(step[1]))],
        "c2",
        width=2.4,
        arrow=True,
        dash="",
    )
    canvas.dot(start, "c2", shape="square")
    return canvas


@picture(
    "attention.key-law",
    "The moves of all keys, laid end to end, come back to where they started: together the keys do not shift.",
)
def key_law() -> Canvas:
    k, q, b = _plane()
    steps = -key_gradient(score_gradient(softmax(q @ k.T), b), q, scale=1.0)
    canvas = Canvas((-0.16, 0.34), (-0.05, 0.15))
    at = np.zeros(2)
    for n, step in enumerate(steps, 1):
        end = at + step
        canvas.line(
            [(float(at[0]), float(at[1])), (float(end[0]), float(end[1]))], "c2", width=2.2, arrow=True, dash=""
        )
        canvas.text(float(at[0] + end[0]) / 2, float(at[1] + end[1]) / 2, rf"$\Delta k_{n}$", shift=(17, 8))
        at = end
    canvas.dot((0, 0), "ink", size=3.5)
    return canvas


@picture(
    "attention.projection-laws",
    "Outer product: what went in (column), what came back (row), and the gradient that they make.",
)
def projection_laws() -> Canvas:
    x, back = np.array([[0.9], [-0.5], [0.3]]), np.array([[0.6, -0.8, 0.2, 0.7]])
    canvas = Canvas((-0.6, 12), (-0.6, 4.9), height=190)
    matrix(canvas, x)
    canvas.text(1.7, 1.5, "×", size=13)
    matrix(canvas, back, 2.4)
    canvas.text(7.0, 1.5, "=", size=13)
    matrix(canvas, x @ back, 7.6)
    canvas.text(0.5, 3.5, "$x_i$")
    canvas.text(4.4, 1.5, r"$\partial L/\partial q_i$")
    canvas.text(9.6, 3.5, r"$\partial L/\partial W_Q$")
    return canvas


@picture("attention.input-law", "Three pulls on one input, as a query, as a key and as a value, and their sum.")
def input_law() -> Canvas:
    pulls = (((1.3, 0.5), "query"), ((0.4, -0.9), "key"), ((0.9, 0.75), "value"))
    canvas = Canvas((-0.6, 3.9), (-0.9, 1.2))
    at = (0.0, 0.0)
    for (dx, dy), name in pulls:
        end = (at[0] + dx, at[1] + dy)
        canvas.line([at, end], "c1", width=1.6, arrow=True)
        canvas.text((at[0] + end[0]) / 2, (at[1] + end[1]) / 2, name, "c1", shift=(0, 11 if dy > 0 else -11), size=10)
        at = end
    canvas.line([(0, 0), at], "c2", width=2.4, arrow=True, dash="")
    canvas.text(at[0], at[1], r"$\partial L/\partial x_i$", "c2", shift=(14, -15))
    canvas.dot((0, 0), "ink")
    return canvas


@picture(
    "attention.multi-head",
    "Six query heads on two key-value heads: blocks of neighbours share, and what they send back adds up.",
)
def multi_head() -> Canvas:
    canvas = Canvas((-0.6, 5.6), (-0.6, 1.7))
    for h in range(6):
        group = h // 3
        colour = "c1" if group == 0 else "c2"
        canvas.line([(h, 1.12), (1 + 3 * group, 0.16)], colour, width=1.5, arrow=True)
        canvas.dot((h, 1.2), colour, shape="round" if group == 0 else "square")
        canvas.text(h, 1.2, str(h), shift=(0, 14), size=10)
    for group in range(2):
        canvas.dot((1 + 3 * group, 0), "c1" if group == 0 else "c2", size=7, shape="round" if group == 0 else "square")
        canvas.text(1 + 3 * group, 0, f"k, v of group {group}", shift=(0, -17), size=10)
    return canvas


@picture(
    "attention.saturation-bound",
    "Size of the routing gradient against the weight, for random rows with compatibilities in a range of 1: never "
    "above the curve.",
)
def saturation_bound() -> Canvas:
    draw = np.random.default_rng(0)
    canvas = Canvas((0, 1), (0, 0.29), margin=(24, 12, 10, 22))
    canvas.axes("$a_{ij}$", xticks=[(0.5, "½")], yticks=[(0.25, "¼")])
    canvas.line([(a, a * (1 - a)) for a in np.linspace(0, 1, 61).tolist()], "c1", width=2)
    for _ in range(90):
        a, b = softmax(draw.normal(size=3) * 2), draw.uniform(size=3)
        b = (b - b.min()) / (b.max() - b.min())
        canvas.dot((float(a[0]), float(abs(row_gradient(a, b)[0]))), "c2", size=1.7)
    return canvas
