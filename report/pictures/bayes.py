"""Pictures of the lemmas and of the risk that cross-entropy minimises."""

from __future__ import annotations

import math

import numpy as np

from bayesgrad import bayes
from report.draw import Canvas
from report.pictures.table import picture


def _grid(low: float, high: float, count: int = 61) -> list[float]:
    return [float(value) for value in np.linspace(low, high, count)]


@picture("lemma.log-bound", "The logarithm and its tangent at 1: they touch once.")
def log_bound() -> Canvas:
    canvas = Canvas((0, 3), (-2, 2.1))
    canvas.axes("$t$", at=(0, 0), xticks=[(1, "1")])
    canvas.line([(t, math.log(t)) for t in _grid(0.136, 3)], "c1", width=2)
    canvas.line([(0, -1), (3, 2)], "c2", width=2)
    canvas.dot((1, 0), "ink")
    canvas.text(2.55, 0.6, r"$\log t$", "c1")
    canvas.text(2.2, 1.75, "$t - 1$", "c2")
    return canvas


@picture("lemma.gibbs", "Divergence from a fixed coin p as the other coin q varies: zero at q = p and nowhere else.")
def gibbs() -> Canvas:
    p = 0.35
    canvas = Canvas((0, 1), (0, 1.3))
    canvas.axes("$q$", "KL", xticks=[(p, "$p$")])
    points = [
        (q, float(bayes.kl_divergence(np.array([p, 1 - p]), np.array([q, 1 - q]), units="nats")))
        for q in _grid(0.015, 0.955)
    ]
    canvas.line(points, "c1", width=2)
    canvas.dot((p, 0), "ink")
    return canvas


@picture(
    "lemma.variance-form", "Each pair of draws contributes its squared distance, weighted by how likely the pair is."
)
def variance_form() -> Canvas:
    places, weights = (-1.6, -0.2, 0.7, 1.7), (0.2, 0.35, 0.3, 0.15)
    mean = sum(a * h for a, h in zip(weights, places, strict=True))
    canvas = Canvas((-2, 2.1), (-0.5, 1.5))
    canvas.line([(-2, 0), (2.1, 0)], "faint", width=1, arrow=True)
    for n, left in enumerate(places):
        for m in range(n + 1, len(places)):
            right = places[m]
            arc = [
                (left + (right - left) * t, 0.62 * (right - left) ** 0.9 * math.sin(math.pi * t) * 0.6)
                for t in _grid(0, 1, 25)
            ]
            canvas.line(arc, "c1", width=0.6 + 26 * weights[n] * weights[m])
    for place, weight in zip(places, weights, strict=True):
        canvas.dot((place, 0), "ink", size=3 + 12 * weight)
    canvas.line([(mean, -0.25), (mean, 0.25)], "c2", width=2)
    canvas.text(mean, -0.38, r"$\sum a_j h_j$", "c2")
    return canvas


@picture("lemma.em-identity", "The surrogate Q touches the loss from above; going down on it goes down on the loss.")
def em_identity() -> Canvas:
    def cost(v: float) -> list[float]:
        return [0.5 * (v - 2.3) ** 2, 0.5 * (v + 1.6) ** 2 + 0.3]

    def loss(v: float) -> float:
        return -math.log(sum(0.5 * math.exp(-c) for c in cost(v)))

    start = 0.75
    parts = [0.5 * math.exp(-c) for c in cost(start)]
    share = [part / sum(parts) for part in parts]
    shift = loss(start) - sum(r * c for r, c in zip(share, cost(start), strict=True))

    def surrogate(v: float) -> float:
        return sum(r * c for r, c in zip(share, cost(v), strict=True)) + shift

    canvas = Canvas((-3.1, 4), (0.4, 4.2))
    canvas.axes("$v$")
    canvas.line([(v, loss(v)) for v in _grid(-3.1, 4)], "c1", width=2)
    canvas.line([(v, surrogate(v)) for v in _grid(-1.6, 4) if surrogate(v) < 4.2], "c2", width=2)
    best = share[0] * 2.3 - share[1] * 1.6
    canvas.dot((start, loss(start)), "ink")
    canvas.dot((best, surrogate(best)), "c2", shape="square")
    canvas.dot((best, loss(best)), "c1")
    canvas.line([(best, surrogate(best)), (best, loss(best))], "faint", width=1, dash="2 2")
    canvas.text(-2.7, 2.6, "$l$", "c1")
    canvas.text(3.3, 3.6, "$Q$", "c2")
    return canvas


@picture(
    "bayes.risk-decomposition",
    "The risk of guessing q when the truth is p: a floor that nobody can lower, and what is above it.",
)
def risk() -> Canvas:
    p = 0.3
    floor = float(bayes.entropy(np.array([p, 1 - p]), units="nats"))
    canvas = Canvas((0, 1), (0, 1.9))
    curve = [(q, -p * math.log(q) - (1 - p) * math.log(1 - q)) for q in _grid(0.02, 0.89)]
    canvas.area([(0, 0), (1, 0), (1, floor), (0, floor)], "c2", strength=0.16)
    canvas.area([*curve, (curve[-1][0], floor), (curve[0][0], floor)], "c1", strength=0.2)
    canvas.axes("$q$", "risk", xticks=[(p, "$p$")])
    canvas.line(curve, "c1", width=2)
    canvas.line([(0, floor), (1, floor)], "c2")
    canvas.text(0.8, floor / 2, "entropy", "c2")
    canvas.text(0.72, 1.0, "KL", "c1")
    return canvas


