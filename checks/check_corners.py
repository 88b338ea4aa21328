"""The corners of the domain, where the values that must come out are known exactly. No examples of the laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

import bayesgrad
from bayesgrad.testing.corners import CORNERS, Corner, violations
from bayesgrad.testing.engine import derived_seed
from bayesgrad.testing.profiles import Profile


def results(corner: Corner) -> dict[str, np.ndarray]:
    """Weights, context and gradients from the shipped functions, no warning allowed."""
    head = corner.head
    options = {"mask": head.mask, "bias": head.bias, "scale": head.scale}
    made = bayesgrad.attention(head.q, head.k, head.v, **options)
    got = bayesgrad.attention_gradients(head.q, head.k, head.v, head.u, **options)
    return {
        "weights": made.weights,
        "context": made.context,
        "scores": got.scores,
        "values": got.values,
        "queries": got.queries,
        "keys": got.keys,
    }


@pytest.mark.parametrize("name", CORNERS)
def check_corner(name: str, profile: Profile, draw_seed: int) -> None:
    """What the corner knows comes out exactly, and nothing else is NaN."""

    @seeded(derived_seed(f"corner/{name}", draw_seed))
    @settings(
        max_examples=max(profile.examples // 8, 16),
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(CORNERS[name])
    def judge(corner: Corner) -> None:
        with np.errstate(under="ignore"):
            found = violations(corner, results(corner))
        assert not found, f"{name}: {'; '.join(found)}\n  smallest:  {corner!r}"

    judge()
