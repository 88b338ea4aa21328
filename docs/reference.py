"""Write docs/api.md from the docstrings: ``python -m docs.reference``; ``--check`` only says whether it is current."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent / "api.md"
MODULES = (
    "bayesgrad.softmax",
    "bayesgrad.cross_entropy",
    "bayesgrad.masks",
    "bayesgrad.attention",
    "bayesgrad.gradients",
    "bayesgrad.projections",
    "bayesgrad.heads",
    "bayesgrad.block",
    "bayesgrad.explain",
    "bayesgrad.dynamics",
    "bayesgrad.em",
    "bayesgrad.bayes",
    "bayesgrad.fused",
    "bayesgrad.torch",
    "bayesgrad.theorems",
)
TOP = ("attention_block_gradients", "explain")


def mathematics(text: str) -> str:
    """reStructuredText mathematics and roles as Markdown."""
    out: list[str] = []
    inside = False
    for line in text.split("\n"):
        start = re.fullmatch(r"\.\. math::\s*(.*)", line)
        if start:
            out.append("$$")
            inside = True
            if start[1]:
                out.append(start[1])
        elif inside and line and not line.startswith(" "):
            while not out[-1]:
                out.pop()
            out += ["$$", "", line]
            inside = False
        else:
            out.append(line.strip() if inside else line)
    if inside:
        out.append("$$")
    text = "\n".join(out).replace("$$\n\n$$", "$$")
    text = re.sub(r"(?m)^\$\$\n\n(?=.*\\)", "$$\n", text)
    text = re.sub(r":math:`([^`]*)`", lambda found: "$" + " ".join(found[1].split()) + "$", text)
    text = re.sub(r":(?:func|class|mod|data):`~?([^`]*)`", r"`\1`", text)
    return text.replace("``", "`")


def sections(text: str) -> str:
    """Args, Returns and Raises as lists; examples as code."""
    out: list[str] = []
    example = listing = False
    for line in text.split("\n"):
        if line.startswith(">>>") and not example:
            out.append("```python")
            example = True
        elif example and not line.strip():
            out.append("```")
            example = False
        title = re.fullmatch(r"(Args|Returns|Raises|Attributes):", line)
        if title and not example:
            out += [f"*{title[1]}*", ""]
            listing = True
            continue
        if listing and line and not line.startswith(" "):
            listing = False
        if listing and line:
            # An entry stands four columns in, its continuation further.
            entry = re.match(r"    (\w[\w*,. ]*?): (.*)", line)
            out.append(f"- `{entry[1]}`: {entry[2]}" if entry else f"  {line.strip()}")
        else:
            out.append(line)
    if example:
        out.append("```")
    return "\n".join(out)


def signature(name: str, x: Any) -> str:
    """The signature without the annotations, which the text explains."""
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(x).parameters.values()]
    text = f"{name}{inspect.Signature(parameters)}"
    if len(text) <= 100:
        return text
    return f"{name}(\n    " + "\n    ".join(textwrap.wrap(", ".join(_written(parameters)), 92)) + "\n)"


def _written(parameters: list[inspect.Parameter]) -> list[str]:
    """The parameters as they stand in a signature, with the star before the keywords."""
    return str(inspect.Signature(parameters))[1:-1].split(", ")


def public(module: Any) -> list[tuple[str, Any]]:
    """What the module defines itself, in the order of its source."""
    found = [
        (name, x)
        for name, x in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(x) or inspect.isclass(x))
        and x.__module__ == module.__name__
        and x.__doc__
    ]
    return sorted(found, key=lambda pair: inspect.getsourcelines(pair[1])[1])


def exported(module: Any) -> list[tuple[str, Any]]:
    """Of the package's own modules only what the package exports; of the others everything public."""
    import bayesgrad

    inside = {"dynamics", "em", "bayes", "fused", "torch", "theorems"}
    everything = module.__name__.rpartition(".")[2] in inside
    return [(name, x) for name, x in public(module) if everything or name in bayesgrad.__all__]


def reference() -> str:
    """The whole page."""
    parts = ["# API reference\n\nWritten from the docstrings by `make docs`.\n"]
    for name in MODULES:
        module = importlib.import_module(name)
        parts.append(f"## {name}\n\n{sections(mathematics(inspect.getdoc(module) or ''))}\n")
        for title, x in exported(module):
            if inspect.isclass(x):
                fields = getattr(x, "_fields", None) or tuple(getattr(x, "__dataclass_fields__", ()))
                head = f"{title}({', '.join(fields)})"
            else:
                head = signature(title, x)
            parts.append(f"### {title}\n\n```\n{head}\n```\n\n{sections(mathematics(inspect.getdoc(x) or ''))}\n")
    return "\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Write or check. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 where the page is stale")
    chosen = parser.parse_args(arguments)
    text = reference()
    if chosen.check:
        current = FILE.exists() and FILE.read_text(encoding="utf-8") == text
        print("docs/api.md is current" if current else "docs/api.md is stale: make docs")
        return 0 if current else 1
    part = FILE.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(FILE)
    print(f"wrote {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
