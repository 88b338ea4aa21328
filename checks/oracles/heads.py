"""The oracles of bayesgrad.testing, bound to the quantities of the checks of softmax and of one head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import numpy as np
import torch

from bayesgrad.testing.engine import Oracle, Reference, named, unbounded
from bayesgrad.testing.examples import Head, Logits
from bayesgrad.testing.jets import constant, leaf, matmul_t
from bayesgrad.testing.oracles import forward, reverse
from checks.oracles import differences, loops, padded, padded_layer
from checks.oracles.outsiders import outsiders

JAX = "JAX reverse mode"


def with_jax(name: str, of: Callable[[Any], Mapping[str, np.ndarray]]) -> tuple[Oracle, ...]:
    """An oracle in JAX where that is installed; nothing, and no line in the ledger, where it is not."""
    return (Oracle(name, lambda example: unbounded(of(example))),) if padded.installed() else ()


def head_gradients(*names: str) -> tuple[Oracle, ...]:
    """dL/d(name) of a head: forward jets (with bounds), reverse mode twice, two outsiders, differences in 50 digits."""

    def by_differences(head: Head) -> dict[str, Reference]:
        pairs = head.visible.shape
        shapes = {"scale": (), "bias": pairs, "s": pairs, "a": pairs, "g": head.u.shape}
        shapes |= {name: getattr(head, name).shape for name in ("q", "k", "v")}
        found = {}
        for name in names:
            direction = differences.direction_for(shapes[name])
            slope_and_value = differences.directional(differences.head_loss(head, name, direction))
            found[name] = Reference(np.asarray(smooth(*slope_and_value)), direction=direction)
        return found

    return (
        Oracle("forward jets", lambda head: named(forward.gradients(head, *names))),
        Oracle("PyTorch reverse mode", lambda head: unbounded(reverse.gradients(head, *names))),
        *with_jax(JAX, lambda head: padded.gradients(head, *names)),
        *outsiders(*names),
        Oracle("differences in 50 digits", by_differences),
    )


def visible_only(oracles: tuple[Oracle, ...]) -> tuple[Oracle, ...]:
    """The same oracles; dL/da is compared at visible pairs only (0 elsewhere)."""

    def restrict(oracle: Oracle) -> Oracle:
        def of(head: Head) -> dict[str, Reference]:
            said, seen = dict(oracle.of(head)), head.visible.astype(float)
            a = said.get("a")
            if a is not None and a.direction is not None:
                del said["a"]
            elif a is not None:
                said["a"] = Reference(a.value * seen, None if a.bound is None else a.bound * seen)
            return said

        return Oracle(oracle.name, of, oracle.slow)

    return tuple(restrict(oracle) for oracle in oracles)


def smooth(derivative: float, slope: float) -> float:
    """The derivative, if the Taylor remainder says that it is one."""
    if slope < 1.9:
        raise AssertionError(
            f"the Taylor remainder has slope {slope:.3f}, not 2: the oracle does not know a derivative"
        )
    return derivative


SOFTMAX_JACOBIAN = (
    Oracle("forward jets", lambda head: named({"jacobian": forward.softmax_jacobian(head)})),
    Oracle("PyTorch reverse mode", lambda head: unbounded({"jacobian": reverse.softmax_jacobian(head)})),
    *with_jax("JAX, jacrev", lambda head: {"jacobian": padded.softmax_jacobian(head)}),
)


def _logits_by_differences(logits: Logits) -> dict[str, Reference]:
    direction = differences.direction_for(logits.z.shape)
    derivative = differences.directional(differences.logit_loss(logits, direction))
    return {"z": Reference(np.asarray(smooth(*derivative)), direction=direction)}


CROSS_ENTROPY = (
    Oracle("forward jets", lambda logits: named(forward.cross_entropy(logits))),
    Oracle("PyTorch's cross_entropy", lambda logits: unbounded(reverse.cross_entropy(logits))),
    *with_jax(JAX, padded_layer.cross_entropy),
    Oracle("differences in 50 digits", _logits_by_differences),
)


def shift(head: Head) -> np.ndarray:
    """One shift a query, far from 0 and different for each."""
    return 3.0 * head.u.sum(-1, keepdims=True) + 5.0


def _shifted_forward(head: Head) -> dict[str, Reference]:
    seen, c = head.visible.astype(float), shift(head)
    e = (constant(head.scores()) + c).exp() * seen
    total = e.sum(-1)
    a = e / total[..., None]
    log_a = (a + (1 - seen)).log() * seen
    moved = total.log() - c[:, 0]
    # The logarithm of a small weight is known to the roundings of the score that it comes from.
    bound = log_a.ex + 4 * seen * (np.abs(head.scores()) + np.abs(c) + np.abs(moved.x)[:, None] + 1)
    return {
        "a": Reference(a.x, a.ex),
        "log a": Reference(log_a.x, bound),
        "log sum exp": Reference(moved.x, moved.ex + 4 * np.abs(c[:, 0])),
    }


def _by_loops(head: Head) -> dict[str, Reference]:
    with mpmath.workdps(30):
        s = [[mpmath.mpf(x) for x in row] for row in head.scores()]
        rows = loops.weights(s, head.visible.tolist(), mpmath.exp)
        sums = [
            sum(mpmath.exp(x) for x, see in zip(row, seen, strict=True) if see)
            for row, seen in zip(s, head.visible, strict=True)
        ]
        return {
            "a": Reference(np.array([[float(x) for x in row] for row in rows])),
            "log a": Reference(np.array([[float(mpmath.log(x)) if x else 0.0 for x in row] for row in rows])),
            "log sum exp": Reference(np.array([float(mpmath.log(x)) for x in sums])),
        }


def _unshifted_torch(head: Head) -> dict[str, Reference]:
    seen = torch.from_numpy(head.visible)
    s = torch.where(seen, torch.from_numpy(head.scores()), -torch.inf)
    return {
        "a": Reference(torch.softmax(s, -1).numpy()),
        "log a": Reference(torch.where(seen, torch.log_softmax(s, -1), 0.0).numpy()),
        "log sum exp": Reference(torch.logsumexp(s, -1).numpy()),
    }


SHIFTED = (
    Oracle("forward jets, shifted", _shifted_forward),
    Oracle("loops in 30 digits, not shifted", _by_loops),
    Oracle("PyTorch, not shifted", _unshifted_torch),
)


def _mean_forward(head: Head) -> dict[str, Reference]:
    stage = forward.run_head(head)
    b = matmul_t(constant(head.u), stage["v"]) * head.multiplier
    bbar = (stage["a"] * b).sum(-1)
    found = {"bbar": bbar, "A": bbar[..., None] - b, "N": stage["a"].sum(-2), "g": stage["g"], "s": stage["s"]}
    return {name: Reference(jet.x, jet.ex) for name, jet in found.items()}


def _mean_reverse(head: Head) -> dict[str, Reference]:
    graph = reverse.run_head(head)
    (gradient,) = torch.autograd.grad(graph["L"], graph["a"])
    bbar = (graph["a"] * gradient).sum(-1, keepdim=True)
    found = {"bbar": bbar[..., 0], "A": bbar - gradient, "N": graph["a"].sum(-2), "g": graph["g"], "s": graph["s"]}
    return {name: Reference(x.detach().numpy()) for name, x in found.items()}


def _mean_jax(head: Head) -> dict[str, np.ndarray]:
    slopes, stage = padded.run_head(head)
    bbar = (stage["a"] * slopes["a"]).sum(-1)
    A = bbar[:, None] - slopes["a"]
    return {"bbar": bbar, "A": A, "N": stage["a"].sum(-2), "g": stage["g"], "s": stage["s"]}


MEAN_COMPATIBILITY = (
    Oracle("forward jets, sum_k a_ik b_ik", _mean_forward),
    Oracle("PyTorch reverse mode, sum_k a_ik dL/da_ik", _mean_reverse),
    *with_jax("JAX reverse mode, sum_k a_ik dL/da_ik", _mean_jax),
)


def _information_forward(head: Head) -> dict[str, Reference]:
    """sum_j a_j (d log a_j)(d log a_j)^T, a row at a time: Fisher's definition."""
    values, bounds = [], []
    for s, visible in zip(head.scores(), head.visible, strict=True):
        full, width = np.zeros((2, len(s), len(s))), np.flatnonzero(visible)
        e = leaf(s[width]).exp()
        a = e / e.sum(-1)[..., None]
        log_a = a.log()
        gradient = type(a)(log_a.dx.T, None, log_a.edx.T)  # (j, k): d log a_j / d s_k
        outer = (gradient[:, :, None] * gradient[:, None, :] * a[:, None, None]).sum(-3)
        full[:, width[:, None], width] = np.stack((outer.x, outer.ex))
        values.append(full[0])
        bounds.append(full[1])
    return {"F": Reference(np.array(values), np.array(bounds))}


