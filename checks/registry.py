"""``@checks``: a function that computes a law's quantities with shipped code becomes a check with evidence.

    @checks("attention.value-law", oracle=(REVERSE, FORWARD), given=heads(), states={"values": "v"})
    def check_value_law(head):
        return {"v": gradients.value_gradient(weights(head), head.u)}

The decorated function says only what bayesgrad computes; the engine draws the examples, asks the oracles, evaluates the
statement that was proved and the wrong laws of the same label, and counts. pytest collects the result like any test.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bayesgrad.symbolic import arrays
from bayesgrad.symbolic.terms import Diff, Entry, Term, tensors_of
from bayesgrad.testing.engine import Check, Claim, Oracle, Tally, run
from checks import kept, kept_draws
from checks.profiles import Profile
from derivations import laws
from derivations.wrong_laws import wrong_laws

CHECKS: list[Check] = []
BY_NODE: dict[str, Check] = {}
"""node id -> the check; the same checks as :data:`CHECKS`."""
PROPERTY = "bayesgrad check"


def load_checks() -> None:
    """Import every file of checks, so that the registry is complete; the hunt for mutants is none, and uses it."""
    folder = Path(__file__).parent
    for path in sorted(set(folder.glob("check_*.py")) - {folder / "check_mutants.py"}):
        importlib.import_module(f"checks.{path.stem}")


def examples_of(check: Check, profile: Profile) -> tuple[int, int]:
    """How many examples of a check are drawn, and how many of them must not be vacuous."""
    return max(int(profile.examples * check.share), 1), int(profile.least * check.share)


def statement_of(label: str) -> dict[str, Claim]:
    """part -> what the proved statement of a label says, as a function of named tensors."""
    if label not in laws.labels():
        return {}
    return {part.name: _claim(part, part.claim.rhs) for part in laws.law(label).parts}


def wrong_laws_of(label: str) -> dict[str, Claim]:
    """part/id -> what a wrong law of a label says, as a function of named tensors."""
    return {row.name: _claim(row.part, row.right) for row in wrong_laws(label)}


class Evaluation(arrays.Evaluation):
    """The evaluator of statements, with derivatives looked up: dx/dy stands for the array of all its entries."""

    def visit(self, term: Term) -> np.ndarray:
        """As its base; a derivative of x by an entry of y is taken from the array named "dx/dy"."""
        if isinstance(term, Diff) and isinstance(term.body, Entry):
            given = np.asarray(self.tensors[f"d{term.body.tensor.name}/d{term.wrt.tensor.name}"])
            at = tuple(self.place(i) for i in (*term.body.indices, *term.wrt.indices))
            return given[at] if at else self.scalar(float(given))
        return super().visit(term)


def _claim(part: laws.Part, right: Term) -> Claim:
    def evaluate(tensors: Mapping[str, Any]) -> np.ndarray:
        letters = {name: x for name, x in tensors.items() if name != "sizes"}
        run = Evaluation(letters, dict(tensors.get("sizes", {})))
        for tensor in tensors_of(right):
            # A lookup may share a letter with a tensor that stands in a definition only: a key number k, the key k.
            if np.ndim(letters.get(tensor.name, ())) == len(tensor.sizes) and tensor.name in letters:
                run.learn(tensor.name, tensor.sizes, np.shape(letters[tensor.name]))
        for index in part.order:
            run.axis[index] = len(run.axis)
        value = run.visit(right)
        shape = tuple(run.length(i.size) for i in part.order)
        return np.broadcast_to(value.reshape(value.shape[: len(shape)]), shape)

    return Claim(part.name, evaluate, bool(getattr(part.claim, "at_most", False)))


def checks(
    label: str,
    *,
    oracle: Oracle | tuple[Oracle, ...],
    given: st.SearchStrategy,
    states: Mapping[str, str] | None = None,
    letters: Callable[[Any], Mapping[str, Any]] | None = None,
    measured: str = "",
    share: float = 1.0,
) -> Callable[[Callable[[Any], Mapping[str, Any]]], Callable[..., None]]:
    """Make a check of ``label``.

    ``states``: part of the proved statement -> the quantity that it gives; ``letters``: the data that it reads, by
    name; ``measured``: the quantity that tells vacuous draws (by default the first stated); ``share``: of the usual
    number of examples.
    """
    oracles = oracle if isinstance(oracle, tuple) else (oracle,)

    def decorate(function: Callable[[Any], Mapping[str, Any]]) -> Callable[..., None]:
        check = Check(label, function, given, oracles, dict(states or {}), letters, measured, function.__name__, share)
        where = f"checks/{function.__module__.rpartition('.')[2]}.py::{function.__name__}"
        CHECKS.append(check)
        BY_NODE[where] = check

        def check_it(record_property: Callable[[str, object], None], profile: Profile, draw_seed: int) -> None:
            __tracebackhide__ = True
            command = f'pytest "{where}" --part --hypothesis-profile={profile.name} --hypothesis-seed={draw_seed}'
            tally = kept.read(where, profile, draw_seed) if profile.keep else None
            if tally is None:
                recorder = kept_draws.Recorder()
                examples, least = examples_of(check, profile)
                tally = run(
                    check,
                    examples=examples,
                    least=least,
                    seed=draw_seed,
                    sparing=profile.sparing,
                    statement=statement_of(label),
                    wrong=wrong_laws_of(label),
                    command=command,
                    observer=recorder,
                )
                tally.draws = recorder.text
                if profile.keep:
                    kept.write(where, profile, draw_seed, tally)
            settle(tally, record_property)

        check_it.__name__ = function.__name__
        check_it.__qualname__ = function.__qualname__
        check_it.__module__ = function.__module__
        check_it.__doc__ = function.__doc__
        check_it.check = check  # type: ignore[attr-defined]
        return check_it

    return decorate


def settle(tally: Tally, record_property: Callable[[str, object], None]) -> None:
    """Hand a tally to the ledger, and fail if the law failed."""
    __tracebackhide__ = True
    record_property(PROPERTY, tally.as_record())
    if tally.failure:
        raise LawFailed(tally.failure)


class LawFailed(AssertionError):
    """What pytest shows for a law that does not hold."""
