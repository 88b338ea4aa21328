"""Prediction: what the best predictor is, what it costs to be another, and the exact predictors of the tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesgrad import bayes
from bayesgrad.testing.models import Hmm, Joint, NoisyChain, Pairs, Sequences, Simplex, floats
from bayesgrad.testing.strategies import hmms, joints, noisy_chains, pairs, sequences, simplices
from checks.oracles.chances import BIJECTION, BLIND, CHAIN, FILTER, PREDICTIVE, RISKS, STICKY, only, possible
from checks.registry import checks


@checks(
    "bayes.posterior-predictive",
    oracle=PREDICTIVE,
    given=joints(),
    states={"mixture": "p", "mixture-by-posterior": "p"},
)
def check_posterior_predictive(joint: Joint) -> dict[str, Any]:
    """p(y|x,c) = sum_theta p(theta|c) p(y|x,theta)."""
    return predictive(joint)


@checks("bayes.posterior-predictive", oracle=PREDICTIVE, given=joints(impossible=True), share=0.25)
def check_impossible_contexts(joint: Joint) -> dict[str, Any]:
    """The same wherever (x,c) is possible; nothing is claimed elsewhere."""
    return predictive(joint)


def predictive(joint: Joint) -> dict[str, Any]:
    """The mixture from ``posterior_predictive``, 0 where (x,c) is impossible."""
    beliefs, outcomes = floats(joint.beliefs), floats(joint.outcomes)
    shape = (beliefs.shape[0], *outcomes.shape)
    mixture = bayes.posterior_predictive(
        np.broadcast_to(beliefs[:, None], shape[:3]).copy(), np.broadcast_to(outcomes, shape).copy()
    )
    return {"p": mixture * possible(joint)}


@checks("bayes.risk-decomposition", oracle=only(("R", "H"), RISKS), given=simplices(), states={"decomposition": "R"})
def check_risk_decomposition(example: Simplex) -> dict[str, Any]:
    """R(q) = H(Y|C) + E_c KL(p || q), each term from its own function; the risk is their sum."""
    P, p, q = (floats(w) for w in (example.contexts, example.p, example.q))
    entropy = bayes.conditional_entropy(P, p, units="nats")
    divergence = (P * bayes.kl_divergence(p, q, units="nats")).sum()
    risk = bayes.risk(P, p, q, units="nats")
    if abs(risk - entropy - divergence) > 1e-12 * (1 + abs(risk)):
        raise AssertionError(f"risk {risk!r} is not entropy {entropy!r} plus divergence {divergence!r}")
    return {"R": entropy + divergence, "H": entropy}


@checks("bayes.risk-decomposition", oracle=only(("R",), RISKS), given=simplices(), share=0.5)
def check_risk(example: Simplex) -> dict[str, Any]:
    """R(q) = E[-log q(y|c)], in bits as well, and whatever the shape of the set of contexts."""
    P, p, q = (floats(w)[None] for w in (example.contexts, example.p, example.q))
    return {"R": bayes.risk(P, p, q, units="bits") * np.log(2)}


@checks("bayes.posterior-predictive", oracle=only(("H", "R"), RISKS), given=simplices(), states={"optimum": "H"})
def check_no_risk_is_below_the_entropy(example: Simplex) -> dict[str, Any]:
    """The risk of every predictor is at least the conditional entropy, the risk of the truth itself."""
    P, p, q = (floats(w) for w in (example.contexts, example.p, example.q))
    return {"H": bayes.risk(P, p, p, units="nats"), "R": bayes.risk(P, p, q, units="nats")}


def first_context(example: Simplex) -> dict[str, Any]:
    """p, q and S of the first context."""
    return {name: x[0] for name, x in example.tensors().items() if name in ("p", "q", "S")}


@checks(
    "lemma.gibbs",
    oracle=only(("KL", "zero"), RISKS),
    given=simplices(),
    states={"gibbs": "zero"},
    letters=first_context,
    measured="KL",
)
def check_gibbs(example: Simplex) -> dict[str, Any]:
    """sum p log(p/q) >= 0, and 0 only at p = q."""
    p, q = floats(example.p), floats(example.q)
    found = bayes.kl_divergence(p, q, units="nats")
    equal = np.array([np.array_equal(x * y.sum(), y * x.sum()) for x, y in zip(example.p, example.q, strict=True)])
    if np.any(found < 0) or np.any((found < 1e-12) != equal):
        raise AssertionError(f"divergences {found.tolist()} where equality is {equal.tolist()}")
    return {"KL": found, "zero": np.asarray(min(0.0, found[0]))}


@checks("bayes.chain-rule", oracle=CHAIN, given=sequences())
def check_chain_rule(example: Sequences) -> dict[str, Any]:
    """sum_t -log p(y_t|y_<t) = -log p(y_1..y_T), every position supervised."""
    rows = np.array([[float(x) for x in example.conditional(t)] for t in range(len(example.outcomes))])
    return {"surprise": np.asarray(bayes.sequence_surprise(rows, example.outcomes, units="bits")) * np.log(2)}


@checks("bayes.entropy-is-blind", oracle=BLIND, given=simplices())
def check_entropy_is_blind(example: Simplex) -> dict[str, Any]:
    """A distribution and a rotation of it: equal entropies, positive divergence and distance."""
    p = floats(example.q)
    turned = np.roll(p, -1, axis=-1)
    return {
        "H - H": bayes.entropy(p, units="nats") - bayes.entropy(turned, units="nats"),
        "H": bayes.entropy(p, units="bits") * np.log(2),
        "KL": bayes.kl_divergence(p, turned, units="bits") * np.log(2),
        "TV": bayes.total_variation(p, turned),
    }


def distinct_pairs(example: Pairs) -> dict[str, Any]:
    """The values that distinct keys have shown."""
    return {"value": np.unique(example.values)}


@checks(
    "bayes.bijection",
    oracle=BIJECTION,
    given=pairs(),
    states={"new-key": "unseen", "count": "number unseen"},
    letters=distinct_pairs,
    measured="p",
)
def check_bijection(example: Pairs) -> dict[str, Any]:
    """A seen key is certain, a new one uniform over the V - m unseen values."""
    size = len(example.permutation)
    new = np.flatnonzero(~np.isin(np.arange(size), example.keys))[0]
    for_new = bayes.bijection_predictive(example.keys, example.values, np.asarray(new), size=size)
    remaining = size - len(np.unique(example.keys))
    return {
        "p": bayes.bijection_predictive(example.keys, example.values, np.asarray(example.query), size=size),
        "unseen": for_new * remaining,
        "number unseen": np.asarray(float((for_new > 0).sum())),
    }


def unnormalised(initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """alpha_t at the last position: p(o_1..o_t, state)."""
    alpha = initial * likelihood[0]
    for row in likelihood[1:]:
        alpha = (alpha @ transition) * row
    return alpha


def filter_letters(hmm: Hmm) -> dict[str, Any]:
    """T, E and the unnormalised alpha of the last position."""
    T, E = floats(hmm.transition), floats(hmm.emission)
    return {"T": T, "E": E, "alpha": unnormalised(floats(hmm.initial), T, E[:, hmm.observations].T)}


@checks(
    "bayes.hmm-filter",
    oracle=FILTER,
    given=hmms(),
    states={"next-observation": "next"},
    letters=filter_letters,
    measured="posterior",
)
def check_hmm_filter(hmm: Hmm) -> dict[str, Any]:
    """alpha_1 = pi E(., o_1), alpha_{t+1} = E(., o_{t+1}) (alpha_t T)."""
    got = bayes.hmm_filter(floats(hmm.initial), floats(hmm.transition), floats(hmm.emission), hmm.observations)
    return {
        "posterior": got.posterior,
        "predictive": got.predictive,
        "next": got.predictive[-1],
        "log-likelihood": np.asarray(got.log_likelihood),
    }


def chain_letters(chain: NoisyChain) -> dict[str, Any]:
    """T = P and the unnormalised alpha of the last position (densities without their constant factor)."""
    T = floats(chain.transition)
    distance = ((chain.x[:, None, :] - chain.means[None]) ** 2).sum(-1)
    return {"T": T, "alpha": unnormalised(floats(chain.initial), T, np.exp(-distance / (2 * chain.noise**2)))}


@checks(
    "bayes.sticky-markov",
    oracle=STICKY,
    given=noisy_chains(),
    states={"predictive": "last"},
    letters=chain_letters,
    measured="p",
)
def check_sticky_markov(chain: NoisyChain) -> dict[str, Any]:
    """The predictive of y_t is the filter of y_{t-1}, taken one step by P."""
    got = bayes.sticky_markov_predictive(
        chain.x, chain.means, floats(chain.transition), initial=floats(chain.initial), noise=chain.noise
    )
    return {"p": got, "last": got[-1]}