def _information_double_backward(head: Head) -> dict[str, Reference]:
    """Minus the expected second derivative of log a_j; the second derivative is the same for every j."""
    found = []
    for scores, visible in zip(head.scores(), head.visible, strict=True):
        s = torch.tensor(scores, requires_grad=True)
        log_a = s - torch.where(torch.from_numpy(visible), s, -torch.inf).exp().sum().log()
        total = (torch.where(torch.from_numpy(visible), log_a.detach().exp(), 0.0) * log_a).sum()
        (first,) = torch.autograd.grad(total, s, create_graph=True)
        found.append(-torch.stack([torch.autograd.grad(x, s, retain_graph=True)[0] for x in first]).numpy())
    return {"F": Reference(np.array(found))}


def _information_is_jacobian(head: Head) -> dict[str, Reference]:
    """The Jacobian's diagonal blocks; its bounds are those of a_j - a_j^2, which cancels where a_j is near 1."""
    rows = np.arange(len(head.q))
    value, bound = (part[rows, :, rows, :] for part in forward.softmax_jacobian(head))
    return {"F": Reference(value, bound)}


INFORMATION = (
    Oracle("forward jets, Jacobian", _information_is_jacobian),
    Oracle("forward jets, expected outer product of scores", _information_forward),
    Oracle("PyTorch double backward, expected Hessian", _information_double_backward),
    *with_jax("JAX forward over reverse, expected Hessian", lambda head: {"F": padded.information(head)}),
)


