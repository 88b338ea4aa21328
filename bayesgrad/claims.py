"""The claims that this package examines: each a sentence of ours about what a source says.

A claim may be settled by theorem: ``by_theorem`` is the verdict that follows once every result in ``labels`` is fully
proved. Whether they are, and what an experiment found, is computed from evidence.

>>> CLAIMS["routing-law"].labels
('attention.routing-law',)
"""

from __future__ import annotations

from dataclasses import dataclass

SUPPORTED, CONDITIONAL, NOT_SUPPORTED, NOT_TESTED = "supported", "conditional", "not supported", "not tested"


@dataclass(frozen=True)
class Claim:
    """A sentence of ours about what a source says."""

    id: str
    statement: str
    source: str
    labels: tuple[str, ...] = ()
    by_theorem: str = ""


P1, P2, P3 = "arXiv 2512.22471", "arXiv 2512.22473", "arXiv 2512.23752"
BLOG, OURS = "the authors' blog", "ours"

CLAIMS = {
    claim.id: claim
    for claim in (
        Claim(
            "optimum-is-posterior-predictive",
            "Cross-entropy risk is least at the posterior predictive.",
            P1,
            ("bayes.posterior-predictive",),
            SUPPORTED,
        ),
        Claim("transformer-reaches-bayes", "A small transformer reaches the exact posterior predictive.", P1),
        Claim("mlp-fails", "A multilayer perceptron cannot do what the transformer does.", P1),
        Claim("lstm-fails-on-hmm", "A recurrent network fails where filtering is needed.", P1),
        Claim("tracks-single-sequences", "The model follows Bayes sequence by sequence, not only on average.", P1),
        Claim("hmm-transformer-filters", "A transformer trained on hidden Markov sequences filters.", P1),
        Claim("length-generalisation-smooth", "Its error grows smoothly beyond the trained length.", P1),
        Claim("layer0-keys-orthogonal", "Keys of the first layer form a near-orthogonal frame.", P1),
        Claim("query-key-sharpening", "Queries sharpen onto feasible keys layer by layer.", P1),
        Claim("value-curve-by-entropy", "Values lie on a curve that posterior entropy orders.", P1),
        Claim(
            "routing-law",
            "Training moves scores along the advantage: dL/ds = -a A.",
            P2,
            ("attention.routing-law",),
            SUPPORTED,
        ),
        Claim(
            "value-law",
            "Training moves values along responsibility-weighted upstream gradients.",
            P2,
            ("attention.value-law",),
            SUPPORTED,
        ),
        Claim(
            "positive-feedback",
            "Routing and values reinforce each other: a key attended above its query's level gains advantage from the "
            "value step.",
            P2,
            ("dynamics.feedback",),
            CONDITIONAL,
        ),
        Claim(
            "em-structure",
            "One training step is an E-step of the routing and an M-step of the values.",
            P2,
            ("em.proximal-e-step", "em.proximal-m-step", "em.not-variational"),
            CONDITIONAL,
        ),
        Claim(
            "em-like-faster",
            "A learning rate ten times larger on W_V alone reaches SGD's final loss in less than half the steps.",
            P2,
        ),
        Claim("em-like-faster-tuned", "The same gain is there when every arm is tuned at equal compute.", OURS),
        Claim(
            "em-effect-specific-to-values",
            "The gain belongs to the values: the same factor on W_O alone gives less.",
            OURS,
        ),
        Claim("attention-early-values-late", "Routing settles early while values keep refining.", f"{P1}, {P2}"),
        Claim("production-geometry", "Production models show the same geometry.", P3),
        Claim("domain-restriction", "Restricting the domain sharpens that geometry.", P3),
        Claim("chain-of-thought-extends-depth", "Intermediate tokens stand in for missing layers.", BLOG),
    )
}  # fmt: skip
