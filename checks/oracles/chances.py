"""Oracles for the results about prediction: exact enumeration, 40-digit logarithms, PyTorch's gradient of the risk."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import torch

from bayesgrad.testing.engine import Oracle, Reference
from bayesgrad.testing.jets import Jet, matmul
from bayesgrad.testing.models import Hmm, Joint, NoisyChain, Pairs, Sequences, Simplex, floats, fractions
from checks.oracles import exact


def rounded(x: np.ndarray) -> Jet:
    """Probabilities that were rounded once."""
    return Jet(x, None, np.abs(x))


def numbers(rows: Any) -> np.ndarray:
    """Nested lists of fractions or mpmath numbers, each rounded once."""
    if isinstance(rows, list):
        return np.array([numbers(row) for row in rows])
    return np.asarray(rows.numerator / rows.denominator if isinstance(rows, Fraction) else float(rows))


def possible(joint: Joint) -> np.ndarray:
    """(c, x, 1): 1 where context and input occur together, else 0."""
    return (floats(joint.inputs) > 0).astype(float)[:, :, None]


def _by_enumeration(joint: Joint) -> dict[str, Reference]:
    size = joint.outcomes.shape[2]
    known = exact.conditional(exact.joint_table(joint), (0, 2), 3, size)
    contexts, inputs = joint.inputs.shape
    rows = [[known.get((c, x), [Fraction(0)] * size) for x in range(inputs)] for c in range(contexts)]
    return {"p": Reference(numbers(rows))}


def _by_mixture(joint: Joint) -> dict[str, Reference]:
    """The truth where it is possible, with the bound of a sum over theta."""
    beliefs, outcomes = rounded(floats(joint.beliefs)), rounded(floats(joint.outcomes))
    total = (beliefs[:, None, :, None] * outcomes[None]).sum(-2) * possible(joint)
    return {"p": Reference(total.x, total.ex)}


def _by_gradient(joint: Joint) -> dict[str, Reference]:
    """p = q - (dR/dz) / P(c,x): the prediction that follows from the gradient of a softmax model's risk at any z."""
    joint_xy = torch.from_numpy(joint.tensors()["P"].sum(0))
    z = torch.zeros_like(joint_xy, requires_grad=True)
    risk = -(joint_xy * torch.log_softmax(z, -1)).sum()
    (gradient,) = torch.autograd.grad(risk, z)
    mass = joint_xy.sum(-1, keepdim=True)
    q, slope = torch.softmax(z, -1).detach(), gradient / torch.where(mass > 0, mass, 1.0)
    # q and the slope cancel where p is small: this oracle errs by a few roundings of q.
    p, bound = (x * torch.from_numpy(possible(joint)) for x in (q - slope, 8 * (q + slope.abs())))
    return {"p": Reference(p.numpy(), bound.numpy())}


PREDICTIVE = (
    Oracle("forward jets, mixture", _by_mixture),
    Oracle("exact enumeration", _by_enumeration),
    Oracle("PyTorch, gradient of the risk", _by_gradient),
)