def _soft(logits: Logits) -> np.ndarray:
    return np.abs(logits.soft_targets() + logits.z / 4)


def _soft_forward(logits: Logits) -> dict[str, Reference]:
    z, t = leaf(logits.z), _soft(logits)
    e = z.exp()
    losses = -((e / e.sum(-1)[..., None]).log() * t).sum(-1)
    total = losses.sum(-1)
    gradient = Reference(total.dx.reshape(t.shape), total.edx.reshape(t.shape))
    loss = Reference(total.x, total.ex)
    each = Reference(losses.x, losses.ex)
    return {"L": loss, "mean L": loss, "losses": each, "z": gradient, "mean z": gradient, "none z": gradient}


def _soft_torch(logits: Logits) -> dict[str, Reference]:
    """PyTorch's cross_entropy with probabilities as targets; it accepts rows of any total."""
    z, t = torch.tensor(logits.z, requires_grad=True), torch.from_numpy(_soft(logits))
    losses = torch.nn.functional.cross_entropy(z, t, reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), z)
    loss, slope = Reference(losses.sum().detach().numpy()), Reference(gradient.numpy())
    each = Reference(losses.detach().numpy())
    return {"L": loss, "mean L": loss, "losses": each, "z": slope, "mean z": slope, "none z": slope}


SOFT_TARGETS = (Oracle("forward jets", _soft_forward), Oracle("PyTorch's cross_entropy", _soft_torch))
