"""Our own functions on the design of the judge, and on larger examples than the laws are drawn on.

The laws are drawn on blocks of at most five queries and keys, with few scales, rates and steps. A mistake that needs
more than that is met here: attention passes through the covering design that anybody's kernel has to pass; every check
is asked again on larger examples; the posteriors of the tasks are held against exact ones on long chains and many
classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import bayesgrad
from bayesgrad import bayes
from bayesgrad.testing.engine import Check, LawViolation, Oracle, disagreements, references
from bayesgrad.testing.examples import Stepped
from bayesgrad.testing.kernels.blocks import Block
from bayesgrad.testing.kernels.claims import Claims
from bayesgrad.testing.kernels.definition import truth
from bayesgrad.testing.kernels.design import covering
from bayesgrad.testing.kernels.formats import FORMATS
from bayesgrad.testing.kernels.recipes import Recipe
from bayesgrad.testing.strategies import example_of
from bayesgrad.testing.tolerance import SAFETY, compare
from checks import (  # noqa: F401  (their laws are asked again)
    check_attention,
    check_bayes,
    check_dynamics,
    check_em,
    check_layers,
    check_lemmas,
    check_softmax,
)
from checks.larger import grown, larger
from checks.oracles import long_chains
from checks.registry import CHECKS, LawFailed

OURS = Claims.parse("layout=bhnd,groups,bias=gradient,dropout,empty_rows,largest=65,widest=72")
PARTS = 4
DRAWN = 4
"""How many draws of each check are made larger."""


@cache
def rows() -> tuple[Recipe, ...]:
    """The covering design of what our functions claim."""
    return tuple(recipe for recipe, _ in covering(OURS, FORMATS["float64"], False)[0])


def asked_of(recipe: Recipe) -> Block:
    """Its block; without dropout there is no multiplier, and some have no bias: those are ways of their own."""
    block = recipe.block(OURS, FORMATS["float64"])
    return replace(
        block,
        dropout=block.dropout if recipe.dropout else None,
        bias=None if recipe.seed % 4 == 0 else block.bias,
    )


def pieces(block: Block) -> dict[str, np.ndarray]:
    """Context, log-sum-exp and gradients from our functions, by the names of the judge."""
    given: dict[str, Any] = {
        "mask": block.mask, "bias": block.bias, "scale": block.scale, "dropout": block.dropout,
    }  # fmt: skip
    made = bayesgrad.grouped_attention(block.q, block.k, block.v, **given)
    got = bayesgrad.grouped_attention_gradients(block.q, block.k, block.v, block.u, **given)
    mask = None if block.mask is None else np.broadcast_to(block.mask, made.scores.shape)
    lse = bayesgrad.logsumexp(made.scores, mask=mask)
    found = {"context": made.context, "lse": lse, "q": got.queries, "k": got.keys, "v": got.values}
    return found if block.bias is None else {**found, "bias": got.bias}


def derivatives(block: Block, along: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The change of the context along q, k, v, and of sum <along, gradient> in q, k, v and u."""
    given: dict[str, Any] = {
        "mask": block.mask, "bias": block.bias, "scale": block.scale, "dropout": block.dropout,
    }  # fmt: skip
    moved = bayesgrad.attention_jvp(
        block.q, block.k, block.v, q_tangent=along["q"], k_tangent=along["k"], v_tangent=along["v"], **given
    )
    twice = bayesgrad.attention_double_backward(
        block.q, block.k, block.v, block.u, d_queries=along["q"], d_keys=along["k"], d_values=along["v"], **given
    )
    return {
        "jvp": moved.context, "second q": twice.queries, "second k": twice.keys, "second v": twice.values,
        "second u": twice.u,
    }  # fmt: skip


