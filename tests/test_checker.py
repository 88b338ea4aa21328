"""The checker of certificates: it stands alone, its algebra and its numbers are right, and it says what it checked."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import flint
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bayesgrad import checker
from bayesgrad.symbolic.certificate import Claims, dumps
from bayesgrad.symbolic.index_calculus import same
from bayesgrad.symbolic.proof import Chain, Equation, Witness, check
from bayesgrad.symbolic.terms import Index, Size, Tensor, exp, inv, lift, log, sqrt, total
from derivations import trust
from tests._certificates import equal, replay
from tests._terms import apart, near, polynomials, positives
from tests.test_index_calculus import ALIKE, CLOSE
from tests.test_proof_attacks import ATTACKS, HONEST

FILE = Path(checker.__file__)
OFTEN = settings(max_examples=120, suppress_health_check=list(HealthCheck))
n, m, full = Size("n"), Size("m"), Size("f", nonempty=True)
i, l, j = Index("i", n), Index("l", n), Index("j", m)
c, x, Q, t = Tensor("c"), Tensor("x", (n,)), Tensor("Q", (n, n)), Tensor("t", (), "positive")


# -- it stands alone ---------------------------------------------------------------------------------------------------


def test_it_imports_the_standard_library_and_nothing_else():
    imported = set()
    for node in ast.walk(ast.parse(FILE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            imported.add(str(node.module))
            assert node.level == 0
    assert {name.split(".")[0] for name in imported} <= set(sys.stdlib_module_names)
    assert not any(name in FILE.read_text(encoding="utf-8") for name in ("__import__", "importlib", "eval(", "exec("))


def test_it_is_the_trusted_base_and_counted_as_it_is():
    base = trust.base()
    assert base["files"] == ["bayesgrad/checker.py"]
    assert trust.code_lines('"""doc"""\n\n# no\nx = 1  # yes\ny = (\n    2\n)\n') == 4
    assert base["lines"] == trust.code_lines(FILE.read_text(encoding="utf-8")) <= 920


def test_a_copy_of_the_file_alone_is_enough(tmp_path):
    """Another folder, no site-packages, no environment: the verdicts and the exit statuses are the same."""
    shutil.copy(FILE, tmp_path / "checker.py")
    good, bad = (Equation(total(lambda r: x(r), over=n), total(lambda r: x(r), over=n)), Equation(c(), 2 * c()))
    claims = Claims({"good": {"a": good}, "bad": {"a": bad}})
    (tmp_path / "book.json").write_text(dumps(claims.json), encoding="utf-8")
    (tmp_path / "proofs").mkdir()
    for label in ("good", "bad"):
        written = dumps(claims.certificate(label, lambda claim: Chain(claim.lhs)))
        (tmp_path / "proofs" / f"{label}.json").write_text(written, encoding="utf-8")
    command = [sys.executable, "-I", "-S", "checker.py", "book.json", "proofs"]

    def run(*more: str) -> tuple[int, str]:
        done = subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert run("--label", "good")[0] == 0
    status, said = run()
    assert status == 1
    assert "proved      good#a\n    Σ_{r∈n} x[r] = Σ_{r∈n} x[r]\n" in said
    assert "not proved  bad#a  (the chain does not arrive at the right side)\n    c = 2·c\n" in said
    assert "1 of 2 results proved" in said
    assert run("--label", "nothing")[0] == 2
    (tmp_path / "book.json").write_text("{", encoding="utf-8")
    status, said = run()
    assert status == 2
    assert said.startswith("checker: book.json: not readable as JSON")


# -- its algebra -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(ALIKE))
def test_equal_terms_are_equal(name):
    assert equal(*ALIKE[name])


@pytest.mark.parametrize("name", list(CLOSE))
def test_close_terms_are_not_confused(name):
    assert not equal(*CLOSE[name])


def test_an_index_is_not_paired_with_one_of_another_sum():
    row = total(lambda a: exp(total(lambda b: Q(a, b), over=n)), over=n)
    column = total(lambda a: exp(total(lambda b: Q(b, a), over=n)), over=n)
    assert equal(row, row)
    assert not equal(row, column)


@OFTEN
@given(polynomials(functions=True).flatmap(lambda term: st.tuples(st.just(term), near(term))))
def test_it_agrees_with_the_engine_and_with_evaluation(terms):
    left, right = terms
    assert equal(left, left)
    found = equal(left, right)
    assert found == same(left, right)
    if found:
        assert apart(left, right) is None


@OFTEN
@given(positives(), positives())
def test_it_is_as_strong_as_the_engine_where_things_are_positive(one, other):
    """A proof that the kernel finds must not stop here: each of these is seen by both, or by neither."""
    shares = inv(one + other) * one + inv(one + other) * other
    pairs = [(one * inv(one), lift(1)), (log(one * other), log(one) + log(other)), (shares, lift(1))]
    for left, right in [*pairs, (sqrt(one + other) ** 2, one + other)]:
        assert equal(left, right) == same(left, right)


def test_products_that_grow_without_end_are_refused(monkeypatch):
    monkeypatch.setattr(checker, "FUEL", 20_000)
    term = (x(i) + x(l) + c()) ** 30
    assert "too much work" in replay(Equation(term, 2 * term), Chain(term))[0]


# -- its numbers -------------------------------------------------------------------------------------------------------


@OFTEN
@given(st.fractions(min_value=-60, max_value=60, max_denominator=10**6))
@example(Fraction(0))
@example(Fraction(-999))
def test_exp_is_enclosed(value):
    flint.ctx.prec = 2000
    unit = int(value * checker.UNIT)
    low, high = checker.exp_at(unit)
    true = (flint.arb(unit) / checker.UNIT).exp() * checker.UNIT
    assert low <= true
    assert true <= high
    assert high - low < 2**100 * (1 + high // checker.UNIT)


@OFTEN
@given(st.fractions(min_value=Fraction(1, 1000), max_value=10**9, max_denominator=10**6))
def test_log_is_enclosed(value):
    flint.ctx.prec = 2000
    unit = int(value * checker.UNIT)
    low, high = checker.log_at(unit)
    true = (flint.arb(unit) / checker.UNIT).log() * checker.UNIT
    assert low <= true
    assert true <= high
    assert high - low < 2**120


@pytest.mark.parametrize("relation", ["<", ">"])
def test_numbers_that_are_nearly_one_are_told_apart(relation):
    """exp(1) against 1084483/398959, which is nearer to it than 1e-11: one relation is proved, the other is not."""
    claim = Witness(exp(c()), lift(Fraction(1084483, 398959)), relation=relation, values={c: 1})
    assert (replay(claim, Chain(claim.lhs))[0] == "") is (relation == ">")


def test_what_is_equal_is_not_less():
    for relation in ("<", ">"):
        claim = Witness(log(exp(c())), c(), relation=relation, values={c: Fraction(1, 3)})
        assert "not seen to be positive" in replay(claim, Chain(claim.lhs))[0]
    assert replay(Witness(log(exp(c())), c(), values={c: Fraction(1, 3)}), Chain(c()))[0] == ""


# -- attacks -----------------------------------------------------------------------------------------------------------

TRUE_AS_PRINTED = {  # the means is dishonest, or the hypotheses say nothing; what is printed as proved is true
    "two_free_indices_of_one_name": ["for all i∈n, i~2∈n: ∂x[i]/∂x[i~2] = delta(i,i~2)"],
    "index_free_in_one_side_and_bound_in_the_other": ["for all i∈n: Σ_{i'∈n} x[i'] = Σ_{i'∈n} x[i'] + 0·x[i]"],
    "two_tensors_of_one_name": ["for all i∈n: T[i]·T~2[i] = T~2[i]·T[i]"],
    "fact_that_holds_under_a_condition": ["0 ≤ c", "  given 0 ≤ c"],
    "hypotheses_that_can_be_taken_away": ["c = 2·c", "  given c = 0"],
    "hypothesis_that_nothing_satisfies": ["for all i∈n: x[i] = y[i]", "  given c = c + 1"],
}


@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack_on_the_kernel_is_no_proof_here(name):
    try:
        claim, chain = ATTACKS[name]()
        why, printed = replay(claim, chain)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return  # it cannot even be made or written down
    assert why or printed == TRUE_AS_PRINTED.get(name)


@pytest.mark.parametrize("name", list(HONEST))
def test_honest_sibling_is_a_proof(name):
    claim, chain = HONEST[name]
    assert check(claim, chain).word == "proved"
    assert replay(claim, chain)[0] == ""
