"""Softmax and cross-entropy: Jacobian, adjoint, gradient in the logits."""

from __future__ import annotations

from typing import Any

import numpy as np

import bayesgrad
from bayesgrad.testing.examples import Head, Logits
from bayesgrad.testing.strategies import heads, logits
from checks.oracles import CROSS_ENTROPY, SOFTMAX_JACOBIAN
from checks.registry import checks


@checks("softmax.jacobian", oracle=SOFTMAX_JACOBIAN, given=heads(), states="jacobian")
def check_softmax_jacobian(head: Head) -> dict[str, Any]:
    """da_ij / ds_lk = [i = l] a_ij ([j = k] - a_ik): one Fisher matrix a query, zeros elsewhere."""
    a = bayesgrad.softmax(head.scores(), mask=head.mask)
    n, m = a.shape
    jacobian = np.zeros((n, m, n, m))
    jacobian[np.arange(n), :, np.arange(n), :] = bayesgrad.fisher(a)
    return {"jacobian": jacobian}


@checks("loss.logit-gradient", oracle=CROSS_ENTROPY, given=logits(), states="z")
def check_logit_gradient(example: Logits) -> dict[str, Any]:
    """dL/dz_i = tau_i p_i - t_i, with PyTorch's class weights, smoothing and mean."""
    loss, gradient = bayesgrad.cross_entropy(
        example.z,
        example.targets,
        reduction=example.reduction,
        class_weights=example.class_weights,
        label_smoothing=example.label_smoothing,
    )
    return {"L": np.asarray(loss), "z": gradient}
