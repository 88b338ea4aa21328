"""Pictures of the laws of one head: softmax, routing, values, queries, keys."""

from __future__ import annotations

import math

import numpy as np

from bayesgrad import fisher, softmax
from bayesgrad.gradients import score_gradient, value_gradient
from report.draw import Canvas, Point
from report.pictures.table import picture

CORNERS = ((0.0, 0.0), (1.0, 0.0), (0.5, math.sqrt(3) / 2))


def simplex(weights: np.ndarray) -> Point:
    """A point of the triangle."""
    return (
        float(sum(w * c[0] for w, c in zip(weights, CORNERS, strict=True))),
        float(sum(w * c[1] for w, c in zip(weights, CORNERS, strict=True))),
    )


def row_gradient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The routing law for one row."""
    return np.asarray(score_gradient(a[None], b[None])[0])


def triangle() -> Canvas:
    canvas = Canvas((-0.35, 1.35), (-0.09, 0.96), width=320, height=196)
    canvas.line([*CORNERS, CORNERS[0]], "faint", width=1.2)
    for n, (corner, shift) in enumerate(zip(CORNERS, ((-14, 0), (14, 0), (14, 4)), strict=True), 1):
        canvas.text(*corner, f"$a_{n}$", shift=shift)
    return canvas


def matrix(canvas: Canvas, values: np.ndarray, left: float = 0.0) -> None:
    limit = float(np.abs(values).max()) or 1.0
    canvas.data.setdefault("matrices", []).append(np.round(values, 5).tolist())
    rows, columns = values.shape
    for i in range(rows):
        for j in range(columns):
            x, y, value = left + j, rows - 1 - i, float(values[i, j])
            corners = [(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)]
            canvas.area(corners, "c1" if value > 0 else "c2", strength=round(0.08 + 0.72 * abs(value) / limit, 3))
            canvas.line([*corners, corners[0]], "faint", width=0.6)
            canvas.text(x + 0.5, y + 0.5, "+" if value > 1e-12 else "−" if value < -1e-12 else "0", size=10)


@picture(
    "softmax.shift-invariance",
    "Scores (outlined) and weights (below): lifting all scores alike leaves the weights as they are.",
)
def shift() -> Canvas:
    scores = np.array([0.4, 1.5, 0.9])
    canvas = Canvas((-0.8, 9.0), (-1.15, 2.9))
    canvas.line([(-0.8, 0), (9, 0)], "faint", width=1)
    for start, lift in ((0, 0.0), (6, 1.0)):
        weights = softmax(scores + lift)
        for n, score in enumerate(scores + lift):
            canvas.bar(start + n, 0, float(score), "c1")
            canvas.bar(start + n, -float(weights[n]) * 1.6, 0, "c2")
    canvas.line([(3.1, 1.1), (4.9, 1.1)], arrow=True)
    canvas.text(4, 1.4, "$+ c$")
    canvas.text(3.9, -0.6, "weights", "c2", size=10)
    return canvas


@picture(
    "softmax.jacobian",
    "The Jacobian of a row of four weights: raising one score gives to its own weight and takes from all others.",
)
def jacobian() -> Canvas:
    canvas = Canvas((-2.2, 6.2), (-0.7, 4.3), height=190)
    matrix(canvas, fisher(softmax(np.array([0.2, 1.1, -0.3, 0.6]))))
    canvas.text(-0.3, 2, "weight $j$", anchor="end", size=10)
    canvas.text(2, -0.4, "score $k$", size=10)
    return canvas


@picture(
    "softmax.fisher",
    "The covariance of a one-hot draw as an ellipse at several rows: round in the middle, flat at the edges, gone "
    "at a corner.",
)
def fisher_picture() -> Canvas:
    canvas = triangle()
    for weights in (
        (1 / 3, 1 / 3, 1 / 3),
        (0.62, 0.19, 0.19),
        (0.19, 0.62, 0.19),
        (0.19, 0.19, 0.62),
        (0.86, 0.07, 0.07),
        (0.47, 0.47, 0.06),
    ):
        a = np.array(weights)
        plane = np.array(CORNERS).T @ fisher(a) @ np.array(CORNERS)
        values, vectors = np.linalg.eigh(plane)
        middle = np.array(simplex(a))
        turn = [
            middle + 0.22 * vectors @ (np.sqrt(np.maximum(values, 0)) * np.array([math.cos(t), math.sin(t)]))
            for t in np.linspace(0, 2 * math.pi, 33)
        ]
        ring = [(float(p[0]), float(p[1])) for p in turn]
        canvas.area(ring, "c1", strength=0.22)
        canvas.line(ring, "c1", width=1.2)
        canvas.dot(simplex(a), "ink", size=1.6)
    return canvas


@picture(
    "loss.logit-gradient", "Prediction (filled) against target (line): the gradient is the difference, class by class."
)
def logit_gradient() -> Canvas:
    p, t = (0.5, 0.2, 0.22, 0.08), (0.05, 0.05, 0.85, 0.05)
    canvas = Canvas((-0.7, 3.9), (0, 1))
    canvas.line([(-0.7, 0), (3.9, 0)], "faint", width=1)
    for c, (predicted, wanted) in enumerate(zip(p, t, strict=True)):
        canvas.bar(c, 0, predicted, "c1")
        canvas.line([(c - 0.36, wanted), (c + 0.36, wanted)], "ink", width=2)
        canvas.line([(c + 0.42, predicted), (c + 0.42, wanted)], "c2", width=2, arrow=True, dash="")
    return canvas


@picture(
    "attention.upstream",
    "Read-out directions of three classes (lines): descent on the context goes along the wanted class, away from "
    "the over-predicted.",
)
def upstream() -> Canvas:
    read_out = np.array([[1.0, 0.25], [-0.3, 1.0], [-0.75, -0.6]])
    residual = np.array([0.55, -0.85, 0.3])
    canvas = Canvas((-1.9, 1.9), (-0.75, 1.15))
    for n, row in enumerate(read_out):
        canvas.line([(0, 0), (float(row[0]), float(row[1]))], "faint", width=1.4, arrow=True)
        canvas.text(float(row[0]), float(row[1]), f"$w_{n + 1}$", shift=(10, 6))
    step = -residual @ read_out
    canvas.line([(0, 0), (float(step[0]) * 0.9, float(step[1]) * 0.9)], "c2", width=2.2, arrow=True, dash="")
    canvas.text(float(step[0]) * 0.9, float(step[1]) * 0.9, "$-u$", "c2", shift=(-14, 4))
    return canvas


@picture("attention.weight-gradient", "Compatibility: how far a value reaches along the upstream gradient.")
def weight_gradient() -> Canvas:
    u = np.array([1.0, 0.35])
    canvas = Canvas((-2.4, 2.7), (-1.2, 1.45))
    canvas.line([(-2.2, -0.77), (2.5, 0.875)], "faint", width=1)
    canvas.line([(0, 0), (1.2, 0.42)], "c2", width=2.2, arrow=True, dash="")
    canvas.text(1.2, 0.42, "$u_i$", "c2", shift=(6, -12))
    for n, v in enumerate(((1.5, 1.2), (-0.9, 0.7), (0.7, -0.85)), 1):
        foot = u * (np.dot(u, v) / np.dot(u, u))
        canvas.line([v, (float(foot[0]), float(foot[1]))], "faint", width=1, dash="2 2")
        canvas.dot(v, "c1")
        canvas.dot((float(foot[0]), float(foot[1])), "c2", size=3, shape="square")
        canvas.text(*v, f"$v_{n}$", "c1", shift=(13, 3))
    return canvas


@picture(
    "attention.routing-law",
    "Weights (filled), compatibilities against their mean (line), and the resulting moves of the scores (arrows).",
)
def routing_law() -> Canvas:
    a, b = softmax(np.array([0.9, 0.2, -0.4, 0.5])), np.array([-0.7, 0.9, 0.4, -0.1])
    step = -row_gradient(a, b)
    canvas = Canvas((-0.7, 3.9), (-1.05, 1.15))
    canvas.line([(-0.7, 0), (3.9, 0)], "faint", width=1)
    mean = float(a @ b)
    canvas.line([(-0.6, mean), (3.8, mean)], "ink", width=1.2, dash="5 3")
    canvas.text(3.8, mean, r"mean", anchor="end", shift=(0, 8), size=10)
    for j in range(4):
        canvas.bar(j - 0.16, 0, float(a[j]), "c1", wide=0.32)
        canvas.dot((j + 0.12, float(b[j])), "ink", size=4, shape="hollow")
        canvas.line([(j + 0.34, 0), (j + 0.34, float(step[j]) * 2.6)], "c2", width=2.4, arrow=True, dash="")
    return canvas


@picture(
    "attention.delta-identity",
    "The mean of the projections is the projection of the mean: one dot product with the context.",
)
def delta_identity() -> Canvas:
    u, a = np.array([1.0, 0.0]), np.array([0.5, 0.2, 0.3])
    v = np.array([[-1.4, 0.9], [0.3, 1.2], [1.6, 0.35]])
    g = a @ v
    canvas = Canvas((-2.3, 2.4), (-0.55, 1.45))
    canvas.line([(-2.2, 0), (2.3, 0)], "c2", width=1.4, arrow=True)
    canvas.text(2.3, 0, "$u$", "c2", shift=(0, -11))
    canvas.area([(float(x), float(y)) for x, y in v], "c1", strength=0.12)
    for n, (x, y) in enumerate(v, 1):
        canvas.line([(float(x), float(y)), (float(x), 0)], "faint", width=1, dash="2 2")
        canvas.dot((float(x), float(y)), "c1", size=2 + 7 * float(a[n - 1]))
        canvas.text(float(x), float(y), f"$v_{n}$", "c1", shift=(14, 3))
    canvas.line([(float(g[0]), float(g[1])), (float(g[0]), 0)], "ink", width=1.4)
    canvas.dot((float(g[0]), float(g[1])), "ink", shape="square")
    canvas.text(float(g[0]), float(g[1]), "$g$", shift=(-11, 2))
    canvas.dot((float(g @ u), 0), "ink", size=3)
    canvas.text(float(g[0]), 0, r"$\bar b$", shift=(0, -11))
    return canvas


@picture(
    "attention.value-law",
    "Each value moves (solid arrow) against the mean upstream gradient of its readers (thin arrows), further the "
    "more it is read.",
)
def value_law() -> Canvas:
    a = np.array([[0.75, 0.2, 0.05], [0.15, 0.75, 0.1]])
    u = np.array([[0.9, -0.5], [-0.5, -0.9]])
    places = ((-1.7, 0.1), (0.3, 0.35), (1.9, 0.0))
    steps = -value_gradient(a, u)
    canvas = Canvas((-2.6, 2.9), (-1.2, 1.5))
    for j, place in enumerate(places):
        for i in range(2):
            end = (place[0] + float(a[i, j] * u[i, 0]), place[1] + float(a[i, j] * u[i, 1]))
            canvas.line([place, end], "faint", width=1, arrow=True)
        canvas.line(
            [place, (place[0] + float(steps[j, 0]), place[1] + float(steps[j, 1]))],
            "c2",
            width=2.4,
            arrow=True,
            dash="",
        )
        canvas.dot(place, "c1")
        canvas.text(*place, f"$v_{j + 1}$", "c1", shift=(-13, -8))
    return canvas
