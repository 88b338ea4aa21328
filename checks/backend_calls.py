"""What :mod:`checks.check_backends` calls: every array function, on the data of one example of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import bayesgrad
from bayesgrad import bayes, block, dynamics, em, gradients
from bayesgrad.testing.examples import Example, Head, Layer
from bayesgrad.testing.models import Hmm, NoisyChain, Pairs, Sequences, Simplex, floats
from bayesgrad.testing.strategies import heads, hmms, layers, noisy_chains, pairs, sequences, simplices

Arguments = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]


def of_head(head: Head) -> dict[str, Arguments]:
    """Calls on the parts of one head."""
    t = head.tensors()
    q, k, v, u, a, b, s, g = (t[name] for name in "qkvuabsg")
    mask = head.visible
    pairs = {"mask": mask, "bias": t["beta"], "dropout": t["D"]}
    priors, ds = t["M"] + 0.5, a * (b - t["bbar"][:, None])
    dw = np.cos(np.arange(k.shape[0] * 3.0)).reshape(-1, 3)
    return {
        "softmax": (bayesgrad.softmax, (s,), {"mask": mask}),
        "log_softmax": (bayesgrad.log_softmax, (s,), {}),
        "logsumexp": (bayesgrad.logsumexp, (s,), {"mask": mask}),
        "fisher": (bayesgrad.fisher, (a,), {}),
        "attention": (bayesgrad.attention, (q, k, v), {**pairs, "scale": 0.75}),
        "attention, plain": (bayesgrad.attention, (q, k, v), {}),
        "attention_gradients": (bayesgrad.attention_gradients, (q, k, v, u), {**pairs, "scale": 0.75}),
        "attention_gradients, plain": (bayesgrad.attention_gradients, (q, k, v, u), {}),
        "attention_gradients, masked": (bayesgrad.attention_gradients, (q, k, v, u), {"mask": mask}),
        "attention_jvp": (
            bayesgrad.attention_jvp,
            (q, k, v),
            {**pairs, "q_tangent": 0.5 * q, "k_tangent": -k, "v_tangent": 0.25 * v, "bias_tangent": t["beta"]},
        ),
        "attention_gradients_jvp": (
            bayesgrad.attention_gradients_jvp,
            (q, k, v, u),
            {**pairs, "scale": 0.75, "q_tangent": -q, "v_tangent": 0.5 * v, "u_tangent": 0.25 * u},
        ),
        "attention_double_backward": (
            bayesgrad.attention_double_backward,
            (q, k, v, u),
            {**pairs, "scale": 0.75, "d_queries": 0.5 * q, "d_keys": -0.25 * k, "d_values": v},
        ),
        "compatibility": (bayesgrad.compatibility, (u, v), {}),
        "advantage": (bayesgrad.advantage, (a, b), {}),
        "score_gradient": (bayesgrad.score_gradient, (a, b), {}),
        "mean_compatibility": (gradients.mean_compatibility, (u, g), {}),
        "effective_count": (bayesgrad.effective_count, (a,), {}),
        "value_gradient": (bayesgrad.value_gradient, (a, u), {}),
        "query_gradient": (bayesgrad.query_gradient, (ds, k), {"scale": -0.5}),
        "key_gradient": (bayesgrad.key_gradient, (ds, q), {"scale": -0.5}),
        "loss_decrease": (dynamics.loss_decrease, (q, k, v), {"eta": 0.5}),
        "loss_change, sum": (dynamics.loss_change, (q, 0.5 * q), {}),
        "value_step": (dynamics.value_step, (a, u), {"eta": 0.5}),
        "score_step": (dynamics.score_step, (a, u, v), {"eta": 0.5}),
        "feedback": (dynamics.feedback, (a, u), {"eta": 0.5}),
        "weight_space_value_step": (dynamics.weight_space_value_step, (k, v), {"eta": 0.5, "bias": True}),
        "natural_direction": (dynamics.natural_direction, (b,), {"mask": mask}),
        "natural_direction, plain": (dynamics.natural_direction, (b,), {}),
        "replicator_velocity": (dynamics.replicator_velocity, (a, b), {}),
        "replicator_step": (dynamics.replicator_step, (a, b), {"eta": 0.5}),
        "saturation_bound": (dynamics.saturation_bound, (a, b), {"mask": mask}),
        "saturation_bound, plain": (dynamics.saturation_bound, (a, b), {}),
        "frame_precision_bound": (dynamics.frame_precision_bound, (a, b), {"mask": mask}),
        "proximal_e_step": (em.proximal_e_step, (a, b), {"eta": 0.5}),
        "proximal_m_step": (em.proximal_m_step, (v, a, u), {"eta": 0.5}),
        "mixture_loss": (em.mixture_loss, (a, b), {}),
        "mixture_responsibilities": (em.mixture_responsibilities, (a, b), {}),
        "mixture_loss_change": (em.mixture_loss_change, (a, b, s), {}),
        "em_identity": (em.em_identity, (a, b, s), {}),
        "gaussian_mixture": (
            em.gaussian_mixture_responsibilities,
            (q, k),
            {"priors": priors[0], "scale": 0.5},
        ),
        "entropy": (bayes.entropy, (a,), {"units": "bits"}),
        "posterior": (bayes.posterior, (a, b), {}),
        "posterior_predictive": (bayes.posterior_predictive, (a[:, None, :], _rows(dw, len(a))), {}),
        "soft targets": (bayesgrad.cross_entropy, (s, a), {"reduction": "sum"}),
    }


def _rows(x: np.ndarray, n: int) -> np.ndarray:
    p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    return np.broadcast_to(p, (n, 1, *p.shape)).copy()


def of_layer(layer: Layer) -> dict[str, Arguments]:
    """Calls on a layer with several heads."""
    names = ("W_Q", "W_K", "W_V", "W_O")
    t = layer.tensors()
    shared = {name: layer.bias(name) for name in ("c_Q", "c_K", "c_V", "c_O")}
    options = {"y": layer.memory, "mask": layer.visible[None], "heads": layer.heads, "kv_heads": layer.kv_heads}
    weights = tuple(getattr(layer, name) for name in names)
    q, k, v, u = t["q"], t["k"], t["v"], t["u"]
    every = np.repeat(layer.visible[None], layer.heads, axis=0)
    back = (t["a"] @ np.repeat(k, layer.heads // layer.kv_heads, 0))[0], k[0], v[0]
    return {
        "block": (
            block.attention_block_gradients,
            (layer.x, *weights, layer.targets),
            {**options, **shared, "reduction": "sum", "scale": 0.5},
        ),
        "block, soft targets": (
            block.attention_block_gradients,
            (layer.x, *weights, np.abs(t["z"]) + 0.25),
            {"y": layer.memory, "heads": layer.heads, "kv_heads": layer.kv_heads, "reduction": "sum"},
        ),
        "grouped": (bayesgrad.grouped_attention, (q, k, v), {"mask": every}),
        "grouped gradients": (bayesgrad.grouped_attention_gradients, (q, k, v, u), {"mask": every}),
        "split": (bayesgrad.split_heads, (layer.x @ layer.W_Q,), {"heads": layer.heads}),
        "merge": (bayesgrad.merge_heads, (q,), {}),
        "cross-entropy": (
            bayesgrad.cross_entropy,
            (t["z"], layer.targets),
            {"reduction": "sum", "label_smoothing": 0.25, "class_weights": np.abs(layer.bias("c_O")) + 0.5},
        ),
        "cross-entropy, none": (bayesgrad.cross_entropy, (t["z"], layer.targets), {"reduction": "none"}),
        "inputs": (
            bayesgrad.input_gradients,
            back,
            {"W_Q": _thin(layer, "W_Q"), "W_K": _thin(layer, "W_K"), "W_V": _thin(layer, "W_V"), "cross": True},
        ),
        "projections": (
            bayesgrad.projection_gradients,
            (layer.x, *back),
            {"y": layer.memory},
        ),
        "read-out": (bayesgrad.read_out_gradients, (t["g"][0], t["z"]), {}),
        "feedback_full": (
            dynamics.feedback_full,
            (t["a"][0], v[0], t["r"], t["p"], t["W_O"][0]),
            {"totals": t["tau"], "eta": 0.5},
        ),
    }


def _thin(layer: Layer, name: str) -> np.ndarray:
    width = layer.d_v if name == "W_V" else layer.d_k
    return getattr(layer, name)[:, :width].copy()


NOT_STACKED = frozenset(("W_Q", "W_K", "W_V", "W_O", "c_Q", "c_K", "c_V", "c_O", "priors", "class_weights"))
"""Arguments that have no leading axes, by name; :data:`WEIGHTS_AT` has those by position."""

WEIGHTS_AT = {"block": range(1, 5), "block, soft targets": range(1, 5), "feedback_full": range(4, 5)}


@dataclass(frozen=True, eq=False, repr=False)
class Tasks(Example):
    """One example of each finite model."""

    simplex: Simplex
    sequence: Sequences
    pairs: Pairs
    hmm: Hmm
    chain: NoisyChain


def of_tasks(tasks: Tasks) -> dict[str, Arguments]:
    """Calls on distributions and on the exact predictors of the tasks."""
    simplex, sequence, known, hmm, chain = tasks.simplex, tasks.sequence, tasks.pairs, tasks.hmm, tasks.chain
    P, p, q = floats(simplex.contexts), floats(simplex.p), floats(simplex.q)
    rows = np.array([[float(x) for x in sequence.conditional(t)] for t in range(len(sequence.outcomes))])
    size = len(known.permutation)
    shown = {"size": size, "like": np.ones(1)}
    evidence = np.log(q, where=q > 0, out=np.full_like(q, -np.inf))
    return {
        "entropy in nats": (bayes.entropy, (p,), {"units": "nats"}),
        "divergence": (bayes.kl_divergence, (p, q), {"units": "bits"}),
        "total variation": (bayes.total_variation, (p, q), {}),
        "conditional entropy": (bayes.conditional_entropy, (P, p), {"units": "bits"}),
        "risk": (bayes.risk, (P, p, q), {"units": "bits"}),
        "posterior of log-likelihoods": (bayes.posterior, ((p + q) / 2, evidence), {}),
        "predictive": (bayes.posterior_predictive, (floats(hmm.initial), floats(hmm.emission)), {}),
        "surprise": (bayes.sequence_surprise, (rows, sequence.outcomes), {"units": "bits"}),
        "bijection": (bayes.bijection_predictive, (known.keys, known.values, np.asarray(known.query)), shown),
        "filter": (
            bayes.hmm_filter,
            (floats(hmm.initial), floats(hmm.transition), floats(hmm.emission), hmm.observations),
            {},
        ),
        "noisy chain": (
            bayes.sticky_markov_predictive,
            (chain.x, chain.means, floats(chain.transition)),
            {"initial": floats(chain.initial), "noise": chain.noise},
        ),
    }


ONE_LAW = frozenset(("conditional entropy", "risk"))
"""Calls without leading axes: all axes of the contexts belong to one distribution."""

SUMMED = frozenset(
    ("W_Q", "W_K", "W_V", "W_O", "c_Q", "c_K", "c_V", "c_O", "loss", "scale", "loss_decrease", "loss_change, sum")
)
"""Results without leading axes: what belongs to all examples together is summed over them."""


def turned(head: Head) -> Head:
    """Another head of the same shapes."""
    return replace(head, q=head.k.mean() - head.q[::-1], v=head.v[::-1] * 0.5 + 0.25, u=-head.u[::-1])


def turned_layer(layer: Layer) -> Layer:
    """The same layer on other inputs."""
    y = None if layer.y is None else 0.5 - layer.y[::-1]
    mask = None if layer.mask is None else layer.mask[::-1].copy()
    return replace(layer, x=layer.x[::-1] * 0.5, y=y, targets=layer.targets[::-1].copy(), mask=mask)


def turned_tasks(tasks: Tasks) -> Tasks:
    """Other models of the same sizes."""
    simplex, sequence, known, hmm, chain = tasks.simplex, tasks.sequence, tasks.pairs, tasks.hmm, tasks.chain
    weights, outcomes, size = sequence.weights, sequence.outcomes, len(known.permutation)
    for axis in range(weights.ndim):
        weights = np.roll(weights, 1, axis=axis)
    return Tasks(
        replace(simplex, p=np.roll(simplex.p, 1, -1), q=simplex.q[::-1].copy()),
        Sequences(weights, (outcomes + 1) % weights.shape[0]),
        replace(known, permutation=known.permutation[::-1].copy(), query=size - 1 - known.query),
        replace(hmm, initial=np.roll(hmm.initial, 1), observations=hmm.observations[::-1].copy()),
        replace(chain, x=chain.x[::-1] * 0.5, means=chain.means[::-1].copy()),
    )


GROUPS = ((2, 1), (4, 2), (2, 2))
HEADS, LAYERS = heads(scales=(None,)), layers(heads=GROUPS)
FEW = {
    "heads": heads(scales=(None,), sizes=[(2, 3, 1, 4), (3, 2, 4, 1), (4, 4, 2, 3)], squares=False),
    "layers": layers(heads=GROUPS[:1], sizes=([(2, 3, 1, 4, 5, 6)], [(3, 2, 4, 5, 1)])),
}
"""Heads and layers of few shapes."""


@dataclass(frozen=True)
class Kind:
    """What is drawn, what is called on it, and another example of the same shapes; ``few``: few shapes."""

    drawn: st.SearchStrategy
    few: st.SearchStrategy
    calls: Callable[[Any], dict[str, Arguments]]
    turned: Callable[[Any], Any]


TASKS = st.builds(Tasks, simplices(full_support=False), sequences(), pairs(), hmms(), noisy_chains())

KINDS = {
    "heads": Kind(HEADS, FEW["heads"], of_head, turned),
    "layers": Kind(LAYERS, FEW["layers"], of_layer, turned_layer),
    "tasks": Kind(TASKS, TASKS, of_tasks, turned_tasks),
}
"""Every kind by name."""
