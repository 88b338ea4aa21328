"""The ledger of a function under test: one case a line, and what is wrong with it in words."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayesgrad.testing.capabilities import Capabilities


@dataclass
class Case:
    """One line: ok, wrong, nan, shape, wrote, raised, or not claimed."""

    name: str
    verdict: str = "ok"
    detail: str = ""
    example: str = ""
    tried: int = 0
    worst: float = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the function here."""
        return self.verdict in ("ok", "not claimed")


@dataclass
class Ledger:
    """What the checks found about one function."""

    function: str
    capabilities: Capabilities
    cases: list[Case] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether every claimed case is ok."""
        return all(case.good for case in self.cases)

    def lines(self) -> list[str]:
        """The ledger as plain text."""
        width = max((len(case.name) for case in self.cases), default=0)
        out = [f"{self.function}", f"claims: {self.capabilities.sentence()}", "-" * (width + 44)]
        shown: dict[str, str] = {}
        for case in self.cases:
            numbers = f"{case.tried} examples, worst error {case.worst:.2g} tolerances" if case.verdict == "ok" else ""
            out.append(f"{case.name.ljust(width)}  {case.verdict.ljust(11)}  {numbers}".rstrip())
            out += [f"    {line}" for line in case.detail.splitlines()]
            if case.example:
                # The same block in two precisions, or with and without masks, is printed once.
                before = shown.setdefault(case.example, case.name)
                out.append(f"    smallest: {case.example if before == case.name else f'the same as for {before}'}")
        bad = [case for case in self.cases if not case.good]
        claimed = [case for case in self.cases if case.verdict != "not claimed"]
        out += ["", f"{len(claimed) - len(bad)} of {len(claimed)} claimed cases are ok"]
        if bad:
            out += [
                f"not ok: {'; '.join(f'{case.name} ({case.verdict})' for case in bad)}",
                "one case again: --only CASE; one block again: from bayesgrad.testing import *; import numpy as np; "
                "judge(your_function, Head(...), 'float64')",
            ]
        return out


class Finding(AssertionError):
    """What is wrong with one call: a verdict and a sentence."""

    def __init__(self, verdict: str, detail: str) -> None:
        super().__init__(detail)
        self.verdict, self.detail = verdict, detail
