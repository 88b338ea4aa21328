"""Pictures of what a step does."""

from __future__ import annotations

import math

import numpy as np

from bayesgrad import softmax
from bayesgrad.dynamics import feedback, natural_direction, saturation_bound, value_step
from bayesgrad.gradients import advantage
from report.draw import Canvas
from report.pictures.head import matrix, row_gradient, simplex, triangle
from report.pictures.table import picture


@picture(
    "dynamics.loss-decrease",
    "The loss along its own gradient and the first-order prediction: they part as the step grows.",
)
def loss_decrease() -> Canvas:
    def loss(eta: float) -> float:
        v = 1.8 - 1.25 * eta
        return math.log1p(math.exp(v)) + 0.16 * v * v

    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    canvas = Canvas((0, 3.1), (0.2, 2.75))
    canvas.axes(r"$\eta$", "$L$")
    canvas.line([(t, loss(t)) for t in np.linspace(0, 2.9, 50).tolist()], "c1", width=2)
    canvas.line([(0, loss(0)), (1.55, loss(0) + slope * 1.55)], "c2", width=2)
    canvas.dot((0, loss(0)), "ink")
    canvas.text(1.75, 0.32, r"$L - \eta |g|^2$", "c2", anchor="start", size=10)
    return canvas


def _head() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a = np.array([[0.8, 0.15, 0.05], [0.6, 0.3, 0.1], [0.05, 0.15, 0.8]])
    u = np.array([[0.7, -0.4], [-0.1, -0.8], [-0.8, 0.3]])
    v = np.array([[-1.6, 0.2], [0.2, 1.0], [1.7, -0.3]])
    return a, u, v


@picture(
    "dynamics.value-step",
    "Contexts (squares) move by a mixture of all queries' pulls: two queries that read the same value move alike.",
)
def value_step_picture() -> Canvas:
    a, u, v = _head()
    canvas = Canvas((-2.5, 2.7), (-1.0, 1.5))
    for n, place in enumerate(v, 1):
        canvas.dot((float(place[0]), float(place[1])), "c1")
        canvas.text(float(place[0]), float(place[1]), f"$v_{n}$", "c1", shift=(12, 7))
    steps = value_step(a, u, eta=0.9).context
    for n, (start, step) in enumerate(zip(a @ v, steps, strict=True), 1):
        at = (float(start[0]), float(start[1]))
        canvas.line([at, (at[0] + float(step[0]), at[1] + float(step[1]))], "c2", width=2.2, arrow=True, dash="")
        canvas.dot(at, "ink", size=3.4, shape="square")
        canvas.text(*at, f"$g_{n}$", shift=(-2, -12))
    return canvas


@picture(
    "dynamics.score-step",
    "A row of three weights stepping along its own score gradient, from several starts: keys above the mean gain.",
)
def score_step_picture() -> Canvas:
    canvas = triangle()
    b = np.array([0.9, 0.1, -0.8])
    for start in ((0.6, 0.3, 0.1), (0.33, 0.34, 0.33), (0.2, 0.7, 0.1), (0.75, 0.1, 0.15), (0.1, 0.35, 0.55)):
        scores = np.log(np.array(start))
        path = [simplex(softmax(scores))]
        for _ in range(26):
            scores = scores - 0.35 * row_gradient(softmax(scores), b)
            path.append(simplex(softmax(scores)))
        canvas.line(path, "c1", width=1.6, arrow=True)
        canvas.dot(path[0], "ink", size=2.4)
    return canvas


@picture(
    "dynamics.feedback",
    "One query: the change of a key's advantage is a line in its weight that crosses zero at the sum of squared "
    "weights.",
)
def feedback_picture() -> Canvas:
    a = softmax(np.array([[1.5, 0.6, -0.2, -1.0]]))
    change = feedback(a, np.array([[1.0, 0.0]]), eta=1.0).advantage[0]
    level = float((a**2).sum())
    canvas = Canvas((0, 0.75), (-0.45, 0.3))
    canvas.axes("$a_j$", r"$dA_j$", at=(0, 0))
    canvas.line([(0, -level), (0.75, 0.75 - level)], "c1", width=1.6)
    for weight, value in zip(a[0], change, strict=True):
        canvas.dot((float(weight), float(value)), "c1" if value > 0 else "c2", shape="round" if value > 0 else "square")
    canvas.dot((level, 0), "ink", shape="hollow")
    canvas.text(level, 0, r"$\sum a_k^2$", shift=(4, -13))
    return canvas


