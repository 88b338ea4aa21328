r"""The catalogue: every result as data, in an order in which nothing rests on what comes later.

A :class:`Theorem` ties a stable label to its statement (TeX), what it assumes, what it is read with, where it comes
from, which functions of this package implement it, and by which routes it must be established. What its proof rests on
is not here: the proofs say it. ``read_with`` names the results that explain this one although no proof needs them.

- ``proof``: general in every size, by named rules; ``exact``: an identity of rational functions at small sizes;
- ``code``: the shipped function run on symbols equals the statement; ``formal``: Coq;
- ``check``: numbers against independent oracles; ``wrong_laws``: wrong variants that every route rejects;
- ``observed``: a training run with its criterion written down before the run.

``routes`` says "required", "optional", or why a route does not apply. Whether a route was *taken* is not here: it is
computed from evidence.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bayesgrad.statements import STATEMENTS

ROUTES = ("proof", "exact", "code", "formal", "check", "wrong_laws", "observed")
P1, P2 = "arXiv 2512.22471", "arXiv 2512.22473"
OURS = "ours"

# Which routes a kind of result must take.
_INEQUALITY = "an inequality is no identity of rational functions"
_COUNTING = "a statement about a family of finite models: exhaustive enumeration in exact rationals takes this place"
_WITNESS = "the statement is the existence of one certified instance"
_LEMMA_CODE = "a lemma: no function implements it"
_NO_RUN = "no training run can tell: the statement has no free empirical content"


def _routes(**routes: str) -> Mapping[str, str]:
    return MappingProxyType({route: routes.get(route, "optional") for route in ROUTES})


_IDENTITY = _routes(
    proof="required", exact="required", code="required", check="required", wrong_laws="required", observed=_NO_RUN
)
_IDENTITY_RUN = _routes(
    proof="required", exact="required", code="required", check="required", wrong_laws="required", observed="optional"
)
_BOUND = _routes(proof="required", exact=_INEQUALITY, code=_INEQUALITY, check="required", observed=_NO_RUN)
_FAMILY = _routes(proof="required", exact="required", code=_COUNTING, check="required", observed=_NO_RUN)
_LEMMA = _routes(proof="required", exact=_INEQUALITY, code=_LEMMA_CODE, check="required", observed=_NO_RUN)


@dataclass(frozen=True)
class Theorem:
    """One result. ``statement`` is TeX made from the claim that was proved; ``implements`` are dotted names."""

    label: str
    title: str
    statement: str
    assumptions: tuple[str, ...]
    read_with: tuple[str, ...]
    source: str
    implements: tuple[str, ...]
    routes: Mapping[str, str]
    naive: tuple[str, ...] = ()

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The callables behind ``implements``, imported now."""
        out = []
        for name in self.implements:
            module, _, attribute = name.rpartition(".")
            out.append(getattr(importlib.import_module(module), attribute))
        return tuple(out)

    def required(self) -> tuple[str, ...]:
        """The routes that it must take."""
        return tuple(route for route in ROUTES if self.routes[route] == "required")


_ROW = "row i sees at least one key (an empty row has weights, context and gradients 0 by convention)"
_ANY = "any network behind the head, with upstream gradient u = dL/dg"
_LINEAR = "linear read-out z = g W_O + c_O with cross-entropy"
_FIRST = "first order in the step size eta"
_FROZEN = "weights a and upstream gradients u are held fixed while the values step"

LEMMAS = (
    Theorem(
        "lemma.log-bound",
        "The logarithm lies below its tangent at 1",
        STATEMENTS["lemma.log-bound"],
        ("t > 0",),
        (),
        OURS,
        (),
        _LEMMA,
    ),
    Theorem(
        "lemma.gibbs",
        "Gibbs' inequality",
        STATEMENTS["lemma.gibbs"],
        ("p, q distributions on a finite set", "0 log 0 = 0; the sum is infinite where q misses part of p's support"),
        (),
        OURS,
        ("bayesgrad.bayes.kl_divergence",),
        _routes(proof="required", exact=_INEQUALITY, code=_INEQUALITY, check="required", observed=_NO_RUN),
    ),
    Theorem(
        "lemma.variance-form",
        "A variance as a double sum over pairs",
        STATEMENTS["lemma.variance-form"],
        ("sum_j a_j = 1",),
        (),
        OURS,
        (),
        _routes(proof="required", exact="required", code=_LEMMA_CODE, check="required", observed=_NO_RUN),
    ),
    Theorem(
        "lemma.em-identity",
        "What an exact EM step changes",
        STATEMENTS["lemma.em-identity"],
        ("r_0, r_1 the exact responsibilities before and after", "priors pi fixed"),
        (),
        OURS,
        ("bayesgrad.em.mixture_loss", "bayesgrad.em.mixture_responsibilities"),
        _routes(proof="required", exact="required", check="required", observed=_NO_RUN),
    ),
)

