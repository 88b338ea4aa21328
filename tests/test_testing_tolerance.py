"""The tolerance is not slack: one entry off by a thousandth fails its check, in every law and every quantity."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgrad.testing.engine import Check, derived_seed, difference, is_vacuous, references, yardstick
from bayesgrad.testing.strategies import example_of
from bayesgrad.testing.tolerance import SAFETY, tolerance, unit_roundoff
from checks.registry import CHECKS, load_checks

load_checks()
RELATIVE = 1e-3


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.label}-{check.name}")
def test_one_entry_off_by_a_thousandth_is_seen(check: Check) -> None:
    perturbed = invisible = 0
    for example in example_of(check.given, 14, derived_seed(f"slack/{check.name}", 0))[-6:]:
        said = references(check, example)
        measure = yardstick(said)
        if is_vacuous(measure, check.main):
            continue
        got = check.of(example)
        for name, reference in measure.items():
            actual = np.asarray(got[name], dtype=float)
            admitted = np.broadcast_to(tolerance(np.asarray(reference.bound)), actual.shape)
            assert difference(actual, reference, np.asarray(reference.bound)).agrees
            for at in np.ndindex(actual.shape):
                if abs(actual[at]) * RELATIVE <= 2 * admitted[at]:
                    # An entry that is 0, or nothing but rounding beside the terms that cancel in it.
                    invisible += abs(actual[at]) > admitted[at]
                    continue
                changed = actual.copy()
                changed[at] *= 1 + RELATIVE
                found = difference(changed, reference, np.asarray(reference.bound))
                assert not found.agrees, (name, at, actual[at], admitted[at])
                assert found.index == at
                perturbed += 1
    assert perturbed > 0
    assert invisible <= 0.05 * (perturbed + invisible), f"{invisible} entries are too small to judge"


def test_the_policy_is_one_number_and_the_dtype() -> None:
    bound = np.array([0.0, 1.0, 10.0])
    assert tolerance(bound).tolist() == [0.0, SAFETY * 2.0**-53, SAFETY * 10 * 2.0**-53]
    assert unit_roundoff(np.float32) == 2.0**-24
    assert np.array_equal(tolerance(bound, np.float32) * 2.0**-29, tolerance(bound))
