"""The bound on what evaluation misses: degrees of known quotients, and the table in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayesgrad.symbolic.terms import Size, Tensor, exp, inv, total
from derivations import bounds
from derivations.bounds import Degrees

n = Size("n")
x = Tensor("x", (n,))
c = Tensor("c")


@pytest.mark.parametrize(
    ("term", "above", "depth"),
    [
        (c() ** 3 + c(), 3, 0),
        (total(lambda i: x(i), over=n), 1, 0),
        (inv(c()), 0, 1),
        (inv(c()) + inv(c()), 0, 1),
        (total(lambda i: inv(x(i)), over=n), 2, 3),
        (total(lambda i: x(i), over=n) * inv(total(lambda i: x(i), over=n)), 1, 1),
        (exp(c()), 2, 0),
        (exp(-c()), 0, 2),
        (exp(total(lambda i: x(i), over=n)), 6, 0),
    ],
)
def test_degrees_of_known_quotients(term, above, depth):
    found = Degrees(3, {}).of(term)
    assert (found.above, found.depth) == (above, depth)


def test_more_instances_miss_less_and_a_useless_bound_is_one():
    assert bounds.missed(10, 2) == bounds.missed(10, 1) ** 2 < bounds.missed(10, 1) < 1e-4
    assert bounds.missed(10**9) == 1.0


def test_the_documentation_shows_the_table_that_is_computed():
    page = (Path(__file__).parent.parent / "docs" / "trusted-base.md").read_text(encoding="utf-8")
    shown = page.split("<!-- bounds -->")[1].split("<!-- /bounds -->")[0].strip()
    assert shown == bounds.table()
