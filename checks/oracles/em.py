"""Oracles for the EM reading and for the lemmas: exact fractions, 40-digit logarithms, Newton's method, densities."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import torch

from bayesgrad.testing.engine import Oracle, Reference
from bayesgrad.testing.examples import Clusters, Mixture, Moved, Rate, Stepped
from bayesgrad.testing.jets import Jet, along, constant, leaf, matmul_t
from bayesgrad.testing.models import Simplex, floats, fractions
from bayesgrad.testing.oracles import forward, reverse
from checks.oracles import differences, loops, padded, tangents
from checks.oracles.chances import numbers, rounded
from checks.oracles.dynamics import slope, value
from checks.oracles.heads import with_jax


def _scalar(x: Any) -> Reference:
    return Reference(np.asarray(float(x)))


def mixture_loss(pi: Jet, c: Jet) -> Jet:
    """l = -log sum_j pi_j exp(-c_j)."""
    return -(pi * (-c).exp()).sum(-1).log()


def _gradient(example: Mixture) -> dict[str, Reference]:
    pi = rounded(example.pi)
    loss = mixture_loss(pi, leaf(example.costs))
    change = mixture_loss(pi, along(example.costs, example.change))
    return {
        "r": Reference(loss.dx, loss.edx),
        "dl": slope(change),
        "l": value(change),
    }


def _gradient_torch(example: Mixture) -> dict[str, Reference]:
    c = torch.tensor(example.costs, requires_grad=True)
    loss = -torch.logsumexp(torch.from_numpy(example.pi).log() - c, -1)
    (r,) = torch.autograd.grad(loss, c)
    return {
        "r": Reference(r.numpy()),
        "dl": Reference((r @ torch.from_numpy(example.change)).numpy()),
        "l": Reference(loss.detach().numpy()),
    }


def _loss_mp(pi: list[Any], c: list[Any]) -> Any:
    return -mpmath.log(sum(p * mpmath.exp(-x) for p, x in zip(pi, c, strict=True)))


def _pi_mp(example: Mixture) -> list[Any]:
    return [mpmath.mpf(int(w)) / int(example.priors.sum()) for w in example.priors]


def _gradient_exactly(example: Mixture) -> dict[str, Reference]:
    with mpmath.workdps(differences.DIGITS):
        pi, c, dc = _pi_mp(example), differences.in_mpmath(example.costs), differences.in_mpmath(example.change)

        def loss(t: Any) -> Any:
            return _loss_mp(pi, [x + t * d for x, d in zip(c, dc, strict=True)])

        mass = [p * mpmath.exp(-x) for p, x in zip(pi, c, strict=True)]
        return {
            "r": Reference(np.array([float(x / sum(mass)) for x in mass])),
            "dl": _scalar(differences.directional(loss)[0]),
            "l": _scalar(loss(mpmath.mpf(0))),
        }


FISHER_IDENTITY = (
    Oracle("forward jets, gradient of the loss", _gradient),
    Oracle("PyTorch reverse mode of logsumexp", _gradient_torch),
    Oracle("posterior and differences in 50 digits", _gradient_exactly),
    Oracle("PyTorch forward mode along the costs", lambda example: {"dl": Reference(tangents.mixture_slope(example))}),
    *with_jax("JAX, both modes", padded.mixture),
)


def _em(example: Mixture) -> dict[str, Reference]:
    pi, c0, c1 = rounded(example.pi), constant(example.costs), constant(example.costs) + example.change
    before, after = mixture_loss(pi, c0), mixture_loss(pi, c1)
    mass0, mass1 = pi * (-c0).exp(), pi * (-c1).exp()
    r0, r1 = mass0 / mass0.sum(-1), mass1 / mass1.sum(-1)
    none = (example.pi == 0).astype(float)
    divergence = (r0 * ((r0 + none).log() - (r1 + none).log())).sum(-1)
    return {
        "loss": value(after - before),
        "loss change": value(after - before),
        "cost": value((r0 * (c1 - c0)).sum(-1)),
        "divergence": value(divergence),
    }


def _em_exactly(example: Mixture) -> dict[str, Reference]:
    with mpmath.workdps(40):
        pi, c0 = _pi_mp(example), differences.in_mpmath(example.costs)
        c1 = differences.in_mpmath(example.costs + example.change)
        l0, l1 = _loss_mp(pi, c0), _loss_mp(pi, c1)
        rows = [(p * mpmath.exp(-x + l0), p * mpmath.exp(-y + l1), y - x) for p, x, y in zip(pi, c0, c1, strict=True)]
        return {
            "loss": _scalar(l1 - l0),
            "loss change": _scalar(l1 - l0),
            "cost": _scalar(sum(r * d for r, _, d in rows)),
            "divergence": _scalar(sum(r * mpmath.log(r / s) for r, s, _ in rows if r)),
        }


EM_IDENTITY = (Oracle("forward jets", _em), Oracle("40-digit logarithms", _em_exactly))


def _e_step(example: Stepped) -> dict[str, Reference]:
    head = example.head
    a0 = forward.run_head(head)["a"]
    b = matmul_t(constant(head.u), constant(head.v))
    hidden = 1 - head.visible.astype(float)
    mass = a0 * (b * -example.eta).exp()
    a = mass / mass.sum(-1)[..., None]
    divergence = a * ((a + hidden).log() - (a0 + hidden).log())
    minimum = (a * b + divergence * (1 / example.eta)).sum(-1)
    return {"a": value(a), "minimum": value(minimum[0])}


def _e_step_newton(example: Stepped) -> dict[str, Reference]:
    """Newton's method in 40 digits for min a.b + KL(a || a0)/eta on the simplex: it knows the objective only."""
    head = example.head
    with mpmath.workdps(40):
        s = [[mpmath.mpf(x) for x in row] for row in head.scores()]
        start = loops.weights(s, head.visible.tolist(), mpmath.exp)
        b = differences.products_of(differences.in_mpmath(head.u), differences.in_mpmath(head.v))
        eta = mpmath.mpf(example.eta)
        rows, minima = [], []
        for a0, costs in zip(start, b, strict=True):
            keys = [j for j, w in enumerate(a0) if w]
            a = _newton([a0[j] for j in keys], [costs[j] for j in keys], eta)
            minima.append(sum(x * costs[j] + x * mpmath.log(x / a0[j]) / eta for x, j in zip(a, keys, strict=True)))
            full = [0.0] * len(a0)
            for x, j in zip(a, keys, strict=True):
                full[j] = float(x)
            rows.append(full)
        return {"a": Reference(np.array(rows)), "minimum": _scalar(minima[0])}


