"""Exact rationals by exhaustive enumeration: nothing is summed that is not listed, nothing is rounded.

Each function lists every outcome of a finite model with its exact probability and returns the sum over those that fit.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

from bayesgrad.testing.models import Hmm, Joint, Pairs, fractions

Table = dict[tuple[int, ...], Fraction]


def joint_table(joint: Joint) -> Table:
    """(c, theta, x, y) -> probability."""
    contexts, beliefs = fractions(joint.contexts), fractions(joint.beliefs)
    inputs, outcomes = fractions(joint.inputs), fractions(joint.outcomes)
    sizes = (*joint.beliefs.shape, joint.inputs.shape[1], joint.outcomes.shape[2])
    return {
        (c, theta, x, y): contexts[c] * beliefs[c][theta] * inputs[c][x] * outcomes[x][theta][y]
        for c, theta, x, y in product(*map(range, sizes))
    }


def conditional(table: Table, given: tuple[int, ...], of: int, size: int) -> dict[tuple[int, ...], list[Fraction]]:
    """p(coordinate ``of`` | coordinates ``given``) for every value of the latter that has positive probability."""
    sums: dict[tuple[int, ...], list[Fraction]] = {}
    for outcome, chance in table.items():
        key = tuple(outcome[position] for position in given)
        sums.setdefault(key, [Fraction(0)] * size)[outcome[of]] += chance
    return {key: [x / sum(row) for x in row] for key, row in sums.items() if sum(row) > 0}


def permutation_predictive(pairs: Pairs) -> list[Fraction]:
    """p(pi(query) = y | pairs) by listing every permutation."""
    size = len(pairs.permutation)
    known = dict(zip(pairs.keys.tolist(), pairs.values.tolist(), strict=True))
    counts = [0] * size
    for candidate in permutations(range(size)):
        if all(candidate[key] == value for key, value in known.items()):
            counts[candidate[pairs.query]] += 1
    return [Fraction(count, sum(counts)) for count in counts]


def hmm_paths(hmm: Hmm) -> tuple[list[list[Fraction]], list[list[Fraction]], Fraction]:
    """Posteriors (T, S), predictives of the next observation (T, O), and the probability of all observations.

    By listing every path of hidden states.
    """
    pi, T, E = fractions(hmm.initial), fractions(hmm.transition), fractions(hmm.emission)
    states, symbols = len(pi), len(E[0])
    posteriors, predictives, evidence = [], [], Fraction(1)
    for t in range(1, len(hmm.observations) + 1):
        mass, ahead = [Fraction(0)] * states, [Fraction(0)] * symbols
        for path in product(range(states), repeat=t):
            chance = pi[path[0]]
            for step in range(t):
                if step:
                    chance *= T[path[step - 1]][path[step]]
                chance *= E[path[step]][int(hmm.observations[step])]
            mass[path[-1]] += chance
            for then, symbol in product(range(states), range(symbols)):
                ahead[symbol] += chance * T[path[-1]][then] * E[then][symbol]
        evidence = sum(mass, Fraction(0))
        posteriors.append([x / evidence for x in mass])
        predictives.append([x / evidence for x in ahead])
    return posteriors, predictives, evidence
