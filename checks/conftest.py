"""pytest's side of the checks: profiles, the collection of tallies (also from xdist's workers), evidence and ledger."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from bayesgrad.evidence import BadEvidence, read
from checks import evidence, kept, seeds
from checks import label_ledger as ledger
from checks.profiles import Profile, configure, profile_of, seed_of
from checks.registry import PROPERTY


def pytest_addoption(parser: pytest.Parser) -> None:
    """--ledger-only and --seeds."""
    parser.addoption(
        "--ledger-only", action="store_true", help="print the ledger of the evidence there is, run nothing"
    )
    parser.addoption(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="everything that draws at N seeds; a table instead of evidence",
    )


@pytest.fixture(scope="session")
def profile(pytestconfig: pytest.Config) -> Profile:
    """The profile in force."""
    return profile_of(pytestconfig)


@pytest.fixture(scope="session")
def draw_seed(pytestconfig: pytest.Config) -> int:
    """The seed from which every check derives its own."""
    return seed_of(pytestconfig)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """--seeds N: one test a seed, from that of --hypothesis-seed on."""
    number = metafunc.config.getoption("--seeds")
    if number > 1 and "draw_seed" in metafunc.fixturenames:
        first = seed_of(metafunc.config)
        seeds = range(first, first + number)
        metafunc.parametrize("draw_seed", seeds, ids=[f"seed {seed}" for seed in seeds], scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """The hunt for mutants is not for quick, whose ledger shows the last result; further backends are for thorough."""
    profile = profile_of(config)
    left = {item for item in items if item.nodeid.startswith("checks/check_mutants.py") and not profile.mutants}
    if not profile.everywhere:
        left |= {item for item in items if _parameter(item, "backend") in getattr(item.module, "MORE_BACKENDS", ())}
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=sorted(left, key=lambda item: item.nodeid))


def _parameter(item: Any, name: str) -> Any:
    call = getattr(item, "callspec", None)
    return None if call is None else call.params.get(name)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Answer --ledger-only without collecting anything."""
    if not config.getoption("--ledger-only"):
        return None
    try:
        fragment = read("check")
    except BadEvidence as error:
        print(error)
        return 2
    print(ledger.show(fragment, sys.stdout.isatty()))
    return 0


class Collector:
    """Gathers the tallies of a session and turns them into evidence."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.began = time.perf_counter()
        self.sources = evidence.sources()
        self.tallies: list[dict[str, Any]] = []
        self.verdicts: dict[str, bool] = {}
        self.fragment: dict[str, Any] | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the tally out of a finished check; xdist sends reports, with their properties, to the controller."""
        if "check_" not in report.nodeid or not report.nodeid.startswith("checks/"):
            return
        if report.when == "call":
            self.verdicts[report.nodeid] = report.passed
            self.tallies += [value for name, value in report.user_properties if name == PROPERTY]  # type: ignore[misc]
        if report.failed:
            self.verdicts[report.nodeid] = False


def pytest_configure(config: pytest.Config) -> None:
    """Only the controller collects."""
    if not hasattr(config, "workerinput"):
        config.stash[_COLLECTOR] = Collector(config)
        config.pluginmanager.register(config.stash[_COLLECTOR], "bayesgrad-collector")
    configure(config)
    if config.getoption("--seeds") < 1:
        raise pytest.UsageError(f"--seeds: got {config.getoption('--seeds')}, expected at least 1")


_COLLECTOR = pytest.StashKey[Collector]()


def _is_complete(config: pytest.Config) -> bool:
    """Whether this run was asked for all of checks/, not for a part of it."""
    option = config.option
    narrowed = option.keyword or option.markexpr or getattr(option, "deselect", None) or getattr(option, "lf", False)
    asked = [str(argument).rstrip("/") for argument in config.args]
    root = str(config.rootpath / "checks")
    whole = any(argument in ("checks", root, str(config.rootpath), ".") for argument in asked)
    return whole and not narrowed and not option.collectonly and option.seeds == 1


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the evidence of a complete run; a part of the checks leaves it as it was."""
    collector = session.config.stash.get(_COLLECTOR, None)
    if collector is None or not collector.tallies or not _is_complete(session.config):
        return
    if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return
    collector.fragment = evidence.write(
        collector.tallies,
        failed=[node for node, passed in collector.verdicts.items() if not passed],
        sources=collector.sources,
        profile=profile_of(session.config).name,
        seed=seed_of(session.config),
        seconds=time.perf_counter() - collector.began,
    )
    if profile_of(session.config).keep:
        kept.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The ledger, after everything else."""
    collector = config.stash.get(_COLLECTOR, None)
    if collector is None or not collector.tallies:
        return
    if config.getoption("--seeds") > 1:
        terminalreporter.section("seeds")
        for line in seeds.table(collector.verdicts, collector.tallies):
            terminalreporter.write_line(line)
        return
    terminalreporter.section("ledger")
    if collector.fragment is None:
        terminalreporter.write_line("A part of the checks ran, so no evidence was written; these are the tallies.")
        for label, found in evidence.merge(collector.tallies).items():
            terminalreporter.write_line(
                f"{label}: {found['verdict']}, {found['examples']} examples, {found['vacuous']} vacuous, "
                f"worst error {found['worst_in_tolerance']:.2g} tolerances"
            )
        return
    terminalreporter.write_line(ledger.show(collector.fragment, terminalreporter.hasmarkup))
