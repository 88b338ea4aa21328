"""Softmax and cross-entropy: Jacobian, adjoint, gradient in the logits."""

from __future__ import annotations

from typing import Any

import numpy as np

import bayesgrad
from bayesgrad.testing.examples import Head, Logits
from bayesgrad.testing.strategies import heads, logits
from checks.oracles.heads import CROSS_ENTROPY, INFORMATION, SHIFTED, SOFT_TARGETS, SOFTMAX_JACOBIAN, shift
from checks.registry import checks


def with_shift(head: Head) -> dict[str, Any]:
    """The head's letters, and the shift c."""
    return {**head.tensors(), "c": shift(head)[:, 0]}


@checks("softmax.shift-invariance", oracle=SHIFTED, given=heads(), states={"shift": "a"}, letters=with_shift)
def check_shift_invariance(head: Head) -> dict[str, Any]:
    """softmax(s_i + c_i) = softmax(s_i); so for its logarithm, and log sum exp moves by c_i."""
    moved, c = head.scores() + shift(head), shift(head)
    with np.errstate(invalid="ignore"):
        log_a = np.where(head.visible, bayesgrad.log_softmax(moved, mask=head.mask), 0.0)
    return {
        "a": bayesgrad.softmax(moved, mask=head.mask),
        "log a": log_a,
        "log sum exp": bayesgrad.logsumexp(moved, mask=head.mask) - c[:, 0],
    }


@checks("softmax.fisher", oracle=INFORMATION, given=heads(), states={"jacobian": "F", "information": "F"})
def check_fisher(head: Head) -> dict[str, Any]:
    """diag(a) - a a^T is the Fisher information of the categorical in its scores."""
    return {"F": bayesgrad.fisher(bayesgrad.softmax(head.scores(), mask=head.mask))}


@checks("softmax.jacobian", oracle=SOFTMAX_JACOBIAN, given=heads(), states={"jacobian": "jacobian"})
def check_softmax_jacobian(head: Head) -> dict[str, Any]:
    """da_ij / ds_lk = [i = l] a_ij ([j = k] - a_ik): one Fisher matrix a query, zeros elsewhere."""
    a = bayesgrad.softmax(head.scores(), mask=head.mask)
    n, m = a.shape
    jacobian = np.zeros((n, m, n, m))
    jacobian[np.arange(n), :, np.arange(n), :] = bayesgrad.fisher(a)
    return {"jacobian": jacobian}


@checks("loss.logit-gradient", oracle=CROSS_ENTROPY, given=logits(), states={"soft": "z", "smoothed": "z"})
def check_logit_gradient(example: Logits) -> dict[str, Any]:
    """dL/dz_i = tau_i p_i - t_i, with PyTorch's class weights, smoothing and mean."""
    return loss_and_gradient(example)


def loss_and_gradient(example: Logits) -> dict[str, Any]:
    """L and dL/dz from ``cross_entropy``."""
    loss, gradient = bayesgrad.cross_entropy(
        example.z,
        example.targets,
        reduction=example.reduction,
        class_weights=example.class_weights,
        label_smoothing=example.label_smoothing,
    )
    return {"L": np.asarray(loss), "z": gradient}


@checks(
    "loss.logit-gradient",
    oracle=CROSS_ENTROPY,
    given=logits(class_weights=False, smoothing=False),
    states={"hard": "z", "soft": "z"},
    share=0.5,
)
def check_hard_targets(example: Logits) -> dict[str, Any]:
    """dL/dz_i = w_i (p_i - e_{y_i}), w_i = 1 or 1/N, 0 where ignored."""
    return loss_and_gradient(example)


@checks("loss.logit-gradient", oracle=SOFT_TARGETS, given=logits(ignored=False), share=0.5)
def check_soft_targets(example: Logits) -> dict[str, Any]:
    """dL/dz_i = tau_i p_i - t_i for any targets t, their sum and, position by position, their loss; the mean over n."""
    t = np.abs(example.soft_targets() + example.z / 4)
    total = bayesgrad.cross_entropy(example.z, t, reduction="sum")
    mean = bayesgrad.cross_entropy(example.z, t, reduction="mean")
    each = bayesgrad.cross_entropy(example.z, t, reduction="none")
    return {
        "L": np.asarray(total.loss),
        "z": total.logit_gradient,
        "mean L": np.asarray(mean.loss) * len(t),
        "mean z": mean.logit_gradient * len(t),
        "losses": each.loss,
        "none z": each.logit_gradient,
    }