def held(recipe: Recipe, got: Mapping[str, np.ndarray], known: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Raise for the first result that is not what the definition says."""
    for name, x in got.items():
        expected, admitted = known[name]
        asked = ~np.isnan(expected)
        found = compare(np.where(asked, x, np.nan), expected, admitted)
        if not found.agrees or np.isnan(x[asked]).any():
            raise LawFailed(
                f"{name} is not what the definition says\n  numbers:   {name}{list(found.index)} = {found.got!r}, "
                f"expected {found.expected!r} (off by {found.in_tolerance:.3g} tolerances)\n  block:     {recipe!r}"
            )


@pytest.mark.parametrize("part", range(PARTS))
def check_attention_on_the_design(part: int) -> None:
    """Attention and its gradients on each pair of levels of the judge's design."""
    __tracebackhide__ = True
    for recipe in rows()[part::PARTS]:
        block = asked_of(recipe)
        held(recipe, pieces(block), truth(block, FORMATS["float64"]))


def check_derivatives_on_the_design() -> None:
    """Forward mode and second derivatives on part of it."""
    __tracebackhide__ = True
    for recipe in [r for r in rows() if r.heads == r.key_heads and r.m > 1][: len(rows()) // 2 : 4]:
        block = asked_of(recipe)
        rng = np.random.Generator(np.random.PCG64(recipe.seed))
        along = {
            name: rng.uniform(-1, 1, x.shape) * np.abs(x).max()
            for name, x in (("q", block.q), ("k", block.k), ("v", block.v))
        }
        known = truth(block, FORMATS["float64"], tangents=along, second=along)
        held(recipe, derivatives(block, along), known)


def bounded(oracles: tuple[Oracle, ...]) -> tuple[Oracle, ...]:
    """Those that answer about examples of any size, and soon."""
    return tuple(oracle for oracle in oracles if not oracle.slow and "JAX" not in oracle.name)


def kinds() -> list[Check]:
    """The checks whose examples can be made larger."""
    return [check for check in CHECKS if larger(example_of(check.given, 1)[0], np.random.default_rng(0)) is not None]


@pytest.mark.parametrize("check", kinds(), ids=lambda check: check.name)
def check_larger_examples(check: Check) -> None:
    """Every law on longer and wider examples, with other rates, scales and steps of either sign."""
    __tracebackhide__ = True
    asked = Check(check.label, check.of, check.given, bounded(check.oracles), name=check.name)
    for example in grown(example_of(check.given, DRAWN)):
        if check.label.startswith("em.") and isinstance(example, Stepped):
            example = Stepped(example.head, abs(example.eta))  # the weight of a divergence is positive
        said = references(asked, example)
        try:
            got = check.of(example)
            for oracle, name, worst in disagreements(asked, example, got, said):
                if not worst.agrees:
                    raise LawViolation(
                        f"{check.label} does not hold for a larger example\n  against:   {oracle}\n  numbers:   "
                        f"{worst.why or f'{name}{list(worst.index)} = {worst.got!r}, expected {worst.expected!r}'}"
                        f"\n  example:   {example!r}"
                    )
        except LawViolation as violation:
            raise LawFailed(str(violation)) from None


def agree(case: long_chains.Case, function: Callable[..., Any]) -> None:
    """Raise for the first result of ``function`` that is off by more than its own roundings."""
    __tracebackhide__ = True
    made = function(*case.arguments, **case.options)
    for name, (expected, roundings) in case.expected.items():
        found = compare(getattr(made, name, made), expected, SAFETY * 2.0**-53 * (roundings + 0.0 * expected))
        if not found.agrees:
            where = f"{name}{list(found.index)} = {found.got!r}, expected {found.expected!r}"
            raise LawFailed(f"{function.__name__}: {found.why or where}\n  for:       {case.about}")


@pytest.mark.parametrize(("states", "length"), [*product((1, 2, 5, 12), (1, 2, 33, 130))])
def check_long_chains(states: int, length: int) -> None:
    """The filter and the noisy chain on long sequences, against whole numbers and 50 digits."""
    __tracebackhide__ = True
    agree(long_chains.filtered(states, length), bayes.hmm_filter)
    if length <= 33:
        agree(long_chains.noisy(states, length), bayes.sticky_markov_predictive)


@pytest.mark.parametrize("size", [1, 2, 5, 6, 9, 17, 64])
def check_large_permutations(size: int) -> None:
    """A seen key is certain, a new one uniform over the values not seen, for many values and repeated keys."""
    __tracebackhide__ = True
    for case in long_chains.permutations(size):
        agree(case, bayes.bijection_predictive)


@pytest.mark.parametrize("ignored", [-100, -1, 255, 3])
def check_ignored_classes(ignored: int) -> None:
    """Whatever index is ignored, also that of a class; the default index does not count then."""
    __tracebackhide__ = True
    for case in long_chains.classes(ignored):
        agree(case, bayesgrad.cross_entropy)
