"""The ledger of a kernel: one case a line, what is wrong with it in words, as text, JSON and JUnit."""

from __future__ import annotations

import json
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

WIDTH = 80


@dataclass
class Case:
    """One line. ``verdict``: ok, or wrong, nan, shape, dtype, raised, wrote, shared, held, varies, died, timed out,
    memory, reference, no verdict, all of which count against the kernel.
    """

    name: str
    verdict: str = "ok"
    detail: str = ""
    likely: str = ""
    where: str = ""
    example: str = ""
    tried: int = 0
    failed: int = 0
    vacuous: int = 0
    worst: float = 0.0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the kernel here."""
        return self.verdict == "ok"

    def lines(self, like: str = "") -> list[str]:
        """The case in at most 80 columns; ``like``: an earlier case with the same example."""
        numbers = f"{self.tried} block{'s' * (self.tried != 1)}" + (
            f", {self.vacuous} of them 0 = 0" if self.vacuous else ""
        )
        if self.good:
            numbers += f", worst {self.worst:.2g}"
        elif self.tried > 1:
            numbers = f"{self.failed} of {self.tried} blocks"
        out = [f"{self.name:<41} {self.verdict if self.good else self.verdict.upper():<11} {numbers}".rstrip()]
        shown = f"as for {like}" if like else self.example
        for label, text in (
            ("", self.detail),
            ("likely: ", self.likely),
            ("where: ", self.where),
            ("smallest: ", shown),
        ):
            if text:
                out += wrapped(label + text, 4)
        return out


def wrapped(text: str, indent: int) -> list[str]:
    """Lines of at most 80 columns, broken at spaces only, so that code stays code."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


@dataclass
class Judgement:
    """What was found about one kernel. ``cells``: the levels of each factor of the design; ``covered``: their pairs."""

    function: str
    claims: str
    cases: list[Case] = field(default_factory=list)
    unclaimed: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    covered: str = ""
    stopped: str = ""

    @property
    def good(self) -> bool:
        """Whether every case was judged, and none speaks against the kernel."""
        return bool(self.cases) and not self.stopped and all(case.good for case in self.cases)

    @property
    def verdict(self) -> str:
        """ok or not ok."""
        return "ok" if self.good else "not ok"

    def head(self) -> list[str]:
        """What is judged, and against which claims."""
        return [*wrapped(self.function, 0), *wrapped(f"claims: {self.claims}", 0), "-" * WIDTH]

    def told(self, case: Case) -> list[str]:
        """One case; an example that was printed before is only referred to."""
        before = self.cases[: self.cases.index(case)] if case in self.cases else self.cases
        like = next((other.name for other in before if case.example and other.example == case.example), "")
        return case.lines(like)

    def tail(self) -> list[str]:
        """What it comes to."""
        bad = [case for case in self.cases if not case.good]
        out = ["-" * WIDTH]
        if self.covered:
            out += wrapped(f"design: {self.covered}", 0)
            out += [line for cell in self.cells for line in wrapped(cell, 2)]
        if self.unclaimed:
            out += wrapped(f"not claimed, not asked: {', '.join(self.unclaimed)}", 0)
        out += wrapped(self.stopped, 0) if self.stopped else []
        out.append(f"{len(self.cases) - len(bad)} of {len(self.cases)} cases are ok")
        if 0 < len(bad) <= 6:
            out += wrapped(f"not ok: {'; '.join(f'{case.name} ({case.verdict})' for case in bad)}", 0)
        return out

    def _lines(self) -> Iterator[str]:
        yield from self.head()
        for case in self.cases:
            yield from self.told(case)
        yield from self.tail()

    def table(self) -> str:
        """The whole ledger as text."""
        return "\n".join(self._lines())

    def data(self) -> dict[str, Any]:
        """The ledger as data."""
        return {"verdict": self.verdict, **asdict(self)}

    def json(self) -> str:
        """The ledger as JSON."""
        return json.dumps(self.data(), indent=1)

    def junit(self) -> str:
        """The ledger as a JUnit report, one test a case."""
        bad = sum(not case.good for case in self.cases)
        suite = ET.Element("testsuite", name=self.function, tests=str(len(self.cases)), failures=str(bad))
        for case in self.cases:
            item = ET.SubElement(suite, "testcase", classname=self.function, name=case.name, time=f"{case.seconds:.3f}")
            if not case.good:
                about = ET.SubElement(item, "failure", type=case.verdict, message=case.detail)
                about.text = "\n".join(case.lines())
        if self.stopped:
            item = ET.SubElement(suite, "testcase", classname=self.function, name="every case was judged")
            ET.SubElement(item, "error", message=self.stopped)
        return ET.tostring(suite, encoding="unicode", xml_declaration=True)