@picture("bayes.posterior-predictive", "Two contexts, two risks: each is lowest at its own posterior predictive.")
def posterior_predictive() -> Canvas:
    canvas = Canvas((0, 1), (0.3, 1.6))
    canvas.axes("$q$", "risk", xticks=[(0.2, "context 1"), (0.75, "context 2")])
    for p, colour in ((0.2, "c1"), (0.75, "c2")):
        points = [(q, -p * math.log(q) - (1 - p) * math.log(1 - q)) for q in _grid(0.02, 0.98)]
        canvas.line([point for point in points if point[1] < 1.6], colour, width=2)
        low = float(bayes.entropy(np.array([p, 1 - p]), units="nats"))
        canvas.dot((p, low), colour, shape="round" if colour == "c1" else "square")
        canvas.line([(p, 0.3), (p, low)], "faint", width=1, dash="2 2")
    return canvas


@picture("bayes.chain-rule", "Surprises of the positions stacked: their sum is the surprise of the whole sequence.")
def chain_rule() -> Canvas:
    surprises = (1.1, 0.4, 0.8, 0.25, 0.6)
    canvas = Canvas((0, 6.4), (0, 3.5))
    canvas.axes("position $t$", "nats")
    total = 0.0
    for n, value in enumerate(surprises, 1):
        canvas.bar(n, total, total + value, "c1")
        canvas.line([(n - 0.3, total), (6.4, total)], "faint", width=0.6, dash="2 2")
        total += value
    canvas.line([(6.1, 0), (6.1, total)], "c2", width=2, arrow=True)
    canvas.text(5.95, 1.2, r"$-\log p(y)$", "c2", anchor="end")
    return canvas


@picture("bayes.entropy-is-blind", "Two predictions with the same entropy that disagree on every outcome.")
def entropy_is_blind() -> Canvas:
    canvas = Canvas((-0.2, 5.4), (0, 0.9))
    canvas.line([(-0.2, 0), (5.4, 0)], "faint", width=1)
    for start, values, colour, name in ((0.5, (1 / 3, 2 / 3), "c1", "$p$"), (3.5, (2 / 3, 1 / 3), "c2", "$q$")):
        for n, value in enumerate(values):
            canvas.bar(start + n, 0, value, colour)
        canvas.text(start + 0.5, 0.83, name, colour)
    canvas.text(2.5, 0.5, "same entropy", size=10)
    canvas.text(2.5, 0.34, "KL > 0", size=10)
    return canvas


@picture(
    "bayes.bijection",
    "Entropy of the answer to a new key after m revealed pairs of a permutation of eight values, in bits.",
)
def bijection() -> Canvas:
    values = 8
    canvas = Canvas((0, 8.2), (0, 3.4), margin=(24, 12, 10, 22))
    canvas.axes(
        "revealed pairs $m$",
        "bits",
        xticks=[(float(m), str(m)) for m in range(0, 6, 2)],
        yticks=[(1, "1"), (2, "2"), (3, "3")],
    )
    steps = []
    for m in range(values):
        level = math.log2(values - m)
        steps += [(float(m), level), (m + 1.0, level)]
    canvas.line(steps, "c1", width=2)
    canvas.line([(0, 0.03), (8, 0.03)], "c2", width=2)
    canvas.text(6.6, 0.3, "a seen key", "c2", size=10)
    canvas.text(4.6, 2.9, "a new key", "c1", size=10)
    return canvas


@picture(
    "bayes.hmm-filter",
    "Belief in one of two hidden states as observations (marks) come in: prediction, then correction.",
)
def hmm_filter() -> Canvas:
    move, emit = np.array([[0.85, 0.15], [0.15, 0.85]]), np.array([[0.8, 0.2], [0.25, 0.75]])
    seen, belief, path = (0, 0, 1, 0, 1, 1, 1, 0), np.array([0.5, 0.5]), [(0.0, 0.5)]
    canvas = Canvas((0, 8.9), (-0.12, 1.16))
    canvas.axes("time", "belief", at=(0, 0))
    for t, symbol in enumerate(seen, 1):
        if t > 1:
            belief = belief @ move
            path.append((t - 0.5, float(belief[0])))
        belief = belief * emit[:, symbol]
        belief = belief / belief.sum()
        path.append((float(t), float(belief[0])))
        canvas.dot((t, -0.07 if symbol else 1.04), "c2", size=3.5, shape="square" if symbol else "round")
    canvas.line(path, "c1", width=2)
    return canvas


@picture(
    "bayes.sticky-markov",
    "The belief about the last symbol (left) pushed through one transition is the prediction (right).",
)
def sticky_markov() -> Canvas:
    belief = np.array([0.02, 0.08, 0.72, 0.15, 0.02, 0.01])
    ring = np.array([[0.46 if i == j else 0.27 if abs(i - j) in (1, 5) else 0.0 for j in range(6)] for i in range(6)])
    predicted = belief @ ring
    canvas = Canvas((-0.8, 14.2), (0, 0.86))
    canvas.line([(-0.8, 0), (14.2, 0)], "faint", width=1)
    for n in range(6):
        canvas.bar(n, 0, float(belief[n]), "c1")
        canvas.bar(8 + n, 0, float(predicted[n]), "c2")
    canvas.line([(5.9, 0.42), (7.3, 0.42)], "ink", width=1.6, arrow=True)
    canvas.text(6.6, 0.53, "$P$")
    return canvas
