"""Bibliography, versions, licences of what is embedded."""

from __future__ import annotations

from pathlib import Path

from report import document as doc
from report.context import Context
from report.document import Code, Details, Emph, Items, Link, Listing, Msg, Para, Section, Table, Text, prose, text

LICENCE = Path(__file__).parents[1] / "assets" / "fonts" / "GUST-FONT-LICENSE.txt"

AUTHORS = "N. Agarwal, S. R. Dalal, V. Misra"
PAPERS = (  # key, authors, title, where
    ("P1", AUTHORS, "The Bayesian Geometry of Transformer Attention", "2512.22471"),
    ("P2", AUTHORS, "Gradient Dynamics of Attention: How Cross-Entropy Sculpts Bayesian Manifolds", "2512.22473"),
    ("P3", AUTHORS, "Paper III, on production models", "2512.23752"),
    (
        "F1",
        "T. Dao and others",
        "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness",
        "2205.14135",
    ),
    ("F2", "T. Dao", "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", "2307.08691"),
)
OTHERS = (
    ("N", "S. Amari", "Natural Gradient Works Efficiently in Learning", "Neural Computation, 1998"),
    ("C", "S. Boldo, C. Lelay, G. Melquiond", "Coquelicot: A User-Friendly Library of Real Analysis for Coq", "2015"),
    ("B", "the authors of P1 to P3", "their blog", "for the claim about chains of thought"),
)


def _key(key: str) -> Emph:
    return Emph((Text(f"[{key}]"),), strong=True)


def build(context: Context) -> list[Section]:
    """The section."""
    items: list[tuple[doc.Block, ...]] = []
    for key, authors, title, number in PAPERS:
        link = Link(f"https://arxiv.org/abs/{number}", f"arXiv {number}")
        items.append((Para((_key(key), Text(f" {authors}. "), Emph((Text(title),)), Text(". "), link)),))
    for key, authors, title, where in OTHERS:
        items.append((Para((_key(key), Text(f" {authors}. "), Emph((Text(title),)), Text(f". {where}."))),))
    bibliography = Section(
        "bibliography",
        (Msg("heading.bibliography"),),
        (
            Items(tuple(items)),
            Para(
                prose(
                    """Sections of the papers are not cited by number: the numbers change from version to version.
                    *Ours* marks what the papers do not state: standard calculus, or a condition that they leave
                    out."""
                )
            ),
        ),
    )
    rows = tuple(((Code(name),), text(version)) for name, version in context.evidence["versions"].items())
    header = tuple((Msg(f"column.{name}"),) for name in ("package", "version"))
    versions = Section(
        "versions",
        (Msg("heading.versions"),),
        (Table(header, rows, "ll", name="versions", widths=(1, 2)),) if rows else (Para((Msg("verdict.not-run"),)),),
    )
    return [bibliography, versions, licences()]


def licences() -> Section:
    """What the page carries with it, and under which terms."""
    rows = (
        (
            text("Bayesgrad Text, Bayesgrad Mathematics"),
            prose("cut from TeX Gyre Pagella and Pagella Math of the GUST e-foundry, renamed as their licence asks"),
            text("GUST Font License"),
        ),
        (
            text("styles, scripts, figures, words"),
            prose("written for this report; no other library is embedded"),
            text("MIT"),
        ),
    )
    header = ((Msg("column.package"),), (Msg("column.meaning"),), (Msg("column.licence"),))
    blocks: list[doc.Block] = [
        Para((Msg("summary.licences"),), kind="lead"),
        Table(header, rows, "lll", name="licences", widths=(1.2, 2.4, 1)),
        Details((Text("GUST Font License"),), (Listing(LICENCE.read_text(encoding="utf-8"), "text"),), page_only=True),
    ]
    return Section("licences", (Msg("heading.licences"),), tuple(blocks))
