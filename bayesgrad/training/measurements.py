"""What is measured about a model while it trains: held-out distances to Bayes, and what attention looks like."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from bayesgrad.training import model
from bayesgrad.training.data import HeldOut
from bayesgrad.training.metrics import average, predictive_metrics
from bayesgrad.training.model import Parameters


def normalised_entropy(a: Tensor) -> float:
    """Mean over rows of H(a_i) / log(number of visible keys); rows that see one key say nothing and are left out."""
    entropy = -torch.special.xlogy(a, a).sum(-1)[..., 1:]
    visible = torch.arange(2, a.shape[-2] + 1, dtype=a.dtype)
    return float((entropy / visible.log()).mean())


def evaluate(parameters: Parameters, held_out: list[HeldOut], train_x: Tensor) -> dict[str, Any]:
    """Held-out metrics by sequence and then averaged, and the normalised attention entropy on the training input."""
    rows = []
    for held in held_out:
        probabilities = torch.softmax(model.kernel_logits(parameters, held.batch.x).double(), -1).numpy()
        rows.append(predictive_metrics(held.bayes, probabilities, held.batch.targets.numpy()))
    out: dict[str, Any] = {f"held_out_{name}": value for name, value in average(rows).items()}
    out["attention_entropy"] = normalised_entropy(model.weights(parameters, train_x))
    return out


def value_geometry(parameters: Parameters, means: Tensor) -> dict[str, Any]:
    """Principal components of the values mu_c W_V of the C noiseless symbols: shares of variance, coordinates."""
    v = (means @ parameters["W_V"]).double()
    v = v - v.mean(0)
    u, s, _ = torch.linalg.svd(v, full_matrices=False)
    share = (s**2 / (s**2).sum()).tolist()
    points = u[:, :2] * s[:2]
    # a component's sign is arbitrary: its largest coordinate is made positive
    points = points * torch.sign(points.gather(0, points.abs().argmax(0, keepdim=True)))
    return {"pc1_share": share[0], "pc1_pc2_share": share[0] + share[1], "points": points.tolist()}


def advantage_map(parameters: Parameters, x: Tensor, targets: Tensor, size: int) -> dict[str, Any]:
    """N * A_ij on the first ``size`` positions (N positions, mean loss: without the 1/N every entry looks like
    zero)."""
    a = model.weights(parameters, x)
    v = x @ parameters["W_V"]
    g = a @ v
    p = torch.softmax(g @ parameters["W_O"], -1)
    p[torch.arange(len(targets)), targets] -= 1
    u = p @ parameters["W_O"].mT
    b = u @ v.mT
    A = (a * b).sum(-1, keepdim=True) - b
    A = torch.where(model.causal(len(x)), A, torch.zeros_like(A))
    return {
        "unit": "nats per unit of weight, times N",
        "advantage": [[round(entry, 5) for entry in row[:size]] for row in A[:size].tolist()],
        "weights": [[round(entry, 5) for entry in row[:size]] for row in a[:size].tolist()],
    }


def log_symbols(symbols: int) -> float:
    """The loss of the uniform answer, in nats."""
    return math.log(symbols)
