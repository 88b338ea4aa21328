"""The kernel: it says what is wrong and where, never falls through to "proved", and faults injected into it are caught.

Five faults, each put in by monkeypatch: bound indices captured, the range of a delta ignored, transposes commuted, a
term dropped from the canonical form, a wrong equality remembered. Each makes some false step "follow"; the evaluation
of every step must then veto, so that the verdict is not "proved".
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from bayesgrad.symbolic import index_calculus, proof, refutation, rules, terms
from bayesgrad.symbolic.primitives import TABLE
from bayesgrad.symbolic.proof import AtMost, Chain, Equation, Minimum, check, is_proved, proof_of
from bayesgrad.symbolic.terms import (
    Count,
    Diff,
    Index,
    Lookup,
    Num,
    Size,
    Sum,
    Tensor,
    TermError,
    delta,
    exp,
    inv,
    lift,
    log,
    total,
)
from derivations import laws

ROOT = Path(__file__).parent.parent
ENGINE = ROOT / "bayesgrad" / "symbolic"
n, m = Size("n"), Size("m")
i, l, j = Index("i", n), Index("l", n), Index("j", m)
x, y = Tensor("x", (n,)), Tensor("y", (m,))
B, Q = Tensor("B", (n, m)), Tensor("Q", (n, n))
c = Tensor("c")


# -- five faults -------------------------------------------------------------------------------------------------------


def capture(monkeypatch):
    """Renaming keeps the bound indices that it finds, so a free one of the same object is captured."""

    def careless(term, where):
        match term:
            case terms.Entry(tensor, indices):
                return terms.Entry(tensor, tuple(terms.move(at, where) for at in indices))
            case terms.Delta(left, right):
                return terms.Delta(terms.move(left, where), terms.move(right, where))
            case Sum(index, body):
                return Sum(index, careless(body, where))
            case Diff(body, wrt):
                return Diff(careless(body, where), careless(wrt, where))
        return terms.rebuild(term, lambda t: careless(t, where))

    monkeypatch.setattr(rules, "rename", careless)
    monkeypatch.setattr(terms, "rename", careless)


def range_ignored(monkeypatch):
    """sum_j delta(i, y(j)) f = f, although y may meet i never or twice."""
    original = index_calculus._tie

    def careless(left, right, bound):
        inside = [
            (p, o) for a, o in ((left, right), (right, left)) for p in terms.parts(a) if p in bound and p is not a
        ]
        return inside[0] if inside else original(left, right, bound)

    monkeypatch.setattr(index_calculus, "_tie", careless)


def transposes_commuted(monkeypatch):
    """The order of the indices of an entry is ignored."""
    original = index_calculus.atom_key

    def careless(atom, label):
        if atom.kind == "entry":
            atom = atom._replace(
                indices=tuple(sorted(atom.indices, key=lambda at: index_calculus._index_key(at, label)))
            )
        return original(atom, label)

    monkeypatch.setattr(index_calculus, "atom_key", careless)


def term_dropped(monkeypatch):
    """The last monomial of every polynomial is lost."""
    original = index_calculus._tally

    def careless(poly, label):
        found = original(poly, label)
        return dict(list(found.items())[:-1])

    monkeypatch.setattr(index_calculus, "_tally", careless)


def equality_remembered(monkeypatch):
    """Equality is remembered by the names that the two sides print with, not by what they are."""
    remembered: dict[tuple[str, str], bool] = {}
    original = proof.same

    def careless(left, right):
        at = re.sub(r"uid=\d+", "", repr(left)), "the same"
        return remembered.setdefault(at, original(left, right)) or original(left, right)

    monkeypatch.setattr(proof, "same", careless)


def captured() -> tuple[Equation, Chain]:
    """T(r) = sum_a Q(r, a); unfolded where a is the index of a sum around it, it must not become a trace."""
    a = Index("a", n)
    T = Tensor("T", (n,), body=lambda r: Sum(a, Q(r, a)))
    claim = Equation(Sum(a, T(a)), Count(n) * total(lambda r: Q(r, r), over=n))
    return claim, Chain(claim.lhs).definition(claim.rhs, "unfold", T)


def out_of_range() -> tuple[Equation, Chain]:
    look = Lookup("look", (n,), n)
    claim = Equation(total(lambda a: delta(look(a), i) * x(i), over=n), x(look(i)))
    return claim, Chain(claim.lhs)


def transposed() -> tuple[Equation, Chain]:
    claim = Equation(total(lambda a: Q(i, a) * x(a), over=n), total(lambda a: Q(a, i) * x(a), over=n))
    return claim, Chain(claim.lhs)


def shortened() -> tuple[Equation, Chain]:
    claim = Equation(x(i) + 2 * c(), x(i) + c())
    return claim, Chain(claim.lhs)


def remembered() -> tuple[Equation, Chain]:
    claim = Equation(x(i) + c(), x(i))
    return claim, Chain(claim.lhs).algebra(x(i) + c(), "once right").algebra(x(i), "then remembered")


FAULTS = {
    capture: captured,
    range_ignored: out_of_range,
    transposes_commuted: transposed,
    term_dropped: shortened,
    equality_remembered: remembered,
}


@pytest.mark.parametrize("fault", list(FAULTS), ids=lambda f: f.__name__)
def test_injected_fault_is_caught_by_evaluation(fault, monkeypatch):
    """Sound, the kernel sees that the step does not follow; faulty, it accepts the step and evaluation denies it."""
    sound = check(*FAULTS[fault]())
    assert sound.word == "refuted"
    assert "does not follow" in sound.reason
    fault(monkeypatch)
    faulty = check(*FAULTS[fault]())
    assert faulty.word == "refuted"
    assert "the kernel accepts what evaluation denies" in faulty.reason
    assert faulty.counterexample is not None


@pytest.mark.parametrize("fault", list(FAULTS), ids=lambda f: f.__name__)
def test_injected_fault_would_pass_without_evaluation(fault, monkeypatch):
    """The veto is what catches it: with the referee silenced as well, the false claim goes through."""
    fault(monkeypatch)
    monkeypatch.setattr(refutation, "veto", lambda *args, **kwargs: (None, 1))
    assert check(*FAULTS[fault]()).word == "proved"


# -- errors that say what and where ------------------------------------------------------------------------------------


def test_an_index_that_is_free_and_bound_is_named():
    found = check(Equation(x(i) * Sum(i, x(i)), lift(0)), Chain(x(i) * Sum(i, x(i))))
    assert found.word == "undecided"
    assert found.reason == "index i is used both free and bound"


def test_a_size_mismatch_names_the_tensor_the_slot_and_both_sizes():
    with pytest.raises(TermError, match=r"^B: slot 2 ranges over m, got an index over n$"):
        B(i, l)
    with pytest.raises(TermError, match=r"^B: got 1 indices, expected 2$"):
        B(i)
    with pytest.raises(TermError, match=r"^delta: got indices over n and m, expected one size$"):
        delta(i, j)
    with pytest.raises(TermError, match=r"^look: slot 1 ranges over n, got an index over m$"):
        Lookup("look", (n,), m)(j)


def test_an_unsupported_function_is_named():
    with pytest.raises(TermError, match="function: sin is not supported, only exp, log, inv, tanh, sqrt are"):
        terms.Fn("sin", x(i))
    with pytest.raises(TermError, match="power: got exponent -1, expected a positive integer"):
        x(i) ** -1
    with pytest.raises(TermError, match=r"term: got float 0\.5, expected a term, an int or a Fraction"):
        x(i) + 0.5


def test_a_step_that_does_not_follow_names_step_rule_reason_and_both_sides():
    claim = Equation(2 * x(i), x(i))
    found = check(claim, Chain(claim.lhs).algebra(x(i) + x(i), "twice").algebra(x(i), "once"))
    assert found.word == "refuted"
    assert found.reason.startswith("step 2 (algebra: once) does not follow")
    assert re.search(r"left -?\d+(/\d+)?, right -?\d+", found.reason)
    assert found.counterexample is not None
    assert "x[" in str(found.counterexample)


def test_a_rule_that_is_not_admitted_is_named():
    claim = Equation(x(i), x(i))
    chain = Chain(x(i))
    chain.steps.append(proof.Step(x(i), "magic", "because"))
    found = check(claim, chain)
    assert found.word != "proved"
    assert "rule 'magic' is not admitted" in found.reason


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (lambda: Chain(Diff(inv(c()), c())).differentiate(-(inv(c()) ** 2), ""), "d-inv"),
        (lambda: Chain(Diff(log(c()), c())).differentiate(inv(c()), ""), "d-log"),
        (lambda: Chain(x(i)).definition(x(i), "", x), None),
        (lambda: Chain(x(i)).rewrite(x(i), "", Equation(x(i), x(i))), "no equation that was proved"),
        (lambda: Chain(x(i)).through(x(i), "", Tensor("T", body=lambda: c())), None),
    ],
)
def test_an_unmet_side_condition_is_named(chain, expected):
    made = chain()
    found = check(Equation(made.start, made.start + 1), made)
    assert found.word != "proved"
    if expected:
        assert expected in found.reason


def test_undecided_is_the_word_for_a_true_claim_without_a_proof():
    claim = Equation(exp(c() * log(lift(2))), exp(log(lift(2)) * c()) * 1)
    assert check(claim, Chain(claim.lhs)).word == "proved"
    clever = Equation(inv(c() ** 2 + c()) * (c() + 1) * c() * (c() ** 2 + c()), c() ** 2 + c())
    assert check(clever, Chain(clever.lhs)).word == "undecided"


def test_a_claim_that_was_not_proved_is_not_remembered_as_proved():
    wrong = Equation(x(i), 2 * x(i))
    assert check(wrong, Chain(x(i))).word == "refuted"
    assert not is_proved(wrong)
    right = Equation(x(i) + x(i), 2 * x(i))
    assert not is_proved(right)
    assert check(right, Chain(right.lhs)).word == "proved"
    assert is_proved(right)
    assert not is_proved(replace(right))
    assert proof_of(right).start is right.lhs
    assert proof_of(wrong) is proof_of(replace(right)) is None


def test_a_refuted_inequality_comes_with_an_instance():
    w = Tensor("w", (), "nonnegative")
    claim = AtMost(w(), lift(0))
    found = check(claim, Chain(lift(0) - w()))
    assert found.word == "refuted"
    assert found.counterexample is not None
    t = Tensor("t", kind="positive")
    assert check(Minimum(1 - t() + log(t()), lift(0), at=t), Chain(lift(0))).word == "refuted"


def test_the_same_claim_gives_the_same_verdict_and_instance():
    claim = Equation(total(lambda a: B(i, a) * y(a), over=m), total(lambda a: B(i, a), over=m))
    one, two = (check(claim, Chain(claim.lhs), seed=7) for _ in range(2))
    assert str(one.counterexample) == str(two.counterexample)


def test_primitives_and_definitions_that_a_proof_used_are_reported():
    T = Tensor("T", (n,), body=lambda r: exp(x(r)))
    claim = Equation(Diff(T(i), x(l)), delta(i, l) * T(i))
    chain = (
        Chain(claim.lhs)
        .definition(Diff(exp(x(i)), x(l)), "", T)
        .differentiate(delta(i, l) * exp(x(i)), "")
        .definition(claim.rhs, "", T)
    )
    found = check(claim, chain)
    assert found.word == "proved", found.reason
    assert set(found.primitives) >= {"definition", "d-exp", "d-entry", "delta"}
    assert found.definitions == ("T",)
    assert found.compared > 0
    assert set(found.primitives) <= set(TABLE)


# -- the book ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", laws.labels())
def test_every_result_is_proved_by_admitted_primitives(label):
    found = laws.law(label)
    assert found.word == "proved", [v.reason for v in found.verdicts]
    assert set(found.collected("primitives")) <= set(TABLE)
    assert all(
        v.compared or part.claim.__class__.__name__ in ("Witness", "Induction")
        for part, v in zip(found.parts, found.verdicts, strict=True)
    )


@pytest.mark.parametrize("label", laws.labels())
def test_a_changed_statement_is_not_proved_any_more(label):
    """One side of each equation doubled and shifted: the proof must break, and evaluation must show where it fails."""
    for part in laws.law(label).parts:
        if type(part.claim) is not Equation:
            continue
        found = check(replace(part.claim, rhs=2 * part.claim.rhs + 1), part.proof)
        assert found.word == "refuted", part.name
        assert found.counterexample is not None


def test_every_rule_that_the_kernel_names_is_in_the_table():
    source = "".join((ENGINE / name).read_text() for name in ("rules.py", "vetting.py", "proof.py"))
    named = set(re.findall(r"used\.add\(\"([a-z-]+)\"\)", source))
    assert len(named) >= 12
    assert named <= set(TABLE)


def test_every_row_of_the_table_is_used_by_some_proof():
    assert set(TABLE) == {name for label in laws.labels() for name in laws.law(label).collected("primitives")}


def test_no_primitive_is_a_law():
    """None of the admitted rules mentions attention, a softmax, a head or a loss of a model."""
    words = r"attention|softmax|query|queries|\bkey|\bvalue|head|token|entropy|posterior|logit|gradient"
    for primitive in TABLE.values():
        text = f"{primitive.name} {primitive.formula} {primitive.condition}"
        assert not re.search(words, text, re.I), text


# -- the trusted files -------------------------------------------------------------------------------------------------

# chain is what the kernel is given
VETOES = ("counterexample", "refutation", "naming")  # which can only object
PACKAGES = ("bayesgrad", "derivations")
TRUSTED = ("terms.py", "claims.py", "index_calculus.py", "rules.py", "vetting.py", "proof.py")


def _code(path: Path) -> str:
    """The source without docstrings and comments."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


