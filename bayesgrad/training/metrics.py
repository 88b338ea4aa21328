r"""Distances between what the model says and what Bayes says, per sequence first and averaged afterwards.

.. math:: \mathrm{KL} = \sum_c p_c \log_2 \frac{p_c}{q_c}, \quad \mathrm{TV} = \tfrac12 \sum_c |p_c - q_c|, \quad
          \mathrm{MAE} = |H(p) - H(q)|

with p exact, q the model. KL in bits equals the expected excess cross-entropy; the entropy error alone is blind to a
model that is confidently wrong. ``excluded`` is the mass that q leaves on outcomes that p rules out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

TINY = 1e-300


def entropy(p: np.ndarray) -> np.ndarray:
    """Entropy in bits along the last axis."""
    return np.asarray(-np.where(p > 0, p * np.log2(np.maximum(p, TINY)), 0.0).sum(-1))


def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """KL(p || q) in bits along the last axis; a q of zero counts as 1e-300, so that the figure stays finite."""
    ratio = np.log2(np.where(p > 0, p, 1.0)) - np.log2(np.maximum(q, TINY))
    return np.asarray(np.where(p > 0, p * ratio, 0.0).sum(-1))


def predictive_metrics(bayes: np.ndarray, model: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Metrics of one sequence: ``bayes`` and ``model`` (n, C), rows summing to 1; ``targets`` (n,)."""
    nats = -np.log(np.maximum(np.take_along_axis(model, targets[..., None], -1), TINY))
    return {
        "loss_nats": float(nats.mean()),
        "kl_bits": float(divergence(bayes, model).mean()),
        "entropy_mae_bits": float(np.abs(entropy(bayes) - entropy(model)).mean()),
        "total_variation": float(0.5 * np.abs(bayes - model).sum(-1).mean()),
        "excluded": float(np.where(bayes > 0, 0.0, model).sum(-1).mean()),
    }


def average(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each metric over sequences."""
    rows = list(rows)
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
