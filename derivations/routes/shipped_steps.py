"""The table of the code route, third part: steps and their effects, and what EM means."""

from __future__ import annotations

from typing import Any

from bayesgrad.symbolic.terms import Tensor, Term, exp, inv, lift, total
from derivations.notation import HEAD, C, d_v, n
from derivations.routes.code_route import ships
from derivations.routes.shipped import Bodies, Named


@ships("dynamics.loss-decrease", "any-step", "bayesgrad.dynamics.loss_change")
def _(shipped, t):
    return shipped.dynamics.loss_change(t.G0, t.d)


def one_rate(named: Named) -> Bodies:
    rate = Tensor("rate")
    return {named["eta"]: lambda b: rate()}


@ships("dynamics.loss-decrease", "gradient-step", "bayesgrad.dynamics.loss_decrease", bodies=one_rate)
def _(shipped, t):
    return shipped.dynamics.loss_decrease(*(t.G0[b] for b in range(t.G0.shape[0])), eta=t.rate)


@ships("dynamics.value-step", "context", "bayesgrad.dynamics.value_step")
def _(shipped, t):
    return shipped.dynamics.value_step(t.a, t.u, eta=t.eta).context


@ships("dynamics.value-step", "loss", "bayesgrad.dynamics.value_step")
def _(shipped, t):
    return shipped.dynamics.value_step(t.a, t.u, eta=t.eta).loss


@ships("dynamics.score-step", "step", "bayesgrad.dynamics.score_step")
def _(shipped, t):
    return shipped.dynamics.score_step(t.a, t.u, t.v, eta=t.eta).scores


@ships("dynamics.score-step", "loss", "bayesgrad.dynamics.score_step")
def _(shipped, t):
    return shipped.dynamics.score_step(t.a, t.u, t.v, eta=t.eta).loss


def own_step(named: Named) -> Bodies:
    """The step of the scores is their own gradient step."""
    eta = Tensor("eta", kind="positive")
    return {named["ds"]: lambda i, j: eta() * HEAD.a(i, j) * HEAD.A(i, j)}


@ships("dynamics.score-step", "context", "bayesgrad.dynamics.score_step", bodies=own_step)
def _(shipped, t):
    return shipped.dynamics.score_step(t.a, t.u, t.v, eta=t.eta).context


@ships("dynamics.feedback", "compatibility", "bayesgrad.dynamics.feedback")
def _(shipped, t):
    return shipped.dynamics.feedback(t.a, t.u, eta=t.eta).compatibility


def _advantage_change(shipped: Any, t: Any) -> Any:
    return shipped.dynamics.feedback(t.a, t.u, eta=t.eta).advantage


for _part in ("advantage", "one-query", "uniform"):
    ships("dynamics.feedback", _part, "bayesgrad.dynamics.feedback")(_advantage_change)


@ships("dynamics.feedback", "with-scores", "bayesgrad.dynamics.score_step", "bayesgrad.compatibility")
def _(shipped, t):
    moved = shipped.dynamics.score_step(t.a, t.u, t.v, eta=t.eta).weights
    return t.xp.sum(moved * shipped.gradients.compatibility(t.u, t.v), axis=-1)


def stepping(named: Named) -> Bodies:
    """At the start of the step (h = 0): g = a v, values stepping down their gradient, read-out steps free."""
    N, a, eta = named, Tensor("a", (n, HEAD.columns)), Tensor("eta")
    u = _at_start(N, a)

    def dv(j: Any, c: Any) -> Term:
        return -(eta() * total(lambda l: a(l, j) * u(l, c), over=n))

    return {
        N["h"]: lambda: lift(0),
        N["g0"]: lambda i, c: total(lambda j: a(i, j) * N["v0"](j, c), over=HEAD.columns),
        N["dg"]: lambda i, c: total(lambda j: a(i, j) * dv(j, c), over=HEAD.columns),
        N["dv"]: dv,
    }


def _at_start(N: Named, a: Tensor) -> Tensor:
    """The upstream gradient at the start, as a tensor that no later time enters."""

    def logit(i: Any, y: Any) -> Term:
        context = lambda c: total(lambda j: a(i, j) * N["v0"](j, c), over=HEAD.columns)
        return total(lambda c: context(c) * N["W0"](c, y), over=d_v) + N["c0"](y)

    def residual(i: Any, y: Any) -> Term:
        mass = total(lambda d: exp(logit(i, d)), over=C)
        return total(lambda d: N["t"](i, d), over=C) * exp(logit(i, y)) * inv(mass) - N["t"](i, y)

    return Tensor("u0", (n, d_v), body=lambda i, c: total(lambda y: residual(i, y) * N["W0"](c, y), over=C))


@ships("dynamics.feedback-full", "compatibility", "bayesgrad.dynamics.feedback_full", bodies=stepping)
def _(shipped, t):
    got = shipped.dynamics.feedback_full(
        t.a, t.v0, t.r, t.p, t.W0, totals=t.tau, eta=t.eta, W_O_step=t.dW, c_O_step=t.dc
    )
    return got.compatibility


