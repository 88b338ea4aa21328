"""Results about finite families of models, established by listing every case, exactly.

Where a theorem speaks of all permutations, all paths or all sequences, a small family can be listed whole. What is
listed here is counted from the definition (outcomes that agree with what was seen over outcomes that do), never by the
formula that it is compared with. Probabilities are indeterminates where a model has parameters, so that one listing
holds for every value of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from derivations.routes.functions import Functions, Poly, with_room
from derivations.routes.listings import exact

Detail = dict[str, Any]
Result = tuple[str, str, Detail]


class Tally:
    """Comparisons made, and the first one that failed."""

    def __init__(self) -> None:
        self.compared = 0
        self.failed = ""
        self.rejected: dict[str, str] = {}

    def equal(self, same: bool, what: str) -> None:
        self.compared += 1
        if not same and not self.failed:
            self.failed = what

    def differ(self, wrong: str, same: bool, what: str) -> None:
        """A wrong variant: it is rejected as soon as it differs somewhere."""
        self.rejected.setdefault(wrong, "")
        if not same and not self.rejected[wrong]:
            self.rejected[wrong] = what

    def result(self, listed: str) -> Result:
        loose = [name for name, example in self.rejected.items() if not example]
        verdict = "refuted" if self.failed else "undecided" if loose else "proved"
        reason = self.failed or (
            f"wrong variants not told apart: {', '.join(loose)}" if loose else f"{self.compared} cases, all listed"
        )
        return verdict, reason, {"listed": listed, "comparisons": self.compared, "variants": self.rejected}


# --- permutations -----------------------------------------------------------------------------------------------------


def protocols(size: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Every rule that asks two keys: the first one, and the second one as a function of the value that it showed."""
    for first in range(size):
        for second in itertools.product(range(size), repeat=size):
            yield first, second


@exact("bayes.bijection")
def bijection() -> Result:
    """Every permutation of V values; every rule by which keys can be asked without looking (V = 3), and all pairs."""
    tally = Tally()
    for size in (2, 3, 4):
        permutations = list(itertools.permutations(range(size)))
        for count in range(size):
            for keys in itertools.permutations(range(size), count):
                for values in itertools.permutations(range(size), count):
                    agree = [p for p in permutations if all(p[k] == v for k, v in zip(keys, values, strict=True))]
                    _predictive(tally, size, dict(zip(keys, values, strict=True)), agree)
    # The protocol does not matter as long as it sees no more than the revealed pairs.
    for size in (3, 4):
        permutations = list(itertools.permutations(range(size)))
        for first, second in protocols(size):
            for shown in range(size):
                for value in range(size):
                    pairs = {first: shown, second[shown]: value}
                    if len(pairs) == len(set(pairs.values())) and pairs[first] == shown:
                        seen = [p for p in permutations if p[first] == shown and p[second[shown]] == value]
                        _predictive(tally, size, pairs, seen)
    # A key chosen with knowledge of the permutation breaks it: the key whose value is 0.
    for key in range(3):
        asked = [p for p in itertools.permutations(range(3)) if p.index(0) == key]
        share = Fraction(sum(p[key] == 0 for p in asked), len(asked))
        tally.differ("keys chosen with knowledge", share == Fraction(1, 3), f"key {key + 1} shows 0 with {share}")
    return tally.result(
        "every permutation of 2 to 4 values, every set of pairs, every protocol of 2 steps (3, 4 values)"
    )


def _predictive(tally: Tally, size: int, pairs: dict[int, int], agree: list[Any]) -> None:
    """The shares of the outcomes among the permutations that agree, against the formula."""
    for query in range(size):
        for outcome in range(size):
            share = Fraction(sum(p[query] == outcome for p in agree), len(agree))
            if query in pairs:
                stated = Fraction(int(pairs[query] == outcome))
            elif len(pairs) < size:
                stated = Fraction(int(outcome not in pairs.values()), size - len(pairs))
            told = f"V = {size}, pairs {pairs}, query {query}, outcome {outcome}: listed {share}, stated {stated}"
            tally.equal(share == stated, told)
            if query not in pairs and pairs:
                tally.differ("uniform over all values", share == Fraction(1, size), told)


# --- hidden chains ----------------------------------------------------------------------------------------------------


class Chain:
    """A hidden chain whose parameters are indeterminates: nothing depends on their being probabilities."""

    def __init__(self, ring: Functions, states: int, outcomes: int):
        self.ring, self.states, self.outcomes = ring, states, outcomes
        name = lambda *at: ",".join(str(n + 1) for n in at)
        self.pi = [ring.symbol(f"pi[{name(s)}]", positive=True) for s in range(states)]
        self.T = [[ring.symbol(f"T[{name(r, s)}]", positive=True) for s in range(states)] for r in range(states)]
        self.E = [[ring.symbol(f"E[{name(s, o)}]", positive=True) for o in range(outcomes)] for s in range(states)]

    def path(self, states: Sequence[int], seen: Sequence[int]) -> Poly:
        """The probability of a path of states together with what it emits."""
        out = self.pi[states[0]] * self.E[states[0]][seen[0]]
        for before, state, o in zip(states, states[1:], seen[1:], strict=False):
            out = out * self.T[before][state] * self.E[state][o]
        return out

    def listed(self, seen: Sequence[int], last: int | None = None) -> Poly:
        """The sum over every path (that ends in ``last``) of its probability."""
        paths = itertools.product(range(self.states), repeat=len(seen))
        return sum((self.path(p, seen) for p in paths if last in (None, p[-1])), self.ring.zero)

    def filtered(self, seen: Sequence[int], *, moved: bool = False, swapped: bool = False) -> list[Poly]:
        """alpha by its recursion; ``moved`` transitions before the first observation, ``swapped`` transposes T."""
        T = self.T if not swapped else [list(column) for column in zip(*self.T, strict=True)]
        states = range(self.states)

        def step(alpha: list[Poly]) -> list[Poly]:
            return [sum((alpha[r] * T[r][s] for r in states), self.ring.zero) for s in states]

        alpha = step(self.pi) if moved else self.pi
        alpha = [alpha[s] * self.E[s][seen[0]] for s in states]
        for o in seen[1:]:
            alpha = [x * self.E[s][o] for s, x in enumerate(step(alpha))]
        return alpha