def _newton(a0: list[Any], b: list[Any], eta: Any) -> list[Any]:
    """Damped Newton steps that keep sum a = 1 and a > 0."""
    a = list(a0)
    for _ in range(200):
        gradient = [cost + (mpmath.log(x / y) + 1) / eta for x, y, cost in zip(a, a0, b, strict=True)]
        # The Hessian is diag(1 / (eta a)); the multiplier makes the step sum to 0.
        multiplier = sum(x * g for x, g in zip(a, gradient, strict=True)) / sum(a)
        step = [-eta * x * (g - multiplier) for x, g in zip(a, gradient, strict=True)]
        size = max(abs(d / x) for d, x in zip(step, a, strict=True))
        damp = min(mpmath.mpf(1), mpmath.mpf("0.9") / size) if size else mpmath.mpf(1)
        a = [x + damp * d for x, d in zip(a, step, strict=True)]
        if size < mpmath.mpf(10) ** -18:
            return a
    raise AssertionError("Newton's method did not converge")


E_STEP = (Oracle("forward jets", _e_step), Oracle("Newton's method in 40 digits", _e_step_newton))


def surrogate(a: np.ndarray, u: np.ndarray, v: Jet, v0: np.ndarray, eta: float) -> Jet:
    """sum_ij a_ij u_i.v_j + |v - v0|^2 / (2 eta)."""
    pull = constant(a.T @ u)
    pull.ex = 4 * len(a) * (np.abs(a).T @ np.abs(u)) + 32 * (np.abs(a).T @ np.abs(u))
    away = v - v0
    return (pull * v).sum(-2, -1) + (away * away).sum(-2, -1) * (0.5 / eta)


def _m_step(example: Stepped) -> dict[str, Reference]:
    """One Newton step from v0 on the quadratic surrogate; its Hessian is I / eta."""
    head = example.head
    gradient, bound = forward.gradients(head, "v")["v"]
    v = head.v - example.eta * gradient
    off = example.eta * bound + np.abs(example.eta * gradient) + np.abs(v)
    least = surrogate(head.weights(), head.u, Jet(v, None, off), head.v, example.eta)
    return {"v": Reference(v, off), "minimum": value(least)}


def _m_step_torch(example: Stepped) -> dict[str, Reference]:
    """The minimiser by gradient and Hessian from double backward."""
    head = example.head
    a, u = reverse.run_head(head)["a"].detach(), torch.from_numpy(head.u)
    v0 = torch.from_numpy(head.v)
    v = v0.clone().requires_grad_()

    def objective(x: torch.Tensor) -> torch.Tensor:
        return (a[:, :, None] * u[:, None, :] * x[None]).sum() + ((x - v0) ** 2).sum() / (2 * example.eta)

    (first,) = torch.autograd.grad(objective(v), v, create_graph=True)
    hessian = torch.stack([torch.autograd.grad(x, v, retain_graph=True)[0].reshape(-1) for x in first.reshape(-1)])
    best = v0 - torch.linalg.solve(hessian, first.detach().reshape(-1)).reshape(v0.shape)
    return {"v": Reference(best.numpy()), "minimum": Reference(objective(best).numpy())}


