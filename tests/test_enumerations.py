"""Listings of finite families: counted from the definition, in agreement with the theorems, able to say no."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from bayesgrad import bayes
from derivations.routes import enumerations, exact_instances
from derivations.routes.functions import Functions, Room
from derivations.routes.listings import LISTINGS

LABELS = ("bayes.bijection", "bayes.hmm-filter", "bayes.chain-rule", "bayes.sticky-markov")


@pytest.mark.parametrize("label", LABELS)
def test_every_listing_agrees_and_rejects_its_variants(label):
    verdict, reason, detail = LISTINGS[label]()
    assert verdict == "proved", reason
    assert detail["comparisons"] > 10
    assert detail["variants"]
    assert all(detail["variants"].values())


def test_a_failed_comparison_is_refuted():
    tally = enumerations.Tally()
    tally.equal(True, "fine")
    tally.equal(False, "case 2 of 3")
    tally.equal(False, "case 3 of 3")
    assert tally.result("three cases")[:2] == ("refuted", "case 2 of 3")


def test_a_variant_that_never_differs_leaves_it_undecided():
    tally = enumerations.Tally()
    tally.equal(True, "fine")
    tally.differ("no variant at all", True, "case 1")
    verdict, reason, _ = tally.result("one case")
    assert (verdict, "no variant at all" in reason) == ("undecided", True)


def test_the_listing_of_paths_is_the_filter_of_the_package():
    """Numbers put in for the indeterminates: the listed likelihood is the shipped one."""
    ring = Functions(Room(generators=64))
    chain = enumerations.Chain(ring, 2, 3)
    rng = np.random.default_rng(1)
    pi, T, E = (rng.dirichlet(np.ones(k), size=rows) for k, rows in ((2, 1), (2, 2), (3, 2)))
    seen = (0, 2, 1)
    values = [*pi[0], *T.ravel(), *E.ravel()]
    names = [f"pi[{s}]" for s in (1, 2)]
    names += [f"T[{r},{s}]" for r, s in itertools.product((1, 2), repeat=2)]
    names += [f"E[{s},{o}]" for s, o in itertools.product((1, 2), (1, 2, 3))]
    assert ring.names == names
    listed = float(ring.value(chain.listed(seen), [_q(v) for v in values]))
    found = bayes.hmm_filter(pi[0], T, E, np.asarray(seen))
    assert listed == pytest.approx(float(np.exp(found.log_likelihood)), rel=1e-9)


def _q(value):
    import flint

    exact = Fraction(float(value))
    return flint.fmpq(exact.numerator, exact.denominator)


def test_instances_and_listing_stand_side_by_side():
    found = exact_instances.entry("bayes.chain-rule", "required")
    assert found["verdict"] == "proved"
    assert found["detail"]["listing"]["comparisons"] > 0
    assert found["detail"]["comparisons"] > 0
