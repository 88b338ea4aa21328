"""Mistakes that need more than a small block are met by the checks, and an outsider knows our conventions."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bayesgrad import _arrays, _cross_entropy, _head, _softmax, bayes, dynamics, heads
from bayesgrad.testing.engine import LawViolation
from bayesgrad.testing.oracles import forward
from bayesgrad.testing.strategies import example_of
from bayesgrad.testing.strategies import heads as drawn_heads
from checks import check_design
from checks.larger import grown
from checks.oracles import outsiders
from checks.registry import CHECKS, LawFailed


def rewritten(patch: pytest.MonkeyPatch, function: Callable[..., Any], old: str, new: str) -> None:
    """The running code of ``function`` with one expression changed."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, (function, old)
    made: dict[str, Any] = {}
    exec(compile(source.replace(old, new), "<changed>", "exec"), dict(function.__globals__), made)
    patch.setattr(function, "__code__", inspect.unwrap(made[function.__name__]).__code__)


def some_check(*names: str) -> None:
    """Run the named checks (of all that there are here) until one fails."""
    for part in range(check_design.PARTS) if "attention" in names else ():
        check_design.check_attention_on_the_design(part)
    if "derivatives" in names:
        check_design.check_derivatives_on_the_design()
    for check in check_design.kinds():
        if check.name in names:
            check_design.check_larger_examples(check)
    for states, length in ((12, 33), (5, 130)) if "chains" in names else ():
        check_design.check_long_chains(states, length)
    for size in (6, 64) if "permutations" in names else ():
        check_design.check_large_permutations(size)
    for ignored in (-100, 3) if "classes" in names else ():
        check_design.check_ignored_classes(ignored)


