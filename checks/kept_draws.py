"""What is kept of every draw of a check, so that an audit can draw again and compare: a hash, and what it came to.

The record is one line of text a check, ``"3fa9c1d2 0.0123, 99e1a07b 0v, ..."``: the first digits of the SHA-256 of the
example as code, and the largest difference from any witness in tolerances; "v" marks a vacuous draw. A long run keeps
the first :data:`KEPT` draws of each check.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from bayesgrad.testing.engine import EnoughDrawn, Observer
from bayesgrad.testing.examples import Example

KEPT = 216
"""As many as the profile quick draws: of such a run everything is kept."""


@dataclass(frozen=True)
class Draw:
    """One draw: ``digest`` of the example, the largest difference in tolerances as text, whether the law says 0 = 0."""

    digest: str
    worst: str
    vacuous: bool

    def __str__(self) -> str:
        return f"{self.digest} {self.worst}{'v' * self.vacuous}"


def digest(example: Example) -> str:
    """The first 32 bits of the SHA-256 of an example as code."""
    return hashlib.sha256(repr(example).encode()).hexdigest()[:8]


def rounded(worst: float) -> str:
    """A difference in tolerances as the record shows it."""
    return f"{worst:.3g}"


def parse(text: str) -> list[Draw]:
    """The draws of a record. Raises ValueError for text that is none."""
    found = []
    for part in text.split(", ") if text else []:
        name, _, worst = part.partition(" ")
        number = worst.removesuffix("v")
        if len(name) != 8 or rounded(float(number)) != number:
            raise ValueError(f"draws: got {part[:40]!r}, expected a hash, a number, and v for a vacuous draw")
        found.append(Draw(name, number, worst.endswith("v")))
    return found


class Recorder(Observer):
    """Watches a whole check, and keeps what each draw came to."""

    def __init__(self) -> None:
        self._digests: list[str] = []
        self._draws: list[Draw] = []

    def wants(self, number: int, example: Example) -> bool:
        """Every draw is judged."""
        if number < KEPT:
            self._digests.append(digest(example))
        return True

    def saw(self, number: int, vacuous: bool, worst: float) -> None:
        """Keep it."""
        if number < KEPT:
            self._draws.append(Draw(self._digests[number], rounded(worst), vacuous))

    @property
    def text(self) -> str:
        """The record."""
        return ", ".join(map(str, self._draws))


class Replay(Observer):
    """Judges the draws of some numbers only, and ends the drawing after the last of them."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._wanted = set(numbers)
        self._digests: dict[int, str] = {}
        self.draws: dict[int, Draw] = {}

    def wants(self, number: int, example: Example) -> bool:
        """Only those asked for."""
        if number in self._wanted:
            self._digests[number] = digest(example)
        return number in self._wanted

    def saw(self, number: int, vacuous: bool, worst: float) -> None:
        """Keep it; after the last there is nothing left to draw."""
        self.draws[number] = Draw(self._digests[number], rounded(worst), vacuous)
        if number == max(self._wanted):
            raise EnoughDrawn