BAYES = (
    Theorem(
        "bayes.risk-decomposition",
        "Cross-entropy is entropy plus divergence",
        STATEMENTS["bayes.risk-decomposition"],
        ("finite outcome sets", "0 log 0 = 0; risks in [0, +inf]"),
        (),
        P1,
        ("bayesgrad.bayes.risk", "bayesgrad.bayes.conditional_entropy"),
        _routes(proof="required", exact="optional", code=_COUNTING, check="required", observed=_NO_RUN),
    ),
    Theorem(
        "bayes.posterior-predictive",
        "The best predictor is the posterior predictive",
        STATEMENTS["bayes.posterior-predictive"],
        (
            "unique on contexts of positive probability",
            "(i) y independent of c given (x, theta)",
            "(ii) x independent of theta given c; without it the weights are p(theta|x,c)",
            "a softmax model attains the minimum only where p has full support; its logits are unique up to a constant",
        ),
        (),
        P1,
        ("bayesgrad.bayes.posterior_predictive",),
        _routes(proof="required", exact=_INEQUALITY, code=_COUNTING, check="required", observed="optional"),
        naive=("p(y|x,c) = sum_theta p(theta|c) p(y|x,theta) without condition (ii)",),
    ),
    Theorem(
        "bayes.chain-rule",
        "Losses of the positions add up to the loss of the sequence",
        STATEMENTS["bayes.chain-rule"],
        (
            "every position is supervised, sum loss, positive probability",
            "with inputs x: y_t independent of future x given the past",
        ),
        (),
        OURS,
        ("bayesgrad.bayes.sequence_surprise",),
        _FAMILY,
        naive=("the same with inputs x and no condition on them (x_2 := y_1 breaks it)",),
    ),
    Theorem(
        "bayes.entropy-is-blind",
        "Equal entropies say nothing about equal predictions",
        STATEMENTS["bayes.entropy-is-blind"],
        ("witnesses: (1,0) against (0,1) with infinite KL; (1/3,2/3) against (2/3,1/3) with KL = 1/3 bit",),
        (),
        OURS,
        ("bayesgrad.bayes.entropy", "bayesgrad.bayes.kl_divergence"),
        _routes(proof="required", exact=_WITNESS, code=_WITNESS, check="required", observed=_NO_RUN),
        naive=("a model whose entropy matches the exact entropy predicts the exact distribution",),
    ),
    Theorem(
        "bayes.bijection",
        "What a revealed part of a random permutation says about the rest",
        STATEMENTS["bayes.bijection"],
        (
            "uniform permutation of V values",
            "keys ignorable: independent of the permutation given the revealed pairs",
            "m < V distinct pairs revealed",
        ),
        ("bayes.posterior-predictive",),
        OURS,
        ("bayesgrad.bayes.bijection_predictive",),
        _routes(proof="required", exact="required", code=_COUNTING, check="required", observed="optional"),
        naive=("the same for keys chosen with knowledge of the permutation (key := inverse of value 0)",),
    ),
    Theorem(
        "bayes.hmm-filter",
        "Filtering a hidden Markov chain",
        STATEMENTS["bayes.hmm-filter"],
        ("positive normalisers", "no transition before the first observation"),
        ("bayes.posterior-predictive", "bayes.chain-rule"),
        OURS,
        ("bayesgrad.bayes.hmm_filter",),
        _routes(proof="required", exact="required", code=_COUNTING, check="required", observed="optional"),
    ),
    Theorem(
        "bayes.sticky-markov",
        "Predicting a chain that is seen through noise",
        STATEMENTS["bayes.sticky-markov"],
        (
            "P and mu known; x_t is emitted by y_{t-1} through Gaussian noise",
            "the bound holds for the expected loss: on one sequence the training loss can fall below it",
        ),
        (),
        OURS,
        ("bayesgrad.bayes.sticky_markov_predictive",),
        _routes(proof="required", exact="required", code=_COUNTING, check="required", observed="optional"),
        naive=("no training loss falls below H(Y_t|Y_{t-1})",),
    ),
)

