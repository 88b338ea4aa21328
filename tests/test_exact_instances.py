"""The exact route decides claims as identities of functions, and is able to say no."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from bayesgrad.symbolic.proof import Chain, Equation
from bayesgrad.symbolic.terms import Count, Diff, Index, Size, Tensor, delta, exp, inv, log, total
from bayesgrad.theorems import THEOREMS
from derivations import laws, wrong_laws
from derivations.routes import exact_instances as exact
from derivations.routes.instances import Case, Instance, visible

QUICK = ("softmax.jacobian", "attention.value-law", "lemma.em-identity", "em.proximal-e-step", "em.gaussian-mixture")
n, m = Size("n"), Size("m")
i, j = Index("i", n), Index("j", m)


def decided(claim: Equation, *order: Index) -> exact.Decided:
    part = laws.Part("claim", claim, Chain(claim.lhs))
    law = laws.Law("test", (part,), (), 0.0)
    return exact.decide(law)[0]


@pytest.mark.parametrize("label", QUICK)
def test_laws_hold_as_identities(label):
    found = exact.entry(label, "required")
    assert found["verdict"] == "proved", found["reason"]
    assert found["detail"]["comparisons"] > 0
    assert found["detail"]["indeterminates"] > 0


@pytest.mark.parametrize("label", QUICK)
def test_wrong_laws_are_rejected_with_a_point(label):
    for row in wrong_laws.wrong_laws(label):
        verdict, example = exact.reject(row)
        assert verdict == "refuted", (row.id, example)
        assert "left" in example
        assert "right" in example


def test_a_counterexample_is_true():
    """Both numbers of a counterexample are recomputed by hand: 1/(1 + e) against e/(1 + e)."""
    s = Tensor("s", (n, m))
    mass = lambda: total(lambda k: exp(s(i, k)), over=m)
    claim = Equation(exp(s(i, j)) * inv(mass()), inv(mass()))
    found = decided(claim)
    assert found.verdict == "refuted"
    text = found.reason
    values = dict(pair.split(" = ") for pair in text.split("where ")[1].split(", ") if " = " in pair)
    from fractions import Fraction

    row = [Fraction(value) for name, value in values.items() if name.startswith("exp(s[1")]
    left, right = (Fraction(text.split(f"{side} ")[1].split(",")[0].split(";")[0]) for side in ("left", "right"))
    assert right == 1 / sum(row)
    assert left == row[0] / sum(row)


def test_the_large_case_is_six_by_seven():
    law = laws.law("attention.routing-law")
    part = law.parts[0]
    cases = exact.cases_of(list(exact.sides(part.claim)), exact.bodies_of(part.claim))
    large = dict(cases[-1].sizes)
    assert (large["n"], large["m"], large["d_v"]) == (6, 7, 5)
    for case in cases:
        lengths = [length for _, length in case.sizes]
        assert len(set(lengths)) == len(lengths)
    assert {case.visible for case in cases} == {"all", "holes", "empty row"}


def test_masks_hide_and_empty_rows_are_empty():
    assert not any(visible("empty row", (0, k), 2) for k in range(3))
    for pattern in ("holes", "empty row"):
        rows = [[visible(pattern, (r, k), 2) for k in range(3)] for r in range(3)]
        assert any(True in row and False in row for row in rows)


def test_derivatives_do_not_capture_and_do_not_leak():
    """The cases in which symbolic sums are known to go wrong: the free index is named like the bound one."""
    s = Tensor("s", (m,))
    k = Index("k", m)
    lse = log(total(lambda k: exp(s(k)), over=m))
    right = exp(s(k)) * inv(total(lambda k: exp(s(k)), over=m))
    assert decided(Equation(Diff(lse, s(k)), right)).verdict == "proved"
    assert decided(Equation(Diff(lse, s(k)), delta(k, k))).verdict == "refuted"
    assert decided(Equation(Diff(lse, s(k)), delta(k, k) - delta(k, k))).verdict == "refuted"


def test_second_derivatives_of_a_defined_tensor():
    x = Tensor("x", (m,))
    k, l = Index("k", m), Index("l", m)
    square = total(lambda j: x(j) ** 2, over=m)
    hessian = Diff(Diff(exp(square), x(k)), x(l))
    right = exp(square) * (2 * delta(k, l) + 4 * x(k) * x(l))
    assert decided(Equation(hessian, right)).verdict == "proved"
    assert decided(Equation(hessian, exp(square) * (4 * x(k) * x(l)))).verdict == "refuted"


def test_a_hypothesis_that_never_holds_is_no_proof():
    x = Tensor("x", (m,))
    never = Equation(Count(m) - Count(m), Count(m), says="there is no key")
    found = decided(Equation(x(j), 2 * x(j), given=(never,)))
    assert (found.verdict, sum(o.compared for o in found.outcomes)) == ("undecided", 0)


def test_what_has_no_value_is_undecided():
    x = Tensor("x", (m,))
    found = decided(Equation(log(-1 * x(j) * x(j)), x(j)))
    assert found.verdict == "undecided"
    assert "log" in found.reason


def test_an_arbitrary_loss_has_no_second_derivative():
    g, u = Tensor("g", (n,)), Tensor("u", (n,))
    L = Tensor("L", through=(g, u))
    found = decided(Equation(Diff(Diff(L(), g(i)), g(i)), u(i)))
    assert found.verdict == "undecided"
    assert decided(Equation(Diff(L(), g(i)), u(i))).verdict == "proved"


def test_a_changed_statement_is_refuted():
    """One side changed by hand: the route says so for every part that it decides."""
    for part in laws.law("attention.query-law").parts:
        claim = replace(part.claim, rhs=part.claim.rhs + 1)
        assert decided(claim).verdict == "refuted", part.name


def test_inequalities_are_broken_by_certified_points():
    x = Tensor("x", kind="positive")
    t = Tensor("t")
    from bayesgrad.symbolic.proof import AtMost

    bodies: dict = {}
    wrong = AtMost(log(x()), x() - 2)
    outcome = exact.with_room(lambda ring: exact.fails(Case(()), bodies, wrong, (), ring))
    assert "where x" in outcome.counterexample
    right = AtMost(2 * t() - t() ** 2, delta(i, i) * 1)
    outcome = exact.with_room(lambda ring: exact.fails(Case((("n", 1),)), bodies, right, (i,), ring))
    assert outcome.counterexample == ""
    assert outcome.compared == 1


def test_labels_without_a_statement_are_open_not_proved():
    found = exact.entry("no.such-label", "required")
    assert found["verdict"] == "not run"
    assert exact.entry("no.such-label", "an inequality")["verdict"] == "not applicable"


def test_the_summary_counts_what_is_missing():
    rows = [{"id": "x/sign", "verdict": "undecided", "counterexample": "no difference"}]
    results = {
        "a": {"verdict": "proved", "reason": "", "detail": {"wrong_laws": rows}},
        "b": {"verdict": "not run", "reason": "open", "detail": {}},
    }
    line, problems = exact.summary(results, {"a": "required", "b": "required"}, "route")
    assert "1 of 2 required" in line
    assert len(problems) == 2


def test_every_label_that_needs_the_route_has_a_statement_or_a_listing():
    known = set(laws.labels()) | set(exact.LISTINGS)
    assert {t.label for t in THEOREMS if t.routes["exact"] == "required"} <= known


def test_evidence_is_written_once_and_read_back(tmp_path, monkeypatch, capsys):
    from bayesgrad import evidence

    monkeypatch.setattr(evidence.store, "FOLDER", tmp_path / "evidence")
    monkeypatch.setattr(exact, "entry", lambda label, route: _pretend(route))
    console = Console(quiet=True)
    assert exact.record(False, console) == 0
    assert evidence.read("exact")["results"]["attention.routing-law"]["verdict"] == "proved"
    monkeypatch.setattr(exact, "entry", lambda label, route: pytest.fail("up to date: nothing may run"))
    assert exact.record(False, console) == 0


def _pretend(route):
    verdict = "proved" if route == "required" else "not applicable"
    return {"verdict": verdict, "reason": "", "detail": {}, "seconds": 0.0}


def test_instances_of_a_lookup_stay_in_range():
    from bayesgrad.symbolic.terms import Lookup
    from derivations.routes.functions import Functions, Room

    for rows, columns in ((2, 3), (3, 2), (4, 2)):
        instance = Instance(Functions(Room()), Case((("n", rows), ("m", columns))))
        table = [instance.lookup(Lookup("y", (n,), m), (r,)) for r in range(rows)]
        assert all(0 <= value < columns for value in table)
    assert table == [0, 0, 1, 1]