NINTH = "xp.where(xp.asarray([i < 8 for i in range({0}.shape[-1])]), {0}, 0 * {0})"
BREAKS = {
    "no score gradient from the ninth key on": (
        _head.score_gradient_of,
        "_arrays.times_in_place(xp, above_mean(xp, a, b), a)",
        NINTH.format("(a * above_mean(xp, a, b))"),
        ("attention",),
    ),
    "more than five values: none unseen": (
        bayes.bijection_predictive,
        "unseen = xp.logical_not(xp.any(one_v, axis=-2))",
        "unseen = xp.logical_not(xp.any(one_v, axis=-2)); unseen = xp.ones_like(unseen) if size > 5 else unseen",
        ("permutations",),
    ),
    "a broadcast bias gets a mean": (
        _arrays.unbroadcast,
        "xp.sum(x, axis=axes, keepdims=True)",
        "xp.mean(x, axis=axes, keepdims=True)",
        ("attention",),
    ),
    "only the default index is ignored": (
        _cross_entropy._one_hot,
        "counted = y != ignore",
        "counted = y != -100; validate = False",
        ("classes",),
    ),
    "large multipliers of dropout are lost": (
        _head.run_backward,
        "b * head.dropout",
        "b * xp.where(head.dropout > 1.4, xp.ones_like(head.dropout), head.dropout)",
        ("attention",),
    ),
    "a scale above 1 is taken for 1": (
        _head.scores_and_weights,
        "head.q * head.scale",
        "head.q * (head.scale if head.scale <= 1 else 1.0)",
        ("attention",),
    ),
    "scores beyond 20 are cut": (
        _head.scores_and_weights,
        "scores = _arrays.hide(xp, scores, head.mask)",
        "scores = _arrays.hide(xp, xp.clip(scores, -20.0, 20.0), head.mask)",
        ("attention",),
    ),
    "a group of three heads or more loses one": (
        heads.sum_groups,
        "xp.sum(wide, axis=-3)",
        "xp.sum(wide[..., :2, :, :], axis=-3)",
        ("attention",),
    ),
    "columns of values after the 31st are dropped": (
        _head.run_backward,
        "values=xp.matmul(_arrays.transpose(xp, used_weights(head, a)), u)",
        "values=xp.matmul(_arrays.transpose(xp, used_weights(head, a)), u) "
        "* xp.asarray([float(c < 31) for c in range(u.shape[-1])])",
        ("attention",),
    ),
    "weights of float32 in long rows": (
        _head.used_weights,
        "return weights if",
        "weights = weights.astype('float32') * 1.0 if weights.shape[-1] > 16 else weights\n    return weights if",
        ("attention",),
    ),
    "heads of a group are read in another order": (
        heads.repeat_groups,
        "xp.broadcast_to(xp.expand_dims(k, axis=-3), (*leading, groups, heads // groups, m, d))",
        "xp.broadcast_to(xp.expand_dims(k, axis=-4), (*leading, heads // groups, groups, m, d))",
        ("attention",),
    ),
    "log-sum-exp forgets keys after the sixteenth": (
        _softmax.log_total_of,
        "value = top + xp.log(total)",
        "value = top + xp.log(xp.sum(terms[..., :16], axis=-1, keepdims=True) + 1e-300)",
        ("attention",),
    ),
    "a negative step is taken as positive": (
        dynamics.value_step,
        'rate = _validate.real(xp, "eta", eta)',
        'rate = abs(_validate.real(xp, "eta", eta))',
        ("check_value_step",),
    ),
    "the filter forgets after a hundred observations": (
        bayes._filter,
        "joint = ahead + log_likelihood[..., t, :]",
        "joint = (ahead if t < 100 else 0 * ahead) + log_likelihood[..., t, :]",
        ("chains",),
    ),
    "the filter flushes chances below 1e-9": (
        bayes._filter,
        "out.append(xp.exp(ahead))",
        "out.append(xp.exp(ahead) * (ahead > -20.7))",
        ("chains",),
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_mistake_outside_of_the_small_box_fails_a_check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, old, new, asked = BREAKS[name]
    rewritten(monkeypatch, function, old, new)
    with pytest.raises((LawFailed, LawViolation)):
        some_check(*asked)


def test_right_functions_fail_none_of_these_checks() -> None:
    some_check("attention", "check_value_step", "chains", "permutations", "classes")


def test_larger_examples_stay_what_they_were_and_leave_the_small_box() -> None:
    made = {check.name: grown(example_of(check.given, 6)) for check in check_design.kinds()}
    assert len(made) >= 40
    small = {"check_bijection", "check_hmm_filter", "check_sticky_markov", "check_log_bound", "check_not_variational"}
    assert {check.name for check in CHECKS} - set(made) == small
    for name in ("check_value_law", "check_rows_of_two_keys", "check_uniform_feedback", "check_multi_head"):
        assert made[name]
    for example in made["check_rows_of_two_keys"]:
        assert (example.head.visible.sum(-1) == 2).all()
    for example in made["check_uniform_feedback"]:
        assert example.head.mask is None
    assert {np.sign(example.eta) for example in made["check_value_step"]} == {-1.0, 1.0}
    heads_made = made["check_value_law"]
    assert max(head.k.shape[0] for head in heads_made) > 8
    assert len({head.scale for head in heads_made}) > 2


def test_outsiders_agree_on_the_common_ground_and_say_nothing_elsewhere() -> None:
    drawn = example_of(drawn_heads(), 40)
    asked = [head for head in drawn if outsiders.shared(head)]
    assert 5 < len(asked) < len(drawn)
    assert any(head.mask is not None for head in asked)
    assert any(head.bias is not None for head in asked)
    for oracle in outsiders.outsiders("q", "k", "v", "s", "a"):
        for head in drawn:
            said = oracle.of(head)
            assert set(said) == (set("qkvs") if outsiders.shared(head) else set())
            for name, reference in said.items():
                expected, bound = forward.gradients(head, name)[name]
                roundings = bound if reference.bound is None else bound + reference.bound
                assert np.all(np.abs(reference.value - expected) <= 4 * 2.0**-53 * roundings), (oracle.name, name)
    assert outsiders.outsiders("a", "g") == ()


def test_an_outsider_objects_to_another_convention() -> None:
    """A mask read the other way round, a scale that is forgotten: his numbers are not those."""
    head = next(h for h in example_of(drawn_heads(dropout=False), 60) if h.mask is not None and not h.mask.all())
    said = outsiders.of_torch(head)
    for change in ({"mask": ~head.mask | np.eye(*head.mask.shape, dtype=bool)}, {"scale": 3.0}):
        other = forward.gradients(type(head)(**{**vars(head), **change}), "v")["v"][0]
        assert not np.allclose(said["v"], other, rtol=1e-3)
