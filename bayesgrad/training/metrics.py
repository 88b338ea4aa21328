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


def predictive_metrics(bayes: np.ndarray, model: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Metrics of one sequence: ``bayes`` and ``model`` (n, C), rows summing to 1; ``targets`` (n,)."""
    log_q = np.log2(np.maximum(model, TINY))
    log_p = np.log2(np.where(bayes > 0, bayes, 1.0))
    kl = np.where(bayes > 0, bayes * (log_p - log_q), 0.0).sum(-1)
    entropy_p = -(bayes * log_p).sum(-1)
    entropy_q = -np.where(model > 0, model * log_q, 0.0).sum(-1)
    nats = -np.log(np.maximum(np.take_along_axis(model, targets[..., None], -1), TINY))
    return {
        "loss_nats": float(nats.mean()),
        "kl_bits": float(kl.mean()),
        "entropy_mae_bits": float(np.abs(entropy_p - entropy_q).mean()),
        "total_variation": float(0.5 * np.abs(bayes - model).sum(-1).mean()),
        "excluded": float(np.where(bayes > 0, 0.0, model).sum(-1).mean()),
    }


def average(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each metric over sequences."""
    rows = list(rows)
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
