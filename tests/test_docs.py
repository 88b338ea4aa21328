"""Every example in docstrings, docs and README runs; the API reference is current; links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import bayesgrad as bg
from docs import api_reference as reference

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
MODULES = [
    f"bayesgrad.{m.name}"
    for m in pkgutil.iter_modules(bg.__path__)
    if m.name not in ("symbolic", "training", "testing", "tasks", "probe", "__main__")
]
WITHOUT = {"_arrays", "_validate", "_tiles", "_types", "_head", "_parameters", "statements"}  # not for callers, or data


@pytest.mark.parametrize("name", ["bayesgrad", *MODULES])
def test_examples_in_docstrings(name):
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert not failed
    assert tried or name.rpartition(".")[2] in WITHOUT


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_in_pages(page):
    names = {"np": np, "bg": bg}
    if page.name == "api.md":
        return  # made from the docstrings, which are tried above
    for number, block in enumerate(blocks(page)):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, f"{page.name}[{number}]", str(page), 0)
            runner = doctest.DocTestRunner(optionflags=FLAGS)
            runner.run(test, clear_globs=False)
            assert not runner.failures
            names |= test.globs
        else:
            exec(compile(block, f"{page.name}[{number}]", "exec"), names)


def test_there_are_examples():
    assert blocks(ROOT / "README.md")
    assert blocks(ROOT / "docs" / "conventions.md")


def test_the_contents_of_the_reference_lead_to_its_titles():
    text = reference.FILE.read_text(encoding="utf-8")
    anchors = reference.Anchors()
    titles = re.findall(r"^##+ (.*)$", text, flags=re.M)
    assert set(re.findall(r"\(#([^)]*)\)", text)) == {anchors.of(title) for title in titles}


def test_everything_public_is_in_the_reference():
    text = reference.FILE.read_text(encoding="utf-8")
    for name in bg.__all__:
        assert f"### {name}\n" in text, name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
        made_later = "report/build" in target or target.endswith(".png")
        assert (page.parent / target).exists() or made_later, f"{page.name} links to {target}"


@pytest.mark.parametrize("title", reference.contents())
def test_every_public_function_has_an_example_and_says_what_it_takes_returns_and_raises(title):
    for function, x in reference.exported(reference.contents()[title]):
        if inspect.isfunction(x) and "theorems" not in title:
            assert ">>>" in x.__doc__, function
            for section in ("Args:", "Returns:", "Raises:"):
                assert f"\n    {section}\n" in x.__doc__, f"{function} has no {section}"
