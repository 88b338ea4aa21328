"""What is claimed and why, as data: the book's file is fresh, every result is proved twice, nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bayesgrad import checker
from bayesgrad.symbolic.certificate import doubt, dumps
from bayesgrad.symbolic.proof import Chain, Equation, check
from bayesgrad.symbolic.terms import Diff, Index, Size, Tensor, exp, inv, lift, log, tanh, total
from derivations import certificates, laws
from derivations.__main__ import both, main

n, m = Size("n"), Size("m")
i, j = Index("i", n), Index("j", m)
ROOT = certificates.ROOT
SHUFFLED = """
from derivations import certificates, laws
from bayesgrad.symbolic.certificate import dumps
laws.state_only()
labels = laws.labels()
for label in reversed(labels):
    laws.law(label)
print(dumps(certificates.claims().json), end="")
"""


def test_the_file_of_the_book_is_fresh():
    assert certificates.BOOK.read_text(encoding="utf-8") == dumps(certificates.claims().json), certificates.STALE


def test_the_book_does_not_depend_on_what_was_made_first():
    done = subprocess.run([sys.executable, "-c", SHUFFLED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == certificates.BOOK.read_text(encoding="utf-8")


def test_every_result_is_proved_twice():
    labels = laws.labels()
    found = certificates.verdicts(labels)
    assert {label: entry["verdict"] for label, entry in found.items()} == dict.fromkeys(labels, "proved"), found


def test_the_command_writes_what_the_checker_reads(tmp_path, capsys):
    assert main(["--certificates", str(tmp_path)]) == 0
    told = capsys.readouterr().out.split()
    assert told[:3] == ["python", "-m", "bayesgrad.checker"]
    limit = sys.getrecursionlimit()
    assert checker.main([str(ROOT / told[3]), told[4]]) == 0
    assert sys.getrecursionlimit() == limit  # the caller's process is left as it was
    said = capsys.readouterr().out
    labels = laws.labels()
    assert f"{len(labels)} of {len(labels)} results proved" in said
    assert "proved      attention.routing-law#" in said


def test_a_book_that_is_stale_proves_nothing(tmp_path, monkeypatch):
    changed = json.loads(certificates.BOOK.read_text(encoding="utf-8"))
    changed["sizes"]["n"] = True
    (tmp_path / "book.json").write_text(dumps(changed), encoding="utf-8")
    monkeypatch.setattr(certificates, "BOOK", tmp_path / "book.json")
    found = certificates.verdicts(["softmax.jacobian"])
    assert found["softmax.jacobian"] == {"verdict": "undecided", "reason": certificates.STALE, "seconds": 0.0}


def test_one_judge_is_not_enough():
    kernel, refused = {"verdict": "proved", "reason": "", "seconds": 1}, {"verdict": "undecided", "reason": "step 3"}
    assert both(dict(kernel), refused)["verdict"] == "undecided"
    assert "the checker does not: step 3" in both(dict(kernel), refused)["reason"]
    assert both(dict(kernel), {**refused, "verdict": "proved"})["verdict"] == "proved"
    assert both({**kernel, "verdict": "refuted"}, {**refused, "verdict": "proved"})["verdict"] == "refuted"


# -- claims of anybody -------------------------------------------------------------------------------------------------


def soft_cap() -> tuple[Equation, Chain]:
    """a capped score: s = c tanh(t/c), ds/dt = 1 - (s/c)^2."""
    cap, t = Tensor("c", (), "positive"), Tensor("t", (n, m))
    s = Tensor("s", (n, m), body=lambda i, j: cap() * tanh(t(i, j) * inv(cap())))
    claim = Equation(Diff(s(i, j), t(i, j)), 1 - (s(i, j) * inv(cap())) ** 2)
    slope = Diff(cap() * tanh(t(i, j) * inv(cap())), t(i, j))
    chain = Chain(claim.lhs).definition(slope, "what s is", s)
    chain.differentiate(1 - tanh(t(i, j) * inv(cap())) ** 2, "the slope of tanh", t)
    return claim, chain.definition(claim.rhs, "what s is", s)


def activation() -> tuple[Equation, Chain]:
    """Any activation: y = phi(h) with slope p, its sum moved by one entry of h."""
    h, p = Tensor("h", (n,)), Tensor("p", (n,))
    y = Tensor("y", (n,), through=(h, p))
    claim = Equation(Diff(total(lambda k: y(k) ** 2, over=n), h(i)), 2 * y(i) * p(i))
    return claim, Chain(claim.lhs).differentiate(
        total(lambda k: 2 * y(k) * p(k) * Diff(h(k), h(i)), over=n), "chain rule", h
    ).differentiate(claim.rhs, "entries are independent", h)


def temperature() -> tuple[Equation, Chain]:
    T, y = Tensor("T", (), "positive"), Tensor("y")
    claim = Equation(Diff(exp(y() * inv(T())), T()), -exp(y() * inv(T())) * y() * inv(T() ** 2))
    return claim, Chain(claim.lhs).differentiate(claim.rhs, "the slope of 1/T", T)


@pytest.mark.parametrize("make", [soft_cap, activation, temperature])
def test_a_claim_of_anybody_is_judged_twice(make):
    claim, chain = make()
    assert check(claim, chain).word == "proved"
    assert doubt(claim) == ""
    wrong = Equation(claim.lhs, 2 * claim.rhs + 1)
    assert doubt(wrong, chain) == "the chain does not arrive at the right side"


def test_a_claim_without_a_proof_is_not_accepted():
    claim = Equation(log(lift(6)), log(lift(2)) + log(lift(3)))
    assert doubt(claim) == "no certificate of it was given"
    assert doubt(claim, Chain(claim.lhs)) == ""
