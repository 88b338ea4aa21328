r"""What is kept about a model at the end of a wind tunnel: by position, by sequence, by probability, by memory.

For exact predictives p and the model's q, both (B, L, C), everything in bits:

.. math:: \mathrm{KL}_{bt} = \sum_c p_{btc} \log_2 \frac{p_{btc}}{q_{btc}}, \qquad
          \mathrm{MAE}_{bt} = |H(p_{bt}) - H(q_{bt})|

Means over sequences give curves over t, means over t give a figure per sequence; the absolute value is always taken
first. Positions beyond the trained length stay apart from those within it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesgrad.tasks.hmm_floors import WINDOWS, equivalent_memory
from bayesgrad.training.metrics import TINY, divergence, entropy, predictive_metrics

TRACES = 4
BINS = 20
TENTH = 0.1
DIGITS = 7


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in np.asarray(values, float)]


def by_position(bayes: np.ndarray, q: np.ndarray, floors: Mapping[str, np.ndarray], trained_to: int) -> dict[str, Any]:
    """Curves over the supervised positions 1, 2, ..: entropies, their error, KL; the same of every floor."""
    exact = entropy(bayes)

    def curves(p: np.ndarray) -> dict[str, list[float]]:
        return {
            "entropy_mae_bits": _rounded(np.abs(entropy(p) - exact).mean(0)),
            "kl_bits": _rounded(divergence(bayes, p).mean(0)),
        }

    return {
        "position": list(range(1, bayes.shape[1] + 1)),
        "trained_to": trained_to,
        "uniform_bits": float(np.log2(bayes.shape[-1])),
        "exact_entropy_bits": _rounded(exact.mean(0)),
        "model_entropy_bits": _rounded(entropy(q).mean(0)),
        **curves(q),
        "total_variation": _rounded(0.5 * np.abs(bayes - q).sum(-1).mean(0)),
        "excluded": _rounded(np.where(bayes > 0, 0.0, q).sum(-1).mean(0)),
        "floors": {name: curves(guess) for name, guess in floors.items()},
    }


def constant_entropies(bayes: np.ndarray) -> dict[str, float]:
    """Entropy errors in bits of the best constant, and of the best number for each position: the medians."""
    exact = entropy(bayes)
    return {
        "best constant entropy": float(np.abs(exact - np.median(exact)).mean()),
        "best entropy by position": float(np.abs(exact - np.median(exact, axis=0)).mean()),
    }


def by_sequence(bayes: np.ndarray, q: np.ndarray) -> dict[str, Any]:
    """Each held-out sequence by itself: entropy error and KL averaged over its positions, and the share of sequences
    whose entropy error is below a tenth of what the best number per position leaves on average (null where entropy is
    a function of position, so that following a sequence means nothing)."""
    error = np.abs(entropy(bayes) - entropy(q)).mean(-1)
    kl = divergence(bayes, q).mean(-1)
    blind = constant_entropies(bayes)["best entropy by position"]
    levels = (0.5, 0.9, 0.95, 0.99, 1.0)
    return {
        "sequences": len(error),
        "position_alone_bits": blind,
        "share_followed": float((error < TENTH * blind).mean()) if blind > 1e-9 else None,
        "quantiles": {
            "level": list(levels),
            "entropy_mae_bits": _rounded(np.quantile(error, levels)),
            "kl_bits": _rounded(np.quantile(kl, levels)),
        },
    }


def traces(bayes: np.ndarray, q: np.ndarray) -> list[dict[str, Any]]:
    """The first few held-out sequences, position by position."""
    columns = (entropy(bayes), entropy(q), divergence(bayes, q))
    names = ("exact_entropy_bits", "model_entropy_bits", "kl_bits")
    return [
        {
            "position": list(range(1, bayes.shape[1] + 1)),
            **{name: _rounded(column[b]) for name, column in zip(names, columns, strict=True)},
        }
        for b in range(min(TRACES, len(bayes)))
    ]


def calibration(bayes: np.ndarray, q: np.ndarray) -> dict[str, Any]:
    """``counts[i][j]``: probabilities of all positions and outcomes with the model's in bin i, the exact one in bin
    j."""
    edges = np.linspace(0, 1, BINS + 1)
    counts, _, _ = np.histogram2d(q.ravel(), bayes.ravel(), bins=(edges, edges))
    return {"edges": [round(float(edge), 6) for edge in edges], "counts": counts.astype(int).tolist()}


def memory(bayes: np.ndarray, q: np.ndarray, floors: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """The window length whose filter is as far from exact as the model; None where the task has no windows."""
    if "stationary" not in floors:
        return None
    known = [(w, float(divergence(bayes, floors[f"window {w}"]).mean())) for w in WINDOWS if w < bayes.shape[1]]
    windows, levels = [w for w, _ in known], [level for _, level in known]
    kl, stationary = float(divergence(bayes, q).mean()), float(divergence(bayes, floors["stationary"]).mean())
    found = equivalent_memory(kl, windows, levels, stationary)
    return {
        "kl_bits": kl,
        "equivalent_memory": found.observations,
        "relation": found.relation,
        "at_least": found.relation == ">=",
        "windows": windows,
        "window_kl_bits": _rounded(np.array(levels)),
        "stationary_kl_bits": stationary,
    }


def excess(bayes: np.ndarray, q: np.ndarray, outcomes: np.ndarray) -> dict[str, float]:
    """Excess cross-entropy over the exact predictive on the outcomes that came, minus the KL that it should equal on
    average, in bits: mean over sequences, its standard error, and their ratio z.

    An exact predictive that is wrong anywhere the model is not would show here.
    """
    at = outcomes[..., None]
    said, exact = (np.take_along_axis(each, at, -1)[..., 0] for each in (q, bayes))
    gap = (np.log2(np.maximum(exact, TINY)) - np.log2(np.maximum(said, TINY)) - divergence(bayes, q)).mean(-1)
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    return {"mean_bits": float(gap.mean()), "error_bits": error, "z": float(gap.mean() / max(error, TINY))}


def measure(
    bayes: np.ndarray, q: np.ndarray, targets: np.ndarray, floors: Mapping[str, np.ndarray], trained_to: int
) -> dict[str, Any]:
    """All of it for held-out sequences: exact and model predictives (B, L, C), outcomes (B, L), floors (B, L, C)."""
    near = slice(0, trained_to)
    within = {name: guess[:, near] for name, guess in floors.items()}
    table: dict[str, Any] = {
        name: predictive_metrics(bayes[:, near], guess, targets[:, near]) for name, guess in within.items()
    }
    table["exact"] = predictive_metrics(bayes[:, near], bayes[:, near], targets[:, near])
    for name, value in constant_entropies(bayes[:, near]).items():
        table[name] = {"entropy_mae_bits": value}
    ranges = {"in_range": predictive_metrics(bayes[:, near], q[:, near], targets[:, near])}
    if bayes.shape[1] > trained_to:
        far = slice(trained_to, None)
        ranges["beyond"] = predictive_metrics(bayes[:, far], q[:, far], targets[:, far])
    return {
        "by_position": by_position(bayes, q, floors, trained_to),
        "by_sequence": by_sequence(bayes[:, near], q[:, near]),
        "ranges": ranges,
        "excess": excess(bayes[:, near], q[:, near], targets[:, near]),
        "traces": traces(bayes, q),
        "calibration": calibration(bayes[:, near], q[:, near]),
        "memory": memory(bayes[:, near], q[:, near], within),
        "facts": {"floors": table},
    }