M_STEP = (
    Oracle("forward jets, Newton step", _m_step),
    Oracle("PyTorch double backward, linear solve", _m_step_torch),
)


def _clusters(example: Clusters) -> dict[str, Reference]:
    pi = constant(example.priors.astype(float))
    mass = (matmul_t(constant(example.q), constant(example.k)) * example.scale).exp() * pi
    r = mass / mass.sum(-1)[..., None]
    # Squared distances are as large as |q|^2 + |k|^2, not as the product q.k.
    size = example.scale * ((example.q**2).sum(-1)[:, None] + (example.k**2).sum(-1)[None])
    bound = r.ex + 4 * r.x * (size + (r.x * size).sum(-1, keepdims=True))
    return {"r": Reference(r.x, bound), "first row": Reference(r.x[0], bound[0])}


def _clusters_by_density(example: Clusters) -> dict[str, Reference]:
    """Bayes' rule for Gaussian densities in 30 digits."""
    with mpmath.workdps(30):
        scale, rows = mpmath.mpf(example.scale), []
        for q in example.q:
            mass = []
            for k, prior in zip(example.k, example.priors, strict=True):
                length = sum(mpmath.mpf(x) ** 2 for x in k)
                distance = sum((mpmath.mpf(x) - mpmath.mpf(y)) ** 2 for x, y in zip(q, k, strict=True))
                weight = int(prior) * mpmath.exp(scale * length / 2)
                mass.append(weight * mpmath.exp(-scale * distance / 2))
            rows.append([float(x / sum(mass)) for x in mass])
        return {"r": Reference(np.array(rows)), "first row": Reference(np.array(rows[0]))}


def _clusters_torch(example: Clusters) -> dict[str, Reference]:
    q, k, pi = (torch.from_numpy(np.asarray(x, dtype=float)) for x in (example.q, example.k, example.priors))
    r = torch.softmax(example.scale * (q @ k.mT) + pi.log(), -1).numpy()
    return {"r": Reference(r), "first row": Reference(r[0])}


CLUSTERS = (
    Oracle("forward jets, softmax with log priors", _clusters),
    Oracle("Gaussian densities in 30 digits", _clusters_by_density),
    Oracle("PyTorch softmax with log priors", _clusters_torch),
)


def _witness(example: Rate) -> dict[str, Reference]:
    """The four losses in 40 digits, each gradient a central difference of the loss."""
    with mpmath.workdps(differences.DIGITS):
        eta = mpmath.mpf(example.eta)
        w, V = min(mpmath.mpf(1), 1 / mpmath.sqrt(eta)), max(mpmath.mpf(4), 4 / eta)
        h = mpmath.mpf(10) ** -16

        def loss(v: list[Any], s: list[Any]) -> Any:
            mass = [mpmath.exp(x) for x in s]
            g = sum(x * y for x, y in zip(mass, v, strict=True)) / sum(mass)
            return mpmath.log(1 + mpmath.exp(w * g) + mpmath.exp(-w * g))

        def gradient(f: Any, x: list[Any]) -> list[Any]:
            out = []
            for j in range(len(x)):
                ahead, behind = list(x), list(x)
                ahead[j], behind[j] = x[j] + h, x[j] - h
                out.append((f(ahead) - f(behind)) / (2 * h))
            return out

        v, s = [(1 + V) / w, (1 - V) / w], [mpmath.mpf(0)] * 2
        stepped = [x - eta * d for x, d in zip(v, gradient(lambda y: loss(y, s), v), strict=True)]
        plain = [x - eta * d for x, d in zip(s, gradient(lambda y: loss(stepped, y), s), strict=True)]
        # dL/da at free weights: L as a function of a, both weights moved on their own.
        at = sum(stepped) / 2
        u = (w * mpmath.exp(w * at) - w * mpmath.exp(-w * at)) / (1 + mpmath.exp(w * at) + mpmath.exp(-w * at))
        natural = [-eta * u * x for x in stepped]
        losses = [loss(v, s), loss(stepped, s), loss(stepped, plain), loss(stepped, natural)]
        # Each loss is convex in g with slope at most w: its rounding is that of w g, the largest number on the way.
        size = float(w) * max(abs(float(x)) for x in (*v, *stepped)) + 1
        move = float(max(abs(x) for x in (*plain, *natural)))
        values, W_O = np.array([[float(x)] for x in v]), np.array([[0.0, float(w), -float(w)]])
        return {
            "losses": Reference(np.array([float(x) for x in losses]), np.full(4, 64 * size * (1 + move))),
            "v": Reference(values, 4 * np.abs(values)),
            "W_O": Reference(W_O, 4 * np.abs(W_O)),
        }


