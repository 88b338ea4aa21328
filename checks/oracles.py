"""The oracles of bayesgrad.testing, bound to the quantities that the checks of attention ask about."""

from __future__ import annotations

import numpy as np

from bayesgrad.testing.engine import Oracle, Reference, named, unbounded
from bayesgrad.testing.examples import Head, Logits
from bayesgrad.testing.oracles import differences, forward, reverse


def head_gradients(*names: str) -> tuple[Oracle, ...]:
    """Three ways to dL/d(name) of a head: forward jets (with bounds), reverse mode, differences in 50 digits."""

    def by_differences(head: Head) -> dict[str, Reference]:
        shapes = {"scale": (), "bias": head.visible.shape, "s": head.visible.shape, "a": head.visible.shape}
        found = {}
        for name in names:
            direction = differences.direction_for(shapes.get(name, getattr(head, name, head.u).shape))
            slope_and_value = differences.directional(differences.head_loss(head, name, direction))
            found[name] = Reference(np.asarray(_smooth(*slope_and_value)), direction=direction)
        return found

    return (
        Oracle("forward jets", lambda head: named(forward.gradients(head, *names))),
        Oracle("PyTorch reverse mode", lambda head: unbounded(reverse.gradients(head, *names))),
        Oracle("differences in 50 digits", by_differences),
    )


def _smooth(derivative: float, slope: float) -> float:
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
    return {"z": Reference(np.asarray(_smooth(*derivative)), direction=direction)}


CROSS_ENTROPY = (
    Oracle("forward jets", lambda logits: named(forward.cross_entropy(logits))),
    Oracle("PyTorch's cross_entropy", lambda logits: unbounded(reverse.cross_entropy(logits))),
    Oracle("differences in 50 digits", _logits_by_differences),
)
