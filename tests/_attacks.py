"""What attacks on the kernel share: the word for a claim with its chain, and the lemmas that an attack builds on."""

from __future__ import annotations

from collections.abc import Callable

from bayesgrad.symbolic.proof import Chain, Equation, check

Made = tuple[Equation, Chain]


def word(make: Callable[[], Made], seed: int = 0) -> str:
    """The kernel's word, or "refused" where the terms cannot even be made."""
    try:
        claim, chain = make()
    except (ValueError, TypeError):
        return "refused"
    return check(claim, chain, seed=seed).word


def built(claim: Equation, chain: Chain | None = None) -> Equation:
    """A lemma of an attack; where it is not proved the attack does not reach its target, and the test says so."""
    found = check(claim, chain or Chain(claim.lhs))
    assert found.word == "proved", found.reason
    return claim
