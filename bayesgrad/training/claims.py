"""Claims and their judges.

A claim is a sentence with a source. A criterion is a function whose docstring says, before any run, what would support
it; the function computes the verdict from finished runs and nobody types one. Its identity is the SHA-256 of its text
and its code together, so that neither can change unnoticed; a changed criterion is a new one.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

SUPPORTED, CONDITIONAL, NOT_SUPPORTED, NOT_TESTED = "supported", "conditional", "not supported", "not tested"
VERDICTS = (SUPPORTED, CONDITIONAL, NOT_SUPPORTED, NOT_TESTED)


@dataclass(frozen=True)
class Claim:
    """A sentence of ours about what a source says."""

    id: str
    statement: str
    source: str


P1, P2, P3 = "arXiv 2512.22471", "arXiv 2512.22473", "arXiv 2512.23752"
BLOG, OURS = "the authors' blog", "ours"

CLAIMS = {
    claim.id: claim
    for claim in (
        Claim("optimum-is-posterior-predictive", "Cross-entropy risk is least at the posterior predictive.", P1),
        Claim("transformer-reaches-bayes", "A small transformer reaches the exact posterior predictive.", P1),
        Claim("mlp-fails", "A multilayer perceptron cannot do what the transformer does.", P1),
        Claim("lstm-fails-on-hmm", "A recurrent network fails where filtering is needed.", P1),
        Claim("tracks-single-sequences", "The model follows Bayes sequence by sequence, not only on average.", P1),
        Claim("hmm-transformer-filters", "A transformer trained on hidden Markov sequences filters.", P1),
        Claim("length-generalisation-smooth", "Its error grows smoothly beyond the trained length.", P1),
        Claim("layer0-keys-orthogonal", "Keys of the first layer form a near-orthogonal frame.", P1),
        Claim("query-key-sharpening", "Queries sharpen onto feasible keys layer by layer.", P1),
        Claim("value-curve-by-entropy", "Values lie on a curve that posterior entropy orders.", P1),
        Claim("routing-law", "Training moves scores along the advantage: dL/ds = -a A.", P2),
        Claim("value-law", "Training moves values along responsibility-weighted upstream gradients.", P2),
        Claim(
            "positive-feedback",
            "Routing and values reinforce each other: a key attended above its query's level gains advantage from the "
            "value step.",
            P2,
        ),
        Claim("em-structure", "One training step is an E-step of the routing and an M-step of the values.", P2),
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


@dataclass(frozen=True)
class Judgement:
    """A verdict with the figure that it rests on; ``interval`` is 95% over seeds."""

    verdict: str
    effect: float | None = None
    interval: tuple[float, float] | None = None
    unit: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


Judge = Callable[[Sequence[Any]], Judgement]


@dataclass(frozen=True)
class Criterion:
    """What decides a claim: its text, its code, and the hash of both."""

    claim: str
    text: str
    sha: str
    judge: Judge


CRITERIA: dict[str, Criterion] = {}


def criterion(claim: str) -> Callable[[Judge], Judge]:
    """Register a judge for ``claim``; its docstring is the criterion's text. It is given the finished runs."""
    if claim not in CLAIMS:
        raise ValueError(f"claim: got {claim!r}, expected one of {', '.join(CLAIMS)}")

    def register(judge: Judge) -> Judge:
        text = inspect.cleandoc(judge.__doc__ or "")
        if not text:
            raise ValueError(f"criterion of {claim}: got no docstring, expected the criterion in words")
        code = inspect.getsource(judge)
        sha = hashlib.sha256(f"{text}\n{code}".encode()).hexdigest()
        CRITERIA[claim] = Criterion(claim, text, sha, judge)
        return judge

    return register


def judge(claim: str, runs: Sequence[Any]) -> dict[str, Any]:
    """The row of ``claim`` in a record: the criterion, its hash, and the computed verdict."""
    rule, about = CRITERIA[claim], CLAIMS[claim]
    found = rule.judge(runs)
    if found.verdict not in VERDICTS:
        raise ValueError(f"verdict of {claim}: got {found.verdict!r}, expected one of {', '.join(VERDICTS)}")
    return {
        "id": claim,
        "statement": about.statement,
        "source": about.source,
        "criterion": rule.text,
        "criterion_sha": rule.sha,
        "verdict": found.verdict,
        "effect": found.effect,
        "interval": None if found.interval is None else list(found.interval),
        "unit": found.unit,
        "detail": found.detail,
    }