HEAD = (
    Theorem(
        "softmax.shift-invariance",
        "A common shift of the scores changes nothing",
        STATEMENTS["softmax.shift-invariance"],
        (_ROW,),
        (),
        OURS,
        ("bayesgrad.softmax",),
        _IDENTITY,
    ),
    Theorem(
        "softmax.jacobian",
        "The Jacobian of softmax",
        STATEMENTS["softmax.jacobian"],
        (_ROW,),
        (),
        P2,
        ("bayesgrad.fisher",),
        _IDENTITY,
    ),
    Theorem(
        "softmax.fisher",
        "The Jacobian is the Fisher information",
        STATEMENTS["softmax.fisher"],
        (_ROW, "coordinates of masked keys lie in the kernel as well"),
        (),
        OURS,
        ("bayesgrad.fisher",),
        _BOUND,
    ),
    Theorem(
        "loss.logit-gradient",
        "The gradient of cross-entropy in the logits",
        STATEMENTS["loss.logit-gradient"],
        (
            "hard target: t_ic = w_i [c = y_i]",
            "class weights and smoothing: t_ic = w_i omega_c ((1-eps)[c=y_i] + eps/C)",
        ),
        (),
        "standard; the form with weights and smoothing is ours",
        ("bayesgrad.cross_entropy",),
        _IDENTITY_RUN,
    ),
    Theorem(
        "attention.upstream",
        "What the read-out sends back to the context",
        STATEMENTS["attention.upstream"],
        (_LINEAR,),
        (),
        P2,
        ("bayesgrad.attention_block_gradients",),
        _IDENTITY,
    ),
    Theorem(
        "attention.weight-gradient",
        "Compatibility is the gradient in the weights",
        STATEMENTS["attention.weight-gradient"],
        (_ANY, "weights taken as free variables"),
        (),
        OURS,
        ("bayesgrad.compatibility",),
        _IDENTITY,
    ),
    Theorem(
        "attention.delta-identity",
        "The mean compatibility without the weights",
        STATEMENTS["attention.delta-identity"],
        (_ANY,),
        (),
        OURS,
        ("bayesgrad.mean_compatibility",),
        _IDENTITY,
    ),
    Theorem(
        "attention.routing-law",
        "The routing law: scores move by advantage",
        STATEMENTS["attention.routing-law"],
        (_ANY, _ROW, "masked pairs have gradient exactly 0"),
        (),
        P2,
        ("bayesgrad.score_gradient", "bayesgrad.advantage"),
        _IDENTITY_RUN,
    ),
    Theorem(
        "attention.value-law",
        "The value law: values move against the queries they answer",
        STATEMENTS["attention.value-law"],
        (_ANY,),
        (),
        P2,
        ("bayesgrad.value_gradient", "bayesgrad.effective_count"),
        _IDENTITY_RUN,
    ),
    Theorem(
        "attention.query-law",
        "A query moves by a covariance of compatibility and keys",
        STATEMENTS["attention.query-law"],
        (_ANY, _ROW),
        (),
        OURS,
        ("bayesgrad.query_gradient",),
        _IDENTITY,
    ),
    Theorem(
        "attention.key-law",
        "A key moves by its advantages, and a common shift of all keys not at all",
        STATEMENTS["attention.key-law"],
        (_ANY, "summed over j it is 0, so a key bias has gradient exactly 0"),
        (),
        OURS,
        ("bayesgrad.key_gradient",),
        _IDENTITY,
    ),
    Theorem(
        "attention.projection-laws",
        "The gradients of the projections",
        STATEMENTS["attention.projection-laws"],
        ("W_K and W_V likewise", "value bias: sum of u over non-empty rows; c_O: sum of r"),
        (),
        OURS,
        ("bayesgrad.projection_gradients", "bayesgrad.read_out_gradients"),
        _IDENTITY,
    ),
    Theorem(
        "attention.input-law",
        "The gradient of the input through queries, keys and values",
        STATEMENTS["attention.input-law"],
        ("self-attention; in cross-attention the first term belongs to one input, the others to the other",),
        (),
        OURS,
        ("bayesgrad.input_gradients",),
        _IDENTITY,
    ),
    Theorem(
        "attention.multi-head",
        "The laws hold per head, and shared keys and values sum over their group",
        STATEMENTS["attention.multi-head"],
        ("W_O sliced by head; query head h reads key/value head floor(h / (H/G))",),
        ("attention.upstream", "attention.projection-laws", "attention.input-law"),
        OURS,
        ("bayesgrad.grouped_attention_gradients",),
        _IDENTITY,
    ),
    Theorem(
        "attention.saturation-bound",
        "A saturated weight routes little",
        STATEMENTS["attention.saturation-bound"],
        (_ANY, _ROW, "maximum and minimum over visible keys; equality in every two-key row"),
        (),
        OURS,
        ("bayesgrad.dynamics.saturation_bound",),
        _BOUND,
    ),
)

