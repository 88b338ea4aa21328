"""Every generated file, and what generates it: ``python -m docs.generated`` writes them, ``--check`` compares.

A file that is committed although a program writes it is right only while it is what the program would write now.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _data() -> str:
    from derivations.catalogue import data

    return data()


def _catalogue() -> str:
    from derivations.catalogue import source

    return source()


def _book() -> str:
    from bayesgrad.symbolic.certificate import dumps
    from derivations.certificates import claims

    return dumps(claims().json)


def _reference() -> str:
    from docs.api_reference import reference

    return reference()


GENERATED: dict[str, Callable[[], str]] = {
    "bayesgrad/catalogue.json": _data,
    "docs/catalogue.md": _catalogue,
    "bayesgrad/symbolic/book.json": _book,
    "docs/api.md": _reference,
}
"""File from the root, and the function that returns its text. README's tables come from evidence: `make readme`."""


def stale(root: Path = ROOT) -> list[str]:
    """The generated files below ``root`` that differ from what would be written now, or are not there."""
    found = []
    for name, text in GENERATED.items():
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != text():
            found.append(name)
    return found


def write(root: Path = ROOT) -> list[str]:
    """Write what is stale, each file at once or not at all; returns the names."""
    changed = stale(root)
    for name in changed:
        path = root / name
        part = path.with_name(path.name + ".part")
        part.write_text(GENERATED[name](), encoding="utf-8")
        part.replace(path)
    return changed


def main(arguments: list[str] | None = None) -> int:
    """Write or check. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.generated", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 where a file is stale")
    if not parser.parse_args(arguments).check:
        print("\n".join(f"wrote {name}" for name in write()) or "nothing has changed")
        return 0
    found = stale()
    print("\n".join(f"{name} is stale: make docs" for name in found) or "every generated file is current")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
