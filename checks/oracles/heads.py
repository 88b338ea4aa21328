"""The oracles of bayesgrad.testing, bound to what the checks of softmax and of one head ask about."""

from __future__ import annotations

import mpmath
import numpy as np
import torch

from bayesgrad.testing.engine import Oracle, Reference, named, unbounded
from bayesgrad.testing.examples import Head, Logits
from bayesgrad.testing.jets import constant, leaf, matmul_t
from bayesgrad.testing.oracles import differences, forward, loops, reverse


def head_gradients(*names: str) -> tuple[Oracle, ...]:
    """Three ways to dL/d(name) of a head: forward jets (with bounds), reverse mode, differences in 50 digits."""

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
        Oracle("differences in 50 digits", by_differences),
    )


def visible_only(oracles: tuple[Oracle, ...]) -> tuple[Oracle, ...]:
    """The same oracles, asked about dL/da at visible pairs only (0 elsewhere)."""

    def restrict(oracle: Oracle) -> Oracle:
        def of(head: Head) -> dict[str, Reference]:
            said, seen = dict(oracle.of(head)), head.visible.astype(float)
            a = said["a"]
            if a.direction is not None:
                del said["a"]
            else:
                said["a"] = Reference(a.value * seen, None if a.bound is None else a.bound * seen)
            return said

        return Oracle(oracle.name, of)

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
)


def _logits_by_differences(logits: Logits) -> dict[str, Reference]:
    direction = differences.direction_for(logits.z.shape)
    derivative = differences.directional(differences.logit_loss(logits, direction))
    return {"z": Reference(np.asarray(smooth(*derivative)), direction=direction)}


CROSS_ENTROPY = (
    Oracle("forward jets", lambda logits: named(forward.cross_entropy(logits))),
    Oracle("PyTorch's cross_entropy", lambda logits: unbounded(reverse.cross_entropy(logits))),
    Oracle("differences in 50 digits", _logits_by_differences),
)


def shift(head: Head) -> np.ndarray:
    """One shift a query, far from 0 and different for each."""
    return 3.0 * head.u.sum(-1, keepdims=True) + 5.0


def _shifted_forward(head: Head) -> dict[str, Reference]:
    e = (constant(head.scores()) + shift(head)).exp() * head.visible.astype(float)
    a = e / e.sum(-1)[..., None]
    return {"a": Reference(a.x, a.ex)}


def _by_loops(head: Head) -> dict[str, Reference]:
    with mpmath.workdps(30):
        rows = loops.weights([[mpmath.mpf(x) for x in row] for row in head.scores()], head.visible.tolist(), mpmath.exp)
        return {"a": Reference(np.array([[float(x) for x in row] for row in rows]))}


SHIFTED = (
    Oracle("forward jets, shifted", _shifted_forward),
    Oracle("loops in 30 digits, not shifted", _by_loops),
    Oracle("PyTorch, not shifted", lambda head: unbounded({"a": reverse.run_head(head)["a"].detach().numpy()})),
)


def _mean_forward(head: Head) -> dict[str, Reference]:
    stage = forward.run_head(head)
    bbar = (stage["a"] * matmul_t(constant(head.u), stage["v"]) * head.multiplier).sum(-1)
    return {"bbar": Reference(bbar.x, bbar.ex)}


def _mean_reverse(head: Head) -> dict[str, Reference]:
    graph = reverse.run_head(head)
    (gradient,) = torch.autograd.grad(graph["L"], graph["a"])
    return {"bbar": Reference((graph["a"] * gradient).sum(-1).detach().numpy())}


MEAN_COMPATIBILITY = (
    Oracle("forward jets, sum_k a_ik b_ik", _mean_forward),
    Oracle("PyTorch reverse mode, sum_k a_ik dL/da_ik", _mean_reverse),
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
)
