"""A pytest plugin that checks backward functions: ``pytest -p bayesgrad.testing.plugin``.

In a test, the fixture ``check_backward`` runs all cases and fails with the ledger:

    def test_my_kernel(check_backward):
        check_backward(my_backward, equal_widths=True, masks="rows")

On the command line, ``--backward module:name`` (repeatable) adds one test a function; its claims are given by
``--backward-claims equal_widths,masks=rows,...``. Every ledger is printed after the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bayesgrad.testing.foreign import Capabilities, Ledger

_LEDGERS = pytest.StashKey["list[Ledger]"]()


class NotGood(AssertionError):
    """A backward function that fails a claimed case; the message is its ledger."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """--backward, --backward-claims, --backward-examples."""
    group = parser.getgroup("bayesgrad", "checks of attention backward functions")
    group.addoption("--backward", action="append", default=[], help="module:name of f(q, k, v, u, *, mask, scale)")
    group.addoption("--backward-claims", default="", help="what it claims, e.g. equal_widths,masks=rows,largest=4")
    group.addoption("--backward-examples", type=int, default=100, help="random blocks a case (100)")


def capabilities_from(text: str) -> Capabilities:
    """Capabilities from "equal_widths,masks=rows,empty=no,dtypes=float64": a bare name means yes."""
    from bayesgrad.testing.foreign import Capabilities

    known = Capabilities.__dataclass_fields__
    claims: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        if name not in known:
            raise pytest.UsageError(f"--backward-claims: got {name!r}, expected one of {', '.join(known)}")
        if name == "masks":
            claims[name] = value
        elif name == "dtypes":
            claims[name] = tuple(value.split("+"))
        elif name == "largest":
            claims[name] = int(value)
        elif value in ("", "yes", "no"):
            claims[name] = value != "no"
        else:
            raise pytest.UsageError(f"--backward-claims: got {item!r}, expected {name}=yes or {name}=no")
    try:
        return Capabilities(**claims)
    except ValueError as error:
        raise pytest.UsageError(f"--backward-claims: {error}") from None


def pytest_configure(config: pytest.Config) -> None:
    """A place for the ledgers."""
    config.stash[_LEDGERS] = []


class BackwardItem(pytest.Item):
    """One function named by --backward."""

    path_to: str

    def runtest(self) -> None:
        """Run all cases; NotGood with the ledger if a claimed one is not ok."""
        from bayesgrad.testing.foreign import check, load

        try:
            function = load(self.path_to)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        option = self.config.option
        claims = capabilities_from(option.backward_claims)
        settle(self.config, check(function, claims, name=self.path_to, examples=option.backward_examples))

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        """The ledger alone, without a traceback through us."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, None, str]:
        """Where pytest says that it stands."""
        return self.path_to, None, f"backward: {self.path_to}"


def settle(config: pytest.Config, ledger: Ledger) -> None:
    """Keep the ledger for the summary, and fail if it is not good."""
    config.stash[_LEDGERS].append(ledger)
    if not ledger.good:
        raise NotGood("\n".join(ledger.lines()))


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """One more test for each --backward."""
    for path in config.option.backward:
        item = BackwardItem.from_parent(session, name=f"backward[{path}]")
        item.path_to = path
        items.append(item)


@pytest.fixture
def check_backward(pytestconfig: pytest.Config) -> Callable[..., Ledger]:
    """``check_backward(function, **capabilities)`` runs all cases and fails with the ledger of what is not ok."""

    def run(function: Callable[..., Any], *, name: str = "", examples: int | None = None, **claims: Any) -> Ledger:
        from bayesgrad.testing.foreign import Capabilities, check

        number = pytestconfig.option.backward_examples if examples is None else examples
        ledger = check(function, Capabilities(**claims), name=name, examples=number)
        settle(pytestconfig, ledger)
        return ledger

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The ledgers of all functions."""
    for ledger in config.stash[_LEDGERS]:
        terminalreporter.section(f"backward function {ledger.function}")
        for line in ledger.lines():
            terminalreporter.write_line(line)
