"""A pytest plugin that checks backward functions: ``pytest -p bayesgrad.testing.plugin``.

In a test, the fixture ``check_backward`` runs all cases and fails with the ledger:

    def test_my_kernel(check_backward):
        check_backward(my_backward, equal_widths=True, masks="rows")

On the command line, ``--backward module:name`` (repeatable) adds one test a function; its claims are given by
``--backward-claims equal_widths,masks=rows,...``. Every ledger is printed after the tests, also under pytest-xdist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bayesgrad.testing.cases import Ledger

_PROPERTY = "bayesgrad ledger"


class NotGood(AssertionError):
    """A backward function that fails a claimed case; the message is its ledger."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """--backward, --backward-claims, --backward-examples."""
    group = parser.getgroup("bayesgrad", "checks of attention backward functions")
    group.addoption("--backward", action="append", default=[], help="module:name of f(q, k, v, u, *, mask, scale)")
    group.addoption("--backward-claims", default="", help="what it claims, e.g. equal_widths,masks=rows,largest=64")
    group.addoption("--backward-examples", type=int, default=100, help="random blocks a case (100)")


def pytest_configure(config: pytest.Config) -> None:
    """A look at the options before any test runs."""
    option = config.option
    if option.backward_examples < 1:
        raise pytest.UsageError(f"--backward-examples: got {option.backward_examples}, expected at least 1")
    if option.backward_claims:
        from bayesgrad.testing.capabilities import Capabilities

        try:
            Capabilities.parse(option.backward_claims)
        except ValueError as error:
            raise pytest.UsageError(f"--backward-claims: {error}") from None


class BackwardItem(pytest.Item):
    """One function named by --backward."""

    path_to: str
    function: Callable[..., Any]

    def runtest(self) -> None:
        """Run all cases; NotGood with the ledger if a claimed one is not ok."""
        from bayesgrad.testing.capabilities import Capabilities
        from bayesgrad.testing.foreign import check

        option = self.config.option
        claims = Capabilities.parse(option.backward_claims)
        settle(self, check(self.function, claims, name=self.path_to, examples=option.backward_examples))

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        """The ledger alone, without a traceback through us."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, None, str]:
        """Where pytest says that it stands."""
        return self.path_to, None, f"backward: {self.path_to}"


def settle(item: pytest.Item, ledger: Ledger) -> None:
    """Keep the ledger for the summary, and fail if it is not good."""
    item.user_properties.append((_PROPERTY, "\n".join(ledger.lines())))
    if not ledger.good:
        raise NotGood("\n".join(ledger.lines()))


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """One more test for each --backward; a function that cannot be imported ends the session before any test."""
    for path in config.option.backward:
        from bayesgrad.testing.foreign import load

        try:
            function = load(path)
        except ValueError as error:
            raise pytest.UsageError(f"--backward: {error}") from None
        item = BackwardItem.from_parent(session, name=f"backward[{path}]")
        item.path_to, item.function = path, function
        items.append(item)


@pytest.fixture
def check_backward(request: pytest.FixtureRequest) -> Callable[..., Ledger]:
    """``check_backward(function, **capabilities)`` runs all cases and fails with the ledger of what is not ok."""

    def run(function: Callable[..., Any], *, name: str = "", examples: int | None = None, **claims: Any) -> Ledger:
        from bayesgrad.testing.capabilities import Capabilities
        from bayesgrad.testing.foreign import check

        number = request.config.option.backward_examples if examples is None else examples
        ledger = check(function, Capabilities(**claims), name=name, examples=number)
        settle(request.node, ledger)
        return ledger

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The ledgers of all functions, from the reports' properties: these come from xdist's workers too."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "call":
                continue
            for name, text in report.user_properties:
                if name == _PROPERTY:
                    lines = str(text).splitlines()
                    terminalreporter.section(f"backward function {lines[0]}")
                    for line in lines:
                        terminalreporter.write_line(line)
