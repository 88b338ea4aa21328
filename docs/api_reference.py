"""The text of docs/api.md, from the docstrings; :mod:`docs.generated` writes it."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent / "api.md"
SECTIONS = {
    "softmax": ("_softmax",),
    "cross-entropy": ("_cross_entropy",),
    "masks": ("masks",),
    "attention": ("_attention",),
    "gradients of a head": ("gradients", "_head"),
    "forward mode and second derivatives": ("derivatives",),
    "projections": ("projections",),
    "heads": ("heads",),
    "the whole block": ("block",),
    "explain": ("_explain",),
}
"""The functions that ``import bayesgrad`` gives, by topic, and the modules that define them; the first one explains."""
MODULES = (
    *("transformer_block", "modern", "row_maps", "positions", "layers"),
    *("dynamics", "em", "bayes", "fused", "tiled", "torch", "theorems"),
)
"""Modules that are imported by name."""


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


def exported(modules: tuple[str, ...]) -> list[tuple[str, Any]]:
    """What ``import bayesgrad`` gives of some modules; everything public of those that are imported by name."""
    import bayesgrad

    found: list[tuple[str, Any]] = []
    for module in modules:
        of = public(importlib.import_module(f"bayesgrad.{module}"))
        found += of if module in MODULES else [(name, x) for name, x in of if name in bayesgrad.__all__]
    return found


def contents() -> dict[str, tuple[str, ...]]:
    """Every section's title and its modules."""
    return SECTIONS | {f"bayesgrad.{name}": (name,) for name in MODULES}


class Anchors:
    """Addresses of the titles of one page, in their order, as code hosts make them: a second `softmax` is softmax-1."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def of(self, title: str) -> str:
        """The address of the next title."""
        name = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        count = self._seen[name] = self._seen.get(name, -1) + 1
        return f"{name}-{count}" if count else name


def entry(title: str, x: Any) -> str:
    """One function or class."""
    if inspect.isclass(x):
        fields = getattr(x, "_fields", None) or tuple(getattr(x, "__dataclass_fields__", ()))
        head = f"{title}({', '.join(fields)})"
    else:
        head = signature(title, x)
    return f"### {title}\n\n```\n{head}\n```\n\n{sections(mathematics(inspect.getdoc(x) or ''))}\n"


def reference() -> str:
    """The whole page."""
    parts = ["# API reference\n\nWritten from the docstrings by `make docs`.\n", _conventions()]
    anchors = Anchors()
    for title, modules in contents().items():
        at = anchors.of(title)
        names = ", ".join(f"[{name}](#{anchors.of(name)})" for name, _ in exported(modules))
        parts.append(f"- [{title}](#{at}): {names}")
    for title, modules in contents().items():
        module = importlib.import_module(f"bayesgrad.{modules[0]}")
        parts.append(f"\n## {title}\n\n{sections(mathematics(inspect.getdoc(module) or ''))}\n")
        parts += [entry(name, x) for name, x in exported(modules)]
    return "\n".join(parts)


def _conventions() -> str:
    return (
        "A *label* such as `attention.routing-law` names a result of the [catalogue](catalogue.md): what the function "
        "computes is proved,\nchecked and tested under that name.\n"
    )
