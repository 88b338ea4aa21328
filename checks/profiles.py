"""How many examples a check draws, and from which seed: quick while working, ci before a merge, thorough over a night.

Draws are derandomised: without ``--hypothesis-seed`` every check and every test draws what it always draws. With a seed
N everything, also the tests of ``tests/``, draws from N; the profile ``fresh`` is ``quick`` with a seed of its own,
chosen once a run and named in its header, so that any run can be repeated.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from bayesgrad.testing.draws import no_foreign_constants


@dataclass(frozen=True)
class Profile:
    """``examples``: draws a check; ``least``: the non-vacuous ones among them that there must be.

    Slow witnesses (the statement on arrays, differences of whole layers) look at one example in ``sparing``.
    ``mutants``: whether the hunt for code mutants is part of it; ``everywhere``: whether the functions are
    called in every array library and every precision, not in the common ones only. ``keep``: whether an interrupted run
    keeps what it has found.
    """

    name: str
    examples: int
    least: int
    sparing: int = 1
    mutants: bool = False
    everywhere: bool = False
    keep: bool = False


PROFILES = {
    "quick": Profile("quick", 216, 200, 4),
    "ci": Profile("ci", 648, 600, 4, mutants=True),
    "thorough": Profile("thorough", 21600, 20000, 16, mutants=True, everywhere=True, keep=True),
    "fresh": Profile("fresh", 216, 200, 4),
}


def profile_of(config: pytest.Config) -> Profile:
    """The profile that a run was asked for; raises UsageError for an unknown one."""
    name = config.getoption("hypothesis_profile", None) or os.environ.get("BAYESGRAD_PROFILE", "quick")
    if name not in PROFILES:
        raise pytest.UsageError(f"--hypothesis-profile: got {name!r}, expected one of {', '.join(PROFILES)}")
    return PROFILES[name]


def given_seed(config: pytest.Config) -> int | None:
    """The seed that a run was given, or None; raises UsageError for what is no whole number."""
    given = config.getoption("hypothesis_seed", None)
    try:
        return None if given is None else int(given)
    except ValueError:
        raise pytest.UsageError(f"--hypothesis-seed: got {given!r}, expected a whole number") from None


def seed_of(config: pytest.Config) -> int:
    """The seed from which every check derives its own: 0 unless one was given."""
    return given_seed(config) or 0


_CONFIGURED = pytest.StashKey[bool]()


def configure(config: pytest.Config) -> None:
    """Tell Hypothesis about the profiles, before its own plugin loads the one that was asked for."""
    name = profile_of(config).name
    if config.stash.get(_CONFIGURED, False):
        return
    config.stash[_CONFIGURED] = True
    if name == "fresh" and given_seed(config) is None:
        config.option.hypothesis_seed = str(secrets.randbelow(10**9))  # workers of xdist are given this one too
    for each in PROFILES:
        settings.register_profile(
            each,
            derandomize=given_seed(config) is None,  # or Hypothesis would not look at the seed
            database=None,
            deadline=None,
            print_blob=False,
            # How long a draw takes says how busy the machine is, and nothing about the draw.
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.load_profile(name)


def header(config: pytest.Config) -> str | None:
    """What the header of a run says about its draws."""
    seed = given_seed(config)
    return None if seed is None else f"draws: --hypothesis-profile={profile_of(config).name} --hypothesis-seed={seed}"


def options(config: pytest.Config) -> str:
    """The options that repeat the draws of this run."""
    seed = given_seed(config)
    return f" --hypothesis-profile={profile_of(config).name}" + ("" if seed is None else f" --hypothesis-seed={seed}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Hypothesis draws from its seed alone: not from constants in whatever else is loaded."""
    if not is_hypothesis_test(getattr(item, "obj", None)):
        return (yield)
    with no_foreign_constants():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under a failing example stands the command that repeats it."""
    report = yield
    if report.when == "call" and report.failed and is_hypothesis_test(getattr(item, "obj", None)):
        report.sections.append(("reproduce", f'pytest "{item.nodeid}"{options(item.config)}'))
    return report
