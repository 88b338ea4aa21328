"""What a result means geometrically and where it stops being true: the words of its module, by label."""

from __future__ import annotations

from typing import NamedTuple

from bayesgrad.theorems import THEOREMS


class Meaning(NamedTuple):
    """``says`` is the picture in words; ``fails`` the limit that a reader must know."""

    says: str
    fails: str = ""


MEANINGS: dict[str, Meaning] = {theorem.label: Meaning(theorem.means, theorem.fails) for theorem in THEOREMS}
