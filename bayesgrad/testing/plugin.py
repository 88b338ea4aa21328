"""The judge in pytest: one test a case, which can be selected with -k, expected to fail, and run beside other tests.

On the command line, with the arguments of ``python -m bayesgrad.testing``:

    pytest --judge "kernel.py:backward --claims masks=none,dtypes=float32"

In a test file:

    from bayesgrad.testing import each_case
    test_mine = each_case(backward=my_backward, claims="masks=none", xfail={"tied huge": "keeps a log-sum-exp"})

pytest finds this plugin by its entry point.
"""

from __future__ import annotations

import atexit
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bayesgrad.testing.kernels.design import Plan
    from bayesgrad.testing.kernels.judging import Court

_COURTS = pytest.StashKey[list[Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """--judge."""
    group = parser.getgroup("bayesgrad", "the judge of attention kernels")
    group.addoption("--judge", action="append", default=[], help="arguments of python -m bayesgrad.testing, quoted")


class JudgedItem(pytest.Item):
    """One case of a kernel named by --judge."""

    court: Court
    plan: Plan

    def runtest(self) -> None:
        """Judge the case."""
        _judge(self.court, self.plan)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The lines of the case alone, without a traceback through us."""
        return str(excinfo.value) if isinstance(excinfo.value, NotOk | ValueError) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[str, None, str]:
        """Where pytest says that it stands."""
        return self.court.judgement.function, None, self.name


class NotOk(AssertionError):
    """A case that is not ok; the message is its lines."""


def _judge(court: Court, plan: Plan) -> None:
    __tracebackhide__ = True
    case = court.case(plan)
    if not case.good:
        raise NotOk("\n".join(case.lines()))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """The cases of each --judge; a kernel that cannot be judged ends the session before any test."""
    courts = config.stash.setdefault(_COURTS, [])
    for text in config.option.judge:
        from bayesgrad.testing.__main__ import summoned

        try:
            court = summoned(shlex.split(text)).start()
        except ValueError as error:
            raise pytest.UsageError(f"--judge: {error}") from None
        courts.append(court)
        for plan in court.plans:
            item = JudgedItem.from_parent(session, name=f"{court.judgement.function}[{plan.name}]")
            item.court, item.plan = court, plan
            items.append(item)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the kernels' processes."""
    for court in config.stash.get(_COURTS, []):
        court.close()


def each_case(candidate: Any = None, *, xfail: Mapping[str, str] | None = None, **how: Any) -> Callable[[str], None]:
    """A test for every case of a kernel; arguments as of :func:`bayesgrad.testing.judge`.

    ``xfail``: a part of the names of cases that are expected to fail -> the reason. Raises ValueError for bad input,
    also for an ``xfail`` that fits no case.
    """
    from bayesgrad.testing.kernels.judging import Court

    court = Court(candidate, **how)
    atexit.register(court.close)
    plans = {plan.name: plan for plan in court.plans}
    expected = dict(xfail or {})
    for text in expected:
        if not any(text in name for name in plans):
            raise ValueError(f"xfail: no case has {text!r} in its name, expected some of {'; '.join(plans)}")

    def marks(name: str) -> list[pytest.MarkDecorator]:
        return [pytest.mark.xfail(reason=why, strict=True) for text, why in expected.items() if text in name]

    @pytest.mark.parametrize("case", [pytest.param(name, marks=marks(name), id=name) for name in plans])
    def test(case: str) -> None:
        __tracebackhide__ = True
        _judge(court, plans[case])

    return test
