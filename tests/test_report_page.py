"""The page and the paper: self-contained, complete, the same twice, and deaf to what data would like to say."""

from __future__ import annotations

import dataclasses
import html
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from bayesgrad.evidence.status import merge, read_all
from bayesgrad.theorems import THEOREMS
from report import render
from report.context import Context
from report.filters import code_tex, escape_html, escape_tex, number
from tests import _report_sample as sample
from tests._needed import needed

NASTY = "<script>alert('x')</script> \\input{/etc/passwd} \\write18{ls} 100% & a_b #1 }{ $ ^~ \"quoted\" 日本 \u202e"


class Parser(HTMLParser):
    """Tags, ids and references of a page; complains about tags that do not match."""

    VOID = frozenset(["meta", "link", "br", "input", "img", "hr", "wbr"])

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.ids, self.anchors, self.sources, self.scripts, self.stack, self.text = [], [], [], 0, [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a" and attributes.get("href", "").startswith("#"):
            self.anchors.append(attributes["href"][1:])
        self.sources += [
            attributes[name] for name in ("src", "srcset", "poster", "data", "action") if name in attributes
        ]
        self.sources += [attributes["href"]] if tag == "link" else []
        self.scripts += tag == "script"
        assert not any(name.startswith("on") for name in attributes), attributes
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack[-1:] == [tag], (tag, self.stack[-3:])
        self.stack.pop()

    def handle_data(self, data):
        self.text.append(data)


def context(folder, change=lambda found: None, theorems=THEOREMS, records=None, only=""):
    evidence = merge(theorems, read_all(sample.write(folder, change)))
    return Context(tuple(theorems), evidence, records or {}, only)


def page(made):
    return render.html(made, render.document(made))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    made = context(tmp_path_factory.mktemp("evidence"), records=sample.records())
    text, refused = page(made)
    parsed = Parser()
    parsed.feed(text)
    return made, text, refused, parsed


def test_the_page_is_well_formed_and_asks_for_nothing(whole):
    _, text, refused, parsed = whole
    assert not refused
    assert parsed.stack == []
    assert all(source.startswith("data:") for source in parsed.sources)
    assert "@import" not in text
    assert not re.search(r"url\((?!data:|#)", text)
    assert 'http-equiv="Content-Security-Policy"' in text
    assert len(text.encode()) <= 3 * 2**20


def test_every_label_has_its_anchor_and_every_link_its_target(whole):
    _, _, _, parsed = whole
    assert len(set(parsed.ids)) == len(parsed.ids), sorted({i for i in parsed.ids if parsed.ids.count(i) > 1})
    assert {theorem.label for theorem in THEOREMS} <= set(parsed.ids)
    assert set(parsed.anchors) <= set(parsed.ids)


def test_no_raw_tex_reaches_the_reader(whole):
    _, text, _, _ = whole
    shown = re.sub(r"<(script|style|pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert "\\" not in html.unescape(re.sub(r"<[^>]+>", "", shown))


def test_the_same_evidence_gives_the_same_bytes(whole):
    made, text, _, _ = whole
    again = dataclasses.replace(made)
    tree = render.document(again)
    assert render.html(again, tree)[0] == text
    assert render.tex(again, tree) == render.tex(made, render.document(made))
    assert tree.figures == render.document(made).figures


def test_figures_come_from_records_and_their_data_can_be_taken(whole):
    made, text, _, _ = whole
    assert 'download="experiment-sticky-markov-loss.json"' in text
    assert "0.4321" in html.unescape(text)
    assert set(render.document(made).figures) >= {"experiment-sticky-markov-loss", "experiment-sticky-markov-advantage"}


def test_failures_make_a_red_banner(tmp_path):
    text, _ = page(context(tmp_path, lambda found: found["check"]["results"]["lemma.gibbs"].update(verdict="failed")))
    banner = text[text.index('class="banner"') : text.index('id="summary"')]
    assert 'class="note bad"' in banner
    assert "check failed" in banner


def test_the_page_says_what_the_checks_would_notice(tmp_path):
    text, _ = page(context(tmp_path))
    part = text[text.index('id="strength"') : text.index('id="trust"')]
    assert "Of 100 code mutants of the package" in part
    assert "97.0" in part
    assert part.count("the sum is symmetric") == 2
    assert "NOT EXPLAINED" in part
    missing, _ = page(context(tmp_path / "b", lambda found: found.update(code_mutants=None)))
    part = missing[missing.index('id="strength"') : missing.index('id="trust"')]
    assert "not run" in part
    assert "--mutants" in part


def test_a_test_without_a_label_that_failed_is_in_the_banner(tmp_path):
    text, _ = page(context(tmp_path, lambda found: found["check"].update(failed=["checks/check_corners.py::check_x"])))
    banner = text[text.index('class="banner"') : text.index('id="summary"')]
    assert "checks/check_corners.py::check_x failed" in html.unescape(banner)


def test_one_result_alone(tmp_path):
    text, _ = page(context(tmp_path, only="attention.value-law"))
    parsed = Parser()
    parsed.feed(text)
    assert [i for i in parsed.ids if i in {theorem.label for theorem in THEOREMS}] == ["attention.value-law"]
    assert set(parsed.anchors) <= set(parsed.ids)


def nasty(folder):
    def change(found):
        proof = found["proof"]["results"]["lemma.gibbs"]
        proof["reason"] = NASTY
        steps = [{"rule": NASTY, "why": f"${NASTY}$", "tex": NASTY}, {"rule": "r", "why": "$\\input{x}$"}]
        proof["detail"]["parts"] = [
            {"name": NASTY, "says": NASTY, "statement_tex": NASTY, "assumptions": [NASTY, f"${NASTY}$"], "steps": steps}
        ] * 2
        proof["detail"]["primitives"] = [NASTY]
        proof["detail"]["wrong_laws"] = [
            {"id": NASTY, "kind": NASTY, "why": NASTY, "verdict": "refuted", "counterexample": NASTY}
        ]
        found["formal"]["results"]["lemma.gibbs"] = {
            "verdict": "proved", "reason": NASTY, "seconds": 0.0, "rests_on": [],
            "detail": {"statement": NASTY, "axioms": [NASTY], "file": NASTY, NASTY: NASTY},
        }  # fmt: skip
        found["check"]["results"]["lemma.gibbs"] |= {"reason": NASTY, "oracles": [NASTY]}
        found["proof"]["trusted_base"] = {"files": [NASTY], "lines": 1}
        found["observed"]["claims"][0]["cells"][0] |= {
            "task": NASTY,
            "criterion": NASTY,
            "unit": NASTY,
            "effect": 1.0,
        }

    table = [
        dataclasses.replace(
            theorem,
            title=NASTY,
            statement=NASTY,
            assumptions=(NASTY, f"${NASTY}$"),
            source=NASTY,
            implements=(NASTY,),
            naive=(NASTY,),
        )
        if theorem.label == "lemma.gibbs"
        else theorem
        for theorem in THEOREMS
    ]
    record = sample.record()
    record |= {"title": NASTY, "question": NASTY}
    record["arms"] = {NASTY: next(iter(record["arms"].values()))}
    record["claims"][0] |= {"statement": NASTY, "criterion": NASTY, "criterion_sha": NASTY, "unit": NASTY}
    tunnel = sample.wind_tunnel("hmm")
    for key in ("arms", "by_position", "traces", "calibration", "memory", "ranges", "trained", "seconds"):
        first, *others = tunnel[key]
        tunnel[key] = {NASTY: tunnel[key][first], **{other: tunnel[key][other] for other in others}}
    tunnel["trained"][NASTY] = {"trained": False, "reason": NASTY}
    tunnel["by_position"][NASTY]["floors"][NASTY] = tunnel["by_position"][NASTY]["floors"]["uniform"]
    tunnel["tuning"][0] |= {"arm": NASTY, "update": {NASTY: NASTY}}
    return context(folder, change, table, {NASTY: record, f"{NASTY} too": tunnel})


def test_data_cannot_speak_html(tmp_path):
    made = nasty(tmp_path)
    text, refused = page(made)
    parsed = Parser()
    parsed.feed(text)
    assert parsed.scripts == 2  # the catalogue and the page's own
    assert parsed.stack == []
    assert "<script>alert" not in text
    assert "alert('x')" in "".join(parsed.text)  # shown as what it is
    assert refused
    assert "\u202e" not in text


def test_data_cannot_speak_tex(tmp_path):
    made = nasty(tmp_path)
    paper = render.tex(made, render.document(made))
    body = paper[paper.index("\\begin{document}") :]
    for command in ("\\input", "\\write", "\\immediate", "\\def", "\\csname", "\\openout", "\\catcode"):
        assert not re.search(re.escape(command) + r"(?![a-z])", body), command
    assert not re.search(r"(?<!\\)%", body)
    assert not re.search(r"(?<!\\)#", body)
    depth = 0
    for token in re.findall(r"\\.|[{}]", body, flags=re.DOTALL):
        depth += (token == "{") - (token == "}")
        assert depth >= 0
    assert depth == 0


@pytest.mark.parametrize("source", [NASTY, "a\\b", "\x00\x1b[31m", "100%", "^^M", "''``"])
def test_escapes_leave_nothing_active(source):
    assert not re.search(r"<[a-z]", escape_html(source))
    escaped = escape_tex(source)
    bare = re.sub(r"\\(?:[a-zA-Z]+(?:\{\})?|.)", "", escaped)
    assert not set(bare) & set("\\%#$&_^~")
    assert code_tex(source).startswith("\\texttt{")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0"),
        (1234567, "1\u202f234\u202f567"),
        (3.14159, "3.14"),
        (-0.000012345, "−1.23×10⁻⁵"),
        (float("nan"), "not a number"),
    ],
)
def test_numbers(value, shown):
    assert number(value) == shown


def test_the_paper_compiles_even_with_nasty_data(tmp_path):
    needed(shutil.which("pdflatex"), "pdflatex: the paper is not built here")
    made = nasty(tmp_path / "evidence")
    (tmp_path / "paper.tex").write_text(render.tex(made, render.document(made)), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-3000:]
