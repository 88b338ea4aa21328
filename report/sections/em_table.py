"""How far attention is expectation-maximisation: what is exact and what is analogy."""

from __future__ import annotations

from report.context import Context
from report.document import Badge, Line, Msg, Para, Ref, Section, Table, prose

ROWS = (
    (
        "Gradient of a mixture's loss: posterior mean of its parts' gradients.",
        "exact, at the level of the loss",
        ("em.fisher-identity",),
    ),
    (
        r"Multiplicative weights $a_j e^{-\eta b_j}/Z$: Bayes' rule with likelihood $e^{-\eta b_j}$.",
        "exact, for the natural direction at fixed compatibilities",
        ("em.proximal-e-step", "dynamics.natural-routing"),
    ),
    (
        "The plain routing gradient as an E-step.",
        "analogy: the same sign, another direction and another speed",
        ("attention.routing-law", "dynamics.natural-routing"),
    ),
    ("The value law as an M-step.", "exact, as a proximal step of the frozen surrogate", ("em.proximal-m-step",)),
    ("Softmax weights as responsibilities of Gaussians.", "exact, for a positive scale", ("em.gaussian-mixture",)),
    (
        "Alternating the two steps never raises the loss.",
        "false: the surrogate lies below the loss, not above",
        ("em.not-variational", "lemma.em-identity"),
    ),
)


def build(context: Context) -> Section:
    """The section."""
    rows = []
    for says, holds, labels in ROWS:
        refs: Line = tuple(
            part
            for label in labels
            if label in context.by_label
            for part in (Ref(label), *prose(" "), Badge(context.status(label)), *prose(" "))
        )
        rows.append((prose(says), prose(holds), refs))
    header = tuple((Msg(f"column.{name}"),) for name in ("reading", "holds", "results"))
    table = Table(header, tuple(rows), "lll", (Msg("caption.em"),), name="em", widths=(2, 1.6, 2))
    return Section("em-reading", (Msg("heading.em"),), (Para((Msg("summary.em-reading"),), kind="lead"), table))