def _mp(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def _times_log(x: Fraction, y: Fraction) -> Any:
    """x log y, with 0 log y = 0."""
    return mpmath.mpf(0) if x == 0 else _mp(x) * mpmath.log(_mp(y))


def _risks_exactly(example: Simplex) -> dict[str, Reference]:
    with mpmath.workdps(40):
        P, p, q = (fractions(w) for w in (example.contexts, example.p, example.q))
        cross = [-sum(_times_log(x, y) for x, y in zip(*rows, strict=True)) for rows in zip(p, q, strict=True)]
        own = [-sum(_times_log(x, x) for x in row) for row in p]
        kl = [x - y for x, y in zip(cross, own, strict=True)]
        return {
            "R": Reference(np.asarray(float(sum(_mp(w) * x for w, x in zip(P, cross, strict=True))))),
            "H": Reference(np.asarray(float(sum(_mp(w) * x for w, x in zip(P, own, strict=True))))),
            "KL": Reference(numbers(kl)),
            "zero": Reference(np.asarray(0.0)),
        }


def _surprise(p: Jet, q: Jet) -> Jet:
    """-p log q, entry by entry, 0 where p = 0 (a zero of q counts there as 1)."""
    none = (p.x == 0).astype(float)
    return -(p * (q * (1 - none) + none).log())


def _risks_forward(example: Simplex) -> dict[str, Reference]:
    P, p, q = (rounded(floats(w)) for w in (example.contexts, example.p, example.q))
    cross, own = _surprise(p, q), _surprise(p, p)
    kl = (cross - own).sum(-1)
    risk, entropy = (P * cross.sum(-1)).sum(-1), (P * own.sum(-1)).sum(-1)
    found = {name: Reference(jet.x, jet.ex) for name, jet in (("R", risk), ("H", entropy), ("KL", kl))}
    return {**found, "zero": Reference(np.asarray(0.0), kl.ex[0])}


def _risks_torch(example: Simplex) -> dict[str, Reference]:
    P, p, q = (torch.from_numpy(floats(w)) for w in (example.contexts, example.p, example.q))
    kl = (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1)
    return {
        "R": Reference(-(P * torch.xlogy(p, q).sum(-1)).sum().numpy()),
        "H": Reference((P * torch.special.entr(p).sum(-1)).sum().numpy()),
        "KL": Reference(kl.numpy()),
        "zero": Reference(np.minimum(kl.numpy()[0], 0.0)),
    }


RISKS = (
    Oracle("forward jets", _risks_forward),
    Oracle("fractions and 40-digit logarithms", _risks_exactly),
    Oracle("PyTorch, xlogy and entr", _risks_torch),
)


def only(names: tuple[str, ...], oracles: tuple[Oracle, ...]) -> tuple[Oracle, ...]:
    """The same oracles for fewer quantities."""

    def restrict(oracle: Oracle) -> Oracle:
        def of(example: Any) -> dict[str, Reference]:
            said = oracle.of(example)
            return {name: said[name] for name in names}

        return Oracle(oracle.name, of)

    return tuple(restrict(oracle) for oracle in oracles)


def _chain_exactly(example: Sequences) -> dict[str, Reference]:
    with mpmath.workdps(40):
        chance = fractions(example.weights.reshape(-1))[
            int(np.ravel_multi_index(tuple(example.outcomes), example.weights.shape))
        ]
        return {"surprise": Reference(np.asarray(float(-mpmath.log(_mp(chance)))))}


def _chain_forward(example: Sequences) -> dict[str, Reference]:
    total = Jet(np.asarray(0.0))
    for t, y in enumerate(example.outcomes):
        p = np.asarray(float(example.conditional(t)[y]))
        total = total - rounded(p).log()
    return {"surprise": Reference(total.x, total.ex)}


def _chain_torch(example: Sequences) -> dict[str, Reference]:
    """-log of the sequence's share, by cross-entropy on the logits of the whole table."""
    table = torch.from_numpy(example.weights.astype(float)).reshape(1, -1).log()
    index = int(np.ravel_multi_index(tuple(example.outcomes), example.weights.shape))
    return {"surprise": Reference(torch.nn.functional.cross_entropy(table, torch.tensor([index])).numpy())}


CHAIN = (
    Oracle("forward jets, sum of conditionals", _chain_forward),
    Oracle("exact share of the sequence, 40-digit logarithm", _chain_exactly),
    Oracle("PyTorch, cross-entropy over all sequences", _chain_torch),
)


def _blind_exactly(example: Simplex) -> dict[str, Reference]:
    with mpmath.workdps(40):
        found: dict[str, list[Any]] = {name: [] for name in ("H - H", "H", "KL", "TV")}
        for row in fractions(example.q):
            turned = [*row[1:], row[0]]
            both = list(zip(row, turned, strict=True))
            own = -sum(_times_log(x, x) for x in row)
            found["H"].append(own)
            found["H - H"].append(own + sum(_times_log(y, y) for y in turned))
            found["KL"].append(-own - sum(_times_log(x, y) for x, y in both))
            found["TV"].append(sum(abs(x - y) for x, y in both) / 2)
        return {name: Reference(numbers(rows)) for name, rows in found.items()}


def _blind_forward(example: Simplex) -> dict[str, Reference]:
    p = rounded(floats(example.q))
    turned = p.each(lambda array, _: np.roll(array, -1, axis=-1))
    own, apart = _surprise(p, p), p - turned
    jets = {
        "H - H": own.sum(-1) - _surprise(turned, turned).sum(-1),
        "H": own.sum(-1),
        "KL": (_surprise(p, turned) - own).sum(-1),
        "TV": (apart * np.sign(apart.x)).sum(-1) * 0.5,
    }
    return {name: Reference(jet.x, jet.ex) for name, jet in jets.items()}


BLIND = (
    Oracle("forward jets", _blind_forward),
    Oracle("fractions and 40-digit logarithms", _blind_exactly),
)


def _permutations(example: Pairs) -> dict[str, Reference]:
    p = numbers(exact.permutation_predictive(example))
    unseen = np.array([float(y not in example.values) for y in range(len(example.permutation))])
    return {
        "p": Reference(p, np.abs(p)),
        "unseen": Reference(unseen, unseen),
        "number unseen": Reference(unseen.sum(), np.asarray(0.0)),
    }


def _permanents(example: Pairs) -> dict[str, Reference]:
    """perm of the compatible matrix with (query, y) fixed, over perm of the compatible matrix, by minors."""
    size = len(example.permutation)
    allowed = np.ones((size, size), dtype=np.int64)
    for key, value in zip(example.keys, example.values, strict=True):
        row = np.zeros(size, dtype=np.int64)
        row[value] = 1
        allowed[key] = row
        others = np.arange(size) != key
        allowed[others, value] = 0
    chances = []
    for y in range(size):
        minor = np.delete(np.delete(allowed, example.query, 0), y, 1)
        chances.append(int(allowed[example.query, y]) * _permanent(minor))
    return {"p": Reference(np.array(chances) / sum(chances))}


def _permanent(matrix: np.ndarray) -> int:
    """Laplace expansion along the first row."""
    if not len(matrix):
        return 1
    minors = (np.delete(matrix[1:], column, axis=1) for column in range(len(matrix)))
    return sum(int(entry) * _permanent(minor) for entry, minor in zip(matrix[0], minors, strict=True) if entry)


BIJECTION = (
    Oracle("exact enumeration of permutations", _permutations),
    Oracle("ratio of permanents", _permanents),
)


def _paths(hmm: Hmm) -> dict[str, Reference]:
    posterior, predictive, evidence = exact.hmm_paths(hmm)
    with mpmath.workdps(40):
        log_likelihood = float(mpmath.log(_mp(evidence)))
    return {
        "posterior": Reference(numbers(posterior)),
        "predictive": Reference(numbers(predictive)),
        "next": Reference(numbers(predictive[-1])),
        "log-likelihood": Reference(np.asarray(log_likelihood)),
    }


def chain_forward(initial: Jet, transition: Jet, likelihood: Jet) -> tuple[list[Jet], Jet]:
    """Posteriors of a chain seen through likelihoods (T, S), and log of their joint mass."""
    posteriors, log_mass, ahead = [], Jet(np.asarray(0.0)), initial
    for t in range(likelihood.shape[0]):
        joint = ahead * likelihood[t]
        total = joint.sum(-1)
        log_mass = log_mass + total.log()
        posteriors.append(joint / total)
        ahead = matmul(posteriors[-1][None, :], transition)[0]
    return posteriors, log_mass


def _filter_forward(hmm: Hmm) -> dict[str, Reference]:
    pi, T, E = (rounded(floats(w)) for w in (hmm.initial, hmm.transition, hmm.emission))
    posteriors, log_likelihood = chain_forward(pi, T, E[:, hmm.observations].move(-1, -2))
    ahead = [matmul(matmul(a[None, :], T), E)[0] for a in posteriors]
    return {
        "posterior": Reference(np.array([a.x for a in posteriors]), np.array([a.ex for a in posteriors])),
        "predictive": Reference(np.array([a.x for a in ahead]), np.array([a.ex for a in ahead])),
        "next": Reference(ahead[-1].x, ahead[-1].ex),
        "log-likelihood": Reference(log_likelihood.x, log_likelihood.ex),
    }


def _filter_gradient(hmm: Hmm) -> dict[str, Reference]:
    """The posterior of the last state is the gradient of log p(o_1..o_t) in the log-evidence for that state."""
    pi, T, E = (torch.from_numpy(floats(w)) for w in (hmm.initial, hmm.transition, hmm.emission))
    posteriors, log_mass = [], torch.tensor(0.0)
    for t in range(len(hmm.observations)):
        evidence = torch.zeros(len(pi), dtype=torch.float64, requires_grad=True)
        mass = pi * E[:, hmm.observations[0]]
        for then in range(1, t + 1):
            mass = (mass @ T) * E[:, hmm.observations[then]]
        log_mass = (mass * evidence.exp()).sum().log()
        posteriors.append(torch.autograd.grad(log_mass, evidence)[0])
    posterior = torch.stack(posteriors)
    return {
        "posterior": Reference(posterior.numpy()),
        "predictive": Reference((posterior @ T @ E).numpy()),
        "log-likelihood": Reference(log_mass.detach().numpy()),
    }


FILTER = (
    Oracle("forward jets", _filter_forward),
    Oracle("exact enumeration of state paths", _paths),
    Oracle("PyTorch, gradient of the log-evidence", _filter_gradient),
)


def _noisy_forward(chain: NoisyChain) -> dict[str, Reference]:
    pi, P = rounded(floats(chain.initial)), rounded(floats(chain.transition))
    distance = (Jet(chain.x)[:, None, :] - Jet(chain.means)[None]) * Jet(np.asarray(1 / chain.noise))
    posteriors, _ = chain_forward(pi, P, ((distance * distance).sum(-1) * -0.5).exp())
    ahead = [matmul(a[None, :], P)[0] for a in posteriors]
    return {
        "p": Reference(np.array([a.x for a in ahead]), np.array([a.ex for a in ahead])),
        "last": Reference(ahead[-1].x, ahead[-1].ex),
    }


def _noisy_paths(chain: NoisyChain) -> dict[str, Reference]:
    """By listing every path, in 30 digits, with unnormalised densities."""
    with mpmath.workdps(30):
        pi, P = fractions(chain.initial), fractions(chain.transition)
        states, noise = len(pi), mpmath.mpf(chain.noise)
        means = [[mpmath.mpf(m) for m in row] for row in chain.means]
        density = [
            [
                mpmath.exp(-sum((mpmath.mpf(x) - m) ** 2 for x, m in zip(row, mean, strict=True)) / (2 * noise**2))
                for mean in means
            ]
            for row in chain.x
        ]
        out = []
        for t in range(1, len(chain.x) + 1):
            ahead = [mpmath.mpf(0)] * states
            for path in product(range(states), repeat=t):
                chance = _mp(pi[path[0]])
                for step in range(t):
                    chance *= density[step][path[step]] * (_mp(P[path[step - 1]][path[step]]) if step else 1)
                for then in range(states):
                    ahead[then] += chance * _mp(P[path[-1]][then])
            out.append([x / sum(ahead) for x in ahead])
        return {"p": Reference(numbers(out)), "last": Reference(numbers(out[-1]))}


STICKY = (
    Oracle("forward jets", _noisy_forward),
    Oracle("enumeration of state paths in 30 digits", _noisy_paths),
)
