"""What the EM reading means exactly: proximal steps, responsibilities, and where the reading ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesgrad import em
from bayesgrad.testing.engine import LawViolation
from bayesgrad.testing.examples import Clusters, Mixture, Moved, Rate, Stepped
from bayesgrad.testing.strategies import clusters, mixtures, moved, rates, stepped
from checks.check_dynamics import weights_and_compatibility
from checks.check_softmax import loss_and_gradient
from checks.oracles.em import CLUSTERS, E_STEP, EM_IDENTITY, FISHER_IDENTITY, M_STEP, MINORANT, WITNESS
from checks.registry import checks


@checks("em.fisher-identity", oracle=FISHER_IDENTITY, given=mixtures(), states={"cost": "r", "along": "dl"})
def check_fisher_identity(example: Mixture) -> dict[str, Any]:
    """dl = sum_j r_j dc_j with r the posterior responsibilities."""
    return {
        "r": em.mixture_responsibilities(example.pi, example.costs),
        "dl": np.asarray(em.mixture_loss_change(example.pi, example.costs, example.change)),
        "l": np.asarray(em.mixture_loss(example.pi, example.costs)),
    }


def possible_components(example: Mixture) -> dict[str, Any]:
    """The letters of the components whose prior is not 0: log r is written for those."""
    at = example.priors > 0
    return {name: x[at] for name, x in example.tensors().items() if name in ("pi", "c", "c'")}


@checks(
    "lemma.em-identity",
    oracle=EM_IDENTITY,
    given=mixtures(),
    states={"identity": "loss", "majorant": "loss"},
    letters=possible_components,
)
def check_em_identity(example: Mixture) -> dict[str, Any]:
    """l1 - l0 = Q1 - Q0 - KL(r0 || r1); the loss as the difference of the other two."""
    got = em.em_identity(example.pi, example.costs, example.costs + example.change)
    return {
        "loss": np.asarray(got.cost_change - got.divergence),
        "loss change": np.asarray(got.loss_change),
        "cost": np.asarray(got.cost_change),
        "divergence": np.asarray(got.divergence),
    }


def another_point(example: Stepped) -> dict[str, Any]:
    """The first row, and the uniform distribution on its visible keys: no better than the minimum."""
    seen = example.head.visible[0].astype(float)
    t = example.tensors()
    # a0 stands in a logarithm, so it is 1 where S = 0 says that nothing depends on it; likewise a.
    a, a0 = np.where(seen, seen / seen.sum(), 1.0), np.where(seen, t["a"][0], 1.0)
    return {"a": a, "a0": a0, "b": t["b"][0], "eta": t["eta"], "S": seen}


@checks("em.proximal-e-step", oracle=E_STEP, given=stepped(), states={"minimum": "minimum"}, letters=another_point)
def check_proximal_e_step(example: Stepped) -> dict[str, Any]:
    """argmin of a.b + KL(a || a0)/eta over the simplex is a0 exp(-eta b) / Z."""
    a0, b = weights_and_compatibility(example.head)
    a = em.proximal_e_step(a0, b, eta=example.eta)
    seen = example.head.visible[0]
    divergence = a[0, seen] * np.log(a[0, seen] / a0[0, seen])
    return {"a": a, "minimum": np.asarray((a[0, seen] * b[0, seen] + divergence / example.eta).sum())}


def other_values(example: Stepped) -> dict[str, Any]:
    """v0 = v, and other values: v0 moved by a fixed pattern."""
    t = example.tensors()
    v0 = t["v"]
    return {"a": t["a"], "u": t["u"], "eta": t["eta"], "v0": v0, "v": v0 + np.cos(np.arange(v0.size)).reshape(v0.shape)}


@checks("em.proximal-m-step", oracle=M_STEP, given=stepped(), states={"minimum": "minimum"}, letters=other_values)
def check_proximal_m_step(example: Stepped) -> dict[str, Any]:
    """argmin of sum a u.v + |v - v0|^2/(2 eta) is v0 - eta a^T u."""
    head = example.head
    a, _ = weights_and_compatibility(head)
    v = em.proximal_m_step(head.v, a, head.u, eta=example.eta)
    least = (a * (head.u @ v.T)).sum() + ((v - head.v) ** 2).sum() / (2 * example.eta)
    return {"v": v, "minimum": np.asarray(least)}


@checks("em.gaussian-mixture", oracle=CLUSTERS, given=clusters(), states={"responsibilities": "first row"})
def check_gaussian_mixture(example: Clusters) -> dict[str, Any]:
    """softmax(scale q.k + log pi) are the responsibilities of Gaussians with priors prop. to pi exp(scale |k|^2/2)."""
    priors = example.priors.astype(float)
    r = em.gaussian_mixture_responsibilities(example.q, example.k, priors=priors, scale=example.scale)
    return {"r": r, "first row": r[0]}


@checks("em.not-variational", oracle=WITNESS, given=rates())
def check_not_variational(example: Rate) -> dict[str, Any]:
    """For every eta the value step lowers the loss, and either routing step then raises it above the start."""
    got = em.not_variational_witness(example.eta)
    losses = (got.start, got.after_values, got.after_plain_routing, got.after_natural_routing)
    if not got.after_values < got.start < min(got.after_plain_routing, got.after_natural_routing):
        raise LawViolation(f"em.not-variational does not hold at eta = {example.eta}: losses {losses}")
    return {"losses": np.array(losses), "v": got.v, "W_O": got.W_O}


@checks("em.not-variational", oracle=MINORANT, given=moved(), states={"minorant": "minorant"}, share=0.5)
def check_minorant(example: Moved) -> dict[str, Any]:
    """L is convex in the logits: its tangent plane at z lies below L at every z'."""
    made = loss_and_gradient(example.logits)
    plane = made["L"] + (made["z"] * (example.other - example.logits.z)).sum()
    return {"minorant": np.asarray(plane)}
