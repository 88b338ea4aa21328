"""From context to files: ``index.html`` and ``bayesgrad.tex``, byte-identical for the same evidence."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from report import document as doc
from report.context import TONES, Context
from report.document import Emph, Items, Msg, Note, Para, Ref, Section, Text
from report.filters import escape_html, escape_tex
from report.messages import LANGUAGES
from report.render_html import HtmlRenderer, mark
from report.render_tex import TexRenderer
from report.sections import bibliography as sources
from report.sections import dependency_graph as graph
from report.sections import em_table as em
from report.sections import experiments, gallery, results, strength, summary
from report.sections import interactive_head as head
from report.sections import notation_table as notation
from report.sections import what_is_trusted as trust

HERE = Path(__file__).parent
TITLE, SUBTITLE = "bayesgrad", "What cross-entropy does to attention, proved, checked and put to the test"


def document(context: Context) -> doc.Document:
    """The tree of the whole report, or of one result."""
    banner = _banner(context)
    if context.only:
        told = results.build(context)
        return doc.Document(TITLE, context.only, tuple(told), results.pictures(context), banner)
    families = {section.name: section for section in results.build(context)}
    sections: list[Section] = [summary.build(context), notation.build(context), graph.build(context)]
    for name, section in families.items():
        sections.append(section)
        if name == "head":
            sections.append(head.build(context))
        if name == "em":
            sections.append(em.build(context))
    sections += [
        experiments.build(context),
        *strength.build(context),
        *gallery.build(context),
        *trust.build(context),
        *sources.build(context),
    ]
    figures = {**results.pictures(context), **experiments.drawings(context)}
    return doc.Document(TITLE, SUBTITLE, tuple(sections), figures, banner)


def _banner(context: Context) -> tuple[doc.Block, ...]:
    if context.failures:
        items = tuple(
            (Para((Ref(label), Text(f": {what}")) if label else (Text(what),)),) for label, what in context.failures
        )
        head = Para((Emph((Msg("ui.failed"),), strong=True),))
        return (Note("bad", (head, Items(items))),)
    absent = context.absent
    if absent:
        items = tuple((Para((Msg(f"route.{route}"), Text(f": {reason}"))),) for route, reason in absent)
        return (Note("warn", (Para((Emph((Msg("ui.not_run"),), strong=True),)), Items(items))),)
    return ()


@lru_cache(maxsize=1)
def fonts() -> str:
    """The embedded fonts as CSS."""
    faces = (
        ("Bayesgrad Text", "text-regular", "normal", "400"),
        ("Bayesgrad Text", "text-italic", "italic", "400"),
        ("Bayesgrad Text", "text-bold", "normal", "700"),
        ("Bayesgrad Mathematics", "mathematics", "normal", "400"),
    )
    rules = []
    for family, name, style, weight in faces:
        data = base64.b64encode((HERE / "assets" / "fonts" / f"{name}.woff2").read_bytes()).decode()
        rules.append(
            f'@font-face{{font-family:"{family}";font-style:{style};font-weight:{weight};font-display:block;'
            f"src:url(data:font/woff2;base64,{data}) format('woff2')}}"
        )
    return "\n".join(rules)


def _contents(sections: Sequence[Section], renderer: HtmlRenderer, depth: int = 2) -> str:
    rows = []
    for section in sections:
        sign = ""
        if section.label:
            sign = f'<span class="dot" aria-hidden="true">{mark(section.badge, TONES)}</span>'
        inner = [block for block in section.blocks if isinstance(block, Section)]
        below = _contents(inner, renderer, depth - 1) if inner and depth > 1 else ""
        rows.append(f'<li><a href="#{escape_html(section.name)}">{sign}{renderer.line(section.title)}</a>{below}</li>')
    return f"<ul>{''.join(rows)}</ul>"


def _asset(name: str) -> str:
    return (HERE / "assets" / name).read_text(encoding="utf-8").strip()


def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


def html(context: Context, tree: doc.Document) -> tuple[str, list[str]]:
    """The page, and the formulas that were refused (each is shown as plain text)."""
    renderer = HtmlRenderer(context.messages, context.labels, TONES, tree.figures)
    body = renderer.blocks(tree.sections)
    banner = renderer.blocks(tree.banner)
    contents = _contents(tree.sections, renderer)

    def say(id: str) -> Markup:
        return Markup(renderer.message(id))

    renderer.used |= {"ui.matches", "heading.contents", *(() if context.only else (*graph.MESSAGES, *head.MESSAGES))}
    template = _templates().get_template("page.html.j2")
    values = {
        "document": tree, "languages": LANGUAGES, "fonts": Markup(fonts()), "style": Markup(_asset("style.css")),
        "contents": Markup(contents), "banner": Markup(banner), "body": Markup(body), "say": say,
        "script": Markup("\n".join(_asset(name) for name in ("page.js", "graph.js", "head.js"))),
    }  # fmt: skip
    template.render(**values, catalogue="")  # the ids that the template itself uses become known
    catalogue = json.dumps(context.messages.subset(renderer.used), ensure_ascii=False, sort_keys=True)
    catalogue = catalogue.replace("<", "\\u003c").replace("&", "\\u0026")
    return template.render(**values, catalogue=Markup(catalogue)), renderer.refused


def tex(context: Context, tree: doc.Document) -> str:
    """The paper."""
    renderer = TexRenderer(context.messages, context.labels, TONES, tree.figures)
    source = (HERE / "templates" / "paper.tex.j2").read_text(encoding="utf-8")
    environment = Environment(
        variable_start_string="<<", variable_end_string=">>", block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>", undefined=StrictUndefined, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.from_string(source).render(
        title=escape_tex(tree.title),
        subtitle=escape_tex(tree.subtitle),
        banner=renderer.blocks(tree.banner),
        body=renderer.blocks(tree.sections),
    )
