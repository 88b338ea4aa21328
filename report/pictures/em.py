"""Pictures of what EM means, and of where it stops."""

from __future__ import annotations

import math

import numpy as np

from bayesgrad.em import gaussian_mixture_responsibilities, proximal_e_step
from report.draw import Canvas
from report.pictures.table import picture


@picture(
    "em.fisher-identity",
    "A mixture's loss and its surrogate share value and slope where the responsibilities were computed.",
)
def fisher_identity() -> Canvas:
    def costs(v: float) -> np.ndarray:
        return np.array([0.5 * (v - 1.5) ** 2, 0.5 * (v + 1.5) ** 2])

    def loss(v: float) -> float:
        return -math.log(float((0.5 * np.exp(-costs(v))).sum()))

    start = 0.45
    share = np.exp(-costs(start)) / np.exp(-costs(start)).sum()
    slope = float(share @ np.array([start - 1.5, start + 1.5]))
    canvas = Canvas((-3, 3), (0.4, 2.6))
    canvas.axes("$v$", "$l$")
    canvas.line([(v, loss(v)) for v in np.linspace(-2.9, 2.9, 70).tolist()], "c1", width=2)
    canvas.line([(start + t, loss(start) + slope * t) for t in (-1.5, 1.5)], "c2", width=2)
    canvas.dot((start, loss(start)), "ink")
    return canvas


@picture(
    "em.proximal-e-step",
    "Old weights (left) times a likelihood that falls with the compatibility (line) give the new weights (right).",
)
def e_step() -> Canvas:
    old, b = np.array([0.4, 0.3, 0.2, 0.1]), np.array([1.1, -0.2, -1.0, 0.4])
    new = proximal_e_step(old[None], b[None], eta=0.8)[0]
    canvas = Canvas((-0.7, 9.6), (0, 0.75))
    canvas.line([(-0.7, 0), (9.6, 0)], "faint", width=1)
    for n in range(4):
        canvas.bar(n, 0, float(old[n]), "c1")
        canvas.bar(6 + n, 0, float(np.asarray(new)[n]), "c2")
    canvas.line([(n, 0.3 * math.exp(-0.8 * float(b[n]))) for n in range(4)], "ink", width=1.4, dash="5 3")
    canvas.line([(3.9, 0.3), (5.1, 0.3)], arrow=True)
    return canvas


@picture("em.proximal-m-step", "A linear pull plus squared distance from the old value: the minimum is the value step.")
def m_step() -> Canvas:
    pull, eta, old = 0.8, 1.2, 0.6
    canvas = Canvas((-1.9, 2.6), (-0.75, 2.4))
    canvas.axes("$v$", at=(-1.9, -0.7))

    def objective(v: float) -> float:
        return pull * v + (v - old) ** 2 / (2 * eta)

    grid = np.linspace(-1.8, 2.2, 60).tolist()
    canvas.line([(v, (v - old) ** 2 / (2 * eta)) for v in grid], "faint", width=1.2, dash="2 3")
    canvas.line([(v, pull * v) for v in (-0.9, 2.3)], "faint", width=1.2, dash="2 3")
    canvas.line([(v, objective(v)) for v in grid if objective(v) < 2.4], "c1", width=2)
    best = old - eta * pull
    canvas.dot((best, objective(best)), "c2", shape="square")
    canvas.dot((old, objective(old)), "ink")
    canvas.text(old, objective(old), "$v_0$", shift=(12, -3))
    canvas.text(best, objective(best), r"$v_0 - \eta u$", "c2", shift=(0, -13))
    return canvas


@picture(
    "em.gaussian-mixture",
    "Responsibilities of three equally wide Gaussians along a line of queries: attention weights by another name.",
)
def gaussian_mixture() -> Canvas:
    keys = np.array([[-1.6], [0.2], [1.9]])
    queries = np.linspace(-4, 4, 81)
    weights = np.asarray(gaussian_mixture_responsibilities(queries[:, None], keys, priors=np.ones(3), scale=1.4))
    canvas = Canvas((-4, 4), (0, 1.12))
    canvas.axes("query", "weight")
    for j, colour in enumerate(("c1", "c2", "c3")):
        canvas.line([(float(q), float(w)) for q, w in zip(queries, weights[:, j], strict=True)], colour, width=2)
        canvas.dot((float(keys[j, 0]), 0), colour, shape=("round", "square", "hollow")[j])
    return canvas


@picture(
    "em.not-variational",
    "The loss is convex in the context, so its tangent lies below it: a step judged by the tangent can land above "
    "the start.",
)
def not_variational() -> Canvas:
    def loss(g: float) -> float:
        return math.log(1 + math.exp(g) + math.exp(-g))

    start, stop = 1.0, -4.0
    slope = (math.exp(start) - math.exp(-start)) / (1 + math.exp(start) + math.exp(-start))
    canvas = Canvas((-5.2, 4), (-1.2, 5.4))
    canvas.axes("$g$", "$L$", at=(-5.2, 0))
    canvas.line([(g, loss(g)) for g in np.linspace(-5.1, 3.9, 70).tolist()], "c1", width=2)
    canvas.line([(g, loss(start) + slope * (g - start)) for g in (-2.4, 3.8)], "c2", width=2)
    canvas.dot((start, loss(start)), "ink")
    canvas.dot((stop, loss(stop)), "c1", shape="square")
    canvas.line([(start, loss(start)), (stop, loss(start))], "faint", width=1, dash="2 2")
    canvas.line([(stop, loss(start)), (stop, loss(stop))], "ink", width=1.8, arrow=True)
    canvas.text(2.9, 1.9, "tangent", "c2", shift=(14, -14), size=10)
    return canvas
