"""When a distance to the final state has settled (no torch)."""

from __future__ import annotations

from collections.abc import Sequence


def settled_at(steps: Sequence[int], distance: Sequence[float], share: float = 0.1) -> float:
    """The fraction of training after which the distance stays within ``share`` of its starting value (interpolated)."""
    level = share * distance[0]
    last = max((index for index, value in enumerate(distance) if value > level), default=None)
    if last is None or last + 1 >= len(steps):
        return 0.0 if last is None else 1.0
    above, below = distance[last], distance[last + 1]
    step = steps[last] + (steps[last + 1] - steps[last]) * (above - level) / (above - below)
    return float(step / steps[-1])
