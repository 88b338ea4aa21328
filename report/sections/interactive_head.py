"""A small attention head that a reader can drag; the script that computes it is ``assets/head.js``."""

from __future__ import annotations

from report.context import Context
from report.document import Msg, Para, Raw, Section, prose
from report.filters import escape_html
from report.tex_mathml import mathml

QUERIES, KEYS = 2, 3
COLUMNS = (  # what the table shows for each pair, and the words for it
    (r"a_{ij}", "play.weight"),
    (r"b_{ij}", "play.compatibility"),
    (r"A_{ij}", "play.advantage"),
    (r"\mathrm ds_{ij}", "play.step"),
    (r"\mathrm dA_{ij}", "play.feedback"),
    (r"|\partial L/\partial s_{ij}|", "play.gradient"),
    (r"\text{bound}", "play.bound"),
)
MESSAGES = (*(id for _, id in COLUMNS), "play.scores", "play.plane", "play.size", "play.pair", "play.hint", "ui.reset")


def build(context: Context) -> Section:
    """The section; the paper has a sentence instead."""
    paper = (
        Para(prose("The page has an interactive head in this place: scores, values and upstream gradients to drag.")),
    )
    block = Raw(html(context), paper)
    return Section("play", (Msg("heading.head"),), (Para((Msg("summary.play"),), kind="lead"), block))


def html(context: Context) -> str:
    """The controls and the drawing that the script fills."""

    def say(id: str) -> str:
        return f'<span data-m="{id}">{escape_html(context.messages.english(id))}</span>'

    sliders = "".join(
        f'<label for="score-{i}-{j}">{mathml(f"s_{{{i + 1}{j + 1}}}")}'
        f'<input type="range" id="score-{i}-{j}" min="-4" max="4" step="0.01" data-score="{i},{j}" '
        f'aria-label="score of query {i + 1} and key {j + 1}">'
        f'<output for="score-{i}-{j}" id="shown-{i}-{j}"></output></label>'
        for i in range(QUERIES)
        for j in range(KEYS)
    )
    head = "".join(f'<th scope="col">{mathml(tex)}<br><small>{say(id)}</small></th>' for tex, id in COLUMNS)
    rows = "".join(
        f'<tr data-pair="{i},{j}"><th scope="row"><span class="sr">query {i + 1}, key {j + 1}</span>'
        f'<span aria-hidden="true">{mathml(f"i = {i + 1}, j = {j + 1}")}</span></th>'
        + "".join(f'<td data-cell="{n}"></td>' for n in range(len(COLUMNS)))
        + "</tr>"
        for i in range(QUERIES)
        for j in range(KEYS)
    )
    eta = mathml(r"\eta")
    return (
        '<div class="play" id="head-block">'
        f'<div class="plane"><p class="play-title">{say("play.plane")}</p>'
        '<svg id="head-plane" viewBox="-160 -160 320 320" role="group" '
        'aria-label="values, contexts and upstream gradients">'
        "</svg>"
        f'<p class="hint">{say("play.hint")}</p></div>'
        f'<div class="knobs"><p class="play-title">{say("play.scores")}</p>'
        f'<div class="sliders">{sliders}</div>'
        f'<label class="wide" for="head-eta"><span>{say("play.size")} {eta}</span>'
        '<input type="range" id="head-eta" min="0" max="2" step="0.01">'
        '<output for="head-eta" id="shown-eta"></output></label>'
        f'<button type="button" id="head-reset">{say("ui.reset")}</button></div>'
        '<div class="scroll" tabindex="0" role="region" aria-label="weights, advantages and steps of each pair">'
        f'<table class="pairs"><thead><tr><th scope="col">{say("play.pair")}</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></div>"
    )
