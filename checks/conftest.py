"""pytest's side of the checks: profiles, the collection of tallies (also from xdist's workers), evidence and ledger."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from bayesgrad.evidence import BadEvidence, read
from checks import complete, evidence, inventory, kept, seeds
from checks import label_ledger as ledger
from checks.profiles import Profile, configure, header, profile_of, seed_of
from checks.registry import PROPERTY
from derivations import laws

HERE = Path(__file__).parent
torch.set_num_threads(1)  # the tensors are tiny: a second thread costs more than it gives
COLLECTED = "bayesgrad checks collected"


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the checks can be asked for beside pytest's own options."""
    group = parser.getgroup("checks", "the checks")
    group.addoption("--ledger-only", action="store_true", help="print the ledger of the evidence there is, run nothing")
    group.addoption("--seeds", type=int, default=1, metavar="N", help="all that draws at N seeds; no evidence, a table")
    group.addoption("--part", action="store_true", help="a part of the checks is meant: what is left out is no failure")
    group.addoption("--inventory", action="store_true", help="write the list of all checks, run nothing")


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
    number = metafunc.config.getoption("--seeds", 1)
    if number > 1 and "draw_seed" in metafunc.fixturenames:
        first = seed_of(metafunc.config)
        seeds = range(first, first + number)
        metafunc.parametrize("draw_seed", seeds, ids=[f"seed {seed}" for seed in seeds], scope="session")


def _least(item: Any) -> str:
    """The smallest profile that runs a check: quick shows the last hunt; further backends are for thorough."""
    if item.path.name == "check_mutants.py":
        return "ci"
    call = getattr(item, "callspec", None)
    backend = None if call is None else call.params.get("backend")
    return "thorough" if backend in getattr(item.module, "MORE_BACKENDS", ()) else "quick"


@pytest.hookimpl(tryfirst=True)  # before -k, -m and --deselect take items away
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Leave out what the profile does not run; remember all that there was."""
    profile = profile_of(config)
    least = {item: _least(item) for item in items if item.nodeid.startswith("checks/")}
    config.stash[_SEEN] = sorted(item.nodeid for item in least)
    left = {item for item, name in least.items() if not inventory.runs(name, profile)}
    if config.getoption("--inventory", False):
        inventory.write({item.nodeid: name for item, name in least.items()})
        left = set(items)
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=sorted(left, key=lambda item: item.nodeid))


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Answer --ledger-only without collecting anything."""
    if not config.getoption("--ledger-only", False):
        return None
    try:
        fragment = read("check")
    except BadEvidence as error:
        print(error)
        return 2
    print(ledger.show(fragment, sys.stdout.isatty()))
    return 0


class Collector:
    """Gathers the tallies and outcomes of a session, also those of xdist's workers."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.sources = evidence.sources()
        self.tallies: dict[str, dict[str, Any]] = {}
        self.outcomes: dict[str, str] = {}
        self.collected: set[str] = set()
        self.missing: list[str] = []
        self.fragment: dict[str, Any] | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take outcome and tally out of a report; one node counts once, however often a plugin runs it."""
        node = report.nodeid
        if not node.startswith("checks/") or (report.when != "call" and report.passed):
            return
        outcome = "expected to fail" if hasattr(report, "wasxfail") else str(report.outcome)
        if report.when == "???":  # xdist's word where a worker's process ended in the middle of a check
            outcome = "ended with its process"
        if self.outcomes.get(node, "passed") == "passed":
            self.outcomes[node] = outcome
        for name, value in report.user_properties:
            if name == PROPERTY:
                self.tallies[node] = value  # type: ignore[assignment]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """What a worker of xdist had collected."""
        self.collected |= set(getattr(node, "workeroutput", {}).get(COLLECTED, ()))

    @property
    def failed(self) -> list[str]:
        """The checks that did not pass."""
        return [node for node, outcome in self.outcomes.items() if outcome != "passed"]

    def judge(self, config: pytest.Config) -> None:
        """Say what is missing; write the evidence if nothing is."""
        profile = profile_of(config)
        self.collected |= set(config.stash.get(_SEEN, ()))
        labels = {tally["label"] for tally in self.tallies.values()}
        try:
            self.missing = complete.missing(self.outcomes, self.collected, labels, profile)
            self.missing += complete.foreign(config, self.sources, evidence.sources())
            if not self.missing:
                self.fragment = evidence.write(
                    self.tallies,
                    failed=self.failed,
                    sources=self.sources,
                    profile=profile.name,
                    seed=seed_of(config),
                    seconds=time.perf_counter() - self.began,
                )
        except ValueError as error:  # a damaged list, a full disk
            self.missing.append(str(error))
        if self.fragment is not None and profile.keep:
            kept.clear()


_COLLECTOR = pytest.StashKey[Collector]()
_SEEN = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Only the controller collects. The checks evaluate statements: where nothing else runs, no proof is run."""
    configure(config)
    paths = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    if all(HERE in (path, *path.parents) for path in paths):
        laws.state_only()
    if config.getoption("--seeds", 1) < 1:
        raise pytest.UsageError(f"--seeds: got {config.getoption('--seeds')}, expected at least 1")
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.stash[_COLLECTOR] = Collector()
        config.pluginmanager.register(config.stash[_COLLECTOR], "bayesgrad-collector")


def pytest_report_header(config: pytest.Config) -> str | None:
    """The draws of a run with a seed."""
    return header(config)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the evidence of a complete run. What is left out fails a run, unless a part of the checks was meant."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput[COLLECTED] = config.stash.get(_SEEN, [])
    collector = config.stash.get(_COLLECTOR, None)
    if collector is None or config.getoption("--seeds", 1) > 1:
        return
    if config.getoption("--inventory", False):
        session.exitstatus = pytest.ExitCode.OK
        return
    collector.judge(config)
    finished = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if collector.missing and exitstatus in finished and not config.getoption("--part", False):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The ledger, after everything else."""
    collector = config.stash.get(_COLLECTOR, None)
    if collector is None or config.getoption("--inventory", False):
        return
    if config.getoption("--seeds", 1) > 1:
        terminalreporter.section("seeds")
        for line in seeds.table(collector.outcomes, collector.tallies.values()):
            terminalreporter.write_line(line)
        return
    terminalreporter.section("ledger")
    if collector.fragment is not None:
        terminalreporter.write_line(ledger.show(collector.fragment, terminalreporter.hasmarkup))
        return
    for label, found in evidence.merge(collector.tallies.values()).items():
        terminalreporter.write_line(
            f"{label}: {found['verdict']}, {found['examples']} examples, {found['vacuous']} vacuous, "
            f"worst error {found['worst_in_tolerance']:.2g} tolerances"
        )
    part = "" if config.getoption("--part", False) else " (--part says that a part is meant)"
    terminalreporter.write_line(
        f"This run is no evidence, what there was stays as it was: {'; '.join(collector.missing)}{part}"
    )