def _witness_torch(example: Rate) -> dict[str, Reference]:
    eta = example.eta
    w, V = min(1.0, eta**-0.5), max(4.0, 4 / eta)
    W = torch.tensor([0.0, w, -w], dtype=torch.float64)

    def loss(v: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy((a @ v) * W, torch.tensor(0))

    v = torch.tensor([(1 + V) / w, (1 - V) / w], dtype=torch.float64, requires_grad=True)
    s = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    start = loss(v, torch.softmax(s, -1))
    stepped = (v - eta * torch.autograd.grad(start, v)[0]).detach()
    a = torch.softmax(s, -1)
    after = loss(stepped, a)
    ds, da = torch.autograd.grad(after, (s, a))
    plain = loss(stepped, torch.softmax(s - eta * ds, -1))
    natural = loss(stepped, torch.softmax(s - eta * da, -1))
    return {"losses": Reference(torch.stack((start, after, plain, natural)).detach().numpy())}


WITNESS = (Oracle("losses in 50 digits", _witness), Oracle("PyTorch reverse mode", _witness_torch))


def _minorant(example: Moved) -> dict[str, Reference]:
    said = forward.cross_entropy(example.logits)
    loss, gradient = Jet(said["L"][0], None, said["L"][1]), Jet(said["z"][0], None, said["z"][1])
    away = constant(example.other) - example.logits.z
    return {"minorant": value(loss + (gradient * away).sum(-2, -1))}


def _minorant_torch(example: Moved) -> dict[str, Reference]:
    """The tangent plane of L at z, from PyTorch's own loss and its gradient."""
    said = reverse.cross_entropy(example.logits)
    return {"minorant": Reference(said["L"] + (said["z"] * (example.other - example.logits.z)).sum())}


def _minorant_pushed(example: Moved) -> dict[str, Reference]:
    """L plus its derivative along the way to the other logits."""
    loss, slope = tangents.loss_slope(example.logits, example.other - example.logits.z)
    return {"minorant": Reference(np.asarray(loss + slope))}


MINORANT = (
    Oracle("forward jets", _minorant),
    Oracle("PyTorch's cross_entropy and its gradient", _minorant_torch),
    Oracle("PyTorch forward mode along the way", _minorant_pushed),
)


def row(example: Simplex) -> tuple[list[Fraction], list[Fraction]]:
    """The first row: weights a > 0 as exact probabilities, and numbers h in eighths (in one point there is no
    variance).
    """
    return fractions(example.q[0]), [Fraction(int(x), 8) - 1 for x in example.p[0]]


def _variance(example: Simplex) -> dict[str, Reference]:
    a, h = rounded(floats(example.q)[0]), constant(numbers(row(example)[1]))
    mean = (a * h).sum(-1)
    return {"variance": value((a * h * h).sum(-1) - mean * mean)}


def _variance_pairs(example: Simplex) -> dict[str, Reference]:
    """1/2 sum_jk a_j a_k (h_j - h_k)^2 in exact fractions."""
    a, h = row(example)
    pairs = [x * y * (g - k) ** 2 for x, g in zip(a, h, strict=True) for y, k in zip(a, h, strict=True)]
    return {"variance": Reference(numbers(sum(pairs, Fraction(0)) / 2))}


VARIANCE = (
    Oracle("forward jets, mean of squares minus square of mean", _variance),
    Oracle("all pairs in exact fractions", _variance_pairs),
)


def _log_bound(example: Rate) -> dict[str, Reference]:
    t = constant(np.asarray(example.eta))
    return {"gap": value(t - 1 - t.log())}


def _log_bound_series(example: Rate) -> dict[str, Reference]:
    """t - 1 - log t as the integral of 1 - 1/x from 1 to t, in 30 digits, without a logarithm."""
    with mpmath.workdps(30):
        t, points, at = mpmath.mpf(example.eta), [mpmath.mpf(1)], mpmath.mpf(1)
        while abs(mpmath.mpf(t) / at - 1) > 1:
            at = at * 2 if t > at else at / 2
            points.append(at)
        return {"gap": _scalar(mpmath.quad(lambda x: 1 - 1 / x, [*points, t]) if t != 1 else 0)}


LOG_BOUND = (Oracle("forward jets", _log_bound), Oracle("an integral without logarithms", _log_bound_series))