def test_only_the_kernel_says_proved():
    """No other module makes a verdict; others may compare with the word, but not assign, return or pass it on."""
    for path in sorted(p for d in (ENGINE, ROOT / "derivations", ROOT / "derivations/routes") for p in d.glob("*.py")):
        if path.name == "proof.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not re.search(r"\bVerdict\(", _code(path)), path.name
        compared = {id(leaf) for node in ast.walk(tree) if isinstance(node, ast.Compare) for leaf in ast.walk(node)}
        compared |= {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value == "proved" and id(node) not in compared:
                assert path.name in SAY_PROVED, f"{path.name}:{node.lineno} says proved"
    made = [
        ast.unparse(node.args[0])
        for node in ast.walk(ast.parse((ENGINE / "proof.py").read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Verdict"
    ]
    assert made == ["'undecided'", "word"]  # the one of a process that asks for no proof, and that of a check


SAY_PROVED = {
    "code_route.py": "the verdict of another route: shipped code against the statement",
    "exact_instances.py": "the verdict of another route: explicit sizes in exact arithmetic",
    "enumerations.py": "the same route where all outcomes are listed",
    "sympy_sizes.py": "the verdict of another route: SymPy at explicit sizes, which can only object",
    "certificates.py": "the word of the independent checker, beside the kernel's",
}


def test_the_other_routes_do_not_write_the_evidence_of_proofs():
    for name in SAY_PROVED:
        (path,) = (ROOT / "derivations").rglob(name)
        assert not re.search(r"write\(\s*[\"']proof[\"']", path.read_text()), name


def test_a_result_without_parts_is_undecided():
    assert laws.Law("nothing", (), (), 0.0).word == "undecided"
    assert proof.worst(["proved", "undecided"]) == "undecided"
    assert proof.worst(["proved", "refuted", "undecided"]) == "refuted"
    assert proof.worst(["proved", "proved"]) == "proved"


def test_the_trusted_files_use_no_computer_algebra():
    for name in TRUSTED:
        code = _code(ENGINE / name)
        assert not re.search(r"sympy|simplify|MatrixSymbol|eval\(|exec\(|__import__|pickle", code), name


def test_the_trusted_files_import_only_each_other_and_the_referee():
    for name in TRUSTED:
        tree = ast.parse((ENGINE / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith(("bayesgrad", "derivations"))
            ):
                if node.module == "bayesgrad.symbolic":
                    names = {alias.name for alias in node.names}
                    assert names <= {"rules", *VETOES}, f"{name} imports {names}"
                else:
                    allowed = {*(t[:-3] for t in TRUSTED), *VETOES, "chain"}
                    assert node.module.removeprefix("bayesgrad.symbolic.") in allowed, f"{name} imports {node.module}"


def test_numbers_stay_exact():
    assert lift(Fraction(1, 3)).value == Fraction(1, 3)
    assert isinstance(lift(2), Num)
    for wrong in (0.5, True, None, "x"):
        with pytest.raises(TermError):
            lift(wrong)


def test_counting_is_not_cancelled_where_a_size_may_be_empty():
    assert check(Equation(Count(n) * inv(Count(n)), lift(1)), Chain(lift(1))).word == "refuted"
