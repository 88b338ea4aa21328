"""One result, one module: found by discovery, refused in one sentence, stated in SymPy with the keys of the engine."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from types import ModuleType

import pytest
from sympy import Eq, Sum

from bayesgrad.symbolic.index_calculus import key
from bayesgrad.symbolic.proof import ProofError
from bayesgrad.symbolic.terms import Diff, exp, inv, total
from bayesgrad.theorems import THEOREMS
from derivations import catalogue, laws, skeleton
from derivations.common import head_in_sympy as letters
from derivations.common.any_head import c, e
from derivations.common.notation import HEAD as H
from derivations.common.notation import d_v, i, j, m
from derivations.result import FOLDER, OURS, BadModule, Result, families, module_of, recorded, result, results, routes
from docs.generated import ROOT


def test_discovery_finds_what_the_catalogue_lists():
    assert set(results()) == {t.label for t in THEOREMS} == set(laws.labels())
    assert all(sys.modules[module_of(label)].RESULT is record for label, record in results().items())


def test_the_contract_names_every_family():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = (c for c in tool["contracts"] if c["id"] == "results")
    assert set(contract["source_modules"]) == {f"derivations.{name}" for name in (*families(), "common")}


def module(name: str, **content: object) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(content)
    return made


def record(label: str = "em.trial") -> Result:
    return Result(label, title="t", means="m", source=OURS, routes=routes())


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (module("derivations.em.trial"), "derivations.em.trial: expected RESULT = Result"),
        (module("derivations.em.trial", RESULT="em.trial"), "expected RESULT = Result"),
        (module("derivations.em.trial", RESULT=record()), "it has no proof"),
        (module("derivations.em.other", RESULT=record()), "belongs into derivations.em.trial"),
        (module("derivations.em.trial", RESULT=record("em.fisher-identity")), "belongs into derivations.em.fisher_id"),
    ],
    ids=["empty", "no record", "no proof", "another file", "a label that is taken"],
)
def test_a_malformed_module_gives_one_sentence(made, sentence):
    with pytest.raises(BadModule, match=sentence) as error:
        recorded(made)
    assert "\n" not in str(error.value)


def test_two_proofs_in_one_module_are_refused():
    twice = record()
    twice.proof(list)
    with pytest.raises(BadModule, match="two proofs"):
        twice.proof(list)


def test_a_route_that_does_not_exist_is_refused():
    with pytest.raises(BadModule, match="got proofs, expected some of proof"):
        routes(proofs="required")


def test_an_unknown_label_is_refused():
    for label in ("attention.nothing", "nowhere.at-all", ""):
        with pytest.raises(ValueError, match="has no proof here"):
            result(label)


GAP = H.b(i, j) - H.bbar(i)
PLAIN = {
    "attention.weight-gradient": (Diff(H.L(), H.a(i, j)), H.b(i, j)),
    "attention.routing-law": (Diff(H.L(), H.s(i, j)), H.a(i, j) * GAP),
    "attention.value-law": (Diff(H.L(), H.v(j, c)), total(lambda i: H.a(i, j) * H.u(i, c), over=H.rows)),
    "attention.query-law": (
        Diff(H.L(), H.q(i, e)),
        H.scale() * total(lambda j: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.key(j, e), over=m),
    ),
    "attention.key-law": (
        Diff(H.L(), H.key(j, e)),
        H.scale() * total(lambda i: H.a(i, j) * (H.b(i, j) - H.bbar(i)) * H.q(i, e), over=H.rows),
    ),
    "attention.delta-identity": (
        total(lambda k: H.a(i, k) * H.b(i, k), over=m),
        total(lambda c: H.u(i, c) * H.g(i, c), over=d_v),
    ),
    "softmax.shift-invariance": (None, H.a(i, j)),
}
"""Sides of claims that are stated in SymPy, as terms of the head."""


@pytest.mark.parametrize("label", PLAIN)
def test_a_statement_in_sympy_is_the_claim_in_terms_of_the_head(label):
    part = laws.law(label).parts[0]
    for side, plain in zip((part.claim.lhs, part.claim.rhs), PLAIN[label], strict=True):
        assert plain is None or key(side) == key(plain)


def test_the_letters_are_those_of_the_head():
    book, at = letters.BOOK, (letters.i, letters.j)
    assert key(book.read(letters.a[at])) == key(H.a(i, j))
    mass = Sum(letters.M[letters.i, letters.k] * letters.s[letters.i, letters.k], (letters.k, 0, letters.m - 1))
    assert key(book.read(mass)) == key(total(lambda k: H.M(i, k) * H.s(i, k), over=m))
    assert key(book.read(letters.u[letters.i, letters.c])) == key(H.u(i, c))
    written = H.M(i, j) * exp(H.s(i, j)) * inv(H.Z(i))
    assert key(H.a.unfold((i, j))) == key(written)
    assert book.claim(Eq(letters.a[at], letters.b[at])).lhs.tensor is H.a


def test_a_wrong_move_is_not_proved():
    """The moves are carried out by the kernel: one that names the wrong letter proves nothing."""
    from bayesgrad.symbolic.proof import check
    from derivations.result import becomes, opens, stated

    left = Sum(letters.a[letters.i, letters.k] * letters.b[letters.i, letters.k], (letters.k, 0, letters.m - 1))
    right = Sum(letters.u[letters.i, letters.c] * letters.g[letters.i, letters.c], (letters.c, 0, letters.d_v - 1))
    free = {letters.a: None, letters.v: None}
    wrong = stated(letters.BOOK, "x", Eq(left, right), becomes("wrong letter", right, letters.bbar), sample=free)
    assert check(wrong.claim, wrong.proof).word == "undecided"
    half = stated(letters.BOOK, "x", Eq(left, right), opens("not there yet", letters.b), sample=free)
    assert check(half.claim, half.proof).word == "undecided"


def test_what_is_derived_on_the_way_belongs_to_no_label(monkeypatch):
    """A claim without moves leans on laws that were derived from its definitions; no result stands behind them."""
    from sympy import Derivative

    from derivations import result as records

    i_, j_, c_, n_, m_ = letters.i, letters.j, letters.c, letters.n, letters.m
    left = Sum(Derivative(letters.L(letters.g), letters.v[j_, c_]), (j_, 0, m_ - 1))
    right = Sum(Sum(letters.a[i_, j_], (j_, 0, m_ - 1)) * letters.u[i_, c_], (i_, 0, n_ - 1))
    trial = record("em.trial")
    trial.proof(lambda: [records.stated(letters.BOOK, "total", Eq(left, right), sample={letters.a: None})])
    monkeypatch.setattr(laws, "result", lambda label: trial)
    found = laws.law.__wrapped__("em.trial")
    assert (found.word, found.uses) == ("proved", ())
    assert found.verdicts[0].leans


def test_a_new_module_runs_and_says_what_it_lacks(tmp_path):
    (tmp_path / "em").mkdir()
    (tmp_path / "em" / "__init__.py").write_text('"""EM."""\n')
    path = skeleton.new("em.a-trial", tmp_path)
    assert path == tmp_path / "em" / "a_trial.py"
    made = module("derivations.em.a_trial")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(made))
    (part,) = recorded(made).makers[0]()
    from bayesgrad.symbolic.proof import check

    assert check(part.claim, part.proof).word == "proved"
    with pytest.raises(BadModule, match="has a module already"):
        skeleton.new("em.a-trial", tmp_path)


@pytest.mark.parametrize(
    "label", ["", "attention", "Attention.x", "attention.", "attention.x_y", "../x.y", "nowhere.x"]
)
def test_a_label_that_cannot_be_is_refused_before_anything_is_written(tmp_path, label):
    with pytest.raises(BadModule):
        skeleton.new(label, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_result_lacks_is_computed():
    whole = skeleton.missing("attention.delta-identity")
    assert whole == []
    assert "3 more wrong laws" in skeleton.missing("lemma.log-bound")


def test_the_order_puts_nothing_before_what_it_rests_on():
    assert catalogue.ordered({"b": {"a"}, "a": set(), "c": {"a", "b"}}) == ["a", "b", "c"]
    assert catalogue.ordered({"a": {"z"}, "z": {"not here"}}) == ["z", "a"]
    with pytest.raises(catalogue.Cycle, match="in a circle: a, b"):
        catalogue.ordered({"a": {"b"}, "b": {"a"}, "c": set()})


def test_the_book_is_found_although_the_jacobian_is_broken():
    code = """
from derivations import laws
true = laws._checked
def broken(claim, proof):
    from dataclasses import replace
    verdict = true(claim, proof)
    return replace(verdict, word="undecided") if laws._OWNER.get(id(claim)) == "softmax.jacobian" else verdict
laws._checked = broken
from derivations.result import results
print(len(results()))
print(laws.law("softmax.jacobian").word, laws.law("attention.weight-gradient").word)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(results())), "undecided", "proved"]


STATED = """
from derivations import laws
laws.state_only()
words = {verdict.word for label in ("softmax.fisher", "attention.routing-law") for verdict in laws.law(label).verdicts}
print(words, laws.law("attention.routing-law").uses)
"""


def test_a_process_that_only_states_says_proved_of_nothing():
    said = subprocess.run([sys.executable, "-c", STATED], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert said == "{'undecided'} ()\n"
    laws.law("softmax.fisher")
    with pytest.raises(ProofError, match="has asked for proofs already"):
        laws.state_only()
