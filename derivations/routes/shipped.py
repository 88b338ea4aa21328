"""The table of the code route: which function of the package computes which part of which law, and from what.

``f(shipped, t)``: ``shipped.gradients.score_gradient`` is the package's own function, ``t.a`` the tensor a of the claim
as a symbolic array, ``t.mask()`` the visible pairs as exact booleans. What is returned has the axes of the claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayesgrad.symbolic.terms import Count, Tensor, inv, lift, total
from derivations.notation import HEAD, C, n
from derivations.routes.code_route import ships

Bodies = dict[Tensor, Any]
Named = Mapping[str, Tensor]


def head_drawn(_: Named) -> Bodies:
    """Scores from queries and keys, which are drawn, as values are: the whole head is run."""
    return {HEAD.s: HEAD.s.body, HEAD.a: HEAD.a.body, **HEAD.free}


def whole_head(shipped: Any, t: Any) -> Any:
    """Every gradient of one head from q, k, v and u."""
    return shipped.gradients.attention_gradients(t.q, t.k, t.v, t.u, mask=t.mask(), bias=t.beta, scale=t.scale)


# --- softmax and cross-entropy ----------------------------------------------------------------------------------------


@ships("softmax.shift-invariance", "shift", "bayesgrad.softmax")
def _(shipped, t):
    return shipped.softmax(t.s + t.xp.expand_dims(t.c, axis=-1), mask=t.mask())


@ships("softmax.jacobian", "jacobian", "bayesgrad.fisher", "bayesgrad.softmax")
def _(shipped, t):
    F = shipped.fisher(shipped.softmax(t.s, mask=t.mask()))
    rows, keys = t.s.shape
    out = t.xp.zeros((rows, keys, rows, keys))
    for i in range(rows):
        out.data[i, :, i, :] = F.data[i]
    return out


@ships("softmax.jacobian", "normalisation", "bayesgrad.softmax")
def _(shipped, t):
    return t.xp.sum(shipped.softmax(t.s, mask=t.mask()), axis=-1)


@ships("softmax.fisher", "jacobian", "bayesgrad.fisher")
def _(shipped, t):
    return shipped.fisher(t.a)


@ships("softmax.fisher", "kernel", "bayesgrad.fisher")
def _(shipped, t):
    seen = t.xp.expand_dims(t.M, axis=-1)
    return t.xp.matrix_transpose(t.xp.matmul(shipped.fisher(t.a), seen)[..., 0])


CROSS_ENTROPY = "bayesgrad.cross_entropy"


@ships("loss.logit-gradient", "soft", CROSS_ENTROPY)
def _(shipped, t):
    return shipped.cross_entropy(t.z, t.t, reduction="sum").logit_gradient


def mean_of_soft(named: Named) -> Bodies:
    raw = Tensor("t1", (n, C))
    return {named["t"]: lambda i, c: raw(i, c) * inv(Count(n))}


@ships("loss.logit-gradient", "soft", CROSS_ENTROPY, bodies=mean_of_soft)
def _(shipped, t):
    return shipped.cross_entropy(t.z, t.t1, reduction="mean").logit_gradient


def weight_one(named: Named) -> Bodies:
    return {named["w"]: lambda i: lift(1)}


COUNTED = Tensor("counted", (n,), "indicator")


def weight_mean(named: Named) -> Bodies:
    """w_i = 1/N over the counted positions; all 0 where nothing is counted."""
    return {named["w"]: lambda i: COUNTED(i) * inv(total(lambda l: COUNTED(l), over=n))}


def counted_labels(t: Any) -> Any:
    """The labels, with the ignored index where a position does not count."""
    y = t.labels("y")
    y[~t.mask("counted")] = -100
    return y


@ships("loss.logit-gradient", "hard", CROSS_ENTROPY, bodies=weight_one)
def _(shipped, t):
    return shipped.cross_entropy(t.z, t.labels("y"), reduction="sum").logit_gradient


@ships("loss.logit-gradient", "hard", CROSS_ENTROPY, bodies=weight_mean, patterns=("all", "holes"))
def _(shipped, t):
    return shipped.cross_entropy(t.z, counted_labels(t), reduction="mean").logit_gradient


@ships("loss.logit-gradient", "smoothed", CROSS_ENTROPY, bodies=weight_one)
def _(shipped, t):
    got = shipped.cross_entropy(t.z, t.labels("y"), reduction="sum", class_weights=t.omega, label_smoothing=t.epsilon)
    return got.logit_gradient


# --- one head ---------------------------------------------------------------------------------------------------------


@ships("attention.weight-gradient", "weights", "bayesgrad.compatibility")
def _(shipped, t):
    return shipped.gradients.compatibility(t.u, t.v)


@ships("attention.routing-law", "scores", "bayesgrad.score_gradient", "bayesgrad.compatibility")
def _(shipped, t):
    return shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v))


@ships("attention.routing-law", "scores", "bayesgrad.attention_gradients", bodies=head_drawn)
def _(shipped, t):
    return whole_head(shipped, t).scores


@ships("attention.routing-law", "advantage", "bayesgrad.advantage")
def _(shipped, t):
    return -t.a * shipped.gradients.advantage(t.a, shipped.gradients.compatibility(t.u, t.v))


@ships("attention.routing-law", "fisher", "bayesgrad.fisher", "bayesgrad.compatibility")
def _(shipped, t):
    b = t.xp.expand_dims(shipped.gradients.compatibility(t.u, t.v), axis=-1)
    return t.xp.matmul(shipped.fisher(t.a), b)[..., 0]


@ships("attention.routing-law", "row-sum", "bayesgrad.score_gradient")
def _(shipped, t):
    return t.xp.sum(shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v)), axis=-1)


@ships("attention.routing-law", "masked", "bayesgrad.attention_gradients", bodies=head_drawn)
def _(shipped, t):
    return (1 - t.M) * whole_head(shipped, t).scores


@ships("attention.routing-law", "single-key", "bayesgrad.score_gradient")
def _(shipped, t):
    return shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v))


@ships("attention.routing-law", "bias", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).bias


@ships("attention.delta-identity", "delta", "bayesgrad.mean_compatibility")
def _(shipped, t):
    return shipped.gradients.mean_compatibility(t.u, t.g)


@ships("attention.value-law", "values", "bayesgrad.value_gradient")
def _(shipped, t):
    return shipped.gradients.value_gradient(t.a, t.u)


@ships("attention.value-law", "values", "bayesgrad.attention_gradients", bodies=head_drawn)
def _(shipped, t):
    return whole_head(shipped, t).values


@ships("attention.value-law", "effective-count", "bayesgrad.effective_count")
def _(shipped, t):
    return t.xp.expand_dims(shipped.gradients.effective_count(t.a), axis=-1) * t.ubar


@ships("attention.query-law", "queries", "bayesgrad.query_gradient", "bayesgrad.score_gradient")
def _(shipped, t):
    ds = shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v))
    return shipped.gradients.query_gradient(ds, t.k, scale=t.scale)


@ships("attention.query-law", "queries", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).queries


@ships("attention.query-law", "covariance", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).queries


@ships("attention.query-law", "scale", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).scale


@ships("attention.key-law", "keys", "bayesgrad.key_gradient", "bayesgrad.score_gradient")
def _(shipped, t):
    ds = shipped.gradients.score_gradient(t.a, shipped.gradients.compatibility(t.u, t.v))
    return shipped.gradients.key_gradient(ds, t.q, scale=t.scale)


@ships("attention.key-law", "keys", "bayesgrad.attention_gradients")
def _(shipped, t):
    return whole_head(shipped, t).keys


@ships("attention.key-law", "sum", "bayesgrad.attention_gradients", patterns=("all", "holes"))
def _(shipped, t):
    return t.xp.sum(whole_head(shipped, t).keys, axis=-2)