DYNAMICS = (
    Theorem(
        "dynamics.loss-decrease",
        "How much a gradient step lowers the loss",
        STATEMENTS["dynamics.loss-decrease"],
        (_FIRST, "another optimiser: the gradient times its actual step"),
        (),
        OURS,
        ("bayesgrad.dynamics.loss_decrease",),
        _IDENTITY_RUN,
    ),
    Theorem(
        "dynamics.value-step",
        "What a step of the values does to the context",
        STATEMENTS["dynamics.value-step"],
        (_ANY, "dg is exact at fixed weights; dL is first order"),
        (),
        OURS,
        ("bayesgrad.dynamics.value_step",),
        _IDENTITY_RUN,
    ),
    Theorem(
        "dynamics.score-step",
        "What a step of the scores does to the context",
        STATEMENTS["dynamics.score-step"],
        (_ANY, _FIRST),
        (),
        OURS,
        ("bayesgrad.dynamics.score_step",),
        _IDENTITY_RUN,
    ),
    Theorem(
        "dynamics.feedback",
        "When routing feeds itself, and when not",
        STATEMENTS["dynamics.feedback"],
        (_FROZEN, "A_ij grows iff sum_l a_lj u_i.u_l exceeds its a_i-weighted mean over j"),
        ("dynamics.value-step",),
        "arXiv 2512.22473 states it unconditionally; the condition is ours",
        ("bayesgrad.dynamics.feedback",),
        _IDENTITY_RUN,
        naive=("a value step always strengthens the keys that already have weight",),
    ),
    Theorem(
        "dynamics.feedback-full",
        "The feedback with the upstream gradient moving too",
        STATEMENTS["dynamics.feedback-full"],
        (_LINEAR, _FIRST, "dz_i = dg_i W_O + g_i dW_O + dc_O"),
        ("dynamics.feedback", "attention.upstream"),
        OURS,
        ("bayesgrad.dynamics.feedback_full",),
        _IDENTITY_RUN,
        naive=("u may be held fixed for small eta",),
    ),
    Theorem(
        "dynamics.weight-space",
        "Training W_V mixes the value steps of similar inputs",
        STATEMENTS["dynamics.weight-space"],
        ("a value bias adds 1 to each x_j.x_l", "the per-token law for every gradient iff X X^T = I"),
        (),
        OURS,
        ("bayesgrad.dynamics.weight_space_value_step",),
        _IDENTITY_RUN,
        naive=("training W_V moves each value by its own gradient",),
    ),
    Theorem(
        "dynamics.natural-routing",
        "The natural gradient of routing is Bayes' rule",
        STATEMENTS["dynamics.natural-routing"],
        (_ROW, "b held fixed along the flow", "the mean loss puts 1/N into b: eta scales with N"),
        (),
        OURS,
        ("bayesgrad.dynamics.natural_direction", "bayesgrad.dynamics.replicator_step"),
        _routes(proof="required", exact="required", code="required", check="required", wrong_laws="required"),
    ),
    Theorem(
        "dynamics.frame-precision",
        "Saturated routing stops, values need not",
        STATEMENTS["dynamics.frame-precision"],
        (
            _ROW,
            "R stays bounded as a_i becomes one-hot",
            "value gradients tend to u_i + sum of a_lj u_l over the other queries, which can vanish as well",
            "nothing is said about when weights saturate",
        ),
        (),
        "arXiv 2512.22471 and 2512.22473 (the claim); the bound is ours",
        ("bayesgrad.dynamics.frame_precision_bound",),
        _routes(proof="required", exact=_INEQUALITY, code=_INEQUALITY, check="required", observed="optional"),
    ),
)

