"""Everything that the sections may look at: the theorem table, the evidence, the records. Nothing else is printed."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bayesgrad.evidence import ROOT, BadEvidence, status
from bayesgrad.evidence.status import SYMBOLIC, Fragment
from bayesgrad.evidence.store import parse
from bayesgrad.theorems import Theorem
from report.messages import Messages, messages

NEEDED = ("schema", "experiment", "code", "title", "question", "size", "state", "runs", "claims", "arms")

FAMILIES = {  # prefix of a label -> the family under which it is printed
    "lemma": "lemmas", "bayes": "bayes", "softmax": "head", "loss": "head", "attention": "head",
    "dynamics": "dynamics", "em": "em",
}  # fmt: skip
ORDER = ("lemmas", "bayes", "head", "dynamics", "em")

TONES = {
    "proved": "good", "passed": "good", "supported": "good", "fully-proved": "good", "rejected": "good",
    "all-rejected": "good", "confirmed": "good",
    "refuted": "bad", "failed": "bad", "not-supported": "bad", "survived": "bad", "not-confirmed": "bad",
    "undecided": "warn", "conditional": "warn", "open": "warn", "partial": "warn",
    "not-run": "none", "not-applicable": "none", "not-tested": "none",
}  # fmt: skip


@dataclass(frozen=True)
class Context:
    """What a rendering is made from."""

    theorems: tuple[Theorem, ...]
    evidence: Mapping[str, Any]
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    only: str = ""
    fragments: Mapping[str, Fragment] = field(default_factory=dict)
    gallery: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> Messages:
        """The catalogue of headings and labels."""
        return messages()

    @property
    def results(self) -> Mapping[str, Any]:
        """The merged entry of each label, in the order of the theorem table."""
        return self.evidence["results"]

    @cached_property
    def by_label(self) -> dict[str, Theorem]:
        """The theorem table by label."""
        return {theorem.label: theorem for theorem in self.theorems}

    @cached_property
    def labels(self) -> frozenset[str]:
        """The labels that are printed: all, or the one that was chosen."""
        return frozenset(self.by_label) if not self.only else frozenset([self.only])

    @cached_property
    def families(self) -> dict[str, tuple[Theorem, ...]]:
        """The theorems by family, in the order of the page; families without one are left out."""

        def family(theorem: Theorem) -> str:
            return FAMILIES.get(theorem.label.split(".")[0], "other")

        names = (*ORDER, "other")
        told = {name: tuple(theorem for theorem in self.theorems if family(theorem) == name) for name in names}
        return {name: rows for name, rows in told.items() if rows}

    @cached_property
    def rests_on(self) -> dict[str, tuple[str, ...]]:
        """The graph that carries statuses: what each proof and its Coq twin rest on."""
        return {label: tuple(status.rests_on(result)) for label, result in self.results.items()}

    @cached_property
    def used_by(self) -> dict[str, tuple[str, ...]]:
        """By label the results that rest on it."""
        return {label: tuple(o for o, below in self.rests_on.items() if label in below) for label in self.by_label}

    @cached_property
    def proved(self) -> dict[str, bool]:
        """Who is fully proved, computed here and now."""
        return status.fully_proved(self.theorems, self.results)

    @cached_property
    def rejections(self) -> dict[str, Any]:
        """The wrong laws of each result, each once."""
        return {label: status.rejections(result) for label, result in self.results.items()}

    @cached_property
    def absent(self) -> tuple[tuple[str, str], ...]:
        """The routes without a fragment that counts, and why."""
        return tuple((route, found.reason) for route, found in self.fragments.items() if found.data is None)

    @cached_property
    def failures(self) -> list[tuple[str, str]]:
        """``(label, what went wrong)``, see :func:`bayesgrad.evidence.status.failures`."""
        return status.failures(self.evidence)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Figures of the summary, all counted here."""
        results = self.results.values()
        count = {route: sum(r[route]["verdict"] == "proved" for r in results) for route in SYMBOLIC}
        return {
            "results": len(self.results),
            "fully": sum(self.proved.values()),
            "checked": sum(r["check"]["verdict"] == "passed" for r in results),
            "examples": sum(r["check"]["examples"] for r in results),
            "wrong_laws": sum(found["total"] for found in self.rejections.values()),
            "rejected": sum(found["rejected"] for found in self.rejections.values()),
            "claims": len(self.evidence["claims"]),
            "tested": sum(bool(claim["settled_by"]) for claim in self.evidence["claims"]),
            "supported": sum(
                {cell["verdict"] for cell in claim["cells"]} == {"supported"} for claim in self.evidence["claims"]
            ),
            **count,
        }

    def statement(self, label: str) -> str:
        """What the proof proved where there is a proof, otherwise the table's words."""
        return self.by_label[label].statement

    def status(self, label: str) -> str:
        """The word of the board: fully proved, refuted, or open."""
        result = self.results[label]
        if any(what for name, what in self.failures if name == label):
            return "refuted" if any(result[route]["verdict"] == "refuted" for route in SYMBOLIC) else "failed"
        if self.proved[label]:
            return "fully-proved"
        routes = [result[route]["verdict"] for route in (*SYMBOLIC, "check")]
        return "partial" if any(verdict in ("proved", "passed") for verdict in routes) else "open"

    def missing(self, label: str) -> list[str]:
        """Why a result is not fully proved: what it lacks itself, then what it rests on."""
        if self.proved[label]:
            return []
        lacking = status.lacking(self.by_label[label], self.results[label])
        return lacking + [f"rests on {parent}" for parent in self.rests_on[label] if not self.proved[parent]]


def verdict_id(verdict: str) -> str:
    """The catalogue's id of a verdict word."""
    return verdict.replace(" ", "-")


@dataclass(frozen=True)
class Shipped:
    """A function of the package that implements a result."""

    name: str
    source: str


def shipped(theorem: Theorem) -> list[Shipped]:
    """The source of what implements a result, as it stands in this checkout."""
    found = []
    for item in theorem.implements:
        function = _resolve(item) if isinstance(item, str) else item
        if function is None:
            found.append(Shipped(str(item), ""))
            continue
        own = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"
        name = item if isinstance(item, str) else own  # the public name, wherever the function is defined
        try:
            found.append(Shipped(name, inspect.getsource(inspect.unwrap(function))))
        except (OSError, TypeError):
            found.append(Shipped(name, ""))
    return found


def _resolve(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        return None


GALLERY = ROOT / "checks" / "gallery" / "record.json"


def read_gallery() -> dict[str, Any]:
    """The record of public kernels before the judge; nothing if there is none."""
    found: dict[str, Any] = parse(GALLERY) if GALLERY.is_file() else {}
    return found


def read_records(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The records that the evidence refers to: their path in the checkout -> the record. Raises BadEvidence."""
    named = [*evidence["records"], *(cell.get("record") for claim in evidence["claims"] for cell in claim["cells"])]
    named += [result["observed"]["record"] for result in evidence["results"].values() if result["observed"]]
    found: dict[str, Any] = {}
    for name in sorted({name for name in named if name}):
        path = ROOT / name
        if not os.path.isfile(path):
            continue
        record = parse(path)
        lacking = [key for key in NEEDED if not isinstance(record, dict) or key not in record]
        if lacking:
            raise BadEvidence(
                f"{path}: no record of an experiment ({', '.join(lacking)} missing); run the experiment again"
            )
        if record["schema"] != 1:
            raise BadEvidence(f"{path}: schema {record['schema']!r}, expected 1; run the experiment again")
        found[name] = record
    return dict(sorted(found.items(), key=lambda item: (item[1]["code"], item[1]["size"])))