@exact("bayes.hmm-filter")
def hmm_filter() -> Result:
    """Every path of every sequence of up to four observations, for any parameters."""
    tally = Tally()

    def work(ring: Functions) -> None:
        for states, outcomes, longest in ((2, 3, 4), (3, 2, 3)):
            chain = Chain(ring, states, outcomes)
            for length in range(1, longest + 1):
                for seen in itertools.product(range(outcomes), repeat=length):
                    _filtered(tally, chain, seen)

    with_room(work)
    return tally.result(
        "every path: 2 states, 3 outcomes, up to 4 steps; 3 states, 2 outcomes, up to 3; any parameters"
    )


def _filtered(tally: Tally, chain: Chain, seen: tuple[int, ...]) -> None:
    ring = chain.ring
    alpha = chain.filtered(seen)
    for s in range(chain.states):
        listed = chain.listed(seen, s)
        tally.equal(ring.is_zero(alpha[s] - listed), f"observations {seen}: alpha_{s + 1} differs")
        for name, options in (("transition first", {"moved": True}), ("T transposed", {"swapped": True})):
            wrong = chain.filtered(seen, **options)[s]
            tally.differ(name, ring.is_zero(wrong - listed), f"observations {seen}, state {s + 1}")
    total = sum(alpha, ring.zero)
    for o in range(chain.outcomes):
        # p(o | seen) p(seen) = p(seen, o): the posterior moved by T and emitted by E.
        ahead = sum(
            (alpha[r] * ring.inv(total) * chain.T[r][s] * chain.E[s][o] for r, s in _pairs(chain.states)), ring.zero
        )
        joint = chain.listed((*seen, o))
        tally.equal(ring.is_zero(ahead * total - joint), f"observations {seen}: the predictive differs")


def _pairs(states: int) -> list[tuple[int, int]]:
    return [(r, s) for r in range(states) for s in range(states)]


@exact("bayes.chain-rule")
def chain_rule() -> Result:
    """Every sequence of an arbitrary joint distribution: the product of its conditionals is the joint."""
    tally = Tally()

    def work(ring: Functions) -> None:
        for size, length in ((2, 4), (3, 3)):
            sequences = list(itertools.product(range(size), repeat=length))
            joint = {y: ring.symbol(f"p{size}{y}", positive=True) for y in sequences}

            def mass(start: tuple[int, ...], joint: dict[tuple[int, ...], Poly] = joint) -> Poly:
                return sum((p for y, p in joint.items() if y[: len(start)] == start), ring.zero)

            for y in sequences:
                loss, skipped = ring.zero, ring.zero
                for t in range(length):
                    surprise = ring.log(mass(y[:t])) - ring.log(mass(y[: t + 1]))
                    loss = loss + surprise
                    skipped = skipped + (surprise if t else ring.zero)
                whole = ring.log(mass(())) - ring.log(joint[y])
                tally.equal(ring.is_zero(loss - whole), f"sequence {y}")
                tally.differ("first position left out", ring.is_zero(skipped - whole), f"sequence {y}")

    with_room(work)
    return tally.result("every sequence of an arbitrary joint: 4 steps of 2 outcomes, 3 steps of 3")


@exact("bayes.sticky-markov")
def sticky_markov() -> Result:
    """Every path of a chain seen through any likelihoods: the predictive is the filter of the state shown, moved by P.

    Inputs are real numbers, so that a listing has one indeterminate likelihood for each state and time.
    """
    tally = Tally()

    def work(ring: Functions) -> None:
        for states, longest in ((2, 4), (3, 3)):
            chain = Chain(ring, states, longest)  # E[s][t] is the likelihood of x_t under state s
            for length in range(1, longest + 1):
                seen = tuple(range(length))
                alpha, total = chain.filtered(seen), chain.listed(seen)
                for s in range(states):
                    # p(y_t = s | x_1..x_t) p(x_1..x_t): the paths shown so far, and one transition more.
                    listed = sum((chain.listed(seen, r) * chain.T[r][s] for r in range(states)), ring.zero)
                    stated = sum((alpha[r] * ring.inv(total) * chain.T[r][s] for r in range(states)), ring.zero)
                    tally.equal(ring.is_zero(stated * total - listed), f"{length} inputs")
                    tally.differ("not moved", ring.is_zero(alpha[s] - listed), f"{length} inputs")

    with_room(work)
    return tally.result("every path: 2 states up to 4 inputs, 3 states up to 3; any P, prior and likelihoods")