@picture(
    "dynamics.feedback-full",
    "One query, two keys: with the upstream gradient frozen the heavier key seems to gain advantage; in truth it "
    "loses.",
)
def feedback_full_picture() -> Canvas:
    a, v, w = np.array([2 / 3, 1 / 3]), np.array([-1.0, 2.0]), np.array([-1.0, 1.0])

    def gap(values: np.ndarray, frozen: float | None) -> float:
        z = (a @ values) * w
        u = float((softmax(z) - np.array([1.0, 0.0])) @ w) if frozen is None else frozen
        return float(advantage(a[None], (u * values)[None])[0, 0])

    z = (a @ v) * w
    u = float((softmax(z) - np.array([1.0, 0.0])) @ w)
    small = 1e-5
    moved = v - small * a * u
    frozen = (gap(moved, u) - gap(v, u)) / small
    # the whole truth: the read-out moves as well
    g = float(a @ v)
    w_moved = w - small * g * (softmax(z) - np.array([1.0, 0.0]))
    z_moved = (a @ moved) * w_moved
    u_moved = float((softmax(z_moved) - np.array([1.0, 0.0])) @ w_moved)
    whole = (float(advantage(a[None], (u_moved * moved)[None])[0, 0]) - gap(v, None)) / small
    canvas = Canvas((-0.8, 1.8), (-0.62, 0.3))
    canvas.line([(-0.8, 0), (1.8, 0)], "faint", width=1)
    canvas.bar(0, 0, frozen, "c1")
    canvas.bar(1, 0, whole, "c2")
    canvas.text(0, 0, "u frozen", "c1", shift=(0, -10), size=10)
    canvas.text(1, 0, "u moving", "c2", shift=(0, 10), size=10)
    return canvas


@picture(
    "dynamics.weight-space",
    "Inner products of the inputs: through a shared matrix every value step leaks to similar tokens (filled off "
    "the diagonal).",
)
def weight_space() -> Canvas:
    draw = np.random.default_rng(3)
    x = draw.normal(size=(5, 3))
    canvas = Canvas((-2.6, 7.6), (-0.8, 5.3), height=200)
    matrix(canvas, x @ x.T)
    canvas.text(-0.3, 2.5, "token $j$", anchor="end", size=10)
    canvas.text(2.5, -0.45, "token $l$", size=10)
    return canvas


@picture(
    "dynamics.natural-routing",
    "The natural flow (solid) and the plain gradient flow (dashed) of one row, from the same starts, for equal times.",
)
def natural_routing() -> Canvas:
    canvas = triangle()
    b = np.array([0.9, 0.3, -0.8])
    for start in ((0.9, 0.07, 0.03), (0.45, 0.5, 0.05), (0.25, 0.72, 0.03), (0.33, 0.34, 0.33)):
        for plain in (True, False):
            scores = np.log(np.array(start))
            path = [simplex(softmax(scores))]
            for _ in range(60):
                step = row_gradient(softmax(scores), b) if plain else natural_direction(b[None])[0]
                scores = scores - 0.04 * step
                path.append(simplex(softmax(scores)))
            canvas.line(path, "c2" if plain else "c1", width=1.8, arrow=True)
        canvas.dot(simplex(np.array(start)), "ink", size=2.6)
    return canvas


@picture(
    "dynamics.frame-precision",
    "As a row becomes one-hot its routing gradient vanishes (solid); the pull on the value that it reads need not "
    "(dashed).",
)
def frame_precision() -> Canvas:
    canvas = Canvas((0.34, 1.02), (0, 1.12), margin=(18, 12, 10, 22))
    canvas.axes("largest weight", xticks=[(0.5, "½")])
    routing, values = [], []
    for top in np.linspace(0.34, 1, 50).tolist():
        a = np.array([top, (1 - top) / 2, (1 - top) / 2])
        bound = saturation_bound(a[None], np.array([[0.0, 1.0, 0.4]]))[0, 0]
        routing.append((top, 4 * float(bound)))
        values.append((top, top))
    canvas.line(routing, "c1", width=2)
    canvas.line(values, "c2", width=2)
    canvas.text(0.52, 0.87, "routing", "c1", size=10)
    canvas.text(0.9, 0.77, "value", "c2", size=10)
    return canvas
