"""TeX to MathML: what is known is set well, and everything else is refused."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bayesgrad.theorems import THEOREMS
from report.linebreak import fitted, width
from report.tex_mathml import BadTeX, is_math, mathml


def tree(source: str) -> ElementTree.Element:
    return ElementTree.fromstring(mathml(source))


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.label)
def test_every_statement_is_mathematics(theorem):
    root = ElementTree.fromstring(mathml(theorem.statement, display=True))
    assert root.get("display") == "block"
    assert "\\" not in "".join(root.itertext())
    assert root.find(".//merror") is None


@pytest.mark.parametrize(
    "source",
    [
        r"\input{/etc/passwd}", r"\write18{ls}",
        r"\immediate\write18{x}", r"\def\a{b}", r"\csname x\endcsname", "a % b",
        "{a", "a}", "a & b", r"a \\ b", "x^a^b", r"\left( a", r"\begin{aligned} a", r"\begin{verbatim}x\end{verbatim}",
        r"\text{\input{x}}", "$a$", "#1", r"\frac{a}", r"\operatorname{\foo}", "\\", r"\href{https://x}{y}", "a\x00b",
        r"\mathrm{a}}", r"\begin{cases} a \end{aligned}",
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(source):
    assert not is_math(source)
    with pytest.raises(BadTeX):
        mathml(source)


def test_markup_in_a_formula_is_text():
    source = r"a < b > c \text{<script>alert(1)</script> \& more}"
    assert "<script>" not in mathml(source)
    assert "<script>" in "".join(tree(source).itertext())


def test_a_leading_minus_is_a_sign_and_an_inner_one_an_operation():
    signs = [mo.get("lspace") for mo in tree("-a = -b - c").iter("mo") if mo.text == "−"]
    assert signs == ["0", "0", "0.2222em"]


def test_functions_stand_apart_from_their_argument():
    xml = mathml(r"\log t")
    assert '<mi>log</mi><mspace width="0.1667em"/><mi>t</mi>' in xml


def test_limits_go_below():
    assert tree(r"\sum_{j=1}^m a_j").find(".//munderover") is not None
    assert tree(r"\max_j b_j").find(".//munder") is not None
    assert tree(r"a_i^2").find(".//msubsup") is not None


def test_bold_and_blackboard_letters_are_characters():
    assert "".join(tree(r"\mathbf{1} \mathbb R \mathcal N \boldsymbol\alpha").itertext()) == "𝟏ℝ𝒩𝜶"


def test_aligned_rows_are_table_cells():
    rows = tree(r"\begin{aligned} a &= b \\ &= c \end{aligned}").findall(".//mtr")
    assert [[cell.get("class") for cell in row] for row in rows] == [["r", "l"], ["r", "l"]]


def test_statements_side_by_side_get_a_line_each():
    one = "a_{ij} = b_{ij} + c_{ij} + d_{ij} + e_{ij} + f_{ij} + g_{ij}"
    broken = fitted(rf"{one}, \qquad {one}, \quad {one}", 60)
    assert broken.count(r"\displaystyle") == 3
    assert r"\quad" not in broken.replace(r"\qquad", "")
    assert is_math(broken)


def test_long_formulas_are_broken_at_the_outermost_level():
    long = " + ".join(rf"a_{{{n}}} (b_{{{n}}} + c)" for n in range(30))
    broken = fitted(f"L = {long}")
    assert broken.startswith(r"\begin{array}")
    assert all(width(line) <= 100 for line in broken.split(r"\\"))
    assert is_math(broken)
    flat = "".join(broken.split())
    for part in (r"\begin{array}{@{}l@{}}", r"\end{array}", r"\\[3pt]", r"\qquad", r"\displaystyle"):
        flat = flat.replace(part, "")
    assert flat == f"L={''.join(long.split())}"
    assert fitted("a = b") == "a = b"