EM = (
    Theorem(
        "em.fisher-identity",
        "The gradient of a mixture loss is that of its E-step",
        STATEMENTS["em.fisher-identity"],
        ("priors pi fixed",),
        (),
        OURS,
        ("bayesgrad.em.mixture_responsibilities",),
        _IDENTITY,
    ),
    Theorem(
        "em.proximal-e-step",
        "Multiplying in a likelihood is a proximal step",
        STATEMENTS["em.proximal-e-step"],
        ("eta > 0", "minimum over the simplex, unique; a_0 need not have full support"),
        (),
        OURS,
        ("bayesgrad.em.proximal_e_step",),
        _routes(proof="required", exact="required", code="required", check="required", wrong_laws="required"),
    ),
    Theorem(
        "em.proximal-m-step",
        "A value step is a proximal step",
        STATEMENTS["em.proximal-m-step"],
        ("eta > 0",),
        (),
        OURS,
        ("bayesgrad.em.proximal_m_step",),
        _IDENTITY,
    ),
    Theorem(
        "em.gaussian-mixture",
        "Attention weights are the responsibilities of a Gaussian mixture",
        STATEMENTS["em.gaussian-mixture"],
        ("scale > 0", "pi_j >= 0, not all 0", "a bias that depends on the query gives another prior per query"),
        ("softmax.shift-invariance",),
        OURS,
        ("bayesgrad.em.gaussian_mixture_responsibilities",),
        _IDENTITY,
    ),
    Theorem(
        "em.not-variational",
        "The attention pair is no EM: it can raise its own loss",
        STATEMENTS["em.not-variational"],
        (
            "witness at eta = 1: n = 1, m = 2, scores 0, W_O = (0,1,-1), y = 0, v = (5,-3)",
            "for every eta: eta w^2 <= 1, V = max(4, 4/eta), v = ((1+V)/w, (1-V)/w), W_O = (0, w, -w)",
            "for a fixed instance a small enough eta lowers L",
        ),
        (
            "attention.upstream",
            "attention.value-law",
            "attention.routing-law",
            "dynamics.natural-routing",
            "lemma.em-identity",
        ),
        "arXiv 2512.22473 calls the reading structural; the witness is ours",
        ("bayesgrad.em.not_variational_witness",),
        _routes(proof="required", exact=_WITNESS, code=_WITNESS, check="required", observed=_NO_RUN),
        naive=("alternating routing and value steps lower the loss as EM does",),
    ),
)

FAMILIES: Mapping[str, tuple[Theorem, ...]] = MappingProxyType(
    {
        "Lemmas": LEMMAS,
        "Cross-entropy and Bayes": BAYES,
        "The head": HEAD,
        "Dynamics": DYNAMICS,
        "What EM means exactly": EM,
    }
)
THEOREMS: tuple[Theorem, ...] = tuple(theorem for family in FAMILIES.values() for theorem in family)
_BY_LABEL = {theorem.label: theorem for theorem in THEOREMS}


def theorem(label: str) -> Theorem:
    """The theorem of a label.

    Raises:
        ValueError: an unknown label; the message names the nearest ones.

    >>> theorem("attention.routing-law").title
    'The routing law: scores move by advantage'
    """
    if label not in _BY_LABEL:
        near = difflib.get_close_matches(str(label), _BY_LABEL, n=3, cutoff=0.4) or list(_BY_LABEL)[:3]
        raise ValueError(f"label: got {label!r}, expected one of the catalogue, such as {', '.join(near)}")
    return _BY_LABEL[label]
