"""The table of the code route: which function of the package computes which part of which law, and from what.

``f(shipped, t)``: ``shipped.gradients.score_gradient`` is the package's own function, ``t.a`` the tensor a of the claim
as a symbolic array, ``t.mask()`` the visible pairs as exact booleans. What is returned has the axes of the claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayesgrad.symbolic.terms import Tensor
from derivations.common.notation import HEAD

Bodies = dict[Tensor, Any]

Named = Mapping[str, Tensor]


def head_drawn(_: Named) -> Bodies:
    """Scores from queries and keys, which are drawn, as values are: the whole head is run."""
    return {HEAD.s: HEAD.s.body, HEAD.a: HEAD.a.body, **HEAD.free}


def whole_head(shipped: Any, t: Any) -> Any:
    """Every gradient of one head from q, k, v and u."""
    return shipped.gradients.attention_gradients(t.q, t.k, t.v, t.u, mask=t.mask(), bias=t.beta, scale=t.scale)


CROSS_ENTROPY = "bayesgrad.cross_entropy"