def _value_gradient(shipped: Any, t: Any) -> Any:
    return shipped.gradients.value_gradient(t.a, t.u)


@ships("dynamics.weight-space", "matrix", "bayesgrad.dynamics.weight_space_value_step")
def _(shipped, t):
    return shipped.dynamics.weight_space_value_step(t["x'"], _value_gradient(shipped, t), eta=t.eta)


@ships("dynamics.weight-space", "with-bias", "bayesgrad.dynamics.weight_space_value_step")
def _(shipped, t):
    return shipped.dynamics.weight_space_value_step(t["x'"], _value_gradient(shipped, t), eta=t.eta, bias=True)


@ships("dynamics.weight-space", "per-token", "bayesgrad.dynamics.weight_space_value_step")
def _(shipped, t):
    return shipped.dynamics.weight_space_value_step(t["x'"], _value_gradient(shipped, t), eta=t.eta)


@ships("dynamics.natural-routing", "solutions", "bayesgrad.dynamics.natural_direction", "bayesgrad.fisher")
def _(shipped, t):
    b = shipped.gradients.compatibility(t.u, t.v)
    natural = t.xp.expand_dims(shipped.dynamics.natural_direction(b, mask=t.mask()), axis=-1)
    return t.xp.matrix_transpose(t.xp.matmul(shipped.fisher(t.a), natural)[..., 0])


@ships("dynamics.natural-routing", "pseudo-inverse", "bayesgrad.dynamics.natural_direction")
def _(shipped, t):
    natural = shipped.dynamics.natural_direction(shipped.gradients.compatibility(t.u, t.v), mask=t.mask())
    return t.xp.sum(natural, axis=-1)


SEEING = ("all", "holes")  # symbols count as not 0: a row of weights 0 has no mass to divide by


@ships("dynamics.natural-routing", "bayes-rule", "bayesgrad.dynamics.replicator_step", patterns=SEEING)
def _(shipped, t):
    return shipped.dynamics.replicator_step(t.a, t.b, eta=t.eta)


def one_row(x: Any) -> Any:
    return x.xp.expand_dims(x, axis=0)


@ships("dynamics.natural-routing", "replicator", "bayesgrad.dynamics.replicator_velocity")
def _(shipped, t):
    return shipped.dynamics.replicator_velocity(one_row(t.a), one_row(t.b)).weights[0]


@ships("dynamics.natural-routing", "variance", "bayesgrad.dynamics.replicator_velocity")
def _(shipped, t):
    return shipped.dynamics.replicator_velocity(one_row(t.a), one_row(t.b)).mean_compatibility[0]


# --- em ---------------------------------------------------------------------------------------------------------------


@ships("lemma.em-identity", "identity", "bayesgrad.em.em_identity")
def _(shipped, t):
    got = shipped.em.em_identity(t.pi, t.c, t["c'"])
    return got.cost_change - got.divergence


@ships("lemma.em-identity", "identity", "bayesgrad.em.mixture_loss")
def _(shipped, t):
    return shipped.em.mixture_loss(t.pi, t["c'"]) - shipped.em.mixture_loss(t.pi, t.c)


@ships("em.fisher-identity", "cost", "bayesgrad.em.mixture_responsibilities")
def _(shipped, t):
    return shipped.em.mixture_responsibilities(t.pi, t.c)


@ships("em.fisher-identity", "along", "bayesgrad.em.mixture_loss_change")
def _(shipped, t):
    return shipped.em.mixture_loss_change(t.pi, t.c, t.dc)


@ships("lemma.em-identity", "identity", "bayesgrad.em.mixture_responsibilities")
def _(shipped, t):
    r, r1 = (shipped.em.mixture_responsibilities(t.pi, c) for c in (t.c, t["c'"]))
    return t.xp.sum(r * (t["c'"] - t.c) - r * (t.xp.log(r) - t.xp.log(r1)))


@ships("em.proximal-e-step", "minimum", "bayesgrad.em.proximal_e_step", puts="a", patterns=("all", "holes"))
def _(shipped, t):
    return shipped.em.proximal_e_step(one_row(t.S * t.a0), one_row(t.b), eta=t.eta)[0]


@ships("em.proximal-m-step", "minimum", "bayesgrad.em.proximal_m_step", puts="v")
def _(shipped, t):
    return shipped.em.proximal_m_step(t.v0, t.a, t.u, eta=t.eta)


@ships("em.gaussian-mixture", "responsibilities", "bayesgrad.em.gaussian_mixture_responsibilities", patterns=SEEING)
def _(shipped, t):
    got = shipped.em.gaussian_mixture_responsibilities(one_row(t.q), t.k, priors=t.M * t.pi, scale=t.scale)
    return got[0]


@ships("em.gaussian-mixture", "responsibilities", "bayesgrad.attention", patterns=("all",))
def _(shipped, t):
    bias = one_row(t.xp.log(t.pi))
    return shipped.attention(one_row(t.q), t.k, t.k, bias=bias, scale=t.scale).weights[0]
